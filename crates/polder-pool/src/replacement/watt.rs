//! WATT, write-aware timestamp tracking (D. Vöhringer and V. Leis, "Write-Aware Timestamp Tracking:
//! Effective and Efficient Page Replacement for Modern Hardware", PVLDB 16(11), 2023).
//!
//! Of each page the times of its last eight accesses and of its last four writes are known. The
//! *k*th last of them, at an age of *a*, gives the frequency *k / a*; the greatest of these is what
//! accesses, or writes, are worth. The first one is damped to a tenth, so that a page that was used
//! once is worth little: that is what keeps scans out. A page is worth what its accesses are, and a
//! weight times what its writes are: a page that is written often would be dirty again soon after it
//! came back, so that to evict it costs a write besides the read. How epochs and sampling work is in
//! `sampled.rs`; what differs from the paper is in `docs/replacement.md`.
//!
//! A write is an access, too, and comes to the page as one. So what a write adds is its time in the
//! second history.

use std::sync::atomic::{AtomicU64, Ordering};

use super::sampled::{Record, Round, Sampled};

/// See the module.
pub(super) type Watt = Sampled<History>;

/// The same without the times of writes, which takes a third less memory.
pub(super) type ReadsOnly = Sampled<Times>;

/// Each word holds this many times of 16 bits, the newest in the lowest bits.
const TIMES_PER_WORD: u32 = 4;
/// How much less the last access says alone than together with one before it.
const DAMPING: u32 = 10;
/// Times begin again after so many rounds: 0 is no time.
const TIMES: u32 = 0xFFFF;

/// What is known of a page: its accesses and its writes.
#[derive(Debug, Default)]
pub(super) struct History {
    accesses: Times,
    /// The times of the last four writes. Stored only by a thread that holds the page exclusively,
    /// or brings it: one thread at a time. (A thread that finds them very old takes them away.)
    writes: AtomicU64,
}

/// The times of a page's last eight accesses.
#[derive(Debug, Default)]
pub(super) struct Times {
    /// Zero: there is no page.
    newest: AtomicU64,
    /// Written by the thread that has changed `newest`, after it.
    older: AtomicU64,
}

fn time(round: Round) -> u64 {
    u64::from(round.0 % TIMES) + 1
}

/// Rounds from `then` to `now`. A time that is older than 65535 rounds looks young again: a page whose
/// last access is as old as that has long gone, and writes are forgotten before.
fn age(then: u64, now: u64) -> u32 {
    let age = (now as u32 + TIMES - then as u32) % TIMES;
    // What was used just now is not worth infinitely much.
    age + 1
}

impl Record for Times {
    type Setting = ();

    fn begin(&self, now: Round, once: bool) {
        // As if it had not been used for half of all the time there is.
        let round = if once { Round(now.0.wrapping_sub(TIMES / 2)) } else { now };
        // What `older` still holds is shifted out before anyone looks so far back.
        self.newest.store(time(round), Ordering::Relaxed);
    }

    fn used(&self, now: Round) {
        // Accesses of one round count once.
        if self.newest.load(Ordering::Relaxed) & 0xFFFF != time(now) {
            self.named(now);
        }
    }

    fn named(&self, now: Round) {
        let seen = self.newest.load(Ordering::Relaxed);
        if seen == 0 {
            return;
        }
        let newest = (seen << 16) | time(now);
        let relaxed = Ordering::Relaxed;
        // A thread that fails here has the same access time to record as the one that succeeds.
        if self.newest.compare_exchange(seen, newest, relaxed, relaxed).is_ok() {
            let older = self.older.load(relaxed);
            self.older.store((older << 16) | (seen >> 48), relaxed);
        }
    }

    fn end(&self) {
        self.newest.store(0, Ordering::Relaxed);
    }

    fn move_to(&self, to: &Times) {
        to.older.store(self.older.load(Ordering::Relaxed), Ordering::Relaxed);
        to.newest.store(self.newest.swap(0, Ordering::Relaxed), Ordering::Relaxed);
    }

    fn is_there(&self) -> bool {
        self.newest.load(Ordering::Relaxed) != 0
    }

    fn worth(&self, now: Round, (): ()) -> Option<f32> {
        let newest = self.newest.load(Ordering::Relaxed);
        let older = || self.older.load(Ordering::Relaxed);
        (newest != 0).then(|| frequency(newest, older, now))
    }
}

impl Record for History {
    /// What a write costs against a read.
    type Setting = f32;

    const WANTS_WRITES: bool = true;

    fn begin(&self, now: Round, once: bool) {
        self.writes.store(0, Ordering::Relaxed);
        self.accesses.begin(now, once);
    }

    fn used(&self, now: Round) {
        self.accesses.used(now);
    }

    fn written(&self, now: Round) {
        let seen = self.writes.load(Ordering::Relaxed);
        // Writes of one round count once.
        if seen & 0xFFFF != time(now) {
            self.writes.store((seen << 16) | time(now), Ordering::Relaxed);
        }
    }

    fn named(&self, now: Round) {
        self.accesses.named(now);
    }

    fn end(&self) {
        self.accesses.end();
    }

    fn move_to(&self, to: &History) {
        to.writes.store(self.writes.load(Ordering::Relaxed), Ordering::Relaxed);
        self.accesses.move_to(&to.accesses);
    }

    fn is_there(&self) -> bool {
        self.accesses.is_there()
    }

    fn worth(&self, now: Round, write_weight: f32) -> Option<f32> {
        let of_accesses = self.accesses.worth(now, ())?;
        let writes = self.writes.load(Ordering::Relaxed);
        let of_writes = match writes & 0xFFFF {
            0 => 0.0,
            // A page that is only read stays, and its writes would look young again some day.
            then if age(then, time(now)) > TIMES / 2 => {
                let relaxed = Ordering::Relaxed;
                let _ = self.writes.compare_exchange(writes, 0, relaxed, relaxed);
                0.0
            }
            _ => frequency(writes, || 0, now),
        };
        Some(of_accesses + write_weight * of_writes)
    }
}

/// The greatest frequency that these times give. There is at least one; `older` holds those before
/// the four in `newest`.
fn frequency(newest: u64, older: impl FnOnce() -> u64, now: Round) -> f32 {
    let now = time(now);
    // As a fraction: a division for each of them would take most of the time.
    let (mut count, mut rounds) = (1, age(newest & 0xFFFF, now));
    let mut older = Some(older);
    let mut word = newest >> 16;
    for k in 2..=2 * TIMES_PER_WORD {
        if k == TIMES_PER_WORD + 1 {
            word = older.take().map_or(0, |older| older());
        }
        let then = word & 0xFFFF;
        if then == 0 {
            break;
        }
        let age = age(then, now);
        if k * DAMPING * rounds > count * age {
            (count, rounds) = (k * DAMPING, age);
        }
        word >>= 16;
    }
    count as f32 / (DAMPING * rounds) as f32
}

#[cfg(test)]
mod tests;
