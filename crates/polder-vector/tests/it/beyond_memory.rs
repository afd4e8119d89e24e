//! Twice as many vectors as the pool has room for: searches find what is nearest, pages are read many at
//! once, and a device that fails is said to have failed, and no more.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Condvar, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

use polder_format::PageSize;
use polder_pool::{Array, FileState, PoolError, Translation};
use polder_testkit::effort::steps;
use polder_testkit::pools::{config, disk, is_of_device, tight};
use polder_testkit::{Errno, FaultPlan, Operation, Random, SimDisk, When, test_with};
use polder_vector::{
    Answer, Filter, Queries, Search, VectorError, VectorIndex, VectorRef, search_many,
};

use crate::support::*;

/// Two vectors to a page of 4 KiB.
const DIMENSIONS: usize = 400;
const VECTORS: u64 = 800;

/// An index, and what is in it.
struct Prepared {
    image: Vec<u8>,
    file: FileState,
    model: Model,
}

fn prepared<F: Family>() -> Prepared {
    let disk = disk();
    let small = |space| F::Of::<Array>::small(space, l2(DIMENSIONS));
    let (pool, index) = with_pool(&disk, PageSize::MIN, 8, small);
    let (mut model, mut random) = (Model::new(), Random::new(5));
    for label in 0..VECTORS {
        let vector = vector(&mut random, DIMENSIONS);
        model.insert(label, (index.insert(label, (&vector).into()).unwrap(), vector));
    }
    pool.flush().unwrap();
    Prepared { image: disk.image(), file: pool.file_state(), model }
}

fn finds<F: Family, T: Translation>() {
    let Prepared { image, file, mut model } = prepared::<F>();
    let disk = SimDisk::from_image(&image, FaultPlan::new(1).delay(0.3, Duration::ZERO));
    let pool = open_pool::<T>(&disk, &tight::<T>(PageSize::MIN, file));
    let index = F::Of::<T>::opened(pool.open_space(SPACE).unwrap());
    index.assert_found(VECTORS as usize);
    let (mut random, mut found) = (Random::new(6), 0);
    for round in 0..steps(60, 300) {
        let query = vector(&mut random, DIMENSIONS);
        let these = search(&index, &query, 10, F::WIDTH);
        assert_true(&these, &model, &query);
        found += hits(&these, &nearest(&model, &query, 10));
        let label = VECTORS + round;
        model.insert(label, (index.insert(label, (&query).into()).unwrap(), query));
        let (label, (node, _)) = model.pop_first().unwrap();
        assert!(index.remove(label, node).unwrap());
    }
    assert!(found * 100 >= steps(60, 300) as usize * 10 * 90, "{found} are found");
    assert_has(&index, &model);
    let reads = pool.stats().device_reads;
    assert!(reads > 2000, "{reads} reads: the pool is not too small for the index");
    let together = disk.counts().most_queued;
    assert!(together >= 4, "at most {together} reads were under way");
}

