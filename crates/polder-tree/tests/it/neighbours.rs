//! A cursor goes from leaf to leaf by numbers that it has remembered: not to one that was freed.

use std::ops::Bound;

use polder_format::PageSize;
use polder_pool::{AccessHint, Array, Hash, ReadMode, Simd, Swizzle, Translation};
use polder_testkit::Random;
use polder_testkit::effort::EVERY_TRANSLATION;
use polder_tree::{Place, Tree};

use crate::support::*;

const ENTRIES: u64 = 600;
/// One in so many keys stays.
const STAYS: u64 = 100;

fn step<T: Translation>(place: &mut Place, tree: &Tree<T>, forward: bool) -> Option<u64> {
    let entry = match forward {
        true => place.next(tree, Bound::Unbounded).unwrap(),
        false => place.previous(tree, Bound::Unbounded).unwrap(),
    };
    entry.map(|(key, _)| u64::from_be_bytes(key.try_into().unwrap()))
}

fn begin<T: Translation>(tree: &Tree<T>, forward: bool) -> Place {
    match forward {
        true => Place::above(tree, Bound::Unbounded).unwrap(),
        false => Place::below(tree, Bound::Unbounded).unwrap(),
    }
}

/// Stands at the end of its third leaf; gives how many entries it has given.
fn at_the_end_of_a_leaf<T: Translation>(tree: &Tree<T>, forward: bool) -> (Place, u64) {
    let hits = || tree.space().pool().stats().hits;
    let (mut twin, mut given, mut leaves) = (begin(tree, forward), 0, 0);
    loop {
        let before = hits();
        step(&mut twin, tree, forward).unwrap();
        leaves += u64::from(hits() > before);
        if leaves == 3 {
            break;
        }
        given += 1;
    }
    let mut place = begin(tree, forward);
    (0..given).for_each(|_| assert!(step(&mut place, tree, forward).is_some()));
    (place, given)
}

/// The leaves behind the one at which the cursor stands are merged away, and come back into memory as
/// they were on the device, by a fault that came too late; or their numbers are other nodes' by then.
fn freed<T: Translation>(mode: ReadMode, forward: bool, reuse: bool) {
    let disk = disk();
    let (pool, tree) = new_tree_held::<T>(&disk, PageSize::MIN, mode);
    for i in 0..ENTRIES {
        tree.insert(&i.to_be_bytes(), &[i as u8; 100], i + 1).unwrap();
    }
    pool.flush().unwrap();
    let (mut place, given) = at_the_end_of_a_leaf(&tree, forward);
    let space = tree.space();
    let before = space.used_pages().unwrap();
    for i in (0..ENTRIES).filter(|i| i % STAYS != 0) {
        tree.remove(&i.to_be_bytes()).unwrap();
    }
    let after = space.used_pages().unwrap();
    let freed: Vec<_> = before.into_iter().filter(|page| !after.contains(page)).collect();
    assert!(freed.len() > 8, "{freed:?}");
    let mut expected: Vec<u64> = (0..ENTRIES).step_by(STAYS as usize).collect();
    if reuse {
        // Above all that the cursor comes to, or has come to.
        for i in 2 * ENTRIES..4 * ENTRIES {
            tree.insert(&i.to_be_bytes(), &[i as u8; 100], i + 1).unwrap();
        }
        let now = space.used_pages().unwrap();
        assert!(freed.iter().all(|page| now.contains(page)));
        expected.extend(2 * ENTRIES..4 * ENTRIES);
    } else {
        for page in &freed {
            let loaded = space.run(AccessHint::Normal, |attempt| {
                let page = space.page(attempt, *page)?;
                page.validate()
            });
            loaded.unwrap();
            assert!(space.is_resident(*page));
        }
    }
    match forward {
        true => expected.retain(|i| *i >= given),
        false => {
            expected.retain(|i| *i < ENTRIES - given);
            expected.reverse();
        }
    }
    let found: Vec<u64> = std::iter::from_fn(|| step(&mut place, &tree, forward)).collect();
    assert_eq!(found, expected, "{}, {mode:?}, forward {forward}, reuse {reuse}", T::NAME);
    let counted = tree.count(Bound::Unbounded, Bound::Unbounded).unwrap();
    assert_sound(&tree, counted);
}

