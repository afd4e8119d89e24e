//! What is known of where the log ended, when its last blocks are lost or something lies behind it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use polder::{Durability, OpenError, Options, Store, log_dump};
use tempfile::TempDir;

use crate::support::*;

const BLOCK: u64 = 4096;

fn options(path: &Path) -> Options {
    tight(path).durability(Durability::Sync)
}

/// A store whose log segments have been used again, with `syncs` commits that nothing came behind.
struct Sample {
    dir: TempDir,
    store: Option<Store>,
    rows: u64,
}

impl Sample {
    fn new(used_again: bool) -> Sample {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(options(&dir.path().join("live"))).unwrap();
        let churn = store.create_table("churn").unwrap().with_durability(Durability::None);
        // A sync for each, so that a group begins in each block.
        for i in 0..if used_again { 800u64 } else { 0 } {
            churn.put((i % 100).to_be_bytes(), [9; 900]).unwrap();
            store.flush().unwrap();
            if i % 100 == 99 {
                store.checkpoint().unwrap();
            }
        }
        let table = store.create_table("t").unwrap();
        (0..20u64).for_each(|i| assert!(table.put(i.to_be_bytes(), b"v").unwrap()));
        Sample { dir, store: Some(store), rows: 20 }
    }

    /// The files as they lie.
    fn copy(&self) -> PathBuf {
        let (live, copy) = (self.dir.path().join("live"), self.dir.path().join("copy"));
        fs::create_dir(&copy).unwrap();
        for file in ["data", "log"] {
            fs::copy(live.join(file), copy.join(file)).unwrap();
        }
        copy
    }

    fn close(&mut self) {
        self.store.take().unwrap().close().unwrap();
    }

    /// Rows that are there when the copy is opened, and what was reported.
    fn open(&self, copy: &Path) -> Result<(u64, Option<String>), OpenError> {
        let store = Store::open(options(copy))?;
        let rows = store.table("t").map_or(0, |table| table.len());
        let cut_short = store.recovery().cut_short;
        store.close().unwrap();
        Ok((rows, cut_short))
    }
}

/// Fills the last blocks of the log with zeros.
fn lose_end(copy: &Path, blocks: u64) {
    let end = log_dump::dump(copy, None, &mut |_| true).unwrap();
    let log = copy.join("log");
    let mut bytes = fs::read(&log).unwrap();
    bytes[(end.offset - blocks * BLOCK) as usize..end.offset as usize].fill(0);
    fs::write(log, bytes).unwrap();
}

#[track_caller]
fn assert_damaged(opened: Result<(u64, Option<String>), OpenError>) {
    let text = full_text(&opened.unwrap_err());
    assert!(text.contains("damaged at LSN"), "{text}");
}

#[test]
fn nothing_is_cut_short_in_a_store_that_was_closed() {
    for used_again in [false, true] {
        let mut sample = Sample::new(used_again);
        sample.close();
        assert_eq!(sample.open(&sample.copy()).unwrap(), (sample.rows, None), "{used_again}");
    }
}

#[test]
fn what_an_earlier_use_of_the_log_left_is_not_cut_short() {
    for used_again in [false, true] {
        let sample = Sample::new(used_again);
        assert_eq!(sample.open(&sample.copy()).unwrap(), (sample.rows, None), "{used_again}");
    }
}

#[test]
fn zeros_at_the_end_of_the_log_of_a_closed_store_are_damage() {
    for (used_again, blocks) in [(false, 1), (true, 1), (true, 3)] {
        let mut sample = Sample::new(used_again);
        sample.close();
        let copy = sample.copy();
        lose_end(&copy, blocks);
        assert_damaged(sample.open(&copy));
    }
}

/// A moment after the last sync the superblocks know of it too.
#[test]
fn zeros_at_the_end_of_a_log_that_was_quiet_are_damage() {
    let samples = [(false, 1), (true, 1), (true, 3)]
        .map(|(used_again, blocks)| (Sample::new(used_again), blocks));
    std::thread::sleep(Duration::from_millis(3500));
    for (sample, blocks) in samples {
        let copy = sample.copy();
        lose_end(&copy, blocks);
        assert_damaged(sample.open(&copy));
    }
}

/// What a busy store synced last stands in one place only: what is lost of it are whole commits
/// from the end, and nobody can know.
#[test]
fn zeros_over_the_last_syncs_of_a_busy_store_shorten_it() {
    for blocks in [1, 3] {
        let sample = Sample::new(false);
        let copy = sample.copy();
        lose_end(&copy, blocks);
        let (rows, _) = sample.open(&copy).unwrap();
        assert_eq!(rows, sample.rows - blocks);
    }
}
