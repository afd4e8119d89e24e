//! A disk in memory that goes wrong as disks do.
//!
//! What it models, each kind seeded and chosen by a [`FaultPlan`]:
//!
//! * **Failure**: a request fails with an error of choice. A read that fails leaves garbage in its
//!   buffer; a write that fails may have written any of its sectors.
//! * **A failed sync**: what was not synced is durable or not, as after a crash, and stays so: the
//!   disk still shows it, but the next good sync does not bring it back.
//! * **Delay**: batches of several threads wait, and are done in any order. Until then a read does
//!   not see what they write.
//! * **Order**: the reads of a queue come back in any order, one or a few at a time.
//! * **A full disk**: `allocate`, and writes where nothing is allocated, fail with `ENOSPC`; what
//!   is allocated can always be overwritten.
//! * **A kill** ([`SimDisk::kill_all`]): the process ends, and what only caches hold stays in them.
//! * **A crash** ([`SimDisk::crash`]): writes since the last sync, and those under way, are kept,
//!   dropped or torn, each by itself; changes of length and allocation are cut off at some point.
//! * **Rot** ([`SimDisk::flip_bit`], [`SimDisk::corrupt`]): bytes change without a write.
//!
//! It does not model writes that go to the wrong place, and syncs that lie.
//!
//! Invariants:
//!
//! * `SIM-1` `current` is `durable` with `unsynced` applied, unless a sync failed or bytes rotted.
//! * `SIM-2` Requests that break the contract of [`Request`] (not aligned to 4096 bytes) panic: a
//!   test must not pass by them.
//! * `SIM-3` Used by one thread, it does the same whenever plan, seeds and calls are the same.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use polder_pool::device::{Batch, Device, Direction, Request, RequestQueue};

use crate::random::Random;

mod crash;
mod image;
mod memory;
mod plan;
mod queue;
#[cfg(test)]
mod tests;

use crash::{Change, SECTOR_BYTES, settle, tear};
use image::Image;
pub use plan::{Errno, FaultPlan, Operation, When};

/// What space is allocated in, and what requests are aligned to.
const BLOCK_BYTES: u64 = 4096;
/// Most bytes that are remembered as unsynced; beyond, the oldest become durable by themselves, as
/// every system writes back at some time.
const UNSYNCED_BYTES_MAX: u64 = if cfg!(test) { 1 << 20 } else { 256 << 20 };

/// What a disk did so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Requests to read.
    pub reads: u64,
    /// Requests to write.
    pub writes: u64,
    /// Syncs.
    pub syncs: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
    /// Requests and calls of any kind that failed.
    pub failures: u64,
    /// Batches that had to wait.
    pub delayed: u64,
    /// Most reads that were under way in one queue.
    pub most_queued: u64,
}

/// A simulated disk. A clone is another handle of the same disk.
///
/// ```
/// use polder_pool::device::Device;
/// use polder_testkit::{FaultPlan, SimDisk};
///
/// let disk = SimDisk::new(FaultPlan::new(42));
/// let device: Box<dyn Device> = Box::new(disk.clone());
/// device.allocate(0, 8192)?;
/// device.sync()?;
/// assert_eq!(disk.crash(1).len()?, 8192, "what is synced survives");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct SimDisk {
    /// The mutex guards all there is; it is never held while a delay is slept.
    state: Arc<Mutex<State>>,
}

struct State {
    plan: FaultPlan,
    /// What a read sees.
    current: Image,
    /// What a crash cannot take away.
    durable: Image,
    /// What happened since, in order.
    unsynced: VecDeque<Change>,
    unsynced_bytes: u64,
    /// Batches that wait, by number.
    pending: BTreeMap<u64, Delayed>,
    /// Batches that are done, and were not given back yet.
    done: BTreeMap<u64, Batch>,
    /// The number of the next batch.
    next: u64,
    counts: Counts,
    /// What a crash leaves as a whole of a write: sectors, or more. 0: it may leave garbage.
    atomic_bytes: usize,
}

struct Delayed {
    batch: Batch,
    delay: Duration,
}

impl SimDisk {
    /// An empty disk.
    pub fn new(plan: FaultPlan) -> SimDisk {
        SimDisk::with(Image::default(), plan)
    }

