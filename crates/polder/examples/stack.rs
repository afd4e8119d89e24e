//! A structure of one's own in a store: a stack of numbers, durable, checked and salvaged with it.
use std::{error::Error, sync::Arc};

use polder::structure::*;
use polder::{Options, Store, salvage};

// Page 1 is the top. A full one goes into a page of its own, and comes back when the top is empty.
const BELOW: usize = PAGE_HEADER_BYTES; // number of the page below, or 0
const UNDER: usize = BELOW + 8; // how many numbers lie below this page
const COUNT: usize = BELOW + 16; // how many lie in it: they stand behind this one
const MOST: u64 = (4096 - COUNT as u64) / 8 - 1; // a page has at least 4096 bytes
const PAGE: KindOps = KindOps::plain(PageKind(200), "stack page", |page| {
    if page.u64(COUNT) <= MOST { Ok(()) } else { Err("a stack page has too many numbers") }
});

/// What users of the store see. `InSpace` does it on whichever translation the store runs.
pub(crate) trait Stack: Send + Sync {
    fn push(&self, number: u64) -> Result<(), PoolError>;
    fn pop(&self) -> Result<Option<u64>, PoolError>;
}
struct InSpace<T: Translation>(Space<T>);
impl<T: Translation> Stack for InSpace<T> {
    fn push(&self, number: u64) -> Result<(), PoolError> {
        edit(&self.0, |edit| {
            if edit.page(root())?.u64(COUNT) == MOST {
                let full = edit.create(PAGE.kind)?;
                edit.copy(root(), full)?;
                let mut top = edit.page_mut(root())?;
                top.set_u64(BELOW, full.get());
                top.set_u64(UNDER, top.u64(UNDER) + MOST);
                top.set_u64(COUNT, 0);
            }
            let mut top = edit.page_mut(root())?;
            let count = top.u64(COUNT) + 1;
            top.set_u64(COUNT, count);
            top.set_u64(COUNT + 8 * count as usize, number);
            Ok(())
        })
    }

    fn pop(&self) -> Result<Option<u64>, PoolError> {
        edit(&self.0, |edit| {
            let top = edit.page(root())?;
            if let (0, Some(below)) = (top.u64(COUNT), page_no(top, BELOW)) {
                edit.copy(below, root())?;
                edit.free(below)?;
            }
            let mut top = edit.page_mut(root())?;
            let Some(rest) = top.u64(COUNT).checked_sub(1) else { return Ok(None) };
            top.set_u64(COUNT, rest);
            Ok(Some(top.u64(COUNT + 8 + 8 * rest as usize)))
        })
    }
}

/// What the store must know.
pub(crate) enum Stacks {}
impl Structure for Stacks {
    const NAME: &'static str = "example.stack";
    const KINDS: &'static [KindOps] = &[PAGE];
    type Options = ();
    type Handle = dyn Stack;

    fn create<T: Translation>(space: &Space<T>, _: &()) -> Result<(), PoolError> {
        edit(space, |edit| edit.create(PAGE.kind)).map(drop)
    }

    fn open<T: Translation>(space: Space<T>) -> Result<Arc<dyn Stack>, PoolError> {
        Ok(Arc::new(InSpace(space)))
    }

    fn leads_to(page: PageRef<'_>) -> Option<Vec<PageNo>> {
        Some(page_no(page, BELOW).into_iter().collect())
    }

    fn entries(page: PageRef<'_>, entry: &mut dyn FnMut(&[u8], &[u8])) {
        for i in 1..=page.u64(COUNT) {
            let place = (page.u64(UNDER) + i).to_be_bytes();
            entry(&place, &page.u64(COUNT + 8 * i as usize).to_le_bytes());
        }
    }

    fn restore(stack: &dyn Stack, _place: &[u8], number: &[u8]) -> Result<(), PoolError> {
        stack.push(u64::from_le_bytes(number.try_into().map_err(PoolError::of_structure)?))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let options = |name| Options::new(folder.path().join(name)).structure::<Stacks>();
    let store = Store::open(options("store"))?;
    store.open_structure::<Stacks>("undo")?.write(|s| (0..1000).try_for_each(|i| s.push(i)))?;
    assert_eq!(store.check(&mut |_, _| true)?.faults, []);
    store.close()?;
    salvage(&folder.path().join("store"), options("saved"), &mut |_, _, _| true)?;
    let stack = Store::open(options("saved"))?.structure::<Stacks>("undo")?;
    assert_eq!(stack.write(|stack| stack.pop())?, Some(999));
    Ok(())
}
