//! Which pages lie in the frame that they prefer, how many accesses find theirs there, and what moving
//! pages costs (predictive-2026 6.7 and 6.8, figure 11), under uniform lookups: over time from the
//! first lookup on, and once pages have settled.
//!
//! *Allowed* is what hashing allows: if pages choose frames by chance, `(1 - e^-x) / x` of them can have
//! their own, `x` being pages by frames. Of pages that choose by their number more can: *possible* are
//! all of them while there are as many frames, else as many as there are frames.

use polder_format::{PageId, PageNo};
use polder_tree::node::NodeRef;

use crate::ladder::prelude::*;
use crate::records::Key;

/// Pages by frames: resident, and out of memory.
const HALF: f64 = 0.5;
const THREE: f64 = 3.0;
/// Lookups of which each access is looked at.
const SAMPLES: u64 = 20_000;
/// Copied bytes are looked at so often while pages move to their frames.
const STEPS: u32 = 16;
/// Of these, in the time of one measurement.
const STEPS_A_MEASUREMENT: f64 = 4.0;

pub(crate) fn run<T: Translation>(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let mut measured = Measured::default();
    // A tenth is enough to see where pages lie, and little enough that each page is gone to often.
    let records = setup.scale.records / 10;
    let subject = Subject::<T>::resident(setup, records.max(20_000))?;
    places(&subject, HALF, &mut measured)?;
    drop(subject);
    let stored = Stored::find(setup, &[records.max(100_000)])?;
    let frames = stored.bytes as f64 / PAGE.bytes() as f64 / THREE;
    let subject = stored.open::<T>(setup, setup.budget_for::<T>(PAGE, frames as u64)?)?;
    places(&subject, THREE, &mut measured)?;
    Ok(measured)
}

fn places<T: Translation>(
    subject: &Subject<'_, T>,
    at: f64,
    measured: &mut Measured,
) -> Result<(), BenchError> {
    let Subject { setup, tree, pool, keys } = subject;
    (setup.tell)(&format!("{at} times the pool"));
    let step = Setup { seconds: setup.seconds / STEPS_A_MEASUREMENT, ..**setup };
    for number in 1..=STEPS {
        let before = pool.stats();
        step.drive(1, |_| subject.reader(Dist::Uniform))?;
        let ended_at = f64::from(number) * step.seconds;
        let moved = moved_bytes(&before, &pool.stats());
        measured.push(format!("moved bytes over time, {at}"), ended_at, moved);
    }
    subject.settle(Dist::Uniform)?;
    let stats = pool.stats();
    let load = stats.resident_pages as f64 / stats.frames.max(1) as f64;
    measured.push("allowed", at, -(-load).exp_m1() / load);
    measured.push("possible", at, (1.0 / load).min(1.0));
    let space = tree.space();
    let is_there = |page| space.is_in_preferred_frame(page);
    measured.push("pages", at, share(space.used_pages()?.into_iter().filter_map(is_there)));

    let mut random = setup.streams.next();
    let mut found = Vec::new();
    for _ in 0..SAMPLES {
        setup.interrupt.check()?;
        let key = keys.key(random.random_range(..keys.records));
        // Accesses that fault are not asked about, as in the paper.
        each_page_to(tree, &key, |page| found.extend(is_there(page)))?;
    }
    measured.push("accesses", at, share(found));
    Ok(())
}

/// Shows the pages from the root to the leaf that covers a key, each before it is gone to. By steps of
/// our own, since a lookup does not tell.
fn each_page_to<T: Translation>(
    tree: &Tree<T>,
    key: &Key,
    mut look: impl FnMut(PageNo),
) -> Result<(), BenchError> {
    let space = tree.space();
    let mut page = PageNo::new(1);
    while let Some(number) = page {
        look(number);
        page = space.run(AccessHint::Normal, |attempt| {
            let guard = space.page(attempt, number)?;
            let node = NodeRef::new(guard.page());
            let link = (!node.is_leaf()).then(|| guard.page().u64(node.child_at(key)));
            guard.validate()?;
            Ok(link.map(|link| PageId::from_link(link).page()))
        })?;
    }
    Ok(())
}

/// Bytes that were copied for each access between the two.
fn moved_bytes(before: &PoolStats, now: &PoolStats) -> f64 {
    let accesses = (now.hits + now.faults).saturating_sub(before.hits + before.faults);
    (now.moved_bytes - before.moved_bytes) as f64 / accesses.max(1) as f64
}

/// How many of these are so, of all.
fn share(places: impl IntoIterator<Item = bool>) -> f64 {
    let (mut there, mut all) = (0u64, 0u64);
    for is_there in places {
        there += u64::from(is_there);
        all += 1;
    }
    there as f64 / all.max(1) as f64
}

#[cfg(test)]
mod tests {
    use polder_pool::Predictive;

    use super::*;
    use crate::ladder::setup::testing;

    #[test]
    fn copied_bytes_are_those_of_an_access() {
        let mut before = PoolStats::default();
        (before.hits, before.faults, before.moved_bytes) = (10, 10, 4096);
        let mut now = before.clone();
        assert_eq!(moved_bytes(&before, &now), 0.0);
        (now.hits, now.faults, now.moved_bytes) = (1000, 44, 3 * 4096);
        assert_eq!(moved_bytes(&before, &now), 8.0);
    }

    #[test]
    fn copies_are_looked_at_from_the_first_lookup_on() {
        testing::run(|setup| {
            let measured = run::<Predictive>(setup).unwrap();
            for at in [HALF, THREE] {
                let figures = measured.of(&format!("moved bytes over time, {at}"));
                assert_eq!(figures.len(), STEPS as usize);
            }
        });
    }

    #[test]
    fn half_full_pools_allow_four_fifths() {
        testing::run(|setup| {
            let measured = run::<Predictive>(setup).unwrap();
            let of = |metric| measured.of(metric)[0];
            assert!(of("allowed") > 0.75 && of("possible") == 1.0);
            assert!(of("pages") > 0.0 && of("accesses") > 0.0);
        });
        assert_eq!(share([true, false, true, true]), 0.75);
        assert_eq!(share([]), 0.0);
    }
}
