//! What promotions are worth, by pages whose accesses and times are given.

use polder_format::{PageId, PageNo, SpaceId};

use super::Observed;
use crate::latch::FrameId;
use crate::tier::TierNo;
use crate::tier::costs::Costs;

const FAST: TierNo = TierNo::FIRST;
/// Frames of the faster tier; as many are behind it.
const FRAMES: u32 = 100;
/// Promotions until Dr is decided on.
const COHORT: u32 = 16;
/// With which Dr begins.
const BEGIN: f64 = 0.1;
/// An exchange costs as much as 20 accesses to the slower tier; 80 accesses have paid in any case.
const COSTS: Costs = Costs { slower: [0.0, 1000.0, 0.0, 0.0], load: 1e6, page_move: 10_000.0 };
const ENOUGH: u32 = 80;
const STAY: u64 = 1_000_000;

fn slow() -> TierNo {
    TierNo::new(1)
}

/// The page of this number, which is also that of its frame, in either tier.
fn page(number: u32) -> PageId {
    PageId::new(SpaceId::CATALOGUE, PageNo::new(u64::from(number) + 1).unwrap())
}

fn frame(number: u32) -> FrameId {
    FrameId::new(number)
}

fn frame_behind(number: u32) -> FrameId {
    FrameId::new(FRAMES + number)
}

/// All pages of a pool, observed, and the time.
struct Pages {
    observed: Observed,
    now: u64,
}

impl Pages {
    fn new() -> Pages {
        Pages { observed: Observed::new(2 * FRAMES, FRAMES, COSTS, BEGIN), now: 1 }
    }

    fn access(&self, frame: FrameId, tier: TierNo, times: u32) {
        (0..times).for_each(|_| _ = self.observed.accessed(frame, tier, || self.now));
    }

    /// A page comes into the slower tier, and goes up after so many accesses.
    fn promote(&self, number: u32, accesses: u32) {
        self.observed.loaded(frame_behind(number), page(number), slow(), || self.now);
        self.access(frame_behind(number), slow(), accesses);
        let frames = (frame_behind(number), frame(number));
        self.observed.moved(frames, page(number), (slow(), FAST), || self.now);
    }

    fn demote(&self, number: u32) {
        let frames = (frame(number), frame_behind(number));
        self.observed.moved(frames, page(number), (FAST, slow()), || self.now);
    }

    /// Pages go up after so many accesses, have so many there, and leave memory.
    fn promotions(&mut self, count: u32, (before, there): (u32, u32)) {
        (1..=count).for_each(|number| self.promote(number, before));
        (1..=count).for_each(|number| self.access(frame(number), FAST, there));
        self.now += STAY;
        (1..=count).for_each(|number| self.observed.left(frame(number), || self.now));
    }

    fn read_promotes(&self) -> f64 {
        self.observed.tune(&COSTS, self.now)
    }
}

#[test]
fn promotions_that_pay_raise_dr_and_others_lower_it() {
    // Each costs as much as 20 accesses.
    for (there, dr) in [(30, 2.0 * BEGIN), (10, BEGIN / 2.0)] {
        let mut pages = Pages::new();
        pages.promotions(COHORT - 1, (5, there));
        assert_eq!(pages.read_promotes(), BEGIN, "one is missing");
        pages.promotions(1, (5, there));
        assert_eq!(pages.read_promotes(), dr);
        assert_eq!(pages.read_promotes(), dr, "once for a cohort");
        assert_eq!(pages.observed.tracked_pages(), 0);
    }
}

/// By the part of its accesses for which it waits.
#[test]
fn a_promotion_counts_by_how_often_it_would_be_made() {
    let mut pages = Pages::new();
    // 40 times 1 / 61 for each, and - 20 for each.
    pages.promotions(COHORT / 2, (1, 60));
    pages.promotions(COHORT / 2, (40, 0));
    assert_eq!(pages.read_promotes(), BEGIN / 2.0);
}

