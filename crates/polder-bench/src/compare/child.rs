//! The comparison's end of a worker.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{self, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::bed::Tell;
use crate::error::BenchError;
use crate::interrupt::Interrupt;
use crate::plan::Plan;
use crate::protocol::{Answer, Order};
use crate::report::RunResult;

/// How often a wait looks for an interrupt.
const PATIENCE: Duration = Duration::from_millis(100);

/// A worker process. It is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Child {
    engine: String,
    process: process::Child,
    orders: ChildStdin,
    answers: Receiver<Answer>,
}

impl Child {
    /// Starts `program worker` and tells it its plan.
    pub(super) fn start(program: &Path, plan: &Plan) -> Result<Child, BenchError> {
        let mut process = Command::new(program)
            .arg("worker")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C reaches the comparison alone, which then ends its workers.
            .process_group(0)
            .spawn()
            .map_err(BenchError::file(program))?;
        let pipes = process.stdin.take().zip(process.stdout.take());
        let (orders, out) = pipes.expect("both pipes were asked for above");
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
        let mut child = Child { engine: plan.engine.clone(), process, orders, answers };
        child.order(&Order::Prepare(Box::new(plan.clone())))?;
        Ok(child)
    }

    /// The name of its engine.
    pub(super) fn engine(&self) -> &str {
        &self.engine
    }

    /// Waits until it is prepared.
    pub(super) fn ready(
        &mut self,
        interrupt: &Interrupt,
        tell: Tell<'_>,
    ) -> Result<(), BenchError> {
        match self.answer(interrupt, tell)? {
            Answer::Ready => Ok(()),
            other => Err(self.failure(format!("it should be ready, and said {other:?}"))),
        }
    }

    /// Begins a round.
    pub(super) fn go(&mut self) -> Result<(), BenchError> {
        self.order(&Order::Go)
    }

    /// Waits for the result of the round.
    pub(super) fn result(
        &mut self,
        interrupt: &Interrupt,
        tell: Tell<'_>,
    ) -> Result<RunResult, BenchError> {
        match self.answer(interrupt, tell)? {
            Answer::Result(result) => Ok(*result),
            other => Err(self.failure(format!("it should give a result, and said {other:?}"))),
        }
    }

    /// Ends it in order.
    pub(super) fn quit(mut self, interrupt: &Interrupt) -> Result<(), BenchError> {
        self.order(&Order::Quit)?;
        loop {
            interrupt.check()?;
            match self.answers.recv_timeout(PATIENCE) {
                Ok(Answer::Failed(message)) => return Err(self.failure(message)),
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                // Its output ended, so it does too.
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }

    fn order(&mut self, order: &Order) -> Result<(), BenchError> {
        let line = serde_json::to_string(order).map_err(|error| self.failure(error.to_string()))?;
        let sent = writeln!(self.orders, "{line}").and_then(|()| self.orders.flush());
        sent.map_err(|error| {
            // If it said why it ended, that is the better message.
            let said = self.answers.try_iter().find_map(|answer| match answer {
                Answer::Failed(message) => Some(message),
                _ => None,
            });
            self.failure(said.unwrap_or_else(|| format!("it cannot be reached: {error}")))
        })
    }

    /// The next answer that is not for people.
    fn answer(&mut self, interrupt: &Interrupt, tell: Tell<'_>) -> Result<Answer, BenchError> {
        loop {
            interrupt.check()?;
            match self.answers.recv_timeout(PATIENCE) {
                Ok(Answer::Told(what)) => tell(&what),
                Ok(Answer::Failed(message)) => return Err(self.failure(message)),
                Ok(answer) => return Ok(answer),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let status = self
                        .process
                        .wait()
                        .map_or_else(|error| error.to_string(), |status| status.to_string());
                    return Err(self.failure(format!("its process ended ({status})")));
                }
            }
        }
    }

    fn failure(&self, message: String) -> BenchError {
        BenchError::Worker { engine: self.engine.clone(), message }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // A process that ended by itself cannot be killed; it still has to be waited for.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
