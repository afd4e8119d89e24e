//! Collections of vectors: keys, rows and vectors are saved one by one, and made to agree here.

use super::{Loss, SalvageReport, SalvagedTable};
use crate::error::StoreError;
use crate::handle::Store;

/// Repairs all collections of the new store.
pub(super) fn repair(store: &Store, report: &mut SalvageReport) -> Result<(), StoreError> {
    for name in store.collections()? {
        let repaired = store.collection(&name)?.repair(&mut |_| true)?;
        let mut lose = |what: String| report.losses.push(Loss { table: Some(name.clone()), what });
        if repaired.unowned > 0 {
            lose(format!("{} vectors had no key, and were removed", repaired.unowned));
        }
        if repaired.lost > 0 {
            let lost = format!("{name}.lost");
            lose(format!("the vectors of {} keys: these are in the table `{lost}`", repaired.lost));
            let entries = store.table(&lost)?.len();
            let named = true;
            report.tables.push(SalvagedTable { name: lost, named, entries, ..Default::default() });
        }
    }
    Ok(())
}
