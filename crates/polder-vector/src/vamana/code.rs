//! Codes: a vector in one, two or four bits a dimension, and how far it is from another vector, about.
//!
//! ```text
//!   r   what a vector is from the centre on, rotated (`rotation.rs`)
//!   u   its code: of each dimension a whole number from 0 on, of 1, 2 or 4 bits
//!   y   what the code stands for: u, less half of the greatest number, so that zero is in the middle
//!   f   the factor of the vector: <r,r> / <r,y>
//!
//!   <q,r> is f * <q,y>, about
//! ```
//!
//! (Gao and Long, "RaBitQ: Quantizing High-Dimensional Vectors with a Theoretical Error Bound for
//! Approximate Nearest Neighbor Search", SIGMOD 2024; for several bits Gao et al., "Practical and
//! Asymptotically Optimal Quantization of High-Dimensional Vectors in Euclidean Space for Approximate
//! Nearest Neighbor Search", SIGMOD 2025.) With the factor the estimate is right on average over all
//! rotations, whichever numbers the code has; it errs the less the smaller the angle between `y` and `r`
//! is. So of some scales that is taken at which rounding gives the smallest.
//!
//! A distance is made of that inner product and of what vector and query have by themselves:
//!
//! | metric | distance |
//! |---|---|
//! | L2 | `<q,q> + <r,r> - 2 <q,r>`, with `q` from the centre on as well |
//! | inner product | `1 + <c,c> - <c,query> - <c,vector> - <q,r>`, with the centre `c` |
//! | cosine | the same, of vectors of length one |
//!
//! The query is rounded to whole numbers of a byte, so that an inner product is one of bytes with the
//! numbers of a code (`distance/`). A code can be taken as a query itself: so codes are compared with
//! each other.

use polder_pool::bytes::Run;

use crate::distance::Kernel;
use crate::metric::Metric;
use crate::padded::Padded;
use crate::vectors::{Vector, VectorShape};

use super::rotation::Rotation;

/// Bytes that a code is a multiple of: a register of numbers that are unpacked together.
const UNIT: usize = 16;
/// Scales that are tried when a vector is rounded.
const SCALES: usize = 24;

/// How many bytes a code has.
pub(super) fn code_bytes(dimensions: usize, bits: usize) -> usize {
    (dimensions * bits).div_ceil(8).next_multiple_of(UNIT)
}

/// What makes codes of the vectors of an index.
#[derive(Debug)]
pub(super) struct Coder {
    shape: VectorShape,
    bits: usize,
    rotation: Rotation,
    centre: Vec<f32>,
    /// Its inner product with itself.
    square: f32,
    kernel: Kernel,
}

/// A vector as it is from the centre on.
#[derive(Debug)]
pub(super) struct Residual {
    rotated: Vec<f32>,
    /// Its inner product with itself: how far the vector is from the centre.
    pub(super) square: f32,
    /// The inner product of the vector and the centre.
    by_centre: f32,
}

/// The code of a vector, and what a distance needs beside it.
#[derive(Debug, Clone)]
pub(super) struct Code {
    bytes: Padded,
    pub(super) parts: Parts,
}

/// What a distance is made of beside the inner product with a code.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Parts {
    /// What a vector adds to a distance.
    pub(super) addend: f32,
    /// By what inner products with its code are multiplied.
    pub(super) factor: f32,
}

/// What is compared with codes.
#[derive(Debug)]
pub(super) struct CodeQuery {
    /// A byte of each dimension, in the order in which codes are unpacked.
    bytes: Padded,
    /// What one of these stands for, with the sign and the factor of the metric.
    step: f32,
    /// Taken away from each sum, since numbers of a code are not zero in the middle.
    middle: f32,
    base: f32,
    kernel: Kernel,
}

impl Code {
    /// A copy of a code that lies in a page.
    pub(super) fn copy_of(run: Run<'_>, parts: Parts) -> Code {
        Code { bytes: Padded::copy_of(run), parts }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        self.bytes.to_bytes()
    }
}

impl CodeQuery {
    /// How far the vector of a code is, about.
    #[inline(always)]
    pub(super) fn estimate(&self, code: Run<'_>, parts: Parts) -> f32 {
        let product = self.kernel.sum(code, self.bytes.run()) - self.middle;
        self.base + parts.addend + parts.factor * (self.step * product)
    }

    pub(super) fn estimate_of(&self, code: &Code) -> f32 {
        self.estimate(code.bytes.run(), code.parts)
    }
}

impl Coder {
    /// Of vectors of this shape, to codes of so many bits a dimension.
    pub(super) fn new(shape: VectorShape, bits: usize, centre: Vec<f32>) -> Coder {
        let square = product(&centre, &centre);
        let (rotation, kernel) = (Rotation::new(shape.dimensions), Kernel::of_codes(bits));
        Coder { shape, bits, rotation, centre, square, kernel }
    }

