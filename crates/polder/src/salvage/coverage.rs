//! Of which keys of a table the leaves tell that were found.

use std::collections::BTreeMap;

use super::KeyGap;
use super::replay::LeafFound;

/// Keys in order, with something about each. All that a salvage keeps by key has this one type,
/// because every application compiles the code of each.
pub(super) type ByKey = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Stretches of keys, apart from each other: the first key, and the first one behind the stretch
/// (none: it goes to the last key). The empty key is before all others.
#[derive(Debug, Default)]
pub(super) struct Coverage {
    stretches: ByKey,
}

impl Coverage {
    /// The leaf tells all of the keys between its fences, unless it is known to be an old one.
    pub(super) fn add(&mut self, leaf: &LeafFound) {
        if leaf.current {
            self.add_stretch(leaf.lower.clone().unwrap_or_default(), leaf.upper.clone());
        }
    }

    fn add_stretch(&mut self, mut lower: Vec<u8>, mut upper: Option<Vec<u8>>) {
        let reaches = |end: &Option<Vec<u8>>, key: &[u8]| {
            end.as_ref().is_none_or(|end| end.as_slice() >= key)
        };
        if let Some((before, end)) = self.stretches.range(..=lower.clone()).next_back()
            && reaches(end, &lower)
        {
            lower = before.clone();
        }
        // Those that it touches become part of it.
        while let Some((next, _)) = self.stretches.range(lower.clone()..).next()
            && reaches(&upper, next)
        {
            let next = next.clone();
            let end = self.stretches.remove(&next).flatten();
            if upper.as_ref().is_some_and(|upper| reaches(&end, upper)) {
                upper = end;
            }
        }
        self.stretches.insert(lower, upper);
    }

    /// The stretches of which no leaf tells.
    pub(super) fn gaps(&self) -> Vec<KeyGap> {
        let (mut gaps, mut from) = (Vec::new(), Some(Vec::new()));
        for (lower, upper) in &self.stretches {
            if let Some(from) = from.filter(|from| from < lower) {
                gaps.push(KeyGap { from, to: Some(lower.clone()) });
            }
            from = upper.clone();
        }
        if let Some(from) = from {
            gaps.push(KeyGap { from, to: None });
        }
        gaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps(stretches: &[(&str, &str)]) -> Vec<(String, String)> {
        let mut coverage = Coverage::default();
        for (lower, upper) in stretches {
            let upper = (*upper != "end").then(|| upper.as_bytes().to_vec());
            coverage.add_stretch(lower.as_bytes().to_vec(), upper);
        }
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let gap = |gap: KeyGap| (text(gap.from), gap.to.map_or("end".to_string(), text));
        coverage.gaps().into_iter().map(gap).collect()
    }

    #[test]
    fn what_is_not_covered_is_a_gap() {
        let none: [(String, String); 0] = [];
        let gap = |from: &str, to: &str| (from.to_string(), to.to_string());
        assert_eq!(gaps(&[]), [gap("", "end")]);
        assert_eq!(gaps(&[("", "end")]), none);
        assert_eq!(gaps(&[("b", "c"), ("", "b"), ("c", "end")]), none);
        assert_eq!(gaps(&[("c", "end"), ("", "b")]), [gap("b", "c")]);
        assert_eq!(gaps(&[("b", "c"), ("d", "e")]), [gap("", "b"), gap("c", "d"), gap("e", "end")]);
        // One within another, over several, and over the end of one.
        assert_eq!(gaps(&[("", "x"), ("b", "c")]), [gap("x", "end")]);
        assert_eq!(gaps(&[("b", "c"), ("d", "e"), ("a", "z")]), [gap("", "a"), gap("z", "end")]);
        assert_eq!(gaps(&[("", "c"), ("b", "d")]), [gap("d", "end")]);
        assert_eq!(gaps(&[("b", "end"), ("", "c")]), none);
        assert_eq!(gaps(&[("b", "end"), ("c", "d")]), [gap("", "b")]);
    }
}
