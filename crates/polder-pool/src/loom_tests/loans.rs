//! Pages that are lent (`space/loan.rs`): a thread counts first and looks then, and so does whoever wants
//! the page out of its frame.

use super::*;

impl Held {
    /// G1 to G5 with a reader of the bytes between. Whether it was lent.
    fn lend(&self) -> bool {
        let seen = self.page.cell.read();
        if !seen.is_readable() {
            return false;
        }
        let is_lent = self.meta.lend(&self.page.cell, seen);
        if is_lent {
            self.forbid(true);
            thread::yield_now();
            self.forbid(false);
        }
        if self.meta.end_loan() {
            self.end_leaving();
        }
        is_lent
    }

    /// G5: the last one.
    fn end_leaving(&self) {
        if self.page.cell.latch().is_some() {
            match self.meta.is_leaving() && !self.meta.is_lent() {
                true => self.go(),
                false => self.put_back(),
            }
        }
    }

    fn put_back(&self) {
        self.page.cell.put_back(self.page.cell.peek());
    }
}

/// `LOAN-1` at E5.
#[test]
fn loom_a_lent_page_is_not_evicted() {
    explore(3, || {
        let held = Held::new();
        let clock = spawn(&held, |held| held.evict());
        held.lend();
        clock.join().unwrap();
    });
}

/// `LOAN-3`: whoever frees the page, or gives it back last, has it leave, and it leaves once.
#[test]
fn loom_a_freed_page_leaves_with_its_last_loan() {
    explore(3, || {
        let held = Held::new();
        let freer = spawn(&held, |held| {
            if held.page.cell.latch().is_some() {
                match held.meta.leave_when_returned() {
                    true => held.put_back(),
                    false => held.go(),
                }
            }
        });
        held.lend();
        freer.join().unwrap();
        assert!(held.page.cell.read().is_evicted(), "it is there for ever");
        assert!(!held.meta.is_pinned(), "LOAN-1: a loan, or that it leaves, is left");
    });
}

/// A thread that looks first and counts then.
#[test]
#[should_panic(expected = "POOL-4")]
fn loom_a_loan_that_looks_first_loses_the_page() {
    explore(3, || {
        let held = Held::new();
        let clock = spawn(&held, |held| held.evict());
        let seen = held.page.cell.read();
        if seen.is_readable() && seen.still_stands(held.page.cell.read_after_flag()) {
            held.meta.lend(&held.page.cell, seen);
            held.forbid(true);
            thread::yield_now();
            held.forbid(false);
            held.meta.end_loan();
        }
        clock.join().unwrap();
    });
}
