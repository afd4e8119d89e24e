use super::*;
use std::collections::HashMap;

use polder_format::{PageNo, SpaceId};
use polder_testkit::Random;

#[test]
fn one_instruction_compares_as_a_loop_does() {
    let mut random = Random::new(1);
    for _ in 0..10_000 {
        let bytes: [u64; 2] = [0; 2].map(|_| random.next_u64() & 0x0303_0303_0303_0303);
        for wanted in [0, 1, 3, 4, 0x80, 0xFF] {
            assert_eq!(compare::equal(bytes, wanted), reference::equal(bytes, wanted));
        }
    }
    assert_eq!(reference::equal([0x0500, 5], 5), 0b1_0000_0010);
    assert_eq!(compare::equal([0xFF80_7F01_00FF_8000, 0], 0x80), 0b100_0010);
}

/// A table with few buckets for many pages, so that chains grow and shrink.
#[test]
fn chains_stay_compact() {
    let mut table = SimdTable::new(640).unwrap();
    table.count = 2;
    let page = |n: u64| PageId::new(SpaceId::CATALOGUE, PageNo::new(n).unwrap());
    let mut model: HashMap<u64, u32> = HashMap::new();
    let mut free: Vec<u32> = (1..=640).collect();
    let mut random = Random::new(2);
    for step in 0..20_000 {
        let number = random.index(900) as u64;
        let hash = PageHash::of(page(number));
        if random.index(4) == 0
            && let (Some(frame), Some(to)) = (model.get_mut(&number), free.last_mut())
        {
            table.replace(hash, page(number), FrameId::new(*frame), FrameId::new(*to));
            std::mem::swap(frame, to);
        } else if let Some(frame) = model.remove(&number) {
            table.remove(hash, page(number), FrameId::new(frame));
            free.push(frame);
        } else if let Some(frame) = free.pop() {
            let of = |f: FrameId| model.get(&number) == Some(&f.get());
            let inserted = table.insert(hash, page(number), FrameId::new(frame), of);
            assert_eq!(inserted, Inserted::Entered);
            model.insert(number, frame);
            let of = |f: FrameId| model.get(&number) == Some(&f.get());
            let inserted = table.insert(hash, page(number), FrameId::new(frame), of);
            assert_eq!(inserted, Inserted::Known);
        }
        let in_use = table.overflow_count as usize - table.spare.len();
        assert!(in_use <= model.len() / ENTRIES, "SIMD-2: {in_use} for {}", model.len());
        if step % 100 == 0 {
            for number in 0..900 {
                let id = page(number);
                let mine = |f: FrameId| (model.get(&number) == Some(&f.get())).then_some(f.get());
                let found = table.find(PageHash::of(id), id, mine);
                assert_eq!(found, model.get(&number).copied());
            }
        }
    }
    assert!(model.len() > 100);
}
