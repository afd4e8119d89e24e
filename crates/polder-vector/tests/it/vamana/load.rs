//! Many vectors that are loaded at once, with memory for a part of them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use polder_format::PageSize;
use polder_pool::{Array, FileState, Pool, PoolConfig, Translation};
use polder_testkit::effort::{is_long, steps};
use polder_testkit::pools::{disk, is_of_device, tight};
use polder_testkit::recovery::{self, MemoryLog};
use polder_testkit::{Errno, FaultPlan, Operation, Random, SimDisk, When, test_with};
use polder_vector::{
    Bulk, ElementKind, Loading, Metric, VamanaIndex, VamanaOptions, VectorBuf, VectorError,
    VectorIndex, VectorShape,
};

use crate::ivf::sift::{insert_all, recall, sift};
use crate::support::*;

const DIMENSIONS: usize = 8;

fn vectors(count: usize, seed: u64) -> Vec<(u64, Vec<f32>)> {
    let mut random = Random::new(seed);
    (0..count as u64).map(|label| (label, vector(&mut random, DIMENSIONS))).collect()
}

/// Loads with as little memory as can be, until `progress` has been told so often. Gives what was placed,
/// and whether it came to its end.
fn load<T: Translation>(
    index: &VamanaIndex<T>,
    vectors: &[(u64, Vec<f32>)],
    mut times: usize,
) -> (Model, bool) {
    let mut model = Model::new();
    let mut last = 0.0;
    let given = vectors.iter().map(|(label, vector)| (*label, vector));
    let is_done = index.bulk_load(given, 2, 0, &mut |loading| {
        match loading {
            Loading::Placed(placed) => {
                for (label, node) in placed {
                    let (_, vector) = vectors.iter().find(|(other, _)| other == label).unwrap();
                    let before = model.insert(*label, (*node, vector.clone()));
                    assert!(before.is_none(), "{label} is placed twice");
                }
            }
            Loading::Linked(share) => {
                assert!((last..=1.0).contains(&share), "{last}, then {share}");
                last = share;
            }
            _ => panic!("it tells something else"),
        }
        times = times.saturating_sub(1);
        times > 0
    });
    (model, is_done.unwrap())
}

/// How many of the ten nearest are found, of so many queries.
fn found<T: Translation>(index: &VamanaIndex<T>, model: &Model, queries: usize) -> usize {
    let mut random = Random::new(3);
    let found = (0..queries).map(|_| {
        let query = vector(&mut random, DIMENSIONS);
        let exact = search_exact(index, &query, 10);
        assert_eq!(labels(&exact), nearest(model, &query, 10));
        let these = search(index, &query, 10, 60);
        assert_true(&these, model, &query);
        hits(&these, &labels(&exact))
    });
    found.sum()
}

/// With several runs, and several parts.
fn all_are_found<T: Translation>() {
    let (vectors, disk) = (vectors(1500, 1), disk());
    let (pool, index) = new_small::<Steered, T>(&disk, PageSize::MIN, l2(DIMENSIONS), 1);
    let (model, is_done) = load(&index, &vectors, usize::MAX);
    assert!(is_done && index.is_linked().unwrap());
    assert_eq!(model.len(), vectors.len());
    let (_pool, index) = reopen(&disk, pool, index);
    assert_has(&index, &model);
    let found = found(&index, &model, 50);
    assert!(found >= 490, "{found} of 500");
}

test_with!(all_are_found);
test_with!(all_are_found: vm_huge: VmHuge);

