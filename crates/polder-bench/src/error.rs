//! What can go wrong in a benchmark.

use std::io;
use std::path::PathBuf;

use polder::{BatchError, OpenError, StoreError, Table};
use polder_pool::PoolError;
use polder_tree::{HeapError, TreeError};

/// What went wrong in an engine, in its own words.
pub type EngineError = Box<dyn std::error::Error + Send + Sync>;

/// Why a benchmark gave no figure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// A store that the benchmark works on directly.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Such a store that cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A batch for such a store.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// A row that must be there is not, or has not all its fields.
    #[error("table {table} has no whole row with the key {}", key.escape_ascii())]
    NoRow {
        /// Which table.
        table: String,
        /// The key, or the beginning of it.
        key: Vec<u8>,
    },
    /// Consistency conditions that do not hold.
    #[error("{} consistency condition(s) do not hold: {}", .0.len(), .0.join("; "))]
    Inconsistent(Vec<String>),
    /// The engine failed.
    #[error("engine {engine} failed: {source}")]
    Engine {
        /// Its name.
        engine: String,
        /// What it said.
        source: EngineError,
    },
    /// A record that was inserted is not found.
    #[error("record {record} was inserted and is not found")]
    Missing {
        /// Number of the record.
        record: u64,
    },
    /// The engine gave something that was never stored, or not all that was.
    #[error("{0}")]
    Wrong(String),
    /// A column was not added up to what was stored.
    #[error("a scan added up to {found} instead of {expected}")]
    WrongSum {
        /// What came.
        found: u64,
        /// What was stored.
        expected: u64,
    },
    /// A file or directory of the benchmark itself.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A pool that the benchmark works on directly.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A tree that the benchmark works on directly.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// A heap that the benchmark works on directly.
    #[error(transparent)]
    Heap(#[from] HeapError),
    /// Options that do not go together.
    #[error("{0}")]
    Options(String),
    /// Figures that JSON cannot express.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The child process of an engine failed.
    #[error("{engine}: {message}")]
    Worker {
        /// Whose.
        engine: String,
        /// What it said.
        message: String,
    },
    /// Some runs of many gave nothing.
    #[error("{count} of the runs failed: {path} says why", path = path.display())]
    Runs {
        /// How many.
        count: usize,
        /// The file that names them.
        path: PathBuf,
    },
    /// A trace or a graph that cannot be read.
    #[error("{path}:{at}: {why}", path = path.display())]
    Trace {
        /// Which file.
        path: PathBuf,
        /// Line or record, from 1.
        at: u64,
        /// What is wrong with it.
        why: String,
    },
    /// A replacement policy found nothing that could go, though nothing was held.
    #[error("the replacement policy {policy} names no victim")]
    NoVictim {
        /// Which one.
        policy: String,
    },
    /// The system did not start all threads.
    #[error("only {started} of {wanted} threads could be started: {source}")]
    Threads {
        /// How many there were.
        started: usize,
        /// How many there should be.
        wanted: usize,
        /// What the system said of the next.
        source: io::Error,
    },
    /// Somebody asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// As much of a line of a file as fits into a message.
pub(crate) fn quoted(line: &str) -> String {
    const MOST: usize = 40;
    format!("{:?}", line.chars().take(MOST).collect::<String>())
}

impl BenchError {
    /// For `map_err` after a call of an engine.
    pub(crate) fn engine(engine: &'static str) -> impl Fn(EngineError) -> BenchError {
        move |source| BenchError::Engine { engine: engine.to_owned(), source }
    }

    /// For a row that is not there.
    pub(crate) fn no_row(table: &Table, key: &[u8]) -> BenchError {
        BenchError::NoRow { table: table.name().to_owned(), key: key.to_vec() }
    }

    /// For `map_err` after a call on a file.
    pub(crate) fn file(path: &std::path::Path) -> impl FnOnce(io::Error) -> BenchError + '_ {
        move |source| BenchError::File { path: path.to_owned(), source }
    }
}
