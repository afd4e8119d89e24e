//! Where ranges of keys begin and end.

use std::ops::Bound;

/// The key at which a range begins, and whether it begins behind it; none if it begins with the first.
pub(crate) fn begin_of(lower: Bound<&[u8]>) -> (Option<&[u8]>, bool) {
    match lower {
        Bound::Unbounded => (None, false),
        Bound::Included(key) => (Some(key), false),
        Bound::Excluded(key) => (Some(key), true),
    }
}

/// The key at which a range ends, and whether it ends behind it; none if it ends with the last.
pub(crate) fn end_of(upper: Bound<&[u8]>) -> (Option<&[u8]>, bool) {
    match upper {
        Bound::Unbounded => (None, true),
        Bound::Included(key) => (Some(key), true),
        Bound::Excluded(key) => (Some(key), false),
    }
}

/// Whether no key can lie between two bounds.
pub(crate) fn is_empty(lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> bool {
    match (lower, upper) {
        (Bound::Included(lower), Bound::Included(upper)) => lower > upper,
        (Bound::Included(lower) | Bound::Excluded(lower), Bound::Excluded(upper))
        | (Bound::Excluded(lower), Bound::Included(upper)) => lower >= upper,
        _ => false,
    }
}
