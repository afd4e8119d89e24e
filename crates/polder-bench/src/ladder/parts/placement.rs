//! Which pages lie in the frame that they prefer, how many accesses find theirs there, and what
//! moving pages costs (predictive-2026 6.7 and 6.8, figure 11), under uniform lookups:
//! over time from the first lookup on, and once pages have settled.
//!
//! *Allowed* is what hashing allows, whatever the side does: if pages choose frames by chance,
//! `(1 - e^-x) / x` of them can have their own, `x` being pages by frames: a frame that nobody
//! chose stays free or goes to a page that wanted another one. Of pages that choose by their
//! number more can: *possible* are all of them while there are as many frames, else as many as
//! there are frames.

use crate::ladder::prelude::*;

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
    let subject = Subject::<T>::resident(setup, (setup.scale.records / 10).max(20_000))?;
    places(&subject, HALF, &mut measured)?;
    drop(subject);
    let stored = Stored::find(setup, (setup.scale.records / 10).max(100_000))?;
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
        step.drive(1, |_| subject.reader(Dist::Uniform, keys.records))?;
        let moved = moved_bytes(&before, &pool.stats());
        measured.push(
            format!("moved bytes over time, {at}"),
            f64::from(number) * step.seconds,
            moved,
        );
    }
    subject.settle(Dist::Uniform)?;
    let before = pool.stats();
    subject.lookups(1, Dist::Uniform)?;
    let now = pool.stats();
    measured.push("moved bytes", at, moved_bytes(&before, &now));

    let space = tree.space();
    measured.push("pages", at, in_place(space)?.unwrap_or(0.0));
    let load = now.resident_pages as f64 / now.frames.max(1) as f64;
    measured.push("allowed", at, allowed(load));
    measured.push("possible", at, possible(load));

    let mut random = setup.streams.next();
    let mut found = Vec::new();
    for _ in 0..SAMPLES {
        setup.interrupt.check()?;
        let key = keys.key(random.random_range(..keys.records));
        let places = path_to_leaf(tree, &key, |page| space.is_in_preferred_frame(page))?;
        // Accesses that fault are not asked about, as in the paper.
        found.extend(places.into_iter().flatten());
    }
    measured.push("accesses", at, share(&found));
    Ok(())
}

/// Bytes that were copied for each access between the two.
fn moved_bytes(before: &PoolStats, now: &PoolStats) -> f64 {
    let accesses = (now.hits + now.faults).saturating_sub(before.hits + before.faults);
    (now.moved_bytes - before.moved_bytes) as f64 / accesses.max(1) as f64
}

fn share(places: &[bool]) -> f64 {
    places.iter().filter(|is_preferred| **is_preferred).count() as f64 / places.len().max(1) as f64
}

/// The share of pages that hashing lets lie where they prefer.
fn allowed(load: f64) -> f64 {
    if load > 0.0 { -(-load).exp_m1() / load } else { 1.0 }
}

/// The share of pages that lie where they prefer if no two prefer the same frame.
fn possible(load: f64) -> f64 {
    (1.0 / load).min(1.0)
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
        assert!((allowed(0.5) - 0.787).abs() < 0.001);
        assert!((allowed(1.0) - 0.632).abs() < 0.001);
        assert_eq!(allowed(0.0), 1.0);
        assert_eq!([0.0, 0.5, 1.0, 4.0].map(possible), [1.0, 1.0, 1.0, 0.25]);
        assert_eq!(share(&[true, false, true, true]), 0.75);
        assert_eq!(share(&[]), 0.0);
    }
}
