//! What cannot be done is refused, by what is wrong with it, and nothing has changed.

use polder_format::PageSize;
use polder_pool::{Array, FileState};
use polder_testkit::pools::{disk, tight};
use polder_vector::{ElementKind, HnswIndex, HnswOptions, Metric};

use super::*;
use crate::bad_input::says;

/// Under the inner product a vector of zeros is one as any other, and no direction to train on.
#[test]
fn zeros_under_the_inner_product() {
    let disk = disk();
    let shape = VectorShape { metric: Metric::InnerProduct, ..l2(2) };
    let options = IvfOptions { shape, lists: 2 };
    let sample = [[0.0_f32, 0.0], [1.0, 0.0], [0.0, 1.0]];
    let (_pool, index) = new_index_of::<Array, _>(&disk, PageSize::MIN, &options, 1, &sample);
    let node = index.insert(5, &[0.0_f32, 0.0]).unwrap();
    index.insert(6, &[0.0_f32, 2.0]).unwrap();
    let found = search(&index, &[0.0_f32, 1.0], 2, 2);
    assert_eq!((found[0].label, found[0].distance), (6, -1.0));
    assert_eq!((found[1].label, found[1].distance), (5, 1.0));
    assert_eq!(search(&index, &[0.0_f32, 0.0], 2, 1).len(), 2);
    assert!(index.remove(5, node).unwrap());
    let pool = open_pool::<Array>(&disk, &tight::<Array>(PageSize::MIN, FileState::NEW));
    let space = pool.create_space().unwrap();
    let few = IvfIndex::create(space, &options, &sample[..2]).unwrap_err();
    says(few, "the sample has 1 vectors, and 2 lists need at least as many");
}

#[test]
fn options_and_samples_that_are_not_possible() {
    let refused = |options: IvfOptions, sample: &[Vec<f32>], text: &str| {
        let config = tight::<Array>(PageSize::MIN, FileState::NEW);
        let pool: Pool<Array> = open_pool(&disk(), &config);
        let space = pool.create_space().unwrap();
        says(IvfIndex::create(space.clone(), &options, sample).unwrap_err(), text);
        assert_eq!(space.used_pages().unwrap(), [], "nothing was made");
    };
    let options = IvfOptions { shape: l2(3), lists: 4 };
    let good = sample(3, 4);
    for lists in [0, 65537] {
        let text = format!("the number of lists is {lists}, and must be 1 to 65536");
        refused(IvfOptions { lists, ..options }, &good, &text);
    }
    refused(options, &good[..3], "the sample has 3 vectors, and 4 lists need at least as many");
    let with = |vector: Vec<f32>| [good.clone(), vec![vector]].concat();
    refused(
        options,
        &with(vec![1.0, f32::NAN, 0.0]),
        "dimension 1 of the vector is NaN, which has no distance to anything",
    );
    refused(
        options,
        &with(vec![1.0]),
        "the vector has 1 dimensions, and the index is for vectors of 3",
    );
    refused(
        IvfOptions { shape: l2(0), lists: 4 },
        &good,
        "the number of dimensions is 0, and must be 1 to 524288",
    );
    refused(
        IvfOptions { shape: l2(1024), lists: 4 },
        &good,
        "a vector with its label has 4104 bytes, and a page has room for 4008: take larger pages, \
         fewer dimensions, or smaller elements",
    );
    let shape = VectorShape { element: ElementKind::Bit, dimensions: 8, metric: Metric::L2 };
    refused(
        IvfOptions { shape, lists: 4 },
        &good,
        "vectors of bit cannot be compared by l2: bits are, and only they, by hamming",
    );
}

/// The training tells how far it is, and stops when it is told to.
#[test]
fn training_that_is_stopped() {
    let options = IvfOptions { shape: l2(3), lists: 8 };
    let sample = sample(3, 500);
    let pool: Pool<Array> = open_pool(&disk(), &tight::<Array>(PageSize::MIN, FileState::NEW));
    let space = pool.create_space().unwrap();
    for most in [0.0, 0.05, 0.2] {
        let mut told = Vec::new();
        let mut progress = |done| {
            told.push(done);
            done < most
        };
        let stopped =
            IvfIndex::create_with_progress(space.clone(), &options, &sample, &mut progress);
        says(stopped.unwrap_err(), "the training of centroids was stopped");
        assert!(told.is_sorted() && *told.last().unwrap() <= 1.0, "{told:?}");
        assert_eq!(space.used_pages().unwrap(), [], "nothing was made");
    }
    let mut told = 0;
    let mut progress = |done: f64| {
        told += 1;
        (0.0..=1.0).contains(&done)
    };
    IvfIndex::create_with_progress(space, &options, &sample, &mut progress).unwrap();
    assert!(told > 8, "told {told} times");
}

/// A space with something else, or with nothing.
#[test]
fn spaces_without_an_index() {
    let disk = disk();
    let (pool, index) = new_index::<Array>(&disk, l2(3), 2, 2);
    let options = index.options();
    let again = IvfIndex::create(index.space().clone(), &options, &sample(3, 2)).unwrap_err();
    assert!(again.to_string().contains("is not empty"), "{again}");
    assert!(IvfIndex::open(pool.create_space().unwrap()).is_err());
    let graph = HnswIndex::create(pool.create_space().unwrap(), &HnswOptions::new(l2(3))).unwrap();
    let error = IvfIndex::open(graph.space().clone()).unwrap_err();
    assert!(error.to_string().contains("no vector index of lists"), "{error}");
    assert!(HnswIndex::open(index.space().clone()).is_err());
    assert_sound(&index, 0);
}
