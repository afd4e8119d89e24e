//! A heap in a store.

use std::ops::ControlFlow;
use std::sync::Arc;

use polder_pool::bytes::PageRef;
use polder_pool::{AccessHint, KindOps, PoolError, Space, Translation};
use polder_structure::Structure;
use polder_structure::page::id;

use super::page::HeapRef;
use super::{Heap, HeapError, KIND, RowId};

/// The structure that a store hosts: rows in the order in which they come.
#[derive(Debug)]
pub enum HeapStructure {}

/// What a heap in a store can do: as the methods of [`Heap`] that have the same names.
pub trait Rows: Send + Sync {
    /// Appends a row. Gives where it lies.
    ///
    /// # Errors
    /// As [`Heap::append`].
    fn append(&self, row: &[u8]) -> Result<RowId, HeapError>;

    /// The row in this place, if there is one.
    ///
    /// # Errors
    /// As [`Heap::get`].
    fn get(&self, id: RowId) -> Result<Option<Vec<u8>>, HeapError>;

    /// Shows all rows, page by page, until `visit` breaks off.
    ///
    /// # Errors
    /// As [`Heap::scan`].
    fn scan(&self, visit: &mut dyn FnMut(RowId, &[u8]) -> ControlFlow<()>)
    -> Result<(), HeapError>;

    /// Appends many rows to new pages, all together. Gives how many.
    ///
    /// # Errors
    /// As [`Heap::bulk_load`].
    fn bulk_load(&self, rows: &mut dyn Iterator<Item = Vec<u8>>) -> Result<u64, HeapError>;
}

impl<T: Translation> Rows for Heap<T> {
    fn append(&self, row: &[u8]) -> Result<RowId, HeapError> {
        Heap::append(self, row).map(|(id, _)| id)
    }

    fn get(&self, id: RowId) -> Result<Option<Vec<u8>>, HeapError> {
        Heap::get(self, id)
    }

    fn scan(
        &self,
        visit: &mut dyn FnMut(RowId, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), HeapError> {
        Heap::scan(self, AccessHint::Scan, visit).map(drop)
    }

    fn bulk_load(&self, rows: &mut dyn Iterator<Item = Vec<u8>>) -> Result<u64, HeapError> {
        Heap::bulk_load(self, rows).map(|(number, _)| number)
    }
}

impl Structure for HeapStructure {
    const NAME: &'static str = "polder.heap";
    const KINDS: &'static [KindOps] = &[KIND];
    type Options = ();
    type Handle = dyn Rows;

    fn create<T: Translation>(space: &Space<T>, _: &()) -> Result<(), PoolError> {
        Ok(Heap::create(space.clone()).map(drop)?)
    }

    fn open<T: Translation>(space: Space<T>) -> Result<Arc<dyn Rows>, PoolError> {
        Ok(Arc::new(Heap::open(space)?))
    }

    // `HEAP-3`: there is nothing but the pages, each by itself, so that the default check sees all.

    /// The key is the row id: page number and slot, big-endian.
    fn entries(page: PageRef<'_>, entry: &mut dyn FnMut(&[u8], &[u8])) {
        let heap = HeapRef::new(page);
        if !heap.is_heap() || heap.verify_shape().is_err() {
            return;
        }
        let number = id(page).page().get().to_be_bytes();
        for slot in 0..heap.count() {
            let Some(row) = heap.row(slot) else { return };
            let mut bytes = Vec::with_capacity(row.len);
            page.append_to(row.at, row.len, &mut bytes);
            entry(&[&number[..], &(slot as u16).to_be_bytes()].concat(), &bytes);
        }
    }

    /// Rows get new ids, in the order of the old ones.
    fn restore(heap: &dyn Rows, _: &[u8], row: &[u8]) -> Result<(), PoolError> {
        Ok(heap.append(row).map(drop)?)
    }
}
