//! What vectors an index is for, and how far two of them are from each other.

use half::{bf16, f16};
use polder_pool::bytes::Run;

use crate::distance::{Kernel, Sum};
use crate::element::{Bits, Element, ElementKind, VectorBuf, VectorRef, from_bytes, to_bytes};
use crate::error::VectorError;
use crate::metric::Metric;
use crate::padded::Padded;

/// What the vectors of an index are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VectorShape {
    /// What their numbers are.
    pub element: ElementKind,
    /// How many numbers each has; of bits, a multiple of 8.
    pub dimensions: usize,
    /// How they are compared.
    pub metric: Metric,
}

/// The greatest length of a vector: the square of twice as much is an f32.
const LONGEST: f64 = 9e18;
/// The least length of a vector whose direction counts: its square is an f32 with all its digits.
const SHORTEST: f64 = 1e-18;
/// Dimensions of the longest vectors: more would not fit the largest page.
pub(crate) const MOST_DIMENSIONS: usize = 1 << 19;

impl VectorShape {
    /// The shape of vectors of so many dimensions, of which a page says the kind of their numbers and their
    /// distance.
    pub(crate) fn in_page(
        element: u8,
        metric: u8,
        dimensions: u32,
    ) -> Result<VectorShape, &'static str> {
        let element = ElementKind::from_byte(element);
        let metric = Metric::from_byte(metric);
        Ok(VectorShape {
            element: element.ok_or("vectors are of an unknown kind of numbers")?,
            dimensions: dimensions as usize,
            metric: metric.ok_or("vectors are compared by an unknown distance")?,
        })
    }

    /// The same, of a page that says how many bytes a vector has.
    pub(crate) fn of_bytes_in_page(
        element: u8,
        metric: u8,
        bytes: u32,
    ) -> Result<VectorShape, &'static str> {
        let shape = VectorShape::in_page(element, metric, 0)?;
        let dimensions = shape.element.dimensions(bytes as usize);
        let dimensions = dimensions.ok_or("the last number of a vector is cut off")?;
        Ok(VectorShape { dimensions, ..shape })
    }

    /// Whether there can be such vectors.
    ///
    /// # Errors
    /// [`VectorError::Option`] for the dimensions, [`VectorError::Metric`].
    pub fn validate(self) -> Result<(), VectorError> {
        let VectorShape { element, dimensions, metric } = self;
        let is_whole = element != ElementKind::Bit || dimensions.is_multiple_of(8);
        if !(1..=MOST_DIMENSIONS).contains(&dimensions) || !is_whole {
            let what = match is_whole {
                true => "the number of dimensions",
                false => "the number of dimensions, in bits and a multiple of 8,",
            };
            let (given, least) = (dimensions, if is_whole { 1 } else { 8 });
            return Err(VectorError::Option { what, given, least, most: MOST_DIMENSIONS });
        }
        match metric.is_for(element) {
            true => Ok(()),
            false => Err(VectorError::Metric { element, metric }),
        }
    }

    /// Whether this is such a vector.
    ///
    /// # Errors
    /// What it is instead: [`VectorError::Elements`], [`VectorError::Dimensions`],
    /// [`VectorError::NotFinite`], [`VectorError::Length`], [`VectorError::NoDirection`].
    pub fn check<'v>(self, vector: impl Into<VectorRef<'v>>) -> Result<(), VectorError> {
        Distances::new(self).vector(vector.into()).map(drop)
    }

    /// Bytes of a vector.
    pub(crate) fn bytes(self) -> usize {
        self.element.bytes(self.dimensions)
    }
}

/// A vector in private memory: one that is looked for or inserted, or a copy of one of a page.
#[derive(Debug, Clone)]
pub(crate) struct Vector {
    /// Its bytes, as they lie in a page.
    bytes: Padded,
    /// What its inner products are multiplied by: under the cosine one by its length, else 1.
    pub(crate) scale: f32,
}

impl Vector {
    /// A copy of these bytes.
    pub(crate) fn copy_of(run: Run<'_>, scale: f32) -> Vector {
        Vector { bytes: Padded::copy_of(run), scale }
    }

    #[inline(always)]
    pub(crate) fn run(&self) -> Run<'_> {
        self.bytes.run()
    }

    /// Its bytes, as they lie in a page.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.bytes.to_bytes()
    }

    fn of<E: Element>(elements: &[E]) -> Vector {
        Vector { bytes: Padded::of(&to_bytes(elements)), scale: 1.0 }
    }

    /// Its numbers, of the kind that they are.
    pub(crate) fn elements<E: Element>(&self) -> Vec<E> {
        from_bytes(&self.to_bytes())
    }

    /// The same, as callers have it.
    pub(crate) fn to_buf(&self, kind: ElementKind) -> VectorBuf {
        match kind {
            ElementKind::F32 => VectorBuf::F32(self.elements()),
            ElementKind::F16 => VectorBuf::F16(self.elements()),
            ElementKind::Bf16 => VectorBuf::Bf16(self.elements()),
            ElementKind::I8 => VectorBuf::I8(self.elements()),
            ElementKind::Bit => VectorBuf::Bit(self.elements()),
        }
    }
}

