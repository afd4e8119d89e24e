//! Warm restart: the pages that were in memory when a store was closed are so again soon after it is
//! opened.
//!
//! ```text
//! open --list--> loading ------all, or no room-----> warm --many frames taken, and INTERVAL over--+
//!    \              |                                 ^  |                                        |
//!     --none--------|---------------------------------'  +---- the list is saved <----------------+
//!                   |                                    |
//!             closed: the list stays                 closed: the list is saved
//! ```
//!
//! Loading is `Pool::prewarm`, in a thread that goes when it is done. It takes free frames alone, so
//! that nothing goes that was asked for since the store was opened. The list has the hottest pages of
//! all that were in memory; where the budget is smaller now, the hottest of these come.
//!
//! * `WARM-1` A list that was not loaded to its end is not written over: else a store that is opened
//!   for a moment, again and again, would forget what it knew. So it is with a list that cannot be
//!   read, as where no more files may be open, and where the device fails to read most of its pages.
//! * `WARM-2` A list is a hint (`RESIDENT-2`): whatever is wrong with it, or with writing one, is told
//!   as an event, and the store works as it would without.
//! * `WARM-3` To close a store waits for one batch of reads at most, and the time that it takes to
//!   write the list.
//!
//! A store that is open to read loads the list and writes none. One that holds fewer pages than are
//! worth it has no list. The peers are InnoDB's dump of the buffer pool, and PostgreSQL's autoprewarm,
//! which knows the same rule as `WARM-1`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use polder_format::{PageSize, StoreId};
use polder_pool::worker::{Call, Worker};
use polder_pool::{Pool, PrewarmEnd, Prewarmed, Translation, event, lock};

use crate::directory::RESIDENT;
use crate::resident::{self, ResidentList, Unusable};

/// Between two saves of a list, at least.
pub(crate) const INTERVAL: Duration = Duration::from_secs(300);
/// How long the thread stays if nobody asks.
const STAY: Duration = Duration::from_secs(1);
/// A store that has fewer pages in memory is warm as soon as it is used.
pub(crate) const LEAST_PAGES: usize = 256;

/// What loads the list and writes it.
#[derive(Debug)]
pub(crate) struct WarmRestart {
    /// Where the list lies, and whose it is; none where the store has no directory, or wants no list.
    place: Option<(PathBuf, (StoreId, PageSize))>,
    /// Whether a list is written.
    pub(crate) writes: bool,
    pub(crate) worker: Worker,
    pub(crate) state: Mutex<State>,
    /// Held by the thread that loads the list. Guards no data.
    turn: Mutex<()>,
    /// Held by the thread that writes a list. Guards no data.
    saving: Mutex<()>,
    /// A caller loads the list by itself: the thread makes way.
    makes_way: AtomicBool,
    pub(crate) figures: Figures,
}

#[derive(Debug)]
pub(crate) struct State {
    /// The list was loaded as far as there was room, or there was none (`WARM-1`).
    is_loaded: bool,
    pub(crate) saved_at: Instant,
}

/// What is told of it.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) listed: AtomicU64,
    pub(crate) skipped: AtomicU64,
    pub(crate) load_ms: AtomicU64,
    pub(crate) saved: AtomicU64,
    pub(crate) save_ms: AtomicU64,
}

impl WarmRestart {
    pub(crate) fn new(
        place: Option<(PathBuf, (StoreId, PageSize))>,
        read_only: bool,
        wants: bool,
    ) -> WarmRestart {
        let is_there = |(path, _): &(PathBuf, _)| path.join(RESIDENT).try_exists().unwrap_or(true);
        let is_loaded = !wants || !place.as_ref().is_some_and(is_there);
        WarmRestart {
            place,
            writes: wants && !read_only,
            worker: Worker::default(),
            state: Mutex::new(State { is_loaded, saved_at: Instant::now() }),
            turn: Mutex::default(),
            saving: Mutex::default(),
            makes_way: AtomicBool::new(false),
            figures: Figures::default(),
        }
    }

    /// Ends the thread, and waits for that. None starts any more.
    pub(crate) fn stop(&self) {
        self.worker.stop();
    }

    /// Whether a thread is needed: there is a list to be loaded, or one to be written.
    pub(crate) fn wants_thread(&self) -> bool {
        self.place.is_some() && (self.writes || self.has_list_to_load())
    }

    pub(crate) fn has_list_to_load(&self) -> bool {
        !lock(&self.state).is_loaded
    }

    pub(crate) fn is_due(&self) -> bool {
        let state = self.state.try_lock();
        state.is_ok_and(|state| state.is_loaded && state.saved_at.elapsed() >= INTERVAL)
    }
}

