//! Heaps against a vector of rows: alone, among threads, after reopening, with faults and damage.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use polder_format::{ChecksumSeed, PageId, PageKind, PageNo, PageSize, StoreId};
use polder_format::{header_at, pages_per_alloc_map};
use polder_pool::{AccessHint, Array, Direct, FileState, Pool, PoolError, Translation};
use polder_testkit::{Errno, FaultPlan, Operation, Random, SimDisk, When};
use polder_tree::{Heap, HeapError, RowId, Tree};

use crate::support::*;

fn new_heap<T: Translation>(disk: &SimDisk, size: PageSize) -> (Pool<T>, Heap<T>) {
    let pool = pool(disk, size, FileState::NEW);
    let heap = Heap::create(pool.create_space().unwrap()).unwrap();
    (pool, heap)
}

fn reopen_heap<T: Translation>(disk: &SimDisk, old: Pool<T>, heap: Heap<T>) -> (Pool<T>, Heap<T>) {
    old.flush().unwrap();
    let (file, size) = (old.file_state(), old.page_size());
    drop((old, heap));
    open_heap(disk, size, file)
}

fn open_heap<T: Translation>(
    disk: &SimDisk,
    size: PageSize,
    file: FileState,
) -> (Pool<T>, Heap<T>) {
    let pool = pool(disk, size, file);
    let heap = Heap::open(pool.open_space(SPACE).unwrap()).unwrap();
    (pool, heap)
}

fn scan<T: Translation>(heap: &Heap<T>, hint: AccessHint) -> Result<Vec<Row>, HeapError> {
    let mut rows = Vec::new();
    let done = heap.scan(hint, |id, row| {
        rows.push((id, row.to_vec()));
        ControlFlow::<()>::Continue(())
    })?;
    assert_eq!(done, ControlFlow::Continue(()));
    Ok(rows)
}

type Row = (RowId, Vec<u8>);

/// All of the model is there, in order, and nothing else.
fn assert_rows<T: Translation>(heap: &Heap<T>, model: &[Row]) {
    for hint in [AccessHint::Normal, AccessHint::Scan] {
        let found = scan(heap, hint).unwrap();
        assert!(found.is_sorted_by_key(|(id, _)| *id));
        assert_eq!(found.len(), model.len());
        assert!(found == model);
    }
    for (id, row) in model {
        assert_eq!(heap.get(*id).unwrap().as_ref(), Some(row));
    }
}

fn some_row(random: &mut Random, most: usize) -> Vec<u8> {
    let len = match random.below(20) {
        0 => most,
        1 => 0,
        2..6 => random.index(most + 1),
        _ => random.index(200),
    };
    let mut row = vec![0; len];
    random.fill(&mut row);
    row
}

/// What a scan finds behind the model is what was loaded.
fn loaded<T: Translation>(heap: &Heap<T>, model: &mut Vec<Row>, rows: Vec<Vec<u8>>) {
    let found = scan(heap, AccessHint::Scan).unwrap();
    let ids = found[model.len()..].iter().map(|(id, _)| *id);
    model.extend(ids.zip(rows));
}

fn life<T: Translation>(size: PageSize, seed: u64) {
    let disk = disk();
    let (mut pool, mut heap) = new_heap::<T>(&disk, size);
    assert_rows(&heap, &[]);
    let mut random = Random::new(seed);
    let mut model: Vec<Row> = Vec::new();
    let most = heap.max_row_len();
    for round in 0..4 * scale() {
        for _ in 0..400 {
            let row = some_row(&mut random, most);
            let (id, _) = heap.append(&row).unwrap();
            model.push((id, row));
            let (id, row) = &model[random.index(model.len())];
            assert_eq!(heap.get(*id).unwrap().as_ref(), Some(row));
        }
        assert_rows(&heap, &model);
        let rows: Vec<_> = (0..random.index(300)).map(|_| some_row(&mut random, most)).collect();
        assert_eq!(heap.bulk_load(&rows).unwrap().0, rows.len() as u64);
        loaded(&heap, &mut model, rows);
        assert_rows(&heap, &model);
        if round % 2 == 1 {
            (pool, heap) = reopen_heap(&disk, pool, heap);
            assert_rows(&heap, &model);
        }
        assert_eq!(pool.check_maps().unwrap(), Vec::<String>::new());
    }
}

#[test]
fn array_small_pages() {
    life::<Array>(PageSize::MIN, 1);
}

#[test]
fn array_large_pages() {
    life::<Array>(PageSize::MAX, 2);
}

