//! Collections of vectors: what is in them, by every way of looking, and that keys, rows and vectors stay
//! together whatever happens.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Barrier, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use polder::structure::{PageKind, PageSize, Structure};
use polder::vector::{
    ElementKind, HnswOptions, IvfOptions, Metric, NewIndex, Search, VamanaOptions, VectorBuf,
    VectorRef, VectorShape, VectorStructure,
};
use polder::{
    BatchError, Collection, Durability, Options, Query, Store, StoreError, TranslationKind,
    WriteBatch, salvage,
};
use polder_format::{PageHeader, SpaceId};
use polder_pool::bytes::PageBuf;
use polder_testkit::{Errno, FaultPlan, Operation, Random, When};

use crate::support::*;

pub const NAME: &str = "docs";
const PAGE: usize = 4096;
const SHAPE: VectorShape =
    VectorShape { element: ElementKind::F32, dimensions: 4, metric: Metric::L2 };

/// What a collection must be: for each key the seed of its vector and payload.
pub type Docs = BTreeMap<Vec<u8>, u64>;

/// The index of a collection.
#[derive(Debug, Clone, Copy)]
pub enum Index {
    Graph,
    /// A graph that is steered by codes.
    Steered,
    Lists,
}

/// A new one, with few links and narrow inserts, so that lists are full soon.
pub fn create(store: &Store, index: Index) -> Collection {
    try_create(store, index).unwrap()
}

fn try_create(store: &Store, index: Index) -> Result<Collection, StoreError> {
    let new = match index {
        Index::Graph => {
            HnswOptions { links: 4, insert_width: 30, ..HnswOptions::new(SHAPE) }.into()
        }
        Index::Steered => {
            let few = VamanaOptions { links: 8, insert_width: 30, ..VamanaOptions::new(SHAPE) };
            NewIndex::around(few, &[[512.0_f32; 4]]).unwrap()
        }
        Index::Lists => {
            let sample: Vec<_> = (0..100).map(|seed| vector(1 << 30 | seed)).collect();
            let options = IvfOptions { shape: SHAPE, lists: 6 };
            NewIndex::trained(options, &sample, &mut |_| true).unwrap()
        }
    };
    store.create_collection(NAME, new)
}

