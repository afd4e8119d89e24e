use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use polder_format::{PageId, PageNo, SpaceId};
use polder_pool::device::Buffer;

use super::crash::SECTOR_BYTES;
use super::*;

const BLOCK: usize = BLOCK_BYTES as usize;

/// One aligned block.
struct Block(NonNull<u8>);

impl Block {
    fn layout() -> Layout {
        Layout::from_size_align(BLOCK, BLOCK).unwrap()
    }

    fn new(byte: u8) -> Block {
        // SAFETY: the layout is not empty.
        let at = unsafe { alloc_zeroed(Block::layout()) };
        let at = NonNull::new(at).unwrap_or_else(|| handle_alloc_error(Block::layout()));
        // SAFETY: within the allocation, which nobody else knows.
        unsafe { at.write_bytes(byte, BLOCK) };
        Block(at)
    }

    fn bytes(&self) -> Vec<u8> {
        // SAFETY: allocated and filled; the tests look only when no request is under way.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr(), BLOCK) }.to_vec()
    }

    fn request(&self, direction: Direction, block: u64) -> Request {
        let page = PageId::new(SpaceId::CATALOGUE, PageNo::new(block).unwrap());
        // SAFETY: the allocation outlives the request in these tests.
        let buffer = unsafe { Buffer::new(self.0, BLOCK) };
        Request::new(direction, page, block * BLOCK_BYTES, buffer)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.0.as_ptr(), Block::layout()) };
    }
}

fn run_one(disk: &SimDisk, request: Request) -> io::Result<()> {
    disk.perform(Batch::One(request)).outcome()
}

fn write(disk: &SimDisk, block: u64, byte: u8) -> io::Result<()> {
    run_one(disk, Block::new(byte).request(Direction::Write, block))
}

fn read(disk: &SimDisk, block: u64) -> io::Result<Vec<u8>> {
    let memory = Block::new(0);
    run_one(disk, memory.request(Direction::Read, block))?;
    Ok(memory.bytes())
}

fn errno(result: io::Result<impl Sized>) -> Option<Errno> {
    result.err().and_then(|error| error.raw_os_error()).map(Errno)
}

fn new_disk() -> SimDisk {
    SimDisk::new(FaultPlan::new(1))
}

