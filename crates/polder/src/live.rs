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
//! One thread does it, which sleeps in `poll` until a client or the end comes:
//!
//! ```text
//!          bound, not listening: rights are set                    start
//!              v
//!   +--> asleep: poll(listener, stop) ----- stop ----------------> ended
//!   |          v client
//!   |      figures are gathered (the store is kept meanwhile)        ^
//!   |          v                                                     |
//!   +---- answered: poll(client, stop), at most ANSWER ----- stop ---+
//! ```
//!
//! Rules:
//!
//! * `LIVE-1` The name in the directory is made, replaced and removed by a process that holds the
//!   store's lock. So a socket that is there when a store is opened is nobody's: a process was
//!   killed.
//! * `LIVE-2` Closing a store waits for figures that are being gathered, and for no client.
//! * `LIVE-3` A store opens and works all the same if there can be no socket. Its figures say why
//!   ([`Stats::live_refused`]).
//! * `LIVE-4` The thread keeps no store open: it holds one only while it gathers its figures.
//!
//! A child of a fork has no such thread and removes no name: nothing of the store goes there
//! ([`Closer`](crate::handle::Closer)).
//!
//! [`Store::stats_json`]: crate::Store::stats_json
//! [`Stats::live_refused`]: crate::Stats::live_refused

use std::fmt;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

use self::place::Place;

mod ask;
mod place;

pub use ask::{LiveError, live_stats};

/// How long a client may take to read its document.
const ANSWER: Duration = Duration::from_secs(1);
/// The pause after a connection could not be accepted, for want of file descriptors, say.
const REST: Duration = Duration::from_millis(100);

/// What clients get.
pub(crate) trait Document: Send + Sync {
    fn document(self: Arc<Self>) -> String;
}

/// The socket and its thread. Dropping this removes the one and ends the other.
pub(crate) struct Live {
    place: Place,
    stop: Arc<OwnedFd>,
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
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let (place, listener) = Place::take(directory)?;
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
        // It cannot fail: the counter is far from full.
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        let Some(thread) = self.thread.take() else { return };
        // LIVE-4: it may be the one that lets the last handle go.
        if thread.thread().id() != thread::current().id() {
            // A thread that panicked has nothing to tell.
            let _ = thread.join();
        }
    }
}

/// What woke the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Woken {
    Stop,
    Ready,
    Time,
}

/// Waits until the store is closed, or, if there is one, this is ready, at most so long.
fn wait(
    stop: &OwnedFd,
    ready: Option<(&dyn AsFd, PollFlags)>,
    most: Option<Duration>,
) -> io::Result<Woken> {
    let end = most.map(|most| Instant::now() + most);
    loop {
        let mut waited = vec![PollFd::new(stop, PollFlags::IN)];
        waited.extend(ready.map(|(fd, flags)| PollFd::from_borrowed_fd(fd.as_fd(), flags)));
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let left = left.map(|left| Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: left.subsec_nanos().into(),
        });
        match poll(&mut waited, left.as_ref()) {
            Ok(0) => return Ok(Woken::Time),
            Ok(_) if waited[0].revents().is_empty() => return Ok(Woken::Ready),
            Ok(_) => return Ok(Woken::Stop),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The thread's work. (If it cannot even wait it ends, and nobody is answered.)
fn serve(listener: &UnixListener, stop: &OwnedFd, source: &Weak<dyn Document>) {
    while let Ok(Woken::Ready) = wait(stop, Some((listener, PollFlags::IN)), None) {
        match listener.accept() {
            Ok((client, _)) => {
                // Whoever keeps the store closes it, and stops this thread.
                let Some(store) = source.upgrade() else { return };
                let document = store.document();
                // A client that goes away, or does not read, does not get it.
                let _ = answer(client, document.as_bytes(), stop);
            }
            // The client was gone before it was looked at.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => {
                let _ = wait(stop, None, Some(REST));
            }
        }
    }
}

/// LIVE-2: ends with the store, and when the client's time is over.
fn answer(mut client: UnixStream, mut document: &[u8], stop: &OwnedFd) -> io::Result<()> {
    client.set_nonblocking(true)?;
    let end = Instant::now() + ANSWER;
    while !document.is_empty() {
        match client.write(document) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => document = &document[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let left = end.saturating_duration_since(Instant::now());
                match wait(stop, Some((&client, PollFlags::OUT)), Some(left))? {
                    Woken::Ready => {}
                    Woken::Stop | Woken::Time => return Err(io::ErrorKind::TimedOut.into()),
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
