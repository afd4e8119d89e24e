//! `polder stat --live`: the statistics of a store that another process has open, as that process
//! has them.

use std::thread;
use std::time::{Duration, Instant};

use polder::{LiveError, live_stats};
use serde_json::{Value, json};

use super::{Context, figures, miss_ratios};
use crate::args::StatArgs;
use crate::failure::Failure;
use crate::output;

/// How often Ctrl-C is looked for meanwhile.
const LOOK: Duration = Duration::from_millis(50);

pub fn run(context: &Context, args: &StatArgs) -> Result<(), Failure> {
    let mut document = ask(args)?;
    loop {
        let next = args.every.map(|every| Instant::now() + every);
        output::print(&match context.json {
            true => document.to_string(),
            false if args.mrc => miss_ratios::page(&document),
            false => figures::page(&document),
        })?;
        let Some(next) = next else { return Ok(()) };
        while Instant::now() < next {
            // To be stopped is how it is meant to end.
            if context.stop.requested() {
                return Ok(());
            }
            thread::sleep(LOOK.min(next.saturating_duration_since(Instant::now())));
        }
        document = match ask(args) {
            // It was closed.
            Err(Failure::Live(LiveError::Nobody { .. })) => return Ok(()),
            document => document?,
        };
        if !context.json {
            output::print("")?;
        }
    }
}

fn ask(args: &StatArgs) -> Result<Value, Failure> {
    let document = live_stats(&args.store.dir)?;
    let mut figures: Value = serde_json::from_str(&document)
        .map_err(|error| Failure::io("cannot understand what the process says")(error.into()))?;
    figures["path"] = json!(args.store.dir.display().to_string());
    figures["live"] = json!(true);
    Ok(figures)
}