    /// A disk on which `image` is durable.
    pub fn from_image(image: &[u8], plan: FaultPlan) -> SimDisk {
        let mut durable = Image::default();
        durable.allocate(0..image.len() as u64);
        for (i, bytes) in image.chunks(BLOCK_BYTES as usize).enumerate() {
            if bytes.iter().any(|&byte| byte != 0) {
                durable.write(i as u64 * BLOCK_BYTES, bytes);
            }
        }
        SimDisk::with(durable, plan)
    }

    fn with(durable: Image, plan: FaultPlan) -> SimDisk {
        let state = State {
            plan,
            current: durable.clone(),
            durable,
            unsynced: VecDeque::new(),
            unsynced_bytes: 0,
            pending: BTreeMap::new(),
            done: BTreeMap::new(),
            next: 0,
            counts: Counts::default(),
            atomic_bytes: 0,
        };
        SimDisk { state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on faults happen by this plan; it counts operations from 0.
    pub fn set_plan(&self, plan: FaultPlan) {
        self.state().plan = plan;
    }

    /// From now on each run of so many bytes, aligned to their number, is written as a whole or not at
    /// all, and the disk says so; so it is after a crash, too. With 0, as it is for a new disk, it says
    /// nothing, and a sector that was being written may be garbage.
    pub fn write_atomically(&self, bytes: usize) {
        let is_unit = bytes.is_power_of_two() && bytes >= SECTOR_BYTES;
        assert!(is_unit || bytes == 0, "{bytes} bytes");
        self.state().atomic_bytes = bytes;
    }

    /// The disk as the power comes back, if it fails now: one of the images that may be left, with
    /// the same capacity and no other faults. This disk goes on.
    pub fn crash(&self, seed: u64) -> SimDisk {
        self.state().crash(seed)
    }

    /// Several disks of one machine as the power comes back, if it fails now, for all at the same
    /// instant.
    pub fn crash_all<const N: usize>(disks: [&SimDisk; N], seed: u64) -> [SimDisk; N] {
        let states = disks.map(SimDisk::state);
        let mut seeds = Random::new(seed);
        states.each_ref().map(|state| state.crash(seeds.next_u64()))
    }

    /// Several disks of one machine as the next process finds them, if the one that uses them is
    /// killed now: nothing that was done is lost, but what was not synced still is not. Writes
    /// under way may have been done. These disks go on.
    pub fn kill_all<const N: usize>(disks: [&SimDisk; N], seed: u64) -> [SimDisk; N] {
        let states = disks.map(SimDisk::state);
        let mut seeds = Random::new(seed);
        states.each_ref().map(|state| state.kill(seeds.next_u64()))
    }

    /// The whole file as a read sees it.
    pub fn image(&self) -> Vec<u8> {
        let state = self.state();
        let mut bytes = vec![0; state.current.len() as usize];
        state.current.read(0, &mut bytes);
        bytes
    }

    /// Some bytes as a read sees them; zeros behind the end.
    pub fn peek(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.state().current.read(offset, &mut bytes);
        bytes
    }

    /// Flips one bit (`bit` modulo 8) of the byte at `offset`, durably.
    pub fn flip_bit(&self, offset: u64, bit: u32) {
        self.rot(offset, 1, |byte| byte[0] ^= 1 << (bit % 8));
    }

    /// Replaces `len` bytes from `offset` on by random ones, durably.
    pub fn corrupt(&self, offset: u64, len: usize, seed: u64) {
        self.rot(offset, len, |bytes| Random::new(seed).fill(bytes));
    }

    /// Does a batch, or lets it wait if the plan says so. Gives its number.
    fn begin(&self, mut batch: Batch) -> u64 {
        let mut state = self.state();
        batch.requests().iter().for_each(check);
        let number = state.next;
        state.next += 1;
        if let Some(delay) = state.plan.delayed() {
            state.counts.delayed += 1;
            state.pending.insert(number, Delayed { batch, delay });
        } else {
            state.perform(&mut batch);
            state.done.insert(number, batch);
        }
        number
    }

    /// Gives a batch back when it is done: after its delay, of which so much has passed.
    fn end(&self, number: u64, passed: Duration) -> Batch {
        let delay = self.state().pending.get(&number).map(|delayed| delayed.delay);
        match delay.map(|delay| delay.saturating_sub(passed)) {
            None => {}
            Some(Duration::ZERO) => thread::yield_now(),
            Some(delay) => thread::sleep(delay),
        }
        self.state().perform_until(number)
    }

    fn rot(&self, offset: u64, len: usize, change: impl Fn(&mut [u8])) {
        let state = &mut *self.state();
        for image in [&mut state.current, &mut state.durable] {
            let mut bytes = vec![0; len];
            image.read(offset, &mut bytes);
            change(&mut bytes);
            image.write(offset, &bytes);
        }
    }

    /// What the disk did so far.
    pub fn counts(&self) -> Counts {
        self.state().counts
    }

    /// Bytes that are allocated.
    pub fn allocated_bytes(&self) -> u64 {
        self.state().current.allocated_bytes()
    }

    /// Changes since the last good sync.
    pub fn unsynced_changes(&self) -> usize {
        self.state().unsynced.len()
    }

    /// Bytes that were written since then: without room that was only allocated, or given back.
    pub fn unsynced_bytes(&self) -> u64 {
        self.state().unsynced_bytes
    }
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("SimDisk")
            .field("len", &state.current.len())
            .field("unsynced", &state.unsynced.len())
            .field("counts", &state.counts)
            .finish_non_exhaustive()
    }
}

impl Device for SimDisk {
    fn perform(&self, batch: Batch) -> Batch {
        self.end(self.begin(batch), Duration::ZERO)
    }

