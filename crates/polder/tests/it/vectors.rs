//! Vector indexes in a store: structures with options, which a salvage finds again.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread;
use std::time::Duration;

use polder::structure::{PageKind, PageSize, Structure};
use polder::{
    CheckFault, Durability, Hosted, Options, SalvagePhase, SalvageReport, Store, StoreError,
    TranslationKind, salvage,
};
use polder_format::PageHeader;
use polder_pool::bytes::PageBuf;
use polder_testkit::Random;
use polder_vector::{
    Bulk, Change, ElementKind, HnswOptions, IndexOptions, IvfOptions, Loading, Metric, NewIndex,
    NodeId, Search, VamanaOptions, VectorBuf, VectorError, VectorShape, VectorStructure,
};

use crate::stack::Stacks;
use crate::support::*;

type Index = Hosted<VectorStructure>;

const NAME: &str = "vectors";
const PAGE: usize = 4096;

fn options() -> Options {
    tight("simulated").structure::<VectorStructure>()
}

const SHAPE: VectorShape =
    VectorShape { element: ElementKind::F32, dimensions: 4, metric: Metric::L2 };

/// Few links and narrow inserts, so that lists are full soon; none of the values is the default.
const GRAPH: IndexOptions =
    IndexOptions::Hnsw(HnswOptions { links: 4, insert_width: 30, shape: SHAPE });
const STEERED: IndexOptions =
    IndexOptions::Vamana(VamanaOptions { links: 8, insert_width: 30, code_bits: 2, shape: SHAPE });
const LISTS: IndexOptions = IndexOptions::Ivf(IvfOptions { shape: SHAPE, lists: 6 });

fn new(of: IndexOptions) -> NewIndex {
    match of {
        IndexOptions::Hnsw(options) => options.into(),
        IndexOptions::Vamana(options) => {
            NewIndex::around(options, &[[(1 << 19) as f32; 4]]).unwrap()
        }
        IndexOptions::Ivf(options) => {
            let sample: Vec<_> = (0..1000).map(|seed| vector(1 << 20 | seed)).collect();
            NewIndex::trained(options, &sample, &mut |_| true).unwrap()
        }
        other => panic!("a store has no {other:?}"),
    }
}

