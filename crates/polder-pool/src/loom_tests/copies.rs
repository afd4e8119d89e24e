//! Copies of nodes: `paging/shadow.rs` and `operation/snapshot.rs`.

use super::*;

use crate::latch::slice::{Slice, all_free, all_left};

/// A node that has two frames to be in, and the slices of each. Its bytes say how often it changed,
/// or that a frame is a stranger's.
struct Node {
    cell: StateCell,
    wraps: WrapCount,
    frames: [Bytes; 2],
    versions: [AtomicU32; 2],
    slices: [[Slice; 2]; 2],
    changes: ghost::AtomicU64,
}

const STRANGERS: u64 = 77;

/// Whether no thread holds a retired frame, as another thread would find it out.
type IsLeft = fn(&[Slice; 2]) -> bool;
/// How a reader holds the frame that it has seen.
type TakeHold = fn(&Node, StateWord) -> bool;

impl Node {
    fn resident() -> Arc<Node> {
        let node = Node {
            cell: StateCell::new(),
            wraps: WrapCount::default(),
            frames: Default::default(),
            versions: Default::default(),
            slices: Default::default(),
            changes: Default::default(),
        };
        assert!(node.cell.claim());
        let word = StateWord::free(FrameId::new(1), version(0));
        node.cell.publish(word, &ParkingLot::new());
        Arc::new(node)
    }

    fn at(frame: FrameId) -> usize {
        frame.get() as usize - 1
    }

    fn hold(&self, seen: StateWord) -> bool {
        self.slices[Node::at(seen.frame())][0].hold(&self.cell, seen)
    }

    /// A reader: what it holds is one state of the node, twice the same.
    fn snapshot(&self, hold: TakeHold) {
        let seen = self.cell.read();
        if seen.can_be_held() && hold(self, seen) {
            let at = Node::at(seen.frame());
            let (first, second) = (self.frames[at].read(), self.frames[at].read());
            assert!(first.0 == first.1 && first == second, "COW-2: what is held changed");
            assert!(first.0 < STRANGERS, "COW-3: a frame that is held was given away");
            self.slices[at][0].release();
        }
    }

    /// A reader that holds nothing: what it validates is one state, that of the word.
    fn optimistic(&self) {
        let begun = self.wraps.get();
        let seen = self.cell.read();
        if seen.is_readable() {
            let values = self.frames[Node::at(seen.frame())].read();
            if self.cell.validate(seen, &self.wraps, begun) {
                assert!(values.0 == values.1 && values.0 < STRANGERS, "a mix was validated");
            }
        }
    }

    /// C2 to C7, to the other frame, which is ours. The frame that was left.
    fn change(&self) -> Option<usize> {
        let held = self.cell.begin_copy(self.cell.read())?;
        let from = Node::at(held.frame());
        let to = 1 - from;
        fence(loom::sync::atomic::Ordering::Release);
        self.frames[to].write(self.frames[from].read().0 + 1);
        let (left_at, _) = self.wraps.next(held.version());
        self.versions[from].store(left_at.get(), Relaxed);
        let new = version(self.versions[to].load(Relaxed));
        self.cell.release_moved(held, FrameId::new(to as u32 + 1), new);
        Some(from)
    }

    /// The same in its place: C3.
    fn change_here(&self) -> bool {
        let Some(held) = self.cell.begin_copy(self.cell.read()) else { return false };
        let held = self.cell.seal(held);
        let at = Node::at(held.frame());
        if !all_free(&self.slices[at]) {
            self.cell.put_back(held);
            return false;
        }
        self.frames[at].write(self.frames[at].read().0 + 1);
        let (next, _) = self.wraps.next(held.version());
        self.cell.release(held, next);
        true
    }

    fn count(&self, changed: bool) {
        self.changes.fetch_add(u64::from(changed), ghost::Ordering::Relaxed);
    }
}

fn frame_of_a_stranger(hold: TakeHold, is_left: IsLeft) {
    explore(3, move || {
        let node = Node::resident();
        let writer = spawn(&node, move |node| {
            let left = node.change().unwrap();
            if is_left(&node.slices[left]) {
                fence(loom::sync::atomic::Ordering::Release);
                node.frames[left].write(STRANGERS);
            }
        });
        node.snapshot(hold);
        writer.join().unwrap();
    });
}

