//! Futures that wait for pages, and the thread that loads them (`ASK-1` to `ASK-4`).

use std::task::{Wake, Waker};

use loom::sync::{Condvar, Mutex};
use polder_testkit::effort::preemptions;

use super::*;
use crate::paging::wanted::{Wanted, Wish};

const COME: u32 = 1;
const ENDED: u32 = 2;

/// A task's thread: it sleeps until it is woken.
#[derive(Default)]
struct Task {
    is_woken: Mutex<bool>,
    changed: Condvar,
}

impl Wake for Task {
    fn wake(self: std::sync::Arc<Task>) {
        self.ring();
    }
}

impl Task {
    fn ring(&self) {
        *self.is_woken.lock().unwrap() = true;
        self.changed.notify_one();
    }

    fn sleep(&self) {
        let mut is_woken = self.is_woken.lock().unwrap();
        while !*is_woken {
            is_woken = self.changed.wait(is_woken).unwrap();
        }
        *is_woken = false;
    }
}

/// A page, and what futures have asked for.
#[derive(Default)]
struct Pages {
    wanted: Wanted<u32>,
    is_resident: AtomicU32,
    loads: AtomicU32,
    /// Wakes the thread that loads.
    bell: Task,
    finished: AtomicU32,
}

fn wish() -> Wish {
    Wish { page: page_id(1), above: None }
}

impl Pages {
    /// A future that waits for the page, and is polled again when it is woken. Gives the answer.
    fn wait(&self) -> u32 {
        let task = std::sync::Arc::new(Task::default());
        let waker = Waker::from(std::sync::Arc::clone(&task));
        let Some(place) = self.wanted.ask(wish(), &waker) else { return ENDED };
        self.bell.ring();
        loop {
            if let Some(answer) = self.wanted.poll(place, &waker) {
                return answer;
            }
            task.sleep();
        }
    }

    /// The thread's round: loads what is wanted, once.
    fn load(&self) {
        while let Some(wish) = self.wanted.next() {
            self.is_resident.store(1, Relaxed);
            self.loads.fetch_add(1, Relaxed);
            self.wanted.tell(wish.page, &COME, Waker::wake);
        }
    }
}

/// Two futures ask for one page, and one of them may come when it is taken already: it is told all the
/// same, or has it loaded once more.
#[test]
fn whoever_asks_is_told() {
    explore(preemptions(), || {
        let pages = Arc::new(Pages::default());
        let futures = [(); 2].map(|()| {
            spawn(&pages, |pages| {
                assert_eq!(pages.wait(), COME);
                assert_eq!(pages.is_resident.load(Relaxed), 1, "told before the page has come");
                pages.finished.fetch_add(1, AcqRel);
                pages.bell.ring();
            })
        });
        while pages.finished.load(Acquire) < 2 {
            pages.bell.sleep();
            pages.load();
        }
        join(futures);
        assert!((1..=2).contains(&pages.loads.load(Relaxed)));
    });
}

/// A future is dropped while the page comes, and its place goes to another one, which waits for another
/// page: it is not told of the first.
#[test]
fn what_comes_too_late_is_told_to_nobody() {
    explore(3, || {
        let pages = Arc::new(Pages::default());
        let loader = spawn(&pages, |pages| {
            if let Some(wish) = pages.wanted.next() {
                pages.wanted.tell(wish.page, &COME, Waker::wake);
            }
        });
        let waker = Waker::noop();
        let first = pages.wanted.ask(wish(), waker).unwrap();
        pages.wanted.forget(first);
        let other = Wish { page: page_id(2), above: None };
        let second = pages.wanted.ask(other, waker).unwrap();
        assert_eq!(first, second);
        loader.join().unwrap();
        // It may have come to the second page, too.
        if let Some(wish) = pages.wanted.next() {
            assert_eq!(wish, other);
            assert_eq!(pages.wanted.poll(second, waker), None);
            pages.wanted.tell(wish.page, &COME, Waker::wake);
        }
        assert_eq!(pages.wanted.poll(second, waker), Some(COME));
        assert_eq!(pages.wanted.places(), 0);
    });
}

/// The pool ends while a future asks, and a page is being loaded.
#[test]
fn nobody_waits_after_the_end() {
    explore(3, || {
        let pages = Arc::new(Pages::default());
        let future = spawn(&pages, |pages| _ = pages.wait());
        let loader = spawn(&pages, Pages::load);
        pages.wanted.end(&ENDED, Waker::wake);
        join([future, loader]);
        assert_eq!(pages.wanted.places(), 0);
        assert_eq!(pages.wait(), ENDED);
    });
}
