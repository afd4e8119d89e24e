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
//! cities.insert(b"Groningen", b"238147")?;
//! cities.insert(b"Delft", b"109577")?;
//! assert_eq!(cities.get(b"Delft")?.as_deref(), Some(&b"109577"[..]));
//! for entry in cities.prefix(b"G") {
//!     let (name, _) = entry?;
//!     assert_eq!(name, b"Groningen");
//! }
//! store.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! A store that was not closed is refused when it is opened again: there is no log yet.
#![forbid(unsafe_code)]

mod any;
mod catalogue;
mod check;
mod directory;
mod engine;
mod error;
mod file;
mod options;
mod passage;
mod range;
mod stamps;
mod stats;
mod store;
mod table;

pub use check::{CheckFault, CheckReport};
pub use error::{OpenError, OptionsError, StoreError};
pub use options::{OpenMode, Options, TranslationKind};
pub use polder_format::tuple;
pub use polder_tree::Change;
pub use range::{Entry, EntryRef, Range};
pub use stats::{Stats, TableStats};
pub use store::Store;
pub use table::Table;