/// Tests of each index.
macro_rules! tests {
    ($($name:ident),* $(,)?) => {
        mod of_a_graph {
            $(#[test] fn $name() { super::$name(super::Index::Graph); })*
        }

        mod of_a_steered_graph {
            $(#[test] fn $name() { super::$name(super::Index::Steered); })*
        }

        mod of_lists {
            $(#[test] fn $name() { super::$name(super::Index::Lists); })*
        }
    };
}

tests!(
    one_is_what_a_map_is,
    every_moment_of_changes_leaves_a_whole_number_of_steps,
    threads_that_replace_the_same_keys_never_part_rows_from_vectors,
    searches_find_what_matches,
    a_row_that_is_lost_meanwhile_is_no_end,
    what_is_replaced_while_the_device_is_slow_is_found,
    what_cannot_be_is_refused_and_leaves_nothing,
    of_several_changes_of_a_key_the_last_one_is_made,
    names_are_taken_and_free_again,
    a_load_goes_on_where_it_was,
    what_was_cut_off_is_not_found_by_who_may_not_settle_it,
    what_is_salvaged_agrees,
    keys_and_vectors_outlive_each_leaf_of_the_tables,
    what_parted_is_told_and_repaired,
    what_is_pending_hides_nothing,
    of_two_rows_of_a_key_the_later_one_counts,
    a_filter_is_asked_once_where_nothing_changes,
    a_filter_is_asked_once_beside_others,
    threads_bring_and_take_one_key,
    a_check_passes_over_what_was_dropped_meanwhile,
    payloads_change_by_themselves,
    what_is_asked_within_an_update_is_refused_and_harms_nothing,
    a_load_takes_each_key_once,
    a_load_that_is_stopped_inserts_no_more,
    a_new_key_is_one_threads,
    nothing_parts_where_the_device_fails,
    a_record_that_is_older_than_its_row_takes_nothing_away,
    a_crash_in_front_of_the_batch_leaves_a_record_of_each_vector,
    one_is_made_whole_or_can_be_made_again,
);

pub fn options() -> Options {
    tight("simulated").memory_budget(2 * Options::least_memory_budget(4096))
}

pub fn key(number: u64) -> Vec<u8> {
    format!("key {number}").into_bytes()
}

pub fn vector(seed: u64) -> [f32; 4] {
    let mut random = Random::new(seed);
    std::array::from_fn(|_| random.below(1 << 10) as f32)
}

/// Of each length up to more than a page.
pub fn payload(seed: u64) -> Vec<u8> {
    let len = if seed.is_multiple_of(50) { 5000 } else { seed % 60 };
    let mut payload = seed.to_le_bytes().to_vec();
    payload.resize(8 + len as usize, seed as u8);
    payload
}

pub fn seed_of(payload: &[u8]) -> u64 {
    u64::from_le_bytes(payload[..8].try_into().unwrap())
}

fn distance(a: [f32; 4], b: [f32; 4]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

pub fn insert(docs: &Collection, number: u64, seed: u64) -> bool {
    docs.insert(key(number), &vector(seed), payload(seed)).unwrap()
}

/// Inserts the keys of these numbers, which are their seeds as well.
pub fn fill(docs: &Collection, numbers: std::ops::Range<u64>) {
    numbers.for_each(|number| assert!(!insert(docs, number, number)));
}

/// Keys, rows and vectors agree, and nothing else is there.
pub fn assert_agrees(docs: &Collection) {
    let report = docs.check(&mut |_| true).unwrap();
    assert_eq!(report.faults, [""; 0]);
    assert_eq!((report.keys, report.pending, report.wrong), (docs.len(), 0, 0));
    let pending = docs.store().table("docs.pending").unwrap();
    assert!(pending.is_empty(), "{} vectors are pending", pending.len());
}

/// It is what the model is, by every way of looking.
pub fn assert_is(docs: &Collection, model: &Docs) {
    assert_agrees(docs);
    assert_eq!((docs.len(), docs.is_empty()), (model.len() as u64, model.is_empty()));
    assert!(docs.keys(..).map(Result::unwrap).eq(model.keys().cloned()));
    for (key, seed) in model {
        let (of_key, of_payload) = docs.get(key).unwrap().unwrap();
        assert_eq!(of_key.elements::<f32>().unwrap(), vector(*seed));
        assert_eq!(of_payload, payload(*seed));
    }
    let query = vector(77);
    let all = docs.search(&query, &Query::new(model.len() + 10).exact()).unwrap();
    assert!(all.is_exhaustive);
    let mut found = Docs::new();
    for hit in all.hits {
        let seed = seed_of(&hit.payload);
        assert_eq!((&hit.payload, hit.distance), (&payload(seed), distance(query, vector(seed))));
        assert_eq!(found.insert(hit.key, seed), None);
    }
    assert_eq!(&found, model);
}

/// A change of some keys, all of them or none.
#[derive(Debug, Clone)]
struct Step(Vec<(u64, Option<u64>)>);

impl Step {
    fn random(random: &mut Random, keys: u64) -> Step {
        let count = if random.below(4) == 0 { random.below(6) } else { 1 };
        let change = |random: &mut Random| {
            let value = (random.below(4) > 0).then(|| random.below(1 << 20));
            (random.below(keys), value)
        };
        Step((0..count).map(|_| change(random)).collect())
    }

    fn model(&self, model: &mut Docs) {
        for (number, seed) in &self.0 {
            match seed {
                Some(seed) => drop(model.insert(key(*number), *seed)),
                None => drop(model.remove(&key(*number))),
            }
        }
    }

    /// Makes it; of several changes by a batch, beside an entry of a table.
    fn make(&self, docs: &Collection, steps: &polder::Table, number: u64) {
        match self.0[..] {
            [(number, Some(seed))] => {
                insert(docs, number, seed);
            }
            [(number, None)] => {
                docs.remove(key(number)).unwrap();
            }
            _ => {
                let mut batch = WriteBatch::new();
                batch.put(steps, "last", number.to_le_bytes());
                for (number, seed) in &self.0 {
                    match seed {
                        Some(seed) => {
                            batch.insert_vector(docs, key(*number), &vector(*seed), payload(*seed))
                        }
                        None => batch.remove_vector(docs, key(*number)),
                    };
                }
                assert_eq!(batch.len(), 1 + self.0.len());
                docs.store().apply(batch).unwrap();
            }
        }
    }
}

fn one_is_what_a_map_is(index: Index) {
    for (seed, kind) in (0..).zip(TranslationKind::ALL) {
        let options = || options().translation(*kind).durability(Durability::None);
        let mut disks = disk();
        let store = disks.open(options()).unwrap();
        let (mut docs, mut steps) = (create(&store, index), store.create_table("steps").unwrap());
        let (mut random, mut model) = (Random::new(seed), Docs::new());
        let mut open = store;
        for round in 0..3 {
            for number in 0..60 {
                let step = Step::random(&mut random, 40);
                if let [(number, seed)] = step.0[..] {
                    let was_there = model.contains_key(&key(number));
                    let replaced = match seed {
                        Some(seed) => insert(&docs, number, seed),
                        None => docs.remove(key(number)).unwrap(),
                    };
                    assert_eq!(replaced, was_there);
                } else {
                    step.make(&docs, &steps, number);
                }
                step.model(&mut model);
            }
            assert_is(&docs, &model);
            drop((docs, steps));
            match round {
                0 => open.close().unwrap(),
                _ => {
                    open.flush().unwrap();
                    disks = disks.crash(seed);
                }
            }
            open = disks.open(options()).unwrap();
            (docs, steps) = (open.collection(NAME).unwrap(), open.table("steps").unwrap());
            assert_is(&docs, &model);
        }
        assert_sound(&open);
    }
}

/// What is acknowledged is there, what had not begun is not, and each change was made whole.
fn every_moment_of_changes_leaves_a_whole_number_of_steps(index: Index) {
    let mut settled = 0;
    for seed in 0..2 * scale() {
        let disks = disk();
        let store = disks.open(options()).unwrap();
        let docs = create(&store, index);
        let table = store.create_table("steps").unwrap();
        let mut random = Random::new(seed);
        let steps: Vec<Step> = (0..150).map(|_| Step::random(&mut random, 15)).collect();
        let [begun, acknowledged, allowed] = [(); 3].map(|()| AtomicUsize::new(0));
        let mut moments = Vec::new();
        thread::scope(|scope| {
            let changer = scope.spawn(|| {
                for (number, step) in steps.iter().enumerate() {
                    while number >= allowed.load(SeqCst) {
                        thread::yield_now();
                    }
                    begun.fetch_add(1, SeqCst);
                    step.make(&docs, &table, number as u64);
                    acknowledged.fetch_add(1, SeqCst);
                }
            });
            let writes = || disks.data.counts().writes + disks.log.counts().writes;
            while !changer.is_finished() {
                // It comes within the last of these steps, or before.
                allowed.fetch_add(1 + random.index(8), SeqCst);
                let next = writes() + 1 + random.below(40);
                let is_last = || acknowledged.load(SeqCst) + 1 >= allowed.load(SeqCst);
                while writes() < next && !is_last() && !changer.is_finished() {
                    thread::yield_now();
                }
                let (least, seed) = (acknowledged.load(SeqCst), random.next_u64());
                let disks = if random.chance(0.5) { disks.kill(seed) } else { disks.crash(seed) };
                moments.push((disks, least, begun.load(SeqCst)));
            }
        });
        assert!(moments.len() > 10);
        for (disks, least, most) in moments {
            let store = disks.open(options()).unwrap();
            settled += store.table("docs.pending").unwrap().len();
            let docs = store.collection(NAME).unwrap();
            assert_eq!(docs.check(&mut |_| true).unwrap().faults, [""; 0]);
            // It is settled by the first change, if only by one of nothing.
            assert!(!docs.remove("no such key").unwrap());
            assert_agrees(&docs);
            let mut model = Docs::new();
            steps[..least].iter().for_each(|step| step.model(&mut model));
            let there = |docs: &Collection| -> Docs {
                let seed = |key: Vec<u8>| {
                    let (_, payload) = docs.get(&key).unwrap().unwrap();
                    (key, seed_of(&payload))
                };
                docs.keys(..).map(|key| seed(key.unwrap())).collect()
            };
            let found = there(&docs);
            for step in &steps[least..most] {
                if found == model {
                    break;
                }
                step.model(&mut model);
            }
            assert_is(&docs, &model);
            assert_sound(&store);
        }
    }
    assert!(settled > 0, "no step was cut off");
}

/// A hit has the payload of its vector, and all that is never removed is found.
fn threads_that_replace_the_same_keys_never_part_rows_from_vectors(index: Index) {
    let disks = disk();
    let store = disks.open(options().durability(Durability::None)).unwrap();
    let docs = create(&store, index);
    let counts = store.create_table("counts").unwrap();
    fill(&docs, 0..30);
    let rounds = 60 * scale();
    thread::scope(|scope| {
        let change = |thread: u64| {
            let mut random = Random::new(thread);
            for round in 0..rounds {
                let (number, seed) = (random.below(30), 1000 * thread + round);
                match random.below(4) {
                    0 => {
                        docs.remove(key(30 + number % 5)).unwrap();
                    }
                    1 => {
                        insert(&docs, 30 + number % 5, seed);
                    }
                    2 => {
                        insert(&docs, number, seed);
                    }
                    _ => {
                        let raise = |old: Option<&[u8]>| {
                            let old =
                                old.map_or(0, |old| u64::from_le_bytes(old.try_into().unwrap()));
                            polder::Change::Insert((old + 1).to_le_bytes().to_vec())
                        };
                        let mut batch = WriteBatch::new();
                        batch.update_with(&counts, "batches", raise);
                        for i in 0..3 {
                            let seed = 3 * seed + i;
                            let number = (number + i) % 30;
                            batch.insert_vector(&docs, key(number), &vector(seed), payload(seed));
                        }
                        store.apply(batch).unwrap();
                    }
                }
            }
        };
        let changers: Vec<_> = (1..4).map(|thread| scope.spawn(move || change(thread))).collect();
        let mut random = Random::new(99);
        while changers.iter().any(|changer| !changer.is_finished()) {
            let query = vector(random.below(1 << 30));
            let matches = |key: &[u8], payload: &[u8]| key.len() == 5 && !payload.is_empty();
            let filter = random.chance(0.3);
            let wanted = Query::new(10).width(40);
            let wanted = if filter { wanted.filter(&matches) } else { wanted };
            let found = match random.chance(0.5) {
                true => docs.search(&query, &wanted).unwrap(),
                false => {
                    let other = vector(random.below(1 << 30));
                    let queries = [&other, &query].map(VectorRef::from);
                    docs.search_many(&queries, &wanted, 2).unwrap().remove(1)
                }
            };
            assert!(found.hits.len() <= 10);
            for hit in &found.hits {
                assert_eq!(hit.distance, distance(query, vector(seed_of(&hit.payload))));
                assert!(!filter || hit.key.len() == 5);
            }
            let keys: BTreeSet<_> = found.hits.iter().map(|hit| &hit.key).collect();
            assert_eq!(keys.len(), found.hits.len());
            assert!(found.hits.is_sorted_by(|a, b| a.distance <= b.distance));
            let number = random.below(30);
            let (of_key, payload) = docs.get(key(number)).unwrap().unwrap();
            assert_eq!(of_key.elements::<f32>().unwrap(), vector(seed_of(&payload)));
        }
    });
    assert_agrees(&docs);
    let mut keys: Vec<_> = docs.keys(..).map(Result::unwrap).collect();
    keys.retain(|of| (0..30).any(|number| key(number) == *of));
    assert_eq!(keys.len(), 30);
    assert_sound(&store);
}

fn searches_find_what_matches(index: Index) {
    let store = disk().open(options().durability(Durability::None)).unwrap();
    let docs = create(&store, index);
    let (count, query) = (400, vector(12345));
    let nothing = docs.search(&query, &Query::new(10).width(400)).unwrap();
    assert_eq!((nothing.hits.len(), nothing.is_exhaustive), (0, true));
    fill(&docs, 0..count);
    let mut nearest: Vec<(f32, u64)> =
        (0..count).map(|number| (distance(query, vector(number)), number)).collect();
    nearest.sort_by(|a, b| a.0.total_cmp(&b.0));
    let numbers = |wanted: &Query<'_>| -> Vec<u64> {
        let found = docs.search(&query, wanted).unwrap();
        // Many at once are answered as one after the other.
        let other = vector(54321);
        let queries = [&query, &other, &query].map(VectorRef::from);
        let many = docs.search_many(&queries, wanted, 2).unwrap();
        assert_eq!(many, [found.clone(), docs.search(&other, wanted).unwrap(), found.clone()]);
        found.hits.iter().map(|hit| seed_of(&hit.payload)).collect()
    };
    let expected = |most: usize, matches: &dyn Fn(u64) -> bool| -> Vec<u64> {
        let all = nearest.iter().map(|(_, number)| *number).filter(|number| matches(*number));
        all.take(most).collect()
    };
    assert_eq!(numbers(&Query::new(10).exact()), expected(10, &|_| true));
    assert_eq!(numbers(&Query::new(10).width(400)), expected(10, &|_| true));
    let by_key = |key: &[u8], _: &[u8]| key.ends_with(b"7");
    let ends_with_7 = |number: u64| number % 10 == 7;
    for wanted in [Query::new(12).width(400), Query::new(12).exact()] {
        assert_eq!(numbers(&wanted.filter(&by_key)), expected(12, &ends_with_7));
    }
    // More than match: all of them, and that is said.
    let by_payload = |_: &[u8], payload: &[u8]| seed_of(payload) < 5;
    let few = docs.search(&query, &Query::new(50).filter(&by_payload)).unwrap();
    assert_eq!((few.hits.len(), few.is_exhaustive), (5, true));
    let within = nearest[20].0;
    assert_eq!(numbers(&Query::new(1000).within(within)), expected(21, &|_| true));
    // One after the other: nearly in order at last, each once, and all that match.
    let one_by_one = |wanted: &Query<'_>, most: usize| -> Vec<u64> {
        let hits = docs.nearest(&query, wanted).take(most);
        hits.map(|hit| seed_of(&hit.unwrap().payload)).collect()
    };
    let all = Query::new(usize::MAX).width(400);
    assert_eq!(one_by_one(&all, 40), expected(40, &|_| true));
    assert_eq!(one_by_one(&all.filter(&by_key), usize::MAX), expected(400, &ends_with_7));
    assert_eq!(one_by_one(&Query::new(3).exact(), usize::MAX), expected(3, &|_| true));
    let mut each = one_by_one(&Query::new(usize::MAX).width(20), usize::MAX);
    each.sort_unstable();
    assert!(each.into_iter().eq(0..count));
    assert_eq!(docs.nearest(&[1.0_f32], &all).filter_map(Result::err).count(), 1, "one error");
    // A probe compares the same.
    let queries = [vector(1), vector(2)];
    let queries: Vec<VectorRef> = queries.iter().map(VectorRef::from).collect();
    let probed = docs.probe(&queries, 10, &[400], Some(0.9), &mut |_| true).unwrap().unwrap();
    assert_eq!((probed.widths[0].width, probed.widths[0].recall), (400, 1.0));
    assert!(probed.enough.unwrap().recall >= 0.9);
    assert_eq!(docs.probe(&queries, 10, &[], None, &mut |_| false).unwrap(), None);
    // What a filter meets, a search ends with.
    store.clone().close().unwrap();
    let closed = docs.search(&query, &Query::new(10)).unwrap_err();
    assert!(matches!(closed, StoreError::Closed), "{closed}");
    for wanted in [Query::new(10).filter(&by_key), Query::new(10).filter(&by_key).exact()] {
        let closed = docs.search_many(&queries, &wanted, 2).unwrap_err();
        assert!(matches!(closed, StoreError::Closed), "{closed}");
    }
}

/// One of what is nearest goes when the search has compared it, so that it loses a row however often it is tried:
/// that is not the end, and all that stay are given.
fn a_row_that_is_lost_meanwhile_is_no_end(index: Index) {
    /// Vectors, of which a page has fewer than are asked about until the one goes.
    const COUNT: u64 = 1000;
    const LATER: u64 = 300;
    let store = disk().open(options().durability(Durability::None)).unwrap();
    let docs = create(&store, index);
    fill(&docs, 0..COUNT);
    let query = vector(12345);
    let mut nearest: Vec<u64> = (0..COUNT).collect();
    nearest.sort_by_key(|number| distance(query, vector(*number)) as u64);
    let going = Mutex::new((0, None, nearest.clone()));
    let taking = |of: &[u8], _: &[u8]| {
        let (asked, next, left) = &mut *going.lock().unwrap();
        *asked += 1;
        match *next {
            Some((number, when)) if *asked == when => {
                let take = || assert!(docs.remove(key(number)).unwrap());
                thread::scope(|scope| scope.spawn(take).join().unwrap());
                left.retain(|other| *other != number);
            }
            // Once while all are asked about.
            Some((_, when)) if *asked < when + LATER => {}
            _ => {
                let found = left[..16].iter().find(|number| of == key(**number));
                *next = found.map(|number| (*number, *asked + LATER));
            }
        }
        true
    };
    let wanted = Query::new(50).exact().filter(&taking);
    let found: BTreeSet<_> = docs.nearest(&query, &wanted).map(|hit| hit.unwrap().key).collect();
    let (_, _, left) = going.into_inner().unwrap();
    assert!(nearest.len() - left.len() >= 4, "{} are left", left.len());
    assert!(left[..30].iter().all(|number| found.contains(&key(*number))), "{found:?}");
}

/// A search asks about new vectors that have no rows yet; then it is their old ones that have none, while
/// whoever has replaced them waits for the device.
fn what_is_replaced_while_the_device_is_slow_is_found(index: Index) {
    const COUNT: u64 = 1000;
    /// What new vectors find free lies before the old ones.
    const FREE: u64 = 100;
    const NEW: u64 = 5000;
    let replaced = COUNT - 30..COUNT;
    let disks = disk();
    let store = disks.open(options().durability(Durability::None)).unwrap();
    let docs = create(&store, index);
    fill(&docs, 0..COUNT);
    (0..FREE).for_each(|number| assert!(docs.remove(key(number)).unwrap()));
    let counts = store.create_table("counts").unwrap();
    let (has_come, comes) = mpsc::channel();
    let (may_go, goes) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut batch = WriteBatch::new();
            batch.durability(Durability::Sync);
            for number in replaced.clone() {
                batch.insert_vector(&docs, key(number), &vector(number), payload(NEW + number));
            }
            // Asked when the vectors have come, and their rows have not.
            batch.update_with(&counts, "batches", move |_| {
                has_come.send(()).unwrap();
                // Where the test has failed nobody says so.
                let _ = goes.recv_timeout(Duration::from_secs(20));
                polder::Change::Keep
            });
            store.apply(batch).unwrap();
            disks.set_plan(&FaultPlan::new(1));
        });
        comes.recv().unwrap();
        // As long as no row changes nothing is asked again.
        let asked = AtomicUsize::new(0);
        let counting = |_: &[u8], _: &[u8]| asked.fetch_add(1, SeqCst) < usize::MAX;
        let wanted = Query::new(COUNT as usize).exact().filter(&counting);
        assert!(docs.search(&vector(12345), &wanted).unwrap().is_exhaustive);
        assert_eq!(asked.into_inner(), (COUNT - FREE) as usize);
        disks.set_plan(&FaultPlan::new(1).delay(1.0, Duration::from_secs(1)));
        let (asked, last) = (AtomicUsize::new(0), key(COUNT - 1));
        let asking = |_: &[u8], _: &[u8]| {
            if asked.fetch_add(1, SeqCst) == 400 {
                may_go.send(()).unwrap();
                while docs.payload(&last).unwrap().unwrap() != payload(NEW + COUNT - 1) {
                    thread::yield_now();
                }
            }
            true
        };
        let wanted = Query::new(COUNT as usize).exact().filter(&asking);
        let found = docs.search(&vector(12345), &wanted).unwrap();
        let found: BTreeSet<_> = found.hits.into_iter().map(|hit| hit.key).collect();
        assert_eq!(found, (FREE..COUNT).map(key).collect());
    });
}

