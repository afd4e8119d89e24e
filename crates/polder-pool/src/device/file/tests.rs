use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::os::unix::fs::MetadataExt;
use std::ptr::NonNull;

use polder_format::{PageId, PageNo, SpaceId};

use libc::iovec;

use super::super::{Buffer, Direction};
use super::calls::{advance, is_aligned};
use super::transfer::{JOINED_MAX, READ_MAX, pieces_of};
use super::*;

/// Memory aligned as requests want it.
struct Blocks {
    at: NonNull<u8>,
    layout: Layout,
}

impl Blocks {
    fn new(blocks: usize) -> Blocks {
        let layout = Layout::from_size_align(blocks * BLOCK_BYTES, BLOCK_BYTES).unwrap();
        // SAFETY: the layout is not empty.
        let at = unsafe { alloc_zeroed(layout) };
        Blocks { at: NonNull::new(at).unwrap_or_else(|| handle_alloc_error(layout)), layout }
    }

    fn filled(blocks: usize, seed: usize) -> Blocks {
        let mut memory = Blocks::new(blocks);
        for (i, byte) in memory.bytes_mut().iter_mut().enumerate() {
            *byte = (i / 5 + i / BLOCK_BYTES * 31 + seed) as u8;
        }
        memory
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: allocated with this length and zeroed; no request is under way.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.layout.size()) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.layout.size()) }
    }

    /// A request for `blocks` blocks from block `from` of this memory on.
    fn request(&self, direction: Direction, from: usize, blocks: usize, offset: u64) -> Request {
        assert!((from + blocks) * BLOCK_BYTES <= self.layout.size());
        let page =
            PageId::new(SpaceId::CATALOGUE, PageNo::new(offset / 4096).unwrap_or(PageNo::MAX));
        // SAFETY: within the allocation, which outlives the request in these tests.
        let buffer = unsafe { Buffer::new(self.at.add(from * BLOCK_BYTES), blocks * BLOCK_BYTES) };
        Request::new(direction, page, offset, buffer)
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.at.as_ptr(), self.layout) };
    }
}

fn run(device: &FileDevice, batch: Batch) -> Batch {
    device.perform(batch)
}

fn one(device: &FileDevice, request: Request) -> io::Result<()> {
    match run(device, Batch::One(request)) {
        Batch::One(request) => request.outcome,
        Batch::Many(_) => panic!("one goes in, one comes out"),
    }
}

/// The test on a file in the folder for temporary files, as it comes, buffered, and without rings.
fn on_all(test: impl Fn(&FileDevice, &Path)) {
    for (buffered, rings) in [(false, true), (true, true), (false, false)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        let device = FileDevice::open(&path, OpenKind::Create).unwrap();
        if buffered {
            os::set_direct(&device.calls.file, false).unwrap();
            device.calls.go_on_buffered();
        }
        if !rings {
            device.rings.refuse();
        }
        test(&device, &path);
        assert!(!buffered || !device.is_direct());
    }
}

#[test]
fn a_file_is_made_once_and_opened_only_if_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let missing = FileDevice::open(&path, OpenKind::Existing).unwrap_err();
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    assert!(FileDevice::open(&path, OpenKind::Create).unwrap().is_empty().unwrap());
    let there = FileDevice::open(&path, OpenKind::Create).unwrap_err();
    assert_eq!(there.kind(), io::ErrorKind::AlreadyExists);
    FileDevice::open(&path, OpenKind::Existing).unwrap();
}

#[test]
fn a_lock_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let first = FileDevice::open(&path, OpenKind::Create).unwrap();
    let lock = first.lock(Duration::ZERO).unwrap();
    let second = FileDevice::open(&path, OpenKind::Existing).unwrap();
    let refused = second.lock(Duration::from_millis(5)).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ResourceBusy);
    thread::scope(|scope| {
        scope.spawn(move || {
            thread::sleep(Duration::from_millis(30));
            drop(lock);
        });
        let _second = second.lock(Duration::from_secs(60)).unwrap();
    });
}

#[test]
fn what_is_written_is_read() {
    on_all(|device, path| {
        let (out, back) = (Blocks::filled(3, 1), Blocks::new(3));
        one(device, out.request(Direction::Write, 0, 3, 8192)).unwrap();
        device.sync().unwrap();
        assert_eq!(device.len().unwrap(), 8192 + 3 * 4096);
        let again = FileDevice::open(path, OpenKind::Existing).unwrap();
        one(&again, back.request(Direction::Read, 0, 3, 8192)).unwrap();
        assert_eq!(back.bytes(), out.bytes());
        one(&again, back.request(Direction::Read, 0, 2, 0)).unwrap();
        assert!(back.bytes()[..8192].iter().all(|&byte| byte == 0), "a hole reads as zeros");
    });
}

