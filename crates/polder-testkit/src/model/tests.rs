use super::*;
use crate::workload::{KeyShape, ValueShape, Workload};

/// A sorted vector, which gets one thing wrong if told so.
#[derive(Default)]
struct Sorted {
    entries: Vec<Entry>,
    keeps_the_removed: bool,
    forgets_to_turn: bool,
}

impl Sorted {
    fn find(&self, key: &[u8]) -> Result<usize, usize> {
        self.entries.binary_search_by(|entry| entry.0.as_slice().cmp(key))
    }
}

impl Ordered for Sorted {
    type Error = String;

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, String> {
        match self.find(key) {
            Ok(at) => self.entries[at].1 = value.to_vec(),
            Err(at) => {
                self.entries.insert(at, (key.to_vec(), value.to_vec()));
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, String> {
        let found = self.find(key);
        if let (Ok(at), false) = (found, self.keeps_the_removed) {
            self.entries.remove(at);
        }
        Ok(found.is_ok())
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, String> {
        Ok(self.find(key).ok().map(|at| self.entries[at].1.clone()))
    }

    fn range(
        &mut self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        reverse: bool,
        limit: usize,
    ) -> Result<Vec<Entry>, String> {
        let inside = |key: &[u8]| {
            let after = match from {
                Bound::Included(from) => key >= from,
                Bound::Excluded(from) => key > from,
                Bound::Unbounded => true,
            };
            after
                && match to {
                    Bound::Included(to) => key <= to,
                    Bound::Excluded(to) => key < to,
                    Bound::Unbounded => true,
                }
        };
        let mut found: Vec<_> =
            self.entries.iter().filter(|entry| inside(&entry.0)).cloned().collect();
        if reverse && !self.forgets_to_turn {
            found.reverse();
        }
        found.truncate(limit);
        Ok(found)
    }
}

fn workload() -> impl Iterator<Item = Op> {
    let keys = KeyShape::Mixed { key_bytes_max: 100 };
    Workload::new(11).keys(keys, 300).values(ValueShape::UpTo(20)).take(20_000)
}

#[test]
fn a_right_structure_passes() {
    let (mut sorted, mut model) = (Sorted::default(), Model::default());
    assert_eq!(compare(workload(), &mut sorted, &mut model), Ok(20_000));
    let all = [Op::everything(false), Op::everything(true), Op::First, Op::Last, Op::Count];
    assert_eq!(compare(all, &mut sorted, &mut model), Ok(5));
    assert!(model.entries.len() > 50);
}

#[test]
fn wrong_ones_are_found_and_described() {
    let mut wrong = Sorted { keeps_the_removed: true, ..Sorted::default() };
    let difference = compare(workload(), &mut wrong, &mut Model::default()).unwrap_err();
    assert!(difference.to_string().contains("expected"), "{difference}");
    let mut wrong = Sorted { forgets_to_turn: true, ..Sorted::default() };
    let difference = compare(workload(), &mut wrong, &mut Model::default()).unwrap_err();
    assert!(matches!(difference.op, Op::Range { reverse: true, .. } | Op::Last));
}

#[test]
fn crossed_bounds_hold_nothing() {
    let mut model = Model::default();
    model.apply(&Op::Insert { key: b"k".to_vec(), value: vec![] });
    let key = || b"k".to_vec();
    for (from, to, count) in [
        (Bound::Included(key()), Bound::Included(key()), 1),
        (Bound::Excluded(key()), Bound::Excluded(key()), 0),
        (Bound::Excluded(key()), Bound::Included(key()), 0),
        (Bound::Included(key()), Bound::Excluded(key()), 0),
        (Bound::Included(b"z".to_vec()), Bound::Included(b"a".to_vec()), 0),
        (Bound::Unbounded, Bound::Included(key()), 1),
    ] {
        let op = Op::Range { from, to, reverse: false, limit: 9 };
        assert!(matches!(model.apply(&op), Answer::Entries(found) if found.len() == count), "{op}");
    }
}

#[test]
fn changes_speak_of_the_old_value() {
    assert_eq!(Change::Append(vec![2]).apply(Some(&[1])), Some(vec![1, 2]));
    assert_eq!(Change::Append(vec![2]).apply(None), Some(vec![2]));
    assert_eq!(Change::Cut(1).apply(Some(&[1, 2])), Some(vec![1]));
    assert_eq!(Change::Cut(9).apply(Some(&[1, 2])), Some(vec![1, 2]));
    assert_eq!(Change::Cut(1).apply(None), None);
    assert_eq!(Change::Remove.apply(Some(&[1])), None);
}

#[test]
fn long_bytes_are_shown_in_brief() {
    assert_eq!(Brief(b"a\n").to_string(), "\"a\\n\"");
    assert_eq!(Brief(&[b'x'; 30]).to_string(), format!("\"{}\"..30 bytes", "x".repeat(24)));
}
