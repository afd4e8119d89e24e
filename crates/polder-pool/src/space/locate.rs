//! Where a page lies in the file: what a fault asks of the maps.
//!
//! A page of a map is a page itself, so that a fault may have to load one of those first. This is
//! the one function where what brings pages into memory needs what stands above it; it is called
//! by way of [`Shared::locate`] and [`Shared::locate_at_once`], so that nothing of `space/` is known there.

use polder_format::{Extent, PageId, PageNo, PhysicalPageNo, SpaceId};

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
    place_in(extent, start?, PageId::new(space.id, page))
}

/// The same for a thread that may wait for nothing (`FLIGHT-1`): none if the map is not resident, or
/// says nothing that could be.
pub(crate) fn locate_at_once<T: Translation>(
    shared: &Shared<T>,
    space: &SpaceCore<T>,
    page: PageNo,
) -> Option<PhysicalPageNo> {
    if space.id == SpaceId::FILE {
        return Some(PhysicalPageNo::new(page.get()));
    }
    let extent = shared.core.map.schedule.of_page(page);
    let start = shared.array_get_at_once(&space.map, extent.index)?;
    space.check_not_dropped().ok()?;
    place_in(extent, start, PageId::new(space.id, page)).ok()
}

/// The place of a page whose extent begins at physical page `start`.
fn place_in(extent: Extent, start: u64, page: PageId) -> Result<PhysicalPageNo, PoolError> {
    if start == 0 {
        return Err(PoolError::Unmapped { page });
    }
    // Physical page numbers have the range of page numbers; anything else is none.
    let place = start.checked_add(page.page().get() - extent.first.get()).and_then(PageNo::new);
    let what = "a map names a place behind the end of any file";
    let broken = PoolError::Broken { page, what };
    place.map(|place| PhysicalPageNo::new(place.get())).ok_or(broken)
}