#[test]
fn a_batch_may_mix_runs_and_directions() {
    on_all(|device, _| {
        let old = Blocks::filled(8, 7);
        one(device, old.request(Direction::Write, 0, 8, 0)).unwrap();
        let (out, back) = (Blocks::filled(8, 50), Blocks::new(4));
        let requests = vec![
            out.request(Direction::Write, 0, 1, 0),     // one run, ...
            out.request(Direction::Write, 1, 2, 4096),  // ... memory adjacent
            out.request(Direction::Write, 7, 1, 12288), // ... and not
            back.request(Direction::Read, 3, 1, 16384), // another direction
            back.request(Direction::Read, 0, 1, 20480), // joined backwards in memory
            back.request(Direction::Read, 1, 1, 4096),  // sees what was written before
            out.request(Direction::Write, 4, 1, 28672), // behind a gap
        ];
        let requests: Vec<_> = (0..).zip(requests).collect();
        assert_eq!(joined(&requests), 3);
        assert_eq!(pieces_of(&requests[..3], &mut Vec::new()), 4 * 4096);
        let requests = requests.into_iter().map(|(_, request)| request).collect();
        let batch = run(device, Batch::Many(requests));
        assert!(batch.requests().iter().all(|request| request.outcome.is_ok()));
        let block = |memory: &Blocks, at: usize| memory.bytes()[at * 4096..][..4096].to_vec();
        assert_eq!(block(&back, 3), block(&old, 4));
        assert_eq!(block(&back, 0), block(&old, 5));
        assert_eq!(block(&back, 1), block(&out, 1));
        let all = Blocks::new(8);
        one(device, all.request(Direction::Read, 0, 8, 0)).unwrap();
        for (at, (from, source)) in
            [(0, &out), (1, &out), (2, &out), (7, &out), (4, &old), (5, &old), (6, &old), (4, &out)]
                .into_iter()
                .enumerate()
        {
            assert_eq!(block(&all, at), block(source, from), "block {at}");
        }
    });
}

#[test]
fn pieces_are_joined_up_to_a_bound() {
    on_all(|device, _| {
        let count = JOINED_MAX + 10;
        let (out, back) = (Blocks::filled(count, 3), Blocks::new(count));
        // Memory backwards, so that every request is a piece of its own.
        let requests = |memory: &Blocks, direction| {
            (0..count)
                .map(|i| memory.request(direction, count - 1 - i, 1, i as u64 * 4096))
                .collect::<Vec<_>>()
        };
        let writes = requests(&out, Direction::Write);
        let numbered: Vec<_> = (0..).zip(requests(&out, Direction::Write)).collect();
        assert_eq!(joined(&numbered), JOINED_MAX);
        let mut pieces = Vec::new();
        assert_eq!(pieces_of(&numbered[..JOINED_MAX], &mut pieces), JOINED_MAX * 4096);
        assert_eq!(pieces.len(), JOINED_MAX);
        assert_eq!(joined(&numbered[JOINED_MAX..]), count - JOINED_MAX);
        let numbered: Vec<_> = (0..).zip(requests(&back, Direction::Read)).collect();
        assert_eq!(joined(&numbered), READ_MAX / 4096);
        assert_eq!(joined(&[(0, back.request(Direction::Read, 0, count, 0))]), 1);
        for requests in [writes, requests(&back, Direction::Read)] {
            let batch = run(device, Batch::Many(requests));
            assert!(batch.requests().iter().all(|request| request.outcome.is_ok()));
        }
        assert_eq!(back.bytes(), out.bytes());
    });
}

/// More transfers than a ring takes at once, each a few pieces; the last ones are behind the end.
#[test]
fn scattered_runs_are_under_way_at_once() {
    on_all(|device, _| {
        let count = 400;
        let (out, back) = (Blocks::filled(count, 3), Blocks::new(count));
        // Two requests, backwards in memory, and a gap behind them.
        let requests = |memory: &Blocks, direction, count| {
            (0..count)
                .map(|i| memory.request(direction, i ^ 1, 1, (i + i / 2) as u64 * 4096))
                .collect::<Vec<_>>()
        };
        let batch = run(device, Batch::Many(requests(&out, Direction::Write, 380)));
        assert!(batch.requests().iter().all(|request| request.outcome.is_ok()));
        let batch = run(device, Batch::Many(requests(&back, Direction::Read, count)));
        for (i, request) in batch.requests().iter().enumerate() {
            let outcome = request.outcome.as_ref().map_err(io::Error::kind);
            let expected = if i < 380 { Ok(&()) } else { Err(io::ErrorKind::UnexpectedEof) };
            assert_eq!(outcome, expected, "{i}");
        }
        assert_eq!(back.bytes()[..380 * 4096], out.bytes()[..380 * 4096]);
        let (idle, in_use) = device.rings.counts();
        assert!(idle <= 1 && in_use == 0, "the one that was made at open is used again");
    });
}

