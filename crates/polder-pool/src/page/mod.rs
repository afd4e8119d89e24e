//! Pages: their bytes, which others may be changing; what the pool must know of each kind; and links
//! between them.

pub mod bytes;
pub(crate) mod kinds;
pub(crate) mod link;

pub(crate) use bytes::{OVERRUN_BYTES, PageBuf, PageMut, PageRef};

#[cfg(all(not(loom), any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) use bytes::copy_to_shared;
#[cfg(not(loom))]
pub(crate) use {
    kinds::{KindOps, PageKinds},
    link::LinkRef,
};
