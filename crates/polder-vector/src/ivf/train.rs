//! Finding centroids: k-means on a sample.
//!
//! ```text
//! 1  a vector of the sample at random is the first centroid; each next one is a vector that is likely the
//!    farther it is from those that there are (k-means++: Arthur and Vassilvitskii, "k-means++: The
//!    Advantages of Careful Seeding", 2007; our distances are the squares that it weighs by)
//! 2  each centroid becomes the mean of the vectors that are nearest to it
//! 3  a centroid to which none is nearest becomes the farthest vector of the largest cluster, which is so
//!    split in two
//! 4  each vector is compared with all centroids; 2 again, unless few have gone to another centroid
//! ```
//!
//! By which distance, and what a mean is, follows from the metric of the index:
//!
//! | metric | a vector is compared with centroids by | mean |
//! |---|---|---|
//! | L2 | L2 | the mean |
//! | cosine, inner product | the cosine | the direction of the sum of all directions (spherical k-means) |
//! | Hamming | Hamming | of each bit, what most have |
//!
//! By the inner product itself all vectors would go to the few longest centroids; by directions, lists are
//! of similar lengths, and those whose direction fits a query best have the greatest products for vectors
//! of one length.
//!
//! A centroid is of the element that vectors are, rounded: so it is compared by the same kernels, with the
//! query as it is. What was rounded moves the border between two lists, for inserts and searches alike, and
//! takes nothing away from what is found.
//!
//! Nothing depends on time, threads or the order of memory: of the same sample come the same centroids,
//! where distances are computed by the same kernels.

use std::collections::BinaryHeap;

use half::{bf16, f16};

use crate::element::{Bits, Element, ElementKind, VectorBuf, VectorRef};
use crate::error::VectorError;
use crate::metric::Metric;
use crate::options::IvfOptions;
use crate::random::Numbers;
use crate::vectors::{Distances, Vector, VectorShape};

/// Vectors of a sample for each centroid, at most: more make the training longer and centroids hardly
/// better. They are drawn from what is given.
const MOST_OF_A_LIST: usize = 64;
/// How often centroids are moved, at most.
const MOST_STEPS: usize = 10;
/// It ends when not more than one vector in so many has gone to another centroid.
const FEW: usize = 100;
/// Vectors that are compared with all centroids before the progress is told.
const BATCH: usize = 64;

/// By what vectors of this shape are compared with centroids.
pub(crate) fn shape_of_centroids(shape: VectorShape) -> VectorShape {
    let metric = match shape.metric {
        Metric::InnerProduct => Metric::Cosine,
        other => other,
    };
    VectorShape { metric, ..shape }
}

/// The distances by which vectors of this shape are compared with centroids.
pub(crate) fn distances_of_centroids(shape: VectorShape) -> Distances {
    Distances::new(shape_of_centroids(shape))
}

/// Vectors to train the centroids of an index on.
pub(crate) struct Sample {
    lists: usize,
    /// Of vectors of the index, and of their comparison with centroids.
    of_index: Distances,
    compared: Distances,
    drawn: Drawn,
}

impl Sample {
    /// For an index with these options.
    ///
    /// # Errors
    /// [`VectorError::Option`] and [`VectorError::Metric`] if they are not allowed.
    pub(crate) fn new(options: &IvfOptions) -> Result<Sample, VectorError> {
        options.validate()?;
        let IvfOptions { shape, lists } = *options;
        let (of_index, compared) = (Distances::new(shape), distances_of_centroids(shape));
        Ok(Sample { lists, of_index, compared, drawn: Drawn::new(lists * MOST_OF_A_LIST) })
    }

    /// One more is given.
    ///
    /// # Errors
    /// Those of a vector that is not one of the index.
    pub(crate) fn give(&mut self, vector: VectorRef<'_>) -> Result<(), VectorError> {
        self.of_index.vector(vector)?;
        // What has no direction, and is one of the index all the same, teaches nothing.
        if let Ok(vector) = self.compared.vector(vector) {
            self.drawn.give(vector);
        }
        Ok(())
    }

