//! The worker: the process in which one engine lives through a comparison.

use std::sync::mpsc::Receiver;

use crate::bed::Bed;
use crate::child;
use crate::engine::{EngineKind, Named};
use crate::error::BenchError;
use crate::interrupt::Interrupt;
use crate::protocol::{Answer, Order};

/// Takes orders from standard input until it is told to quit or nobody is there any more.
pub(crate) fn run(engines: &[EngineKind]) -> Result<(), BenchError> {
    child::serve(|first, orders, interrupt| obey(engines, first, orders, interrupt))
}

fn obey(
    engines: &[EngineKind],
    first: Order,
    orders: &Receiver<Order>,
    interrupt: &Interrupt,
) -> Result<(), BenchError> {
    let Order::Prepare(plan) = first else {
        return Err(BenchError::Options(format!("the first order was {first:?}")));
    };
    let mut bed = Bed::new(Named::find(engines, &plan.engine)?, &plan, interrupt);
    bed.prepare(&child::tell)?;
    child::answer(Answer::Ready);
    while let Ok(Order::Go) = orders.recv() {
        child::answer(Answer::Result(Box::new(bed.round(&child::tell)?)));
    }
    Ok(())
}
