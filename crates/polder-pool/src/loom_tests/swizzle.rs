//! Links that hold frames: threads that swizzle and unswizzle them, and pages that leave.

use super::*;
use crate::translation::parts::tagged::Tagged;
use crate::translation::swizzle::owner::{Owner, OwnerCell};

/// The parent, which is page 1, is in frame 1 for ever. Its link leads to page 2, in frame 2, which
/// is given to page 3 when page 2 leaves it.
const PARENT: u32 = 1;
const CHILD: u32 = 2;

/// A link in its two forms: frame 0 is none.
#[derive(Default)]
struct Family {
    /// The frame in the parent's link to page 2.
    link: AtomicU32,
    /// Page 2 or 3 in frame 2, and its owner.
    child: Tagged,
    owner: OwnerCell,
    /// The parent's word, for its shared latch.
    parent: StateCell,
    /// Where the child, as a parent, links to page 4 in frame 4.
    grandchild_link: AtomicU32,
    grandchild_owner: OwnerCell,
    lot: ParkingLot,
}

fn page(number: u64) -> PageId {
    PageId::new(SpaceId::CATALOGUE, PageNo::new(number).unwrap())
}

fn owner(frame: u32) -> Owner {
    Owner::Parent(FrameId::new(frame))
}

impl Family {
    fn new() -> Arc<Family> {
        let family = Family::default();
        assert!(family.parent.claim());
        family.parent.publish(StateWord::free(FrameId::new(PARENT), version(0)), &family.lot);
        family.load(2);
        family.grandchild_owner.set(Owner::None);
        Arc::new(family)
    }

    /// A page comes into frame 2.
    fn load(&self, number: u64) {
        self.child.enter(page(number));
        assert!(self.child.cell().claim());
        self.owner.set(Owner::None);
        let word = StateWord::free(FrameId::new(CHILD), version(number as u32));
        self.child.cell().publish(word, &self.lot);
    }

    /// S1 to S4, by a reader that has found this page. `looks`: S3.
    fn swizzle(&self, number: u64, looks: bool) {
        if self.parent.try_share().is_none() {
            return;
        }
        let is_here =
            || !looks || self.child.read(page(number)).is_some_and(StateWord::is_readable);
        self.owner.swizzle(owner(PARENT), is_here, || self.link.store(CHILD, Relaxed));
        self.parent.unshare();
    }

    /// U2 to U4.
    fn let_go(&self) {
        let seen = self.owner.get();
        if seen != owner(PARENT) || self.parent.try_share().is_none() {
            return;
        }
        self.owner.unswizzle(seen, || {
            self.link.store(0, Relaxed);
            true
        });
        self.parent.unshare();
    }

    /// E4 to E7, and the frame's next page. `owned`: U6 takes the owner.
    fn evict(&self, owned: bool) {
        let Some(held) = self.child.cell().upgrade(self.child.cell().read()) else { return };
        let holds_hot_link = || self.grandchild_link.load(Relaxed) != 0;
        let may_leave = match owned {
            true => self.owner.may_leave(holds_hot_link),
            false => self.owner.get() == Owner::None && !holds_hot_link(),
        };
        if !may_leave {
            return self.child.cell().put_back(held);
        }
        self.child.leave();
        self.child.cell().clear();
        self.load(3);
    }

    /// A structure has taken the link out, and frees the page; the parent gets another child in its
    /// frame, which is used at once.
    fn free(&self, waits: bool) {
        self.link.store(0, Relaxed);
        self.child.cell().latch().unwrap();
        if waits {
            self.owner.take_surely();
        }
        self.child.leave();
        self.child.cell().clear();

        self.load(3);
        self.swizzle(3, true);
    }

    /// `SWIP-2`, where the link leads to this page.
    fn check(&self, number: u64) {
        if self.link.load(Relaxed) == CHILD {
            assert_eq!(self.child.page(), page(number), "a hot link to a page that is gone");
            assert_eq!(self.owner.get(), owner(PARENT), "a hot link that is nobody's");
        } else {
            assert_eq!(self.owner.get(), Owner::None, "what has no hot link has an owner");
        }
    }
}

fn spawn(family: &Arc<Family>, run: impl FnOnce(&Family) + 'static) -> thread::JoinHandle<()> {
    let family = Arc::clone(family);
    thread::spawn(move || run(&family))
}

fn a_page_gets_hot_and_leaves(looks: bool, owned: bool) {
    let family = Family::new();
    let threads =
        [spawn(&family, move |f| f.swizzle(2, looks)), spawn(&family, move |f| f.evict(owned))];
    family.let_go();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    family.check(2);
}

#[test]
fn loom_a_hot_link_leads_to_its_page() {
    explore(3, || a_page_gets_hot_and_leaves(true, true));
}

#[test]
#[should_panic(expected = "a hot link")]
fn loom_a_frame_that_is_not_looked_at_again_fails() {
    explore(3, || a_page_gets_hot_and_leaves(false, true));
}

#[test]
#[should_panic(expected = "a hot link")]
fn loom_an_owner_that_is_only_looked_at_fails() {
    explore(3, || a_page_gets_hot_and_leaves(true, false));
}

/// Two readers, and a thread that unswizzles the link: the link and the owner say the same.
#[test]
fn loom_link_and_owner_agree() {
    explore(3, || {
        let family = Family::new();
        family.swizzle(2, true);
        let threads = [spawn(&family, |f| f.swizzle(2, true)), spawn(&family, Family::let_go)];
        family.let_go();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        family.check(2);
    });
}

fn a_page_is_freed_while_its_link_is_made_plain(waits: bool) {
    let family = Family::new();
    family.swizzle(2, true);
    let other = spawn(&family, Family::let_go);
    family.free(waits);
    other.join().unwrap();
    family.check(3);
}

#[test]
fn loom_who_frees_a_page_waits_for_its_owner() {
    explore(3, || a_page_is_freed_while_its_link_is_made_plain(true));
}

#[test]
#[should_panic(expected = "has an owner")]
fn loom_who_does_not_wait_for_the_owner_fails() {
    explore(3, || a_page_is_freed_while_its_link_is_made_plain(false));
}

/// A page with a swizzled link stays, however the two meet.
#[test]
fn loom_a_parent_stays() {
    explore(3, || {
        let family = Family::new();
        let heats = spawn(&family, |f| {
            // S1: the child, as a parent, shared.
            let Some(word) = f.child.cell().try_share() else { return };
            if f.child.is_of(page(2)) {
                let store = || f.grandchild_link.store(4, Relaxed);
                f.grandchild_owner.swizzle(owner(word.frame().get()), || true, store);
            }
            f.child.cell().unshare();
        });
        family.evict(true);
        heats.join().unwrap();
        if family.grandchild_link.load(Relaxed) != 0 {
            assert_eq!(family.child.page(), page(2), "a parent has left");
        }
        assert_ne!(family.owner.get(), Owner::Busy);
    });
}
