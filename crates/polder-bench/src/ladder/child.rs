//! One run in a process of its own, so that memory and huge pages are fresh: the child's end of it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::measured::Measured;
use super::parts::Part;
use super::plan::Terms;
use super::setup::{Setup, Streams};
use crate::child;
use crate::error::BenchError;
use crate::interrupt::Interrupt;

/// The hidden command of a child.
pub(super) const COMMAND: &str = "translations-child";

/// What a child is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) part: String,
    pub(super) side: String,
    pub(super) terms: Terms,
    /// Files with graphs.
    pub(super) graphs: Vec<PathBuf>,
    pub(super) round: u64,
    /// Of this run alone; made by the parent and removed by it.
    pub(super) dir: PathBuf,
    /// Of all runs of the part.
    pub(super) shared: PathBuf,
    /// The control group of a side that is swapped; made and removed by the parent.
    pub(super) group: Option<PathBuf>,
}

/// The child: does the job on standard input.
pub(crate) fn work() -> Result<(), BenchError> {
    child::serve(|job, _, interrupt| {
        child::answer(run(&job, interrupt)?);
        Ok(())
    })
}

fn run(job: &Job, interrupt: &Interrupt) -> Result<Measured, BenchError> {
    let part = Part::find(&job.part).map_err(BenchError::Options)?;
    let Some(side) = part.side(&job.side) else {
        return Err(BenchError::Options(format!("there is no {} of {}", job.side, job.part)));
    };
    if !side.huge_pages {
        forgo_huge_pages()?;
    }
    part.run(&Setup {
        side,
        scale: job.terms.size.scale(),
        seconds: job.terms.seconds,
        threads: &job.terms.threads,
        graphs: &job.graphs,
        round: job.round,
        dir: &job.dir,
        shared: &job.shared,
        group: job.group.as_deref(),
        streams: &Streams::new(job.round),
        interrupt,
        tell: &child::tell,
    })
}

/// From now on the kernel backs nothing of this process by huge pages, whatever is asked of it.
fn forgo_huge_pages() -> Result<(), BenchError> {
    #[cfg(target_os = "linux")]
    rustix::thread::disable_transparent_huge_pages(true)
        .map_err(|refused| BenchError::file(Path::new("PR_SET_THP_DISABLE"))(refused.into()))?;
    Ok(())
}