fn what_cannot_be_is_refused_and_leaves_nothing(index: Index) {
    let store = disk().open(options()).unwrap();
    let none = store.collection(NAME).unwrap_err();
    assert!(matches!(none, StoreError::NoSuchTable { .. }), "{none}");
    let docs = create(&store, index);
    insert(&docs, 1, 1);
    let model = Docs::from([(key(1), 1)]);
    let long = vec![b'k'; store.max_key_bytes() + 1];
    for (error, text) in [
        (docs.insert("a", &[1.0_f32; 3], "").unwrap_err(), "the vector has 3 dimensions"),
        (docs.insert("a", &[f32::NAN; 4], "").unwrap_err(), "NaN"),
        (docs.insert("a", &[1_i8; 4], "").unwrap_err(), "i8"),
        (docs.insert(&long, &vector(2), "").unwrap_err(), "a key of 513 bytes is too long"),
        (docs.search(&[1.0_f32; 3], &Query::new(1)).unwrap_err(), "the vector has 3 dimensions"),
    ] {
        let told = full_text(&error);
        assert!(told.contains(text), "{told}");
        assert_is(&docs, &model);
    }
    // One of several, in a batch: the others are not there either.
    let table = store.create_table("table").unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&table, "a", "b").insert_vector(&docs, "2", &vector(2), "");
    batch.insert_vector(&docs, "3", &[0.0_f32], "").remove_vector(&docs, key(1));
    assert!(matches!(store.apply_mut(&mut batch), Err(BatchError::Store(_))));
    assert!(table.is_empty());
    assert_is(&docs, &model);
    // The batch is as it was.
    assert_eq!(batch.len(), 4);
    batch.clear();
    assert!(batch.is_empty());
    // An expectation of the caller's that does not hold.
    batch.expect(&table, "a", Some(7)).insert_vector(&docs, "2", &vector(2), "");
    let refused = store.apply_mut(&mut batch);
    assert!(matches!(refused, Err(BatchError::Unexpected { .. })), "{refused:?}");
    assert_is(&docs, &model);
    let other = disk().open(options()).unwrap();
    batch.clear();
    batch.insert_vector(&create(&other, index), "2", &vector(2), "");
    assert!(matches!(store.apply_mut(&mut batch), Err(BatchError::Foreign { .. })));
    let by_future = futures_lite::future::block_on(async {
        let mut batch = WriteBatch::new();
        batch.insert_vector(&docs, "2", &vector(2), "");
        store.asynchronous().apply(batch).await
    });
    assert!(matches!(by_future, Err(BatchError::ChangesCollections)), "{by_future:?}");
    assert_is(&docs, &model);
}

