//! What an update makes of a key.

/// What to do with a key: the answer of the closure of
/// [`Table::update_with`](crate::Table::update_with) and
/// [`WriteBatch::update_with`](crate::WriteBatch::update_with).
///
/// ```
/// use polder::Change;
///
/// /// Takes one away, and the key with the last one.
/// fn take_one(stock: Option<&[u8]>) -> Change {
///     match stock {
///         None => Change::Keep,
///         Some([0 | 1]) => Change::Remove,
///         Some(stock) => Change::Insert(vec![stock[0] - 1]),
///     }
/// }
/// assert_eq!(take_one(Some(&[3])), Change::Insert(vec![2]));
/// assert_eq!(take_one(Some(&[1])), Change::Remove);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// Leave it as it is.
    Keep,
    /// Give it this value, whether it was there or not.
    Insert(Vec<u8>),
    /// Remove it, if it is there.
    Remove,
}

impl Change {
    /// The same, as a tree takes it.
    #[inline]
    pub(crate) fn into_tree(self) -> polder_tree::Change {
        match self {
            Change::Keep => polder_tree::Change::Keep,
            Change::Insert(value) => polder_tree::Change::Insert(value),
            Change::Remove => polder_tree::Change::Remove,
        }
    }
}
