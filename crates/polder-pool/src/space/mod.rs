//! Spaces on disk: which extents of the file belong to a space, and which of its pages are in use.
//!
//! Drawn in `docs/format.md`: paged arrays, extents, allocation maps.
//!
//! | file | |
//! |---|---|
//! | `array_read.rs`, `array_write.rs` | paged arrays: the space directory and the extent maps |
//! | `locate.rs` | where a page lies in the file |
//! | `extents.rs` | taking and releasing extents |
//! | `alloc.rs` | allocation maps: giving out pages and taking them back |
//! | `physical.rs` | which physical pages of the file are free |
//! | `change.rs` | a change of pages and of maps, and its log records |
//! | `life.rs` | making, opening and dropping spaces |
//! | `loan.rs` | pages whose bytes are lent: G1 to G6 |
//! | `give_back.rs` | what is given back later |
//! | `shrink.rs` | moving extents and maps so that the file can end earlier |

#![cfg(not(loom))]

mod alloc;
mod array_read;
mod array_write;
pub(crate) mod change;
mod extents;
mod give_back;
mod life;
pub(crate) mod loan;
mod locate;
mod physical;
mod shrink;

use polder_format::{ALLOC_MAP_BITS_AT, ALLOC_MAP_USED_AT, ARRAY_HEIGHT_AT, PageKind};

use crate::page::{KindOps, PageRef};

pub(crate) use give_back::give_back;
pub(crate) use locate::{locate, locate_at_once};

/// Paged arrays of more levels than this would cover more than there are page numbers.
const MAX_HEIGHT: u8 = 6;

/// The pool's own kinds of pages.
pub(crate) const KINDS: [KindOps; 2] = [
    KindOps {
        kind: PageKind::ARRAY,
        name: "array page",
        max_layout: 1,
        check: |page| {
            if page.u8(ARRAY_HEIGHT_AT) > MAX_HEIGHT {
                return Err("the height of an array page is more than there can be");
            }
            Ok(())
        },
        links: None,
        redo: None,
    },
    KindOps {
        kind: PageKind::ALLOC_MAP,
        name: "allocation map",
        max_layout: 1,
        check: |page| {
            let used = page.u32(ALLOC_MAP_USED_AT);
            if used != count_bits(page) {
                return Err("an allocation map does not count as many pages as it marks");
            }
            Ok(())
        },
        links: None,
        redo: None,
    },
];

fn count_bits(page: PageRef<'_>) -> u32 {
    (ALLOC_MAP_BITS_AT..page.size()).step_by(8).map(|at| page.u64(at).count_ones()).sum()
}
