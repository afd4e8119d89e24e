//! Structures that are in the way of others, or of their own entries.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use polder::structure::{
    KindOps, PAGE_HEADER_BYTES, PageKind, PageRef, PoolError, Space, Structure, Translation, edit,
    root,
};
use polder::{OpenError, Store};

use crate::stack::Stacks;
use crate::structures::{assert_whole, fill, named, open, options};
use crate::support::*;

static IS_MADE: AtomicBool = AtomicBool::new(true);
const KIND: PageKind = PageKind(251);
const COUNT: usize = PAGE_HEADER_BYTES;

trait Numbers: Send + Sync {
    fn add(&self, number: u64) -> Result<(), PoolError>;
}

impl<T: Translation> Numbers for Space<T> {
    fn add(&self, number: u64) -> Result<(), PoolError> {
        edit(self, |edit| {
            let mut page = edit.page_mut(root())?;
            let count = page.u64(COUNT) + 1;
            page.set_u64(COUNT, count);
            page.set_u64(COUNT + 8 * count as usize, number);
            Ok(())
        })
    }
}

/// A structure of numbers that takes back some of them only, and, if it is told so, is not made.
enum Picky {}

impl Structure for Picky {
    const NAME: &'static str = "test.picky";
    const KINDS: &'static [KindOps] = &[KindOps::plain(KIND, "test", |_| Ok(()))];
    type Options = ();
    type Handle = dyn Numbers;

    fn create<T: Translation>(space: &Space<T>, _: &()) -> Result<(), PoolError> {
        match IS_MADE.load(Ordering::Relaxed) {
            true => edit(space, |edit| edit.create(KIND)).map(drop),
            false => Err(PoolError::of_structure("not here")),
        }
    }

    fn open<T: Translation>(space: Space<T>) -> Result<Arc<dyn Numbers>, PoolError> {
        Ok(Arc::new(space))
    }

    fn entries(page: PageRef<'_>, entry: &mut dyn FnMut(&[u8], &[u8])) {
        for i in 1..=page.u64(COUNT) {
            entry(&i.to_be_bytes(), &page.u64(COUNT + 8 * i as usize).to_le_bytes());
        }
    }

    fn restore(numbers: &dyn Numbers, _: &[u8], number: &[u8]) -> Result<(), PoolError> {
        let number = u64::from_le_bytes(number.try_into().map_err(PoolError::of_structure)?);
        match number.is_multiple_of(3) {
            true => Err(PoolError::of_structure(format!("{number} is not to my taste"))),
            false => numbers.add(number),
        }
    }
}

#[test]
fn an_entry_that_a_structure_does_not_take_back_is_a_loss() {
    let folder = tempfile::tempdir().unwrap();
    let named = |name: &str| named(&folder.path().join(name)).structure::<Picky>();
    let store = Store::open(named("from")).unwrap();
    let numbers = store.create_structure::<Picky>("a numbers").unwrap();
    (1..=10).for_each(|i| numbers.write(|numbers| numbers.add(i)).unwrap());
    // Structures come in the order of their making.
    let stack = store.create_structure::<Stacks>("stack").unwrap();
    stack.write(|stack| stack.push(7)).unwrap();
    store.create_table("table").unwrap().put(b"key", b"value").unwrap();
    store.close().unwrap();
    for (to, kept, loss) in [
        ("some", Some(7), "3 of its entries, which it refused, the first so: 3 is not to my taste"),
        ("none", None, "all of it: it cannot be made: not here"),
    ] {
        IS_MADE.store(kept.is_some(), Ordering::Relaxed);
        let from = folder.path().join("from");
        let report = polder::salvage(&from, named(to), &mut |_, _, _| true).unwrap();
        let told: Vec<_> =
            report.losses.iter().map(|loss| (loss.table.as_deref(), loss.what.as_str())).collect();
        assert_eq!(told, [(Some("a numbers"), loss)]);
        let entries = |name: &str| {
            let table = report.tables.iter().find(|table| table.name == name);
            table.map(|table| table.entries)
        };
        let found = ["a numbers", "stack", "table"].map(entries);
        assert_eq!(found, [kept, Some(1), Some(1)]);
        let store = Store::open(named(to)).unwrap();
        assert_eq!(store.structures().unwrap().len(), 1 + usize::from(kept.is_some()));
        let stack = store.structure::<Stacks>("stack").unwrap();
        assert_eq!(stack.write(|stack| stack.pop()).unwrap(), Some(7));
        assert_eq!(
            store.table("table").unwrap().get(b"key").unwrap().as_deref(),
            Some(&b"value"[..])
        );
    }
}

static REDONE: AtomicU64 = AtomicU64::new(0);

/// A structure with the kind of a hash index's buckets, which would make of its records what it likes.
enum Taker {}

impl Structure for Taker {
    const NAME: &'static str = "polder.taker";
    const KINDS: &'static [KindOps] = &[KindOps {
        max_layout: u8::MAX,
        redo: Some(|_, mut page| {
            REDONE.fetch_add(1, Ordering::Relaxed);
            page.zero(PAGE_HEADER_BYTES, page.size() - PAGE_HEADER_BYTES);
            Ok(())
        }),
        ..KindOps::plain(PageKind::HASH_BUCKET, "test", |_| Ok(()))
    }];
    type Options = ();
    type Handle = ();
    fn create<T: Translation>(_: &Space<T>, _: &()) -> Result<(), PoolError> {
        Ok(())
    }
    fn open<T: Translation>(_: Space<T>) -> Result<Arc<()>, PoolError> {
        Ok(Arc::new(()))
    }
    fn entries(_: PageRef<'_>, _: &mut dyn FnMut(&[u8], &[u8])) {}
    fn restore(_: &(), _: &[u8], _: &[u8]) -> Result<(), PoolError> {
        Ok(())
    }
}

/// What one structure has logged no other one redoes, whatever it takes the pages for.
#[test]
fn a_kind_that_is_taken_is_found_before_its_pages_are_redone() {
    let disks = disk();
    // Also the making of the structure is in the log alone.
    let sample = fill(disks.open(options()).unwrap());
    let after = disks.kill(1);
    drop(sample);
    match after.open(tight("simulated").structure::<Taker>()) {
        Err(OpenError::KindTaken { name, registered, .. }) => {
            assert_eq!((name.as_str(), registered.as_str()), ("hash", "polder.taker"));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(REDONE.load(Ordering::Relaxed), 0);
    assert_whole(&open(after.open(options()).unwrap()));
}
