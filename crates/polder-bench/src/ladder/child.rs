//! One run in a process of its own, so that memory and huge pages are fresh: both ends of it.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::measured::Measured;
use super::parts::Part;
use super::plan::Terms;
use super::setup::{Setup, Streams};
use crate::child::{self, Child};
use crate::error::BenchError;
use crate::interrupt::Interrupt;
use crate::progress::Tell;

/// The hidden command of a child.
const COMMAND: &str = "translations-child";

/// What a child is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) part: String,
    pub(crate) side: String,
    pub(crate) terms: Terms,
    pub(crate) round: u64,
    /// Of this run alone; made by the parent and removed by it.
    pub(crate) dir: PathBuf,
    /// Of all runs of the part.
    pub(crate) shared: PathBuf,
    pub(crate) graphs: Vec<PathBuf>,
    /// The control group of a side that is swapped; made and removed by the parent.
    pub(crate) group: Option<PathBuf>,
}

impl Job {
    /// What people know it by.
    pub(crate) fn name(&self) -> String {
        format!("{}, {}", self.part, self.side)
    }
}

/// The child: does the job on standard input.
pub(crate) fn work() -> Result<(), BenchError> {
    child::serve(|job, _, interrupt| {
        child::answer(run(&job, interrupt)?);
        Ok(())
    })
}

fn run(job: &Job, interrupt: &Interrupt) -> Result<Measured, BenchError> {
    let found = Part::find(&job.part).and_then(|part| Some((part, part.side(&job.side)?)));
    let Some((part, side)) = found else {
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
        round: job.round,
        dir: &job.dir,
        shared: &job.shared,
        graphs: &job.graphs,
        group: job.group.as_deref(),
        streams: &Streams::new(job.round),
        interrupt,
        tell: &child::tell,
    })
}

/// From now on the kernel backs nothing of this process by huge pages, whatever is asked of it.
fn forgo_huge_pages() -> Result<(), BenchError> {
    #[cfg(target_os = "linux")]
    // SAFETY: this call takes numbers alone.
    if unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) } != 0 {
        let refused = io::Error::last_os_error();
        return Err(BenchError::file(Path::new("PR_SET_THP_DISABLE"))(refused));
    }
    Ok(())
}

/// The parent: has a child do a job.
pub(crate) fn delegate(
    program: &Path,
    job: &Job,
    interrupt: &Interrupt,
    tell: Tell<'_>,
) -> Result<Measured, BenchError> {
    let mut child = Child::start(program, COMMAND, &job.name())?;
    child.order(job)?;
    child.answer(interrupt, tell)
}
