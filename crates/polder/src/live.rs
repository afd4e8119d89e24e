//! Figures of a store for other processes, while this one has it open: a Unix socket in the store's
//! directory, which answers each connection with one document ([`Store::stats_json`]) and closes it.
//!
//! Whoever may read the store may ask: the socket has the rights of the data file. There is nothing
//! to be asked but this, and nothing is read of what a client says.
//!
//! (A mapped file that the process writes its figures to would answer without a thread. But the
//! kernel writes such a file back, and a thread that touches a page meanwhile waits for the device:
//! counting would wait now and then. So figures are gathered when somebody asks.)
//!
//! One thread does it, which sleeps until a client or the end comes:
//!
//! ```text
//!          bound; its rights are set; who came before is sent away
//!              v
//!   +--> asleep: accept ---- the listener is shut down ----> ended
//!   |          v client
//!   |      figures are gathered (the store is kept meanwhile)  ^
//!   |          v                                               |
//!   +---- answered, at most ANSWER --- stopped: the client ----+
//!                                      is shut down
//! ```
//!
//! Rules:
//!
//! * `LIVE-1` The name in the directory is made, replaced and removed by a process that holds the
//!   store's lock. So a socket that is there when a store is opened is nobody's: a process was
//!   killed.
//! * `LIVE-2` Closing a store waits for figures that are being gathered, and for no client.
//! * `LIVE-3` A store opens and works all the same if there can be no socket, without `/proc`, say.
//!   Its figures say why ([`Stats::live_refused`]).
//! * `LIVE-4` The thread keeps no store open: it holds one only while it gathers its figures.
//! * `LIVE-5` Nobody is answered who came before the socket had its rights.
//!
//! A child of a fork has no such thread and removes no name: nothing of the store goes there
//! ([`Closer`](crate::handle::Closer)).
//!
//! [`Store::stats_json`]: crate::Store::stats_json
//! [`Stats::live_refused`]: crate::Stats::live_refused

use std::fmt;
use std::io::{self, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use polder_pool::lock;

use self::place::Place;

mod ask;
mod place;

pub use ask::{LiveError, live_stats};

/// How long a client may take to read its document.
const ANSWER: Duration = Duration::from_secs(1);
/// Bytes that are written at a time: so few that the kernel takes them at once or not at all, since
/// a time that is set for a write begins anew with each part that it takes.
const PIECE: usize = 16 << 10;
/// The pause after a connection could not be accepted, for want of file descriptors, say.
const REST: Duration = Duration::from_millis(100);

/// What clients get.
pub(crate) trait Document: Send + Sync {
    fn document(self: Arc<Self>) -> String;
}

/// The socket and its thread. Dropping this removes the one and ends the other.
pub(crate) struct Live {
    place: Place,
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Live")
    }
}

impl Live {
    /// Begins to answer in the directory of a store whose lock is held.
    pub(crate) fn start(directory: &Path, source: Weak<dyn Document>) -> io::Result<Live> {
        let (place, listener) = Place::take(directory)?;
        let stop = Stop::new(&listener).inspect_err(|_| place.leave())?;
        let stop = Arc::new(stop);
        let mut live = Live { place, stop: Arc::clone(&stop), thread: None };
        let thread = thread::Builder::new().name("polder-stats".to_string());
        live.thread = Some(thread.spawn(move || serve(&listener, &stop, &source))?);
        Ok(live)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // First, so that nobody comes any more.
        self.place.leave();
        self.stop.stop();
        let Some(thread) = self.thread.take() else { return };
        // LIVE-4: it may be the one that lets the last handle go.
        if thread.thread().id() != thread::current().id() {
            // A thread that panicked has nothing to tell.
            let _ = thread.join();
        }
    }
}

/// How the thread is told of the end, wherever it waits.
struct Stop {
    /// The listener. Linux lets one be shut down, which ends `accept`; std knows that of streams.
    listener: UnixStream,
    state: Mutex<State>,
    /// With `state`: it is stopped.
    stopped: Condvar,
}

#[derive(Default)]
struct State {
    is_stopped: bool,
    /// The client that is being answered.
    client: Option<Arc<UnixStream>>,
}

impl Stop {
    fn new(listener: &UnixListener) -> io::Result<Stop> {
        let listener = UnixStream::from(OwnedFd::from(listener.try_clone()?));
        Ok(Stop { listener, state: Mutex::default(), stopped: Condvar::new() })
    }

    fn stop(&self) {
        let client = {
            let mut state = lock(&self.state);
            state.is_stopped = true;
            state.client.take()
        };
        self.stopped.notify_one();
        // Neither can fail: both are open. A client that went away needs none.
        let _ = self.listener.shutdown(Shutdown::Both);
        let _ = client.map(|client| client.shutdown(Shutdown::Both));
    }

    /// Notes who is to be answered now, so that stopping ends it. Not after it is stopped.
    fn turn_to(&self, client: Option<Arc<UnixStream>>) -> bool {
        let mut state = lock(&self.state);
        state.client = client;
        !state.is_stopped
    }

    /// Sleeps so long, if it is not stopped. Tells whether it is.
    fn rest(&self, time: Duration) -> bool {
        let waits = |state: &mut State| !state.is_stopped;
        let rested = self.stopped.wait_timeout_while(lock(&self.state), time, waits);
        rested.unwrap_or_else(|poisoned| poisoned.into_inner()).0.is_stopped
    }
}

/// The thread's work.
fn serve(listener: &UnixListener, stop: &Stop, source: &Weak<dyn Document>) {
    loop {
        let client = match listener.accept() {
            Ok((client, _)) => Arc::new(client),
            // The end, or something that passes.
            Err(_) if stop.rest(REST) => return,
            Err(_) => continue,
        };
        if !stop.turn_to(Some(Arc::clone(&client))) {
            return;
        }
        // Whoever keeps the store closes it, and stops this thread.
        let Some(store) = source.upgrade() else { return };
        let document = store.document();
        // A client that goes away, or does not read, does not get it.
        let _ = answer(&client, document.as_bytes());
        stop.turn_to(None);
    }
}

/// LIVE-2: ends when the client is shut down, and when its time is over.
fn answer(mut client: &UnixStream, mut document: &[u8]) -> io::Result<()> {
    let end = Instant::now() + ANSWER;
    while !document.is_empty() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        client.set_write_timeout(Some(left))?;
        match client.write(&document[..document.len().min(PIECE)]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => document = &document[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