fn of_several_changes_of_a_key_the_last_one_is_made(index: Index) {
    let store = disk().open(options()).unwrap();
    let docs = create(&store, index);
    let mut batch = WriteBatch::new();
    batch.insert_vector(&docs, key(1), &vector(1), payload(1)).remove_vector(&docs, key(2));
    batch.insert_vector(&docs, key(2), &vector(2), payload(2)).remove_vector(&docs, key(1));
    batch.insert_vector(&docs, key(3), &vector(3), payload(3));
    batch.insert_vector(&docs, key(3), &vector(4), payload(4));
    store.apply_mut(&mut batch).unwrap();
    assert_is(&docs, &Docs::from([(key(2), 2), (key(3), 4)]));
    // Again: all of them are replaced by what they are.
    store.apply_mut(&mut batch).unwrap();
    assert_is(&docs, &Docs::from([(key(2), 2), (key(3), 4)]));
}

fn names_are_taken_and_free_again(index: Index) {
    let store = disk().open(options()).unwrap();
    let of = HnswOptions::new(SHAPE);
    let docs = create(&store, index);
    insert(&docs, 1, 1);
    let again = store.create_collection(NAME, of).unwrap_err();
    assert!(matches!(again, StoreError::TableExists { .. }), "{again}");
    assert_is(&docs, &Docs::from([(key(1), 1)]));
    // A table of the user's with the name of one of its own.
    store.create_table("mine.rows").unwrap().put("a", "b").unwrap();
    let taken = store.create_collection("mine", of).unwrap_err();
    assert!(matches!(&taken, StoreError::TableExists { name } if name == "mine.rows"), "{taken}");
    // What a creation that was cut off has left is no harm.
    store.create_table("cut.keys").unwrap();
    store.create_collection("cut", of).unwrap();
    // An index by itself, and a table, are no collections.
    store.create_structure_with::<VectorStructure>("index", &of.into()).unwrap();
    let bare = store.collection("index").unwrap_err();
    assert!(matches!(bare, StoreError::OtherStructure { .. }), "{bare}");
    let table = store.collection("mine.rows").unwrap_err();
    assert!(matches!(table, StoreError::OtherStructure { .. }), "{table}");
    assert_eq!(store.collections().unwrap(), ["cut", NAME]);
    // As long as names can be.
    for len in [0, 248, 255, 256] {
        let refused = store.create_collection(&"n".repeat(len), of).unwrap_err();
        assert!(matches!(refused, StoreError::TableName { len: of } if of == len), "{refused}");
    }
    let longest = "n".repeat(247);
    store.create_collection(&longest, of).unwrap();
    store.drop_collection(&longest).unwrap();
    // A drop that was cut off goes on.
    store.drop_table("cut.pending").unwrap();
    assert_eq!(store.collections().unwrap(), [NAME]);
    store.drop_collection("cut").unwrap();
    store.drop_collection(NAME).unwrap();
    assert_eq!(store.collections().unwrap(), [""; 0]);
    assert_eq!(store.tables().unwrap(), ["mine.rows"]);
    let dropped = docs.get(key(1)).unwrap_err();
    assert!(matches!(dropped, StoreError::Dropped { .. }), "{dropped}");
    let docs = create(&store, index);
    assert_is(&docs, &Docs::new());
    insert(&docs, 2, 2);
    assert_is(&docs, &Docs::from([(key(2), 2)]));
}