    /// Finds the centroids. `progress` is told which share of the work is done, and ends it by returning
    /// false.
    ///
    /// # Errors
    /// [`VectorError::SampleTooSmall`], [`VectorError::Stopped`].
    pub(crate) fn train(
        self,
        progress: &mut dyn FnMut(f64) -> bool,
    ) -> Result<Vec<VectorBuf>, VectorError> {
        let centroids = self.drawn.train(&self.compared, self.lists, progress)?;
        let element = self.compared.shape.element;
        Ok(centroids.iter().map(|centroid| centroid.to_buf(element)).collect())
    }
}

/// Of vectors that are given, so many by chance, each as likely as the others.
pub(crate) struct Drawn {
    most: usize,
    given: usize,
    random: Numbers,
    vectors: Vec<Vector>,
}

impl Drawn {
    pub(crate) fn new(most: usize) -> Drawn {
        Drawn { most, given: 0, random: Numbers::default(), vectors: Vec::new() }
    }

    /// One more is given (reservoir sampling).
    pub(crate) fn give(&mut self, vector: Vector) {
        self.given += 1;
        if self.vectors.len() < self.most {
            self.vectors.push(vector);
        } else if let Some(place) = self.vectors.get_mut(self.random.below(self.given)) {
            *place = vector;
        }
    }

    /// Finds so many centroids, as [`Sample::train`] does.
    pub(crate) fn train(
        self,
        distances: &Distances,
        lists: usize,
        progress: &mut dyn FnMut(f64) -> bool,
    ) -> Result<Vec<Vector>, VectorError> {
        let Drawn { vectors, given, random, .. } = self;
        if vectors.len() < lists {
            return Err(VectorError::SampleTooSmall { given, lists });
        }
        let nearest = vec![Nearest { distance: f32::INFINITY, list: 0 }; vectors.len()];
        let work = (MOST_STEPS + 1) * lists * vectors.len();
        let progress = Progress { done: 0, work: work as f64, tell: progress };
        let centroids = Vec::with_capacity(lists);
        let mut training = Training { distances, vectors, nearest, centroids, random, progress };
        training.seed(lists)?;
        for _ in 0..MOST_STEPS {
            let is_filled = training.move_centroids();
            let changed = training.compare()?;
            if is_filled && changed * FEW <= training.vectors.len() {
                break;
            }
        }
        Ok(training.centroids)
    }
}

struct Progress<'t> {
    /// Distances that were computed, and that there will be at most.
    done: usize,
    work: f64,
    tell: &'t mut dyn FnMut(f64) -> bool,
}

impl Progress<'_> {
    fn add(&mut self, distances: usize) -> Result<(), VectorError> {
        self.done += distances;
        match (self.tell)(self.done as f64 / self.work) {
            true => Ok(()),
            false => Err(VectorError::Stopped),
        }
    }
}

/// The nearest centroid of a vector.
#[derive(Debug, Clone, Copy)]
struct Nearest {
    distance: f32,
    list: u32,
}

struct Training<'t> {
    distances: &'t Distances,
    vectors: Vec<Vector>,
    /// Of each vector.
    nearest: Vec<Nearest>,
    centroids: Vec<Vector>,
    random: Numbers,
    progress: Progress<'t>,
}

