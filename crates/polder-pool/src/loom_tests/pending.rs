//! Writers that wait for those that hold a page: `latch/pending.rs`.

use super::*;

use crate::latch::slice::{Slice, all_free};

/// A resident page, and a slice of its frame.
struct Held {
    page: Arc<Page>,
    slice: Slice,
}

/// By the word, or by the slice.
#[derive(Clone, Copy, PartialEq)]
enum By {
    Word,
    Slice,
}

impl Held {
    fn resident() -> Arc<Held> {
        Arc::new(Held { page: Page::resident(), slice: Slice::default() })
    }

    fn hold(&self, by: By) -> Option<StateWord> {
        let cell = &self.page.cell;
        let seen = cell.read();
        match by {
            By::Word => cell.try_share(),
            By::Slice => (seen.can_be_held() && self.slice.hold(cell, seen)).then_some(seen),
        }
    }

    fn release(&self, by: By) {
        match by {
            By::Word => self.page.cell.unshare(),
            By::Slice => self.slice.release(),
        }
    }

    fn is_free(&self) -> bool {
        all_free([&self.slice])
    }

    fn read_unmixed(&self) {
        let (a, b) = self.page.bytes.read();
        assert_eq!(a, b, "HOLD-2: a mix was read");
    }

    /// What is held is not written, and validates.
    fn read_held(&self, seen: StateWord) {
        self.read_unmixed();
        assert!(seen.still_stands(self.page.cell.read()), "PENDING-2: a holder begins again");
    }

    fn hold_and_read(&self, by: By) {
        if let Some(seen) = self.hold(by) {
            self.read_held(seen);
            self.release(by);
        }
    }

    /// Looks so often whether the holders have gone. `shares`: holds the page itself, by its word.
    fn write(&self, looks: u32, shares: bool) -> bool {
        let cell = &self.page.cell;
        let seen = cell.read();
        let held = (seen.is_readable())
            .then(|| cell.upgrade_when_left(seen, shares, looks, || self.is_free()))
            .flatten();
        let Some(held) = held else { return false };
        let value = self.page.bytes.read().0 + 1;
        self.page.write_and_release(held, value);
        true
    }

    /// `PENDING-3`, and that nobody holds the page.
    fn check(&self) {
        let last = self.page.cell.read();
        assert!(last.is_free() && !last.is_pending() && self.is_free(), "{last:?}");
    }
}

#[test]
fn loom_a_writer_waits_for_holders_that_it_does_not_disturb() {
    for by in [By::Word, By::Slice] {
        explore(3, move || {
            let held = Held::resident();
            let seen = held.hold(by).unwrap();
            let writer = spawn(&held, |held| _ = held.write(2, false));
            held.read_held(seen);
            held.release(by);
            held.hold_and_read(by);
            writer.join().unwrap();
            held.check();
        });
    }
}

/// One of them may give up, and withdraw what both have announced: then the other finds a holder
/// when it has the word already, and puts it back. (That holder may begin again.)
#[test]
fn loom_two_writers_and_a_holder() {
    for (by, preemptions) in [(By::Word, 2), (By::Slice, 3)] {
        explore(preemptions, move || {
            let held = Held::resident();
            assert!(held.hold(by).is_some());
            let writers = [(); 2].map(|()| spawn(&held, |held| _ = held.write(1, false)));
            held.release(by);
            if held.hold(by).is_some() {
                held.read_unmixed();
                held.release(by);
            }
            join(writers);
            held.check();
        });
    }
}

/// Of two sharers that both want the page, at most one waits for the other.
#[test]
fn loom_two_sharers_want_the_page() {
    fn share_and_write(held: &Held) {
        if held.page.cell.try_share().is_some() && !held.write(2, true) {
            held.page.cell.unshare();
        }
    }
    explore(2, || {
        let held = Held::resident();
        let other = spawn(&held, share_and_write);
        share_and_write(&held);
        other.join().unwrap();
        held.check();
    });
}

/// Once a writer has announced itself nobody begins to hold the page.
#[test]
fn loom_nobody_overtakes_a_writer() {
    for by in [By::Word, By::Slice] {
        explore(3, move || {
            let held = Held::resident();
            let seen = held.hold(by).unwrap();
            let writer = spawn(&held, |held| _ = held.write(2, false));
            if held.page.cell.read_after_flag().is_pending() {
                let later = held.hold(by);
                let now = held.page.cell.read_after_flag();
                assert!(later.is_none() || !now.is_pending(), "PENDING-1");
                later.iter().for_each(|_| held.release(by));
            }
            held.read_held(seen);
            held.release(by);
            writer.join().unwrap();
            held.check();
        });
    }
}