#[test]
fn direct_small_pages() {
    life::<Direct>(PageSize::MIN, 3);
}

#[test]
fn direct_large_pages() {
    life::<Direct>(PageSize::MAX, 4);
}

/// The rows of calico-2026 6.4, on pages of 8 KiB.
#[test]
fn pages_are_full() {
    for len in [128, 512, 2048, 6144] {
        let size = pages_of(8192);
        let a_page = (8192 - 40) / (len + 4);
        for bulk in [false, true] {
            let disk = disk();
            let (_pool, heap) = new_heap::<Array>(&disk, size);
            let rows: Vec<_> = (0..3 * a_page + 1).map(|i| vec![i as u8; len]).collect();
            if bulk {
                heap.bulk_load(&rows).unwrap();
            } else {
                rows.iter().for_each(|row| _ = heap.append(row).unwrap());
            }
            // The first page was made with the heap; a load begins behind it.
            let pages = heap.space().used_pages().unwrap().len();
            assert_eq!(pages, if bulk { 5 } else { 4 }, "rows of {len} bytes");
            let found = scan(&heap, AccessHint::Scan).unwrap();
            let last = found.last().unwrap().0.page;
            assert!(found.into_iter().map(|(_, row)| row).eq(rows));
            if a_page > 1 {
                assert_eq!(heap.append(b"").unwrap().0, RowId { page: last, slot: 1 });
            }
        }
    }
}

/// Allocation maps lie among the pages, and are none of the heap's.
#[test]
fn a_heap_is_larger_than_one_allocation_map() {
    let disk = disk();
    let (_pool, heap) = new_heap::<Array>(&disk, PageSize::MIN);
    let per_map = pages_per_alloc_map(PageSize::MIN);
    let most = heap.max_row_len();
    let row = |number: u64| {
        let mut row = vec![0; most];
        row[..8].copy_from_slice(&number.to_le_bytes());
        row
    };
    let rows = per_map + 10;
    assert_eq!(heap.bulk_load((0..rows).map(row)).unwrap().0, rows);
    heap.append(&row(rows)).unwrap();
    let mut next: u64 = 0;
    let _ = heap
        .scan(AccessHint::Scan, |id, found| {
            assert!(id.page.get() % per_map != 0 && id.slot == 0);
            assert_eq!(found[..8], next.to_le_bytes());
            next += 1;
            ControlFlow::<()>::Continue(())
        })
        .unwrap();
    assert_eq!(next, rows + 1);
    for map in [0, per_map] {
        let id = RowId { page: PageNo::new(map).unwrap(), slot: 0 };
        assert_eq!(heap.get(id).unwrap(), None, "an allocation map has no rows");
    }
}

#[test]
fn a_scan_can_be_broken_off() {
    let disk = disk();
    let (_pool, heap) = new_heap::<Array>(&disk, PageSize::MIN);
    heap.bulk_load((0..1000u32).map(u32::to_le_bytes)).unwrap();
    let mut seen = 0;
    let found = heap.scan(AccessHint::Normal, |_, row| {
        seen += 1;
        if row == 700u32.to_le_bytes() {
            ControlFlow::Break("found")
        } else {
            ControlFlow::Continue(())
        }
    });
    assert_eq!((found.unwrap(), seen), (ControlFlow::Break("found"), 701));
}

#[test]
fn what_does_not_fit_or_is_not_there_is_said_so() {
    let disk = disk();
    let (pool, heap) = new_heap::<Array>(&disk, PageSize::MIN);
    let most = heap.max_row_len();
    let (id, _) = heap.append(&vec![7; most]).unwrap();
    let error = heap.append(&vec![7; most + 1]).unwrap_err();
    assert!(
        matches!(error, HeapError::RowTooLong { len, limit } if (len, limit) == (most + 1, most))
    );
    assert!(error.to_string().contains(&most.to_string()), "{error}");
    let pages = heap.space().pages_in_use().unwrap();
    let rows = (0..100).map(|_| vec![1; 1000]).chain([vec![1; most + 1]]);
    assert!(matches!(heap.bulk_load(rows), Err(HeapError::RowTooLong { .. })));
    assert_eq!(heap.space().pages_in_use().unwrap(), pages);
    assert_rows(&heap, &[(id, vec![7; most])]);
    assert_eq!(id.page.get(), 1);
    // The pages of the load that failed are free again.
    let (second, _) = heap.append(&vec![8; most]).unwrap();
    assert_eq!(second.page.get(), 2);
    let model = [(id, vec![7; most]), (second, vec![8; most])];
    assert_eq!(heap.bulk_load(Vec::<Vec<u8>>::new()).unwrap().0, 0);

    let page = |number| PageNo::new(number).unwrap();
    // No such slot, an allocation map, a page that was freed again, one without an extent.
    for (number, slot) in [(1, 1), (0, 0), (3, 0), (15, 3), (1 << 30, 0)] {
        let id = RowId { page: page(number), slot };
        assert_eq!(heap.get(id).unwrap(), None, "{id:?}");
    }

    let tree = Tree::create(pool.create_space().unwrap()).unwrap();
    let is_broken = |result: Result<Heap<Array>, HeapError>| {
        matches!(result, Err(HeapError::Pool(PoolError::Broken { .. })))
    };
    assert!(is_broken(Heap::open(tree.space().clone())));
    assert!(is_broken(Heap::create(tree.space().clone())));
    assert!(is_broken(Heap::create(heap.space().clone())));
    assert!(is_broken(Heap::open(pool.create_space().unwrap())));
    assert_rows(&heap, &model);
}

