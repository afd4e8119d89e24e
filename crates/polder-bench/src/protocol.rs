//! What a comparison and its workers say to each other, as parent and [`crate::child`].
//!
//! The worker is told its plan, prepares, answers `ready`; then each `go` is answered by a
//! `result`.

use serde::{Deserialize, Serialize};

use crate::plan::Plan;
use crate::report::RunResult;

/// To a worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Order {
    /// The first: what to do.
    Prepare(Box<Plan>),
    /// Run one round.
    Go,
    /// End.
    Quit,
}

/// From a worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Answer {
    /// Prepared.
    Ready,
    /// The round is over.
    Result(Box<RunResult>),
}