impl Training<'_> {
    /// Step 1. Leaves the nearest of them for each vector.
    fn seed(&mut self, lists: usize) -> Result<(), VectorError> {
        let mut next = self.random.below(self.vectors.len());
        for list in 0..lists as u32 {
            let centroid = self.vectors[next].clone();
            let mut sum = 0.0;
            for (vector, nearest) in self.vectors.iter().zip(&mut self.nearest) {
                let distance = between(self.distances, vector, &centroid);
                if distance < nearest.distance {
                    *nearest = Nearest { distance, list };
                }
                sum += f64::from(nearest.distance);
            }
            self.centroids.push(centroid);
            next = self.draw(sum);
            self.progress.add(self.vectors.len())?;
        }
        Ok(())
    }

    /// A vector, each as likely as it is far from its centroid. `sum`: how far all are.
    fn draw(&mut self, sum: f64) -> usize {
        let mut left = self.random.share() * sum;
        let drawn = self.nearest.iter().position(|nearest| {
            left -= f64::from(nearest.distance);
            left < 0.0
        });
        // Where all are centroids themselves, any.
        drawn.unwrap_or_else(|| self.random.below(self.vectors.len()))
    }

    /// Steps 2 and 3. Whether all centroids had vectors.
    fn move_centroids(&mut self) -> bool {
        let mut order: Vec<usize> = (0..self.vectors.len()).collect();
        order.sort_unstable_by_key(|at| (self.nearest[*at].list, *at));
        let mut clusters: Vec<&[usize]> = vec![&[]; self.centroids.len()];
        for cluster in order.chunk_by(|a, b| self.nearest[*a].list == self.nearest[*b].list) {
            clusters[self.nearest[cluster[0]].list as usize] = cluster;
        }
        let mut largest = BinaryHeap::new();
        for (list, cluster) in
            clusters.iter().enumerate().filter(|(_, cluster)| !cluster.is_empty())
        {
            // What has no mean stays where it is.
            if let Some(mean) = mean(self.distances, cluster.iter().map(|at| &self.vectors[*at])) {
                self.centroids[list] = mean;
            }
            largest.push((cluster.len(), list));
        }
        let empty = (0..clusters.len()).filter(|list| clusters[*list].is_empty());
        let mut is_filled = true;
        for list in empty {
            is_filled = false;
            let Some((len, from)) = largest.pop() else { break };
            let distance = |at: &&usize| self.nearest[**at].distance;
            let farthest = clusters[from].iter().max_by(|a, b| distance(a).total_cmp(&distance(b)));
            if let Some(farthest) = farthest.filter(|at| distance(at) > 0.0) {
                self.centroids[list] = self.vectors[*farthest].clone();
                self.nearest[*farthest].distance = 0.0;
                largest.push((len / 2, from));
            }
        }
        is_filled
    }

    /// Step 4. Gives how many vectors have another centroid than before.
    fn compare(&mut self) -> Result<usize, VectorError> {
        let mut changed = 0;
        for (vectors, nearest) in self.vectors.chunks(BATCH).zip(self.nearest.chunks_mut(BATCH)) {
            for (vector, nearest) in vectors.iter().zip(nearest) {
                let before = nearest.list;
                *nearest = Nearest { distance: f32::INFINITY, list: before };
                for (list, centroid) in self.centroids.iter().enumerate() {
                    let distance = between(self.distances, vector, centroid);
                    if distance < nearest.distance {
                        *nearest = Nearest { distance, list: list as u32 };
                    }
                }
                changed += usize::from(nearest.list != before);
            }
            self.progress.add(vectors.len() * self.centroids.len())?;
        }
        Ok(changed)
    }
}

/// Rounded, the cosine of a vector with itself may be more than 1.
fn between(distances: &Distances, vector: &Vector, centroid: &Vector) -> f32 {
    distances.between(vector, centroid.run(), || centroid.scale).max(0.0)
}

/// The mean of these vectors. `None` if there is none, as of opposite directions.
pub(super) fn mean<'v>(
    distances: &Distances,
    vectors: impl Iterator<Item = &'v Vector>,
) -> Option<Vector> {
    let VectorShape { element, dimensions, metric } = distances.shape;
    let mut sums = vec![0.0; dimensions];
    let mut count = 0.0;
    for vector in vectors {
        // Under the cosine the scale makes all of them as long; else it is 1.
        add(vector, element, &mut sums);
        count += 1.0;
    }
    let greatest = sums.iter().fold(0.0_f64, |greatest, sum| greatest.max(sum.abs()));
    let length = sums.iter().map(|sum| sum * sum).sum::<f64>().sqrt();
    let factor = match (metric, element) {
        (Metric::Cosine, _) if length == 0.0 => return None,
        // As many digits of the direction as there are.
        (Metric::Cosine, ElementKind::I8) => f64::from(i8::MAX) / greatest,
        (Metric::Cosine, _) => 1.0 / length,
        _ => 1.0 / count,
    };
    let mean: Vec<f32> = sums.iter().map(|sum| (sum * factor) as f32).collect();
    let vector = match element {
        ElementKind::F32 => distances.vector(VectorRef::F32(&mean)),
        ElementKind::F16 => distances.vector((&rounded(&mean, f16::from_f32)).into()),
        ElementKind::Bf16 => distances.vector((&rounded(&mean, bf16::from_f32)).into()),
        ElementKind::I8 => distances.vector((&rounded(&mean, |value| value.round() as i8)).into()),
        ElementKind::Bit => distances.vector((&majority(&mean)).into()),
    };
    vector.ok()
}

