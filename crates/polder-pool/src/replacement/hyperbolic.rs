//! Hyperbolic caching (A. Blankstein, S. Sen and M. Freedman, "Hyperbolic Caching: Flexible Caching
//! for Web Applications", USENIX ATC 2017).
//!
//! A page is worth the number of its accesses since it came in, by the time since then. So what
//! was popular long ago decays, and a new page is not judged by its short life. How the policy is
//! told of accesses and how the sample works is in `sampled.rs`.
//!
//! Left out: the costs and sizes by which the paper weighs items; pages cost and weigh the same.

use std::sync::atomic::{AtomicU64, Ordering};

use super::sampled::{Record, Round, Sampled};

/// See the module.
pub(super) type Hyperbolic = Sampled<Count>;

/// `accesses:32 | since:32`, where a page came in in the round `since`. Zero: there is no page.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

const ONE: u64 = 1 << 32;

impl Record for Count {
    type Setting = ();

    fn begin(&self, now: Round, once: bool) {
        let accesses = if once { 0 } else { ONE };
        self.0.store(accesses | u64::from(now.0), Ordering::Relaxed);
    }

    fn used(&self, _now: Round) {
        let more = |count: u64| if count == 0 { None } else { count.checked_add(ONE) };
        // Full, gone, or it counts.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }

    fn named(&self, now: Round) {
        self.used(now);
    }

    fn end(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    fn move_to(&self, to: &Count) {
        to.0.store(self.0.swap(0, Ordering::Relaxed), Ordering::Relaxed);
    }

    fn is_there(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    fn worth(&self, now: Round, (): ()) -> Option<f32> {
        let count = self.0.load(Ordering::Relaxed);
        // What came just now is not worth infinitely much.
        let age = now.0.wrapping_sub(count as u32).saturating_add(1);
        (count != 0).then(|| (count >> 32) as f32 / age as f32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_worth_its_accesses_by_its_time() {
        let count = Count::default();
        count.used(Round(1));
        assert_eq!(count.worth(Round(1), ()), None);
        count.begin(Round(10), false);
        assert_eq!(count.worth(Round(10), ()), Some(1.0));
        count.used(Round(12));
        assert_eq!(count.worth(Round(13), ()), Some(0.5));
        let moved = Count::default();
        count.move_to(&moved);
        assert_eq!((count.worth(Round(13), ()), moved.worth(Round(13), ())), (None, Some(0.5)));
        moved.end();
        assert_eq!(moved.worth(Round(13), ()), None);
        count.begin(Round(u32::MAX), true);
        assert_eq!(count.worth(Round(1), ()), Some(0.0));
        count.used(Round(2));
        assert_eq!(count.worth(Round(2), ()), Some(0.25));
    }
}
