//! What cannot be done is refused, by what is wrong with it, and nothing has changed.

use polder_format::PageSize;
use polder_pool::{Array, FileState, Pool};
use polder_testkit::pools::{disk, tight};
use polder_vector::{
    ElementKind, HnswIndex, Metric, NodeId, Search, VamanaIndex, VamanaOptions, VectorError,
    VectorShape,
};

use crate::support::*;

fn says(error: VectorError, text: &str) {
    assert_eq!(error.to_string(), text);
}

fn new(options: &VamanaOptions, sample: &[Vec<f32>]) -> (Pool<Array>, VamanaIndex<Array>) {
    with_pool(&disk(), PageSize::MIN, 1, |space| {
        VamanaIndex::create(space, options, sample).unwrap()
    })
}

#[test]
fn vectors_that_are_none_of_the_index() {
    let shape = VectorShape { metric: Metric::Cosine, ..l2(3) };
    let (_pool, index) = new(&VamanaOptions::new(shape), &[]);
    let node = index.insert(1, &[1.0_f32, 2.0, 3.0]).unwrap();
    says(
        index.insert(2, &[1.0_f32, 2.0]).unwrap_err(),
        "the vector has 2 dimensions, and the index is for vectors of 3",
    );
    says(
        index.search(&[1.0_f32, f32::NAN, 2.0], &Search::new(1, 10)).unwrap_err(),
        "dimension 1 of the vector is NaN, which has no distance to anything",
    );
    says(
        index.search_exact(&[0.0_f32; 3], &Search::new(1, 0)).unwrap_err(),
        "all dimensions of the vector are zero: it has no direction, which the cosine is about",
    );
    says(
        index.insert(2, &[1_i8, 2, 3]).unwrap_err(),
        "the vector is of i8, and the index is for vectors of f32",
    );
    for search in [Search::new(3, 10), Search::new(3, 10).filter(&|label| label > 0)] {
        says(
            index.search(&[1.0_f32, 2.0, 3.0], &search.within(f32::NAN)).unwrap_err(),
            "the distance within which vectors are to be found is NaN",
        );
    }
    assert_sound(&index, 1);
    assert_eq!(search(&index, &[1.0_f32, 2.0, 3.0], 0, 10), []);
    // As short and as long as vectors can be: their directions are known all the same.
    for (label, number) in [(2, 2e-18_f32), (3, 6e18)] {
        let vector = [number, 0.0, number];
        let node = index.insert(label, &vector).unwrap();
        assert_eq!(get(&index, label, node), Some(vector.to_vec()));
        for found in [search(&index, &vector, 3, 10), search_exact(&index, &vector, 3)] {
            assert!(found.iter().any(|one| one.label == label && one.distance.abs() < 1e-6));
            assert_eq!(found.len() as u64, label);
        }
    }
    // No node, one of the page of nodes or of none, one of another level.
    for page in 1..20 {
        for bits in [page << 9, page << 9 | 3, page << 9 | 1 << 8, page << 9 | 255] {
            let made_up = NodeId::from_bits(bits).unwrap();
            for label in 0..4 {
                if get::<f32>(&index, label, made_up).is_none() {
                    assert!(!index.remove(label, made_up).unwrap(), "{made_up:?}");
                }
            }
        }
    }
    let behind = NodeId::from_bits((1 << 40) - 1).unwrap();
    assert!(!index.remove(1, behind).unwrap());
    assert!(index.get(2, node).unwrap().is_none(), "another label");
    assert_sound(&index, 3);
}

/// The longest vectors under L2, at both ends: sums of their squares are numbers still.
#[test]
fn the_longest_vectors() {
    let (_pool, index) = new(&VamanaOptions::new(l2(2)), &[]);
    for (label, number) in [(1, 6e18_f32), (2, -6e18), (3, 0.0)] {
        let vector = [number, number];
        index.insert(label, &vector).unwrap();
        let found = search(&index, &vector, 1, 10);
        assert_eq!((found[0].label, found[0].distance), (label, 0.0));
    }
    assert_sound(&index, 3);
}

#[test]
fn options_that_are_not_possible() {
    let refused = |options: VamanaOptions, sample: &[Vec<f32>], text: &str| {
        let config = tight::<Array>(PageSize::MIN, FileState::NEW);
        let pool: Pool<Array> = open_pool(&disk(), &config);
        let space = pool.create_space().unwrap();
        says(VamanaIndex::create(space.clone(), &options, sample).unwrap_err(), text);
        assert_eq!(space.used_pages().unwrap(), [], "nothing was made");
    };
    let options = VamanaOptions::new(l2(3));
    let none: &[Vec<f32>] = &[];
    let with = |links, insert_width, code_bits| VamanaOptions {
        links,
        insert_width,
        code_bits,
        ..options
    };
    refused(with(3, 128, 4), none, "the number of links is 3, and must be 4 to 200");
    refused(with(201, 128, 4), none, "the number of links is 201, and must be 4 to 200");
    refused(with(64, 0, 4), none, "the width of inserts is 0, and must be 1 to 65536");
    for bits in [0, 3, 8] {
        let text =
            format!("the number of bits of a code, a power of two, is {bits}, and must be 1 to 4");
        refused(with(64, 128, bits), none, &text);
    }
    refused(
        VamanaOptions::new(l2(0)),
        none,
        "the number of dimensions is 0, and must be 1 to 524288",
    );
    refused(
        VamanaOptions::new(l2(1024)),
        none,
        "a vector with its links has 4448 bytes, and a page has room for 4032: take larger pages, \
         fewer dimensions, smaller elements, or fewer links",
    );
    let shape = VectorShape { element: ElementKind::Bit, dimensions: 8, metric: Metric::Hamming };
    refused(
        VamanaOptions::new(shape),
        none,
        "vectors of bits are as short as codes: take an index that does not code vectors",
    );
    refused(
        options,
        &[vec![0.0, f32::NAN, 1.0]],
        "dimension 1 of the vector is NaN, which has no distance to anything",
    );
}

/// A space with something else, or with nothing.
#[test]
fn spaces_without_an_index() {
    let (pool, index) = new(&VamanaOptions::new(l2(3)), &[]);
    let again = VamanaIndex::create(index.space().clone(), &index.options(), &sample(3, 2));
    let again = again.unwrap_err();
    assert!(again.to_string().contains("is not empty"), "{again}");
    assert!(VamanaIndex::open(pool.create_space().unwrap()).is_err());
    let graph = HnswIndex::create(pool.create_space().unwrap(), &narrow(l2(3))).unwrap();
    let error = VamanaIndex::open(graph.space().clone()).unwrap_err();
    assert!(error.to_string().contains("no vector index with codes"), "{error}");
    assert!(HnswIndex::open(index.space().clone()).is_err());
    assert_sound(&index, 0);
}
