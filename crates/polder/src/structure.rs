//! What builders of structures need to have a store host them: the trait that a structure implements,
//! edits of its pages, and what these are made of.
//!
//! `crates/polder/examples/stack.rs` is a durable stack that is recovered, checked and salvaged with the
//! store that it is in. `polder-hash` and the heap of `polder-tree` are hosted in the same way and log
//! with records of their own; the vector index of `polder-vector` is one with options. The rules of the
//! pool, and what a builder must know of links, are in the README of `polder-pool`.

pub use polder_format::{Lsn, PAGE_HEADER_BYTES, PageId, PageKind, PageNo, PageSize};
pub use polder_pool::bytes::{PageBuf, PageMut, PageRef};
pub use polder_pool::{
    AccessHint, Attempt, Change, KindOps, LinkRef, OwnedLinks, PoolError, Restart, Space,
    Translation,
};
pub use polder_structure::check::{Next, Walk};
pub use polder_structure::levels::root;
pub use polder_structure::page::page_no;
pub use polder_structure::{Edit, Fault, Report, Structure, edit, edit_logged};