/// A row that tells which thread wrote it as what, and whose every byte follows from that.
fn tagged(thread: u64, number: u64, len: usize) -> Vec<u8> {
    let mut row = [thread.to_le_bytes(), number.to_le_bytes()].concat();
    row.resize(16 + len, 0);
    Random::new(thread << 32 | number).fill(&mut row[16..]);
    row
}

fn tag_of(row: &[u8]) -> (u64, u64) {
    let number = |at| u64::from_le_bytes(row[at..at + 8].try_into().unwrap());
    let (thread, n) = (number(0), number(8));
    assert!(row == tagged(thread, n, row.len() - 16), "row {n} of thread {thread} is a mix");
    (thread, n)
}

fn appends_beside_scans<T: Translation>(appends: u64) {
    const THREADS: usize = 4;
    /// So many scans come between the first and the last append.
    const SCANS: u64 = 8;
    let disk = disk();
    let (pool, heap) = new_heap::<T>(&disk, PageSize::MIN);
    let done: [AtomicU64; THREADS] = Default::default();
    let scans = AtomicU64::new(0);
    let append = |thread: usize| {
        let (heap, mut random) = (heap.clone(), Random::new(thread as u64));
        let mut ids = Vec::new();
        for number in 0..appends {
            // Not for ever: a scan may have failed.
            let since = Instant::now();
            while scans.load(Ordering::Relaxed) * appends < number * SCANS
                && since.elapsed() < Duration::from_secs(20)
            {
                thread::yield_now();
            }
            let row = tagged(thread as u64, number, random.index(300));
            ids.push((heap.append(&row).unwrap().0, row));
            done[thread].store(number + 1, Ordering::Release);
        }
        ids
    };
    let look = || {
        while scans.load(Ordering::Relaxed) < SCANS {
            let least = [0, 1, 2, 3].map(|thread: usize| done[thread].load(Ordering::Acquire));
            let mut next = [0; THREADS];
            let mut seen = [0; THREADS];
            let _ = heap
                .scan(AccessHint::Scan, |_, row| {
                    let (thread, number) = tag_of(row);
                    assert!(number >= next[thread as usize], "rows of a thread are out of order");
                    next[thread as usize] = number + 1;
                    seen[thread as usize] += u64::from(number < least[thread as usize]);
                    ControlFlow::<()>::Continue(())
                })
                .unwrap();
            assert_eq!(seen, least, "a row that was there before the scan was not seen");
            scans.fetch_add(1, Ordering::Relaxed);
        }
    };
    let mut model = thread::scope(|scope| {
        scope.spawn(look);
        scope.spawn(look);
        let append = &append;
        let threads: Vec<_> = (0..THREADS).map(|t| scope.spawn(move || append(t))).collect();
        threads.into_iter().flat_map(|t| t.join().unwrap()).collect::<Vec<Row>>()
    });
    model.sort();
    let places: BTreeSet<RowId> = model.iter().map(|(id, _)| *id).collect();
    assert_eq!(places.len() as u64, THREADS as u64 * appends, "two rows in one place");
    assert_rows(&heap, &model);
    let (_pool, heap) = reopen_heap(&disk, pool, heap);
    assert_rows(&heap, &model);
}

