//! A thread that leaves, and others that ask: `thread/duty.rs`.

use super::*;

use crate::thread::duty::Duty;

/// What is to be done, and what of it was.
#[derive(Default)]
struct Work {
    duty: Duty<u32>,
    wanted: AtomicU32,
    done: AtomicU32,
}

impl Work {
    /// As `Worker::wake`; without a wait, so that the thread leaves as soon as it can.
    fn ask(work: &Arc<Work>) {
        work.wanted.fetch_add(1, Relaxed);
        let Some(mut place) = work.duty.ask() else { return };
        if !place.is_present {
            place.is_present = true;
            place.more += 1;
            spawn(work, Work::run);
        }
    }

    fn run(&self) {
        loop {
            if self.duty.take() {
                self.done.store(self.wanted.load(Relaxed), Relaxed);
            } else if self.duty.leave() {
                return;
            }
        }
    }
}

/// Whatever two threads ask for is done when the last thread has left.
#[test]
fn loom_nothing_is_asked_for_in_vain() {
    explore(3, || {
        let work = Arc::new(Work::default());
        let other = Arc::clone(&work);
        let asker = thread::spawn(move || Work::ask(&other));
        Work::ask(&work);
        asker.join().unwrap();
        while work.duty.place().is_present {
            thread::yield_now();
        }
        assert_eq!(work.done.load(Relaxed), 2, "DUTY-1");
        assert!(!work.duty.is_asked(), "DUTY-1");
    });
}
