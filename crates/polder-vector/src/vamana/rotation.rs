//! A random rotation: it spreads what a vector has evenly over all dimensions, so that the same few bits
//! for each of them say as much of any vector.
//!
//! Each step multiplies by signs that have no pattern, and makes a fast Walsh-Hadamard transform. That is
//! for powers of two: where the number of dimensions is none, steps are made by turns of as many of the
//! first dimensions as are one, and of as many of the last (as the library of Gao et al. does). So nothing
//! is padded, and vectors keep their lengths and their inner products.

use crate::random::mix;

/// Steps of all dimensions.
const ROUNDS: u64 = 3;

/// The rotation of vectors of so many dimensions, which is always the same one.
#[derive(Debug)]
pub(super) struct Rotation {
    /// Of each step, where it begins, and by what the dimensions from there on are multiplied.
    steps: Vec<(usize, Vec<f32>)>,
}

impl Rotation {
    pub(super) fn new(dimensions: usize) -> Rotation {
        let power = 1 << dimensions.max(1).ilog2();
        let mut steps = Vec::new();
        for round in 0..ROUNDS {
            let of = |part: u64| {
                let scale = 1.0 / (power as f32).sqrt();
                let sign = |i: usize| mix((2 * round + part) << 32 | i as u64) & 1 == 0;
                (0..power).map(|i| if sign(i) { scale } else { -scale }).collect()
            };
            steps.push((0, of(0)));
            if power < dimensions {
                steps.push((dimensions - power, of(1)));
            }
        }
        Rotation { steps }
    }

    pub(super) fn rotate(&self, vector: &mut [f32]) {
        for (from, signs) in &self.steps {
            let part = &mut vector[*from..from + signs.len()];
            part.iter_mut().zip(signs).for_each(|(number, sign)| *number *= sign);
            transform(part);
        }
    }
}

/// The fast Walsh-Hadamard transform of as many numbers as are a power of two.
fn transform(numbers: &mut [f32]) {
    let mut half = 1;
    while half < numbers.len() {
        for pair in numbers.chunks_exact_mut(2 * half) {
            let (low, high) = pair.split_at_mut(half);
            for (a, b) in low.iter_mut().zip(high) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        half *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product(a: &[f32], b: &[f32]) -> f32 {
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    #[test]
    fn lengths_and_products_stay_and_what_is_in_one_dimension_is_spread() {
        let mut random = fastrand::Rng::with_seed(1);
        for dimensions in [1, 2, 3, 7, 8, 96, 128, 200, 768, 960] {
            let rotation = Rotation::new(dimensions);
            let mut vector = || (0..dimensions).map(|_| random.f32() - 0.5).collect::<Vec<_>>();
            let (mut a, mut b) = (vector(), vector());
            let (before, length) = (product(&a, &b), product(&a, &a));
            rotation.rotate(&mut a);
            rotation.rotate(&mut b);
            assert!((product(&a, &b) - before).abs() < 1e-4 * length, "{dimensions}");
            assert!((product(&a, &a) - length).abs() < 1e-4 * length, "{dimensions}");
            if dimensions >= 96 {
                for at in [0, dimensions / 2, dimensions - 1] {
                    let mut one = vec![0.0; dimensions];
                    one[at] = 1.0;
                    rotation.rotate(&mut one);
                    let greatest = one.iter().fold(0.0_f32, |most, number| most.max(number.abs()));
                    assert!(greatest < 0.5, "{greatest} of dimension {at} of {dimensions}");
                }
            }
        }
    }
}