fn rounded<E: Element>(mean: &[f32], round: fn(f32) -> E) -> Vec<E> {
    mean.iter().map(|value| round(*value)).collect()
}

/// The bits that are set in more than half of them.
fn majority(mean: &[f32]) -> Vec<Bits> {
    let bit = |(i, share): (usize, &f32)| u8::from(*share > 0.5) << i;
    mean.chunks(8).map(|eight| Bits(eight.iter().enumerate().map(bit).sum())).collect()
}

/// Adds the numbers of a vector, times its scale, to sums.
fn add(vector: &Vector, element: ElementKind, sums: &mut [f64]) {
    match element {
        ElementKind::F32 => add_elements::<f32>(vector, sums),
        ElementKind::F16 => add_elements::<f16>(vector, sums),
        ElementKind::Bf16 => add_elements::<bf16>(vector, sums),
        ElementKind::I8 => add_elements::<i8>(vector, sums),
        ElementKind::Bit => {
            for (bits, sums) in vector.elements::<Bits>().iter().zip(sums.chunks_mut(8)) {
                for (i, sum) in sums.iter_mut().enumerate() {
                    *sum += f64::from(bits.0 >> i & 1);
                }
            }
        }
    }
}

fn add_elements<E: Element>(vector: &Vector, sums: &mut [f64]) {
    let scale = f64::from(vector.scale);
    for (element, sum) in vector.elements::<E>().iter().zip(sums) {
        *sum += f64::from(element.value()) * scale;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trained(shape: VectorShape, sample: &[VectorRef<'_>], lists: usize) -> Vec<VectorBuf> {
        let mut taken = Sample::new(&IvfOptions { shape, lists }).unwrap();
        sample.iter().for_each(|vector| taken.give(*vector).unwrap());
        taken.train(&mut |_| true).unwrap()
    }

    fn shape(element: ElementKind, dimensions: usize, metric: Metric) -> VectorShape {
        VectorShape { element, dimensions, metric }
    }

    /// Four clusters, of which one has nearly all vectors: each has its mean.
    #[test]
    fn means_of_clusters() {
        let mut random = fastrand::Rng::with_seed(1);
        let middles = [[0.0, 0.0], [100.0, 0.0], [0.0, 100.0], [100.0, 100.0_f32]];
        let mut sample = Vec::new();
        for i in 0..4 * MOST_OF_A_LIST {
            let middle = middles[if i < 40 { i % 4 } else { 0 }];
            sample.push(middle.map(|value| value + random.f32() - 0.5));
        }
        let sample: Vec<VectorRef<'_>> = sample.iter().map(VectorRef::from).collect();
        let centroids = trained(shape(ElementKind::F32, 2, Metric::L2), &sample, 4);
        for middle in middles {
            let near = |centroid: &VectorBuf| {
                let numbers = centroid.elements::<f32>().unwrap();
                numbers.iter().zip(&middle).all(|(a, b)| (a - b).abs() < 0.3)
            };
            assert_eq!(centroids.iter().filter(|centroid| near(centroid)).count(), 1, "{middle:?}");
        }
        let again = trained(shape(ElementKind::F32, 2, Metric::L2), &sample, 4);
        assert_eq!(centroids, again, "the same sample, the same centroids");
    }

    #[test]
    fn bits_are_what_most_have() {
        let sample = [[Bits(0b0111)], [Bits(0b0110)], [Bits(0b1010)]];
        let sample: Vec<VectorRef<'_>> = sample.iter().map(VectorRef::from).collect();
        let centroids = trained(shape(ElementKind::Bit, 8, Metric::Hamming), &sample, 1);
        assert_eq!(centroids[0].elements::<Bits>().unwrap(), [Bits(0b0110)]);
    }

    /// Under the cosine and the inner product how long vectors are counts for nothing; i8 are as long as
    /// they can be.
    #[test]
    fn directions_are_averaged() {
        for metric in [Metric::Cosine, Metric::InnerProduct] {
            let sample = [[1000.0, 0.0], [0.0, 1.0_f32]];
            let sample: Vec<VectorRef<'_>> = sample.iter().map(VectorRef::from).collect();
            let centroids = trained(shape(ElementKind::F32, 2, metric), &sample, 1);
            let numbers = centroids[0].elements::<f32>().unwrap();
            assert!(numbers.iter().all(|number| (number - 0.5_f32.sqrt()).abs() < 1e-6));
            let sample = [[3_i8, 0], [0, 120]];
            let sample: Vec<VectorRef<'_>> = sample.iter().map(VectorRef::from).collect();
            let centroids = trained(shape(ElementKind::I8, 2, metric), &sample, 1);
            assert_eq!(centroids[0].elements::<i8>().unwrap(), [127, 127]);
        }
        // Opposite ones have no mean, and the centroid stays one of them.
        let sample = [[1.0, 0.0], [-1.0, 0.0_f32]];
        let sample: Vec<VectorRef<'_>> = sample.iter().map(VectorRef::from).collect();
        let centroids = trained(shape(ElementKind::F32, 2, Metric::Cosine), &sample, 1);
        assert_eq!(centroids[0].elements::<f32>().unwrap()[0].abs(), 1.0);
    }

    /// A centroid that nothing is nearest to splits the largest cluster.
    #[test]
    fn empty_clusters_are_filled() {
        let distances = Distances::new(shape(ElementKind::F32, 1, Metric::L2));
        let vectors: Vec<Vector> = [0.0, 1.0, 2.0, 10.0, 50.0_f32]
            .iter()
            .map(|value| distances.vector(VectorRef::F32(&[*value])).unwrap())
            .collect();
        let at = |list, distance| Nearest { list, distance };
        // Nothing is nearest to the second.
        let nearest = vec![at(0, 0.0), at(0, 1.0), at(0, 4.0), at(0, 100.0), at(2, 0.0)];
        let centroids = [0, 0, 4].map(|i: usize| vectors[i].clone()).to_vec();
        let progress = Progress { done: 0, work: 1.0, tell: &mut |_| true };
        let random = Numbers::default();
        let mut training =
            Training { distances: &distances, vectors, nearest, centroids, random, progress };
        assert!(!training.move_centroids());
        training.compare().unwrap();
        let lists: Vec<u32> = training.nearest.iter().map(|nearest| nearest.list).collect();
        assert_eq!(lists, [0, 0, 0, 1, 2]);
        assert!(training.move_centroids());
        let means: Vec<f32> = training.centroids.iter().map(|one| one.elements()[0]).collect();
        assert_eq!(means, [1.0, 10.0, 50.0]);
    }

    /// All vectors are the same, or fewer are different than there are lists.
    #[test]
    fn a_sample_with_few_different_vectors() {
        let sample = [[1.0_f32]; 8];
        let sample: Vec<VectorRef<'_>> = sample.iter().map(VectorRef::from).collect();
        let centroids = trained(shape(ElementKind::F32, 1, Metric::L2), &sample, 5);
        assert!(centroids.iter().all(|one| one.elements::<f32>().unwrap() == [1.0]));
    }

    #[test]
    fn a_sample_is_drawn_from_all_that_is_given() {
        let shape = shape(ElementKind::F32, 1, Metric::L2);
        let mut sample = Sample::new(&IvfOptions { shape, lists: 4 }).unwrap();
        for i in 0..1000 {
            sample.give(VectorRef::F32(&[i as f32])).unwrap();
        }
        assert_eq!(sample.drawn.vectors.len(), 4 * MOST_OF_A_LIST);
        let late =
            sample.drawn.vectors.iter().filter(|one| one.elements::<f32>()[0] >= 500.0).count();
        assert!((90..166).contains(&late), "{late} of the second half");
    }
}
