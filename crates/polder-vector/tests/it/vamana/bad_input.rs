//! What cannot be done is refused, by what is wrong with it, and nothing has changed.

use polder_format::PageSize;
use polder_pool::{Array, FileState, Pool};
use polder_testkit::pools::{disk, tight};
use polder_vector::{ElementKind, HnswIndex, Metric, VamanaIndex, VamanaOptions, VectorShape};

use crate::bad_input::says;
use crate::support::*;

fn new(options: &VamanaOptions, sample: &[Vec<f32>]) -> (Pool<Array>, VamanaIndex<Array>) {
    with_pool(&disk(), PageSize::MIN, 1, |space| {
        VamanaIndex::create(space, options, sample).unwrap()
    })
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