/// More reads than a queue has places for; those at the end are behind that of the file. Some are under
/// way when the queue is dropped.
#[test]
fn reads_of_a_queue_come_back_by_number() {
    on_all(|device, _| {
        let (count, there) = (200, 190);
        let (out, back) = (Blocks::filled(count, 5), Blocks::new(count));
        let write = out.request(Direction::Write, 0, there, 0);
        one(device, write).unwrap();
        let (mut queue, mut done) = (device.queue(), Vec::new());
        queue.reap(true, &mut done);
        assert!(done.is_empty(), "nothing is under way");
        let mut pushed = 0;
        while pushed < count || done.len() < count {
            for _ in 0..17.min(count - pushed) {
                let at = pushed * 7 % count;
                let read = back.request(Direction::Read, at, 1, at as u64 * 4096);
                queue.push(at as u64, read);
                pushed += 1;
            }
            let before = done.len();
            queue.reap(pushed == count, &mut done);
            assert!(pushed < count || done.len() > before, "a wait is for one read at least");
        }
        assert_eq!(back.bytes()[..there * 4096], out.bytes()[..there * 4096]);
        done.sort_by_key(|(number, _)| *number);
        for (i, (number, read)) in done.iter().enumerate() {
            assert_eq!((i as u64, i as u64 * 4096), (*number, read.offset));
            let outcome = read.outcome.as_ref().map_err(io::Error::kind);
            let expected = if i < there { Ok(&()) } else { Err(io::ErrorKind::UnexpectedEof) };
            assert_eq!(outcome, expected, "{i}");
        }
        let last = Blocks::new(20);
        (0..20).for_each(|i| queue.push(i, last.request(Direction::Read, i as usize, 1, i * 4096)));
        queue.reap(false, &mut Vec::new());
        drop(queue);
        let (idle, in_use) = device.rings.counts();
        assert!(idle <= 1 && in_use == 0, "the one that was made at open is used again");
    });
}

#[test]
fn what_a_queue_refuses_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    FileDevice::open(&path, OpenKind::Create).unwrap().allocate(0, 1 << 20).unwrap();
    let device = FileDevice::open(&path, OpenKind::ReadOnly).unwrap();
    let memory = Blocks::filled(4, 1);
    let request = |i| memory.request(Direction::Write, i, 1, i as u64 * 8192);
    let batch = run(&device, Batch::Many((0..4).map(request).collect()));
    assert!(batch.requests().iter().all(|request| request.outcome.is_err()));
}

/// More threads than queues; each has its own pages.
#[test]
fn many_threads_use_queues_at_once() {
    on_all(|device, _| {
        std::thread::scope(|scope| {
            for t in 0..8 {
                scope.spawn(move || {
                    let (out, back) = (Blocks::filled(50, t), Blocks::new(50));
                    let requests = |memory: &Blocks, direction| {
                        (0..50)
                            .map(|i| {
                                memory.request(direction, i, 1, (i * 16 + t * 2) as u64 * 4096)
                            })
                            .collect::<Vec<_>>()
                    };
                    for _ in 0..20 {
                        let batch = run(device, Batch::Many(requests(&out, Direction::Write)));
                        assert!(batch.requests().iter().all(|request| request.outcome.is_ok()));
                    }
                    let batch = run(device, Batch::Many(requests(&back, Direction::Read)));
                    assert!(batch.requests().iter().all(|request| request.outcome.is_ok()));
                    assert_eq!(back.bytes(), out.bytes());
                });
            }
        });
        assert_eq!(device.rings.counts().1, 0);
    });
}

