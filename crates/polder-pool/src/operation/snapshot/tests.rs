use polder_format::PageNo;

use super::*;
use crate::testing::{LINKS_AT, create, pool_held};
use crate::{AccessHint, Array, ReadMode, Space};

fn id_of(space: &Space<Array>, page: PageNo) -> PageId {
    PageId::new(space.id(), page)
}

/// Writes the link of `parent` to `child`, in a copy.
fn link(space: &Space<Array>, parent: PageNo, child: u64) {
    let linked = space.run(AccessHint::Normal, |attempt| {
        let page = space.page(attempt, parent)?;
        let mut page = space.shadow(attempt, page)?;
        page.page_mut().set_u64(LINKS_AT, child);
        page.set_unlogged();
        Ok(())
    });
    linked.unwrap();
}

/// A reader holds a parent while its child is taken out of it; then it goes on to the child, which
/// is loaded again as it was on the device, or is something else.
#[test]
fn a_page_that_was_discarded_is_not_reached_by_an_old_link() {
    let (_dir, pool) = pool_held::<Array>(4 << 20, ReadMode::Copy);
    let space = pool.create_space().unwrap();
    let (parent, child) = (create(&space), create(&space));
    link(&space, parent, id_of(&space, child).to_bits());
    pool.flush().unwrap();
    let mut tries = 0;
    let steps = space.run(AccessHint::Normal, |attempt| {
        tries += 1;
        let root = LinkRef::Id(id_of(&space, parent));
        let above = space.snapshot(attempt, root, None)?;
        if tries > 1 {
            return Ok(above.page().u64(LINKS_AT));
        }
        link(&space, parent, 0);
        let (shared, core) = (space.shared(), space.space_core());
        let held = shared.latch_resident(core, child).unwrap();
        space.discard(held);
        drop(shared.fault(core, child, AccessHint::Normal).unwrap());
        let old = LinkRef::InPage(above.page(), LINKS_AT);
        assert!(space.is_resident(child) && old.load() == id_of(&space, child).to_bits());
        assert!(space.snapshot(attempt, old, Some(&above)).is_err());
        Err(Restart)
    });
    assert_eq!((steps.unwrap(), tries), (0, 2));
}

/// What is held stays as it was, and validates, while the page goes on in another frame; a reader
/// that holds nothing finds out that it has changed.
#[test]
fn a_snapshot_stays() {
    let (_dir, pool) = pool_held::<Array>(4 << 20, ReadMode::Copy);
    let space = pool.create_space().unwrap();
    let page = create(&space);
    link(&space, page, 1);
    let read = space.run(AccessHint::Normal, |attempt| {
        let optimistic = space.page(attempt, page)?;
        let held = space.snapshot(attempt, LinkRef::Id(id_of(&space, page)), None)?;
        let copied = space.run(AccessHint::Normal, |other| {
            let now = space.page(other, page)?;
            let mut copy = space.shadow(other, now)?;
            copy.page_mut().set_u64(LINKS_AT, 2);
            copy.set_unlogged();
            // Nothing is seen yet; but a reader that believes one page by another must not go on.
            assert!(optimistic.validate().is_err());
            Ok(held.page().u64(LINKS_AT))
        });
        for _ in 0..3 {
            link(&space, page, 3);
        }
        assert!(optimistic.validate().is_err());
        Ok((copied.unwrap(), held.page().u64(LINKS_AT)))
    });
    assert_eq!(read.unwrap(), (1, 1));
    let now = space.run(AccessHint::Normal, |attempt| {
        let page = space.page(attempt, page)?;
        let now = page.page().u64(LINKS_AT);
        page.validate().map(|()| now)
    });
    assert_eq!(now.unwrap(), 3);
    // A node that goes home is copied as well.
    let stats = pool.stats();
    assert_eq!(stats.copies - stats.promotions, 5);
}

/// A sweep would not find a page that it has not come to in a frame that it has been to.
#[test]
fn nothing_moves_while_a_sweep_is_under_way() {
    let (_dir, pool) = pool_held::<Array>(4 << 20, ReadMode::Copy);
    let space = pool.create_space().unwrap();
    let page = create(&space);
    link(&space, page, 1);
    let before = (pool.stats().copies, pool.stats().promotions);
    let mut value = 1;
    pool.sweep(&mut |_, _| {
        value += 1;
        link(&space, page, value);
    })
    .unwrap();
    assert!(value > 1);
    assert_eq!((pool.stats().copies, pool.stats().promotions), before);
    link(&space, page, 0);
    // A node that goes home by the way is copied as well.
    let after = pool.stats();
    assert_eq!(after.copies - after.promotions, before.0 - before.1 + 1);
}

/// A page that a change took away from the frame that it prefers goes back there by the way, and
/// is no dirtier for it.
#[test]
fn a_node_goes_home() {
    let (_dir, pool) = pool_held::<Array>(4 << 20, ReadMode::Copy);
    let space = pool.create_space().unwrap();
    let page = create(&space);
    assert_eq!(space.is_in_preferred_frame(page), Some(true));
    link(&space, page, 1);
    assert_eq!(space.is_in_preferred_frame(page), Some(false));
    pool.flush().unwrap();
    for _ in 0..2000 {
        let read = space.run(AccessHint::Normal, |attempt| {
            let held = space.snapshot(attempt, LinkRef::Id(id_of(&space, page)), None)?;
            Ok(held.page().u64(LINKS_AT))
        });
        assert_eq!(read.unwrap(), 1);
    }
    assert_eq!(space.is_in_preferred_frame(page), Some(true));
    let stats = pool.stats();
    assert_eq!((stats.dirty_pages, stats.promotions, stats.restarts), (0, 1, 0));
}

/// A page that is held by a slice can be read though somebody asks for it exclusively.
#[test]
fn who_is_asked_for_is_valid() {
    let (_dir, pool) = pool_held::<Array>(4 << 20, ReadMode::Copy);
    let space = pool.create_space().unwrap();
    let page = create(&space);
    let asked = space.run(AccessHint::Normal, |attempt| {
        let held = space.snapshot(attempt, LinkRef::Id(id_of(&space, page)), None)?;
        let word = held.cell().read();
        let exclusive = held.cell().upgrade(word).unwrap();
        let meanwhile = (held.validate(), held.without_hold().validate());
        held.cell().put_back(exclusive);
        Ok((meanwhile, held.validate()))
    });
    assert_eq!(asked.unwrap(), ((Ok(()), Err(Restart)), Ok(())));
}
