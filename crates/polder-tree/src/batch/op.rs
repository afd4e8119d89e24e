//! What a batch is made of, and what becomes of it.

use polder_format::Lsn;
use polder_pool::Translation;
use polder_structure::Effect;

use crate::tree::Tree;

/// One key of a batch.
#[derive(Debug)]
pub struct BatchOp<'b, T: Translation> {
    /// Its tree.
    pub tree: &'b Tree<T>,
    /// The key.
    pub key: &'b [u8],
    /// What must be true of the key before the batch.
    pub expect: Option<Expected>,
    /// What is to be done.
    pub action: BatchAction<'b>,
}

/// What is expected of a key: a record with this version word, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected(pub Option<u64>);

/// What a batch does to a key.
#[derive(Debug, Clone, Copy)]
pub enum BatchAction<'b> {
    /// Nothing: the key is only looked at.
    Look,
    /// Gives it this value and version word.
    Insert(&'b [u8], u64),
    /// Removes it, if it is there.
    Remove,
}

/// What became of a batch.
#[derive(Debug)]
pub enum BatchOutcome {
    /// It was done.
    Done {
        /// What each part of it did to the number of entries.
        effects: Vec<Effect>,
        /// Once the log is durable up to here, so is the batch.
        lsn: Lsn,
    },
    /// Nothing was done: this part of it expected something else.
    Unexpected(usize),
}