    pub(super) fn residual(&self, vector: &Vector) -> Residual {
        let mut numbers = vector.values(self.shape.element);
        let by_centre = product(&numbers, &self.centre);
        numbers.iter_mut().zip(&self.centre).for_each(|(number, centre)| *number -= centre);
        let square = product(&numbers, &numbers);
        self.rotation.rotate(&mut numbers);
        Residual { rotated: numbers, square, by_centre }
    }

    pub(super) fn code(&self, residual: &Residual) -> Code {
        let numbers = self.round(&residual.rotated);
        let middle = self.middle();
        let along = residual.rotated.iter().zip(&numbers);
        let along: f32 = along.map(|(r, u)| r * (f32::from(*u) - middle)).sum();
        let factor = if along > 0.0 { residual.square / along } else { 0.0 };
        let addend = match self.shape.metric {
            Metric::L2 => residual.square,
            _ => -residual.by_centre,
        };
        let mut bytes = vec![0; code_bytes(self.shape.dimensions, self.bits)];
        for (dimension, number) in numbers.iter().enumerate() {
            let (at, shift) = self.place(dimension);
            bytes[at] |= number << shift;
        }
        Code { bytes: Padded::of(&bytes), parts: Parts { addend, factor } }
    }

    /// Asks for what is near to a vector.
    pub(super) fn query(&self, residual: &Residual) -> CodeQuery {
        let greatest = residual.rotated.iter().fold(0.0_f32, |most, number| most.max(number.abs()));
        let step = if greatest > 0.0 { greatest / f32::from(i8::MAX) } else { 1.0 };
        let rounded = residual.rotated.iter().map(|number| (number / step).round() as i8);
        let base = match self.shape.metric {
            Metric::L2 => residual.square,
            _ => 1.0 + self.square - residual.by_centre,
        };
        self.query_by(rounded, step, base)
    }

    /// Asks for what is near to the vector of a code.
    pub(super) fn query_of(&self, code: &Code) -> CodeQuery {
        let (greatest, bytes) = ((1 << self.bits) - 1, code.to_bytes());
        let number = |dimension| {
            let (at, shift) = self.place(dimension);
            2 * (bytes[at] >> shift & greatest) as i8 - greatest as i8
        };
        let Parts { addend, factor } = code.parts;
        let base = match self.shape.metric {
            Metric::L2 => addend,
            _ => 1.0 + self.square + addend,
        };
        self.query_by((0..self.shape.dimensions).map(number), factor / 2.0, base)
    }

    /// A query whose numbers stand for so much each.
    fn query_by(&self, numbers: impl Iterator<Item = i8>, step: f32, base: f32) -> CodeQuery {
        let mut bytes = vec![0; code_bytes(self.shape.dimensions, self.bits) * 8 / self.bits];
        let mut sum = 0;
        for (byte, number) in bytes.iter_mut().zip(numbers) {
            *byte = number as u8;
            sum += i64::from(number);
        }
        let sign = if self.shape.metric == Metric::L2 { -2.0 } else { -1.0 };
        let middle = sum as f32 * self.middle();
        let (bytes, kernel) = (Padded::of(&bytes), self.kernel);
        CodeQuery { bytes, step: sign * step, middle, base, kernel }
    }

    /// Half of the greatest number of a dimension.
    fn middle(&self) -> f32 {
        ((1 << self.bits) - 1) as f32 / 2.0
    }

    /// The byte of a dimension in a code, and where in it. A unit has so many of its first dimensions in
    /// the lowest bits of its bytes, and as many in the next ones.
    fn place(&self, dimension: usize) -> (usize, usize) {
        let of_unit = UNIT * 8 / self.bits;
        let (unit, within) = (dimension / of_unit, dimension % of_unit);
        (UNIT * unit + within % UNIT, within / UNIT * self.bits)
    }

    /// The whole numbers that lie in the direction of these, as exactly as a scale makes them.
    fn round(&self, numbers: &[f32]) -> Vec<u8> {
        let greatest = numbers.iter().fold(0.0_f32, |most, number| most.max(number.abs()));
        let middle = self.middle();
        let mut best = (f32::NEG_INFINITY, 1.0);
        // From the scale at which nothing is cut off to one that cuts off what is beyond a third.
        let scale = |i: usize| {
            let share = 1.0 + 2.0 * i as f32 / SCALES as f32;
            (middle + 0.5) * share / greatest.max(f32::MIN_POSITIVE)
        };
        let rounded =
            |number: f32, scale: f32| (number * scale + middle).round().clamp(0.0, 2.0 * middle);
        for scale in (0..SCALES).map(scale) {
            let (mut along, mut square) = (0.0_f32, 0.0_f32);
            for number in numbers {
                let y = rounded(*number, scale) - middle;
                along += y * number;
                square += y * y;
            }
            let cosine = along / square.sqrt();
            if cosine > best.0 {
                best = (cosine, scale);
            }
            if self.bits == 1 {
                break;
            }
        }
        numbers.iter().map(|number| rounded(*number, best.1) as u8).collect()
    }
}

