//! What several designs are made of.

pub(crate) mod bucket_latch;
pub(crate) mod by_frame;
pub(crate) mod chain;
pub(crate) mod chain_table;
pub(crate) mod chunks;
pub(crate) mod directory;
pub(crate) mod guess;
pub(crate) mod page_hash;
pub(crate) mod preferred;
pub(crate) mod tagged;
