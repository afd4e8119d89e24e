//! Making the log file longer, before it is needed.

#![cfg(not(loom))]

use polder_pool::event;

use crate::file::{Fresh, make_segment};
use crate::log::Log;
use crate::room::SPARE_SEGMENTS;
use crate::sync::lock;

impl Log {
    /// One more segment, if the limit allows it and the device has room. The caller holds `growth`.
    fn grow(&self, fresh: Fresh, meanwhile: &mut dyn FnMut()) -> bool {
        let count = lock(&self.space.segments).count();
        if count >= self.space.limit_segments || lock(&self.reservations.room).no_growth {
            return false;
        }
        self.add_segment(fresh, meanwhile);
        true
    }

    /// The caller holds `growth`.
    fn add_segment(&self, fresh: Fresh, meanwhile: &mut dyn FnMut()) {
        let (count, header) = {
            let segments = lock(&self.space.segments);
            (segments.count(), *segments.header())
        };
        match make_segment(&*self.space.device, &header, count, fresh, meanwhile) {
            // So that no thread that waits for a sync waits for the zeros as well. That it failed
            // is found out by every thread that syncs or asks for room.
            Ok(()) if fresh == Fresh::Written && self.sync_device(0).is_err() => {}
            Ok(()) => {
                lock(&self.space.segments).add();
                event!(debug, segments = count + 1, "the log has grown");
            }
            // The log makes do with what it has.
            Err(error) => {
                event!(warn, segments = count, error = error, "the log cannot grow");
                lock(&self.reservations.room).no_growth = true;
            }
        }
        self.reservations.set_ceiling(&self.space);
    }

    /// For the end-of-recovery record there is room whatever the limit, as long as the device has
    /// some: else a full log could be opened only so many times.
    pub(crate) fn make_room_for_end_of_recovery(&self) {
        let _growing = lock(&self.space.growth);
        if lock(&self.space.segments).free() == 0 {
            self.add_segment(Fresh::Allocated, &mut || ());
        }
    }

    /// Sees to it that there are free segments before they are needed; made in the best way, if
    /// there is time and a thread that gains by it.
    pub(crate) fn prepare(&self, has_time: bool) {
        if lock(&self.space.segments).free() <= SPARE_SEGMENTS {
            let _growing = lock(&self.space.growth);
            let best = self.commit.take_awaited() && has_time;
            let fresh = if best { Fresh::Written } else { Fresh::Allocated };
            // The ring fills up meanwhile; a thread that appends is told if it cannot be written.
            self.grow(fresh, &mut || drop(self.write_complete()));
        }
    }

    /// Makes the file longer if reservations end below `end`. True: there may be room now.
    pub(crate) fn grow_to(&self, end: u64) -> bool {
        let _growing = lock(&self.space.growth);
        end <= self.reservations.ceiling() || self.grow(Fresh::Allocated, &mut || ())
    }

    /// What a checkpoint makes room for, with the segments that there are.
    pub(crate) fn room_at_least(&self) -> u64 {
        let segments = lock(&self.space.segments);
        // The stretch that remains may begin anywhere in its segment.
        (segments.count() - SPARE_SEGMENTS).saturating_sub(1) * segments.header().share()
    }
}
