//! Reading a page of an index, and going through all of them.

use polder_format::{PageId, PageKind, PageNo, header_at};
use polder_pool::bytes::PageRef;
use polder_pool::{AccessHint, PoolError, Space, Translation};
use polder_structure::levels::root;
use polder_structure::page::{broken, ensure};

/// Whether a page that a caller names, and no link does, is one that the space has behind its first. The maps,
/// which are latched, are asked only for a page that must be read.
pub(crate) fn is_own<T: Translation>(space: &Space<T>, page: PageNo) -> Result<bool, PoolError> {
    Ok(page != root() && (space.is_resident(page) || space.is_used(page)?))
}

/// What `read` makes of a page, as that was at one moment; for which it may wait, and which may be called
/// again.
pub(crate) fn read_page<T: Translation, R>(
    space: &Space<T>,
    hint: AccessHint,
    number: PageNo,
    mut read: impl FnMut(PageRef<'_>) -> R,
) -> Result<R, PoolError> {
    space.run(hint, |attempt| {
        let page = space.page(attempt, number)?;
        let result = read(page.page());
        page.validate()?;
        Ok(result)
    })
}

/// The same of the first page of an index, which is of this kind. If it is not, the space has no such index, and
/// `none` says so.
pub(crate) fn read_first_page<T: Translation, R>(
    space: &Space<T>,
    kind: PageKind,
    none: &'static str,
    mut read: impl FnMut(PageRef<'_>) -> Result<R, &'static str>,
) -> Result<R, PoolError> {
    let result = read_page(space, AccessHint::Normal, root(), |page| {
        ensure(page.u8(header_at::KIND) == kind.0, none)?;
        read(page)
    })?;
    result.map_err(|what| broken(PageId::new(space.id(), root()), what))
}

/// Pages of which it is found out at a time whether they are used.
const BATCH: usize = 1024;

/// Shows the number of each page in use, read ahead of the one that is shown, until `show` returns false.
pub(crate) fn for_each_page<T: Translation>(
    space: &Space<T>,
    mut show: impl FnMut(PageNo) -> Result<bool, PoolError>,
) -> Result<(), PoolError> {
    let mut from = 1;
    while let Some(first) = PageNo::new(from) {
        let pages = space.used_pages_from(first, BATCH)?;
        let Some(last) = pages.last() else { break };
        from = last.get() + 1;
        let mut is_over = false;
        for_each_of(space, &pages, |page| {
            is_over = !show(page)?;
            Ok(!is_over)
        })?;
        if is_over {
            break;
        }
    }
    Ok(())
}

/// Shows these pages' numbers, read ahead of the one that is shown, until `show` returns false.
pub(crate) fn for_each_of<T: Translation>(
    space: &Space<T>,
    pages: &[PageNo],
    mut show: impl FnMut(PageNo) -> Result<bool, PoolError>,
) -> Result<(), PoolError> {
    let ahead = space.most_ahead().max(1);
    for (i, page) in pages.iter().enumerate() {
        if i % ahead == 0 {
            space.load_ahead(pages[i..].iter().copied().take(ahead));
        }
        if !show(*page)? {
            break;
        }
    }
    Ok(())
}
