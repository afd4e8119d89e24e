//! `polder drop`: a table less, and a shorter file.

use polder::Store;
use serde_json::json;

use super::Context;
use super::shrink::shrink;
use crate::args::{DropArgs, StoreArgs};
use crate::failure::{Failure, note, sentence};
use crate::opening::with_store;
use crate::units::bytes;

pub fn run(context: &Context, args: &DropArgs) -> Result<(), Failure> {
    drop_from(context, &args.store, &args.table, |store| Ok(store.drop_table(&args.table)?))
}

/// Drops what `drop` drops, which has this name, and makes the file shorter. Ctrl-C ends only the
/// latter.
pub fn drop_from(
    context: &Context,
    store: &StoreArgs,
    name: &str,
    drop: impl FnOnce(&Store) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let shorter = with_store(store, |store| {
        drop(store)?;
        // It is gone; that the file could not be made shorter for it is no failure to drop it.
        match shrink(context, store) {
            Err(Failure::Interrupted) => {
                note(&format!("dropped {name}; `polder shrink` makes the file shorter"));
                Err(Failure::Interrupted)
            }
            Err(failure) => {
                note(&format!("the file could not be made shorter: {}", sentence(&failure)));
                Ok(0)
            }
            shorter => shorter,
        }
    })?;
    let value = json!({ "dropped": name, "file_shorter_bytes": shorter });
    context.print(&value, &format!("dropped {name}; the file is {} shorter", bytes(shorter)))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use polder::{Options, StoreError};

    use super::*;
    use crate::args::{Cli, Command};
    use crate::interrupt::Interrupt;

    #[test]
    fn ctrl_c_ends_it_behind_the_drop() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        let store = Store::open(Options::new(&path)).unwrap();
        store.create_table("t").unwrap().put("k", "v").unwrap();
        store.close().unwrap();
        let typed = ["polder", "drop", path.to_str().unwrap(), "t"];
        let Command::Drop(args) = Cli::parse_from(typed).command else { panic!("another command") };
        let context = Context { json: false, stop: Interrupt::default() };
        context.stop.request();
        assert!(matches!(run(&context, &args), Err(Failure::Interrupted)));
        let store = Store::open(Options::new(&path)).unwrap();
        assert!(matches!(store.table("t"), Err(StoreError::NoSuchTable { .. })));
        store.close().unwrap();
    }
}