/// Searches of one thread that go on together find what each finds alone ([`assert_alike`]), with a filter and for
/// all within a distance as well.
fn together<F: Family>() {
    let Prepared { image, file, model } = prepared::<F>();
    let disk = SimDisk::from_image(&image, FaultPlan::new(1).delay(0.3, Duration::ZERO));
    let pool = open_pool::<Array>(&disk, &tight::<Array>(PageSize::MIN, file));
    let index = F::Of::<Array>::opened(pool.open_space(SPACE).unwrap());
    let mut random = Random::new(8);
    let queries: Vec<_> = (0..50).map(|_| vector(&mut random, DIMENSIONS)).collect();
    let queries: Vec<_> = queries.iter().map(VectorRef::from).collect();
    let plain = Search::new(10, F::WIDTH);
    let (many, few) = (|label: u64| !label.is_multiple_of(3), |label: u64| label < 12);
    // It waits for pages: while some are on their way for the searches, that would be refused.
    let by_vector = |label: u64| {
        let (node, vector) = &model[&label];
        assert_eq!(get::<f32>(&index, label, *node).as_ref(), Some(vector));
        vector[0] > 0.02
    };
    let alone = |search| -> Vec<Answer> {
        queries.iter().map(|query| VectorIndex::search(&index, *query, &search).unwrap()).collect()
    };
    let middle = alone(plain)[0].found[5].distance;
    let within = Search::new(1000, 10).within(middle);
    let filtered = [plain.filter(&many), plain.filter(&few), plain.filter(&by_vector)];
    for search in filtered.into_iter().chain([plain, within, within.filter(&many)]) {
        assert_alike::<F>(&search_many(&index, &queries, &search, 1).unwrap(), &alone(search));
        assert_alike::<F>(&search_many(&index, &queries, &search, 3).unwrap(), &alone(search));
    }
    let none = Search { count: 0, ..plain };
    assert!(alone(none).iter().eq(&vec![Answer::default(); queries.len()]));
    assert_eq!(search_many(&index, &queries, &none, 1).unwrap(), alone(none));
    let reads = pool.stats().device_reads;
    assert!(reads > 2000, "{reads} reads: the pool is not too small for the index");
    // One thread has more reads under way the more frames there are. Those of lists are the pool's own thread's,
    // which has to come to run before the searches have read everything by themselves.
    let slow = FaultPlan::new(1).delay(0.3, Duration::from_millis(1));
    let disk = SimDisk::from_image(&image, slow);
    let pool = open_pool::<Array>(&disk, &config(16, PageSize::MIN, file));
    let index = F::Of::<Array>::opened(pool.open_space(SPACE).unwrap());
    search_many(&index, &queries, &plain, 1).unwrap();
    let together = disk.counts().most_queued;
    assert!(together >= F::READS_TOGETHER, "at most {together} reads were under way");
}

/// A thread that has one read under way at most makes many searches, of which several want the same pages.
fn one_read_at_once<F: Family>() {
    let Prepared { image, file, .. } = prepared::<F>();
    let disk = SimDisk::from_image(&image, FaultPlan::new(1));
    let pool = open_pool::<Array>(&disk, &tight::<Array>(PageSize::MIN, file));
    let index = F::Of::<Array>::opened(pool.open_space(SPACE).unwrap());
    let mut random = Random::new(9);
    let vectors: Vec<_> = (0..6).map(|_| vector(&mut random, DIMENSIONS)).collect();
    let queries: Vec<_> = vectors.iter().chain(&vectors).map(VectorRef::from).collect();
    let odd = |label: u64| label % 2 == 1;
    for search in [Search::new(10, F::WIDTH), Search::new(10, F::WIDTH).filter(&odd)] {
        let found = search_many(&index, &queries, &search, 1).unwrap();
        assert_alike::<F>(&found[..6], &found[6..]);
        let alone = queries.iter().map(|query| VectorIndex::search(&index, *query, &search));
        assert_alike::<F>(&found, &alone.collect::<Result<Vec<_>, _>>().unwrap());
    }
}