fn a_load_goes_on_where_it_was(index: Index) {
    let disks = disk();
    let store = disks.open(options()).unwrap();
    let docs = create(&store, index);
    insert(&docs, 7, 1007);
    let row = |number: u64| (key(number), VectorBuf::from(&vector(number)), payload(number));
    let mut told = 0;
    let stop = &mut |done| {
        told += 1;
        done < 50
    };
    let loaded = docs.load((0..400).map(row), 2, stop).unwrap();
    assert!(loaded.stopped && told > 50);
    assert_eq!(loaded.inserted + 1, docs.len());
    assert!((50..400).contains(&docs.len()));
    assert!(loaded.inserted < 200, "what had been read is not inserted any more");
    // Nothing of it is lost with the power.
    drop((docs, store));
    let store = disks.crash(3).open(options()).unwrap();
    let docs = store.collection(NAME).unwrap();
    assert_eq!(docs.len(), loaded.inserted + 1);
    let rest = docs.load((0..300).map(row), 3, &mut |_| true).unwrap();
    assert_eq!((rest.inserted, rest.passed_over), (299 - loaded.inserted, loaded.inserted + 1));
    let mut model: Docs = (0..300).map(|number| (key(number), number)).collect();
    model.insert(key(7), 1007);
    assert_is(&docs, &model);
    // A row that cannot be inserted is named, and ends it.
    let wrong = |number: u64| match number {
        20 => (key(1020), VectorBuf::from(&[1.0_f32]), payload(0)),
        _ => row(1000 + number),
    };
    let failed = docs.load((0..5000).map(wrong), 2, &mut |_| true).unwrap_err();
    assert!(matches!(failed, StoreError::Key { index: 20, .. }), "{failed}");
    // Of several that fail at once the first one is told.
    for _ in 0..100 {
        let rows = (0..8_u8).map(|i| ([200 + i], VectorBuf::F32(vec![0.0; 3]), ""));
        let failed = docs.load(rows, 4, &mut |_| true).unwrap_err();
        assert!(matches!(failed, StoreError::Key { index: 0, .. }), "{failed}");
    }
    assert!(docs.len() < 3000);
    assert_agrees(&docs);
}

/// In a store that is open to read nothing is settled, and what is pending is not found.
fn what_was_cut_off_is_not_found_by_who_may_not_settle_it(index: Index) {
    let disks = disk();
    let store = disks.open(options()).unwrap();
    let docs = create(&store, index);
    fill(&docs, 0..20);
    // As a crash leaves it behind the index, and before the batch.
    let index = store.structure::<VectorStructure>(NAME).unwrap();
    let coming = [&[1][..], &VectorBuf::from(&vector(500)).to_bytes()].concat();
    store.table("docs.pending").unwrap().put(100_u64.to_be_bytes(), coming).unwrap();
    index.write(|index| index.insert(100, (&vector(500)).into())).unwrap();
    store.close().unwrap();
    let found = |store: &Store| {
        let docs = store.collection(NAME).unwrap();
        let hits = docs.search(&vector(500), &Query::new(20).exact()).unwrap().hits;
        assert_eq!(hits.len(), 20);
        assert!(hits.iter().all(|hit| seed_of(&hit.payload) < 20));
        docs
    };
    let store = disks.open(to_read(options())).unwrap();
    found(&store);
    drop(store);
    let store = disks.open(options()).unwrap();
    let docs = found(&store);
    assert_eq!(docs.check(&mut |_| true).unwrap().pending, 1);
    docs.remove("no such key").unwrap();
    assert_is(&docs, &(0..20).map(|number| (key(number), number)).collect());
    // No label is given again.
    insert(&docs, 20, 20);
    assert_eq!(store.table("docs.rows").unwrap().last().unwrap().unwrap().0, 101_u64.to_be_bytes());
}

/// The places of pages of the index in a data file that have vectors.
fn index_pages(image: &[u8]) -> Vec<usize> {
    let has_vectors = |bytes: &[u8]| {
        let with = [PageKind::HNSW_NODES, PageKind::VAMANA_NODES, PageKind::IVF_ENTRIES];
        let is_one = PageHeader::decode(bytes).is_ok_and(|of| with.contains(&of.kind));
        let mut vectors = 0;
        if is_one {
            let mut page = PageBuf::new(PageSize::new(PAGE as u32).unwrap());
            page.bytes_mut().copy_from_slice(bytes);
            VectorStructure::entries(page.page(), &mut |_, _| vectors += 1);
        }
        vectors > 0
    };
    let pages = image.chunks(PAGE).enumerate().filter(|(_, bytes)| has_vectors(bytes));
    pages.map(|(place, _)| place).collect()
}

/// What is salvaged of a store whose data file is this, and what is said to be lost of the collection.
pub fn salvaged(image: &[u8], look: impl FnOnce(&Store, &[&str])) {
    let folder = tempfile::tempdir().unwrap();
    let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
    std::fs::create_dir(&from).unwrap();
    std::fs::write(from.join("data"), image).unwrap();
    let report = salvage(&from, tight(&to), &mut |_, _, _| true).unwrap();
    let store = Store::open(tight(&to)).unwrap();
    let about = report.losses.iter().filter(|loss| loss.table.as_deref() == Some(NAME));
    look(&store, &about.map(|loss| loss.what.as_str()).collect::<Vec<_>>());
    let docs = store.collection(NAME).unwrap();
    assert_agrees(&docs);
    insert(&docs, 1, 1);
    assert!(docs.remove(key(1)).unwrap());
    assert_agrees(&docs);
    assert_sound(&store);
}

/// Keys 100 to 299, of which the first thirty were replaced, and what they are.
fn closed(index: Index) -> (Vec<u8>, Docs) {
    let disks = disk();
    let store = disks.open(options()).unwrap();
    let docs = create(&store, index);
    fill(&docs, 0..300);
    (0..100).for_each(|number| assert!(docs.remove(key(number)).unwrap()));
    (100..130).for_each(|number| assert!(insert(&docs, number, 1000 + number)));
    drop(docs);
    store.close().unwrap();
    let seed = |number| if number < 130 { 1000 + number } else { number };
    (disks.data.image(), (100..300).map(|number| (key(number), seed(number))).collect())
}

fn what_is_salvaged_agrees(index: Index) {
    let (image, whole) = closed(index);
    let pages = index_pages(&image);
    for damaged in [vec![], vec![pages[0]], vec![pages[1], pages[2]]] {
        let mut image = image.clone();
        damaged.iter().for_each(|place| image[place * PAGE + 2000] ^= 8);
        salvaged(&image, |store, losses| {
            let docs = store.collection(NAME).unwrap();
            let lost: Docs = match store.table("docs.lost") {
                Ok(lost) => {
                    let seed = |(key, payload): (Vec<u8>, Vec<u8>)| (key, seed_of(&payload));
                    lost.iter().map(|entry| seed(entry.unwrap())).collect()
                }
                Err(_) => Docs::new(),
            };
            assert_eq!(lost.is_empty(), damaged.is_empty());
            let told = format!(
                "the vectors of {} keys, whose payloads are in the table `docs.lost`",
                lost.len()
            );
            assert_eq!(losses, if lost.is_empty() { vec![] } else { vec![told.as_str()] });
            let left = whole.iter().filter(|(key, _)| !lost.contains_key(*key));
            assert_is(&docs, &left.map(|(key, seed)| (key.clone(), *seed)).collect());
            let mut all = lost;
            all.extend(docs.keys(..).map(|key| (key.unwrap(), 0)));
            assert!(all.keys().eq(whole.keys()));
        });
    }
}

