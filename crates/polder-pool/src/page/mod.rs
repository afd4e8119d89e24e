//! Pages: their bytes, which others may be changing; what the pool must know of each kind; and links
//! between them.

pub mod bytes;
pub(crate) mod kinds;
pub(crate) mod link;

pub(crate) use bytes::{OVERRUN_BYTES, PageBuf, PageMut, PageRef};

#[cfg(not(loom))]
pub(crate) use {
    kinds::{KindOps, PageKinds},
    link::LinkRef,
};
