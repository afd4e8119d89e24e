//! An extendible hash index on Polder's buffer pool: byte keys to byte values, in no order.
//!
//! It is a second structure beside the trees of `polder-tree`, and an example of how one is built
//! on the pool (leanstore-2018 IV-E: a root page whose hash bits divide the keys, and pages below
//! it that are reached by owned links). Generic over the pool's translation, without an `if` on it.
//!
//! # Design
//!
//! ```text
//!   level 2           +---- node, prefix none, depth 2 -----+
//!   (the root,        | slots:  0   0   1   2   <- numbers  |      hash 01...: slot 1 -> child 0
//!   page 1 always)    | links: [A] [B] [C]                  |
//!                     +---------|---|---|-------------------+
//!               +---------------+   |   +----------+
//!               v                   v              v
//!   level 1   node, prefix 0     node, prefix 10   node, prefix 11
//!              |   |   |                ...             ...
//!              v   v   v
//!   level 0   buckets, prefixes 00, 010, 011: entries sorted by a tag of their hashes
//! ```
//!
//! **The directory is a tree of small directories.** One directory of 2^g links that doubles as a
//! whole would have to be copied under the eyes of its readers, a thousand pages at a time. Here
//! each node is an extendible directory that fits in its page, and doubles in it. A node that is
//! full is split into two by the first bit behind its prefix, as a bucket is, and its parent gets a
//! child more; when the root is full the directory gets one level higher, as a B+tree does. So a
//! change concerns a parent, a child and a new page, whatever the size of the index; all buckets
//! are on one level; and nodes are half full at least while hashes are spread evenly, one for some
//! 250 buckets of 4 KiB. (In a trie a full node stays, and each of its children that is split gets
//! a node below it: one node more for two buckets, each time that the index has grown beyond a
//! level.) It ends where page numbers do.
//!
//! **One link leads to each page.** A child with fewer bits than its node has several slots. Were
//! the slots links, only one of them could own the page (`OwnedLinks`); the others had to ask a
//! table for ever, or each reader had to find the first slot of the range, and each split to move
//! what is swizzled. So slots are numbers of two bytes, and links are in an array of their own,
//! where they are aligned, owned, and swizzled under `swizzle`, whichever slot leads to them. It
//! is also what lets 376 children have 512 slots in 4 KiB: fewer splits for want of bits.
//!
//! **A bucket is searched by interpolation.** Its hashes share their first bits, and it is sorted
//! by their last 16, which are spread evenly; so where an entry is follows from its tag. A lookup
//! touches the header, a line of slots and the entry (`bucket`).
//!
//! **Equal hashes go to a chain.** Splitting goes on as long as two hashes differ in a bit; a
//! bucket whose keys all have one hash, and that is full, gets up to five more pages. The chain
//! holds keys of that hash alone: one with another hash splits the bucket first, which moves
//! nothing. Full chains refuse keys ([`HashError::Crowded`]); without a bound a caller that chooses
//! keys could make an operation hold any number of pages. Random keys never come there. Hashes that
//! differ, but only in their last bits, cost a bucket for each bit that they share beyond what
//! others do, and some nodes; nothing that grows with the index.
//!
//! # Invariants
//!
//! * `HASH-1` A key lies in the bucket, or the chain, whose prefix its hash begins with. The
//!   prefixes of all buckets divide the hashes: those of a node's children divide its own.
//! * `HASH-2` To each page but the root one link leads: that of its parent, or of the page before
//!   it in a chain. Both own it.
//! * `HASH-3` All children of a node are one level below it, buckets on level 0; the root is page
//!   1.
//!
//! and those of the parts: `HNODE-1` to `HNODE-3`, `BUCKET-1` to `BUCKET-5`, `HCHAIN-1` and
//! `HCHAIN-2`, `HCURSOR-1` and `HCURSOR-2`; how pages are split and joined is `RESHAPE-1` to
//! `RESHAPE-5`, of all structures. [`HashIndex::check`] looks at all that can be told from pages.
//! How pages lie on disk is in `docs/format.md`.
//!
//! # Which pages are latched
//!
//! Readers latch nothing: each page is validated once its child's state has been read, and the
//! bucket when it has been read. Writers:
//!
//! | step | latched exclusively, in this order | new pages, made before; freed ones, given back after |
//! |---|---|---|
//! | an entry comes, changes or goes | its bucket | |
//! | the same in a chain | all pages of the chain, from the bucket on (`HCHAIN-1`) | |
//! | a chain gets longer | all pages of the chain, the new one, the map | one made |
//! | a chain gets shorter | all pages of the chain, the map | one freed |
//! | a bucket or a node is split | its parent, itself, the new page, the map | one made |
//! | the root is split | the root, the new pages, the map | two made |
//! | two buddies are joined | their parent, the low one, the high one, the map | one freed |
//! | the root takes in its only child | the root, the child, the map | one freed |
//!
//! Each row is one group of the log. Latches are upgrades of what was read, and none is waited for;
//! the whole begins again if one fails.
//!
//! What a page covers and where its parent's slots lead change in the same step. So a reader that
//! validates the parent after reading the child's state has the child that covers its hash, at that
//! moment; and if the child is split or joined afterwards, the child does not validate. No page
//! needs to be asked whether a hash belongs to it.
//!
//! ```text
//!   bucket, no chain --full, hashes differ--> split --> two buckets, no chain
//!         |     ^                                             |
//!         | full, |  the last page of the chain               | together at most 7/8 full:
//!         | one   |  but the first is gone                    | joined
//!         | hash  |                                           v
//!         v     |                                     bucket, no chain
//!   bucket with a chain of that hash
//!         |
//!         +--a key with another hash comes--> split: an empty bucket beside it, the chain stays as
//!         it is
//! ```
//!
//! When a bucket has become less than a quarter full its buddy is looked at, and then, where a node
//! has become so, that node's. A lookup in a chain reads up to six pages and validates all of them
//! when it has read the last (`HCHAIN-2`). Each page of a chain was the same then as when it was
//! read; an operation that moves an entry from page to page holds all of them; so it is seen once.
//! Eviction under `swizzle` needs nothing of this: each link of a node, and each link from page to
//! page of a chain, owns its page and is the only one that leads to it.
//!
//! # Files
//!
//! | file | |
//! |---|---|
//! | `hash.rs` | the hash of a key, prefixes of hashes |
//! | `page.rs` | what nodes and buckets have in common |
//! | `node/` | one node of the directory: slots, links, edit, verify |
//! | `bucket/` | one bucket: search, edit, verify |
//! | `descent.rs` | which link a descent follows, and what it compares |
//! | `handle.rs` | the handle: making an index, opening one |
//! | `hosted.rs` | an index in a store |
//! | `index.rs` | looking up, inserting, removing |
//! | `reshape.rs` | splits and joins |
//! | `chain.rs` | keys with equal hashes |
//! | `cursor.rs` | going through all entries |
//! | `redo.rs` | doing again what the log says |
//! | `check.rs` | finding what is broken |
//!
//! What an index and other structures do alike is in `polder-structure`: the drivers of descents,
//! which pages are latched when in a split or a join, the walk of a check.

pub mod bucket;
mod chain;
mod check;
mod cursor;
mod descent;
mod error;
mod handle;
mod hash;
mod hosted;
mod index;
mod kinds;
pub mod node;
mod page;
mod redo;
mod reshape;

pub use cursor::{Cursor, Entry};
pub use error::HashError;
pub use handle::HashIndex;
pub use hash::{KeyHash, Prefix, Side};
pub use hosted::{ByteMap, HashStructure, Visit};
pub use kinds::KINDS;
pub use polder_structure::{Applied, Effect, Fault, Report};
pub use redo::redo;

/// The README's program.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
