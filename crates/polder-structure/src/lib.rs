//! What the structures on Polder's pages share: the B+tree and the heap of `polder-tree`, the hash
//! index of `polder-hash`, and whatever is built beside them.
//!
//! A structure owns the pages of one space of a pool. It is made of kinds of pages
//! ([`KindOps`](polder_pool::KindOps): how a page that comes from the device is checked, which links
//! it owns, how a record of the log is done to it again), and of the operations on it. What does not
//! depend on what lies in a page is here:
//!
//! | file | |
//! |---|---|
//! | `structure.rs` | what a store must know of a structure to host it |
//! | `edit.rs` | changes of several pages as one, logged by what differs |
//! | `page.rs` | small questions that every kind of page is asked |
//! | `outcome.rs` | what a change did, and where the log tells of it |
//! | `error.rs` | what the error families have in common |
//! | `create.rs` | the first page of a structure, and each new one that is linked at once |
//! | `levels.rs` | from the root to a page, with and without comparing what lies on the way |
//! | `many.rs` | the same for many targets at once, by one thread |
//! | `reshape.rs` | splitting a page that is full, joining two that are not |
//! | `check.rs` | walking a whole structure, and reporting what contradicts itself |
//!
//! There are two ways to change pages. *Edits* ([`edit()`]) work on copies, or on bytes of pages: nothing is latched, no record
//! is written by hand, none is redone, and what fails leaves nothing behind. Structures that count
//! cycles latch pages, push records of their own to a [`Change`](polder_pool::Change), and do them
//! again in a recovery; the tree and the hash index do.
//!
//! A structure whose pages lie on levels below a root implements [`Levels`] to be descended and
//! [`Reshape`] to grow and shrink, both on a type of its own without values; everything here is
//! generic over it and over the pool's translation, so that a descent compiles to the code that it
//! would be if it were written out.
#![forbid(unsafe_code)]

pub mod check;
mod create;
pub mod edit;
mod error;
pub mod levels;
pub mod many;
mod outcome;
pub mod page;
pub mod reshape;
mod structure;

pub use check::{Fault, Report};
pub use create::{create_root, link_new};
pub use edit::{Edit, edit, edit_logged};
pub use levels::Levels;
pub use outcome::{Applied, Effect};
pub use reshape::Reshape;
pub use structure::Structure;