    fn queue(&self) -> Box<dyn RequestQueue + '_> {
        Box::new(queue::Queue::new(self))
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        let run = run(offset, len)?;
        let mut state = self.state();
        state.attempt(Operation::Allocate)?;
        state.check_space(run.clone())?;
        state.change(Change::Allocate(run));
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let mut state = self.state();
        state.attempt(Operation::Truncate)?;
        state.change(Change::Truncate(len));
        Ok(())
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        let run = run(offset, len)?;
        let mut state = self.state();
        state.attempt(Operation::Punch)?;
        state.change(Change::Punch(run));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state();
        state.counts.syncs += 1;
        let attempt = state.attempt(Operation::Sync);
        let state = &mut *state;
        match attempt {
            Ok(()) => state.unsynced.iter().for_each(|change| change.apply(&mut state.durable)),
            Err(_) => {
                let random = &mut state.plan.random;
                settle(&mut state.durable, state.unsynced.iter(), state.atomic_bytes, random);
            }
        }
        state.unsynced.clear();
        state.unsynced_bytes = 0;
        attempt
    }

    fn atomic_write_bytes(&self) -> u64 {
        self.state().atomic_bytes as u64
    }

    /// Unless it is as large as anybody wants.
    fn free_bytes(&self) -> Option<u64> {
        let state = self.state();
        let capacity = state.plan.capacity_bytes;
        (capacity < u64::MAX).then(|| capacity.saturating_sub(state.current.allocated_bytes()))
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.state().current.len())
    }
}

impl State {
    /// Writes that wait.
    fn under_way(&self) -> Vec<Change> {
        self.pending
            .values()
            .flat_map(|delayed| delayed.batch.requests())
            .filter(|request| request.direction == Direction::Write)
            .map(change_of)
            .collect()
    }

    fn crash(&self, seed: u64) -> SimDisk {
        let mut random = Random::new(seed);
        let mut image = self.durable.clone();
        let changes = self.under_way();
        let changes = self.unsynced.iter().chain(&changes);
        settle(&mut image, changes, self.atomic_bytes, &mut random);
        let plan = FaultPlan::new(random.next_u64()).capacity(self.plan.capacity_bytes);
        let disk = SimDisk::with(image, plan);
        disk.state().atomic_bytes = self.atomic_bytes;
        disk
    }

    fn kill(&self, seed: u64) -> SimDisk {
        let mut random = Random::new(seed);
        let plan = FaultPlan::new(random.next_u64()).capacity(self.plan.capacity_bytes);
        let disk = SimDisk::with(self.durable.clone(), plan);
        {
            let mut state = disk.state();
            state.current = self.current.clone();
            state.atomic_bytes = self.atomic_bytes;
            (state.unsynced, state.unsynced_bytes) = (self.unsynced.clone(), self.unsynced_bytes);
            let done = self.under_way().into_iter().filter(|_| random.chance(0.5));
            done.for_each(|change| state.change(change));
        }
        disk
    }

