//! What several designs are made of.
//!
//! `hash` (chained), `open`, `predictive` and `simd` find a page in a table. A table has an entry
//! for a page from claim (F5) to abandon or retire (E7), and a state word for the entry. Where the
//! word lies differs:
//!
//! * *In the entry* (`chain.rs`, `chain_table.rs`: `hash`, `predictive`). The entry is the frame's
//!   header: page id and state word. The word says the frame.
//! * *By frame* (`by_frame.rs`: `open`, `simd`, `swizzle`). The table leads to a frame; beside the
//!   frame's state word stands its *tag* (`tagged.rs`), the id of the page that the word speaks of.
//!
//! * `TABLE-1` There is at most one entry for a page: a thread that inserts looks for it under the
//!   latch of the bucket (or partition) in which every entry of that page lies.
//! * `TABLE-2` The memory of a state word serves one page after another. It is 0 while it serves
//!   none. So a thread that took or waited for a word (latch, share, await) must look afterwards
//!   whether it is the page's: the frame's metadata names the page, and cannot change while the word
//!   is held. A thread that only read the word is told by validation: no pair (frame, version) comes
//!   back (`POOL-3`).
//! * `TABLE-3` There are never more entries than frames: a thread that claims owns a frame. So the
//!   spare entries, one a frame, cannot run out.
//! * `TABLE-4` A reader of a table takes no step that depends on luck: indices are those of the
//!   table, walks are bounded, and what is found is accepted only with its page id.
//!
//! Claim, in the entry: lock the bucket; look for the page: there is one, so unlock, "taken"; else
//! take the first slot if it is free, or a spare entry; page id; word 0 to in flight; link;
//! unlock. Abandon and retire: lock the bucket; word := 0; page id := none; unlink; unlock; the
//! entry is spare again.
//!
//! | | reader of the table | why it is sound |
//! |---|---|---|
//! | `hash` | holds the bucket's latch shared (spinning, two locked instructions) | nobody changes the chain meanwhile |
//! | `predictive` | reads the bucket's version, page id and word, and the version again | an entry that changed hands meanwhile raised the version (64 bits, which do not come round) |
//! | `open` | holds the partition's latch shared, then reads word and tag | as `simd`, behind the latch |
//! | `simd` | word and tag of the preferred frame; if that is another page's: fingerprints, frame, word, tag, in this order, without a lock | `tagged.rs` |
//!
//! A removed slot on which a reader stands (`predictive`): its link may lead into another chain by
//! now. Each step looks at the bucket's version first; so the walk ends, and is done again.

pub(crate) mod bucket_latch;
pub(crate) mod by_frame;
pub(crate) mod chain;
pub(crate) mod chain_table;
pub(crate) mod chunks;
pub(crate) mod directory;
pub(crate) mod page_hash;
pub(crate) mod predict;
pub(crate) mod preferred;
pub(crate) mod tagged;