/// Of a lost leaf of any table as much is there again as can be: keys follow from rows, and of a lost row
/// key and vector are there.
fn keys_and_vectors_outlive_each_leaf_of_the_tables(index: Index) {
    let (image, whole) = closed(index);
    let is_leaf = |bytes: &[u8]| {
        PageHeader::decode(bytes).is_ok_and(|of| {
            of.kind == PageKind::TREE_LEAF && of.page_id.space() != SpaceId::CATALOGUE
        })
    };
    let leaves = image.chunks(PAGE).enumerate().filter(|(_, bytes)| is_leaf(bytes));
    let leaves: Vec<usize> = leaves.map(|(place, _)| place).collect();
    assert!(leaves.len() > 4, "{}", leaves.len());
    let mut lost_payloads = 0;
    for place in leaves {
        let mut image = image.clone();
        image[place * PAGE + 2000] ^= 8;
        salvaged(&image, |store, losses| {
            let docs = store.collection(NAME).unwrap();
            assert!(docs.keys(..).map(Result::unwrap).eq(whole.keys().cloned()));
            let mut lost = 0;
            for (key, seed) in &whole {
                let (of_key, of_payload) = docs.get(key).unwrap().unwrap();
                assert_eq!(of_key.elements::<f32>().unwrap(), vector(*seed));
                lost += usize::from(of_payload.is_empty());
                assert!(of_payload.is_empty() || of_payload == payload(*seed));
            }
            let told = format!("the payloads of {lost} keys");
            assert_eq!(losses.contains(&&*told), lost > 0, "{losses:?}");
            lost_payloads += lost;
        });
    }
    assert!(lost_payloads > 50, "{lost_payloads}");
}

/// Each thing that can part keys, rows and vectors is told, and repaired.
fn what_parted_is_told_and_repaired(index: Index) {
    let store = disk().open(options()).unwrap();
    let docs = create(&store, index);
    fill(&docs, 0..10);
    let table = |ending| store.table(&format!("docs.{ending}")).unwrap();
    let (keys, rows) = (table("keys"), table("rows"));
    let index = store.structure::<VectorStructure>(NAME).unwrap();
    // A vector without a row; one that is elsewhere; one that is lost; a row that no key has; a key
    // without a row.
    index.write(|index| index.insert(500, (&vector(500)).into())).unwrap();
    let place = |number| keys.get(key(number)).unwrap().unwrap();
    let swapped = [&place(1)[..8], &place(2)[8..]].concat();
    keys.put(key(1), swapped).unwrap();
    let label = |number| u64::from_le_bytes(place(number)[..8].try_into().unwrap());
    let nearest = Search::new(1, 100);
    let found = index.read(|index| index.search((&vector(3)).into(), &nearest)).unwrap().found;
    assert!(index.write(|index| index.remove(label(3), found[0].node)).unwrap());
    keys.delete(key(4)).unwrap();
    rows.delete(label(5).to_be_bytes()).unwrap();
    let report = docs.check(&mut |_| true).unwrap();
    // Keys 1, 3 and 5 lack something; row 4 its key; three vectors are not where a key looks for them.
    assert_eq!((report.keys, report.wrong as usize), (6, report.faults.len()));
    let has = |what: &str| report.faults.iter().filter(|fault| fault.contains(what)).count();
    assert_eq!(has("its vector is not there"), 2, "{:?}", report.faults);
    assert_eq!((has("key 5: it has no row"), has("its key key 4 is not there")), (1, 1));
    assert_eq!((has("has no row"), has("has it in")), (3, 1));
    assert_eq!(report.faults.len(), 7, "{:?}", report.faults);
    assert!(docs.check(&mut |_| false).unwrap().stopped);
    // A check of the store tells the same.
    let told = store.check(&mut |_, _| true).unwrap().faults;
    assert!(told.iter().all(|fault| fault.table.as_deref() == Some(NAME)));
    assert_eq!(
        told.iter().map(|fault| &fault.what).collect::<Vec<_>>(),
        Vec::from_iter(&report.faults)
    );
    let repaired = docs.repair(&mut |_| true).unwrap();
    // Keys 1 and 4 were told; vector 500 had no row; of key 5 the payload is lost, of 3 the vector.
    assert_eq!((repaired.keys, repaired.told, repaired.unowned), (9, 2, 1));
    assert_eq!((repaired.lost_payloads, repaired.lost_vectors), (1, 1));
    assert_agrees(&docs);
    let (of_key, of_payload) = docs.get(key(5)).unwrap().unwrap();
    assert_eq!((of_key.elements::<f32>().unwrap(), &of_payload[..]), (&vector(5)[..], &b""[..]));
    docs.remove(key(5)).unwrap();
    assert_is(&docs, &[0, 1, 2, 4, 6, 7, 8, 9].map(|number| (key(number), number)).into());
    let lost: Vec<_> = table("lost").iter().map(Result::unwrap).collect();
    assert_eq!(lost, [(key(3), payload(3))]);
    assert!(docs.repair(&mut |_| false).unwrap().stopped);
}

/// A salvage may find the row and the key of a vector that was replaced: what came later counts.
fn of_two_rows_of_a_key_the_later_one_counts(index: Index) {
    let store = disk().open(options()).unwrap();
    let docs = create(&store, index);
    fill(&docs, 0..10);
    let table = |ending| store.table(&format!("docs.{ending}")).unwrap();
    let (keys, rows) = (table("keys"), table("rows"));
    let old = keys.get(key(3)).unwrap().unwrap();
    let label = u64::from_le_bytes(old[..8].try_into().unwrap()).to_be_bytes();
    let row = rows.get(label).unwrap().unwrap();
    assert!(insert(&docs, 3, 33));
    rows.put(label, row).unwrap();
    keys.put(key(3), old).unwrap();
    let repaired = docs.repair(&mut |_| true).unwrap();
    assert_eq!((repaired.lost_payloads, repaired.lost_vectors), (0, 0));
    let mut model: Docs = (0..10).map(|number| (key(number), number)).collect();
    model.insert(key(3), 33);
    assert_is(&docs, &model);
}

/// Vectors that are coming stand nearer than all others, and none of these is hidden by them.
fn what_is_pending_hides_nothing(index: Index) {
    let disks = disk();
    let store = disks.open(options().durability(Durability::None)).unwrap();
    let docs = create(&store, index);
    fill(&docs, 0..100);
    let (index, pending) =
        (store.structure::<VectorStructure>(NAME).unwrap(), store.table("docs.pending").unwrap());
    let query = vector(5);
    for label in 1000..1060_u64 {
        let coming = [&[1][..], &VectorBuf::from(&query).to_bytes()].concat();
        pending.put(label.to_be_bytes(), coming).unwrap();
        index.write(|index| index.insert(label, (&query).into())).unwrap();
    }
    let few = docs.key_set(key(20)..key(30)).unwrap();
    assert_eq!(few.len(), 11);
    let by_key = |key: &[u8], _: &[u8]| few_has(key);
    let assert_found = |docs: &Collection, exact: bool| {
        let of = |query: Query<'static>| if exact { query.exact() } else { query };
        let found = docs.search(&query, &of(Query::new(10))).unwrap();
        assert_eq!((found.hits.len(), found.hits[0].distance), (10, 0.0));
        assert_eq!(seed_of(&found.hits[0].payload), 5);
        let keys = docs.key_set(key(20)..=key(29)).unwrap();
        let among = Query::new(10).among(&keys);
        let among = docs.search(&query, &among).unwrap().hits;
        let filtered = docs.search(&query, &Query::new(10).filter(&by_key)).unwrap().hits;
        assert_eq!(among, filtered);
        assert_eq!(among.len(), 10);
    };
    for exact in [false, true] {
        assert_found(&docs, exact);
    }
    drop((docs, index, pending));
    store.close().unwrap();
    let store = disks.open(to_read(options())).unwrap();
    let docs = store.collection(NAME).unwrap();
    for exact in [false, true] {
        assert_found(&docs, exact);
    }
    drop((docs, store));
    // More than are looked at to take one back, all of them the same, in no order.
    let store = disks.open(options()).unwrap();
    let (index, pending) =
        (store.structure::<VectorStructure>(NAME).unwrap(), store.table("docs.pending").unwrap());
    for label in (0..1500_u64).map(|i| 2000 + i * 37 % 1500) {
        let coming = [&[1][..], &VectorBuf::from(&query).to_bytes()].concat();
        pending.put(label.to_be_bytes(), coming).unwrap();
        if label % 100 > 0 {
            index.write(|index| index.insert(label, (&query).into())).unwrap();
        }
    }
    let docs = store.collection(NAME).unwrap();
    docs.remove("no such key").unwrap();
    assert_is(&docs, &(0..100).map(|number| (key(number), number)).collect());
}