#[test]
fn what_pages_that_make_room_would_have_got_is_lost() {
    let mut pages = Pages::new();
    pages.promote(50, 5);
    pages.demote(50);
    pages.access(frame_behind(50), slow(), 15);
    pages.now += STAY;
    pages.observed.left(frame_behind(50), || pages.now);
    // 30 - 15 accesses are fewer than 20.
    pages.promotions(COHORT, (5, 30));
    assert_eq!(pages.read_promotes(), BEGIN / 2.0);
}

/// `TUNE-2`
#[test]
fn a_demoted_page_that_stays_has_its_part_in_their_rate() {
    let mut pages = Pages::new();
    pages.promotions(1, (5, 30));
    pages.promote(50, 5);
    // Worth as much as it costs.
    pages.access(frame(50), FAST, 20);
    pages.demote(50);
    pages.access(frame_behind(50), slow(), 15);
    pages.now += 2 * STAY;
    assert!(pages.observed.counts(frame_behind(50)));
    assert_eq!(pages.read_promotes(), BEGIN);
    // It is known by now; and 26 accesses less 7.5 in a stay are fewer than 20.
    pages.access(frame_behind(50), slow(), 15);
    pages.promotions(COHORT - 2, (5, 26));
    assert_eq!(pages.read_promotes(), BEGIN / 2.0);
}

#[test]
fn a_page_that_goes_on_in_another_frame_is_the_same_page() {
    let mut pages = Pages::new();
    (1..=COHORT).for_each(|number| pages.promote(number, 5));
    (1..=COHORT).for_each(|number| pages.access(frame(number), FAST, 15));
    for number in 1..=COHORT {
        let to = frame(number + 2 * COHORT);
        pages.observed.relocated(frame(number), to);
        assert_eq!([frame(number), to].map(|at| pages.observed.counts(at)), [false, true]);
        pages.access(to, FAST, 15);
    }
    // Others come where they were.
    pages.now += STAY;
    (1..=COHORT).for_each(|number| pages.observed.left(frame(number), || pages.now));
    assert_eq!(pages.read_promotes(), BEGIN);
    (1..=COHORT).for_each(|number| pages.observed.left(frame(number + 2 * COHORT), || pages.now));
    assert_eq!((pages.read_promotes(), pages.observed.tracked_pages()), (2.0 * BEGIN, 0));
}

#[test]
fn promoted_pages_that_stay_are_not_waited_for_for_ever() {
    let mut pages = Pages::new();
    pages.promotions(1, (5, 30));
    (2..=COHORT).for_each(|number| pages.promote(number, 5));
    (2..=COHORT).for_each(|number| pages.access(frame(number), FAST, 70));
    pages.now += 7 * STAY;
    assert_eq!(pages.read_promotes(), BEGIN);
    pages.now += 2 * STAY;
    assert_eq!(pages.read_promotes(), 2.0 * BEGIN);
    // Of the pages that are left nothing more is asked.
    assert!((2..=COHORT).all(|number| pages.observed.counts(frame(number))));
    (2..=COHORT).for_each(|number| pages.observed.left(frame(number), || pages.now));
    assert_eq!((pages.read_promotes(), pages.observed.tracked_pages()), (2.0 * BEGIN, 0));
}

/// `TUNE-2`, `TUNE-4`
#[test]
fn a_page_that_is_used_all_the_time_is_not_heard_of_for_ever() {
    let pages = Pages::new();
    pages.promote(1, 5);
    let is_counted = || pages.observed.accessed(frame(1), FAST, || pages.now);
    assert!((0..ENOUGH).all(|_| is_counted()));
    assert!(!is_counted() && !pages.observed.counts(frame(1)));
    assert_eq!(pages.observed.tracked_pages(), 1);
    pages.observed.left(frame(1), || pages.now);
    assert_eq!(pages.observed.tracked_pages(), 0);
}

/// However little they are worth: it shall be found out when they are worth something again.
#[test]
fn some_pages_are_always_promoted() {
    let mut pages = Pages::new();
    for _ in 0..20 {
        pages.promotions(COHORT, (5, 0));
        pages.read_promotes();
    }
    let dr = pages.read_promotes();
    assert!((0.001..0.002).contains(&dr), "{dr}");
    for _ in 0..20 {
        pages.promotions(COHORT, (5, 50));
        pages.read_promotes();
    }
    assert_eq!(pages.read_promotes(), 1.0);
}
