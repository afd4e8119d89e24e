//! Whether a checkpoint may move the beginning of a recovery behind what was appended before.
//!
//! * `SWEEP-1` Of a thread that appends a group and looks then, and a checkpoint that begins and notes the
//!   end of the log then, one sees the other: the group lies below what was noted, or the thread sees that
//!   a sweep is under way. Both change the end of the log ([`cut`](crate::ring::cut), and A3), the later one
//!   with Acquire what the earlier one changed with Release.

use crate::sync::{AtomicU64, Ordering};

/// The sweep of a checkpoint.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// 1: one has begun and is not done.
    under_way: AtomicU64,
}

impl Sweep {
    /// Before K1.
    pub(crate) fn begin(&self) {
        self.under_way.store(1, Ordering::Relaxed);
    }

    /// Behind K3: every page that was dirty at K1 has been written. Release: who sees this sees what was
    /// noted of those pages.
    pub(crate) fn end(&self) {
        self.under_way.store(0, Ordering::Release);
    }

    /// Whether one is under way that began before what the caller appended last, at least.
    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way.load(Ordering::Acquire) != 0
    }
}
