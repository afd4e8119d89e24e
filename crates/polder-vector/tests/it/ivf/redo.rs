//! What the log says of an index of lists, done again after a crash: at every point of the log the index is
//! sound, and it has exactly the vectors whose insert had ended and whose removal had not. An index that was
//! not made to its end says so.

use std::collections::BTreeSet;
use std::sync::Arc;

use polder_format::PageSize;
use polder_pool::{Array, FileState, Pool, PoolConfig};
use polder_testkit::effort::steps;
use polder_testkit::pools::tight;
use polder_testkit::recovery::{self, MemoryLog};
use polder_testkit::{FaultPlan, Random, SimDisk};
use polder_vector::VectorError;

use super::*;

const DIMENSIONS: usize = 6;

/// After so many groups of the log these labels are there.
type History = Vec<(usize, BTreeSet<u64>)>;

fn work(index: &IvfIndex<Array>, log: &MemoryLog) -> History {
    let (mut random, mut model) = (Random::new(11), Model::new());
    let mut history = vec![(log.count(), BTreeSet::new())];
    for label in 0..steps(800, 3000) {
        if label > 400 && random.chance(0.4) {
            let at = random.index(model.len());
            let known = model.iter().nth(at).map(|(label, (node, _))| (*label, *node));
            if let Some((label, node)) = known {
                assert!(index.remove(label, node).unwrap());
                model.remove(&label);
            }
        } else {
            let vector = vector(&mut random, DIMENSIONS);
            let node = index.insert(label, &vector).unwrap();
            model.insert(label, (node, vector));
        }
        history.push((log.count(), model.keys().copied().collect()));
    }
    history
}

#[test]
fn at_every_point_of_the_log() {
    let (disk, log) = (SimDisk::new(FaultPlan::new(1)), Arc::<MemoryLog>::default());
    let config = log.behind(tight::<Array>(PageSize::MIN, FileState::NEW));
    let config = PoolConfig { memory_budget: config.memory_budget * 4, ..config };
    let pool: Pool<Array> = open_pool(&disk, &config);
    let options = IvfOptions { shape: l2(DIMENSIONS), lists: 6 };
    let space = pool.create_space().unwrap();
    let index = IvfIndex::create(space, &options, &sample(DIMENSIONS, 100)).unwrap();
    let begun = log.count();
    let history = work(&index, &log);
    let groups = log.groups();
    let every = (groups.len() / steps(60, 600) as usize).max(1);
    let mut random = Random::new(12);
    let ends = (1..begun).chain((begun..=groups.len()).step_by(every));
    for end in ends {
        let disk = SimDisk::new(FaultPlan::new(1));
        let config = tight::<Array>(PageSize::MIN, FileState::NEW);
        let config = PoolConfig { memory_budget: config.memory_budget * 4, ..config };
        let pool: Pool<Array> = open_pool(&disk, &config);
        recovery::replay(&pool, &[SPACE], &groups[..end]);
        let opened = pool.open_space(SPACE).map_err(VectorError::from).and_then(IvfIndex::open);
        if end < begun {
            assert!(opened.is_err(), "after {end} groups, of {begun} that make the index");
            continue;
        }
        let index = opened.unwrap();
        let report = index.check(&mut |_| true).unwrap();
        assert_eq!(report.faults, [], "after {end} groups");
        let query = vector(&mut random, DIMENSIONS);
        let found: BTreeSet<u64> =
            labels(&search_exact(&index, &query, 10_000)).into_iter().collect();
        let at = history.partition_point(|(count, _)| *count <= end) - 1;
        // One change is one group.
        assert!(found == history[at].1, "after {end} groups");
        assert_eq!(report.entries, found.len() as u64);
        let near = search(&index, &query, 10, 3);
        assert!(near.iter().all(|one| found.contains(&one.label)));
        assert_eq!(near.len(), found.len().min(10), "after {end} groups");
        // Life goes on.
        let node = index.insert(1 << 40, &query).unwrap();
        assert_eq!(search(&index, &query, 1, 1)[0].distance, 0.0);
        assert!(index.remove(1 << 40, node).unwrap());
        assert_sound(&index, found.len());
    }
    drop(pool);
}
