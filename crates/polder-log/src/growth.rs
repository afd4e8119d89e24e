//! Making the log file longer, before it is needed. A log begins with a few small segments, and
//! each one that comes is twice as large as the one before it, up to a size: so a store of which
//! little is asked takes little, and one that writes much soon has what it wants.
//!
//! The file grows by the next of its stretches (`LogHeader::regions`), and those may be slots of
//! the double-write buffer. What was made is part of the file when somebody syncs it; a crash
//! before that loses it together with all that was written there, of which nobody was promised
//! anything.

#![cfg(not(loom))]

use std::thread;

use polder_format::log::RegionKind;
use polder_pool::event;

use crate::file::{Fresh, make_region};
use crate::log::Log;
use crate::room::{most_bytes, spare_bytes};
use crate::sync::lock;

/// How often a thread looks whether reservations that were counted have been refused meanwhile.
const LOOKS: usize = 20;
/// So many bytes of the log are made ahead, in greatest segments; but not more than the file has.
const SEGMENTS_AHEAD: u64 = 3;

impl Log {
    /// One more segment, if the limit allows it and the device has room. The caller holds `growth`.
    fn grow(&self, fresh: Fresh, meanwhile: &mut dyn FnMut()) -> bool {
        let own = self.reservations.kept_for_own();
        let capacity = lock(&self.space.segments).capacity();
        if capacity >= most_bytes(&self.space, own) || lock(&self.reservations.room).no_growth {
            return false;
        }
        self.add(RegionKind::Segment, fresh, meanwhile)
    }

    /// Makes the file longer up to its next stretch of this kind. False: the device has no room, or the
    /// log has failed.
    /// The caller holds `growth`.
    fn add(&self, kind: RegionKind, fresh: Fresh, meanwhile: &mut dyn FnMut()) -> bool {
        // The last stretch may have been cut off, and the device full.
        let mut went_well = lock(&self.space.segments).complete();
        if !went_well {
            lock(&self.reservations.room).no_growth = true;
        }
        while went_well {
            let Some(region) = lock(&self.space.segments).next_region() else { break };
            match make_region(&*self.space.device, &region, fresh, meanwhile) {
                // So that no thread that waits for a sync waits for the zeros as well. That it
                // failed is found out by every thread that syncs or asks for room.
                Ok(()) if fresh == Fresh::Written && self.sync_device(0).is_err() => {
                    went_well = false;
                }
                Ok(()) => {
                    if fresh == Fresh::Written {
                        self.written.add_zeros(region.bytes);
                    }
                    lock(&self.space.segments).add(region);
                    if region.kind == RegionKind::Slot {
                        self.double_write.add(region);
                    }
                    event!(debug, bytes = region.end(), "the log has grown");
                }
                // The log makes do with what it has.
                Err(error) => {
                    event!(warn, error = error, "the log cannot grow");
                    lock(&self.reservations.room).no_growth = true;
                    went_well = false;
                }
            }
            if region.kind == kind {
                break;
            }
        }
        self.reservations.set_ceiling(&self.space);
        went_well
    }

    /// `LOG-7`: sees to it that so many bytes can be appended without a reservation, whatever the
    /// limit: for the log's own groups, by which it is made shorter, and opened. False: the device
    /// has no room, or the log has failed.
    pub(crate) fn make_room_for_own(&self, bytes: u64) -> bool {
        let _growing = lock(&self.space.growth);
        loop {
            let end = lock(&self.space.segments).end_of_room();
            self.reservations.lower_ceiling(end.saturating_sub(bytes));
            // Again where it seems not so: what is refused is counted for a moment.
            for _ in 0..LOOKS {
                if self.tail.end_with_reserved() + bytes <= end {
                    return true;
                }
                thread::yield_now();
            }
            // This sets the ceiling again, also where it fails.
            if !self.add(RegionKind::Segment, Fresh::Allocated, &mut || ()) {
                return false;
            }
        }
    }

    /// Sees to it that there are free segments before they are needed; made in the best way, if
    /// there is time and a thread that gains by it.
    pub(crate) fn prepare(&self, has_time: bool) {
        let lacks = || {
            let segments = lock(&self.space.segments);
            let ahead = SEGMENTS_AHEAD * segments.header().segment_bytes;
            segments.free_bytes() < ahead.min(segments.capacity() / 2)
        };
        if !lacks() {
            return;
        }
        let _growing = lock(&self.space.growth);
        let best = self.commit.take_awaited() && has_time;
        let fresh = if best { Fresh::Written } else { Fresh::Allocated };
        // The ring fills up meanwhile; a thread that appends is told if it cannot be written.
        while lacks() && self.grow(fresh, &mut || drop(self.write_complete())) {}
    }

    /// Makes the file longer if reservations end below `end`. True: there may be room now.
    pub(crate) fn grow_to(&self, end: u64) -> bool {
        let _growing = lock(&self.space.growth);
        let (mut grew, is_short) = (false, || end > self.reservations.ceiling());
        while is_short() && self.grow(Fresh::Allocated, &mut || ()) {
            grew = true;
        }
        if grew {
            // It makes what comes next before somebody must wait for it.
            let _ = self.wal_writer.wake();
        }
        grew || !is_short()
    }

    /// What a checkpoint makes room for, with the segments that there are, if its own groups take
    /// so many bytes.
    pub(crate) fn room_at_least(&self, own: u64) -> u64 {
        let segments = lock(&self.space.segments);
        let capacity = segments.capacity();
        // The stretch that remains may begin anywhere in its segment.
        let largest = segments.all().iter().map(|segment| segment.region.share()).max();
        let spare = spare_bytes(capacity, segments.header());
        // Behind the start lies what the last checkpoint has appended.
        capacity.saturating_sub(spare + 2 * own + largest.unwrap_or(0))
    }

    /// How many pages one slot of the double-write buffer has room for, if so many are wanted: as
    /// many, or fewer where the device has no room for a larger slot.
    pub(crate) fn slot_for(&self, pages: usize) -> usize {
        let most = self.double_write.most_pages();
        if most >= pages {
            return pages;
        }
        let _growing = lock(&self.space.growth);
        let is_short = || self.double_write.most_pages() < pages && self.double_write.may_grow();
        while is_short() && self.add(RegionKind::Slot, Fresh::Allocated, &mut || ()) {}
        self.double_write.most_pages().min(pages).max(1)
    }

    /// One more slot, if there may be more. `is_stuck`: nothing goes on without it, so that it is
    /// tried even where the file could not be made longer before.
    pub(crate) fn add_slot(&self, is_stuck: bool) -> bool {
        let _growing = lock(&self.space.growth);
        self.double_write.may_grow()
            && (is_stuck || !lock(&self.reservations.room).no_growth)
            && self.add(RegionKind::Slot, Fresh::Allocated, &mut || ())
    }
}
