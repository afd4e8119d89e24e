//! Inserting and removing vectors: one edit each.

use polder_pool::Translation;
use polder_structure::edit;

use super::IvfIndex;
use crate::element::VectorRef;
use crate::error::VectorError;
use crate::node_id::NodeId;
use crate::pages::is_own;

impl<T: Translation> IvfIndex<T> {
    /// Inserts a vector with a label, which need not be the only one that has it, into the list of the
    /// nearest centroid. Gives where it lies, for [`IvfIndex::remove`].
    ///
    /// # Errors
    /// Those of a vector that is not one of the index, and those of loading, making and logging pages.
    /// Nothing was inserted then.
    pub fn insert<'v>(
        &self,
        label: u64,
        vector: impl Into<VectorRef<'v>>,
    ) -> Result<NodeId, VectorError> {
        let vector = self.core.layouts.vectors.distances.vector(vector.into())?;
        let list = self.nearest_list(&vector)?;
        Ok(edit(&self.space, |edit| self.lists().insert(edit, list, label, &vector))?)
    }

    /// Removes the vector that was inserted with this label and lies there. Whether it was there. Its
    /// place is free.
    ///
    /// # Errors
    /// Those of loading and logging pages. Nothing was removed then.
    pub fn remove(&self, label: u64, node: NodeId) -> Result<bool, VectorError> {
        if !self.is_page_of_its_own(node)? {
            return Ok(false);
        }
        Ok(edit(&self.space, |edit| self.lists().remove(edit, node, label))?)
    }

    /// Whether the page of a node that a caller gives is one that may be looked at.
    pub(super) fn is_page_of_its_own(&self, node: NodeId) -> Result<bool, VectorError> {
        Ok(is_own(&self.space, node.page())?)
    }
}
