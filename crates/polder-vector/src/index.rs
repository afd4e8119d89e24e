//! What all vector indexes can do.

use std::fmt;

use half::{bf16, f16};

use crate::element::{Bits, Element, ElementKind, VectorRef};
use crate::error::VectorError;
use crate::node_id::NodeId;
use crate::options::IndexOptions;
use crate::search::{Answer, Search};
use crate::vectors::Vector;

/// A vector index: its vectors, each with a label, and those nearest to any vector. Each method is that
/// of the same name of the index.
pub trait VectorIndex: Send + Sync {
    /// What it is.
    fn options(&self) -> IndexOptions;

    /// Shows the label of each vector, and where it lies, in no order, until `show` returns false.
    ///
    /// # Errors
    /// Those of the pool.
    fn for_each(&self, show: &mut dyn FnMut(u64, NodeId) -> bool) -> Result<(), VectorError>;

    /// How many bytes its pages are.
    ///
    /// # Errors
    /// Those of the pool.
    fn size_bytes(&self) -> Result<u64, VectorError>;

    /// Inserts a vector. Gives where it lies.
    ///
    /// # Errors
    /// Those of a vector that is not one of the index, and those of the pool.
    fn insert(&self, label: u64, vector: VectorRef<'_>) -> Result<NodeId, VectorError>;

    /// Removes the vector that lies there, if it has this label. Whether it has.
    ///
    /// # Errors
    /// Those of the pool.
    fn remove(&self, label: u64, node: NodeId) -> Result<bool, VectorError>;

    /// The vector that lies there, if it has this label.
    ///
    /// # Errors
    /// Those of the pool.
    fn get(&self, label: u64, node: NodeId) -> Result<Option<VectorBuf>, VectorError>;

    /// Vectors near to `query`, nearest first.
    ///
    /// # Errors
    /// Those of a vector that is not one of the index, and those of the pool.
    fn search(&self, query: VectorRef<'_>, search: &Search<'_>) -> Result<Answer, VectorError>;

    /// The nearest of all, each of which is compared; [`Search::width`] says nothing here.
    ///
    /// # Errors
    /// Those of a vector that is not one of the index, and those of the pool.
    fn search_exact(
        &self,
        query: VectorRef<'_>,
        search: &Search<'_>,
    ) -> Result<Answer, VectorError>;
}

impl fmt::Debug for dyn VectorIndex + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VectorIndex({:?})", self.options())
    }
}

/// A vector with the memory that it is in: a copy of one of an index, or one that is to be inserted.
///
/// ```
/// use polder_vector::{ElementKind, VectorBuf, VectorRef};
///
/// let vector = VectorBuf::from(&[1.0_f32, -0.5]);
/// let again = VectorBuf::from_bytes(ElementKind::F32, &vector.to_bytes());
/// assert_eq!(again.unwrap().elements::<f32>().unwrap(), [1.0, -0.5]);
/// assert!(vector.view(|vector| vector == VectorRef::F32(&[1.0, -0.5])));
/// ```
#[derive(Debug, Clone)]
pub struct VectorBuf {
    pub(crate) kind: ElementKind,
    pub(crate) vector: Vector,
}

impl<'v, V: Into<VectorRef<'v>>> From<V> for VectorBuf {
    fn from(vector: V) -> VectorBuf {
        let vector = vector.into();
        VectorBuf { kind: vector.kind(), vector: Vector::unscaled(vector) }
    }
}

impl VectorBuf {
    /// The vector of bytes that [`VectorBuf::to_bytes`] gave. `None` if its last number is cut off.
    pub fn from_bytes(kind: ElementKind, bytes: &[u8]) -> Option<VectorBuf> {
        kind.dimensions(bytes.len())?;
        Some(VectorBuf { kind, vector: Vector::of_bytes(bytes) })
    }

    /// What `see` makes of it.
    pub fn view<R>(&self, see: impl FnOnce(VectorRef<'_>) -> R) -> R {
        match self.kind {
            ElementKind::F32 => see((&self.vector.elements::<f32>()).into()),
            ElementKind::F16 => see((&self.vector.elements::<f16>()).into()),
            ElementKind::Bf16 => see((&self.vector.elements::<bf16>()).into()),
            ElementKind::I8 => see((&self.vector.elements::<i8>()).into()),
            ElementKind::Bit => see((&self.vector.elements::<Bits>()).into()),
        }
    }

    /// Its numbers, if they are of this kind.
    pub fn elements<E: Element>(&self) -> Option<Vec<E>> {
        (E::KIND == self.kind).then(|| self.vector.elements())
    }

    /// What its numbers are.
    pub fn kind(&self) -> ElementKind {
        self.kind
    }

    /// Its bytes, little-endian.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.vector.to_bytes()
    }
}
