//! A B+tree on Polder's buffer pool.
//!
//! Slotted pages with prefix truncation, heads, hints and fences; optimistic lock coupling; right
//! links; values of any length up to 64 MiB. Generic over the pool's translation, without an `if`
//! on it. Keys are bytes in the order of `memcmp`.
//!
//! | file | |
//! |---|---|
//! | `node/` | one node: layout, search, edit, split, merge, verify |
//! | `descent.rs` | from the root to a leaf, as a step function |
//! | `tree.rs` | looking up, inserting, removing |
//! | `reshape.rs` | splits and merges |
//! | `cursor.rs` | going through in order |
//! | `batch.rs` | changing many keys as one |
//! | `bulk.rs` | loading sorted input |
//! | `overflow.rs` | long values |
//! | `redo.rs` | doing again what the log says |
//! | `check.rs` | finding what is broken |

mod batch;
mod bulk;
mod check;
mod cursor;
mod descent;
mod error;
mod kinds;
pub mod node;
mod overflow;
mod redo;
mod reshape;
mod tree;

pub use batch::{BatchAction, BatchOp, BatchOutcome, Expected, apply_batch};
pub use check::{Fault, Report};
pub use cursor::{Cursor, Entry};
pub use error::TreeError;
pub use kinds::KINDS;
pub use overflow::overflow_piece;
pub use redo::redo;
pub use tree::{Applied, Change, Effect, Tree};
