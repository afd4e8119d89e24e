use super::*;
use crate::plan::Plan;

/// A device of so many pages for so many threads; `None` where there is no direct I/O.
fn device(dir: &Path, pages: u64, threads: usize) -> Option<Device> {
    let (value_size, durability) = (100, Durability::Sync);
    let conditions = Conditions { threads, value_size, durability, ..Plan::usual().conditions };
    Device::with_pages(pages, dir, &conditions)
        .inspect_err(|error| eprintln!("skipped, no direct I/O here: {error}"))
        .ok()
}

#[test]
fn a_lookup_reads_one_page_and_sees_a_changed_one() {
    let dir = tempfile::tempdir().unwrap();
    let Some(device) = device(dir.path(), 31, 1) else { return };
    assert_eq!(device.file.metadata().unwrap().len(), device.pages * PAGE_BYTES as u64);
    let mut session = device.session(Access::Read).unwrap();
    let mut value = Vec::new();
    for record in 0..100 {
        let key = records::key(record);
        assert!(session.get(&key, &mut value).unwrap());
        assert!(records::is_value_of(key, &value, 100));
    }
    assert_eq!(device.device_stats().unwrap().reads, 100);

    let other = OpenOptions::new().write(true).open(dir.path().join("device")).unwrap();
    other.write_all_at(&vec![0xff; device.pages as usize * PAGE_BYTES], 0).unwrap();
    other.sync_all().unwrap();
    assert!(session.get(&records::key(1), &mut value).is_err());
}

#[test]
fn writers_go_round_in_regions_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let Some(device) = device(dir.path(), 10, 3) else { return };
    let bytes = || std::fs::read(dir.path().join("device")).unwrap();
    // Regions of 3, 3 and 4 pages; the sessions of the first phase are gone, those of the
    // second begin with the first region again.
    drop([Access::Mixed; 3].map(|access| device.session(access).unwrap()));
    let mut sessions = [Access::Mixed; 3].map(|access| device.session(access).unwrap());
    for (session, region) in sessions.iter_mut().zip([0..3, 3..6, 6..10]) {
        let before = bytes();
        // More than once round.
        (0..5).for_each(|record| session.put(&records::key(record), &[]).unwrap());
        let after = bytes();
        for number in 0..10 {
            let page = number * PAGE_BYTES..(number + 1) * PAGE_BYTES;
            let changed = before[page.clone()] != after[page.clone()];
            assert_eq!(changed, region.contains(&number), "page {number}");
            assert_eq!(after[page][..8], (number as u64).to_le_bytes());
        }
    }
    assert_eq!(device.device_stats().unwrap().writes, 15);
    assert!(sessions[0].put_batch(&[]).is_err());
    // Lookups still find each page in its place.
    let mut reader = device.session(Access::Read).unwrap();
    let mut value = Vec::new();
    (0..100).for_each(|record| assert!(reader.get(&records::key(record), &mut value).unwrap()));
}
