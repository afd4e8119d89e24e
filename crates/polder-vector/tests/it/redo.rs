//! What the log says of an index, done again after a crash: at every point of the log the index is
//! sound, and it has every vector whose insert had ended, and none whose removal had.

use std::collections::BTreeSet;
use std::sync::Arc;

use polder_format::PageSize;
use polder_pool::{Array, FileState, Pool, PoolConfig};
use polder_testkit::effort::steps;
use polder_testkit::pools::tight;
use polder_testkit::recovery::{self, MemoryLog};
use polder_testkit::{FaultPlan, Random, SimDisk};
use polder_vector::{NodeId, VectorIndex};

use crate::support::*;

const DIMENSIONS: usize = 6;

/// After so many groups of the log these labels are there; and what was removed then.
type History = Vec<(usize, BTreeSet<u64>, Option<(u64, NodeId)>)>;

fn work(index: &impl VectorIndex, log: &MemoryLog) -> History {
    let (mut random, mut model) = (Random::new(11), Model::new());
    let mut history = vec![(log.count(), BTreeSet::new(), None)];
    for label in 0..steps(250, 1000) {
        let mut removed = None;
        if label > 100 && random.chance(0.4) {
            let at = random.index(model.len());
            let known = model.iter().nth(at).map(|(label, (node, _))| (*label, *node));
            if let Some((label, node)) = known {
                assert!(index.remove(label, node).unwrap());
                model.remove(&label);
                removed = Some((label, node));
            }
        } else {
            let vector = vector(&mut random, DIMENSIONS);
            let node = insert(index, label, &vector);
            model.insert(label, (node, vector));
        }
        history.push((log.count(), model.keys().copied().collect(), removed));
    }
    history
}

fn at_every_point_of_the_log<F: Family>() {
    let (disk, log) = (SimDisk::new(FaultPlan::new(1)), Arc::<MemoryLog>::default());
    let config = log.behind(tight::<Array>(PageSize::MIN, FileState::NEW));
    let config = PoolConfig { memory_budget: config.memory_budget * 4, ..config };
    let pool: Pool<Array> = open_pool(&disk, &config);
    let index = F::Of::<Array>::small(pool.create_space().unwrap(), l2(DIMENSIONS));
    let begun = log.count();
    let history = work(&index, &log);
    let groups = log.groups();
    let every = (groups.len() / steps(60, 600) as usize).max(1);
    let mut random = Random::new(12);
    for end in (begun..=groups.len()).step_by(every) {
        let disk = SimDisk::new(FaultPlan::new(1));
        let config = tight::<Array>(PageSize::MIN, FileState::NEW);
        let config = PoolConfig { memory_budget: config.memory_budget * 4, ..config };
        let pool: Pool<Array> = open_pool(&disk, &config);
        recovery::replay(&pool, &[SPACE], &groups[..end]);
        let index = F::Of::<Array>::opened(pool.open_space(SPACE).unwrap());
        let report = index.report();
        assert_eq!(report.faults, [], "after {end} groups");
        let query = vector(&mut random, DIMENSIONS);
        let found: BTreeSet<u64> =
            labels(&search_exact(&index, &query, 10_000)).into_iter().collect();
        let at = history.partition_point(|(count, ..)| *count <= end) - 1;
        let (_, before, _) = &history[at];
        let (_, after, removed) = history.get(at + 1).unwrap_or(&history[at]);
        assert!(found == *before || found == *after, "after {end} groups");
        let near = search(&index, &query, 10, 60);
        assert!(near.iter().all(|one| found.contains(&one.label)));
        assert!(near.len() >= found.len().min(10), "after {end} groups: {} found", near.len());
        index.assert_found(found.len());
        // A removal that was cut off is made again, and its place is free.
        if let Some((label, node)) = removed {
            let is_left = index.remove(*label, *node).unwrap();
            assert!(is_left || *before != found, "after {end} groups");
            assert_sound(&index, after.len());
            assert!(!index.remove(*label, *node).unwrap());
        }
        // Life goes on.
        let node = insert(&index, 1 << 40, &query);
        assert_eq!(search(&index, &query, 1, 60)[0].distance, 0.0);
        assert!(index.remove(1 << 40, node).unwrap());
    }
    drop(pool);
}

#[test]
fn graphs() {
    at_every_point_of_the_log::<Graphs>();
}

#[test]
fn steered() {
    at_every_point_of_the_log::<Steered>();
}
