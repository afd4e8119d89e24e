//! Polder: an embedded, ordered key-value store for data that does not fit in memory.
//!
//! What fits in the memory budget is served at the speed of an in-memory structure; the rest comes
//! from a file, page by page. Keys and values are bytes; keys are in the order of `memcmp`. The
//! vocabulary is that of `BTreeMap`.
//!
//! ```
//! use polder::{Options, Store};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("store");
//! let store = Store::open(Options::new(&path).memory_budget(16 << 20))?;
//! let cities = store.open_table("cities")?;
//! cities.put("Groningen", "238147")?;
//! cities.put("Delft", "109577")?;
//! assert_eq!(cities.get("Delft")?, Some(b"109577".to_vec()));
//! for entry in cities.prefix("G") {
//!     let (name, _) = entry?;
//!     assert_eq!(name, b"Groningen");
//! }
//! store.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! What a call has written when it returns outlives the process, the system and the power, unless
//! it asks for less ([`Durability`]).
//!
//! # Features
//!
//! None is on by default.
//!
//! * `all-translations`, or the name of one ([`TranslationKind`]): other ways to find a page in
//!   memory than the default.
//! * `async`: futures, for programs that serve many requests with few threads: [`AsyncTable`] has
//!   `get(key).await` and its like, on any runtime or none.
//! * `tools`: what looks at the devices past the pool. [`Store::check_deep`] reads all that lies on
//!   them, [`salvage()`] copies what is readable of a damaged store into a new one, [`log_dump`] tells
//!   what stands in a log. Polder's command line has them, so that an application needs them only
//!   where it repairs stores by itself, or has structures of its own to be salvaged.
//! * `miss-ratios`: how often accesses would miss with more memory and with less
//!   ([`PoolStats::miss_ratios`]).
//! * `tiers`: tiers of memory, fast frames and slower ones behind them ([`Options::tiers`]).
//! * `vector`: collections of vectors ([`Store::create_collection`]): those nearest to any vector, each with a
//!   key and a payload.
//! * `tracing`: what a store does in the background is told to the subscriber of the crate `tracing`:
//!   opening and recovery, checkpoints, growth of the log, sweeps that free no frame, syncs of more
//!   than a second, writes that fail, closing. Errors that end a store have the level `error`; what
//!   an operator should look at has `warn`.
#![forbid(unsafe_code)]

mod any;
mod any_error;
#[cfg(feature = "async")]
mod asynchronous;
mod auto_shrink;
mod auto_warm;
mod batch;
mod catalogue;
mod check;
#[cfg(feature = "tools")]
mod check_deep;
mod checkpointer;
#[cfg(feature = "tools")]
mod closed;
#[cfg(feature = "vector")]
mod collection;
pub mod device;
mod directory;
mod durability;
mod engine;
mod entry_count;
mod error;
mod fair_mutex;
mod families;
mod file;
mod handle;
#[cfg(feature = "async")]
mod helpers;
mod hosted;
mod key_range;
mod kind;
#[cfg(feature = "vector")]
mod labels;
mod live;
#[cfg(feature = "tools")]
pub mod log_dump;
#[cfg(feature = "tools")]
mod maps;
mod name;
mod opening;
mod options;
#[cfg(feature = "tools")]
mod page_file;
mod prewarm;
mod quiesce;
mod range;
mod recovery;
mod registry;
mod resident;
#[cfg(feature = "tools")]
mod salvage;
mod shrink;
mod shrinker;
mod stamps;
mod stats;
mod store;
mod table;
mod warm;

pub mod structure;

pub use any_error::Error;
#[cfg(feature = "async")]
pub use asynchronous::{AsyncRange, AsyncStore, AsyncTable};
pub use batch::{BatchError, WriteBatch};
pub use catalogue::MAX_TABLE_NAME_BYTES;
pub use check::{CheckFault, CheckReport};
#[cfg(feature = "tools")]
pub use check_deep::{DeepFault, DeepPhase, DeepReport};
#[cfg(feature = "vector")]
pub use collection::{
    Collection, CollectionProbe, CollectionRepair, CollectionReport, Entries, Hit, Hits, KeySet,
    Keys, Loaded, Query,
};
pub use durability::Durability;
pub use error::{OpenError, OptionsError, StoreError};
pub use handle::Store;
pub use hosted::{Hosted, StructureInfo};
pub use key_range::{KeyRange, Prefix};
pub use kind::TranslationKind;
pub use live::{LiveError, live_stats};
pub use options::{OpenMode, Options};
#[doc(inline)]
pub use polder_format::tuple;
#[doc(inline)]
pub use polder_pool::replacement::{ReplacementKind, UnknownReplacement};
#[doc(inline)]
pub use polder_pool::{
    GroupSize, Migration, MissRatios, NodeId, NodeStats, PoolStats, PrewarmEnd, Prewarmed,
    ReadMode, SpaceStats, TierMissRatios, TierStats, UnknownReadMode,
};
#[cfg(feature = "tiers")]
#[doc(inline)]
pub use polder_pool::{MoveMode, PageMoves, Tier};
pub use polder_tree::node::MAX_VALUE_BYTES;
#[doc(inline)]
pub use polder_tree::{Change, ValueRef};
/// Vectors, and what they are compared by. (With the feature `vector`.)
#[cfg(feature = "vector")]
#[doc(inline)]
pub use polder_vector as vector;
pub use range::{Entry, EntryRef, Range};
pub use recovery::Recovery;
#[cfg(feature = "tools")]
pub use salvage::{
    KeyGap, LogGap, Loss, SalvageError, SalvagePhase, SalvageReport, SalvagedTable, UnreadablePage,
    salvage,
};
pub use shrink::{ShrinkProgress, ShrinkStep};
pub use stats::{Stats, TableStats};
pub use table::Table;
