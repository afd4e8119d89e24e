//! Indexes in a store: one structure for all that can be hosted.

use std::sync::Arc;

use polder_format::{PageKind, header_at};
use polder_pool::bytes::PageRef;
use polder_pool::{KindOps, PoolError, Space, Translation};
use polder_structure::check::Walk;
use polder_structure::levels::root;
use polder_structure::page::ensure;
use polder_structure::{Report, Structure};

use crate::element::{VectorBuf, VectorRef};
use crate::error::VectorError;
use crate::hnsw::{self, HnswIndex};
use crate::index::VectorIndex;
use crate::options::{HnswOptions, IndexOptions, VamanaOptions};
use crate::vamana::{self, VamanaIndex};

/// The structure that a store hosts: vectors, each with a label, and those nearest to any vector, in
/// whichever index it is made with.
///
/// A salvage restores each vector with its label, into another node.
#[derive(Debug)]
pub enum VectorStructure {}

/// What a vector index in a store is made with. It stays so.
///
/// ```
/// use polder_vector::{ElementKind, HnswOptions, Metric, NewIndex, VamanaOptions, VectorShape};
///
/// let shape = VectorShape { element: ElementKind::F32, dimensions: 2, metric: Metric::L2 };
/// let in_memory = NewIndex::from(HnswOptions::new(shape));
/// let sample = [[3.0_f32, 4.0], [5.0, 4.0]];
/// let beyond_memory = NewIndex::around(VamanaOptions::new(shape), &sample)?;
/// # let _ = (in_memory, beyond_memory);
/// # Ok::<(), polder_vector::VectorError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct NewIndex(Kind);

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Hnsw(HnswOptions),
    /// With the point from which on vectors are coded; empty for zero.
    Vamana(VamanaOptions, Vec<f32>),
}

impl From<HnswOptions> for NewIndex {
    fn from(options: HnswOptions) -> NewIndex {
        NewIndex(Kind::Hnsw(options))
    }
}

/// Vectors are coded from zero on; see [`NewIndex::around`].
impl From<VamanaOptions> for NewIndex {
    fn from(options: VamanaOptions) -> NewIndex {
        NewIndex(Kind::Vamana(options, Vec::new()))
    }
}

impl NewIndex {
    /// A graph steered by codes, of vectors that are like those of a sample: they are coded from its mean
    /// on, which makes codes more exact. Some hundred are enough. The sample is not inserted.
    ///
    /// # Errors
    /// [`VectorError::Option`] and [`VectorError::Metric`] for vectors that there cannot be, and those of one
    /// that is not one of the index. Other options are refused where the index is made.
    pub fn around<'v, V: Into<VectorRef<'v>>>(
        options: VamanaOptions,
        sample: impl IntoIterator<Item = V>,
    ) -> Result<NewIndex, VectorError> {
        let centre = vamana::mean(&options, sample)?;
        Ok(NewIndex(Kind::Vamana(options, centre)))
    }

    /// Which index it is, and its options.
    pub fn options(&self) -> IndexOptions {
        match &self.0 {
            Kind::Hnsw(options) => IndexOptions::Hnsw(*options),
            Kind::Vamana(options, _) => IndexOptions::Vamana(*options),
        }
    }
}

impl Structure for VectorStructure {
    const NAME: &'static str = "polder.vectors";
    const KINDS: &'static [KindOps] =
        &[hnsw::KINDS[0], hnsw::KINDS[1], vamana::KINDS[0], vamana::KINDS[1], vamana::KINDS[2]];
    type Options = NewIndex;
    type Handle = dyn VectorIndex;

    fn create<T: Translation>(space: &Space<T>, new: &NewIndex) -> Result<(), PoolError> {
        match &new.0 {
            Kind::Hnsw(options) => HnswIndex::create(space.clone(), options).map(drop)?,
            Kind::Vamana(options, centre) => {
                VamanaIndex::create_around(space.clone(), options, centre).map(drop)?;
            }
        }
        Ok(())
    }

    fn open<T: Translation>(space: Space<T>) -> Result<Arc<dyn VectorIndex>, PoolError> {
        Ok(match vamana::is_in(&space)? {
            true => Arc::new(VamanaIndex::open(space)?),
            false => Arc::new(HnswIndex::open(space)?),
        })
    }