/// Of every kind of numbers and every distance, and vectors so long that each has a page.
#[test]
fn all_shapes() {
    for element in [ElementKind::F32, ElementKind::F16, ElementKind::Bf16, ElementKind::I8] {
        for metric in [Metric::L2, Metric::InnerProduct, Metric::Cosine] {
            for dimensions in [3, 500] {
                let shape = VectorShape { element, dimensions, metric };
                let (_pool, index) = new_small::<Steered, Array>(&disk(), PageSize::MIN, shape, 4);
                let mut random = Random::new(2);
                let mut new = |label| {
                    let numbers = (0..dimensions).map(|_| random.below(200) as i8);
                    let bytes: Vec<u8> = match element {
                        ElementKind::F32 => {
                            numbers.flat_map(|one| f32::from(one).to_le_bytes()).collect()
                        }
                        ElementKind::I8 => numbers.map(|one| one as u8).collect(),
                        // Some small numbers of either kind, and of either sign.
                        _ => {
                            numbers.flat_map(|one| [one as u8, 0x3c ^ ((one as u8) << 7)]).collect()
                        }
                    };
                    (label, VectorBuf::from_bytes(element, &bytes).unwrap())
                };
                let vectors: Vec<_> = (0..400).map(&mut new).collect();
                assert!(index.bulk_load(vectors.clone(), 1, 0, &mut |_| true).unwrap());
                assert_sound(&index, vectors.len());
                let mut found = 0;
                for (label, vector) in vectors.iter().step_by(10) {
                    let exact = labels(&search_exact(&index, vector.view(), 5));
                    assert!(metric == Metric::InnerProduct || exact.contains(label));
                    found += hits(&search(&index, vector.view(), 5, 60), &exact);
                }
                assert!(found >= 160, "{found} of 200 of {shape:?}");
            }
        }
    }
}

/// Wherever it is stopped it leaves a sound index, which has what was placed; and goes on.
#[test]
fn a_load_that_was_stopped_goes_on() {
    let vectors = vectors(700, 4);
    let told = {
        let (_pool, index) = new_small::<Steered, Array>(&disk(), PageSize::MIN, l2(DIMENSIONS), 1);
        let mut told = 0;
        let given = vectors.iter().map(|(label, vector)| (*label, vector));
        index
            .bulk_load(given, 2, 0, &mut |_| {
                told += 1;
                true
            })
            .unwrap();
        told
    };
    let every = (told / steps(25, 200) as usize).max(1);
    // Before any vector was placed, among them, and when all were.
    let mut stops = [0; 3];
    for times in (1..told).step_by(every) {
        let (_pool, index) = new_small::<Steered, Array>(&disk(), PageSize::MIN, l2(DIMENSIONS), 1);
        let (mut model, is_done) = load(&index, &vectors, times);
        if is_done {
            // A thread that is told nothing has done the rest.
            continue;
        }
        assert_has(&index, &model);
        let is_linked = index.is_linked().unwrap();
        assert_eq!(is_linked, model.is_empty(), "stopped after {times} of {told}");
        found(&index, &model, 3);
        stops[usize::from(!model.is_empty()) + usize::from(model.len() == vectors.len())] += 1;
        // A collection goes on with what is not there.
        let left = vectors.iter().filter(|(label, _)| !model.contains_key(label));
        let left: Vec<_> = left.cloned().collect();
        let (more, is_done) = load(&index, &left, usize::MAX);
        assert!(is_done && index.is_linked().unwrap());
        model.extend(more);
        assert_eq!(model.len(), vectors.len());
        assert_has(&index, &model);
        assert!(found(&index, &model, 20) >= 195);
    }
    assert!(stops.iter().all(|count| *count > 0), "{stops:?}");
}

