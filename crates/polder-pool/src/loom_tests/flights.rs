//! Threads that have several faults open at once (`FLIGHT-1`).

use super::*;

/// Two pages that are not resident, and where threads sleep that want them.
#[derive(Default)]
struct Pages {
    cells: [StateCell; 2],
    lot: ParkingLot,
    /// How often each was loaded.
    loads: [AtomicU32; 2],
}

impl Pages {
    /// F5.
    fn begin(&self, page: usize) -> bool {
        self.cells[page].claim()
    }

    /// F8 to F10.
    fn end(&self, page: usize) {
        self.loads[page].fetch_add(1, Relaxed);
        let word = StateWord::free(FrameId::new(page as u32 + 1), version(0));
        self.cells[page].publish(word, &self.lot);
    }

    /// F1.
    fn wait(&self, page: usize) {
        self.cells[page].await_flight(&self.lot);
    }
}

/// Loads both pages, beginning with this one. What is in flight elsewhere is waited for when nothing is
/// open any more, or, against the rule, before.
fn load_both(pages: &Pages, first: usize, by_the_rule: bool) {
    let order = [first, 1 - first];
    let open = order.map(|page| {
        let ours = pages.begin(page);
        if !ours && !by_the_rule {
            pages.wait(page);
        }
        ours
    });
    for (page, _) in order.iter().zip(open).rev().filter(|(_, ours)| *ours) {
        pages.end(*page);
    }
    for page in order {
        pages.wait(page);
        assert!(pages.cells[page].read().is_readable());
    }
}

fn two_threads(by_the_rule: bool) {
    explore(3, move || {
        let pages = Arc::new(Pages::default());
        let threads =
            [0, 1].map(|first| spawn(&pages, move |pages| load_both(pages, first, by_the_rule)));
        join(threads);
        // POOL-1
        assert!(pages.loads.iter().all(|loads| loads.load(Relaxed) == 1));
    });
}

#[test]
fn threads_with_open_faults_do_not_wait_for_each_other() {
    two_threads(true);
}

/// Each has the page in flight that the other waits for.
#[test]
#[should_panic(expected = "deadlock")]
fn threads_that_wait_with_open_faults_stand_still() {
    two_threads(false);
}
