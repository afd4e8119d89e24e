//! A set of numbers as runs that never touch.

use std::collections::BTreeMap;

/// A set of numbers: start and length of each run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Runs(BTreeMap<u64, u64>);

impl Runs {
    /// Adds a run, no number of which is there.
    pub(crate) fn insert(&mut self, mut start: u64, mut len: u64) {
        if let Some((&before, &before_len)) = self.0.range(..start).next_back()
            && before + before_len == start
        {
            self.0.remove(&before);
            (start, len) = (before, before_len + len);
        }
        if let Some(behind) = self.0.remove(&(start + len)) {
            len += behind;
        }
        self.0.insert(start, len);
    }

    /// Removes a run that lies within one, or is not there at all.
    pub(crate) fn remove(&mut self, start: u64, len: u64) {
        let Some((&first, &all)) = self.0.range(..=start).next_back() else { return };
        if start + len > first + all {
            return;
        }
        self.0.remove(&first);
        if first < start {
            self.0.insert(first, start - first);
        }
        let (end, all_end) = (start + len, first + all);
        if end < all_end {
            self.0.insert(end, all_end - end);
        }
    }

    /// The first number behind the run that holds this one.
    pub(crate) fn end_of_run(&self, number: u64) -> Option<u64> {
        let (start, len) = self.0.range(..=number).next_back()?;
        (number < start + len).then_some(start + len)
    }

    /// Whether a number from `from` up to below `to` is there.
    pub(crate) fn any_within(&self, from: u64, to: u64) -> bool {
        self.last_end_within(from, to).is_some()
    }

    /// The end of the last run that has a number from `from` up to below `to`.
    pub(crate) fn last_end_within(&self, from: u64, to: u64) -> Option<u64> {
        let (start, len) = self.0.range(..to).next_back()?;
        (start + len > from).then_some(start + len)
    }

    /// The lowest run of at least `len` numbers that begins below `limit`.
    pub(crate) fn first_of(&self, len: u64, limit: u64) -> Option<u64> {
        let (start, _) = self.0.range(..limit).find(|(_, there)| **there >= len)?;
        Some(*start)
    }

    /// All runs, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().map(|(start, len)| (*start, *len))
    }

    /// The last run.
    pub(crate) fn last(&self) -> Option<(u64, u64)> {
        self.0.last_key_value().map(|(start, len)| (*start, *len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_join_and_part_as_a_set_would() {
        let mut runs = Runs::default();
        let mut model = std::collections::BTreeSet::new();
        let mut random = 12345u64;
        for _ in 0..5000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let number = random >> 33 & 63;
            if model.insert(number) {
                runs.insert(number, 1);
            } else {
                model.remove(&number);
                runs.remove(number, 1);
            }
            for n in 0..64 {
                assert_eq!(runs.end_of_run(n).is_some(), model.contains(&n));
                assert_eq!(runs.any_within(n, n + 3), model.range(n..n + 3).next().is_some());
                let last = model.range(n..n + 3).next_back();
                let end = last.map(|last| (*last..).find(|n| !model.contains(n)).unwrap());
                assert_eq!(runs.last_end_within(n, n + 3), end);
            }
            let pairs: Vec<_> = runs.0.iter().map(|(s, l)| (*s, s + l)).collect();
            assert!(pairs.windows(2).all(|pair| pair[0].1 < pair[1].0), "runs touch");
        }
    }
}
