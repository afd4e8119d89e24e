//! Which requests of a simulated disk go wrong, and how.

use std::io;
use std::time::Duration;

use crate::random::Random;

/// What a disk is asked to do. Reads and writes count request by request, not batch by batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A request to read.
    Read,
    /// A request to write.
    Write,
    /// `sync`.
    Sync,
    /// `allocate`.
    Allocate,
    /// `truncate`.
    Truncate,
    /// `punch`.
    Punch,
}

/// How many kinds of operation there are.
pub(super) const OPERATIONS: usize = 6;

/// Which operations of a kind a rule concerns. They are counted from 0 since the plan was made
/// the disk's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum When {
    /// This one alone.
    Nth(u64),
    /// This one and all that follow.
    From(u64),
    /// Each with this probability.
    Share(f64),
}

/// An error of the operating system, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    /// `EIO`: the device failed.
    pub const IO: Errno = Errno(5);
    /// `ENOSPC`: the device is full.
    pub const NO_SPACE: Errno = Errno(28);
}

impl From<Errno> for io::Error {
    fn from(errno: Errno) -> io::Error {
        io::Error::from_raw_os_error(errno.0)
    }
}

/// What goes wrong. A new plan lets everything go right.
///
/// ```
/// use polder_testkit::{Errno, FaultPlan, Operation, SimDisk, When};
///
/// let plan = FaultPlan::new(7)
///     .fail(Operation::Sync, When::Nth(0), Errno::IO)
///     .capacity(1 << 20);
/// let disk = SimDisk::new(plan);
/// # use polder_pool::device::Device;
/// assert!(disk.sync().is_err());
/// assert!(disk.sync().is_ok());
/// assert!(disk.allocate(0, 2 << 20).is_err());
/// ```
#[derive(Debug, Clone)]
pub struct FaultPlan {
    pub(super) random: Random,
    rules: Vec<(Operation, When, Errno)>,
    delayed_share: f64,
    delay_max: Duration,
    pub(super) capacity_bytes: u64,
    seen: [u64; OPERATIONS],
}

impl FaultPlan {
    /// Nothing goes wrong. Whatever is left to chance later on follows from `seed`.
    pub fn new(seed: u64) -> FaultPlan {
        FaultPlan {
            random: Random::new(seed),
            rules: Vec::new(),
            delayed_share: 0.0,
            delay_max: Duration::ZERO,
            capacity_bytes: u64::MAX,
            seen: [0; OPERATIONS],
        }
    }

    /// Lets operations of one kind fail.
    pub fn fail(mut self, operation: Operation, when: When, errno: Errno) -> FaultPlan {
        self.rules.push((operation, when, errno));
        self
    }

    /// Lets this share of batches wait: the work is done after a sleep of up to `max` (zero: a
    /// yield), and, among batches of several threads, out of order.
    pub fn delay(mut self, share: f64, max: Duration) -> FaultPlan {
        self.delayed_share = share;
        self.delay_max = max;
        self
    }

    /// Lets the disk be full when it has allocated this many bytes, in blocks of 4096.
    pub fn capacity(mut self, bytes: u64) -> FaultPlan {
        self.capacity_bytes = bytes;
        self
    }

    /// Counts an operation, and says how it fails if it does.
    pub(super) fn failure(&mut self, operation: Operation) -> Option<Errno> {
        let count = &mut self.seen[operation as usize];
        let number = *count;
        *count += 1;
        let mut failure = None;
        for &(concerned, when, errno) in &self.rules {
            // A share draws even if another rule applies, so that rules do not shift each other.
            let applies = concerned == operation
                && match when {
                    When::Nth(n) => number == n,
                    When::From(n) => number >= n,
                    When::Share(share) => self.random.chance(share),
                };
            if applies && failure.is_none() {
                failure = Some(errno);
            }
        }
        failure
    }

    /// Whether the next batch is pending, and then for how long `complete` sleeps.
    pub(super) fn delayed(&mut self) -> Option<Duration> {
        if self.delayed_share == 0.0 || !self.random.chance(self.delayed_share) {
            return None;
        }
        let max_ns = u64::try_from(self.delay_max.as_nanos()).unwrap_or(u64::MAX);
        Some(Duration::from_nanos(self.random.below(max_ns)))
    }
}
