//! What a loss of power leaves of changes that were not synced.
//!
//! * What was synced stays as it is, but for sectors that a later write was about.
//! * Each unsynced write is kept, dropped or torn, by itself. So a later one may be there
//!   and an earlier one not, which is all that reordering shows after a crash.
//! * A torn write leaves each sector old, new, or (seldom) garbage; on a disk that writes more than a
//!   sector as a whole, each such unit old or new.
//! * Changes of allocation and length are kept up to one of them and dropped from there
//!   on, as by the journal of a file system.

use std::ops::Range;

use super::image::Image;
use crate::random::Random;

/// What a disk writes in one piece.
pub(super) const SECTOR_BYTES: usize = 512;
/// One sector in so many is garbage in a torn write.
const SECTORS_PER_GARBAGE: u64 = 16;
/// One write in so many is torn.
const WRITES_PER_TEAR: u64 = 4;

/// Something that was done to a disk, in the order in which it was.
#[derive(Debug, Clone)]
pub(super) enum Change {
    Write { offset: u64, bytes: Box<[u8]> },
    Allocate(Range<u64>),
    Punch(Range<u64>),
    Truncate(u64),
}

impl Change {
    pub(super) fn apply(&self, image: &mut Image) {
        match self {
            Change::Write { offset, bytes } => image.write(*offset, bytes),
            Change::Allocate(run) => image.allocate(run.clone()),
            Change::Punch(run) => image.punch(run.clone()),
            Change::Truncate(len) => image.truncate(*len),
        }
    }

    /// The bytes that this change has to remember.
    pub(super) fn len(&self) -> u64 {
        match self {
            Change::Write { bytes, .. } => bytes.len() as u64,
            _ => 0,
        }
    }
}

/// Lets a crash decide about `changes`, and applies to `image` what it leaves of them.
pub(super) fn settle<'a, C>(image: &mut Image, changes: C, unit: usize, random: &mut Random)
where
    C: Iterator<Item = &'a Change> + Clone,
{
    let is_write = |change: &Change| matches!(change, Change::Write { .. });
    let others = changes.clone().filter(|change| !is_write(change)).count();
    let mut others_kept = random.index(others + 1);
    // Some crashes lose nearly nothing and some nearly all.
    let kept_share = random.below(5) as f64 / 4.0;
    for change in changes {
        match change {
            Change::Write { offset, bytes } => {
                if random.below(WRITES_PER_TEAR) == 0 {
                    image.write(*offset, &tear(image, *offset, bytes, unit, random));
                } else if random.chance(kept_share) {
                    change.apply(image);
                }
            }
            _ if others_kept > 0 => {
                others_kept -= 1;
                change.apply(image);
            }
            _ => {}
        }
    }
}

/// What lies at `offset` after a write of `bytes` was interrupted.
pub(super) fn tear(
    image: &Image,
    offset: u64,
    bytes: &[u8],
    unit: usize,
    random: &mut Random,
) -> Vec<u8> {
    let mut torn = vec![0; bytes.len()];
    image.read(offset, &mut torn);
    let may_be_garbage = unit == 0;
    let unit = unit.max(SECTOR_BYTES);
    // Requests are aligned to blocks, so that units longer than that may begin before this one.
    let first = (unit - offset as usize % unit).min(bytes.len());
    let (new, old) = (bytes.split_at(first), torn.split_at_mut(first));
    let units = [new.0].into_iter().chain(new.1.chunks(unit));
    for (new, sector) in units.zip([old.0].into_iter().chain(old.1.chunks_mut(unit))) {
        if may_be_garbage && random.below(SECTORS_PER_GARBAGE) == 0 {
            random.fill(sector);
        } else if random.chance(0.5) {
            sector.copy_from_slice(new);
        }
    }
    torn
}