    fn check<T: Translation>(
        space: &Space<T>,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Report, PoolError> {
        // A first page that cannot be read, or is another kind's, is one without which is checked.
        let checked = match vamana::is_in(space) {
            Ok(true) => VamanaIndex::open(space.clone()).map(|index| index.check(progress)),
            _ => HnswIndex::open(space.clone()).map(|index| index.check(progress)),
        };
        checked.unwrap_or_else(|error| check_without_first(space, error, progress))
    }

    fn options(page: PageRef<'_>) -> Option<NewIndex> {
        let vamana = |(options, centre)| NewIndex(Kind::Vamana(options, centre));
        hnsw::told_by(page).map(NewIndex::from).or_else(|| vamana::told_by(page).map(vamana))
    }

    /// The key is the label, big-endian, which need not be the only one; the value is the bytes of the
    /// vector.
    fn entries(page: PageRef<'_>, entry: &mut dyn FnMut(&[u8], &[u8])) {
        let mut see = |label: u64, vector: &[u8]| entry(&label.to_be_bytes(), vector);
        hnsw::vectors_in(page, &mut see);
        vamana::vectors_in(page, &mut see);
    }

    fn restore(index: &dyn VectorIndex, label: &[u8], vector: &[u8]) -> Result<(), PoolError> {
        let label = u64::from_be_bytes(label.try_into().map_err(PoolError::of_structure)?);
        let element = index.options().shape().element;
        let vector = VectorBuf::from_bytes(element, vector)
            .ok_or_else(|| PoolError::of_structure("the bytes are no vector of the index"))?;
        Ok(index.insert(label, vector.view()).map(drop)?)
    }
}

/// Looks at an index that is not opened because of its first page, whose fault is in the report; and at
/// each other page by itself.
///
/// # Errors
/// `error`, which opening it has met, if that is not the first page's fault; those of the allocation maps.
fn check_without_first<T: Translation>(
    space: &Space<T>,
    error: VectorError,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Report, PoolError> {
    let mut walk = Walk::new(space);
    if let Some(first) = walk.visit(root()) {
        let kind = PageKind(first.page().u8(header_at::KIND));
        let is_first = [PageKind::HNSW_META, PageKind::VAMANA_META].contains(&kind);
        let seen = ensure(is_first, "the index has no first page");
        walk.note(root(), seen.and_then(|()| verify(first.page())));
    }
    if walk.report.faults.is_empty() {
        return Err(error.into());
    }
    for number in space.used_pages()?.into_iter().filter(|number| *number != root()) {
        if !progress(walk.report.pages) {
            walk.report.stopped = true;
            break;
        }
        if let Some(copy) = walk.visit(number) {
            walk.note(number, verify(copy.page()));
        }
    }
    walk.finish()
}

/// What a page of its kind must be.
fn verify(page: PageRef<'_>) -> Result<(), &'static str> {
    let kind = PageKind(page.u8(header_at::KIND));
    let of_kind = VectorStructure::KINDS.iter().find(|of| of.kind == kind);
    let of_kind = of_kind.ok_or("this is no page of a vector index")?;
    (of_kind.check)(page)?;
    if kind == PageKind::HNSW_NODES { hnsw::verify_nodes(page) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};
    use polder_format::PageSize;
    use polder_pool::bytes::PageBuf;
    use polder_pool::{AccessHint, Array, FileState, Pool};
    use polder_structure::edit;
    use polder_structure::page::copy_of;
    use polder_testkit::pools;

    use super::*;
    use crate::element::ElementKind;
    use crate::metric::Metric;
    use crate::vectors::VectorShape;

    /// An index in a pool, as a store has it.
    struct Hosted {
        _pool: Pool<Array>,
        space: Space<Array>,
        index: Arc<dyn VectorIndex>,
    }

    fn new_index(new: &NewIndex) -> Hosted {
        let config = pools::config(4, PageSize::MIN, FileState::NEW);
        let kinds = VectorStructure::KINDS;
        let pool: Pool<Array> = Pool::open(Box::new(pools::disk()), &config, kinds).unwrap();
        let space = pool.create_space().unwrap();
        VectorStructure::create(&space, new).unwrap();
        let index = VectorStructure::open(space.clone()).unwrap();
        Hosted { _pool: pool, space, index }
    }

    fn pages(space: &Space<Array>) -> Vec<PageBuf> {
        let copy = |number| {
            space.run(AccessHint::Normal, |attempt| {
                let page = space.page(attempt, number)?;
                let copy = copy_of(page.page());
                page.validate().map(|()| copy)
            })
        };
        space.used_pages().unwrap().into_iter().map(|number| copy(number).unwrap()).collect()
    }

    fn entries(space: &Space<Array>) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut entries = Vec::new();
        for page in pages(space) {
            VectorStructure::entries(page.page(), &mut |label, vector| {
                entries.push((label.to_vec(), vector.to_vec()));
            });
        }
        entries.sort();
        entries
    }

    /// The bytes of a vector of this kind of numbers, none of which is out of bounds.
    fn bytes(random: &mut fastrand::Rng, shape: VectorShape) -> Vec<u8> {
        let mut numbers = std::iter::repeat_with(|| random.i8(1..));
        let count = shape.element.bytes(shape.dimensions) / shape.element.bytes_of(1);
        let number = |number: i8| match shape.element {
            ElementKind::F32 => f32::from(number).to_le_bytes().to_vec(),
            ElementKind::F16 => f16::from(number).to_le_bytes().to_vec(),
            ElementKind::Bf16 => bf16::from(number).to_le_bytes().to_vec(),
            ElementKind::I8 | ElementKind::Bit => vec![number as u8],
        };
        numbers.by_ref().take(count).flat_map(number).collect()
    }

    fn vamana(shape: VectorShape) -> VamanaOptions {
        VamanaOptions { shape, links: 5, insert_width: 77, code_bits: 2 }
    }

    /// What there can be of vectors of these, with options none of which is the default.
    fn news(shape: VectorShape) -> Vec<NewIndex> {
        let hnsw = HnswOptions { shape, links: 5, insert_width: 77 }.into();
        match shape.element {
            ElementKind::Bit => vec![hnsw],
            _ => vec![hnsw, vamana(shape).into()],
        }
    }

    /// An index that is made of what the pages of another one tell is what that was, whichever of them
    /// tells the options. Labels may be given twice.
    #[test]
    fn pages_tell_options_and_vectors() {
        let mut random = fastrand::Rng::with_seed(5);
        for element in ElementKind::ALL {
            for metric in Metric::ALL.into_iter().filter(|metric| metric.is_for(element)) {
                let shape = VectorShape { element, dimensions: 24, metric };
                for new in news(shape) {
                    is_told_by_its_pages(&new, &mut random);
                }
            }
        }
    }

    fn is_told_by_its_pages(new: &NewIndex, random: &mut fastrand::Rng) {
        let Hosted { space, index, .. } = &new_index(new);
        let shape = index.options().shape();
        let mut model: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        for label in 0..100_u64 {
            let label = (label / 2).to_be_bytes();
            let vector = bytes(random, shape);
            VectorStructure::restore(&**index, &label, &vector).unwrap();
            model.push((label.to_vec(), vector));
        }
        model.sort();
        assert_eq!(entries(space), model);
        let pages = pages(space);
        assert!(pages.len() > 3);
        let told: Vec<_> =
            pages.iter().filter_map(|page| VectorStructure::options(page.page())).collect();
        // Of a graph with codes its pages of nodes tell them, and the first page.
        let codes = pages
            .iter()
            .filter(|page| PageKind(page.page().u8(header_at::KIND)) == PageKind::VAMANA_CODES);
        assert_eq!(told.len() + codes.count(), pages.len());
        for told in told {
            let Hosted { space, index: again, .. } = &new_index(&told);
            assert_eq!(again.options(), index.options());
            for (label, vector) in &model {
                VectorStructure::restore(&**again, label, vector).unwrap();
            }
            assert_eq!(entries(space), model);
            assert_eq!(VectorStructure::check(space, &mut |_| true).unwrap().faults, []);
        }
    }

    /// The centre is kept, and is found again in the first page; without that, in the vectors of a page.
    #[test]
    fn pages_tell_the_centre() {
        let shape = VectorShape { element: ElementKind::F32, dimensions: 2, metric: Metric::L2 };
        let centre_of = |new: &NewIndex| match &new.0 {
            Kind::Vamana(options, centre) => {
                assert_eq!(*options, vamana(shape));
                centre.clone()
            }
            Kind::Hnsw(_) => panic!("it is another index"),
        };
        let new = NewIndex::around(vamana(shape), &[[-127.0_f32, 40.0], [-127.0, 42.0]]).unwrap();
        assert_eq!(centre_of(&new), [-127.0, 41.0]);
        let Hosted { space, index, .. } = &new_index(&new);
        index.insert(1, (&[7.0_f32, 8.0]).into()).unwrap();
        index.insert(2, (&[9.0_f32, 8.0]).into()).unwrap();
        let told: Vec<Vec<f32>> = pages(space)
            .iter()
            .filter_map(|page| VectorStructure::options(page.page()))
            .map(|told| centre_of(&told))
            .collect();
        assert_eq!(told, [[-127.0, 41.0], [8.0, 8.0]]);
    }

    /// Nothing panics, and no memory is asked for, whatever the shape is.
    #[test]
    fn shapes_that_cannot_be_are_refused_with_a_sample() {
        let right = VectorShape { element: ElementKind::F32, dimensions: 2, metric: Metric::L2 };
        let around = |shape| NewIndex::around(vamana(shape), &[[1.0_f32, 2.0]]);
        assert!(around(right).is_ok());
        for dimensions in [0, usize::MAX] {
            let refused = around(VectorShape { dimensions, ..right });
            assert!(matches!(refused, Err(VectorError::Option { .. })), "{refused:?}");
        }
        let refused = around(VectorShape { metric: Metric::Hamming, ..right });
        assert!(matches!(refused, Err(VectorError::Metric { .. })), "{refused:?}");
        let refused = around(VectorShape { dimensions: 3, ..right });
        assert!(matches!(refused, Err(VectorError::Dimensions { .. })), "{refused:?}");
    }

    /// A first page that is a sound page of another kind is told, and all others are looked at.
    #[test]
    fn a_check_does_without_the_first_page() {
        let shape = VectorShape { element: ElementKind::I8, dimensions: 3, metric: Metric::L2 };
        for new in news(shape) {
            let Hosted { space, index, .. } = &new_index(&new);
            index.insert(7, (&[1_i8, 2, 3]).into()).unwrap();
            let used = space.used_pages().unwrap();
            let other = *used.last().unwrap();
            edit(space, |edit| {
                let kind = edit.page(other)?.u8(header_at::KIND);
                edit.copy(other, root())?;
                edit.page_mut(root())?.set_u8(header_at::KIND, kind);
                Ok(())
            })
            .unwrap();
            let report = VectorStructure::check(space, &mut |_| true).unwrap();
            assert_eq!(report.pages, used.len() as u64);
            let told: Vec<_> = report.faults.iter().map(ToString::to_string).collect();
            assert!(told.len() == 1 && told[0].contains("has no first page"), "{told:?}");
        }
    }

    /// As the documentation of collections says.
    #[test]
    fn so_long_vectors_fit_the_smallest_pages() {
        let shape =
            |dimensions| VectorShape { element: ElementKind::F32, dimensions, metric: Metric::L2 };
        let config = pools::config(4, PageSize::MIN, FileState::NEW);
        let kinds = VectorStructure::KINDS;
        let pool: Pool<Array> = Pool::open(Box::new(pools::disk()), &config, kinds).unwrap();
        let is_made =
            |new: NewIndex| VectorStructure::create(&pool.create_space().unwrap(), &new).is_ok();
        let hnsw = [964, 965].map(|dimensions| is_made(HnswOptions::new(shape(dimensions)).into()));
        let vamana =
            [920, 921].map(|dimensions| is_made(VamanaOptions::new(shape(dimensions)).into()));
        assert_eq!((hnsw, vamana), ([true, false], [true, false]));
    }

    /// What was removed is not salvaged.
    #[test]
    fn a_vector_that_has_left_is_no_entry() {
        let shape = VectorShape { element: ElementKind::I8, dimensions: 3, metric: Metric::L2 };
        for new in news(shape) {
            let Hosted { space, index, .. } = &new_index(&new);
            let nodes =
                [[1_i8, 2, 3], [4, 5, 6]].map(|vector| index.insert(7, (&vector).into()).unwrap());
            assert!(index.remove(7, nodes[0]).unwrap());
            assert_eq!(entries(space), [(7_u64.to_be_bytes().to_vec(), vec![4, 5, 6])]);
        }
    }

    #[test]
    fn what_is_no_entry_is_refused() {
        let shape =
            VectorShape { element: ElementKind::F32, dimensions: 2, metric: Metric::Cosine };
        for new in news(shape) {
            let Hosted { space, index, .. } = &new_index(&new);
            let label = 7_u64.to_be_bytes();
            let ones = [1.0_f32; 3].map(f32::to_le_bytes).concat();
            for (label, vector) in [
                (&label[..7], &ones[..8]),
                (&label, &ones[..7]),
                (&label, &ones[..9]),
                (&label, &[0; 8]),
                (&label, &[0xff; 8]),
            ] {
                let refused = VectorStructure::restore(&**index, label, vector).unwrap_err();
                assert!(matches!(refused, PoolError::Structure { .. }), "{refused}");
            }
            assert_eq!(entries(space), []);
        }
    }
}
