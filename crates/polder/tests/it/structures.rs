//! Structures of others in a store: durable, checked, salvaged and told apart, as tables are. The
//! example of the pool's README is one of them, a hash index and a heap are the others.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use polder::structure::{KindOps, PageKind, PageRef, PoolError, Space, Structure, Translation};
use polder::{
    Durability, Hosted, OpenError, Options, OptionsError, Store, StoreError, TranslationKind,
};
use polder_format::{PageHeader, SpaceId};
use polder_hash::HashStructure;
use polder_tree::HeapStructure;

use crate::stack::Stacks;
use crate::support::*;

pub fn options() -> Options {
    let options = tight("simulated").structure::<Stacks>();
    options.structure::<HashStructure>().structure::<HeapStructure>()
}

/// A store with some of everything.
pub struct Sample {
    store: Store,
    stack: Hosted<Stacks>,
    hash: Hosted<HashStructure>,
    heap: Hosted<HeapStructure>,
    /// Where its files are, if it has some. Goes last.
    _folder: Option<tempfile::TempDir>,
}

const COUNT: u64 = 2000;

fn value(i: u64) -> Vec<u8> {
    vec![i as u8; 50]
}

pub fn fill(store: Store) -> Sample {
    let table = store.create_table("table").unwrap().with_durability(Durability::None);
    let sample = Sample {
        stack: store.create_structure("stack").unwrap().with_durability(Durability::None),
        hash: store.create_structure("hash").unwrap().with_durability(Durability::None),
        heap: store.create_structure("heap").unwrap().with_durability(Durability::None),
        store,
        _folder: None,
    };
    for i in 0..COUNT {
        sample.stack.write(|stack| stack.push(i)).unwrap();
        sample.hash.write(|hash| hash.insert(&i.to_be_bytes(), &value(i))).unwrap();
        sample.heap.write(|heap| heap.append(&value(i))).unwrap();
        table.put(i.to_be_bytes(), value(i)).unwrap();
    }
    // Pages that were freed must not come back.
    for i in (COUNT - 700..COUNT).rev() {
        assert_eq!(sample.stack.write(|stack| stack.pop()).unwrap(), Some(i));
    }
    sample.hash.write(|hash| hash.remove(&0u64.to_be_bytes())).unwrap();
    sample.store.flush().unwrap();
    sample
}

pub fn open(store: Store) -> Sample {
    Sample {
        stack: store.structure("stack").unwrap(),
        hash: store.structure("hash").unwrap(),
        heap: store.structure("heap").unwrap(),
        store,
        _folder: None,
    }
}

fn rows(heap: &Hosted<HeapStructure>) -> Vec<Vec<u8>> {
    let mut rows = Vec::new();
    heap.read(|heap| {
        heap.scan(&mut |_, row| {
            rows.push(row.to_vec());
            ControlFlow::Continue(())
        })
    })
    .unwrap();
    rows
}

/// Takes all from the stack.
pub fn assert_whole(sample: &Sample) {
    assert_sound(&sample.store);
    assert!(sample.store.check_deep(&mut |_, _, _| true).unwrap().is_sound());
    assert_eq!(rows(&sample.heap), (0..COUNT).map(value).collect::<Vec<_>>());
    for i in 0..COUNT {
        let found = sample.hash.read(|hash| hash.get(&i.to_be_bytes())).unwrap();
        assert_eq!(found, (i > 0).then(|| value(i)));
    }
    let stack = sample.stack.with_durability(Durability::None);
    for i in (0..COUNT - 700).rev() {
        assert_eq!(stack.write(|stack| stack.pop()).unwrap(), Some(i));
    }
    assert_eq!(stack.write(|stack| stack.pop()).unwrap(), None);
    assert_eq!(sample.store.table("table").unwrap().len(), COUNT);
    assert_sound(&sample.store);
}

