//! `polder vector repair`: keys, payloads and vectors that agree again.

use serde_json::json;

use super::Context;
use crate::args::VectorRepairArgs;
use crate::failure::Failure;
use crate::opening::with_store_to_write;
use crate::output;
use crate::progress::{Progress, Unit};
use crate::units::count;

pub fn run(context: &Context, args: &VectorRepairArgs) -> Result<(), Failure> {
    let name = &args.at.collection;
    let repaired =
        with_store_to_write(&args.at.store, polder::Durability::Sync, &args.write, |store| {
            let collection = store.collection(name)?;
            let shown = Progress::new("comparing", Unit::Things("keys, rows and vectors"), None);
            let repaired = collection.repair(&mut |done| {
                shown.at(done);
                !context.stop.requested()
            })?;
            context.stop.check()?;
            Ok(repaired)
        })?;
    if context.json {
        return output::print_json(&json!({
            "keys": repaired.keys,
            "told": repaired.told,
            "unowned": repaired.unowned,
            "lost_payloads": repaired.lost_payloads,
            "lost_vectors": repaired.lost_vectors,
        }));
    }
    let mut lines = vec![format!("{} keys have a vector", count(repaired.keys))];
    for (number, what) in [
        (repaired.told, "of them were told where it is".to_owned()),
        (repaired.unowned, "vectors without a key were removed".to_owned()),
        (repaired.lost_payloads, "keys have lost their payload, which is empty now".to_owned()),
        (repaired.lost_vectors, format!("keys have lost their vector: they are in `{name}.lost`")),
    ] {
        if number > 0 {
            lines.push(format!("{} {what}", count(number)));
        }
    }
    output::print(&lines.join("\n"))
}