/// Frames change hands all the time while long rows are copied out of them by more threads than
/// there are cores: those that are interrupted in the middle of it find other pages there.
#[test]
fn threads_read_pages_that_come_and_go() {
    const ROWS: u64 = 400;
    let disk = disk();
    let (_pool, heap) = new_heap::<Array>(&disk, PageSize::MAX);
    let row = |number: u64| number.to_le_bytes().repeat(8000);
    let ids: Vec<_> = (0..ROWS).map(|n| heap.append(&row(n)).unwrap().0).collect();
    // A few words tell: more would be time in which nothing is copied.
    let check = |found: &[u8], number: u64| {
        let mut words = found.chunks(8).step_by(93);
        assert!(words.all(|word| word == number.to_le_bytes()), "not row {number}");
    };
    thread::scope(|scope| {
        for seed in 0..4 {
            let (heap, ids) = (&heap, &ids);
            scope.spawn(move || {
                let mut random = Random::new(seed);
                for _ in 0..10_000 * scale() {
                    let number = random.below(ROWS);
                    check(&heap.get(ids[number as usize]).unwrap().unwrap(), number);
                }
            });
            scope.spawn(move || {
                for _ in 0..50 * scale() {
                    let mut next = 0;
                    let scanned = heap.scan(AccessHint::Normal, |_, found| {
                        check(found, next);
                        next += 1;
                        ControlFlow::<()>::Continue(())
                    });
                    assert_eq!((scanned.unwrap(), next), (ControlFlow::Continue(()), ROWS));
                }
            });
        }
    });
}

#[test]
fn threads_append_while_others_scan() {
    appends_beside_scans::<Array>(3000 * scale());
    appends_beside_scans::<Direct>(2000 * scale());
}

/// Threads that find the page full at the same time make one page, not one each.
#[test]
fn threads_make_no_more_pages_than_needed() {
    let disk = disk();
    let (_pool, heap) = new_heap::<Array>(&disk, PageSize::MIN);
    // Two rows a page: half of all appends find it full.
    let appends = 1000 * scale();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..appends).for_each(|_| _ = heap.append(&[1; 2000]).unwrap()));
        }
    });
    assert_eq!(heap.space().used_pages().unwrap().len() as u64, 4 * appends);
}

/// Loads are there as a whole or not at all, also for readers that look meanwhile.
#[test]
fn a_load_appears_at_once() {
    let disk = disk();
    let (_pool, heap) = new_heap::<Array>(&disk, PageSize::MIN);
    let (scans, ended) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let mut counts = BTreeSet::new();
            while !ended.load(Ordering::Relaxed) {
                counts.insert(scan(&heap, AccessHint::Scan).unwrap().len());
                scans.fetch_add(1, Ordering::Relaxed);
            }
            counts
        });
        // One that begins from now on: the next one may be under way.
        let await_scan = || {
            let before = scans.load(Ordering::Relaxed);
            while scans.load(Ordering::Relaxed) < before + 2 && !looking.is_finished() {
                thread::yield_now();
            }
        };
        for _ in 0..20 {
            let rows = (0..500).map(|number| {
                if number == 250 {
                    await_scan();
                }
                [1; 100]
            });
            assert_eq!(heap.bulk_load(rows).unwrap().0, 500);
            await_scan();
        }
        ended.store(true, Ordering::Relaxed);
        let counts = looking.join().unwrap();
        assert!(counts.into_iter().eq((0..=20).map(|loads| loads * 500)));
    });
}

/// What was refused has not happened, what was acknowledged stays.
#[test]
fn a_device_that_fails_now_and_then() {
    let mut failed = 0;
    for seed in 0..6 * scale() {
        let disk = disk();
        let (pool, heap) = new_heap::<Array>(&disk, PageSize::MIN);
        let mut random = Random::new(seed);
        let mut model: Vec<Row> = Vec::new();
        let plan = FaultPlan::new(seed)
            .fail(Operation::Read, When::Share(0.1), Errno::IO)
            .fail(Operation::Write, When::Share(0.1), Errno::IO)
            .fail(Operation::Allocate, When::Share(0.1), Errno::NO_SPACE);
        disk.set_plan(plan.clone());
        for _ in 0..2500 {
            let row = some_row(&mut random, heap.max_row_len());
            match heap.append(&row) {
                Ok((id, _)) => model.push((id, row)),
                Err(_) => failed += 1,
            }
            if random.chance(0.2) && !model.is_empty() {
                let (id, row) = &model[random.index(model.len())];
                match heap.get(*id) {
                    Ok(found) => assert_eq!(found.as_ref(), Some(row)),
                    Err(_) => failed += 1,
                }
            }
            if random.chance(0.01) {
                let rows: Vec<_> = (0..200).map(|_| some_row(&mut random, 300)).collect();
                if heap.bulk_load(&rows).is_ok() {
                    disk.set_plan(FaultPlan::new(1));
                    loaded(&heap, &mut model, rows);
                    disk.set_plan(plan.clone());
                } else {
                    failed += 1;
                }
            }
        }
        disk.set_plan(FaultPlan::new(1));
        model.sort();
        assert_rows(&heap, &model);
        let (_pool, heap) = reopen_heap(&disk, pool, heap);
        assert_rows(&heap, &model);
    }
    assert!(failed > 10, "{failed} operations met a fault");
}