/// Their pages stay where they are.
#[test]
fn a_store_with_them_is_shrunk() {
    let sample = fill(disk().open(options()).unwrap());
    let other = sample.store.create_table("other").unwrap().with_durability(Durability::None);
    (0..COUNT).for_each(|i| assert!(other.put(i.to_be_bytes(), [7; 500]).unwrap()));
    (10..COUNT).for_each(|i| assert!(other.delete(i.to_be_bytes()).unwrap()));
    let before = sample.store.stats().pool.file_bytes;
    assert_eq!(before - sample.store.shrink().unwrap(), sample.store.stats().pool.file_bytes);
    assert_eq!(other.iter().count(), 10);
    assert_whole(&sample);
}

#[test]
fn they_outlive_crashes_on_every_translation() {
    for (seed, kind) in (0..).zip(TranslationKind::ALL) {
        let options = options().memory_budget(Options::least_memory_budget(4096) * 3);
        let disks = disk();
        let sample = fill(disks.open(options.clone().translation(*kind)).unwrap());
        let after = disks.crash(seed);
        drop(sample);
        let again = TranslationKind::ALL[(seed as usize + 3) % TranslationKind::ALL.len()];
        let store = after.open(options.clone().translation(again)).unwrap();
        assert!(store.recovery().groups > 0);
        assert_whole(&open(store));
        // A killed one, and one that was closed.
        let killed = disks.kill(seed);
        let store = killed.open(options.clone()).unwrap();
        store.close().unwrap();
        assert_whole(&open(killed.open(options).unwrap()));
    }
}

#[test]
fn a_flipped_bit_is_found_in_every_one() {
    for kind in [200, PageKind::HASH_BUCKET.0, PageKind::HEAP.0] {
        let disks = disk();
        fill(disks.open(options()).unwrap()).store.close().unwrap();
        let image = disks.data.image();
        let is_of = |page: &[u8]| {
            let header = PageHeader::decode(page).unwrap();
            header.kind.0 == kind && header.page_id.page().get() > 1
        };
        let place = image.chunks(4096).position(is_of).unwrap();
        disks.data.flip_bit((place * 4096 + 2000) as u64, 3);
        let store = disks.open(options()).unwrap();
        let faults = store.check(&mut |_, _| true).unwrap().faults;
        let table = match kind {
            200 => "stack",
            24 => "heap",
            _ => "hash",
        };
        assert!(faults.iter().any(|fault| fault.table.as_deref() == Some(table)), "{faults:?}");
        let deep = store.check_deep(&mut |_, _, _| true).unwrap();
        assert!(deep.faults.iter().any(|fault| fault.table.as_deref() == Some(table)), "{kind}");
    }
}