impl WarmRestart {
    /// The thread.
    pub(crate) fn run<T: Translation>(&self, pool: &Pool<T>) {
        loop {
            match self.worker.wait(STAY) {
                Call::Stop => return,
                Call::Nobody if self.worker.leave() => return,
                Call::Nobody => {}
                Call::Asked if !lock(&self.state).is_loaded => {
                    let goes_on =
                        |_, _| !self.makes_way.load(Ordering::Relaxed) && !self.worker.is_stopped();
                    // It has told of what is wrong.
                    let _ = self.load(pool, &mut { goes_on });
                }
                Call::Asked if self.is_due() => {
                    let _ = self.save(pool);
                }
                Call::Asked => {}
            }
        }
    }

    /// Loads what the list names, for a caller that waits for it; the thread of the background makes way.
    pub(crate) fn load_now<T: Translation>(
        &self,
        pool: &Pool<T>,
        goes_on: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Prewarmed, Unusable> {
        self.makes_way.store(true, Ordering::Relaxed);
        // WARM-3: the thread of the background may wait for its turn, and `stop` for the thread.
        self.load(pool, &mut |at, of| !self.worker.is_stopped() && goes_on(at, of))
    }

    /// `goes_on` hears how many pages were seen to, of how many.
    fn load<T: Translation>(
        &self,
        pool: &Pool<T>,
        goes_on: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Prewarmed, Unusable> {
        let _turn = lock(&self.turn);
        let Some((directory, store)) = &self.place else { return Ok(Prewarmed::default()) };
        let began = Instant::now();
        let list = match ResidentList::open(directory, *store) {
            Ok(list) => list,
            Err(error) => {
                let path = directory.join(RESIDENT);
                event!(
                    warn,
                    list = path.display(),
                    why = error,
                    "the list of resident pages is not used"
                );
                // A file that cannot be read now may be read at the next opening.
                if !matches!(error, Unusable::Io(_)) {
                    lock(&self.state).is_loaded = true;
                }
                return Err(error);
            }
        };
        let Some(list) = list else {
            lock(&self.state).is_loaded = true;
            return Ok(Prewarmed::default());
        };
        let listed = list.len();
        let room = pool.prewarm_room();
        let all = listed.min(room);
        let done = pool.prewarm(list.hottest(room), |at| goes_on(at.loaded + at.skipped, all));
        let ms = began.elapsed().as_millis() as u64;
        let Figures { listed: of_list, skipped, load_ms, .. } = &self.figures;
        of_list.store(listed, Ordering::Relaxed);
        skipped.store(done.skipped, Ordering::Relaxed);
        load_ms.store(ms, Ordering::Relaxed);
        let is_broken_off = done.end == Some(PrewarmEnd::Stopped) || done.failed > done.loaded;
        if !is_broken_off {
            lock(&self.state).is_loaded = true;
        }
        event!(
            info,
            listed = listed,
            loaded = done.loaded,
            skipped = done.skipped,
            ms = ms,
            "pages were loaded that had been in memory"
        );
        Ok(done)
    }

    /// At the end, when the thread has stopped.
    pub(crate) fn save_at_close<T: Translation>(&self, pool: &Pool<T>) {
        if self.writes && lock(&self.state).is_loaded {
            let _ = self.save(pool);
        }
    }

    /// Writes the list, if there is a place for one; gives how many pages are in it.
    pub(crate) fn save<T: Translation>(&self, pool: &Pool<T>) -> io::Result<u64> {
        let Some((directory, store)) = &self.place else { return Ok(0) };
        let _saving = lock(&self.saving);
        let began = Instant::now();
        // Before it is tried, so that a disk that is full is not asked again at once.
        lock(&self.state).saved_at = began;
        let pages = pool.resident_pages();
        let saved = match pages.len() < LEAST_PAGES {
            true => resident::remove(directory).map(|()| 0),
            false => resident::save(directory, *store, &pages).map(|()| pages.len() as u64),
        };
        let ms = began.elapsed().as_millis() as u64;
        match &saved {
            Ok(pages) => {
                self.figures.saved.store(*pages, Ordering::Relaxed);
                self.figures.save_ms.store(ms, Ordering::Relaxed);
                event!(debug, pages = pages, ms = ms, "the list of resident pages was saved");
            }
            Err(error) => tell_not_saved(directory, error),
        }
        saved
    }
}

fn tell_not_saved(directory: &Path, error: &io::Error) {
    let store = directory.display();
    event!(warn, store = store, error = error, "the list of resident pages could not be saved");
}
