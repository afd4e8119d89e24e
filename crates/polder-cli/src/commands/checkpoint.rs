//! `polder checkpoint`: nothing to do for the next recovery.

use serde_json::json;

use super::Context;
use crate::args::StoreArgs;
use crate::failure::Failure;
use crate::opening::with_store;
use crate::units::bytes;

pub fn run(context: &Context, args: &StoreArgs) -> Result<(), Failure> {
    let (recovered, left) = with_store(args, |store| {
        store.checkpoint()?;
        Ok((store.recovery().log_bytes, store.stats().log_replay_bytes))
    })?;
    let value = json!({ "recovered_bytes": recovered, "log_replay_bytes": left });
    context.print(&value, &format!("all is in place; a recovery would read {}", bytes(left)))
}