/// At every point of the log the index is sound, and has the groups that were placed, all or none of each.
#[test]
fn a_load_that_a_crash_has_cut_off_goes_on() {
    let (disk, log) = (SimDisk::new(FaultPlan::new(1)), Arc::<MemoryLog>::default());
    let tight = |file| {
        let config = tight::<Array>(PageSize::MIN, file);
        PoolConfig { memory_budget: config.memory_budget * 4, ..config }
    };
    let pool: Pool<Array> = open_pool(&disk, &log.behind(tight(FileState::NEW)));
    let index = <VamanaIndex<Array> as Tested>::small(pool.create_space().unwrap(), l2(DIMENSIONS));
    let begun = log.count();
    let vectors = vectors(700, 5);
    let (mut history, mut there) = (vec![(begun, BTreeSet::new())], BTreeSet::new());
    let given = vectors.iter().map(|(label, vector)| (*label, vector));
    let loaded = index.bulk_load(given, 2, 0, &mut |loading| {
        if let Loading::Placed(placed) = loading {
            there.extend(placed.iter().map(|(label, _)| *label));
            history.push((log.count(), there.clone()));
        }
        true
    });
    assert!(loaded.unwrap());
    let groups = log.groups();
    let every = (groups.len() / steps(30, 400) as usize).max(1);
    for end in (begun..=groups.len()).step_by(every) {
        let disk = SimDisk::new(FaultPlan::new(1));
        let pool: Pool<Array> = open_pool(&disk, &tight(FileState::NEW));
        recovery::replay(&pool, &[SPACE], &groups[..end]);
        let index = <VamanaIndex<Array> as Tested>::opened(pool.open_space(SPACE).unwrap());
        assert_eq!(index.report().faults, [], "after {end} groups");
        let mut found = BTreeSet::new();
        index.for_each(|label, _| found.insert(label)).unwrap();
        let at = history.partition_point(|(count, _)| *count <= end) - 1;
        let after = history.get(at + 1).unwrap_or(&history[at]);
        assert!(found == history[at].1 || found == after.1, "after {end} groups");
        assert_sound(&index, found.len());
        let is_whole = end == groups.len();
        assert_eq!(index.is_linked().unwrap(), found.is_empty() || is_whole, "{end}");
        // It is completed without the vectors.
        assert!(index.relink_all(2, 0, &mut |_| true).unwrap());
        assert!(index.is_linked().unwrap());
        assert_sound(&index, found.len());
        let own = vectors.iter().filter(|(label, _)| found.contains(label)).step_by(20);
        for (label, vector) in own {
            let near = search(&index, vector, 1, 60);
            assert_eq!((near[0].label, near[0].distance), (*label, 0.0), "after {end} groups");
        }
    }
    drop(pool);
}

