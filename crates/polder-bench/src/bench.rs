//! The workloads.

use serde::{Deserialize, Serialize};

use crate::dist::Dist;

/// A workload.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, strum::IntoStaticStr, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Bench {
    /// Insert all records in random order into an empty store.
    Load,
    /// Load all records in key order into an empty store, in the engine's best way (one thread).
    Bulk,
    /// Scan all entries in key order, again and again; operations are entries. Each thread scans
    /// its part of the keys.
    Scan,
    /// Point reads, uniform (ycsb-c with another distribution).
    Lookup,
    /// YCSB A: half reads, half updates, zipfian.
    YcsbA,
    /// YCSB B: 95% reads, 5% updates, zipfian.
    YcsbB,
    /// YCSB C: reads only, zipfian.
    YcsbC,
    /// YCSB D: 95% reads, 5% inserts, latest.
    YcsbD,
    /// YCSB E: 95% scans of 1 to 100 entries, 5% inserts, zipfian. A scan is one operation.
    YcsbE,
    /// YCSB F: half reads, half read-modify-writes, zipfian.
    YcsbF,
    /// Overwrite records, uniform, one or a batch of them in a commit, each complete at its
    /// --durability when the call returns. Operations are records, latencies those of commits.
    Commit,
    /// TPC-C: its nine tables and five transactions, on the tables and batches of Polder. Operations
    /// are transactions, those that were rolled back as the specification wants it included. A
    /// transaction is its reads and one batch that expects the versions that it read, and is tried
    /// again if another one was faster (a conflict). There is no think time. Behind the clock the
    /// consistency conditions 1 to 4 are looked at; one that does not hold is an error.
    Tpcc,
}

/// How operations are mixed, in percent; they add up to 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mix {
    /// Point reads.
    pub read: u64,
    /// Overwriting the value of a record.
    pub update: u64,
    /// Inserting a new record.
    pub insert: u64,
    /// Scans of 1 to [`Mix::MOST_SCANNED`] entries, the length uniform.
    pub scan: u64,
    /// Reading a record and writing it changed.
    pub modify: u64,
}

impl Mix {
    /// Entries of the longest scan.
    pub const MOST_SCANNED: u64 = 100;

    const NONE: Mix = Mix { read: 0, update: 0, insert: 0, scan: 0, modify: 0 };

    /// Whether the store stays as it is.
    pub fn is_read_only(self) -> bool {
        self.update == 0 && self.insert == 0 && self.modify == 0
    }
}

impl Bench {
    /// The name on the command line and in the output.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Whether a round fills a store of its own.
    pub fn fills(self) -> bool {
        matches!(self, Bench::Load | Bench::Bulk)
    }

    /// The operations, where there is a mix of them (as in YCSB's core workloads; that of TPC-C is
    /// one of transactions).
    pub fn mix(self) -> Option<Mix> {
        match self {
            Bench::Load | Bench::Bulk | Bench::Scan | Bench::Tpcc => None,
            Bench::Lookup | Bench::YcsbC => Some(Mix { read: 100, ..Mix::NONE }),
            Bench::YcsbA => Some(Mix { read: 50, update: 50, ..Mix::NONE }),
            Bench::YcsbB => Some(Mix { read: 95, update: 5, ..Mix::NONE }),
            Bench::YcsbD => Some(Mix { read: 95, insert: 5, ..Mix::NONE }),
            Bench::YcsbE => Some(Mix { scan: 95, insert: 5, ..Mix::NONE }),
            Bench::YcsbF => Some(Mix { read: 50, modify: 50, ..Mix::NONE }),
            Bench::Commit => Some(Mix { update: 100, ..Mix::NONE }),
        }
    }

    /// Whether anything is written in a round.
    pub fn writes(self) -> bool {
        self.fills() || self == Bench::Tpcc || self.mix().is_some_and(|mix| !mix.is_read_only())
    }

    /// Which records are asked for, unless told otherwise; `None` where all of them are.
    pub fn dist(self) -> Option<Dist> {
        match self {
            Bench::Load | Bench::Bulk | Bench::Scan | Bench::Tpcc => None,
            Bench::Lookup | Bench::Commit => Some(Dist::Uniform),
            Bench::YcsbD => Some(Dist::Latest),
            _ => Some(Dist::Zipfian),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn mixes_add_up_and_names_agree() {
        for bench in Bench::value_variants() {
            if let Some(mix) = bench.mix() {
                assert_eq!(mix.read + mix.update + mix.insert + mix.scan + mix.modify, 100);
            }
            assert_eq!(bench.mix().is_some(), bench.dist().is_some());
            assert_eq!(bench.to_possible_value().unwrap().get_name(), bench.name());
            assert_eq!(serde_json::to_string(bench).unwrap(), format!("{:?}", bench.name()));
        }
    }

    #[test]
    fn only_lookups_leave_the_store_alone() {
        let read_only = |bench: Bench| bench.mix().is_some_and(Mix::is_read_only);
        assert!(read_only(Bench::Lookup) && read_only(Bench::YcsbC));
        assert!(!read_only(Bench::YcsbA) && !read_only(Bench::YcsbD) && !read_only(Bench::YcsbF));
        assert!(!read_only(Bench::Commit));
    }
}