/// What two threads meet at once, who answer the queries of one call: each is answered once, also by an index
/// in which nothing is.
fn each_query_is_answered_once<F: Family>() {
    let disk = disk();
    let (_pool, index) = new_small::<F, Array>(&disk, PageSize::MIN, l2(8), 2);
    let mut random = Random::new(10);
    let vectors: Vec<_> = (0..100).map(|_| vector(&mut random, 8)).collect();
    let all: Vec<_> = vectors.iter().map(VectorRef::from).collect();
    for round in 0..2 {
        let queries = Queries::new(&all, 3);
        let answered: Vec<(usize, Answer)> = thread::scope(|scope| {
            let search = || index.search_each(&queries, &Search::new(1, F::WIDTH)).unwrap();
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(search)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let found = |answer: &Answer| answer.found.first().map(|one| one.label as usize);
        let numbers: BTreeSet<usize> = answered.iter().map(|(number, _)| *number).collect();
        assert!(numbers.into_iter().eq(0..100) && answered.len() == 100);
        for (number, answer) in &answered {
            assert_eq!(found(answer), (round == 1).then_some(*number));
        }
        (0..).zip(&vectors).for_each(|(label, vector)| {
            insert(&index, label, vector);
        });
    }
}

/// A filter that few match, which waits until two threads have asked it.
struct Shared {
    asked: Mutex<HashSet<ThreadId>>,
    both: Condvar,
}

impl Filter for Shared {
    fn matches(&self, label: u64) -> bool {
        let mut asked = self.asked.lock().unwrap();
        if asked.insert(thread::current().id()) {
            self.both.notify_all();
            let is_alone = |asked: &mut HashSet<ThreadId>| asked.len() < 2;
            drop(self.both.wait_timeout_while(asked, Duration::from_secs(5), is_alone).unwrap());
        }
        label < 3
    }

    fn count(&self) -> Option<u64> {
        Some(3)
    }
}

/// Threads share what a filter costs that few match: a scan for each query.
fn threads_share_scans<F: Family>() {
    let Prepared { image, file, .. } = prepared::<F>();
    let disk = SimDisk::from_image(&image, FaultPlan::new(1));
    let pool = open_pool::<Array>(&disk, &config(16, PageSize::MIN, file));
    let index = F::Of::<Array>::opened(pool.open_space(SPACE).unwrap());
    let mut random = Random::new(12);
    let vectors: Vec<_> = (0..40).map(|_| vector(&mut random, DIMENSIONS)).collect();
    let all: Vec<_> = vectors.iter().map(VectorRef::from).collect();
    let filter = Shared { asked: Mutex::default(), both: Condvar::new() };
    let search = Search::new(3, F::WIDTH).filter(&filter);
    let answers = search_many(&index, &all, &search, 2).unwrap();
    assert!(answers.iter().all(|answer| labels(&answer.found).into_iter().all(|label| label < 3)));
    assert_eq!(filter.asked.into_inner().unwrap().len(), 2, "one thread has made all searches");
}

/// A page that is damaged ends the searches of a call soon, and not when all others have been made.
fn an_error_is_told_soon<F: Family>() {
    let Prepared { mut image, file, .. } = prepared::<F>();
    let middle = image.len() / 2;
    image[middle] ^= 1;
    let disk = SimDisk::from_image(&image, FaultPlan::new(1).delay(0.3, Duration::ZERO));
    let pool = open_pool::<Array>(&disk, &config(1, PageSize::MIN, file));
    let index = F::Of::<Array>::opened(pool.open_space(SPACE).unwrap());
    let mut random = Random::new(11);
    let vectors: Vec<_> = (0..1000).map(|_| vector(&mut random, DIMENSIONS)).collect();
    let all: Vec<_> = vectors.iter().map(VectorRef::from).collect();
    let queries = Queries::new(&all, 1);
    let error = index.search_each(&queries, &Search::new(10, F::WIDTH)).map(drop).unwrap_err();
    let is_damage = |error: &PoolError| matches!(error, PoolError::Corrupt { .. });
    assert!(matches!(&error, VectorError::Pool(error) if is_damage(error)), "{error:?}");
    let next = queries.take().map(|(number, _)| number).unwrap();
    assert!(next < 40, "{next} searches were begun");
}

/// Runs operations under a plan. What was acknowledged stays, also when the device is well again; what
/// failed in the middle may have happened. Gives how many failed.
fn survive<F: Family>(prepared: &Prepared, plan: FaultPlan, ops: u64, seed: u64) -> u64 {
    let mut model = prepared.model.clone();
    let disk = SimDisk::from_image(&prepared.image, FaultPlan::new(1));
    let pool = open_pool::<Array>(&disk, &tight::<Array>(PageSize::MIN, prepared.file));
    let index = F::Of::<Array>::opened(pool.open_space(SPACE).unwrap());
    disk.set_plan(plan.clone());
    let (mut random, mut failed) = (Random::new(seed), 0);
    let mut unsure = BTreeSet::new();
    let mut next = VECTORS;
    for _ in 0..ops {
        let query = vector(&mut random, DIMENSIONS);
        let error = match random.below(3) {
            0 => {
                let others = [(); 5].map(|()| vector(&mut random, DIMENSIONS));
                let queries: Vec<_> = others.iter().chain([&query]).map(VectorRef::from).collect();
                let once = |Answer { found, .. }: Answer| {
                    let labels: BTreeSet<u64> = labels(&found).into_iter().collect();
                    assert_eq!(labels.len(), found.len(), "{plan:?}: something twice");
                };
                let answers = search_many(&index, &queries, &Search::new(10, F::WIDTH), 1);
                answers.map(|answers| answers.into_iter().for_each(once)).err()
            }
            1 => {
                next += 1;
                match index.insert(next, (&query).into()) {
                    Ok(node) => {
                        model.insert(next, (node, query));
                        None
                    }
                    Err(error) => {
                        unsure.insert(next);
                        Some(error)
                    }
                }
            }
            _ => {
                let at = random.index(model.len());
                let (label, node) = model.iter().nth(at).map(|(l, (n, _))| (*l, *n)).unwrap();
                model.remove(&label);
                match index.remove(label, node) {
                    Ok(was_there) => {
                        assert!(was_there, "{plan:?}");
                        None
                    }
                    Err(error) => {
                        unsure.insert(label);
                        Some(error)
                    }
                }
            }
        };
        if let Some(error) = error {
            failed += 1;
            let is_expected = match &error {
                VectorError::Pool(PoolError::Exhausted { .. }) => true,
                VectorError::Pool(error) => is_of_device(error),
                _ => false,
            };
            assert!(is_expected, "{plan:?}: {error:?}");
        }
    }
    disk.set_plan(FaultPlan::new(1));
    assert_eq!(index.report().faults, [], "{plan:?}");
    for (label, (node, vector)) in &model {
        assert_eq!(get(&index, *label, *node).as_ref(), Some(vector), "{plan:?}");
    }
    let query = vector(&mut random, DIMENSIONS);
    let all = labels(&search_exact(&index, &query, 10_000));
    let other = |label: &&u64| !model.contains_key(label) && !unsure.contains(label);
    assert_eq!(all.iter().find(other), None, "{plan:?}: it was removed");
    failed
}

fn each_read_may_fail_once<F: Family>() {
    let prepared = prepared::<F>();
    let mut failed = 0;
    for n in 0..steps(20, 100) {
        let plan = FaultPlan::new(n).fail(Operation::Read, When::Nth(n * 7), Errno::IO);
        failed += survive::<F>(&prepared, plan, 15, n);
    }
    assert!(failed > 5 || !F::MEETS_READS, "{failed} operations met a failing read");
}

fn a_share_of_all_requests_fails<F: Family>() {
    let prepared = prepared::<F>();
    for seed in 0..steps(3, 20) {
        let plan = FaultPlan::new(seed)
            .fail(Operation::Read, When::Share(0.05), Errno::IO)
            .fail(Operation::Write, When::Share(0.05), Errno::IO)
            .delay(0.3, Duration::from_micros(50));
        assert!(survive::<F>(&prepared, plan, 60, seed) > 0);
    }
}

fn no_read_works_any_more<F: Family>() {
    let prepared = prepared::<F>();
    for n in [0, 7, 200] {
        let plan = FaultPlan::new(n).fail(Operation::Read, When::From(n), Errno::IO);
        assert!(survive::<F>(&prepared, plan, 40, n) > 10);
    }
}

macro_rules! evicting {
    (evicting { $($(#[$about:meta])* $evicts:ident as $test:ident,)* } $($rest:tt)*) => {
        test_with!(finds: $($test: $evicts,)*);
    };
}

macro_rules! tests_of {
    ($name:ident: $family:ty) => {
        mod $name {
            use super::*;

            fn finds<T: Translation>() {
                super::finds::<$family, T>();
            }

            polder_pool::translations!(evicting);

            #[test]
            fn together() {
                super::together::<$family>();
            }

            #[test]
            fn one_read_at_once() {
                super::one_read_at_once::<$family>();
            }

            #[test]
            fn each_query_is_answered_once() {
                super::each_query_is_answered_once::<$family>();
            }

            #[test]
            fn threads_share_scans() {
                super::threads_share_scans::<$family>();
            }

            #[test]
            fn an_error_is_told_soon() {
                super::an_error_is_told_soon::<$family>();
            }

            #[test]
            fn each_read_may_fail_once() {
                super::each_read_may_fail_once::<$family>();
            }

            #[test]
            fn a_share_of_all_requests_fails() {
                super::a_share_of_all_requests_fails::<$family>();
            }

            #[test]
            fn no_read_works_any_more() {
                super::no_read_works_any_more::<$family>();
            }
        }
    };
}

tests_of!(graphs: Graphs);
tests_of!(lists: Lists);
tests_of!(steered: Steered);
