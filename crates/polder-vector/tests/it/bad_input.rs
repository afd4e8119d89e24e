//! What cannot be done is refused, by what is wrong with it, and nothing has changed.

use polder_format::PageSize;
use polder_pool::{Array, FileState, Pool};
use polder_testkit::pools::{disk, tight};
use polder_vector::{
    ElementKind, HnswIndex, HnswOptions, KINDS, Metric, NodeId, Search, VectorError, VectorIndex,
    VectorRef, VectorShape,
};

use crate::support::*;

pub fn says(error: VectorError, text: &str) {
    assert_eq!(error.to_string(), text);
}

fn vectors_that_are_none_of_the_index<F: Family>() {
    let shape = VectorShape { metric: Metric::Cosine, ..l2(3) };
    let (_pool, index) = new_small::<F, Array>(&disk(), PageSize::MIN, shape, 1);
    let node = insert(&index, 1, &[1.0_f32, 2.0, 3.0]);
    let refused = |vector: VectorRef<'_>, text: &str| {
        says(VectorIndex::insert(&index, 2, vector).unwrap_err(), text);
        let search = Search::new(1, 10);
        says(VectorIndex::search(&index, vector, &search).unwrap_err(), text);
        says(VectorIndex::search_exact(&index, vector, &search).unwrap_err(), text);
    };
    refused(
        (&[1.0_f32, 2.0]).into(),
        "the vector has 2 dimensions, and the index is for vectors of 3",
    );
    refused(
        (&[1.0_f32, f32::NAN, 2.0]).into(),
        "dimension 1 of the vector is NaN, which has no distance to anything",
    );
    refused(
        (&[f32::INFINITY, 1.0, 2.0]).into(),
        "dimension 0 of the vector is inf, which has no distance to anything",
    );
    refused(
        (&[0.0_f32; 3]).into(),
        "all dimensions of the vector are zero: it has no direction, which the cosine is about",
    );
    refused((&[1_i8, 2, 3]).into(), "the vector is of i8, and the index is for vectors of f32");
    refused(
        (&[1e30_f32, 0.0, 0.0]).into(),
        "the length of the vector is 1.0000000150474662e30, and must be 1e-18 to 9e18",
    );
    let there = VectorIndex::get(&index, 1, node).unwrap().unwrap();
    assert_eq!(there.elements::<i8>(), None);
    for wanted in [Search::new(3, 10), Search::new(3, 10).filter(&|label| label > 0)] {
        let wanted = wanted.within(f32::NAN);
        says(
            VectorIndex::search(&index, there.view(), &wanted).unwrap_err(),
            "the distance within which vectors are to be found is NaN",
        );
    }
    assert_sound(&index, 1);
    assert_eq!(search(&index, there.view(), 0, 10), []);
    // As short and as long as vectors can be: their directions are known all the same.
    for (label, number) in [(2, 2e-18_f32), (3, 6e18)] {
        let vector = [number, 0.0, number];
        let node = insert(&index, label, &vector);
        assert_eq!(get(&index, label, node), Some(vector.to_vec()));
        for found in [search(&index, &vector, 3, 100), search_exact(&index, &vector, 3)] {
            assert!(found.iter().any(|one| one.label == label && one.distance.abs() < 1e-6));
            assert_eq!(found.len() as u64, label);
        }
    }
    // What a node is not: one of another page or none, of another level, and one that was made up.
    for page in 1..30 {
        for bits in [page << 9, page << 9 | 1, page << 9 | 3, page << 9 | 1 << 8, page << 9 | 255] {
            let made_up = NodeId::from_bits(bits).unwrap();
            for label in 0..20 {
                if get::<f32>(&index, label, made_up).is_none() {
                    assert!(!VectorIndex::remove(&index, label, made_up).unwrap(), "{made_up:?}");
                }
            }
        }
    }
    let behind = NodeId::from_bits((1 << 40) - 1).unwrap();
    assert!(!VectorIndex::remove(&index, 1, behind).unwrap());
    assert!(!VectorIndex::remove(&index, 7, node).unwrap(), "another label");
    assert!(get::<f32>(&index, 2, node).is_none(), "another label");
    assert_eq!(NodeId::from_bits(node.to_bits()), Some(node));
    assert_sound(&index, 3);
}

#[test]
fn vectors_that_are_none_of_a_graph() {
    vectors_that_are_none_of_the_index::<Graphs>();
}

#[test]
fn vectors_that_are_none_of_lists() {
    vectors_that_are_none_of_the_index::<Lists>();
}

#[test]
fn vectors_that_are_none_of_a_graph_with_codes() {
    vectors_that_are_none_of_the_index::<Steered>();
}

#[test]
fn options_that_are_not_possible() {
    let refused = |options: HnswOptions, text: &str| {
        let config = tight::<Array>(PageSize::MIN, FileState::NEW);
        let pool: Pool<Array> = Pool::open(Box::new(disk()), &config, &KINDS).unwrap();
        let space = pool.create_space().unwrap();
        let error = HnswIndex::create(space.clone(), &options).unwrap_err();
        assert_eq!(error.to_string(), text);
        assert_eq!(space.used_pages().unwrap(), [], "nothing was made");
    };
    let options = HnswOptions::new(l2(3));
    refused(HnswOptions { links: 1, ..options }, "the number of links is 1, and must be 2 to 100");
    refused(
        HnswOptions { insert_width: 0, ..options },
        "the width of inserts is 0, and must be 1 to 65536",
    );
    refused(HnswOptions::new(l2(0)), "the number of dimensions is 0, and must be 1 to 524288");
    refused(
        HnswOptions::new(l2(1024)),
        "a vector with the links of the lowest level has 4270 bytes, and a page has room for 4032: \
         take larger pages, fewer dimensions, smaller elements, or fewer links",
    );
    let shape = VectorShape { element: ElementKind::Bit, dimensions: 8, metric: Metric::L2 };
    refused(
        HnswOptions::new(shape),
        "vectors of bit cannot be compared by l2: bits are, and only they, by hamming",
    );
    let shape = VectorShape { dimensions: 9, metric: Metric::Hamming, ..shape };
    refused(
        HnswOptions::new(shape),
        "the number of dimensions, in bits and a multiple of 8, is 9, and must be 8 to 524288",
    );
}

/// A space with something else, or with nothing.
#[test]
fn spaces_without_an_index() {
    let disk = disk();
    let (pool, index) = new_index::<Array>(&disk, PageSize::MIN, &HnswOptions::new(l2(3)), 2);
    let again = HnswIndex::create(index.space().clone(), &HnswOptions::new(l2(3))).unwrap_err();
    assert!(again.to_string().contains("is not empty"), "{again}");
    assert!(HnswIndex::open(pool.create_space().unwrap()).is_err());
    assert_sound(&index, 0);
}
