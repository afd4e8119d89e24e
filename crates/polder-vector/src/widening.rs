//! What searches find, one after the other, by wider and wider searches.

use std::collections::{HashSet, VecDeque};
use std::hash::Hash;
use std::iter;

use crate::element::{VectorBuf, VectorRef};
use crate::error::VectorError;
use crate::index::{FoundIter, VectorIndex};
use crate::options::IndexOptions;
use crate::search::Search;

/// As many are looked for at first.
const FIRST: usize = 16;

/// What is found one after the other, up to `most`, by searches for twice as many each time: of each, what no
/// earlier one has given. `search` is given how many it is to find, and says whether there are no more; `key` tells
/// what is found apart. Where a search costs by how much it finds, all of them cost about twice what the
/// last one does; one that compares with all does that each time.
///
/// ```
/// let squares = |count: usize| {
///     Ok::<_, String>(((0..count.min(40)).map(|n| n * n).collect(), count > 40))
/// };
/// let found: Result<Vec<usize>, String> = polder_vector::widening(usize::MAX, squares, |n| *n).collect();
/// assert_eq!(found?.len(), 40);
/// # Ok::<(), String>(())
/// ```
///
/// # Errors
/// The iterator ends with the first error of a search.
pub fn widening<F, K: Eq + Hash, E>(
    most: usize,
    mut search: impl FnMut(usize) -> Result<(Vec<F>, bool), E>,
    key: impl Fn(&F) -> K,
) -> impl Iterator<Item = Result<F, E>> {
    let (mut given, mut ready) = (HashSet::new(), VecDeque::new());
    let (mut count, mut is_over) = (FIRST.min(most), false);
    let next = move || {
        while ready.is_empty() && !is_over {
            match search(count) {
                Ok((found, is_last)) => {
                    is_over = is_last || count == most;
                    ready.extend(found.into_iter().filter(|one| given.insert(key(one))));
                    count = count.saturating_mul(2).min(most);
                }
                Err(error) => {
                    is_over = true;
                    return Some(Err(error));
                }
            }
        }
        ready.pop_front().map(Ok)
    };
    iter::from_fn(next).take(most)
}

impl IndexOptions {
    /// How wide a search is that is to find `count`, where one of this width finds the first few: a graph
    /// keeps as many more in sight, and of lists as many times more are looked at.
    pub fn width_for(&self, count: usize, width: usize) -> usize {
        match self {
            IndexOptions::Ivf(_) => width.max(1).saturating_mul(count.div_ceil(FIRST)),
            IndexOptions::Hnsw(_) | IndexOptions::Vamana(_) => width.saturating_add(count),
        }
    }
}

/// The nearest in an index that has no better way.
pub(crate) fn nearest<'i>(
    index: &'i impl VectorIndex,
    query: VectorRef<'_>,
    search: &Search<'i>,
) -> FoundIter<'i> {
    let (query, search, options) = (VectorBuf::from(query), *search, index.options());
    let find = move |count| {
        let search = Search { count, width: options.width_for(count, search.width), ..search };
        let found = index.search(query.view(), &search)?.found;
        let is_last = found.len() < count;
        Ok::<_, VectorError>((found, is_last))
    };
    Box::new(widening(search.count, find, |found| (found.label, found.node)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_given_once_and_no_more_than_are_wanted() {
        // A wider search finds one that a narrower one has missed, and one finds fewer than there are.
        let find = |count: usize| -> Result<(Vec<usize>, bool), &str> {
            let found = 0..if count == 32 { 20 } else { count };
            Ok((found.map(|n| if count < 40 && n == 3 { 1000 } else { n }).collect(), false))
        };
        let take = |most| widening(most, find, |n| *n).map(Result::unwrap).collect::<Vec<_>>();
        assert_eq!(take(0), []);
        assert_eq!(take(5), [0, 1, 2, 1000, 4]);
        let many = take(100);
        assert_eq!(many.len(), 100);
        assert!(many.contains(&3) && HashSet::<_>::from_iter(&many).len() == 100);
        let mut calls = 0;
        let fails = |count| {
            calls += 1;
            if calls == 1 { Ok((vec![0; count], false)) } else { Err("no") }
        };
        let found: Vec<_> = widening(usize::MAX, fails, |n| *n).collect();
        assert_eq!(found, [Ok(0), Err("no")]);
    }
}
