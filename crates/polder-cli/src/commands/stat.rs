//! `polder stat`: what a store holds and takes.
//!
//! What is printed is a document of the store's (`Store::stats_json`), be it open for this command
//! or in another process (`--live`). Programs get all of it. People see what a store is; how it was
//! used they see of one that is live, for here it would be only the moment it was open for this
//! command.

use polder::OpenError;

use super::{Context, figures, live};
use crate::args::StatArgs;
use crate::failure::Failure;
use crate::opening::with_store_to_read;

pub fn run(context: &Context, args: &StatArgs) -> Result<(), Failure> {
    if args.live || args.mrc {
        return live::run(context, args);
    }
    let figures =
        with_store_to_read(&args.store, figures::of).map_err(|failure| match failure {
            Failure::Open(source @ OpenError::Locked { .. }) => Failure::Held { source },
            failure => failure,
        })?;
    context.print(&figures, &figures::page(&figures))
}
