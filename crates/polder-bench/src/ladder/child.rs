//! One run in a process of its own, so that memory and huge pages are fresh: both ends of it.
//!
//! The child gets its job as one line of JSON on standard input, and answers by lines of JSON on
//! standard output. The end of its input tells it that nobody listens any more.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::measured::Measured;
use super::parts::Part;
use super::plan::Size;
use super::setup::Setup;
use crate::bed::Tell;
use crate::error::BenchError;
use crate::interrupt::Interrupt;

/// The hidden command of a child.
const COMMAND: &str = "translations-child";
/// How often the parent looks for an interrupt.
const PATIENCE: Duration = Duration::from_millis(100);

/// What a child is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) part: String,
    pub(crate) side: String,
    pub(crate) size: Size,
    pub(crate) seconds: f64,
    pub(crate) threads: Vec<usize>,
    pub(crate) round: u64,
    /// Of this run alone; made by the parent and removed by it.
    pub(crate) dir: PathBuf,
    /// Of all runs of the part.
    pub(crate) shared: PathBuf,
    pub(crate) graphs: Vec<PathBuf>,
}

/// What a child says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    /// What goes on, for people.
    Told(String),
    Measured(Measured),
    /// Nothing more will come, and why.
    Failed(String),
}

/// The child: does the job on standard input.
pub(crate) fn work() -> Result<(), BenchError> {
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    read.map_err(BenchError::file(Path::new("standard input")))?;
    let job: Job = serde_json::from_str(&line).map_err(|error| {
        BenchError::Options(format!("only `translations` starts this: {error}"))
    })?;
    let interrupt = Interrupt::silent();
    let nobody_listens = interrupt.clone();
    thread::spawn(move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        nobody_listens.set();
    });
    let done = run(&job, &interrupt);
    match &done {
        Ok(measured) => say(&Answer::Measured(measured.clone())),
        Err(error) => say(&Answer::Failed(error.to_string())),
    }
    done.map(|_| ())
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
        scale: job.size.scale(),
        seconds: job.seconds,
        threads: &job.threads,
        round: job.round,
        dir: &job.dir,
        shared: &job.shared,
        graphs: &job.graphs,
        interrupt,
        tell: &|what| say(&Answer::Told(what.to_owned())),
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

/// A failure to write means that nobody listens; the end of the input says so too.
fn say(answer: &Answer) {
    if let Ok(line) = serde_json::to_string(answer) {
        let mut out = io::stdout().lock();
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }
}

/// The parent's end. The process is killed when this is dropped.
struct Child {
    process: process::Child,
    /// Kept open: its end would tell the child to stop.
    _input: ChildStdin,
    answers: Receiver<Answer>,
}

impl Drop for Child {
    fn drop(&mut self) {
        // A process that ended by itself cannot be killed; it still has to be waited for.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The parent: has a child do a job.
pub(crate) fn delegate(
    program: &Path,
    job: &Job,
    interrupt: &Interrupt,
    tell: Tell<'_>,
) -> Result<Measured, BenchError> {
    let failure = |message: String| BenchError::Worker {
        engine: format!("{}, {}", job.part, job.side),
        message,
    };
    let mut child = start(program, job).map_err(BenchError::file(program))?;
    loop {
        interrupt.check()?;
        match child.answers.recv_timeout(PATIENCE) {
            Ok(Answer::Told(what)) => tell(&what),
            Ok(Answer::Measured(measured)) => return Ok(measured),
            Ok(Answer::Failed(message)) => return Err(failure(message)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let status = child
                    .process
                    .wait()
                    .map_or_else(|error| error.to_string(), |status| status.to_string());
                return Err(failure(format!("its process ended ({status})")));
            }
        }
    }
}

fn start(program: &Path, job: &Job) -> io::Result<Child> {
    let mut process = Command::new(program)
        .arg(COMMAND)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // Ctrl-C reaches the parent alone, which then ends its child.
        .process_group(0)
        .spawn()?;
    let pipes = process.stdin.take().zip(process.stdout.take());
    let (mut input, out) = pipes.expect("both pipes were asked for above");
    let (sender, answers) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            let answer = serde_json::from_str(&line)
                .unwrap_or_else(|_| Answer::Failed(format!("it said {line:?}")));
            if sender.send(answer).is_err() {
                break;
            }
        }
    });
    // One that has ended already says why by its answers.
    let _ = writeln!(input, "{}", serde_json::to_string(job)?).and_then(|()| input.flush());
    Ok(Child { process, _input: input, answers })
}
