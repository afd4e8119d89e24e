//! A thread that leaves, and others that ask: `thread/duty.rs`.

use super::*;

use crate::thread::duty::Duty;

/// What is to be done, and what of it was.
#[derive(Default)]
struct Work {
    duty: Duty<u32>,
    /// Of each asker its own, so that nothing but `asked` orders them.
    wanted: [AtomicU32; 2],
    done: [AtomicU32; 2],
}

impl Work {
    /// As `Worker::wake`; without a wait, so that the thread leaves as soon as it can.
    fn ask(work: &Arc<Work>, asker: usize) {
        work.wanted[asker].store(1, Relaxed);
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
                for (wanted, done) in self.wanted.iter().zip(&self.done) {
                    done.store(wanted.load(Relaxed), Relaxed);
                }
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
        let asker = thread::spawn(move || Work::ask(&other, 1));
        Work::ask(&work, 0);
        asker.join().unwrap();
        while work.duty.place().is_present {
            thread::yield_now();
        }
        let done = work.done.iter().map(|done| done.load(Relaxed)).collect::<Vec<_>>();
        assert_eq!(done, [1, 1], "DUTY-1 or DUTY-2");
        assert!(!work.duty.is_asked(), "DUTY-1");
    });
}
