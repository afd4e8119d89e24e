//! Futures: the same store, for programs in which few threads serve many requests.
//!
//! | file | |
//! |---|---|
//! | `table.rs`, `range.rs`, `store.rs` | what users have: [`AsyncTable`], [`AsyncRange`], [`AsyncStore`] |
//! | `operation.rs` | an operation is tried in each poll, and waits for what was missing |
//! | `helpers.rs`, beside this folder | threads that make what has to wait |
//!
//! Nothing here has a way of its own through a tree: an operation is the one of [`Table`](crate::Table),
//! tried in a thread that may not wait (`waits.rs` of the pool). Pages that are missing are loaded by
//! one thread of the pool for all futures (`loader.rs` there), and what is to be durable is synced by
//! the log's own thread (`durable.rs` of the log).

mod operation;
mod range;
mod store;
mod table;

pub use range::AsyncRange;
pub use store::AsyncStore;
pub use table::AsyncTable;
