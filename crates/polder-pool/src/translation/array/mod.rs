//! Array translation (calico-2026, section 4): the page number indexes an array of state words. The
//! default.
//!
//! 1. The page number names an entry of the space's array (algorithm 1): one load gives frame,
//!    version and latch. Neighbouring pages have neighbouring words; there is nothing to hash,
//!    chase or lock.
//! 2. The array is reserved address space in doubling chunks (`chunk.rs`), backed by memory only
//!    where pages are or were resident. The word of an evicted page is zero.
//! 3. A page that comes or goes is counted in its group of 512 words, under the group's lock
//!    (algorithm 2, `group.rs`); a group whose words are all zero is punched out (4.3).
//! 4. Groups with few resident pages keep their words in a small table (`words.rs`; the paper
//!    leaves that open).
//! 5. A page prefers the frame that its number names, and gets it if that is free when the page is
//!    loaded: the processor predicts that the word says so, and begins to load from there at the
//!    same time as the word (predictive-2026, section 4, for a hash table), which would
//!    else be two cache misses one behind the other. Where that is wrong it costs a mispredicted
//!    branch. Pages that lie elsewhere move there in time (`promote.rs`), if they are used often
//!    enough.
//!
//! [`ArrayPlain`] does without step 5; with `ArraySwizzled` the link says where its page is
//! (`swizzle/hints.rs`).

mod chunk;
pub(crate) mod group;
mod sparse;
#[cfg(test)]
mod tests;
mod translate;
mod words;

#[cfg(not(loom))]
pub use translate::{Array, ArrayPlain, Arrays};
