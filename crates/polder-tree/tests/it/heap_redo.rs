//! What the log says of a heap, done again after a crash: at every point of the log, and over a file
//! of which any part was written.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::thread;

use polder_format::log::{Group, LogSeed, Operation, Record, Records};
use polder_format::{ChecksumSeed, Lsn, PageId, PageSize, SpaceId, StoreId};
use polder_pool::journal::{Journal, Outgoing, SharedError};
use polder_pool::{AccessHint, Array, FileState, Pool, PoolConfig, PoolError, Redone};
use polder_testkit::{FaultPlan, Random, SimDisk};
use polder_tree::{Heap, KINDS, redo};

use crate::support::*;

const STORE: StoreId = StoreId([1; 16]);
const FIRST_LSN: u64 = 4096;

/// A log in memory, which is durable at once.
#[derive(Debug, Default)]
struct Memory {
    /// Each group, and where it ends.
    groups: Mutex<Vec<(Lsn, Vec<u8>)>>,
}

impl Memory {
    fn groups(&self) -> Vec<(Lsn, Vec<u8>)> {
        self.groups.lock().unwrap().clone()
    }

    fn len(&self) -> usize {
        self.groups.lock().unwrap().len()
    }
}

impl Journal for Memory {
    fn reserve(&self, _: u64) -> Result<(), SharedError> {
        Ok(())
    }

    fn release(&self, _: u64) {}

    fn append(&self, group: &mut Group, reserved: u64) -> Lsn {
        assert!(group.len() as u64 <= reserved, "more was logged than was reserved");
        let mut groups = self.groups.lock().unwrap();
        let start = groups.last().map_or(Lsn(FIRST_LSN), |(end, _)| *end);
        let bytes = group.seal(LogSeed::new(STORE), start, 0, 1).to_vec();
        let end = Lsn(start.0 + bytes.len() as u64);
        groups.push((end, bytes));
        end
    }

    fn end(&self) -> Lsn {
        self.groups.lock().unwrap().last().map_or(Lsn(FIRST_LSN), |(end, _)| *end)
    }

    fn await_durable(&self, _: Lsn) -> Result<(), SharedError> {
        Ok(())
    }

