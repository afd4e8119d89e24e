//! What a comparison and its workers say to each other: JSON, a line each, over the worker's
//! standard input and output.
//!
//! The worker is told its plan, prepares, says `ready`; then each `go` is answered by a `result`.
//! `told` lines for people may come at any time. A worker that fails says so and ends. The end of
//! its input tells a worker that nobody listens any more, and it stops whatever it does.

use serde::{Deserialize, Serialize};

use crate::plan::Plan;
use crate::report::RunResult;

/// To a worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Order {
    /// The first line: what to do.
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
    /// What goes on, for people.
    Told(String),
    /// Prepared.
    Ready,
    /// The round is over.
    Result(Box<RunResult>),
    /// Nothing more will come, and why.
    Failed(String),
}
