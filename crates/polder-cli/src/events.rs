//! What the store does in the background, told on standard error: `-v`, or `POLDER_LOG`.

use std::io;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

use crate::failure::Failure;

/// The variable that says what is told: a level, or levels of parts (`warn,polder_log=debug`).
const VARIABLE: &str = "POLDER_LOG";

/// Has events told: by `POLDER_LOG`, and if that is not set by how often `-v` was given.
pub fn tell(verbose: u8) -> Result<(), Failure> {
    let said = std::env::var(VARIABLE).unwrap_or_default();
    let filter = match (said.as_str(), verbose) {
        ("", 0) => return Ok(()),
        ("", 1) => Targets::new().with_default(LevelFilter::INFO),
        ("", _) => Targets::new().with_default(LevelFilter::DEBUG),
        (said, _) => said.parse().map_err(|error| {
            Failure::Usage(format!(
                "{VARIABLE} is `{said}`: {error}; a level is one of error, warn, info, debug, trace, \
                 and levels of parts look like `warn,polder_log=debug`"
            ))
        })?,
    };
    let layer = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(false);
    tracing_subscriber::registry().with(layer.with_filter(filter)).init();
    Ok(())
}