#[test]
fn behind_the_end_is_an_error_of_that_request_alone() {
    on_all(|device, path| {
        let direct = device.is_direct();
        let memory = Blocks::filled(4, 9);
        one(device, memory.request(Direction::Write, 0, 1, 0)).unwrap();
        // A file that ends within a block: a short read that cannot be continued.
        OpenOptions::new().write(true).open(path).unwrap().set_len(4096 + 700).unwrap();
        let kinds = |batch: Batch| -> Vec<_> {
            let outcome = |request: &Request| request.outcome.as_ref().err().map(|e| e.kind());
            batch.requests().iter().map(outcome).collect()
        };
        let eof = Some(io::ErrorKind::UnexpectedEof);
        let requests =
            (0..4).map(|i| memory.request(Direction::Read, i, 1, i as u64 * 4096)).collect();
        assert_eq!(kinds(run(device, Batch::Many(requests))), [None, eof, eof, eof]);
        let wide = memory.request(Direction::Read, 0, 4, 0);
        assert_eq!(one(device, wide).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        let nothing = memory.request(Direction::Read, 0, 0, 1 << 40);
        one(device, nothing).unwrap();
        assert!(one(device, memory.request(Direction::Read, 0, 1, u64::MAX - 4095)).is_err());
        assert_eq!(device.is_direct(), direct, "the end of a file is no lack of direct I/O");
    });
}

#[test]
fn space_is_allocated_punched_and_cut() {
    on_all(|device, path| {
        let blocks = || std::fs::metadata(path).unwrap().blocks() * 512;
        device.allocate(65536, 1 << 20).unwrap();
        device.allocate(0, 4096).unwrap();
        device.allocate(0, 0).unwrap();
        assert_eq!(device.len().unwrap(), 65536 + (1 << 20), "never shorter");
        let memory = Blocks::filled(16, 2);
        one(device, memory.request(Direction::Write, 0, 16, 65536)).unwrap();
        device.sync().unwrap();
        let before = blocks();
        device.punch(65536, 65536).unwrap();
        device.punch(0, 0).unwrap();
        assert_eq!(device.len().unwrap(), 65536 + (1 << 20), "a hole does not cut");
        one(device, memory.request(Direction::Read, 0, 16, 65536)).unwrap();
        let zeros = memory.bytes().iter().all(|&byte| byte == 0);
        assert_eq!(zeros, blocks() < before, "what was given back reads as zeros");
        device.truncate(65536).unwrap();
        assert_eq!(device.len().unwrap(), 65536);
        assert!(device.allocate(u64::MAX - 10, 4096).is_err());
    });
}

#[test]
fn direct_io_is_left_only_for_transfers_that_should_do() {
    on_all(|device, _| {
        let direct = device.is_direct();
        let memory = Blocks::filled(2, 4);
        one(device, memory.request(Direction::Write, 0, 2, 0)).unwrap();
        // Whether this is refused is up to the file system; it must not change the device.
        let _ = one(device, memory.request(Direction::Read, 0, 1, 100));
        assert_eq!(device.is_direct(), direct);
    });
    let piece = |address: usize, len| iovec {
        iov_base: std::ptr::without_provenance_mut(address),
        iov_len: len,
    };
    assert!(is_aligned(&[piece(8192, 4096), piece(4096, 65536)], 12288));
    assert!(!is_aligned(&[piece(8192, 4096), piece(512, 4096)], 12288));
    assert!(!is_aligned(&[piece(8192, 100)], 12288));
    assert!(!is_aligned(&[piece(8192, 4096)], 12289));
}

#[test]
fn short_transfers_are_continued_where_they_stopped() {
    let mut pieces = [(100usize, 10usize), (200, 0), (300, 10), (400, 10)]
        .map(|(at, len)| iovec { iov_base: std::ptr::without_provenance_mut(at), iov_len: len });
    let mut rest = &mut pieces[..];
    let left = |rest: &[iovec]| -> Vec<_> {
        rest.iter().map(|piece| (piece.iov_base.addr(), piece.iov_len)).collect()
    };
    advance(&mut rest, 4);
    assert_eq!(left(rest), [(104, 6), (200, 0), (300, 10), (400, 10)]);
    advance(&mut rest, 6);
    assert_eq!(left(rest), [(300, 10), (400, 10)], "empty pieces go with what precedes them");
    advance(&mut rest, 15);
    assert_eq!(left(rest), [(405, 5)]);
    advance(&mut rest, 5);
    assert!(rest.is_empty());
}

#[test]
fn a_device_says_how_requests_reach_it() {
    on_all(|device, _| {
        let expected = match (device.is_direct(), device.rings.are_refused()) {
            (false, _) => Way::Calls,
            (true, true) => Way::Threads,
            (true, false) => Way::Ring,
        };
        assert_eq!(device.way(), expected);
    });
}
