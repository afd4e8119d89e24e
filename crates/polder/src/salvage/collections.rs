//! Collections of vectors: keys, rows and vectors are saved one by one, and made to agree here.

use super::{Loss, SalvageReport, SalvagedTable};
use crate::error::{StoreError, with_causes};
use crate::handle::Store;

/// Repairs all collections of the new store. One that cannot be is a loss. `progress` is told how many
/// keys, rows and vectors are done, and about how many there are, and stops the repair by returning false.
pub(super) fn repair(
    store: &Store,
    report: &mut SalvageReport,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<(), StoreError> {
    let names = store.collections()?;
    let found: Vec<_> = names.into_iter().map(|name| (store.collection(&name), name)).collect();
    // A repair looks at the rows, the keys, the vectors, and the keys again.
    let all: u64 = found.iter().flat_map(|(found, _)| found).map(|found| 4 * found.len()).sum();
    let mut done = 0;
    for (found, name) in found {
        let before = done;
        let repaired = found.and_then(|found| {
            found.repair(&mut |of_this| {
                done = before + of_this;
                progress(done, all.max(done))
            })
        });
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
        if repaired.stopped {
            report.stopped = true;
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use polder_vector::{ElementKind, HnswOptions, Metric, VectorShape};

    use crate::handle::Store;
    use crate::options::Options;
    use crate::salvage::{SalvagePhase, salvage};

    /// In the first of two collections, in the second, or not at all.
    #[test]
    fn a_repair_stops_where_it_is_told_to() {
        let dir = tempfile::tempdir().unwrap();
        let options = |name: &str| Options::new(dir.path().join(name)).memory_budget(8 << 20);
        let store = Store::open(options("from")).unwrap();
        let shape = VectorShape { element: ElementKind::F32, dimensions: 2, metric: Metric::L2 };
        for name in ["a", "b"] {
            let collection = store.create_collection(name, HnswOptions::new(shape)).unwrap();
            for i in 0..20_u8 {
                collection.insert([i], &[f32::from(i), 0.0], "").unwrap();
            }
        }
        store.close().unwrap();
        // Of each of 20 a row, a key twice, and a vector.
        let all_of_both = 2 * 4 * 20;
        for stop in [1, 100, all_of_both + 1] {
            let mut last = 0;
            let progress = &mut |phase, done, all| {
                if phase != SalvagePhase::Collections {
                    return true;
                }
                assert_eq!((done, all), (last + 1, all_of_both));
                last = done;
                done < stop
            };
            let to = options(&stop.to_string());
            let report = salvage(&dir.path().join("from"), to, progress).unwrap();
            assert_eq!((report.stopped, last), (stop <= all_of_both, stop.min(all_of_both)));
            assert_eq!(report.losses, []);
        }
    }
}
