//! Pages without a structure: one kind whose content is up to the part that makes them.

use polder_format::{PageKind, PageNo, header_at};
use polder_pool::bytes::PageMut;
use polder_pool::{AccessHint, KindOps, NewPage, Space, Translation};

use crate::error::BenchError;

/// A page of the ladder.
pub(crate) const KIND: KindOps = KindOps {
    kind: PageKind(201),
    name: "page of a benchmark",
    max_layout: 1,
    check: |_| Ok(()),
    links: None,
    redo: None,
};

/// Where content begins.
pub(crate) const CONTENT_AT: usize = polder_format::PAGE_HEADER_BYTES;
/// Pages that are marked as used together.
const LINKED_AT_ONCE: usize = 64;

/// Makes `count` pages, each filled by `fill`, which is told its number in the order of making.
pub(crate) fn make<T: Translation>(
    space: &Space<T>,
    count: u64,
    mut fill: impl FnMut(u64, &mut PageMut<'_>),
) -> Result<Vec<PageNo>, BenchError> {
    let mut numbers = Vec::new();
    let mut held: Vec<NewPage<'_>> = Vec::new();
    for index in 0..count {
        let new = space.create()?;
        space.run(AccessHint::Normal, |_| {
            let mut guard = new.latch()?;
            let mut page = guard.page_mut();
            page.set_u8(header_at::KIND, KIND.kind.0);
            page.set_u8(header_at::LAYOUT, 1);
            fill(index, &mut page);
            Ok(())
        })?;
        numbers.push(new.id().page());
        held.push(new);
        if held.len() == LINKED_AT_ONCE || index + 1 == count {
            space.link(&numbers[numbers.len() - held.len()..])?;
            held.clear();
        }
    }
    Ok(numbers)
}
