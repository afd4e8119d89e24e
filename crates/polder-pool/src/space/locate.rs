//! Where a page lies in the file: what a fault asks of the maps.
//!
//! A page of a map is a page itself, so that a fault may have to load one of those first. This is
//! the one function where what brings pages into memory needs what stands above it; it is called
//! by way of [`Shared::locate`], so that nothing of `space/` is known there.

use polder_format::{PageId, PageNo, PhysicalPageNo, SpaceId};

use crate::error::PoolError;
use crate::shared::{Shared, SpaceCore};
use crate::translation::Translation;

/// Where a page lies in the file (F2).
pub(crate) fn locate<T: Translation>(
    shared: &Shared<T>,
    space: &SpaceCore<T>,
    page: PageNo,
) -> Result<PhysicalPageNo, PoolError> {
    if space.id == SpaceId::FILE {
        return Ok(PhysicalPageNo::new(page.get()));
    }
    let extent = shared.core.map.schedule.of_page(page);
    let start = shared.array_get(&space.map, extent.index);
    // The pages of a dropped space's map may hold anything.
    space.check_not_dropped()?;
    let start = start?;
    if start == 0 {
        return Err(PoolError::Unmapped { page: PageId::new(space.id, page) });
    }
    // Physical page numbers have the range of page numbers; anything else is none.
    let place = start.checked_add(page.get() - extent.first.get()).and_then(PageNo::new);
    let what = "a map names a place behind the end of any file";
    let broken = PoolError::Broken { page: PageId::new(space.id, page), what };
    place.map(|place| PhysicalPageNo::new(place.get())).ok_or(broken)
}
