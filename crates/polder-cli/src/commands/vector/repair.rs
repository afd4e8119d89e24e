//! `polder vector repair`: keys, payloads and vectors that agree again, and are linked.

use polder::{Collection, CollectionRepair};
use serde_json::json;

use super::{Context, cores};
use crate::args::VectorRepairArgs;
use crate::failure::Failure;
use crate::opening::with_store_to_write;
use crate::output;
use crate::progress::{Progress, Unit};
use crate::units::count;

pub fn run(context: &Context, args: &VectorRepairArgs) -> Result<(), Failure> {
    let name = &args.at.collection;
    let (repaired, is_linked_now) =
        with_store_to_write(&args.at.store, polder::Durability::Sync, &args.write, |store| {
            let collection = store.collection(name)?;
            let repaired = repair(context, &collection)?;
            let is_to_link = !collection.is_linked()?;
            if is_to_link {
                link(context, &collection)?;
            }
            Ok((repaired, is_to_link))
        })?;
    if context.json {
        return output::print_json(&json!({
            "keys": repaired.keys,
            "told": repaired.told,
            "unowned": repaired.unowned,
            "lost_payloads": repaired.lost_payloads,
            "lost_vectors": repaired.lost_vectors,
            "links_completed": is_linked_now,
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
    if is_linked_now {
        lines.push("vectors that a load had left without links are linked".to_owned());
    }
    output::print(&lines.join("\n"))
}

fn repair(context: &Context, collection: &Collection) -> Result<CollectionRepair, Failure> {
    let shown = Progress::new("comparing", Unit::Things("keys, rows and vectors"), None);
    let repaired = collection.repair(&mut |done| shown.goes_on(done, &context.stop))?;
    context.stop.check()?;
    Ok(repaired)
}

/// Completes a load that was cut off.
fn link(context: &Context, collection: &Collection) -> Result<(), Failure> {
    let all = collection.len();
    let shown = Progress::new("linking", Unit::Things("vectors"), Some(all));
    let done = |share| (share * all as f64) as u64;
    collection.relink(cores(), &mut |share| shown.goes_on(done(share), &context.stop))?;
    context.stop.check()
}