/// Beside a load, and beside another one, vectors come and go, are searched for, and are linked.
fn beside_others<T: Translation>() {
    let disk = disk();
    let (_pool, index) = new_small::<Steered, T>(&disk, PageSize::MIN, l2(DIMENSIONS), 2);
    let labels_of = |thread: u64| thread << 32;
    let models: Vec<Model> = thread::scope(|scope| {
        let index = &index;
        let loads = (0..2_u64).map(|thread| {
            scope.spawn(move || {
                let mut vectors = vectors(steps(800, 4000) as usize, 10 + thread);
                vectors.iter_mut().for_each(|(label, _)| *label += labels_of(thread));
                let (model, is_done) = load(index, &vectors, usize::MAX);
                assert!(is_done);
                model
            })
        });
        let others = (2..4_u64).map(|thread| {
            scope.spawn(move || {
                let (mut random, mut model) = (Random::new(thread), Model::new());
                for step in 0..steps(300, 3000) {
                    let new = vector(&mut random, DIMENSIONS);
                    let near = search(index, &new, 10, 30);
                    assert!(near.windows(2).all(|two| two[0].distance <= two[1].distance));
                    if step % 3 > 0 && !model.is_empty() {
                        let (label, (node, _)) = model.pop_first().unwrap();
                        assert!(index.remove(label, node).unwrap());
                    } else {
                        let label = labels_of(thread) + step;
                        model.insert(label, (insert(index, label, &new), new));
                    }
                }
                model
            })
        });
        let threads: Vec<_> = loads.chain(others).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let model: Model = models.into_iter().flatten().collect();
    assert_has(&index, &model);
    assert!(index.relink_all(2, 0, &mut |_| true).unwrap() && index.is_linked().unwrap());
    assert_has(&index, &model);
    let found = found(&index, &model, 50);
    assert!(found >= 490, "{found} of 500");
}

test_with!(beside_others: beside_array: Array, beside_hash: Hash, beside_swizzle: Swizzle);

/// What was removed is not in the way, whatever it was: the root, the end of the path, whole pages.
#[test]
fn what_is_removed_meanwhile_is_gone_around() {
    let (_pool, index) = new_small::<Steered, Array>(&disk(), PageSize::MIN, l2(DIMENSIONS), 2);
    let (vectors, mut random) = (vectors(1200, 6), Random::new(6));
    let (mut model, mut there) = (Model::new(), Vec::new());
    let given = vectors.iter().map(|(label, vector)| (*label, vector));
    let loaded = index.bulk_load(given, 1, 0, &mut |loading| {
        if let Loading::Placed(placed) = loading {
            for (label, node) in placed {
                model.insert(*label, (*node, vectors[*label as usize].1.clone()));
            }
            there.extend(placed.iter().copied());
            // The end of the path goes, and all of it now and then.
            let keep = if random.chance(0.2) { 0 } else { there.len().saturating_sub(20) };
            for (label, node) in there.drain(keep..) {
                assert!(index.remove(label, node).unwrap());
                model.remove(&label);
            }
        }
        true
    });
    assert!(loaded.unwrap());
    assert!(model.len() > 20, "{} are left", model.len());
    assert_has(&index, &model);
    assert!(found(&index, &model, 20) >= 195);
}

/// A graph whose vectors have come and gone is linked again: more of the nearest are found, and nothing is
/// written where nothing is new.
#[test]
fn an_old_graph_is_refreshed() {
    let (_pool, index) = new_small::<Steered, Array>(&disk(), PageSize::MIN, l2(DIMENSIONS), 4);
    let (mut random, mut model) = (Random::new(8), Model::new());
    for label in 0..1500 {
        let new = vector(&mut random, DIMENSIONS);
        model.insert(label, (insert(&index, label, &new), new));
        if label > 600 {
            let (label, (node, _)) = model.pop_first().unwrap();
            assert!(index.remove(label, node).unwrap());
        }
    }
    let before = found(&index, &model, 100);
    assert!(index.relink_all(2, 0, &mut |_| true).unwrap());
    assert_has(&index, &model);
    let after = found(&index, &model, 100);
    assert!(after >= before && after >= 990, "{before}, then {after}");
}

/// Linking goes on behind the parts that are linked, also in another life; and begins anew where the vectors are
/// others, or all were linked.
#[test]
fn linking_goes_on() {
    let (mut vectors, disk) = (vectors(1500, 11), disk());
    let late = vectors.split_off(1000);
    let (pool, index) = new_small::<Steered, Array>(&disk, PageSize::MIN, l2(DIMENSIONS), 2);
    // How much was linked when linking began, if it ends as soon as so much is.
    let link = |index: &VamanaIndex<Array>, end: f64| {
        let (mut first, mut last) = (None, 0.0);
        let is_done = index.relink_all(2, 0, &mut |share| {
            if share > 0.0 {
                first.get_or_insert(share);
            }
            last = share;
            share < end
        });
        assert_eq!(is_done.unwrap(), last < end, "ended at {last}");
        first.unwrap()
    };
    let given = vectors.iter().map(|(label, vector)| (*label, vector));
    let placed = index.bulk_load(given, 2, 0, &mut |loading| match loading {
        Loading::Placed(_) => true,
        Loading::Linked(share) => share == 0.0,
        _ => panic!("it tells something else"),
    });
    assert!(!placed.unwrap());
    assert!(link(&index, 0.4) < 0.1);
    let (pool, index) = reopen(&disk, pool, index);
    let begun = link(&index, 0.8);
    assert!((0.2..0.5).contains(&begun), "begun at {begun}");
    let (_pool, index) = reopen(&disk, pool, index);
    let begun = link(&index, 2.0);
    assert!((0.6..0.9).contains(&begun) && index.is_linked().unwrap(), "begun at {begun}");
    let recall = |vectors: &[(u64, Vec<f32>)]| {
        let mut model = Model::new();
        let see = &mut |label: u64, node| {
            model.insert(label, (node, vectors[label as usize].1.clone()));
            true
        };
        index.for_each(see).unwrap();
        assert_has(&index, &model);
        let found = found(&index, &model, 50);
        assert!(found >= 490, "{found} of 500");
    };
    recall(&vectors);
    // All were linked.
    for _ in 0..2 {
        assert!(link(&index, 0.5) < 0.1);
        assert!(link(&index, 2.0) > 0.3);
    }
    // What one more load has placed is not linked in the parts that were.
    link(&index, 0.5);
    let (_, is_done) = load(&index, &late, usize::MAX);
    assert!(is_done && index.is_linked().unwrap());
    vectors.extend(late);
    recall(&vectors);
    assert!(link(&index, 2.0) < 0.1);
}

/// Whoever links what was there says nothing of what is placed meanwhile, also if others have linked that, and
/// as many groups are placed again.
#[test]
fn what_is_placed_meanwhile_is_not_said_to_be_linked() {
    let (_pool, index) = new_small::<Steered, Array>(&disk(), PageSize::MIN, l2(DIMENSIONS), 4);
    let mut label = 0;
    let mut place = || {
        let vectors: Vec<_> = (label..label + 3).map(|label| (label, [0.5; DIMENSIONS])).collect();
        label += 3;
        let given = vectors.iter().map(|(label, vector)| (*label, vector));
        let is_placed = |loading: Loading<'_>| matches!(loading, Loading::Placed(&[_, ..]));
        assert!(!index.bulk_load(given, 1, 0, &mut |loading| !is_placed(loading)).unwrap());
    };
    place();
    assert!(!index.is_linked().unwrap());
    for is_linked_by_others in [false, true] {
        let mut is_first = true;
        let linked = index.relink_all(1, 0, &mut |_| {
            if std::mem::take(&mut is_first) {
                if is_linked_by_others {
                    assert!(index.relink_all(1, 0, &mut |_| true).unwrap());
                }
                place();
            }
            true
        });
        assert!(linked.unwrap() && !index.is_linked().unwrap());
    }
    assert!(index.relink_all(1, 0, &mut |_| true).unwrap() && index.is_linked().unwrap());
    assert_sound(&index, 9);
}

#[test]
fn few_vectors_and_none() {
    for count in [0, 1, 2, 3, 130] {
        let (_pool, index) = new_small::<Steered, Array>(&disk(), PageSize::MIN, l2(DIMENSIONS), 1);
        let (model, is_done) = load(&index, &vectors(count, 7), usize::MAX);
        assert!(is_done && index.is_linked().unwrap());
        assert_has(&index, &model);
        found(&index, &model, 3);
    }
}

/// The same vector a thousand times, and no other.
#[test]
fn vectors_that_are_the_same() {
    let (_pool, index) = new_small::<Steered, Array>(&disk(), PageSize::MIN, l2(DIMENSIONS), 1);
    let same = [1.0_f32; DIMENSIONS];
    let vectors: Vec<_> = (0..1000).map(|label| (label, same.to_vec())).collect();
    let (model, _) = load(&index, &vectors, usize::MAX);
    assert_has(&index, &model);
    let found = search(&index, &same, 1000, 1000);
    assert_eq!(found.len(), 1000);
}

/// A vector that is none of the index ends it: what came in runs before is there.
#[test]
fn a_vector_that_is_refused() {
    let (_pool, index) = new_small::<Steered, Array>(&disk(), PageSize::MIN, l2(DIMENSIONS), 1);
    let (vectors, mut placed) = (vectors(600, 9), 0);
    let none = vec![f32::NAN; DIMENSIONS];
    let given = vectors.iter().map(|(label, vector)| (*label, vector)).chain([(600, &none)]);
    let refused = index.bulk_load(given, 1, 0, &mut |loading| {
        if let Loading::Placed(these) = loading {
            placed += these.len();
        }
        true
    });
    assert!(matches!(refused, Err(VectorError::NotFinite { dimension: 0, .. })), "{refused:?}");
    assert!((256..600).contains(&placed), "{placed} are placed");
    assert_sound(&index, placed);
    assert!(!index.is_linked().unwrap());
}

/// Requests that fail end it with an error that says so, and leave a sound index.
#[test]
fn a_device_that_fails() {
    let (mut failed, mut random) = (0, Random::new(12));
    let vectors: Vec<_> = (0..600).map(|label| (label, vector(&mut random, 200))).collect();
    for seed in 0..steps(12, 100) {
        let disk = disk();
        let (_pool, index) = new_small::<Steered, Array>(&disk, PageSize::MIN, l2(200), 1);
        disk.set_plan(
            FaultPlan::new(seed)
                .fail(Operation::Read, When::Share(0.002 * seed as f64), Errno::IO)
                .fail(Operation::Write, When::Share(0.01), Errno::IO),
        );
        let given = vectors.iter().map(|(label, vector)| (*label, vector));
        let loaded = index.bulk_load(given, 2, 0, &mut |_| true);
        disk.set_plan(FaultPlan::new(1));
        if let Err(error) = loaded {
            let VectorError::Pool(error) = &error else { panic!("{error}") };
            assert!(is_of_device(error), "{error:?}");
            failed += 1;
        }
        let report = index.report();
        assert_eq!(report.faults, [], "by {seed}");
        assert_sound(&index, report.entries as usize);
        assert!(index.relink_all(1, 0, &mut |_| true).unwrap());
        assert_sound(&index, report.entries as usize);
    }
    assert!(failed > 3, "{failed} have failed");
}

/// Real vectors: by parts as many of the nearest are found as after inserts.
#[test]
fn as_many_are_found_as_after_inserts() {
    let Some(sift) = sift() else { return };
    let options = VamanaOptions { links: 32, ..VamanaOptions::new(l2(128)) };
    let recalls = |fill: &dyn Fn(&VamanaIndex<Array>)| {
        let (_pool, index) = with_pool(&disk(), PageSize::MIN, 40, |space| {
            VamanaIndex::<Array>::create(space, &options, &sift.base[..1000]).unwrap()
        });
        fill(&index);
        assert_sound(&index, sift.base.len());
        // As collections look for a vector that a crash may have left.
        for (label, vector) in (0..).zip(&sift.base).step_by(50) {
            let own = search(&index, vector, 512, 512);
            assert!(own.iter().any(|found| found.label == label), "{label}");
        }
        [20, 80, 160].map(|width| recall(&index, &sift, width))
    };
    let loaded = |memory| {
        recalls(&|index| {
            let given = (0..).zip(&sift.base);
            assert!(index.bulk_load(given, 2, memory, &mut |_| true).unwrap());
        })
    };
    // What inserts come to, in the test of these; and, as which are missed is chance, nearly what they do.
    let (mut least, mut memories) = ([850, 965, 990], vec![1 << 20]);
    if is_long() {
        least = recalls(&|index| insert_all(index, &sift.base)).map(|found| found - 10);
        memories.push(usize::MAX);
    }
    for memory in memories {
        let found = loaded(memory);
        let is_enough = found.iter().zip(least).all(|(found, least)| *found >= least);
        assert!(is_enough, "{found:?} of 1000 with {memory} bytes, and {least:?} are enough");
    }
}

/// Each change is made by the caller, who may end a run, and linking, by not making one.
#[test]
fn what_the_caller_does_not_change_stays() {
    let vectors = vectors(600, 9);
    for most in (0..40).step_by(3).chain([usize::MAX]) {
        let disk = disk();
        let (_pool, index) = new_small::<Steered, Array>(&disk, PageSize::MIN, l2(DIMENSIONS), 4);
        let (mut model, made) = (Model::new(), AtomicUsize::new(0));
        let change = &|make: &mut dyn FnMut()| {
            if made.fetch_add(1, Relaxed) < most {
                make();
            }
        };
        let mut placed = |loading: Loading<'_>| {
            let Loading::Placed(placed) = loading else { panic!("it links") };
            for (label, node) in placed {
                let (_, vector) = &vectors[*label as usize];
                model.insert(*label, (*node, vector.clone()));
            }
            true
        };
        let mut bulk = Bulk { threads: 2, memory_bytes: 0, change, progress: &mut placed };
        let mut is_done = true;
        for run in vectors.chunks(150) {
            let run = run.iter().map(|(label, vector)| (*label, VectorBuf::from(vector))).collect();
            is_done = is_done && index.place_run(run, &mut bulk).unwrap();
        }
        assert_eq!(is_done, model.len() == vectors.len());
        assert_has(&index, &model);
        let before = found(&index, &model, 50);
        let go_on = &mut |_: Loading<'_>| true;
        let mut bulk = Bulk { threads: 2, memory_bytes: 0, change, progress: go_on };
        let is_linked = index.relink(&mut bulk).unwrap();
        assert_eq!(is_linked, most == usize::MAX);
        assert_eq!(index.is_linked().unwrap(), is_linked || model.is_empty());
        assert_has(&index, &model);
        let (found, made) = (found(&index, &model, 50), made.into_inner());
        match is_linked {
            true => assert!(found >= 490, "{found} of 500"),
            false => assert_eq!((found, made > most), (before, true)),
        }
    }
}