    /// Counts an operation, and lets it fail if the plan says so.
    fn attempt(&mut self, operation: Operation) -> io::Result<()> {
        match self.plan.failure(operation) {
            None => Ok(()),
            Some(errno) => {
                self.counts.failures += 1;
                Err(errno.into())
            }
        }
    }

    fn check_space(&mut self, run: Range<u64>) -> io::Result<()> {
        let needed = self.current.unallocated_bytes(run);
        let room = self.plan.capacity_bytes.saturating_sub(self.current.allocated_bytes());
        if needed <= room {
            return Ok(());
        }
        self.counts.failures += 1;
        Err(Errno::NO_SPACE.into())
    }

    /// Does a change, and notes it as unsynced (`SIM-1`).
    fn change(&mut self, change: Change) {
        change.apply(&mut self.current);
        self.unsynced_bytes += change.len();
        self.unsynced.push_back(change);
        while self.unsynced_bytes > UNSYNCED_BYTES_MAX {
            let Some(oldest) = self.unsynced.pop_front() else { break };
            oldest.apply(&mut self.durable);
            self.unsynced_bytes -= oldest.len();
        }
    }

    /// Does pending batches, drawn at random, until that with this number is done.
    fn perform_until(&mut self, number: u64) -> Batch {
        loop {
            if let Some(batch) = self.done.remove(&number) {
                return batch;
            }
            let drawn = self.plan.random.index(self.pending.len());
            let drawn = self.pending.keys().copied().nth(drawn).unwrap_or(number);
            if let Some(mut delayed) = self.pending.remove(&drawn) {
                self.perform(&mut delayed.batch);
                self.done.insert(drawn, delayed.batch);
            }
        }
    }

    fn perform(&mut self, batch: &mut Batch) {
        for request in batch.requests_mut() {
            request.outcome = match request.direction {
                Direction::Read => self.read(request),
                Direction::Write => self.write(request),
            };
        }
    }

    fn read(&mut self, request: &Request) -> io::Result<()> {
        self.counts.reads += 1;
        let mut bytes = vec![0; request.buffer.len()];
        let outcome = self.attempt(Operation::Read).and_then(|()| {
            let run = run(request.offset, request.buffer.len() as u64)?;
            if run.end <= self.current.len() {
                return Ok(());
            }
            self.counts.failures += 1;
            Err(io::ErrorKind::UnexpectedEof.into())
        });
        if outcome.is_ok() {
            self.current.read(request.offset, &mut bytes);
            self.counts.read_bytes += bytes.len() as u64;
        } else {
            self.plan.random.fill(&mut bytes);
        }
        // SAFETY: the batch of the request is being performed, `bytes` was made as long as the
        // buffer, and `check` saw that it is aligned (SIM-2).
        unsafe { memory::fill(request.buffer, &bytes) };
        outcome
    }

    fn write(&mut self, request: &Request) -> io::Result<()> {
        self.counts.writes += 1;
        let attempt = self.attempt(Operation::Write);
        self.check_space(run(request.offset, request.buffer.len() as u64)?)?;
        let mut change = change_of(request);
        if let (Err(_), Change::Write { offset, bytes }) = (&attempt, &mut change) {
            let unit = self.atomic_bytes;
            *bytes = tear(&self.current, *offset, bytes, unit, &mut self.plan.random).into();
        } else {
            self.counts.written_bytes += change.len();
        }
        self.change(change);
        attempt
    }
}

fn change_of(request: &Request) -> Change {
    // SAFETY: the batch of the request is not done: it is being performed, or pending; `check`
    // saw that the buffer is aligned (SIM-2).
    Change::Write { offset: request.offset, bytes: unsafe { memory::copy(request.buffer) } }
}

fn run(offset: u64, len: u64) -> io::Result<Range<u64>> {
    let end = offset.checked_add(len).ok_or(io::ErrorKind::FileTooLarge)?;
    Ok(offset..end)
}

/// `SIM-2`.
fn check(request: &Request) {
    let buffer = request.buffer;
    let aligned = |number: u64| number.is_multiple_of(BLOCK_BYTES);
    assert!(aligned(request.offset), "SIM-2: {}: offset {}", request.page, request.offset);
    assert!(aligned(buffer.len() as u64), "SIM-2: {}: {} bytes", request.page, buffer.len());
    assert!(aligned(buffer.as_ptr().addr() as u64), "SIM-2: {}: {buffer:?}", request.page);
}