#[test]
fn without_faults_it_is_a_file() {
    let disk = new_disk();
    assert!(disk.is_empty().unwrap());
    write(&disk, 3, 7).unwrap();
    assert_eq!(disk.len().unwrap(), 4 * BLOCK_BYTES);
    assert_eq!(read(&disk, 3).unwrap(), [7; BLOCK]);
    assert_eq!(read(&disk, 0).unwrap(), [0; BLOCK]);
    assert_eq!(read(&disk, 4).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    disk.allocate(8 * BLOCK_BYTES, BLOCK_BYTES).unwrap();
    assert_eq!(read(&disk, 8).unwrap(), [0; BLOCK]);
    assert_eq!(disk.allocated_bytes(), 2 * BLOCK_BYTES);
    disk.punch(3 * BLOCK_BYTES, BLOCK_BYTES).unwrap();
    assert_eq!(read(&disk, 3).unwrap(), [0; BLOCK]);
    disk.truncate(4 * BLOCK_BYTES).unwrap();
    assert_eq!((disk.len().unwrap(), disk.allocated_bytes()), (4 * BLOCK_BYTES, 0));
    let copy = SimDisk::from_image(&disk.image(), FaultPlan::new(1));
    assert_eq!(copy.crash(5).image(), disk.image());
    let counts = disk.counts();
    assert_eq!((counts.reads, counts.writes, counts.failures), (5, 1, 1));
    assert_eq!((counts.read_bytes, counts.written_bytes), (4 * BLOCK_BYTES, BLOCK_BYTES));
}

#[test]
fn every_operation_fails_when_the_plan_says_so() {
    let disk = new_disk();
    write(&disk, 0, 1).unwrap();
    for errno_wanted in [Errno::IO, Errno::NO_SPACE] {
        let calls: [(Operation, &dyn Fn() -> io::Result<()>); 6] = [
            (Operation::Read, &|| read(&disk, 0).map(drop)),
            (Operation::Write, &|| write(&disk, 0, 1)),
            (Operation::Sync, &|| disk.sync()),
            (Operation::Allocate, &|| disk.allocate(0, BLOCK_BYTES)),
            (Operation::Truncate, &|| disk.truncate(BLOCK_BYTES)),
            (Operation::Punch, &|| disk.punch(BLOCK_BYTES, BLOCK_BYTES)),
        ];
        for (operation, call) in calls {
            disk.set_plan(FaultPlan::new(1).fail(operation, When::Nth(2), errno_wanted));
            let errors: Vec<_> = (0..4).map(|_| errno(call())).collect();
            assert_eq!(errors, [None, None, Some(errno_wanted), None], "{operation:?}");
            disk.set_plan(FaultPlan::new(1).fail(operation, When::From(1), errno_wanted));
            assert_eq!([call().is_ok(), call().is_ok(), call().is_ok()], [true, false, false]);
            disk.set_plan(FaultPlan::new(1).fail(operation, When::Share(0.5), errno_wanted));
            let failures = (0..200).filter(|_| call().is_err()).count();
            assert!((70..130).contains(&failures), "{operation:?} failed {failures} times");
        }
        for (other, call) in calls {
            disk.set_plan(FaultPlan::new(1).fail(Operation::Read, When::From(0), errno_wanted));
            assert_eq!(call().is_err(), other == Operation::Read, "{other:?}");
        }
    }
}

#[test]
fn what_fails_leaves_a_mess() {
    let disk = new_disk();
    write(&disk, 0, 1).unwrap();
    let plan = FaultPlan::new(4).fail(Operation::Read, When::Nth(0), Errno::IO);
    disk.set_plan(plan.fail(Operation::Write, When::Nth(0), Errno::IO));
    let memory = Block::new(9);
    assert!(run_one(&disk, memory.request(Direction::Read, 0)).is_err());
    assert!(memory.bytes() != [9; BLOCK] && memory.bytes() != [1; BLOCK]);
    assert!(write(&disk, 0, 2).is_err());
    let left = read(&disk, 0).unwrap();
    assert!(left.contains(&1) && left.contains(&2), "a failed write is torn");
}

#[test]
fn a_full_disk_refuses_what_is_new_and_takes_what_is_old() {
    let disk = SimDisk::new(FaultPlan::new(1).capacity(4 * BLOCK_BYTES));
    disk.allocate(0, 3 * BLOCK_BYTES).unwrap();
    assert_eq!(errno(disk.allocate(0, 5 * BLOCK_BYTES)), Some(Errno::NO_SPACE));
    disk.allocate(0, 4 * BLOCK_BYTES).unwrap();
    assert_eq!(errno(write(&disk, 4, 1)), Some(Errno::NO_SPACE));
    for block in 0..4 {
        write(&disk, block, 1).unwrap();
    }
    disk.sync().unwrap();
    let full = disk.crash(1);
    assert_eq!(errno(write(&full, 4, 1)), Some(Errno::NO_SPACE));
    disk.punch(BLOCK_BYTES, BLOCK_BYTES).unwrap();
    write(&disk, 4, 1).unwrap();
    disk.set_plan(FaultPlan::new(1));
    write(&disk, 1, 1).unwrap();
}

#[test]
fn delayed_batches_complete_in_any_order_and_are_seen_then() {
    let mut orders = Vec::new();
    for seed in 0..20 {
        let disk = new_disk();
        write(&disk, 7, 0).unwrap();
        disk.set_plan(FaultPlan::new(seed).delay(1.0, Duration::from_micros(20)));
        let memory: Vec<_> = (1..=8).map(Block::new).collect();
        let mut begun: Vec<_> = memory
            .iter()
            .map(|memory| disk.begin(Batch::One(memory.request(Direction::Write, 0))))
            .collect();
        assert!(begun.iter().all(|number| disk.state().pending.contains_key(number)));
        assert_eq!(disk.peek(0, 1), [0], "nothing is done before somebody waits for it");
        disk.end(begun.remove(3), Duration::ZERO).outcome().unwrap();
        let first = disk.peek(0, 1);
        begun.into_iter().for_each(|number| disk.end(number, Duration::ZERO).outcome().unwrap());
        orders.push((first, disk.peek(0, 1)));
        assert_eq!(disk.counts().delayed, 8);
    }
    orders.sort();
    orders.dedup();
    assert!(orders.len() > 5, "different seeds, different orders: {orders:?}");
}

#[test]
fn what_is_synced_survives_and_the_rest_may_go_any_way() {
    let (mut kept, mut dropped, mut torn, mut garbage, mut reordered) = (0, 0, 0, 0, 0);
    for seed in 0..200 {
        let disk = new_disk();
        (0..8).for_each(|block| write(&disk, block, 1).unwrap());
        disk.sync().unwrap();
        (4..8).for_each(|block| write(&disk, block, 2).unwrap());
        assert_eq!(disk.unsynced_changes(), 4);
        let after = disk.crash(seed);
        assert_eq!(after.image(), disk.crash(seed).image(), "the seed decides");
        assert_eq!(after.unsynced_changes(), 0);
        for block in 0..4 {
            assert_eq!(read(&after, block).unwrap(), [1; BLOCK], "synced");
        }
        let mut last_dropped = false;
        for block in 4..8 {
            let bytes = read(&after, block).unwrap();
            let new = bytes == [2; BLOCK];
            let old = bytes == [1; BLOCK];
            kept += u32::from(new);
            dropped += u32::from(old);
            reordered += u32::from(new && last_dropped);
            last_dropped = old;
            for sector in bytes.chunks(SECTOR_BYTES) {
                let whole = sector.iter().all(|&byte| byte == sector[0]);
                garbage += u32::from(!whole);
            }
            torn += u32::from(bytes.contains(&1) && bytes.contains(&2));
        }
    }
    assert!([kept, dropped, torn, garbage, reordered].iter().all(|&count| count > 20));
}

#[test]
fn a_crash_cuts_off_changes_of_length_and_allocation() {
    let mut lengths = Vec::new();
    for seed in 0..100 {
        let disk = new_disk();
        disk.allocate(0, BLOCK_BYTES).unwrap();
        disk.sync().unwrap();
        disk.allocate(0, 2 * BLOCK_BYTES).unwrap();
        disk.truncate(0).unwrap();
        disk.allocate(0, 3 * BLOCK_BYTES).unwrap();
        lengths.push(disk.crash(seed).len().unwrap() / BLOCK_BYTES);
    }
    lengths.sort_unstable();
    lengths.dedup();
    assert_eq!(lengths, [0, 1, 2, 3]);
}

#[test]
fn a_crash_takes_what_is_under_way_or_not() {
    let mut seen = Vec::new();
    for seed in 0..50 {
        let disk = new_disk();
        write(&disk, 0, 1).unwrap();
        disk.sync().unwrap();
        disk.set_plan(FaultPlan::new(1).delay(1.0, Duration::ZERO));
        let memory = Block::new(2);
        let begun = disk.begin(Batch::One(memory.request(Direction::Write, 0)));
        let after = read(&disk.crash(seed), 0).unwrap();
        seen.push((after.contains(&1), after.contains(&2)));
        disk.end(begun, Duration::ZERO).outcome().unwrap();
    }
    for case in [(true, false), (false, true), (true, true)] {
        assert!(seen.contains(&case), "{case:?}");
    }
}

#[test]
fn a_failed_sync_is_not_mended_by_a_good_one() {
    let mut lost = 0;
    for seed in 0..50 {
        let disk = new_disk();
        write(&disk, 0, 1).unwrap();
        disk.sync().unwrap();
        write(&disk, 0, 2).unwrap();
        disk.set_plan(FaultPlan::new(seed).fail(Operation::Sync, When::Nth(0), Errno::IO));
        assert_eq!(errno(disk.sync()), Some(Errno::IO));
        disk.sync().unwrap();
        assert_eq!(read(&disk, 0).unwrap(), [2; BLOCK], "it still looks well");
        lost += u32::from(read(&disk.crash(seed), 0).unwrap() != [2; BLOCK]);
        write(&disk, 0, 3).unwrap();
        disk.sync().unwrap();
        assert_eq!(read(&disk.crash(seed), 0).unwrap(), [3; BLOCK], "writing again helps");
    }
    assert!((10..50).contains(&lost), "{lost}");
}

#[test]
fn rot_is_durable() {
    let disk = new_disk();
    write(&disk, 0, 0).unwrap();
    disk.sync().unwrap();
    disk.flip_bit(100, 3);
    assert_eq!(read(&disk, 0).unwrap()[100], 8);
    disk.corrupt(512, 100, 9);
    let after = read(&disk.crash(0), 0).unwrap();
    assert_eq!(after[100], 8);
    assert_eq!(after.iter().filter(|&&byte| byte == 0).count() / 100, (BLOCK - 101) / 100);
    assert_eq!(read(&disk, 0).unwrap(), after);
}

#[test]
fn old_writes_become_durable_by_themselves() {
    let disk = new_disk();
    let blocks = 2 * UNSYNCED_BYTES_MAX / BLOCK_BYTES;
    (0..blocks).for_each(|block| write(&disk, block, 1).unwrap());
    assert_eq!(disk.unsynced_changes() as u64, UNSYNCED_BYTES_MAX / BLOCK_BYTES);
    assert_eq!(read(&disk.crash(3), 0).unwrap(), [1; BLOCK]);
}

/// The same seeds and calls do the same (`SIM-3`).
#[test]
fn a_seed_repeats_a_whole_run() {
    let run = |seed| {
        let plan = FaultPlan::new(seed).fail(Operation::Write, When::Share(0.3), Errno::IO);
        let disk = SimDisk::new(plan.delay(0.5, Duration::ZERO));
        let results: Vec<_> = (0..60).map(|i| write(&disk, i % 7, i as u8).is_ok()).collect();
        (results, disk.image(), disk.crash(seed).image(), disk.counts())
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

#[test]
#[should_panic(expected = "SIM-2")]
fn a_request_off_the_grid_panics() {
    let memory = Block::new(0);
    let mut request = memory.request(Direction::Write, 0);
    request.offset = 512;
    let _ = new_disk().perform(Batch::One(request));
}

#[test]
fn a_kill_loses_nothing_and_makes_nothing_durable() {
    let disk = SimDisk::new(FaultPlan::new(1));
    disk.allocate(0, BLOCK_BYTES).unwrap();
    disk.sync().unwrap();
    polder_pool::device::write_block(&disk, 0, &[7; BLOCK]).unwrap();
    let [killed] = SimDisk::kill_all([&disk], 2);
    assert_eq!((killed.image(), killed.unsynced_changes()), (vec![7; BLOCK], 1));
    let is_lost = |seed| killed.crash(seed).image() == vec![0; BLOCK];
    assert!((0..50).any(is_lost), "it is durable");
    killed.sync().unwrap();
    assert!(!(0..50).any(|seed| killed.crash(seed).image() != vec![7; BLOCK]));
    // The one that was killed goes on by itself.
    assert_eq!(disk.unsynced_changes(), 1);
}