impl Vector {
    /// Its numbers, times its scale. Those of bits are all zero.
    pub(crate) fn values(&self, element: ElementKind) -> Vec<f32> {
        match element {
            ElementKind::F32 => self.values_of::<f32>(),
            ElementKind::F16 => self.values_of::<f16>(),
            ElementKind::Bf16 => self.values_of::<bf16>(),
            ElementKind::I8 => self.values_of::<i8>(),
            ElementKind::Bit => self.values_of::<Bits>(),
        }
    }

    fn values_of<E: Element>(&self) -> Vec<f32> {
        let elements = self.elements::<E>();
        elements.into_iter().map(|element| element.value() * self.scale).collect()
    }
}

/// Vectors of one shape, with the distance between them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Distances {
    pub(crate) shape: VectorShape,
    kernel: Kernel,
    /// A distance is this, and the other one times what the kernel sums up, and under the cosine times the scales.
    base: f32,
    factor: f32,
}

impl Distances {
    pub(crate) fn new(shape: VectorShape) -> Distances {
        let sum = match shape.metric {
            Metric::L2 => Sum::SquaredDifferences,
            Metric::InnerProduct | Metric::Cosine => Sum::Products,
            Metric::Hamming => Sum::DifferentBits,
        };
        let (base, factor) = match sum {
            Sum::Products => (1.0, -1.0),
            Sum::SquaredDifferences | Sum::DifferentBits => (0.0, 1.0),
        };
        Distances { shape, kernel: Kernel::of(shape.element, sum), base, factor }
    }

    /// Whether distances depend on the scales of vectors.
    pub(crate) fn are_scaled(&self) -> bool {
        self.shape.metric == Metric::Cosine
    }

    /// How far a vector is from another one, whose scale is asked for only where it counts.
    #[inline(always)]
    pub(crate) fn between(&self, one: &Vector, other: Run<'_>, scale: impl FnOnce() -> f32) -> f32 {
        self.between_runs(one.run(), other, || one.scale * scale())
    }

    /// The same of two that lie anywhere, and the product of their scales.
    #[inline(always)]
    pub(crate) fn between_runs(
        &self,
        one: Run<'_>,
        other: Run<'_>,
        scales: impl FnOnce() -> f32,
    ) -> f32 {
        let mut sum = self.kernel.sum(one, other);
        if self.are_scaled() {
            sum *= scales();
        }
        self.base + self.factor * sum
    }

    /// The vector of these numbers.
    ///
    /// # Errors
    /// [`VectorError::Elements`], [`VectorError::Dimensions`], [`VectorError::NotFinite`],
    /// [`VectorError::Length`], and [`VectorError::NoDirection`] under the cosine.
    pub(crate) fn vector(&self, elements: VectorRef<'_>) -> Result<Vector, VectorError> {
        match elements {
            VectorRef::F32(elements) => self.vector_of(elements),
            VectorRef::F16(elements) => self.vector_of(elements),
            VectorRef::Bf16(elements) => self.vector_of(elements),
            VectorRef::I8(elements) => self.vector_of(elements),
            VectorRef::Bit(elements) => self.vector_of(elements),
        }
    }

    fn vector_of<E: Element>(&self, elements: &[E]) -> Result<Vector, VectorError> {
        let VectorShape { element, dimensions: wanted, metric } = self.shape;
        if E::KIND != element {
            return Err(VectorError::Elements { given: E::KIND, wanted: element });
        }
        let given = elements.len() * if element == ElementKind::Bit { 8 } else { 1 };
        if given != wanted {
            return Err(VectorError::Dimensions { given, wanted });
        }
        if let Some(dimension) = elements.iter().position(|element| !element.value().is_finite()) {
            let value = elements[dimension].value();
            return Err(VectorError::NotFinite { dimension, value });
        }
        let mut vector = Vector::of(elements);
        // In f64: the square of a number that is finite may not be.
        let square: f64 = elements.iter().map(|element| f64::from(element.value()).powi(2)).sum();
        let length = square.sqrt();
        let least = if metric == Metric::Cosine { SHORTEST } else { 0.0 };
        if metric == Metric::Cosine && square == 0.0 {
            return Err(VectorError::NoDirection);
        }
        if !(least..=LONGEST).contains(&length) {
            return Err(VectorError::Length { length, least, most: LONGEST });
        }
        if metric == Metric::Cosine {
            vector.scale = (1.0 / length) as f32;
        }
        Ok(vector)
    }
}
