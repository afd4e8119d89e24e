//! Children: processes of this program, each of which does a part of a run. Both ends.
//!
//! Orders go to a child as lines of JSON on its standard input, answers come as lines of JSON on
//! its standard output, and lines for people come between them. A child that fails says why, for
//! its parent to tell, and ends without a word of its own. The end of its input tells a child that
//! nobody listens any more, and it stops whatever it does.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{self, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::BenchError;
use crate::interrupt::Interrupt;
use crate::progress::Tell;

/// This program. It is what runs here, also if another build has taken its place meanwhile.
pub(crate) const PROGRAM: &str = "/proc/self/exe";
/// How often a wait looks for an interrupt.
const PATIENCE: Duration = Duration::from_millis(100);

/// What a child says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Said<A> {
    /// What goes on, for people.
    Told(String),
    Answer(A),
    /// Nothing more will come, and why.
    Failed(String),
}

/// The parent's end. The process is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Child<A> {
    name: String,
    process: process::Child,
    /// Kept open: its end would tell the child to stop.
    orders: ChildStdin,
    said: Receiver<Said<A>>,
}

impl<A: DeserializeOwned + Send + 'static> Child<A> {
    /// Starts `program command`; people know it by `name`.
    pub(crate) fn start(program: &Path, command: &str, name: &str) -> Result<Child<A>, BenchError> {
        let mut process = Command::new(program)
            .arg(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C reaches the parent alone, which then ends its children.
            .process_group(0)
            .spawn()
            .map_err(BenchError::file(program))?;
        let pipes = process.stdin.take().zip(process.stdout.take());
        let (orders, out) = pipes.expect("both pipes were asked for above");
        let (sender, said) = mpsc::channel();
        thread::spawn(move || {
            let said = BufReader::new(out).lines().map_while(Result::ok).map(|line| {
                let said = serde_json::from_str(&line);
                said.unwrap_or_else(|_| Said::Failed(format!("it said {line:?}")))
            });
            let _ = said.map(|said| sender.send(said)).find(Result::is_err);
        });
        Ok(Child { name: name.to_owned(), process, orders, said })
    }

    /// Gives it an order. If it cannot be reached any more, its answer says why.
    pub(crate) fn order(&mut self, order: &impl Serialize) -> Result<(), BenchError> {
        let line = serde_json::to_string(order)?;
        let _ = writeln!(self.orders, "{line}").and_then(|()| self.orders.flush());
        Ok(())
    }

    /// Waits for its next answer.
    pub(crate) fn answer(
        &mut self,
        interrupt: &Interrupt,
        tell: Tell<'_>,
    ) -> Result<A, BenchError> {
        if let Some(answer) = self.next(interrupt, tell)? {
            return Ok(answer);
        }
        let ended = self.process.wait();
        let how = ended.map_or_else(|error| error.to_string(), |how| how.to_string());
        Err(self.failure(format!("its process ended ({how})")))
    }

    /// Waits until it has ended, as it was ordered to.
    pub(crate) fn end(mut self, interrupt: &Interrupt) -> Result<(), BenchError> {
        while self.next(interrupt, &|_| ())?.is_some() {}
        Ok(())
    }

    /// Its next answer; `None` once its output has ended, so that it does too.
    fn next(&mut self, interrupt: &Interrupt, tell: Tell<'_>) -> Result<Option<A>, BenchError> {
        loop {
            interrupt.check()?;
            match self.said.recv_timeout(PATIENCE) {
                Ok(Said::Told(what)) => tell(&what),
                Ok(Said::Answer(answer)) => return Ok(Some(answer)),
                Ok(Said::Failed(why)) => return Err(self.failure(why)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
    }

    /// An error of this child.
    pub(crate) fn failure(&self, message: String) -> BenchError {
        BenchError::Worker { engine: self.name.clone(), message }
    }
}

impl<A> Drop for Child<A> {
    fn drop(&mut self) {
        // A process that ended by itself cannot be killed; it still has to be waited for.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The child's end: what its first order says is done by `work`, to which further ones come. What
/// fails there is said to the parent alone.
pub(crate) fn serve<O: DeserializeOwned + Send + 'static>(
    work: impl FnOnce(O, &Receiver<O>, &Interrupt) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    let interrupt = Interrupt::silent();
    let orders = listen(interrupt.clone());
    let Ok(first) = orders.recv() else {
        let why = "this command is for processes that a run starts by itself";
        return Err(BenchError::Options(why.to_owned()));
    };
    if let Err(error) = work(first, &orders, &interrupt) {
        say(&Said::<()>::Failed(error.to_string()));
    }
    Ok(())
}

/// Tells people what goes on.
pub(crate) fn tell(what: &str) {
    say(&Said::<()>::Told(what.to_owned()));
}

/// Answers an order.
pub(crate) fn answer(answer: impl Serialize) {
    say(&Said::Answer(answer));
}

/// Reads orders in a thread of its own, so that the end of the input stops work under way.
fn listen<O: DeserializeOwned + Send + 'static>(interrupt: Interrupt) -> Receiver<O> {
    let (sender, orders) = mpsc::channel();
    thread::spawn(move || {
        let lines = io::stdin().lock().lines().map_while(Result::ok);
        let orders = lines.map_while(|line| serde_json::from_str(&line).ok());
        let _ = orders.map(|order| sender.send(order)).find(Result::is_err);
        interrupt.set();
    });
    orders
}

/// A failure to write means that nobody listens; the end of the input says so too.
fn say(said: &Said<impl Serialize>) {
    if let Ok(line) = serde_json::to_string(said) {
        let _ = writeln!(io::stdout(), "{line}");
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// `cat` says what it is told.
    fn echo() -> Child<u64> {
        Child::start(Path::new("cat"), "-", "echo").unwrap()
    }

    fn message(error: BenchError) -> String {
        match error {
            BenchError::Worker { engine, message } => format!("{engine}: {message}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_told_comes_between_answers() {
        let (mut child, told) = (echo(), RefCell::new(Vec::new()));
        let tell = |what: &str| told.borrow_mut().push(what.to_owned());
        for said in [Said::Answer(1), Said::Told("half".to_owned()), Said::Answer(2)] {
            child.order(&said).unwrap();
        }
        let interrupt = Interrupt::silent();
        assert_eq!(child.answer(&interrupt, &tell).unwrap(), 1);
        assert_eq!(child.answer(&interrupt, &tell).unwrap(), 2);
        assert_eq!(*told.borrow(), ["half"]);
        child.order(&Said::<u64>::Failed("no room".to_owned())).unwrap();
        assert_eq!(message(child.answer(&interrupt, &tell).unwrap_err()), "echo: no room");
        child.order(&"nonsense").unwrap();
        let error = child.answer(&interrupt, &tell).unwrap_err();
        assert!(message(error).contains("nonsense"));
    }

    #[test]
    fn who_ends_without_an_answer_is_noticed() {
        let interrupt = Interrupt::silent();
        let mut child = Child::<u64>::start(Path::new("false"), "now", "gone").unwrap();
        let error = child.answer(&interrupt, &|_| ()).unwrap_err();
        assert!(message(error).contains("exit status: 1"));
        child.end(&interrupt).unwrap();
        let nobody = Child::<u64>::start(Path::new("/nowhere/at/all"), "now", "gone");
        assert!(matches!(nobody, Err(BenchError::File { .. })));
    }

    #[test]
    fn an_interrupt_ends_a_wait() {
        let interrupt = Interrupt::silent();
        interrupt.set();
        let waited = echo().answer(&interrupt, &|_| ());
        assert!(matches!(waited, Err(BenchError::Interrupted)));
    }
}