fn few_has(of: &[u8]) -> bool {
    (20..30).any(|number| key(number) == of)
}

/// What has left costs no search that comes later a second try.
fn a_filter_is_asked_once_where_nothing_changes(index: Index) {
    let store = disk().open(options().durability(Durability::None)).unwrap();
    let docs = create(&store, index);
    fill(&docs, 0..200);
    let asked = AtomicUsize::new(0);
    let count = || {
        let matches = |_: &[u8], _: &[u8]| asked.fetch_add(1, SeqCst).is_multiple_of(2);
        docs.search(&vector(1), &Query::new(10).filter(&matches)).unwrap();
        asked.swap(0, SeqCst)
    };
    count();
    let before = count();
    (0..10).for_each(|number| assert!(docs.remove(key(number)).unwrap()));
    let behind = count();
    assert!(behind < before * 3 / 2, "{before} calls, and {behind} behind removals");
}

/// Nor does it where others insert meanwhile.
fn a_filter_is_asked_once_beside_others(index: Index) {
    let store = disk().open(options().durability(Durability::None)).unwrap();
    let docs = create(&store, index);
    fill(&docs, 0..200);
    let (insert, inserts) = mpsc::channel::<u64>();
    let (inserted, is_inserted) = mpsc::channel();
    let is_inserted = Mutex::new(is_inserted);
    thread::scope(|scope| {
        let docs = &docs;
        scope.spawn(move || {
            for number in inserts {
                docs.insert(key(number), &vector(number), "").unwrap();
                inserted.send(()).unwrap();
            }
        });
        let count = |number: u64| {
            let asked = AtomicUsize::new(0);
            let matches = |_: &[u8], _: &[u8]| {
                let before = asked.fetch_add(1, SeqCst);
                if before == 0 {
                    insert.send(number).unwrap();
                    is_inserted.lock().unwrap().recv().unwrap();
                }
                before.is_multiple_of(2)
            };
            docs.search(&vector(1), &Query::new(10).filter(&matches)).unwrap();
            asked.into_inner()
        };
        let before = count(1000);
        (0..10).for_each(|number| assert!(docs.remove(key(number)).unwrap()));
        let behind = count(1001);
        assert!(behind < before * 3 / 2, "{before} calls, and {behind} behind removals");
        drop(insert);
    });
}

fn threads_bring_and_take_one_key(index: Index) {
    let store = disk().open(options().durability(Durability::None)).unwrap();
    let docs = create(&store, index);
    let (came, went) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for thread in 0..4 {
            let (docs, came, went) = (&docs, &came, &went);
            scope.spawn(move || {
                for round in 0..40 * scale() {
                    let seed = 100 * round + thread;
                    let new = match thread {
                        0 => docs.insert_new(key(1), &vector(seed), payload(seed)).unwrap(),
                        _ => !insert(docs, 1, seed),
                    };
                    came.fetch_add(usize::from(new), SeqCst);
                    docs.set_payload(key(1), payload(seed)).unwrap();
                    went.fetch_add(usize::from(docs.remove(key(1)).unwrap()), SeqCst);
                }
            });
        }
    });
    assert!(docs.is_empty());
    assert_eq!(came.into_inner(), went.into_inner());
    assert_agrees(&docs);
}

/// What a check has opened may have gone when writers begin to wait for it, and be another one by then.
fn a_check_passes_over_what_was_dropped_meanwhile(index: Index) {
    let store = disk().open(options().durability(Durability::None)).unwrap();
    let over = AtomicUsize::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..20 * scale() {
                fill(&create(&store, index), 0..3);
                store.drop_collection(NAME).unwrap();
            }
            over.store(1, SeqCst);
        });
        while over.load(SeqCst) == 0 {
            assert_sound(&store);
        }
    });
}

fn payloads_change_by_themselves(index: Index) {
    let store = disk().open(options()).unwrap();
    let docs = create(&store, index);
    fill(&docs, 0..3);
    assert!(docs.set_payload(key(1), payload(50)).unwrap());
    assert!(!docs.set_payload(key(7), payload(50)).unwrap());
    assert_eq!(docs.payload(key(1)).unwrap().unwrap(), payload(50));
    let (of_key, _) = docs.get(key(1)).unwrap().unwrap();
    assert_eq!(of_key.elements::<f32>().unwrap(), vector(1));
    assert!(!docs.insert_new(key(2), &vector(9), payload(9)).unwrap());
    let all: Vec<_> = docs.range(..).map(Result::unwrap).collect();
    assert_eq!(all, [(key(0), payload(0)), (key(1), payload(50)), (key(2), payload(2))]);
    assert_agrees(&docs);
}

fn what_is_asked_within_an_update_is_refused_and_harms_nothing(index: Index) {
    let store = disk().open(options()).unwrap();
    let docs = create(&store, index);
    fill(&docs, 0..5);
    let table = store.create_table("table").unwrap();
    table
        .update_with("key", |_| {
            let of = HnswOptions::new(SHAPE);
            let row = |number: u64| (key(number), VectorBuf::from(&vector(number)), "");
            for refused in [
                store.drop_collection(NAME).unwrap_err(),
                store.create_collection("other", of).map(drop).unwrap_err(),
                docs.insert(key(9), &vector(9), "").map(drop).unwrap_err(),
                docs.load((0..3).map(row), 2, &mut |_| true).map(drop).unwrap_err(),
            ] {
                assert!(matches!(refused, StoreError::Nested), "{refused}");
            }
            // To read is no harm.
            let again = store.collection(NAME).unwrap();
            assert_eq!(again.search(&vector(1), &Query::new(9)).unwrap().hits.len(), 5);
            polder::Change::Keep
        })
        .unwrap();
    assert_is(&docs, &(0..5).map(|number| (key(number), number)).collect());
    assert_eq!(store.collections().unwrap(), [NAME]);
}

#[test]
fn what_cannot_be_made_leaves_no_table() {
    let store = disk().open(options()).unwrap();
    store.create_table("table").unwrap();
    let of = HnswOptions::new(SHAPE);
    let large = HnswOptions::new(VectorShape { dimensions: 1536, ..SHAPE });
    let text = full_text(&store.create_collection(NAME, large).unwrap_err());
    assert!(text.contains("a page has room for 4032"), "{text}");
    let long = "c".repeat(249);
    assert!(store.create_collection(&long, of).is_err());
    assert!(store.create_collection("table", of).is_err());
    assert_eq!(store.tables().unwrap(), ["table"]);
    assert_eq!(store.structures().unwrap(), []);
    let docs = store.open_collection(NAME, of).unwrap();
    fill(&docs, 0..3);
    assert_eq!(store.open_collection(NAME, large).unwrap().len(), 3);
    // A drop of a bare index is none of a collection.
    store.create_structure_with::<VectorStructure>("index", &of.into()).unwrap();
    let bare = store.drop_collection("index").unwrap_err();
    assert!(matches!(bare, StoreError::OtherStructure { .. }), "{bare}");
    store.drop_table("docs.keys").unwrap();
    let half = store.collection(NAME).unwrap_err();
    assert!(matches!(half, StoreError::NotWhole { .. }), "{half}");
    store.drop_collection(NAME).unwrap();
    assert_eq!(store.tables().unwrap(), ["table"]);
}

