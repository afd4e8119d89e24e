//! What lookups write to cache lines that other threads use, by `scripts/shared-writes --json`: a
//! build in which the pool's atomics count. A few cores show little of what many would wait for;
//! this shows it of any number.

use std::fs;
use std::path::Path;

use polder_pool::ReadMode;
use serde::{Deserialize, Serialize};

use crate::error::BenchError;

/// What the script printed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SharedWrites {
    /// Threads that looked up at once (one on each core where pages are held by cores).
    pub(crate) threads: u64,
    /// Records of the tree, all resident.
    pub(crate) keys: u64,
    pub(crate) sides: Vec<Counted>,
}

/// One translation with one read mode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Counted {
    pub(crate) translation: String,
    pub(crate) hold: String,
    /// `None` if the translation refuses to be held so.
    pub(crate) a_lookup: Option<Writes>,
}

/// Writes a lookup.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Writes {
    pub(crate) stores: f64,
    /// Read-modify-writes.
    pub(crate) updates: f64,
    /// Of both, those to words that no other thread uses, in lines that others use.
    pub(crate) by_neighbourhood: f64,
}

impl SharedWrites {
    /// Reads what the script printed.
    pub(crate) fn read(path: &Path) -> Result<SharedWrites, BenchError> {
        let text = fs::read_to_string(path).map_err(BenchError::file(path))?;
        serde_json::from_str(&text).map_err(|error| {
            let path = path.display();
            BenchError::Options(format!(
                "{path} is not what `scripts/shared-writes --json` prints: {error}"
            ))
        })
    }

    /// The most writes of an optimistic lookup by any of these; `None` if one was not counted.
    pub(crate) fn most_of(&self, translations: &[&str]) -> Option<f64> {
        translations.iter().try_fold(0.0, |most: f64, name| {
            let is_it = |side: &&Counted| {
                side.translation == *name && side.hold == ReadMode::Optimistic.name()
            };
            let writes = self.sides.iter().find(is_it)?.a_lookup?;
            Some(most.max(writes.stores + writes.updates))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = r#"{"threads":4,"keys":20000,"sides":[
        {"translation":"array","hold":"optimistic","a_lookup":{"stores":0,"updates":0,"by_neighbourhood":0}},
        {"translation":"hash","hold":"optimistic","a_lookup":{"stores":0,"updates":6,"by_neighbourhood":0}},
        {"translation":"array","hold":"group","a_lookup":{"stores":0,"updates":6,"by_neighbourhood":0.5}},
        {"translation":"direct","hold":"group","a_lookup":null}]}"#;

    #[test]
    fn what_the_script_prints_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("writes.json");
        fs::write(&file, PRINTED).unwrap();
        let read = SharedWrites::read(&file).unwrap();
        assert_eq!((read.threads, read.sides.len()), (4, 4));
        assert_eq!(read.sides[3].a_lookup, None);
        assert_eq!(read.most_of(&["array"]), Some(0.0));
        assert_eq!(read.most_of(&["array", "hash"]), Some(6.0));
        assert_eq!(read.most_of(&["array", "vm"]), None);
        fs::write(&file, "writes a lookup").unwrap();
        let refused = SharedWrites::read(&file).unwrap_err().to_string();
        assert!(refused.contains("writes.json") && refused.contains("--json"), "{refused}");
    }
}
