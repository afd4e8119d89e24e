//! Opening a log that there was: its end is found, what is torn is restored, and what it tells is
//! done again. R1 to R10, whose order is that of `Opening::reopen` in the crate polder.
//!
//! | file | |
//! |---|---|
//! | `found.rs` | what the log tells of itself |
//! | `find_end.rs` | where it ends, and whether a part of it is missing (R2, R3) |
//! | `second_copies.rs` | what the double-write buffer makes whole |
//! | `torn_pages.rs` | pages that are not whole in place are restored (R5) |
//! | `open.rs` | the log goes on behind its end (R4, R10) |
//! | `recover.rs` | what it tells is done again (R6 to R8): |
//! | `maps.rs` | first to the maps (R6) |
//! | `catalogue.rs` | then, if somebody wants to look there, to the catalogue's pages (R7) |
//! | `pages.rs` | then to all other pages, by several threads (R7) |
//! | `ahead.rs` | pages of the records that come next are read together |
//! | `halves.rs` | what one thread has of a page that another one redoes |
//! | `redoing.rs` | records are applied; pages that could not be read, or did not fit (R8) |
//! | `tells.rs` | whether there was a store, when its data file does not tell |

#![cfg(not(loom))]

mod ahead;
mod catalogue;
mod find_end;
mod found;
mod halves;
mod maps;
mod open;
mod pages;
mod recover;
mod redoing;
mod second_copies;
mod tells;
mod torn_pages;

pub(crate) use find_end::Told;
pub use found::Found;
pub use recover::{Progress, Recovered, recover_catalogue, recover_maps, recover_pages};
pub(crate) use second_copies::SlotsFound;
pub use tells::{LogTells, tells_of_store};
