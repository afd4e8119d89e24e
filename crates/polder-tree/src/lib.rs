//! A B+tree and a heap of rows on Polder's buffer pool.
//!
//! The tree: slotted pages with prefix truncation, heads, hints and fences; optimistic lock coupling; right
//! links; values of any length up to 64 MiB. Generic over the pool's translation, without an `if`
//! on it. Keys are bytes in the order of `memcmp`.
//!
//! The heap ([`Heap`]): rows that fit in a page, appended, found by their place, and gone through in
//! the order of pages at one validation a page.
//!
//! | file | |
//! |---|---|
//! | `node/` | one node: layout, search, edit, split, merge, verify |
//! | `descent.rs` | which link a descent follows, and what it compares |
//! | `way.rs` | the way of a lookup from the root to a leaf |
//! | `snapshot.rs` | the same by snapshots of nodes |
//! | `tree.rs` | the handle: making a tree, opening one |
//! | `read.rs` | looking up |
//! | `many.rs`, `many/` | looking up many keys, or ranges, at once; making leaves ready for writes |
//! | `write.rs` | inserting, removing |
//! | `reshape.rs` | splits and merges |
//! | `compact.rs` | merging all that is sparse, and moving pages to lower numbers |
//! | `compact/moving.rs` | moving one node, or one long value |
//! | `cursor.rs`, `cursor/` | going through in order |
//! | `walk.rs`, `siblings.rs` | from one leaf to the next; what lies ahead |
//! | `ahead.rs` | how far ahead a scan has pages loaded |
//! | `bounds.rs` | where ranges of keys begin and end |
//! | `count.rs` | counting entries without copying them |
//! | `batch.rs` | changing many keys as one |
//! | `bulk.rs` | loading sorted input |
//! | `stored.rs` | a value on its way into a leaf |
//! | `overflow.rs`, `value_ref.rs` | long values; lending them |
//! | `redo.rs` | doing again what the log says |
//! | `check.rs` | finding what is broken |
//! | `heap.rs` | rows without keys: appending, looking up, going through, loading |
//! | `heap/page.rs` | one page of a heap |
//! | `heap/hosted.rs` | a heap in a store |
//!
//! What a tree and other structures do alike is in `polder-structure`: the drivers of descents,
//! which pages are latched when in a split or a merge, the walk of a check.

mod ahead;
mod batch;
mod bounds;
mod bulk;
mod check;
mod compact;
mod count;
mod cursor;
mod descent;
mod error;
mod heap;
mod kinds;
mod many;
pub mod node;
mod overflow;
mod read;
mod redo;
mod reshape;
mod siblings;
mod snapshot;
mod stored;
mod tree;
mod value_ref;
mod walk;
mod way;
mod write;

pub use batch::{BatchAction, BatchOp, BatchOutcome, Expected, apply_batch};
pub use compact::CompactStep;
pub use cursor::{Cursor, Entry, Place};
pub use error::TreeError;
pub use heap::{Heap, HeapError, HeapStructure, RowId, Rows};
pub use kinds::{KINDS, TREE_KINDS};
pub use many::{Bounds, ManyError, Warmed};
pub use overflow::overflow_piece;
pub use polder_structure::{Applied, Effect, Fault, Report};
pub use redo::redo;
pub use tree::Tree;
pub use value_ref::ValueRef;
pub use write::Change;