    fn before_write(&self, _: &[Outgoing<'_>]) -> Result<u64, SharedError> {
        Ok(0)
    }

    fn after_write(&self, _: u64, _: &[PageId]) {}

    fn is_trusted(&self, _: PageId) -> bool {
        true
    }
}

fn logged_pool(
    disk: &SimDisk,
    log: Option<Arc<Memory>>,
    times: u64,
    file: FileState,
) -> Pool<Array> {
    let config = PoolConfig {
        file,
        journal: log.map(|log| log as Arc<dyn Journal>),
        ..PoolConfig::new(
            PoolConfig::least_budget(PageSize::MIN) * times,
            PageSize::MIN,
            ChecksumSeed::new(STORE),
        )
    };
    Pool::open(Box::new(disk.clone()), &config, &KINDS).unwrap()
}

/// As a recovery does it: the maps first, then all other pages. Gives how many records were done.
fn replay(pool: &Pool<Array>, groups: &[(Lsn, Vec<u8>)]) -> usize {
    let mut done = 0;
    let mut pass = |maps: bool| {
        let mut redoing = pool.redoing(redo);
        for (end, bytes) in groups {
            let records: Vec<_> = Records::of_group(bytes).map(Result::unwrap).collect();
            let mut about: Vec<&Record<'_>> = Vec::new();
            for record in &records {
                match record.operation {
                    Operation::Directory { place } if maps => pool.redo_directory(place),
                    Operation::Directory { .. } => {}
                    _ if (record.page.space() == SpaceId::FILE) == maps => about.push(record),
                    _ => {}
                }
            }
            about.sort_by_key(|record| record.page);
            for of_page in about.chunk_by(|a, b| a.page == b.page) {
                let operations: Vec<_> = of_page.iter().map(|r| r.operation.clone()).collect();
                match redoing.redo(of_page[0].page, *end, &operations).unwrap() {
                    Redone::Applied => done += operations.len(),
                    Redone::Known => {}
                    other => panic!("{}: {other:?}", of_page[0].page),
                }
            }
        }
    };
    pass(true);
    pool.redo_backing(&backed(groups)).unwrap();
    pool.redo_maps_done(SPACE, true).unwrap();
    pass(false);
    done
}

/// The runs of physical page numbers that the log says were backed.
fn backed(groups: &[(Lsn, Vec<u8>)]) -> Vec<(u64, u64)> {
    let mut runs = Vec::new();
    for record in groups.iter().flat_map(|(_, bytes)| Records::of_group(bytes)).map(Result::unwrap)
    {
        match record.operation {
            _ if record.page.space() != SpaceId::FILE => {}
            Operation::Patch { backed: pages @ 1.., bytes, .. } => {
                runs.push((u64::from_le_bytes(bytes.try_into().unwrap()), u64::from(pages)));
            }
            Operation::FullPageImage { .. } => runs.push((record.page.page().get(), 1)),
            _ => {}
        }
    }
    runs
}

fn rows_of(heap: &Heap<Array>) -> Vec<Vec<u8>> {
    let mut rows = Vec::new();
    let _ = heap.scan(AccessHint::Normal, |_, row| {
        rows.push(row.to_vec());
        ControlFlow::<()>::Continue(())
    });
    rows
}

fn row(random: &mut Random) -> Vec<u8> {
    let most = if random.chance(0.1) { 4052 } else { 300 };
    let mut row = vec![0; random.index(most + 1)];
    random.fill(&mut row);
    row
}

/// Appends and loads; tells after each step how many groups there were and what the heap held.
fn work(
    heap: &Heap<Array>,
    log: &Memory,
    steps: usize,
    random: &mut Random,
) -> Vec<(usize, Vec<Vec<u8>>)> {
    let mut rows = Vec::new();
    let mut history = vec![(log.len(), rows.clone())];
    for _ in 0..steps {
        if random.chance(0.05) {
            let more: Vec<_> = (0..random.index(40)).map(|_| row(random)).collect();
            heap.bulk_load(&more).unwrap();
            rows.extend(more);
        } else {
            let new = row(random);
            heap.append(&new).unwrap();
            rows.push(new);
        }
        history.push((log.len(), rows.clone()));
    }
    history
}

/// Nothing was written in place yet: what the log has is all there is.
#[test]
fn each_prefix_of_the_log_gives_the_rows_that_were_there() {
    let log = Arc::new(Memory::default());
    let pool = logged_pool(&disk(), Some(Arc::clone(&log)), 16, FileState::NEW);
    let heap = Heap::create(pool.create_space().unwrap()).unwrap();
    let created = log.len();
    let history = work(&heap, &log, 150, &mut Random::new(1));
    let groups = log.groups();
    let mut loads = 0;
    for prefix in 0..=groups.len() {
        let disk = disk();
        let pool = logged_pool(&disk, None, 16, FileState::NEW);
        replay(&pool, &groups[..prefix]);
        let heap = pool.open_space(SPACE).map_err(Into::into).and_then(Heap::open);
        if prefix < created {
            assert!(heap.is_err(), "{prefix} of {created} groups");
            continue;
        }
        let heap = heap.unwrap();
        let (at, rows) = history.iter().rfind(|(at, _)| *at <= prefix).unwrap();
        assert!(rows_of(&heap) == *rows, "after {prefix} groups, {at} of them complete");
        loads += usize::from(*at < prefix);
        // It goes on behind them.
        heap.append(b"more").unwrap();
        let found = rows_of(&heap);
        assert_eq!((found.len(), found.last().unwrap().as_slice()), (rows.len() + 1, &b"more"[..]));
        assert_eq!(pool.check_maps().unwrap(), Vec::<String>::new());
    }
    assert!(loads > 20, "{loads} prefixes end within a load");
}

/// A tiny pool writes pages all the time; whatever of them the file has, the log brings the rest,
/// and what it has already stays as it is.
#[test]
fn the_log_mends_a_file_of_any_age() {
    for seed in 0..8 * scale() {
        let log = Arc::new(Memory::default());
        let disk = disk();
        let pool = logged_pool(&disk, Some(Arc::clone(&log)), 1, FileState::NEW);
        let heap = Heap::create(pool.create_space().unwrap()).unwrap();
        let mut random = Random::new(seed);
        let first = work(&heap, &log, 400, &mut random);
        let older = disk.image();
        let mut rows = first.last().unwrap().1.clone();
        rows.extend(work(&heap, &log, 400, &mut random).pop().unwrap().1);
        let newer = disk.image();
        let groups = log.groups();
        for image in [older, newer] {
            let disk = SimDisk::from_image(&image, FaultPlan::new(1));
            let pool = logged_pool(&disk, None, 1, FileState::NEW);
            let done = replay(&pool, &groups);
            assert!(done > 0);
            let heap = Heap::open(pool.open_space(SPACE).unwrap()).unwrap();
            assert!(rows_of(&heap) == rows, "seed {seed}");
            // What a page has is not done to it again.
            replay(&pool, &groups);
            assert!(rows_of(&heap) == rows, "seed {seed}");
            pool.flush().unwrap();
            let again = logged_pool(&disk, None, 1, pool.file_state());
            let heap = Heap::open(again.open_space(SPACE).unwrap()).unwrap();
            assert!(rows_of(&heap) == rows, "seed {seed}");
        }
    }
}

/// Threads that append and load, most of them in need of new pages, so that all of them want the same
/// allocation map: for each page the order of the log is the order of its changes.
#[test]
fn what_threads_logged_gives_their_rows() {
    for seed in 0..3 * scale() {
        let log = Arc::new(Memory::default());
        let pool = logged_pool(&disk(), Some(Arc::clone(&log)), 1, FileState::NEW);
        let heap = Heap::create(pool.create_space().unwrap()).unwrap();
        thread::scope(|scope| {
            for t in 0..6 {
                let heap = heap.clone();
                scope.spawn(move || {
                    let mut random = Random::new(seed * 8 + t);
                    for _ in 0..300 {
                        if t < 3 {
                            heap.append(&row(&mut random)).unwrap();
                            heap.append(&[t as u8; 4052]).unwrap();
                        } else {
                            heap.bulk_load([row(&mut random), row(&mut random)]).unwrap();
                        }
                    }
                });
            }
        });
        let rows = rows_of(&heap);
        assert_eq!(rows.len(), 6 * 300 * 2);
        let recovered = logged_pool(&disk(), None, 1, FileState::NEW);
        replay(&recovered, &log.groups());
        let heap = Heap::open(recovered.open_space(SPACE).unwrap()).unwrap();
        assert!(rows_of(&heap) == rows, "seed {seed}");
    }
}

/// Records of trees are not about pages of heaps.
#[test]
fn a_record_of_a_tree_is_refused() {
    let log = Arc::new(Memory::default());
    let pool = logged_pool(&disk(), Some(Arc::clone(&log)), 1, FileState::NEW);
    let heap = Heap::create(pool.create_space().unwrap()).unwrap();
    let (id, _) = heap.append(b"row").unwrap();
    let page = PageId::new(heap.space().id(), id.page);
    let later = Lsn(log.end().0 + 8);
    let outcome = pool.redoing(redo).redo(page, later, &[Operation::Remove { key: b"k" }]).unwrap();
    assert!(matches!(outcome, Redone::Suspect(PoolError::Broken { .. })), "{outcome:?}");
}
