//! What the structures on Polder's pages share: the B+tree and the heap of `polder-tree`, the hash
//! index of `polder-hash`, and whatever is built beside them.
//!
//! A structure owns the pages of one space of a pool. It is made of kinds of pages
//! ([`KindOps`](polder_pool::KindOps): how a page that comes from the device is checked, which links
//! it owns), of a function that does one record of the log to one page again
//! ([`Pool::redoing`](polder_pool::Pool::redoing)), and of the operations on it. What does not depend
//! on what lies in a page is here:
//!
//! | file | |
//! |---|---|
//! | `page.rs` | small questions that every kind of page is asked |
//! | `outcome.rs` | what a change did, and where the log tells of it |
//! | `error.rs` | what the error families have in common |
//! | `create.rs` | the first page of a structure, and each new one that is linked at once |
//! | `levels.rs` | from the root to a page, with and without comparing what lies on the way |
//! | `reshape.rs` | splitting a page that is full, joining two that are not |
//! | `check.rs` | walking a whole structure, and reporting what contradicts itself |
//!
//! A structure whose pages lie on levels below a root implements [`Levels`] to be descended and
//! [`Reshape`] to grow and shrink, both on a type of its own without values; everything here is
//! generic over it and over the pool's translation, so that a descent compiles to the code that it
//! would be if it were written out.
#![forbid(unsafe_code)]

pub mod check;
mod create;
mod error;
pub mod levels;
mod outcome;
pub mod page;
pub mod reshape;

pub use check::{Fault, Report};
pub use create::{create_root, link_new};
pub use levels::Levels;
pub use outcome::{Applied, Effect};
pub use reshape::Reshape;
