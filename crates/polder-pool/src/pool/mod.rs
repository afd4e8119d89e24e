//! The pool as those see it that build structures on it.
//!
//! | file | |
//! |---|---|
//! | `config.rs` | how a pool is opened, and what its budget pays for |
//! | `open.rs` | how it is made of its parts |
//! | `handle.rs` | the handles of a pool and of a space |
//! | `pool.rs`, `space.rs` | all that they offer |
//! | `loans.rs` | pages that are lent |
//! | `stats.rs` | statistics |
//! | `redo.rs` | what recovery does to pages |

pub(crate) mod config;
pub(crate) mod handle;
pub(crate) mod loans;
pub(crate) mod open;
#[allow(clippy::module_inception)]
pub(crate) mod pool;
pub(crate) mod redo;
pub(crate) mod space;
pub(crate) mod stats;
#[cfg(test)]
mod tests;