/// A key that comes twice is inserted once, and a thread that panics ends the load.
fn a_load_takes_each_key_once(index: Index) {
    struct Panics(u64);
    impl AsRef<[u8]> for Panics {
        fn as_ref(&self) -> &[u8] {
            assert!(self.0 < 10, "as it was meant to");
            b"key"
        }
    }
    let store = disk().open(options().durability(Durability::None)).unwrap();
    let docs = create(&store, index);
    let row = |number: u64| (key(number / 2), VectorBuf::from(&vector(number)), payload(number));
    let loaded = docs.load((0..200).map(row), 3, &mut |_| true).unwrap();
    assert_eq!((loaded.inserted, loaded.passed_over), (100, 100));
    assert_eq!(docs.len(), 100);
    assert_agrees(&docs);
    let row = |number: u64| (Panics(number), VectorBuf::from(&vector(number)), "");
    let load = || docs.load((0..10_000).map(row), 2, &mut |_| true);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(load)).is_err());
    assert_agrees(&docs);
}

/// What has been read ahead is left where a load is stopped.
fn a_load_that_is_stopped_inserts_no_more(index: Index) {
    struct Slow(Vec<u8>);
    impl AsRef<[u8]> for Slow {
        fn as_ref(&self) -> &[u8] {
            thread::sleep(Duration::from_millis(5));
            &self.0
        }
    }
    let store = disk().open(options().durability(Durability::None)).unwrap();
    let docs = create(&store, index);
    let row = |number: u64| (Slow(key(number)), VectorBuf::from(&vector(number)), payload(number));
    let loaded = docs.load((0..1000).map(row), 1, &mut |done| done < 5).unwrap();
    assert!(loaded.stopped && (5..40).contains(&loaded.inserted), "{loaded:?}");
    assert_eq!(docs.len(), loaded.inserted);
}

/// Of threads that insert the same new key one is told that it has, and the key has what that one gave.
fn a_new_key_is_one_threads(index: Index) {
    let store = disk().open(options().durability(Durability::None)).unwrap();
    let docs = create(&store, index);
    let barrier = Barrier::new(4);
    for number in 0..200 {
        let of = |thread: u64| 4 * number + thread;
        let insert = |thread: u64| {
            barrier.wait();
            let seed = of(thread);
            docs.insert_new(key(number), &vector(seed), payload(seed)).unwrap().then_some(seed)
        };
        let told: Vec<u64> = thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|thread| {
                    scope.spawn({
                        let insert = &insert;
                        move || insert(thread)
                    })
                })
                .collect();
            threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(docs.payload(key(number)).unwrap().unwrap(), payload(told[0]));
    }
    assert_agrees(&docs);
}

/// Whatever fails, what is told to be done is, and nothing else; what is left is settled later.
fn nothing_parts_where_the_device_fails(index: Index) {
    let (mut failed, mut done) = (0, 0);
    for seed in 0..6 * scale() {
        let disks = disk();
        let store = disks.open(options()).unwrap();
        fill(&create(&store, index), 0..300);
        store.create_table("steps").unwrap();
        store.close().unwrap();
        // Little is in memory.
        let store = disks.open(quick("simulated")).unwrap();
        let (docs, table) = (store.collection(NAME).unwrap(), store.table("steps").unwrap());
        let mut random = Random::new(seed);
        let mut model: Docs = (0..300).map(|number| (key(number), number)).collect();
        let plan = FaultPlan::new(seed).fail(Operation::Read, When::Share(0.2), Errno::IO);
        disks.data.set_plan(plan.fail(Operation::Write, When::Share(0.05), Errno::IO));
        for number in 0..100 {
            let step = Step::random(&mut random, 300);
            let mut batch = WriteBatch::new();
            batch.put(&table, "last", [number]);
            for (number, seed) in &step.0 {
                match seed {
                    Some(seed) => {
                        batch.insert_vector(&docs, key(*number), &vector(*seed), payload(*seed))
                    }
                    None => batch.remove_vector(&docs, key(*number)),
                };
            }
            match store.apply(batch) {
                Ok(()) => {
                    step.model(&mut model);
                    done += 1;
                }
                Err(_) => failed += 1,
            }
        }
        disks.data.set_plan(FaultPlan::new(seed));
        assert_eq!(docs.check(&mut |_| true).unwrap().faults, [""; 0]);
        store.flush().unwrap();
        let store = disks.crash(seed).open(options()).unwrap();
        let docs = store.collection(NAME).unwrap();
        docs.remove("no such key").unwrap();
        assert_is(&docs, &model);
        assert_sound(&store);
    }
    assert!(failed > 10 && done > 100, "{failed} failed, {done} done");
}

/// As a salvage may find it, of a page that was written since.
fn a_record_that_is_older_than_its_row_takes_nothing_away(index: Index) {
    let disks = disk();
    let store = disks.open(options()).unwrap();
    let docs = create(&store, index);
    fill(&docs, 0..20);
    let coming = [&[1][..], &VectorBuf::from(&vector(5)).to_bytes()].concat();
    let pending = store.table("docs.pending").unwrap();
    pending.put(5_u64.to_be_bytes(), coming).unwrap();
    let fault = &docs.check(&mut |_| true).unwrap().faults[0];
    assert_eq!(fault, "row 5: its vector is pending as well");
    drop((docs, pending));
    store.close().unwrap();
    let store = disks.open(options()).unwrap();
    let docs = store.collection(NAME).unwrap();
    docs.remove("no such key").unwrap();
    assert_is(&docs, &(0..20).map(|number| (key(number), number)).collect());
}

/// The vectors of a batch are in the index when its updates are asked, and in the log before its rows.
fn a_crash_in_front_of_the_batch_leaves_a_record_of_each_vector(index: Index) {
    let disks = disk();
    let store = disks.open(options()).unwrap();
    let docs = create(&store, index);
    fill(&docs, 0..20);
    let table = store.create_table("table").unwrap();
    let mut moment = None;
    let mut batch = WriteBatch::new();
    batch.insert_vector(&docs, key(30), &vector(30), payload(30));
    batch.insert_vector(&docs, key(5), &vector(31), payload(31));
    batch.update_with(&table, "key", |_| {
        // All that was logged so far is durable.
        thread::scope(|scope| scope.spawn(|| store.flush().unwrap()).join().unwrap());
        moment = Some(disks.crash(1));
        polder::Change::Keep
    });
    store.apply_mut(&mut batch).unwrap();
    drop(batch);
    assert_eq!(seed_of(&docs.payload(key(5)).unwrap().unwrap()), 31);
    let store = moment.unwrap().open(options()).unwrap();
    let docs = store.collection(NAME).unwrap();
    let report = docs.check(&mut |_| true).unwrap();
    assert_eq!((report.pending, &report.faults[..]), (2, &[][..]));
    docs.remove("no such key").unwrap();
    assert_is(&docs, &(0..20).map(|number| (key(number), number)).collect());
}

/// Wherever its making is cut off, what is left is taken over by the next one.
fn one_is_made_whole_or_can_be_made_again(index: Index) {
    let mut cut_off = 0;
    loop {
        let disks = disk();
        let store = disks.open(options()).unwrap();
        let plan = FaultPlan::new(cut_off);
        disks.log.set_plan(plan.fail(Operation::Write, When::Nth(cut_off), Errno::IO));
        let made = try_create(&store, index).is_ok();
        let seed = cut_off;
        let after = if seed.is_multiple_of(2) { disks.kill(seed) } else { disks.crash(seed) };
        after.set_plan(&FaultPlan::new(seed));
        let store = after.open(options()).unwrap();
        assert_sound(&store);
        let docs = match store.collection(NAME) {
            Err(StoreError::NoSuchTable { .. }) if !made => create(&store, index),
            docs => docs.unwrap(),
        };
        fill(&docs, 0..3);
        assert_is(&docs, &(0..3).map(|number| (key(number), number)).collect());
        assert_sound(&store);
        if made {
            break;
        }
        cut_off += 1;
    }
    assert!(cut_off > 3, "only {cut_off} writes were cut off");
}
