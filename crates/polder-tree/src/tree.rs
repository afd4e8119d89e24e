//! The handle of a tree: making one and opening it.

use std::fmt;

use polder_pool::{Space, Translation};
use polder_structure::create_root;

use crate::error::TreeError;
use crate::node::{NodeMut, NodeRef};

/// A B+tree in a space of a pool. Cheap to clone.
pub struct Tree<T: Translation> {
    pub(crate) space: Space<T>,
}

impl<T: Translation> Clone for Tree<T> {
    fn clone(&self) -> Tree<T> {
        Tree { space: self.space.clone() }
    }
}

impl<T: Translation> fmt::Debug for Tree<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tree({:?})", self.space)
    }
}

impl<T: Translation> Tree<T> {
    /// Makes an empty tree in a new space.
    ///
    /// # Errors
    /// Those of making a page; [`PoolError::Broken`](polder_pool::PoolError::Broken) if the space is
    /// not empty.
    pub fn create(space: Space<T>) -> Result<Tree<T>, TreeError> {
        create_root(&space, "the space of a new tree is not empty", |page| {
            NodeMut::new(page.page_mut()).init(0, None, None, 0, 0);
            NodeRef::new(page.page()).hole()
        })?;
        Ok(Tree { space })
    }

    /// The tree of a space that has one.
    pub fn open(space: Space<T>) -> Tree<T> {
        Tree { space }
    }

    /// Its space.
    pub fn space(&self) -> &Space<T> {
        &self.space
    }
}
