//! The throttle: how fast writers may go while a checkpoint makes the log shorter.
//!
//! A sweep that is slower than the log grows would leave writers going at full speed until the log
//! is full, and then not at all until the sweep is done. So the position of the log up to which no
//! thread waits goes on with the sweep, and a thread that begins a change beyond it waits a moment
//! first, before it holds anything: the longer, the further beyond and the larger the change.
//! Writers and sweep come to go at one speed.

#![cfg(not(loom))]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How far beyond the sweep the log may be without anybody waiting, as a part of what may be
/// appended during it; and how much further until writers wait for the longest.
const SLACK: f64 = 1.0 / 8.0;
const STEEP: f64 = 1.0 / 2.0;
/// The longest that one change waits: one of so many bytes or more. Smaller ones wait in
/// proportion, but at least as those of a sixteenth.
const LONGEST: Duration = Duration::from_millis(20);
const LARGE: u64 = 16 << 10;

/// Relaxed throughout: a thread that sees an old position waits a little too long or too short.
#[derive(Debug)]
pub(crate) struct Throttle {
    free_until: AtomicU64,
    /// Bytes beyond `free_until` where one waits for the longest.
    steep: AtomicU64,
}

impl Default for Throttle {
    /// No sweep.
    fn default() -> Throttle {
        Throttle { free_until: AtomicU64::new(u64::MAX), steep: AtomicU64::new(1) }
    }
}

impl Throttle {
    /// A sweep, which began at `begin` of the log and should be done `room` bytes later, has come
    /// so far: from 0 to 1.
    pub(crate) fn swept(&self, begin: u64, room: u64, swept: f64) {
        let steep = (room as f64 * STEEP).max(1.0) as u64;
        self.steep.store(steep, Ordering::Relaxed);
        let free = (room as f64 * (swept + SLACK)) as u64;
        self.free_until.store(begin.saturating_add(free), Ordering::Relaxed);
    }

    /// The sweep has ended: no thread waits.
    pub(crate) fn end(&self) {
        self.free_until.store(u64::MAX, Ordering::Relaxed);
    }

    /// How long a thread waits before it appends so many bytes at `tail`. Without a sweep nobody
    /// looks where the log ends, which all writers write to.
    #[inline]
    pub(crate) fn pause_at(&self, tail: impl FnOnce() -> u64, bytes: u64) -> Option<Duration> {
        let free_until = self.free_until.load(Ordering::Relaxed);
        if free_until == u64::MAX {
            return None;
        }
        tail().checked_sub(free_until).map(|beyond| self.pause(beyond, bytes))
    }

    #[cold]
    fn pause(&self, beyond: u64, bytes: u64) -> Duration {
        let part = beyond as f64 / self.steep.load(Ordering::Relaxed) as f64;
        let size = bytes.clamp(LARGE / 16, LARGE) as f64 / LARGE as f64;
        LONGEST.mul_f64(part.min(1.0) * size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_waits_the_longer_the_further_the_log_is_beyond_the_sweep() {
        let throttle = Throttle::default();
        let pause_at = |tail| throttle.pause_at(|| tail, LARGE);
        assert_eq!(pause_at(u64::MAX - 1), None);
        throttle.swept(1000, 800, 0.0);
        assert_eq!(pause_at(1099), None);
        assert_eq!(pause_at(1300), Some(LONGEST / 2));
        assert_eq!(pause_at(1500), Some(LONGEST));
        assert_eq!(pause_at(9999), Some(LONGEST));
        throttle.swept(1000, 800, 0.5);
        assert_eq!(pause_at(1499), None);
        assert_eq!(pause_at(1700), Some(LONGEST / 2));
        assert_eq!(throttle.pause_at(|| 9999, LARGE / 4), Some(LONGEST / 4));
        assert_eq!(throttle.pause_at(|| 9999, 1), Some(LONGEST / 16));
        throttle.end();
        assert_eq!(pause_at(9999), None);
    }
}