fn product(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::{ElementKind, VectorRef};
    use crate::vectors::Distances;

    /// Vectors without a pattern, of which some numbers are much greater than others.
    fn vectors(random: &mut fastrand::Rng, count: usize, dimensions: usize) -> Vec<Vec<f32>> {
        let number = |random: &mut fastrand::Rng, at: usize| {
            (random.f32() + random.f32() - 1.0) * if at.is_multiple_of(7) { 5.0 } else { 1.0 } + 0.2
        };
        (0..count).map(|_| (0..dimensions).map(|at| number(random, at)).collect()).collect()
    }

    /// The mean error of estimates and the mean of its amount, as parts of the mean distance; of a query
    /// and of a code as the query.
    fn errors(metric: Metric, bits: usize, dimensions: usize) -> [(f64, f64); 2] {
        let shape = VectorShape { element: ElementKind::F32, dimensions, metric };
        let (distances, mut random) = (Distances::new(shape), fastrand::Rng::with_seed(3));
        let vectors = vectors(&mut random, 120, dimensions);
        let vectors: Vec<Vector> =
            vectors.iter().map(|one| distances.vector(VectorRef::from(one)).unwrap()).collect();
        let mut centre = vec![0.0; dimensions];
        for vector in &vectors {
            let values = vector.values(shape.element);
            centre.iter_mut().zip(values).for_each(|(sum, value)| *sum += value / 120.0);
        }
        let coder = Coder::new(shape, bits, centre);
        let residuals: Vec<Residual> = vectors.iter().map(|one| coder.residual(one)).collect();
        let codes: Vec<Code> = residuals.iter().map(|one| coder.code(one)).collect();
        let mut sums = [(0.0, 0.0); 2];
        let mut whole = 0.0;
        for (i, query) in vectors.iter().enumerate().take(40) {
            let queries = [coder.query(&residuals[i]), coder.query_of(&codes[i])];
            for (other, code) in vectors.iter().zip(&codes).skip(40) {
                let exact = f64::from(distances.between(query, other.run(), || other.scale));
                whole += exact.abs();
                for (sum, query) in sums.iter_mut().zip(&queries) {
                    let error = f64::from(query.estimate_of(code)) - exact;
                    *sum = (sum.0 + error, sum.1 + error.abs());
                }
            }
        }
        sums.map(|(error, amount)| (error / whole, amount / whole))
    }

    #[test]
    fn estimates_are_right_on_average_and_better_with_more_bits() {
        for metric in [Metric::L2, Metric::InnerProduct, Metric::Cosine] {
            for dimensions in [96, 128, 200] {
                let of = |bits| errors(metric, bits, dimensions);
                let [one, two, four] = [of(1), of(2), of(4)];
                for of in 0..2 {
                    let [one, two, four] = [one[of], two[of], four[of]];
                    for (error, amount) in [one, two, four] {
                        assert!(error.abs() * 4.0 < amount, "{error} and {amount} by {metric}");
                    }
                    assert!(two.1 < 0.7 * one.1, "{two:?} and {one:?} by {metric}");
                    assert!(four.1 < 0.5 * two.1, "{four:?} and {two:?} by {metric}");
                }
                assert!(four[0].1 < 0.05, "{four:?} by {metric}");
            }
        }
    }

    /// A vector that is the centre, and one of one dimension.
    #[test]
    fn vectors_that_have_no_direction() {
        let shape = VectorShape { element: ElementKind::F32, dimensions: 1, metric: Metric::L2 };
        let distances = Distances::new(shape);
        for bits in [1, 2, 4] {
            let coder = Coder::new(shape, bits, vec![3.0]);
            let residual =
                |number| coder.residual(&distances.vector(VectorRef::F32(&[number])).unwrap());
            let centre = coder.code(&residual(3.0));
            assert_eq!(coder.query(&residual(3.0)).estimate_of(&centre), 0.0);
            assert_eq!(coder.query(&residual(5.0)).estimate_of(&centre), 4.0);
            let other = coder.code(&residual(-1.0));
            let estimate = coder.query(&residual(5.0)).estimate_of(&other);
            assert!((estimate - 36.0).abs() < 0.01, "{estimate}");
            assert_eq!(coder.query_of(&centre).estimate_of(&other), 16.0);
        }
    }
}