/// Pages of the file that were changed by somebody else: with a right checksum, so that only the
/// shape can tell, and with a wrong one.
#[test]
fn damaged_pages_are_refused_or_read() {
    let disk = disk();
    let (whole, heap) = new_heap::<Array>(&disk, PageSize::MIN);
    let mut random = Random::new(3);
    let mut ids = Vec::new();
    for _ in 0..300 {
        ids.push(heap.append(&some_row(&mut random, 500)).unwrap().0);
    }
    whole.flush().unwrap();
    let (image, file) = (disk.image(), whole.file_state());
    drop((whole, heap));
    let is_heap = |page: &usize| image[page * 4096 + header_at::KIND] == PageKind::HEAP.0;
    let pages: Vec<usize> = (16..image.len() / 4096).filter(is_heap).collect();
    assert!(pages.len() > 5, "{pages:?}");
    let mut refused = 0;
    let tries = 300 * scale();
    for number in 0..tries {
        let mut image = image.clone();
        let page = pages[random.index(pages.len())] * 4096;
        let page = &mut image[page..page + 4096];
        for _ in 0..1 + random.index(3) {
            let at = match random.below(3) {
                0 => 4 + random.index(36),
                1 => 4095 - random.index(80),
                _ => 4 + random.index(4092),
            };
            page[at] = random.next_u64() as u8;
        }
        if number % 8 != 0 {
            ChecksumSeed::new(StoreId([1; 16])).seal(page);
        }
        let disk = SimDisk::from_image(&image, FaultPlan::new(1));
        let pool = pool::<Array>(&disk, PageSize::MIN, file);
        let is_right = |error: &HeapError| {
            let content = matches!(
                error,
                HeapError::Pool(PoolError::Corrupt { .. } | PoolError::Broken { .. })
            );
            assert!(content, "{error:?}");
        };
        let heap = match Heap::open(pool.open_space(SPACE).unwrap()) {
            Ok(heap) => heap,
            Err(error) => {
                is_right(&error);
                refused += 1;
                continue;
            }
        };
        let scanned = scan(&heap, AccessHint::Scan);
        refused += u64::from(scanned.is_err());
        let _ = scanned.inspect_err(is_right);
        for id in &ids {
            let _ = heap.get(*id).inspect_err(is_right);
        }
        let _ = heap.append(&[1; 100]).inspect_err(is_right);
    }
    assert!(refused > tries / 4 && refused < tries, "{refused} of {tries} were refused");
}

/// A page in use that is sound, and of another kind.
#[test]
fn a_page_of_another_kind_is_told() {
    let disk = disk();
    let (whole, heap) = new_heap::<Array>(&disk, PageSize::MIN);
    let ids = [0; 3].map(|_| heap.append(&[0; 4000]).unwrap().0);
    whole.flush().unwrap();
    let (image, file) = (disk.image(), whole.file_state());
    for (number, id) in ids.iter().enumerate().skip(1) {
        let is_it = |at: &usize| {
            let id_at = at + header_at::PAGE_ID;
            let link = u64::from_le_bytes(image[id_at..id_at + 8].try_into().unwrap());
            PageId::from_link(link) == PageId::new(SPACE, id.page)
        };
        let at = (16 * 4096..image.len()).step_by(4096).find(is_it).unwrap();
        let mut changed = image.clone();
        changed[at + header_at::KIND] = PageKind::OVERFLOW.0;
        ChecksumSeed::new(StoreId([1; 16])).seal(&mut changed[at..at + 4096]);
        let disk = SimDisk::from_image(&changed, FaultPlan::new(1));
        let pool = pool::<Array>(&disk, PageSize::MIN, file);
        let heap = Heap::open(pool.open_space(SPACE).unwrap());
        let told = |error| matches!(error, HeapError::Pool(PoolError::Broken { page, .. }) if page.page() == id.page);
        if number == 2 {
            assert!(told(heap.unwrap_err()), "it is the last one");
        } else {
            let heap = heap.unwrap();
            assert!(told(scan(&heap, AccessHint::Scan).unwrap_err()));
            assert_eq!(heap.get(*id).unwrap(), None);
        }
    }
}
