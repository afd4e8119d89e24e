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
    /// The times of the last four writes. Stored only by who holds the page exclusively, or brings
    /// it: one thread at a time. (Whoever finds them very old takes them away.)
    writes: AtomicU64,
}

/// The times of a page's last eight accesses.
#[derive(Debug, Default)]
pub(super) struct Times {
    /// Zero: there is no page.
    newest: AtomicU64,
    /// Written by who has changed `newest`, after it.
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
        // Who loses has the same to say as who wins.
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
mod tests {
    use super::*;

    fn near(times: &Times, now: u32, expected: f32) {
        let worth = times.worth(Round(now), ()).unwrap();
        assert!((worth - expected).abs() < 1e-6, "worth {worth} at {now}, expected {expected}");
    }

    #[test]
    fn a_page_is_worth_its_greatest_frequency() {
        let times = Times::default();
        assert_eq!(times.worth(Round(1), ()), None);
        times.used(Round(1));
        assert_eq!(times.worth(Round(1), ()), None, "an access that came late");
        times.begin(Round(10), false);
        near(&times, 10, 0.1);
        near(&times, 19, 0.01);
        (0..3).for_each(|_| times.used(Round(20)));
        near(&times, 24, 2.0 / 15.0);
        times.used(Round(23));
        near(&times, 24, 2.0 / 5.0);
        near(&times, 109, 3.0 / 100.0);
        times.named(Round(23));
        near(&times, 109, 4.0 / 100.0);
        times.end();
        assert_eq!(times.worth(Round(24), ()), None);
    }

    /// What a page with these writes is worth at `now` beside one without, by this weight.
    fn extra(written: &[u32], now: u32, write_weight: f32) -> f32 {
        let (history, times) = (History::default(), Times::default());
        history.begin(Round(1), false);
        times.begin(Round(1), false);
        written.iter().for_each(|round| history.written(Round(*round)));
        history.worth(Round(now), write_weight).unwrap() - times.worth(Round(now), ()).unwrap()
    }

    #[test]
    fn writes_are_worth_their_greatest_frequency_by_their_weight() {
        let near = |found: f32, expected: f32| {
            assert!((found - expected).abs() < 1e-6, "{found}, expected {expected}");
        };
        near(extra(&[], 10, 4.0), 0.0);
        // The last one is damped, like that of accesses.
        near(extra(&[10], 19, 1.0), 0.1 / 10.0);
        near(extra(&[10, 10, 10], 19, 1.0), 0.1 / 10.0);
        near(extra(&[10, 15], 19, 1.0), 2.0 / 10.0);
        near(extra(&[10, 15], 19, 4.0), 4.0 * 2.0 / 10.0);
        near(extra(&[10, 15], 19, 0.0), 0.0);
        // Four are known: the fifth one drops the first.
        near(extra(&[2, 102, 202, 302], 1001, 1.0), 4.0 / 1000.0);
        near(extra(&[2, 102, 202, 302, 402], 1001, 1.0), 4.0 / 900.0);
    }

    #[test]
    fn writes_go_with_their_page() {
        let (one, other) = (History::default(), History::default());
        one.written(Round(7));
        assert_eq!(one.worth(Round(7), 1.0), None, "a page is there from its admission on");
        one.begin(Round(8), false);
        let clean = one.worth(Round(9), 1.0).unwrap();
        one.written(Round(8));
        let written = one.worth(Round(9), 1.0).unwrap();
        assert!(written > clean, "{written} {clean}");
        one.move_to(&other);
        assert_eq!((one.worth(Round(9), 1.0), other.worth(Round(9), 1.0)), (None, Some(written)));
        other.end();
        other.begin(Round(8), false);
        assert_eq!(other.worth(Round(9), 1.0), Some(clean), "the next page was not written");
    }

    #[test]
    fn a_write_is_no_access() {
        let history = History::default();
        history.begin(Round(1), false);
        history.written(Round(5));
        let clean = Times::default();
        clean.begin(Round(1), false);
        assert_eq!(history.worth(Round(9), 0.0), clean.worth(Round(9), ()));
    }

    #[test]
    fn eight_accesses_are_known_and_the_ninth_drops_the_first() {
        let times = Times::default();
        times.begin(Round(1), false);
        (2..=8).for_each(|round| times.used(Round(round * 100)));
        near(&times, 10_000, 8.0 / 10_000.0);
        times.used(Round(9_000));
        near(&times, 10_000, 8.0 / (10_000.0 - 199.0));
        let moved = Times::default();
        times.move_to(&moved);
        near(&moved, 10_000, 8.0 / (10_000.0 - 199.0));
        assert_eq!(times.worth(Round(10_000), ()), None);
        // The next page in the frame begins anew.
        moved.end();
        moved.begin(Round(10_000), false);
        (1..=3).for_each(|i| moved.used(Round(10_000 + i)));
        near(&moved, 60_000, 4.0 / 50_001.0);
    }

    #[test]
    fn time_comes_round() {
        let times = Times::default();
        times.begin(Round(TIMES - 5), false);
        times.used(Round(TIMES - 1));
        near(&times, TIMES + 4, 2.0 / 10.0);
        times.begin(Round(5), true);
        assert!(times.worth(Round(5), ()).unwrap() < 1e-5, "a scan's page");
    }
}
