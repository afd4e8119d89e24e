//! Shows the recovery of a store that was not closed.

use std::sync::{Arc, OnceLock};

use polder::{Options, Recovery, Store};

use crate::failure::note;
use crate::progress::{Progress, Unit};
use crate::units::{bytes, plural};

/// A recovery that reads less is over before anybody could look.
const SHOWN_FROM_BYTES: u64 = 1 << 20;

/// Watches a store being opened: a bar while its log is replayed, and lines that say what was
/// recovered and what may be lost.
#[derive(Debug, Default)]
pub struct Watch(Arc<OnceLock<Progress>>);

impl Watch {
    /// The options of a store whose opening is watched.
    pub fn of(&self, options: Options) -> Options {
        let bar = Arc::clone(&self.0);
        options.on_recovery(move |done, total| {
            if total >= SHOWN_FROM_BYTES {
                let bar = bar.get_or_init(|| Progress::new("recovering", Unit::Bytes, Some(total)));
                bar.of(total);
                bar.at(done);
            }
        })
    }

    /// The store is open: says what was recovered, if anything was, and whether the log may have been
    /// longer.
    pub fn tell(&self, store: &Store) {
        if let Some(bar) = self.0.get() {
            bar.clear();
        }
        let recovery = store.recovery();
        if let Some(line) = line(&recovery, store.is_read_only()) {
            note(&line);
        }
        if let Some(found) = &recovery.cut_short {
            note(&cut_short(found));
        }
    }
}

/// What it means that this was found behind the end of the log.
pub fn cut_short(found: &str) -> String {
    format!(
        "behind its last whole change the log has something that cannot be read ({found}): changes \
         that the crash cut short, which nobody was promised; or, if the log was damaged afterwards, \
         durable changes, which are lost"
    )
}

fn line(recovery: &Recovery, read_only: bool) -> Option<String> {
    let mut parts = Vec::new();
    if recovery.redone > 0 {
        let changes = plural(recovery.redone, "change", "changes");
        parts.push(format!("{changes} from {} of log", bytes(recovery.log_bytes)));
    }
    if recovery.restored_pages > 0 {
        let pages = plural(recovery.restored_pages, "torn page", "torn pages");
        parts.push(format!("{pages} from their second copy"));
    }
    if let Some(damage) = &recovery.superblock {
        parts.push(format!("a superblock from the other one ({damage})"));
    }
    if parts.is_empty() {
        return None;
    }
    let parts = parts.join(", ");
    Some(match read_only {
        true => format!(
            "the store had not been closed; read {parts}, in memory: the next command that writes to the store recovers it"
        ),
        false => format!("the store had not been closed; recovered {parts}"),
    })
}
