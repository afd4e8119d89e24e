//! Collections of vectors: keys, rows and vectors are saved one by one, and made to agree here.

use super::{Loss, SalvageReport, SalvagedTable};
use crate::error::{StoreError, with_causes};
use crate::handle::Store;

/// Repairs all collections of the new store. One that cannot be is a loss.
pub(super) fn repair(store: &Store, report: &mut SalvageReport) -> Result<(), StoreError> {
    for name in store.collections()? {
        let repaired = store.collection(&name).and_then(|found| found.repair(&mut |_| true));
        let mut lose = |what: String| report.losses.push(Loss { table: Some(name.clone()), what });
        let repaired = match repaired {
            Ok(repaired) => repaired,
            Err(error) => {
                lose(format!("keys and vectors do not agree: {}", with_causes(&error)));
                continue;
            }
        };
        if repaired.unowned > 0 {
            lose(format!("{} vectors had no key, and were removed", repaired.unowned));
        }
        if repaired.lost_payloads > 0 {
            lose(format!("the payloads of {} keys", repaired.lost_payloads));
        }
        let lost = format!("{name}.lost");
        if repaired.lost_vectors > 0 {
            let keys = repaired.lost_vectors;
            lose(format!("the vectors of {keys} keys, whose payloads are in the table `{lost}`"));
        }
        if let Ok(table) = store.table(&lost)
            && !report.tables.iter().any(|of| of.name == lost)
        {
            let (entries, named) = (table.len(), true);
            report.tables.push(SalvagedTable { name: lost, named, entries, ..Default::default() });
        }
    }
    Ok(())
}
