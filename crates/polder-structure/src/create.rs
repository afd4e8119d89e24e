//! The first page of a structure, and each new one that becomes part of it at once.

use std::ops::Range;

use polder_format::Lsn;
use polder_pool::journal::{full_page_image_bytes, mark_bytes};
use polder_pool::{AccessHint, Exclusive, NewPage, PoolError, Space, Translation};

use crate::levels::ROOT;
use crate::page::broken;

/// Makes the root of a structure in a new space. `fill` makes what lies in it, and gives the part of
/// the page that means nothing.
///
/// # Errors
/// [`PoolError::Broken`] with `not_empty` if the space has pages, and those of making one. The page is
/// given back then.
pub fn create_root<T: Translation>(
    space: &Space<T>,
    not_empty: &'static str,
    fill: impl Fn(&mut Exclusive<'_>) -> Range<usize>,
) -> Result<(), PoolError> {
    let page = space.when_admitted_holding(|| space.create())?;
    let (id, number) = (page.id(), page.id().page());
    let made = match number.get() == ROOT {
        true => space.when_admitted_holding(|| link_new(space, &page, &fill)).map(drop),
        false => Err(broken(id, not_empty)),
    };
    drop(page);
    made.inspect_err(|_| space.free(number))
}

/// Fills a new page and marks it as in use, in one group of the log. `fill` is as for [`create_root`],
/// and is called again where another try is needed.
///
/// # Errors
/// Those of the log, and of the map in which the page is marked.
pub fn link_new<'p, T: Translation>(
    space: &'p Space<T>,
    page: &NewPage<'p>,
    fill: impl Fn(&mut Exclusive<'_>) -> Range<usize>,
) -> Result<Lsn, PoolError> {
    let number = [page.id().page()];
    let mut change =
        space.change(full_page_image_bytes(1, space.page_size()) + mark_bytes(&number))?;
    space.run(AccessHint::Normal, |attempt| {
        change.clear();
        let mut held = page.latch()?;
        // Nothing leads here if this try comes to nothing.
        held.set_unlogged();
        let hole = fill(&mut held);
        change.mark(space, attempt, &number, true)?;
        change.push_full_page_image(&mut held, hole);
        Ok(change.commit(&mut [&mut held]))
    })
}