/// Tests of each index.
macro_rules! tests {
    ($($name:ident),* $(,)?) => {
        mod of_a_graph {
            $(#[test] fn $name() { super::$name(super::GRAPH); })*
        }

        mod of_a_steered_graph {
            $(#[test] fn $name() { super::$name(super::STEERED); })*
        }

        mod of_lists {
            $(#[test] fn $name() { super::$name(super::LISTS); })*
        }
    };
}

tests!(
    one_is_there_again_on_every_translation,
    what_was_acknowledged_outlives_every_moment_of_changes,
    a_load_goes_on_after_every_moment,
    damage_is_named_and_hides_no_other,
    a_salvage_needs_no_first_page_and_loses_what_was_in_lost_pages,
    an_index_of_which_no_page_is_left_is_told_as_lost,
    two_vectors_with_one_label_are_both_salvaged,
    one_is_made_whole_or_not_at_all,
    one_outlives_each_of_its_pages,
    a_salvage_stops_where_it_is_told_to,
);

/// The vector that has this label, and no other one.
fn vector(label: u64) -> [f32; 4] {
    let mut random = Random::new(label);
    std::array::from_fn(|_| random.below(1 << 20) as f32)
}

fn insert(index: &Index, label: u64) -> NodeId {
    index.write(|index| index.insert(label, (&vector(label)).into())).unwrap()
}

/// Where the vector of a label lies, if a search finds it, which must give it back then.
fn find(index: &Index, label: u64) -> Option<NodeId> {
    let (vector, search) = (vector(label), Search::new(1, 1000));
    let answer = index.read(|index| index.search((&vector).into(), &search)).unwrap();
    let nearest = answer.found.first().filter(|found| found.distance == 0.0)?;
    assert_eq!(nearest.label, label);
    let found = index.read(|index| index.get(label, nearest.node)).unwrap();
    assert_eq!(found.unwrap().elements::<f32>().unwrap(), vector);
    Some(nearest.node)
}

fn assert_has(index: &Index, labels: impl IntoIterator<Item = u64>) {
    labels.into_iter().for_each(|label| assert!(find(index, label).is_some(), "{label} is gone"));
}

fn assert_lacks(index: &Index, labels: impl IntoIterator<Item = u64>) {
    labels.into_iter().for_each(|label| assert!(find(index, label).is_none(), "{label} is there"));
}

/// An index of the labels 0 to 299, of which the first 50 were removed.
fn fill(store: &Store, of: IndexOptions) -> Index {
    let index = store.create_structure_with::<VectorStructure>(NAME, &new(of)).unwrap();
    let index = index.with_durability(Durability::None);
    let nodes: Vec<NodeId> = (0..300).map(|label| insert(&index, label)).collect();
    for (label, node) in (0..50).zip(nodes) {
        assert!(index.write(|index| index.remove(label, node)).unwrap());
    }
    store.flush().unwrap();
    index
}

fn assert_filled(store: &Store, of: IndexOptions) {
    let index = store.structure::<VectorStructure>(NAME).unwrap();
    assert_eq!(index.read(|index| Ok::<_, VectorError>(index.options())).unwrap(), of);
    assert_has(&index, 50..300);
    assert_lacks(&index, 0..50);
    assert_sound(store);
}

fn one_is_there_again_on_every_translation(of: IndexOptions) {
    for (seed, kind) in (0..).zip(TranslationKind::ALL) {
        let options = options().memory_budget(Options::least_memory_budget(4096) * 3);
        let disks = disk();
        let store = disks.open(options.clone().translation(*kind)).unwrap();
        fill(&store, of);
        assert_filled(&store, of);
        let again = TranslationKind::ALL[(seed as usize + 3) % TranslationKind::ALL.len()];
        let open = |disks: &Disks| disks.open(options.clone().translation(again)).unwrap();
        // After a crash, and after it was closed.
        let crashed = open(&disks.crash(seed));
        assert!(crashed.recovery().groups > 0);
        assert_filled(&crashed, of);
        store.close().unwrap();
        let closed = open(&disks);
        assert_filled(&closed, of);
        let index = closed.structure(NAME).unwrap();
        insert(&index, 1000);
        assert_has(&index, [60, 1000]);
    }
}

#[test]
fn options_that_cannot_be_are_told_and_leave_no_name() {
    let store = disk().open(options()).unwrap();
    let IndexOptions::Hnsw(right) = GRAPH else { panic!("it is a graph") };
    let shape = right.shape;
    for (wrong, why) in [
        (HnswOptions { links: 1, ..right }, "the number of links is 1, and must be 2 to 100"),
        (
            HnswOptions { insert_width: 0, ..right },
            "the width of inserts is 0, and must be 1 to 65536",
        ),
        (
            HnswOptions { shape: VectorShape { metric: Metric::Hamming, ..shape }, ..right },
            "vectors of f32 cannot be compared by hamming: bits are, and only they, by hamming",
        ),
        (
            HnswOptions { shape: VectorShape { dimensions: 1000, ..shape }, ..right },
            "a vector with the links of the lowest level has 4054 bytes, and a page has room for 4032",
        ),
    ] {
        let error =
            store.create_structure_with::<VectorStructure>(NAME, &wrong.into()).unwrap_err();
        assert!(matches!(error, StoreError::Structure { .. }));
        let text = full_text(&error);
        let begin = format!("an operation of the structure `{NAME}` failed: {why}");
        assert!(text.starts_with(&begin), "{text}");
        let none = store.structure::<VectorStructure>(NAME).unwrap_err();
        assert!(matches!(none, StoreError::NoSuchTable { .. }), "{none}");
        assert_eq!(store.structures().unwrap(), []);
    }
    fill(&store, GRAPH);
    let again = store.create_structure_with::<VectorStructure>(NAME, &right.into()).unwrap_err();
    assert!(matches!(again, StoreError::TableExists { .. }), "{again}");
    assert_filled(&store, GRAPH);
}

/// What a thread does to the index: inserts the vector of this label, or removes it.
#[derive(Debug, Clone, Copy)]
enum Step {
    Insert(u64),
    Remove(u64, NodeId),
}

/// The machine as it was at some moment.
struct Moment {
    disks: Disks,
    /// So many steps were acknowledged, which is that they are durable.
    acknowledged: usize,
    /// These had begun.
    begun: Vec<Step>,
}

const STEPS: u64 = 250;

/// Inserts and removes. `begin` is told each step before it is done, and may wait; `end`, that it is done.
fn change(index: &Index, seed: u64, mut begin: impl FnMut(Step), mut end: impl FnMut()) {
    let (mut random, mut there) = (Random::new(seed), Vec::new());
    for label in 0..STEPS {
        if random.below(5) < 3 || there.is_empty() {
            begin(Step::Insert(label));
            there.push((label, insert(index, label)));
        } else {
            let (label, node) = there.swap_remove(random.index(there.len()));
            begin(Step::Remove(label, node));
            assert!(index.write(|index| index.remove(label, node)).unwrap());
        }
        end();
    }
}

/// One thread changes the index, while another one makes durable what there is of each change by then.
fn moments(of: IndexOptions, seed: u64) -> Vec<Moment> {
    let disks = disk();
    let store = disks.open(options()).unwrap();
    let index = store.create_structure_with::<VectorStructure>(NAME, &new(of)).unwrap();
    let table = store.create_table("table").unwrap();
    let (begun, acknowledged, allowed) =
        (Mutex::new(Vec::new()), AtomicUsize::new(0), AtomicUsize::new(0));
    let is_over = AtomicBool::new(false);
    let mut moments = Vec::new();
    thread::scope(|scope| {
        let changer = scope.spawn(|| {
            let begin = |step| {
                while acknowledged.load(SeqCst) >= allowed.load(SeqCst) {
                    thread::yield_now();
                }
                begun.lock().unwrap().push(step);
            };
            let end = || {
                acknowledged.fetch_add(1, SeqCst);
            };
            change(&index, seed, begin, end);
        });
        scope.spawn(|| {
            while !is_over.load(SeqCst) {
                table.put(b"key", acknowledged.load(SeqCst).to_be_bytes()).unwrap();
            }
        });
        let writes = || disks.data.counts().writes + disks.log.counts().writes;
        let mut random = Random::new(!seed);
        while !changer.is_finished() {
            // It comes within the last of these steps, or before.
            allowed.fetch_add(1 + random.index(10), SeqCst);
            let next = writes() + 1 + random.below(60);
            let is_last = || acknowledged.load(SeqCst) + 1 >= allowed.load(SeqCst);
            while writes() < next && !is_last() && !changer.is_finished() {
                thread::yield_now();
            }
            let acknowledged = acknowledged.load(SeqCst);
            let seed = random.next_u64();
            let disks = if random.chance(0.5) { disks.kill(seed) } else { disks.crash(seed) };
            let begun = begun.lock().unwrap().clone();
            moments.push(Moment { disks, acknowledged, begun });
        }
        is_over.store(true, SeqCst);
    });
    moments
}

fn what_was_acknowledged_outlives_every_moment_of_changes(of: IndexOptions) {
    let mut cut_short = 0;
    for moment in (0..2 * scale()).flat_map(|seed| moments(of, seed)) {
        let Moment { disks, acknowledged, begun } = moment;
        let store = disks.open(options()).unwrap();
        assert_sound(&store);
        let index = store.structure(NAME).unwrap();
        let (mut has, mut lacks) = (BTreeSet::new(), BTreeSet::new());
        for (number, step) in begun.iter().enumerate() {
            match *step {
                Step::Insert(label) if number < acknowledged => drop(has.insert(label)),
                Step::Insert(_) => {}
                Step::Remove(label, _) => {
                    has.remove(&label);
                    if number < acknowledged {
                        lacks.insert(label);
                    }
                }
            }
        }
        assert_has(&index, has.iter().copied());
        assert_lacks(&index, lacks);
        // What was under way was done, or it was not, and then it can be.
        for step in &begun[acknowledged..] {
            match *step {
                Step::Insert(label) => drop(find(&index, label)),
                Step::Remove(label, node) => {
                    let removed = index.write(|index| index.remove(label, node)).unwrap();
                    cut_short += usize::from(removed);
                    assert_lacks(&index, [label]);
                }
            }
        }
        insert(&index, 1000);
        assert_has(&index, has.into_iter().chain([1000]));
        assert_sound(&store);
    }
    assert!(cut_short > 0, "all removals had ended");
}

/// A kill or a crash at any moment of its making leaves all of it or nothing, and it can be made then.
fn one_is_made_whole_or_not_at_all(of: IndexOptions) {
    // That of lists takes some time.
    let of = match of {
        IndexOptions::Ivf(options) => IndexOptions::Ivf(IvfOptions { lists: 1000, ..options }),
        of => of,
    };
    let (mut made, mut begun) = (0, 0);
    for seed in 0..2 * scale() {
        let disks = disk();
        let store = disks.open(options()).unwrap();
        store.create_table("table").unwrap().put(b"key", b"value").unwrap();
        let before = disks.crash(seed).open(options()).unwrap().recovery().groups;
        let mut random = Random::new(seed);
        let (new, is_made, mut moments) = (new(of), AtomicBool::new(false), Vec::new());
        thread::scope(|scope| {
            scope.spawn(|| {
                store.create_structure_with::<VectorStructure>(NAME, &new).map(drop).unwrap();
                is_made.store(true, SeqCst);
            });
            // What there is of it is durable at each moment.
            scope.spawn(|| {
                while !is_made.load(SeqCst) {
                    store.flush().unwrap();
                }
            });
            while !is_made.load(SeqCst) {
                let seed = random.next_u64();
                moments.push(if random.chance(0.5) { disks.kill(seed) } else { disks.crash(seed) });
                thread::sleep(Duration::from_micros(random.below(4000)));
            }
        });
        moments.push(disks.crash(seed));
        for disks in moments {
            let store = disks.open(options()).unwrap();
            assert_sound(&store);
            let index = match store.structure::<VectorStructure>(NAME) {
                Err(StoreError::NoSuchTable { .. }) => {
                    assert_eq!(store.structures().unwrap(), []);
                    begun += usize::from(store.recovery().groups > before + 4);
                    store.create_structure_with(NAME, &new).unwrap()
                }
                index => {
                    made += 1;
                    index.unwrap()
                }
            };
            let told = index.read(|index| Ok::<_, VectorError>(index.options())).unwrap();
            assert_eq!(told, of);
            insert(&index, 7);
            assert_has(&index, [7]);
            assert_sound(&store);
        }
    }
    assert!(made > 0, "none was made");
    assert!(begun > 0 || !matches!(of, IndexOptions::Ivf(_)), "none was cut off");
}

/// Whichever page is lost, all vectors but those in it are there again.
fn one_outlives_each_of_its_pages(of: IndexOptions) {
    let image = closed(of).data.image();
    let whole: BTreeSet<u64> = (50..300).collect();
    for (place, _, labels) in pages_of_index(&image) {
        salvaged(image.clone(), [place], |store, report, _| {
            assert_eq!(losses(&report), [""; 0]);
            let index: Index = store.structure(NAME).unwrap();
            assert_has(&index, whole.difference(&labels).copied());
            assert_lacks(&index, labels);
            let told = index.read(|index| Ok::<_, VectorError>(index.options())).unwrap();
            assert_eq!(told, of, "each list has vectors");
        });
    }
}

/// Loads the vectors of these labels.
fn load(index: &Index, labels: impl Iterator<Item = u64>, progress: &mut dyn FnMut() -> bool) {
    let vectors: Vec<_> = labels.map(|label| (label, VectorBuf::from(&vector(label)))).collect();
    let loaded = index.write(|index| {
        let (threads, memory_bytes) = (2, 0);
        let (change, progress): (Change<'_>, _) =
            (&|make| make(), &mut |_: Loading<'_>| progress());
        let mut bulk = Bulk { threads, memory_bytes, change, progress };
        for run in vectors.chunks(100) {
            index.place_run(run.to_vec(), &mut bulk)?;
        }
        index.relink(&mut bulk)
    });
    loaded.unwrap();
}

/// Whatever a crash leaves of a load is sound, and what it lacks can be loaded.
fn a_load_goes_on_after_every_moment(of: IndexOptions) {
    let disks = disk();
    let store = disks.open(options()).unwrap();
    let index = store.create_structure_with::<VectorStructure>(NAME, &new(of)).unwrap();
    let (mut random, mut moments, mut told) = (Random::new(1), Vec::new(), 0);
    load(&index, 0..500, &mut || {
        told += 1;
        if random.below(told / 20 + 20) == 0 {
            // What it has logged so far is durable, or what chance has made so.
            if random.chance(0.5) {
                store.flush().unwrap();
            }
            let seed = random.next_u64();
            moments.push(if random.chance(0.5) { disks.kill(seed) } else { disks.crash(seed) });
        }
        true
    });
    moments.push(disks.crash(2));
    let mut parts = 0;
    for disks in moments {
        let store = disks.open(options()).unwrap();
        assert_sound(&store);
        let Ok(index) = store.structure::<VectorStructure>(NAME) else { continue };
        let mut there = BTreeSet::new();
        let see = &mut |label, _| there.insert(label);
        index.read(|index| index.for_each(see)).unwrap();
        parts += usize::from(!there.is_empty() && there.len() < 500);
        load(&index, (0..500).filter(|label| !there.contains(label)), &mut || true);
        assert_has(&index, 0..500);
        assert_sound(&store);
    }
    assert!(parts > 0, "no load was cut off");
}

/// What each page of the index has that lies in a data file: its place, its kind, and its labels.
fn pages_of_index(image: &[u8]) -> Vec<(usize, PageKind, BTreeSet<u64>)> {
    let mut pages = Vec::new();
    for (place, bytes) in image.chunks(PAGE).enumerate() {
        let kind = PageHeader::decode(bytes).unwrap().kind;
        if VectorStructure::KINDS.iter().any(|of| of.kind == kind) {
            let mut labels = BTreeSet::new();
            VectorStructure::entries(page(bytes).page(), &mut |label, _| {
                labels.insert(u64::from_be_bytes(label.try_into().unwrap()));
            });
            pages.push((place, kind, labels));
        }
    }
    pages
}

fn first_page(pages: &[(usize, PageKind, BTreeSet<u64>)]) -> usize {
    let is_first =
        |kind| matches!(kind, PageKind::HNSW_META | PageKind::VAMANA_META | PageKind::IVF_META);
    pages.iter().position(|(_, kind, _)| is_first(*kind)).unwrap()
}

fn page(bytes: &[u8]) -> PageBuf {
    let mut page = PageBuf::new(PageSize::new(PAGE as u32).unwrap());
    page.bytes_mut().copy_from_slice(&bytes[..PAGE]);
    page
}

/// A store with an index, a stack and a table, closed.
fn closed(of: IndexOptions) -> Disks {
    let disks = disk();
    let store = disks.open(options().structure::<Stacks>()).unwrap();
    fill(&store, of);
    let stack = store.create_structure::<Stacks>("stack").unwrap();
    stack.write(|stack| stack.push(7)).unwrap();
    store.create_table("table").unwrap().put(b"key", b"value").unwrap();
    store.close().unwrap();
    disks
}

fn named(path: &Path) -> Options {
    tight(path).structure::<VectorStructure>().structure::<Stacks>()
}

/// What a salvage makes of a data file in which these pages are damaged, and what it says.
fn salvaged(
    mut image: Vec<u8>,
    damaged: impl IntoIterator<Item = usize>,
    look: impl FnOnce(&Store, SalvageReport, &[u8]),
) {
    damaged.into_iter().for_each(|place| image[place * PAGE + 2000] ^= 8);
    let folder = tempfile::tempdir().unwrap();
    let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
    std::fs::create_dir(&from).unwrap();
    std::fs::write(from.join("data"), image).unwrap();
    let report = salvage(&from, named(&to), &mut |_, _, _| true).unwrap();
    let new = std::fs::read(to.join("data")).unwrap();
    let store = Store::open(named(&to)).unwrap();
    let stack = store.structure::<Stacks>("stack").unwrap();
    assert_eq!(stack.write(|stack| stack.pop()).unwrap(), Some(7));
    assert_eq!(store.table("table").unwrap().get(b"key").unwrap().unwrap(), b"value");
    look(&store, report, &new);
    assert_sound(&store);
}

/// The options of the index in a data file, as all of its pages tell them. Of a graph any of them does by
/// itself, if it tells any.
fn told_options(image: &[u8]) -> IndexOptions {
    let mut pages: Vec<PageBuf> =
        pages_of_index(image).iter().map(|(place, ..)| page(&image[place * PAGE..])).collect();
    pages.sort_by_key(|page| page.page().u64(8));
    let again = pages.iter().map(|of| page(of.bytes()));
    let all = VectorStructure::options(&mut again.into_iter()).unwrap().options();
    for page in pages {
        let told = VectorStructure::options(&mut iter::once(page)).map(|new| new.options());
        let is_graph = !matches!(all, IndexOptions::Ivf(_));
        assert!(told.is_none_or(|told| told == all || !is_graph), "{told:?}");
    }
    all
}

fn losses(report: &SalvageReport) -> Vec<&str> {
    let about = report.losses.iter().filter(|loss| loss.table.as_deref() == Some(NAME));
    about.map(|loss| loss.what.as_str()).collect()
}

/// Also in the first page, without which each other page is looked at by itself.
fn damage_is_named_and_hides_no_other(of: IndexOptions) {
    let closed = closed(of);
    let image = closed.data.image();
    let pages = pages_of_index(&image);
    let first = first_page(&pages);
    let nodes = pages.iter().position(|(.., labels)| !labels.is_empty()).unwrap();
    let each = (0..pages.len()).map(|page| vec![page]);
    for damaged in each.chain([vec![first, nodes]]) {
        let disks = closed.copy();
        damaged.iter().for_each(|i| disks.data.flip_bit((pages[*i].0 * PAGE + 2000) as u64, 3));
        let store = disks.open(options().structure::<Stacks>()).unwrap();
        let report = store.check(&mut |_, _| true).unwrap();
        assert!(report.faults.iter().all(|fault| fault.table.as_deref() == Some(NAME)));
        for place in damaged.iter().map(|i| pages[*i].0) {
            let page = PageHeader::decode(&image[place * PAGE..][..PAGE]).unwrap().page_id;
            let is_it = |fault: &CheckFault| fault.page.as_deref() == Some(&*page.to_string());
            assert!(report.faults.iter().any(is_it), "{page}: {:?}", report.faults);
        }
        let opened = store.structure::<VectorStructure>(NAME);
        assert!(opened.is_err() || !damaged.contains(&first));
        assert!(opened.is_ok() || damaged != [nodes]);
        // It is not needed to be rid of it.
        store.drop_structure(NAME).unwrap();
        assert_sound(&store);
    }
}

fn a_salvage_needs_no_first_page_and_loses_what_was_in_lost_pages(of: IndexOptions) {
    let image = closed(of).data.image();
    let pages = pages_of_index(&image);
    assert_eq!(told_options(&image), of);
    let whole: BTreeSet<u64> = pages.iter().flat_map(|(.., labels)| labels).copied().collect();
    assert_eq!(whole, (50..300).collect());
    let first = first_page(&pages);
    let fullest = (0..pages.len()).max_by_key(|i| pages[*i].2.len()).unwrap();
    for damaged in [vec![], vec![first], vec![fullest], vec![first, fullest]] {
        let lost: BTreeSet<u64> = damaged.iter().flat_map(|i| &pages[*i].2).copied().collect();
        let places = damaged.iter().map(|i| pages[*i].0);
        salvaged(image.clone(), places, |store, report, new| {
            assert_eq!(report.pages_missing, damaged.len() as u64);
            assert_eq!(losses(&report), [""; 0]);
            let table = report.tables.iter().find(|table| table.name == NAME).unwrap();
            assert_eq!(table.structure.as_deref(), Some("polder.vectors"));
            assert_eq!(table.entries, (whole.len() - lost.len()) as u64);
            assert_eq!(told_options(new), of);
            let index = store.structure(NAME).unwrap();
            assert_has(&index, whole.difference(&lost).copied());
            assert_lacks(&index, lost.iter().copied().chain(0..50));
            insert(&index, 1000);
            assert_has(&index, [1000]);
        });
    }
}

fn an_index_of_which_no_page_is_left_is_told_as_lost(of: IndexOptions) {
    let image = closed(of).data.image();
    let places: Vec<usize> = pages_of_index(&image).iter().map(|(place, ..)| *place).collect();
    salvaged(image, places, |store, report, _| {
        assert_eq!(losses(&report), ["all of it: no page tells the options that it was made with"]);
        assert!(report.tables.iter().all(|table| table.name != NAME));
        assert!(matches!(
            store.structure::<VectorStructure>(NAME),
            Err(StoreError::NoSuchTable { .. })
        ));
    });
}

/// While it looks at pages, and while it restores what is in them; what it has restored is there.
fn a_salvage_stops_where_it_is_told_to(of: IndexOptions) {
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("from");
    std::fs::create_dir(&from).unwrap();
    std::fs::write(from.join("data"), closed(of).data.image()).unwrap();
    let mut most = 0;
    for stop in (1..).step_by(5) {
        let to = folder.path().join(stop.to_string());
        let mut last = 0;
        let progress = &mut |phase, done, all| {
            if phase != SalvagePhase::Structures {
                return true;
            }
            assert!(last < done && done <= all && done <= stop);
            last = done;
            done < stop
        };
        let report = salvage(&from, named(&to), progress).unwrap();
        assert_eq!(report.stopped, last == stop);
        let store = Store::open(named(&to)).unwrap();
        assert_sound(&store);
        let restored = report.tables.iter().find(|table| table.name == NAME);
        let restored = restored.map(|table| table.entries);
        match store.structure::<VectorStructure>(NAME) {
            Ok(index) => {
                let mut found = 0;
                let count = &mut |_, _| {
                    found += 1;
                    true
                };
                index.read(|index| index.for_each(count)).unwrap();
                assert_eq!(restored, Some(found));
                assert!(found >= most);
                most = found;
            }
            Err(_) => assert_eq!((restored, most), (None, 0)),
        }
        if !report.stopped {
            break;
        }
    }
    assert_eq!(most, 250);
}

fn two_vectors_with_one_label_are_both_salvaged(of: IndexOptions) {
    let disks = disk();
    let store = disks.open(options().structure::<Stacks>()).unwrap();
    let index = store.create_structure_with::<VectorStructure>(NAME, &new(of)).unwrap();
    let vectors = [[1.0_f32, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0], [5.0, 6.0, 7.0, 8.0]];
    for vector in &vectors {
        index.write(|index| index.insert(9, vector.into())).unwrap();
    }
    let stack = store.create_structure::<Stacks>("stack").unwrap();
    stack.write(|stack| stack.push(7)).unwrap();
    store.create_table("table").unwrap().put(b"key", b"value").unwrap();
    store.close().unwrap();
    salvaged(disks.data.image(), [], |store, report, _| {
        assert_eq!(losses(&report), [""; 0]);
        let index: Index = store.structure(NAME).unwrap();
        let found =
            index.read(|index| index.search_exact((&[0.0_f32; 4]).into(), &Search::new(9, 0)));
        let found = found.unwrap().found;
        let mut saved = BTreeMap::<String, usize>::new();
        for found in &found {
            let vector = index.read(|index| index.get(9, found.node)).unwrap().unwrap();
            *saved.entry(format!("{:?}", vector.elements::<f32>().unwrap())).or_default() += 1;
        }
        let counts: Vec<usize> = saved.into_values().collect();
        assert_eq!((found.len(), counts), (3, vec![1, 2]));
    });
}

/// Collections need it, so that a store knows it by itself. (`structures.rs` has what one does not know.)
#[test]
fn a_store_with_collections_knows_it_untold() {
    let disks = disk();
    let store = disks.open(options()).unwrap();
    fill(&store, GRAPH);
    let crashed = disks.crash(1);
    store.close().unwrap();
    for disks in [crashed, disks] {
        let untold = disks.open(tight("simulated")).unwrap();
        assert!(untold.structures().unwrap()[0].is_registered);
        assert_filled(&untold, GRAPH);
    }
}
