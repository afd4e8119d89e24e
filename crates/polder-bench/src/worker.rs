//! The worker: the process in which one engine lives through a comparison.

use std::io::{self, BufRead, Write};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use crate::bed::Bed;
use crate::cli;
use crate::engine::EngineKind;
use crate::error::BenchError;
use crate::interrupt::Interrupt;
use crate::plan::Plan;
use crate::protocol::{Answer, Order};

/// Takes orders from standard input until it is told to quit or nobody is there any more.
pub(crate) fn run(engines: &[EngineKind]) -> Result<(), BenchError> {
    let interrupt = Interrupt::silent();
    let orders = listen(interrupt.clone());
    let Ok(Order::Prepare(plan)) = orders.recv() else {
        return Err(BenchError::Options("a worker is started by a comparison only".to_owned()));
    };
    let worked = obey(&plan, engines, &orders, &interrupt);
    if let Err(error) = &worked {
        say(&Answer::Failed(error.to_string()));
    }
    worked
}

fn obey(
    plan: &Plan,
    engines: &[EngineKind],
    orders: &Receiver<Order>,
    interrupt: &Interrupt,
) -> Result<(), BenchError> {
    let kind = cli::find_engine(engines, &plan.engine)?;
    let mut bed = Bed::new(kind, plan, interrupt);
    let tell = |what: &str| say(&Answer::Told(what.to_owned()));
    bed.prepare(&tell)?;
    say(&Answer::Ready);
    while let Ok(Order::Go) = orders.recv() {
        let result = bed.round(&tell)?;
        say(&Answer::Result(Box::new(result)));
    }
    Ok(())
}

/// Reads orders in a thread of its own, so that the end of the input stops work under way.
fn listen(interrupt: Interrupt) -> Receiver<Order> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            let order = line.ok().and_then(|line| serde_json::from_str(&line).ok());
            let Some(order) = order else { break };
            if sender.send(order).is_err() {
                break;
            }
        }
        interrupt.set();
    });
    receiver
}

/// A failure to write means that nobody listens; the end of the input says so too.
fn say(answer: &Answer) {
    if let Ok(line) = serde_json::to_string(answer) {
        let mut out = io::stdout().lock();
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }
}