fn left(slices: &[Slice; 2]) -> bool {
    all_left(slices)
}

#[test]
fn loom_a_frame_that_is_held_is_not_given_away() {
    frame_of_a_stranger(Node::hold, left);
}

#[test]
#[should_panic(expected = "COW-")]
fn loom_frames_given_away_whatever_the_look_says_fail() {
    frame_of_a_stranger(Node::hold, |slices| {
        let _ = all_left(slices);
        true
    });
}

/// The store of the word is no SeqCst one: without a fence behind it both sides can miss the other.
#[test]
#[should_panic(expected = "COW-")]
fn loom_a_look_without_a_fence_fails() {
    frame_of_a_stranger(Node::hold, |slices| {
        slices.iter().all(|slice| slice.raw().load(Acquire) == 0)
    });
}

/// A thread that does not look at the word again may hold a frame that was given away before.
#[test]
#[should_panic(expected = "COW-")]
fn loom_a_holder_that_does_not_look_again_fails() {
    let blindly = |node: &Node, seen: StateWord| {
        node.slices[Node::at(seen.frame())][0].raw().fetch_add(1, AcqRel);
        true
    };
    frame_of_a_stranger(blindly, left);
}

/// Two changes by copies, each to the frame that the other left, as soon as nobody holds it.
#[test]
fn loom_frames_are_used_again_when_their_readers_have_gone() {
    explore(3, || {
        let node = Node::resident();
        let writer = spawn(&node, |node| {
            let left = node.change().unwrap();
            if all_left(&node.slices[left]) {
                node.change().unwrap();
            }
        });
        node.snapshot(Node::hold);
        node.optimistic();
        writer.join().unwrap();
    });
}

/// A change by a copy, one in its place, and readers of both kinds.
#[test]
fn loom_copies_and_changes_in_place_get_on() {
    explore(2, || {
        let node = Node::resident();
        let copier = spawn(&node, |node| node.count(node.change().is_some()));
        let writer = spawn(&node, |node| node.count(node.change_here()));
        node.snapshot(Node::hold);
        join([copier, writer]);
        node.optimistic();
        let word = node.cell.read();
        let at = Node::at(word.frame());
        assert!(word.is_free());
        assert_eq!(node.frames[at].read().0, node.changes.load(ghost::Ordering::Relaxed));
    });
}

/// A parent and its child, which one change turns from 0 to 1: the child in its place, then the
/// parent by a copy. A reader comes from one to the other as all optimistic readers do.
fn parent_and_child(stands: fn(StateWord, StateWord) -> bool) {
    explore(3, move || {
        let both = Arc::new((Node::resident(), Node::resident()));
        let reader = spawn(&both, move |(parent, child)| {
            let above = parent.cell.read();
            let said = parent.frames[Node::at(above.frame())].read().0;
            let begun = child.wraps.get();
            let below = child.cell.read();
            fence(Acquire);
            if above.can_be_held() && stands(above, parent.cell.read()) && below.is_readable() {
                let values = child.frames[0].read();
                if child.cell.validate(below, &child.wraps, begun) {
                    assert_eq!(values, (said, said), "a child of later than its parent");
                }
            }
        });
        let (parent, child) = (&both.0, &both.1);
        let held = parent.cell.begin_copy(parent.cell.read()).unwrap();
        child.change_here();
        fence(loom::sync::atomic::Ordering::Release);
        parent.frames[1].write(1);
        parent.cell.release_moved(held, FrameId::new(2), version(0));
        reader.join().unwrap();
    });
}

#[test]
fn loom_parent_and_child_change_at_once() {
    parent_and_child(StateWord::still_stands);
}

/// A page that is being copied is as it was, but what it leads to need not be.
#[test]
#[should_panic(expected = "a child of later than its parent")]
fn loom_who_takes_a_page_that_is_copied_for_valid_fails() {
    parent_and_child(StateWord::is_left_alone);
}