#[test]
fn a_leaf_that_was_freed_is_not_believed() {
    for (forward, reuse) in [(true, false), (true, true), (false, false), (false, true)] {
        for mode in [ReadMode::Optimistic, ReadMode::Shared, ReadMode::Group, ReadMode::Copy] {
            freed::<Array>(mode, forward, reuse);
            if EVERY_TRANSLATION {
                freed::<Simd>(mode, forward, reuse);
            }
        }
        freed::<Swizzle>(ReadMode::Optimistic, forward, reuse);
        if EVERY_TRANSLATION {
            freed::<Hash>(ReadMode::Optimistic, forward, reuse);
        }
    }
}

/// A leaf that was split since its number was read is not the one that borders, to the left.
#[test]
fn a_leaf_that_was_split_is_gone_through_whole() {
    for forward in [true, false] {
        let disk = disk();
        let (_pool, tree) = new_tree::<Array>(&disk, PageSize::MIN);
        for i in (0..ENTRIES).map(|i| i * 10) {
            tree.insert(&i.to_be_bytes(), &[i as u8; 100], i + 1).unwrap();
        }
        let (mut place, given) = at_the_end_of_a_leaf(&tree, forward);
        for i in (0..10 * ENTRIES).filter(|i| i % 10 != 0) {
            tree.insert(&i.to_be_bytes(), &[i as u8; 100], i + 1).unwrap();
        }
        let last = (given - 1) * 10;
        let found: Vec<u64> = std::iter::from_fn(|| step(&mut place, &tree, forward)).collect();
        // From the fence on, which lies between two of the first keys.
        let beyond = found.len() as u64;
        match forward {
            true => {
                let rest = 10 * ENTRIES - beyond;
                assert!(found.iter().copied().eq(rest..10 * ENTRIES), "{found:?}");
                assert!(last < rest && rest <= last + 10, "{rest} behind {last}");
            }
            false => {
                assert!(found.iter().copied().eq((0..beyond).rev()), "{found:?}");
                let first = 10 * (ENTRIES - given);
                assert!(beyond <= first && first <= beyond + 10, "{beyond} before {first}");
            }
        }
    }
}

/// In a leaf, at its parts, and from one leaf to the next; some values have pages of their own.
#[test]
fn a_cursor_turns_anywhere() {
    let disk = disk();
    let (_pool, tree) = new_tree::<Array>(&disk, PageSize::MIN);
    let len = |key: u64| if key % 50 == 8 { 3000 } else { (key % 190) as usize };
    for key in (0..2 * ENTRIES).step_by(2) {
        tree.insert(&key.to_be_bytes(), &vec![key as u8; len(key)], key + 1).unwrap();
    }
    let mut random = Random::new(7);
    for _ in 0..200 {
        let mut ends = [random.below(2 * ENTRIES), random.below(2 * ENTRIES)];
        ends.sort_unstable();
        let (begin, end) = (ends[0].to_be_bytes(), ends[1].to_be_bytes());
        let (lower, upper) = (Bound::Included(&begin[..]), Bound::Excluded(&end[..]));
        let keys: Vec<u64> = (ends[0]..ends[1]).filter(|key| key % 2 == 0).collect();
        let (mut place, mut at) = (Place::above(&tree, lower).unwrap(), 0);
        let mut forward = true;
        for _ in 0..300 {
            forward ^= random.chance(0.1);
            let (entry, expected) = match forward {
                true => (place.next(&tree, upper).unwrap(), keys.get(at)),
                false => (place.previous(&tree, lower).unwrap(), keys[..at].last()),
            };
            let expected = expected.map(|key| (key.to_be_bytes(), vec![*key as u8; len(*key)]));
            assert_eq!(entry, expected.as_ref().map(|(key, value)| (&key[..], &value[..])));
            match forward {
                true => at += usize::from(expected.is_some()),
                false => at -= usize::from(expected.is_some()),
            }
        }
    }
}
