//! Keeping a store's log short: checkpoints, in a thread of their own and when it is closed.

use std::io;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use polder_format::{Lsn, Superblock};
use polder_log::{CheckpointMark, Log, LogOptions};
use polder_pool::{Pool, PoolError, Translation, event, lock};

use crate::file::write_superblocks;
use crate::stamps::Stamps;

/// How long the thread stays if nobody asks; a tenth of it is the pause after a checkpoint that
/// failed.
const REST: Duration = Duration::from_secs(1);

/// A checkpoint comes when the log is so many times as long as what the pages take that it may write.
const PAGES_WORTH: u64 = 2;

/// What a checkpoint needs.
#[derive(Debug)]
pub(crate) struct Checkpointer<T: Translation> {
    pub(crate) pool: Pool<T>,
    pub(crate) log: Arc<Log>,
    pub(crate) superblock: Mutex<Superblock>,
    pub(crate) stamps: Stamps,
    /// Held over a checkpoint; false once the last one was made.
    turn: Mutex<bool>,
}

impl<T: Translation> Checkpointer<T> {
    pub(crate) fn new(
        pool: Pool<T>,
        log: Arc<Log>,
        superblock: Superblock,
        stamps: Stamps,
    ) -> Checkpointer<T> {
        Checkpointer {
            pool,
            log,
            superblock: Mutex::new(superblock),
            stamps,
            turn: Mutex::new(true),
        }
    }

    /// Makes the part of the log shorter that would be replayed. `in_haste`: as fast as it goes.
    /// `closing`: nothing comes after it, and a thread that asks for another one is answered false.
    pub(crate) fn checkpoint(&self, in_haste: bool, closing: bool) -> Result<bool, PoolError> {
        let mut goes_on = lock(&self.turn);
        if !*goes_on {
            return Ok(false);
        }
        *goes_on = !closing;
        let began = Instant::now();
        let journal = |source| PoolError::Journal { source };
        // K1: a cut of the log, where replay will begin, and the entries of each table there.
        let begun = self.log.begin_checkpoint().map_err(journal)?;
        // K2: for each frame: unless it is free, or clean and not latched exclusively, write it
        //     back; wait where somebody holds it or writes it already. (A writer whose group lies
        //     below the cut still holds its latches, or has released a changed page: either way
        //     the page is seen.)
        // K3: sync the data file.
        self.log.sweep(&begun, &self.pool, in_haste)?;
        let next_version = self.stamps.next();
        // K4: append the checkpoint's groups: the cut, the counts, the next version word; make them
        //     durable.
        // K5: write the superblock (where replay begins, the checkpoint's groups, how far the log
        //     is durable), sync; write the other one, sync.
        // K6: segments that lie wholly below the cut are free.
        let mark = |mark: CheckpointMark| {
            let mut superblock = lock(&self.superblock);
            self.describe(&mut superblock);
            superblock.clean = closing;
            superblock.redo_start = mark.redo_start;
            superblock.checkpoint = mark.checkpoint;
            superblock.durable = mark.durable;
            superblock.next_version = mark.next_version;
            write_superblocks(self.pool.device(), &mut superblock)
        };
        self.log.finish_checkpoint(&begun, next_version, mark).map_err(journal)?;
        let replay = self.log.replay_bytes();
        event!(info, ms = began.elapsed().as_millis(), replay_bytes = replay, "checkpoint made");
        Ok(true)
    }

    /// Has the superblocks tell that the log is durable up to `end`, if they do not: nothing was
    /// synced behind it for a while that would tell. Else nobody would know if its last blocks were
    /// lost.
    pub(crate) fn note_end(&self, end: Lsn) {
        // A checkpoint that is under way will tell, and the last one has told.
        let Ok(goes_on) = self.turn.try_lock() else { return };
        let mut superblock = lock(&self.superblock);
        if !*goes_on || superblock.durable >= end || self.log.check().is_err() {
            return;
        }
        superblock.durable = end;
        if let Err(error) = write_superblocks(self.pool.device(), &mut superblock) {
            self.log.poison("writing the superblocks", &error);
        }
    }

    /// What the superblock says of the file.
    pub(crate) fn describe(&self, superblock: &mut Superblock) {
        let state = self.pool.file_state();
        superblock.space_directory = state.space_directory;
        superblock.next_space = state.next_space;
        superblock.file_pages = state.file_pages;
    }

    /// Lets the thread start when the log wants a checkpoint.
    pub(crate) fn start(self: &Arc<Self>) -> io::Result<()> {
        let checkpointer = Arc::clone(self);
        self.log.start_checkpoints(move || checkpointer.run())
    }

    /// After how many bytes of log a checkpoint is worth it: when they are some times what it may have
    /// to write, which is at most what there is, and what fits into memory. A limit that the user has
    /// set is used as far as it goes.
    fn aim(&self) -> u64 {
        if !self.log.is_limit_chosen() {
            return u64::MAX;
        }
        let file = self.pool.file_state().file_pages << self.pool.page_size().shift();
        (PAGES_WORTH * file.min(self.pool.memory_budget_bytes())).max(LogOptions::LEAST_AIM)
    }

    fn run(&self) {
        while self.log.await_checkpoint(REST, || self.aim()) {
            if let Err(error) = self.checkpoint(false, false) {
                event!(warn, error = error, "a checkpoint failed");
                let text = format!("the log is full, and a checkpoint failed: {error}");
                self.log.checkpoint_failed(Arc::new(io::Error::other(text)));
                thread::sleep(REST / 10);
            }
        }
    }
}
