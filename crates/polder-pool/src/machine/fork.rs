//! What is open when the process forks.
//!
//! A child has one thread, the one that forked: the threads of a pool and of a log are not there,
//! files, their locks and rings of io_uring are shared with the parent, and so are frames that a
//! translation maps twice. So nothing that is open is of any use in a child. What must know is told
//! in the child, before `fork` returns there. (Not by a bare `clone`, which runs no handlers.)
//!
//! ```
//! use std::sync::atomic::{AtomicBool, Ordering};
//! use std::sync::{Arc, Weak};
//!
//! use polder_pool::fork::{OnFork, watch};
//!
//! /// What works in the process that made it, and in no child.
//! #[derive(Default)]
//! struct Engine {
//!     is_in_child: AtomicBool,
//! }
//!
//! impl OnFork for Engine {
//!     fn forked(&self) {
//!         self.is_in_child.store(true, Ordering::Relaxed);
//!     }
//! }
//!
//! let engine = Arc::new(Engine::default());
//! let watched: Weak<Engine> = Arc::downgrade(&engine);
//! watch(watched);
//! assert!(!engine.is_in_child.load(Ordering::Relaxed));
//! ```

#![cfg(not(loom))]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, Weak};
use std::thread;

use crate::sync::lock;

/// What is told in the child of a fork ([`watch`]).
pub trait OnFork: Send + Sync {
    /// This process is a child. Called when no other thread runs: it must neither allocate nor wait.
    fn forked(&self);
}

static WATCHED: Mutex<Vec<Weak<dyn OnFork>>> = Mutex::new(Vec::new());
/// Held by a thread that changes the list, and over each fork, so that the child finds the list
/// whole.
static CHANGING: AtomicBool = AtomicBool::new(false);
static HANDLERS: Once = Once::new();

fn begin() {
    while CHANGING.swap(true, Ordering::Acquire) {
        thread::yield_now();
    }
}

fn end() {
    CHANGING.store(false, Ordering::Release);
}

extern "C" fn before() {
    begin();
}

extern "C" fn in_parent() {
    end();
}

extern "C" fn in_child() {
    // Each of them is there as long as a handle is, and handles of other threads never go here: so
    // nothing is dropped.
    lock(&WATCHED).iter().filter_map(Weak::upgrade).for_each(|watched| watched.forked());
    end();
}

/// From now on this is told of forks, as long as it lives. It is told once for each call. The
/// process gets handlers of `pthread_atfork` by the first call, and keeps them; where it has no
/// memory for them nobody is told.
pub fn watch(watched: Weak<dyn OnFork>) {
    // SAFETY: the handlers are functions of this program, which unwind nowhere.
    HANDLERS.call_once(|| unsafe {
        // It fails only without memory; a child is not refused then, as it would not be without this.
        let _ = libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child));
    });
    begin();
    let mut list = lock(&WATCHED);
    list.retain(|watched| watched.strong_count() > 0);
    list.push(watched);
    drop(list);
    end();
}
