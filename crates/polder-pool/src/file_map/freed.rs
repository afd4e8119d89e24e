//! How many pages of spaces were freed, and who wants to hear of it.

use std::fmt;
use std::sync::OnceLock;

use crate::sync::atomic::{AtomicU64, Ordering};

/// Pages after which it is told again.
const TOLD_EACH: u64 = 1024;

/// Told how many pages were freed so far.
type Told = Box<dyn Fn(u64) + Send + Sync>;

/// How many pages of spaces were freed since the pool was opened.
#[derive(Default)]
pub(crate) struct Freed {
    /// Relaxed: a figure.
    pages: AtomicU64,
    told: OnceLock<Told>,
}

impl fmt::Debug for Freed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Freed({})", self.pages())
    }
}

impl Freed {
    pub(crate) fn pages(&self) -> u64 {
        self.pages.load(Ordering::Relaxed)
    }

    /// Only the first call counts.
    pub(crate) fn tell(&self, told: Told) {
        let _ = self.told.set(told);
    }

    /// One page more. The caller holds nothing.
    pub(crate) fn add(&self) {
        let before = self.pages.fetch_add(1, Ordering::Relaxed);
        if before.is_multiple_of(TOLD_EACH)
            && let Some(told) = self.told.get()
        {
            told(before + 1);
        }
    }
}
