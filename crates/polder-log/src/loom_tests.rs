//! Appending, cutting and giving the ring back, in every order of execution that loom finds, on the
//! code itself.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p polder-log --lib --release loom`

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use loom::thread;

use polder_format::SpaceId;
use polder_testkit::effort::preemptions;

use crate::ring::{Buffer, Change, cut};
use crate::sweep::Sweep;
use crate::sync::{AtomicU64, Ordering};

const RING_BYTES: u64 = 4096;
const GROUP_BYTES: u64 = 48;
const PAD: u64 = u64::MAX;

struct Model {
    buffer: Buffer,
    tail: AtomicU64,
}

impl Model {
    /// As `Log::append` and `Log::put`, if there is room; each byte of the group is its number. (To
    /// wait for room, as they do, beside a leader that waits for groups is more than loom can
    /// follow: it may let these two take turns for ever.)
    fn append(&self, number: u8) -> Option<u64> {
        let has_room = |start: u64| {
            let end = start + GROUP_BYTES;
            self.buffer.has_room(end).then_some(end)
        };
        let start = self.tail.fetch_update(Ordering::AcqRel, Ordering::Acquire, has_room).ok()?;
        let change = Change::One(SpaceId::CATALOGUE, 1);
        self.buffer.ring.put(start, &[number; GROUP_BYTES as usize], change);
        Some(start)
    }

    /// As `Log::cut_and_write`: gives the numbers of the groups below the cut, in their order.
    fn lead(&self, walked: &mut u64) -> Vec<u8> {
        let (tail, cut) = cut(&self.tail);
        let mut numbers = Vec::new();
        while *walked < tail {
            let Some(mark) = self.buffer.ring.take_mark(*walked) else {
                thread::yield_now();
                continue;
            };
            assert_eq!(mark.len(), GROUP_BYTES);
            let words: Vec<u64> =
                (0..GROUP_BYTES / 8).map(|i| self.buffer.ring.word(*walked + 8 * i)).collect();
            assert!(words.windows(2).all(|pair| pair[0] == pair[1]), "{words:x?}");
            numbers.push(words[0] as u8);
            *walked += mark.len();
        }
        if cut > tail {
            self.buffer.ring.put_pad(tail, PAD, cut - tail);
        }
        // What the device reads.
        let mut at = self.buffer.written();
        while at < cut {
            at += self.buffer.ring.piece(at, cut).len as u64;
        }
        *walked = cut;
        self.buffer.give_back(cut);
        numbers
    }
}

/// Two threads append while a third one cuts, which takes the rest of the ring: what comes behind
/// the cut goes into memory that was given back. Every group is seen by one cut, whole, and below
/// it.
#[test]
fn loom_cuts_see_whole_groups() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions());
    builder.check(|| {
        let begin = 0;
        let model = Arc::new(Model {
            buffer: Buffer::new(RING_BYTES, begin).unwrap(),
            tail: AtomicU64::new(begin),
        });
        let other = Arc::clone(&model);
        let one = thread::spawn(move || [other.append(1), other.append(2)]);
        let other = Arc::clone(&model);
        let two = thread::spawn(move || [other.append(3)]);
        let mut walked = begin;
        let mut found = model.lead(&mut walked);
        found.extend(model.lead(&mut walked));
        let (cut, below) = (walked, found.len());
        let starts: Vec<u64> = [one.join().unwrap().to_vec(), two.join().unwrap().to_vec()]
            .into_iter()
            .flatten()
            .flatten()
            .collect();
        assert_eq!(below, starts.iter().filter(|start| **start < cut).count());
        found.extend(model.lead(&mut walked));
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.len(), starts.len());
    });
}

/// `SWEEP-1`, `HALF-1` and `HALF-2`: a page that was imaged at the beginning is split while a checkpoint
/// comes. A group that relies on the image lies below what the checkpoint has noted, or an image follows.
#[test]
fn loom_a_half_relies_on_no_image_before_a_checkpoint() {
    struct Page {
        sweep: Sweep,
        tail: AtomicU64,
        latch: loom::sync::Mutex<()>,
        imaged: AtomicU64,
    }
    loom::model(|| {
        let page = Arc::new(Page {
            sweep: Sweep::default(),
            tail: AtomicU64::new(0),
            latch: loom::sync::Mutex::new(()),
            imaged: AtomicU64::new(1),
        });
        let other = Arc::clone(&page);
        // As `Change::push_right_half` and `Change::append_half`: where it lies, if it relies on the image.
        let splits = thread::spawn(move || {
            let _held = other.latch.lock().unwrap();
            let is_half = !other.sweep.is_under_way() && other.imaged.load(Ordering::Relaxed) == 1;
            let start = other.tail.fetch_add(GROUP_BYTES, Ordering::AcqRel);
            (is_half && !other.sweep.is_under_way()).then_some(start)
        });
        // K1 to K3: the page is copied under its latch (W2 to W4), and is not imaged any more (W6).
        page.sweep.begin();
        let noted = cut(&page.tail).0;
        drop(page.latch.lock().unwrap());
        page.imaged.store(0, Ordering::Relaxed);
        page.sweep.end();
        if let Some(start) = splits.join().unwrap() {
            assert!(start < noted, "a half at {start}, and a checkpoint from {noted} on");
        }
    });
}
