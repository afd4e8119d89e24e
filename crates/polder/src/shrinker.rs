//! Which thread shrinks a store, and that of the background, which makes way for others.

use std::sync::{Condvar, Mutex, MutexGuard, TryLockError};
use std::thread::JoinHandle;
use std::time::Duration;

use polder_pool::lock;

/// Between two looks.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// The thread that shrinks the store, and when one looked last whether that is worth it.
#[derive(Debug, Default)]
pub(crate) struct Shrinker {
    /// Held by the thread that shrinks. Guards no data.
    turn: Mutex<()>,
    pub(crate) state: Mutex<State>,
    /// Notified when the thread is to end.
    ends: Condvar,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) thread: Option<JoinHandle<()>>,
    /// How many pages had been freed when it looked last.
    pub(crate) looked_at: Option<u64>,
    /// So many others want to shrink: the thread is to end now.
    waiters: u32,
    /// No thread is started any more.
    pub(crate) closed: bool,
}

impl Shrinker {
    /// Waits until no other thread shrinks; that of the background makes way.
    pub(crate) fn take_turn(&self) -> MutexGuard<'_, ()> {
        if let Some(turn) = self.try_turn() {
            return turn;
        }
        lock(&self.state).waiters += 1;
        self.ends.notify_all();
        let turn = lock(&self.turn);
        lock(&self.state).waiters -= 1;
        turn
    }

    pub(crate) fn try_turn(&self) -> Option<MutexGuard<'_, ()>> {
        match self.turn.try_lock() {
            Ok(turn) => Some(turn),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Ends the thread, and waits for that. None starts any more.
    pub(crate) fn close(&self) {
        let thread = {
            let mut state = lock(&self.state);
            state.closed = true;
            state.thread.take()
        };
        self.ends.notify_all();
        // It has nothing to tell.
        let _ = thread.map(JoinHandle::join);
    }

    pub(crate) fn goes_on(&self) -> bool {
        let state = lock(&self.state);
        !state.closed && state.waiters == 0
    }

    /// Waits until it is time for another look. False: the thread is to end.
    pub(crate) fn wait(&self) -> bool {
        let state = lock(&self.state);
        let waits = |state: &mut State| !state.closed && state.waiters == 0;
        let waited = self.ends.wait_timeout_while(state, BETWEEN_LOOKS, waits);
        let (state, _) = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
        !state.closed && state.waiters == 0
    }
}