/// What the check of a structure finds beyond its pages: one that nothing leads to.
#[test]
fn a_page_that_was_lost_is_found() {
    use polder::structure::{edit, root};
    enum Loser {}
    impl Structure for Loser {
        const NAME: &'static str = "test.loser";
        const KINDS: &'static [KindOps] = &[KindOps::plain(PageKind(250), "test", |_| Ok(()))];
        type Options = ();
        type Handle = ();
        fn create<T: Translation>(space: &Space<T>, _: &()) -> Result<(), PoolError> {
            edit(space, |edit| {
                assert_eq!(edit.create(PageKind(250))?, root());
                edit.create(PageKind(250)).map(drop)
            })
        }
        fn open<T: Translation>(_: Space<T>) -> Result<Arc<()>, PoolError> {
            Ok(Arc::new(()))
        }
        fn leads_to(_: PageRef<'_>) -> Option<Vec<polder::structure::PageNo>> {
            Some(Vec::new())
        }
        fn entries(_: PageRef<'_>, _: &mut dyn FnMut(&[u8], &[u8])) {}
        fn restore(_: &(), _: &[u8], _: &[u8]) -> Result<(), PoolError> {
            Ok(())
        }
    }
    let store = disk().open(tight("simulated").structure::<Loser>()).unwrap();
    store.create_structure::<Loser>("loser").unwrap();
    let faults = store.check(&mut |_, _| true).unwrap().faults;
    assert_eq!(faults.len(), 1);
    assert!(faults[0].what.contains("nothing links it"), "{}", faults[0]);
}

pub fn named(path: &Path) -> Options {
    let options = Options::new(path).structure::<Stacks>();
    options.structure::<HashStructure>().structure::<HeapStructure>()
}

/// What a salvage makes of the disks, and what it says.
fn salvaged(disks: &Disks) -> (Sample, polder::SalvageReport) {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    std::fs::create_dir(&from).unwrap();
    std::fs::write(from.join("data"), disks.data.image()).unwrap();
    std::fs::write(from.join("log"), disks.log.image()).unwrap();
    let report = polder::salvage(&from, named(&to), &mut |_, _, _| true).unwrap();
    let sample = open(Store::open(named(&to)).unwrap());
    (Sample { _folder: Some(folder), ..sample }, report)
}

#[test]
fn they_are_salvaged_with_what_only_the_log_has() {
    for closed in [true, false] {
        let disks = disk();
        let sample = fill(disks.open(options()).unwrap());
        let after = if closed {
            sample.store.close().unwrap();
            disks.copy()
        } else {
            disks.kill(3)
        };
        let (saved, report) = salvaged(&after);
        assert_eq!(report.losses, [], "closed: {closed}");
        let about = |name: &str| report.tables.iter().find(|table| table.name == name).unwrap();
        assert_eq!(about("stack").entries, COUNT - 700);
        assert_eq!(about("stack").structure.as_deref(), Some("example.stack"));
        assert_eq!((about("hash").entries, about("hash").counted), (COUNT - 1, Some(COUNT - 1)));
        assert_eq!(about("heap").entries, COUNT);
        assert_eq!(about("table").structure, None);
        assert_whole(&saved);
    }
}

#[test]
fn what_a_salvage_cannot_save_of_them_is_told() {
    let disks = disk();
    fill(disks.open(options()).unwrap()).store.close().unwrap();
    let image = disks.data.image();
    let is_of = |page: &[u8]| PageHeader::decode(page).unwrap().kind == PageKind::HEAP;
    let place = image.chunks(4096).rposition(is_of).unwrap();
    disks.data.flip_bit((place * 4096 + 2000) as u64, 3);
    // The log still has images of pages: what was written since the last checkpoint is gone with it.
    let (saved, report) = salvaged(&disks);
    let lost = COUNT as usize - rows(&saved.heap).len();
    assert!(lost == 0 || !report.losses.is_empty(), "{lost} rows: {:?}", report.losses);
    // Without the structures all of them are told, and the table is saved.
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("from");
    std::fs::create_dir(&from).unwrap();
    std::fs::write(from.join("data"), &image).unwrap();
    std::fs::write(from.join("log"), disks.log.image()).unwrap();
    let to = Options::new(folder.path().join("to"));
    let report = polder::salvage(&from, to, &mut |_, _, _| true).unwrap();
    let mut told: Vec<_> = report.losses.iter().filter_map(|loss| loss.table.as_deref()).collect();
    told.sort_unstable();
    assert_eq!(told, ["hash", "heap", "stack"], "{:?}", report.losses);
    assert_eq!(report.tables.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["table"]);
    assert_eq!(report.tables[0].entries, COUNT);
}

/// Neither the catalogue nor the log tells any more what lies where.
#[test]
fn they_are_known_by_their_pages_where_names_were_lost() {
    let disks = disk();
    fill(disks.open(options()).unwrap()).store.close().unwrap();
    let image = disks.data.image();
    let is_catalogue = |page: &[u8]| {
        let header = PageHeader::decode(page).unwrap();
        header.kind == PageKind::TREE_LEAF && header.page_id.space() == SpaceId::CATALOGUE
    };
    let place = image.chunks(4096).position(is_catalogue).unwrap();
    disks.data.flip_bit((place * 4096 + 2000) as u64, 3);
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("from");
    std::fs::create_dir(&from).unwrap();
    std::fs::write(from.join("data"), disks.data.image()).unwrap();
    let to = named(&folder.path().join("to"));
    let report = polder::salvage(&from, to, &mut |_, _, _| true).unwrap();
    let saved = |structure: Option<&str>| {
        let is_it = |table: &&polder::SalvagedTable| table.structure.as_deref() == structure;
        let table = report.tables.iter().find(is_it).unwrap();
        assert!(!table.named && table.name.starts_with("space-"));
        table.entries
    };
    assert_eq!(saved(Some("example.stack")), COUNT - 700);
    assert_eq!((saved(Some("polder.hash")), saved(Some("polder.heap"))), (COUNT - 1, COUNT));
    assert_eq!(saved(None), COUNT);
}

#[test]
fn a_store_opens_without_them_and_leaves_them_alone() {
    let disks = disk();
    fill(disks.open(options()).unwrap()).store.close().unwrap();
    let store = disks.open(tight("simulated")).unwrap();
    assert_eq!(store.tables().unwrap(), ["table"]);
    let names: Vec<_> = store.structures().unwrap();
    let shown = |i: usize| (names[i].name.as_str(), names[i].structure.as_str());
    assert_eq!([shown(0), shown(1)], [("hash", "polder.hash"), ("heap", "polder.heap")]);
    assert!(names.iter().all(|info| !info.is_registered));
    let refused = store.structure::<Stacks>("stack").unwrap_err();
    assert!(matches!(refused, StoreError::Unregistered { .. }), "{refused}");
    assert!(matches!(store.table("stack"), Err(StoreError::OtherStructure { .. })));
    assert!(matches!(store.create_table("stack"), Err(StoreError::OtherStructure { .. })));
    let report = store.check(&mut |_, _| true).unwrap();
    assert_eq!((report.faults, report.unregistered.len()), (vec![], 3));
    // A crash of this store is none of theirs; and the next one drops one of them unseen.
    store.table("table").unwrap().put(b"more", b"").unwrap();
    let after = disks.crash(1);
    let store = after.open(tight("simulated")).unwrap();
    store.shrink().unwrap();
    store.table("table").unwrap().delete(b"more").unwrap();
    store.close().unwrap();
    assert_whole(&open(after.open(options()).unwrap()));
    let store = after.open(tight("simulated")).unwrap();
    store.drop_structure("heap").unwrap();
    assert_eq!(store.structures().unwrap().len(), 2);
    assert_sound(&store);
}

#[test]
fn what_only_a_structure_can_redo_waits_for_it() {
    let disks = disk();
    let sample = fill(disks.open(options()).unwrap());
    // The stack is logged by what differs: anybody can do that again.
    sample.store.checkpoint().unwrap();
    sample.stack.write(|stack| stack.push(7)).unwrap();
    sample.store.flush().unwrap();
    let after = disks.crash(1);
    let store = after.open(tight("simulated")).unwrap();
    assert!(store.recovery().redone > 0);
    store.close().unwrap();
    let again = open(after.open(options()).unwrap());
    assert_eq!(again.stack.write(|stack| stack.pop()).unwrap(), Some(7));
    drop(again);
    // A hash index has records of its own.
    sample.hash.write(|hash| hash.insert(b"key", b"value")).unwrap();
    sample.store.flush().unwrap();
    let after = disks.crash(2);
    match after.open(tight("simulated")) {
        Err(OpenError::Unregistered { name, structure, .. }) => {
            assert_eq!((name.as_str(), structure.as_str()), ("hash", "polder.hash"));
        }
        other => panic!("{other:?}"),
    }
    let again = open(after.open(options()).unwrap());
    assert_eq!(again.hash.read(|hash| hash.get(b"key")).unwrap().unwrap(), b"value");
}

/// A structure that does nothing, with a name and a kind.
struct Named<const KIND: u8>;

impl<const KIND: u8> Structure for Named<KIND> {
    const NAME: &'static str = "test.named";
    const KINDS: &'static [KindOps] = &[KindOps::plain(PageKind(KIND), "test", |_| Ok(()))];
    type Options = ();
    type Handle = str;
    fn create<T: Translation>(_: &Space<T>, _: &()) -> Result<(), PoolError> {
        Err(PoolError::of_structure("there is nothing to make"))
    }
    fn open<T: Translation>(_: Space<T>) -> Result<Arc<str>, PoolError> {
        Ok(Arc::from("nothing"))
    }
    fn entries(_: PageRef<'_>, _: &mut dyn FnMut(&[u8], &[u8])) {}
    fn restore(_: &str, _: &[u8], _: &[u8]) -> Result<(), PoolError> {
        Ok(())
    }
}

#[test]
fn kinds_and_names_are_kept_apart() {
    let refused = |options: Options| match options.validate() {
        Err(OptionsError::Structure { why, .. }) => why,
        other => panic!("{other:?}"),
    };
    let own = refused(Options::new("s").structure::<Named<17>>());
    assert!(own.contains("one of Polder's"), "{own}");
    let taken = refused(Options::new("s").structure::<Named<200>>().structure::<Stacks>());
    assert!(taken.contains("as well"), "{taken}");
    let twice = refused(Options::new("s").structure::<Named<201>>().structure::<Named<202>>());
    assert!(twice.contains("twice"), "{twice}");
    Options::new("s").structure::<Stacks>().structure::<Stacks>().validate().unwrap();
    // In the store, and not registered with the other one.
    let disks = disk();
    fill(disks.open(options()).unwrap()).store.close().unwrap();
    match disks.open(tight("simulated").structure::<Named<200>>()) {
        Err(OpenError::KindTaken { name, kind: 200, .. }) => assert_eq!(name, "stack"),
        other => panic!("{other:?}"),
    }
    // An error of a structure, and no trace of what it did not make.
    let store = disks.open(tight("simulated").structure::<Named<201>>()).unwrap();
    let failed = store.create_structure::<Named<201>>("none").unwrap_err();
    assert_eq!(
        full_text(&failed),
        "an operation of the structure `none` failed: there is nothing to make"
    );
    assert!(matches!(store.structure::<Named<201>>("none"), Err(StoreError::NoSuchTable { .. })));
    assert_sound(&store);
}

#[test]
fn they_come_and_go_and_end_with_the_store() {
    let disks = disk();
    let sample = fill(disks.open(options()).unwrap());
    let again = sample.store.open_structure::<Stacks>("stack").unwrap();
    assert_eq!(again.write(|stack| stack.pop()).unwrap(), Some(COUNT - 701));
    assert_eq!(sample.stack.write(|stack| stack.pop()).unwrap(), Some(COUNT - 702));
    let twice = sample.store.create_structure::<Stacks>("stack").unwrap_err();
    assert!(matches!(twice, StoreError::TableExists { .. }));
    let other = sample.store.structure::<Stacks>("heap").unwrap_err();
    assert_eq!(other.to_string(), "`heap` is a `polder.heap`, and not a `example.stack`");
    assert!(matches!(sample.store.drop_structure("table"), Err(StoreError::OtherStructure { .. })));
    assert!(matches!(sample.store.drop_table("heap"), Err(StoreError::OtherStructure { .. })));
    sample.store.drop_structure("stack").unwrap();
    let gone = sample.stack.write(|stack| stack.pop()).unwrap_err();
    assert!(matches!(gone, StoreError::Dropped { .. }), "{gone}");
    assert_sound(&sample.store);
    sample.store.create_structure::<Stacks>("stack").unwrap();
    let table = sample.store.table("table").unwrap();
    table
        .update_with(b"key", |_| {
            let nested = sample.hash.write(|hash| hash.insert(b"a", b"b"));
            assert!(matches!(nested, Err(StoreError::Nested)));
            polder::Change::Keep
        })
        .unwrap();
    sample.store.clone().close().unwrap();
    let closed = sample.hash.write(|hash| hash.insert(b"a", b"b"));
    assert!(matches!(closed, Err(StoreError::Closed)));
    assert!(matches!(sample.hash.read(|hash| hash.get(b"a")), Err(StoreError::Closed)));
}

/// What builders read is what is run.
#[test]
fn the_example_is_what_the_readme_shows() {
    let example = include_str!("../../examples/stack.rs");
    let readme = include_str!("../../../polder-pool/README.md");
    assert!(
        readme.contains(example),
        "copy crates/polder/examples/stack.rs to polder-pool/README.md"
    );
    assert!(example.lines().count() < 100);
}
