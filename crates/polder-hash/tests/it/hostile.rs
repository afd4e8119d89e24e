//! Files that somebody made up: pages with right checksums and wrong contents. Each operation ends, with
//! some answer or with an error.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use polder_format::{ChecksumSeed, PageHeader, PageKind, PageSize, StoreId};
use polder_hash::HashIndex;
use polder_pool::{Array, FileState, Swizzle, Translation};
use polder_testkit::random::scramble;
use polder_testkit::{FaultPlan, Random, SimDisk};

use crate::support::*;

const PAGE: usize = 4096;
/// No file keeps the operations busy for longer, not even on a machine that has much else to do.
const DEADLINE: Duration = Duration::from_secs(60);

fn key(number: u64) -> Vec<u8> {
    match number % 6 {
        0 => key_with_hash((number % 4) << 60, number),
        _ => scramble(number).to_le_bytes().to_vec(),
    }
}

/// A file with an index that has levels and chains, and where in it the index's pages are.
fn sample() -> (Vec<u8>, FileState, Vec<usize>) {
    let disk = disk();
    let (pool, index) = new_index::<Array>(&disk, PageSize::MIN);
    for number in 0..4000 {
        let _ = index.insert(&key(number), &vec![number as u8; 50 + number as usize % 800]);
    }
    let report = index.check(&mut |_| true).unwrap();
    assert!(report.faults.is_empty() && report.levels >= 2, "{report:?}");
    pool.flush().unwrap();
    let image = disk.image();
    let of_index = |at: &usize| {
        let header = PageHeader::decode(&image[*at..*at + PAGE]).unwrap();
        let kinds = [PageKind::HASH_NODE, PageKind::HASH_BUCKET];
        header.page_id.space() == SPACE && kinds.contains(&header.kind)
    };
    let pages: Vec<_> = (65_536..image.len()).step_by(PAGE).filter(of_index).collect();
    assert_eq!(pages.len() as u64, report.pages);
    (image.clone(), pool.file_state(), pages)
}

/// Changes a page: a few bytes, bits, or words that are links elsewhere.
fn damage(page: &mut [u8], other: &[u8], random: &mut Random) {
    for _ in 0..1 + random.below(3) {
        let most = [24, 64, 400, PAGE - 40][random.index(4)];
        let at = 32 + random.index(most);
        match random.below(4) {
            0 => page[at] = random.next_u64() as u8,
            1 => page[at] ^= 1 << random.below(8),
            2 => page[at] = 0,
            _ => {
                let at = at & !7;
                page[at..at + 8].copy_from_slice(&other[at..at + 8]);
            }
        }
    }
}

fn use_all<T: Translation>(index: &HashIndex<T>, random: &mut Random) {
    for _ in 0..300 {
        let key = key(random.below(8000));
        let _ = index.get(&key).map(drop);
        let _ = index.get_with(&key, |_| ());
        let _ = match random.below(3) {
            0 => index.remove(&key).map(drop),
            _ => index.insert(&key, &vec![1; random.index(900)]).map(drop),
        };
    }
    let mut cursor = index.cursor();
    let mut progress = 0.0;
    while let Ok(Some(_)) = cursor.next() {
        assert!(cursor.progress() >= progress, "the cursor goes back");
        progress = cursor.progress();
    }
    let _ = index.check(&mut |_| true);
}

/// Tries as many files in a thread of its own, and waits for none of them longer than for the deadline.
fn rounds<T: Translation>(times: u64) {
    let (begin, begun) = mpsc::channel();
    let work = thread::spawn(move || try_files::<T>(times, &begin));
    let mut round = 0;
    loop {
        match begun.recv_timeout(DEADLINE) {
            Ok(next) => round = next,
            Err(RecvTimeoutError::Timeout) => panic!("file {round}: an operation does not end"),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    assert!(work.join().is_ok(), "file {round}: see above");
}

fn try_files<T: Translation>(times: u64, begin: &mpsc::Sender<u64>) {
    let (image, file, pages) = sample();
    let seed = ChecksumSeed::new(StoreId([1; 16]));
    for round in 0..times * scale() {
        begin.send(round).unwrap();
        let mut random = Random::new(round);
        let mut image = image.clone();
        for _ in 0..1 + random.below(4) {
            // The root and the nodes are what hurts most.
            let among = if random.chance(0.5) { 4 } else { pages.len() };
            let (at, other) = (pages[random.index(among)], pages[random.index(pages.len())]);
            let other = image[other..other + PAGE].to_vec();
            let page = &mut image[at..at + PAGE];
            match random.below(8) {
                // A whole page of the index in the place of another.
                0 => page[32..].copy_from_slice(&other[32..]),
                _ => damage(page, &other, &mut random),
            }
            seed.seal(page);
        }
        let disk = SimDisk::from_image(&image, FaultPlan::new(1));
        let pool = open_pool::<T>(&disk, &config::<T>(PageSize::MIN, file));
        use_all(&HashIndex::open(pool.open_space(SPACE).unwrap()), &mut random);
    }
}

#[test]
fn no_file_makes_an_operation_panic_or_go_on_for_ever() {
    rounds::<Array>(400);
}

#[test]
fn nor_one_whose_links_hold_frames() {
    rounds::<Swizzle>(200);
}
