//! Indexes in a store: one structure for all that can be hosted.

use std::iter;
use std::sync::Arc;

use polder_format::{PageKind, header_at};
use polder_pool::bytes::{PageBuf, PageRef};
use polder_pool::{AccessHint, KindOps, PoolError, Space, Translation};
use polder_structure::check::Walk;
use polder_structure::levels::root;
use polder_structure::page::ensure;
use polder_structure::{Report, Structure};

use crate::element::{VectorBuf, VectorRef};
use crate::error::VectorError;
use crate::hnsw::{self, HnswIndex};
use crate::index::VectorIndex;
use crate::ivf::{self, IvfIndex};
use crate::options::{HnswOptions, IndexOptions, IvfOptions, VamanaOptions};
use crate::pages::read_page;
use crate::vamana::{self, VamanaIndex};

/// The structure that a store hosts: vectors, each with a label, and those nearest to any vector, in
/// whichever index it is made with.
///
/// A salvage restores each vector with its label, into another node. Of lists it makes those of which a
/// page is left: around the same centroids, or where their vectors are.
#[derive(Debug)]
pub enum VectorStructure {}

/// What a vector index in a store is made with. It stays so.
///
/// ```
/// use polder_vector::{
///     ElementKind, HnswOptions, IvfOptions, Metric, NewIndex, VamanaOptions, VectorShape,
/// };
///
/// let shape = VectorShape { element: ElementKind::F32, dimensions: 2, metric: Metric::L2 };
/// let in_memory = NewIndex::from(HnswOptions::new(shape));
/// let sample = [[3.0_f32, 4.0], [5.0, 4.0]];
/// let beyond_memory = NewIndex::around(VamanaOptions::new(shape), &sample)?;
/// let lists = NewIndex::trained(IvfOptions { shape, lists: 2 }, &sample, &mut |_done| true)?;
/// # let _ = (in_memory, beyond_memory, lists);
/// # Ok::<(), polder_vector::VectorError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct NewIndex(Kind);

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Hnsw(HnswOptions),
    /// With the point from which on vectors are coded; empty for zero.
    Vamana(VamanaOptions, Vec<f32>),
    /// With a centroid for each list.
    Ivf(IvfOptions, Vec<VectorBuf>),
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

    /// Lists of vectors that are like those of a sample: their centroids are trained on it, here and now, by
    /// this thread. There can be no lists without. The sample should have some 50 vectors for each list, and
    /// must have one; of more than 64 a part is drawn. It is not inserted. `progress` is told which share of
    /// the training is done, from 0 to 1, and stops it by returning false.
    ///
    /// Takes memory for 64 vectors of each list while it trains, and for one of each afterwards.
    ///
    /// # Errors
    /// [`VectorError::Option`] and [`VectorError::Metric`] for options that there cannot be,
    /// [`VectorError::SampleTooSmall`], those of a vector that is not one of the index, which is the one that
    /// was taken last, and [`VectorError::Stopped`]. That pages are too small for vectors is told where the
    /// index is made.
    pub fn trained<V: Into<VectorBuf>>(
        options: IvfOptions,
        sample: impl IntoIterator<Item = V>,
        progress: &mut dyn FnMut(f64) -> bool,
    ) -> Result<NewIndex, VectorError> {
        let mut taken = ivf::Sample::new(&options)?;
        for vector in sample {
            taken.give(vector.into().view())?;
        }
        Ok(NewIndex(Kind::Ivf(options, taken.train(progress)?)))
    }

    /// Which index it is, and its options.
    pub fn options(&self) -> IndexOptions {
        match &self.0 {
            Kind::Hnsw(options) => IndexOptions::Hnsw(*options),
            Kind::Vamana(options, _) => IndexOptions::Vamana(*options),
            Kind::Ivf(options, _) => IndexOptions::Ivf(*options),
        }
    }
}

impl Structure for VectorStructure {
    const NAME: &'static str = "polder.vectors";
    const KINDS: &'static [KindOps] = &crate::KINDS;
    type Options = NewIndex;
    type Handle = dyn VectorIndex;

    fn create<T: Translation>(space: &Space<T>, new: &NewIndex) -> Result<(), PoolError> {
        match &new.0 {
            Kind::Hnsw(options) => HnswIndex::create(space.clone(), options).map(drop)?,
            Kind::Vamana(options, centre) => {
                VamanaIndex::create_around(space.clone(), options, centre).map(drop)?;
            }
            Kind::Ivf(options, centroids) => {
                IvfIndex::create_around(space.clone(), options, centroids).map(drop)?;
            }
        }
        Ok(())
    }

    fn open<T: Translation>(space: Space<T>) -> Result<Arc<dyn VectorIndex>, PoolError> {
        Ok(match kind_of_first(&space)? {
            PageKind::VAMANA_META => Arc::new(VamanaIndex::open(space)?),
            PageKind::IVF_META => Arc::new(IvfIndex::open(space)?),
            _ => Arc::new(HnswIndex::open(space)?),
        })
    }

    fn check<T: Translation>(
        space: &Space<T>,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Report, PoolError> {
        // A first page that cannot be read, or is another kind's, is one without which is checked.
        let checked = match kind_of_first(space) {
            Ok(PageKind::VAMANA_META) => {
                VamanaIndex::open(space.clone()).map(|index| index.check(progress))
            }
            Ok(PageKind::IVF_META) => ivf::check(space, progress),
            _ => HnswIndex::open(space.clone()).map(|index| index.check(progress)),
        };
        checked.unwrap_or_else(|error| check_without_first(space, error, progress))
    }

    /// Of a graph any page is enough that tells options. Lists are made around what all pages together tell
    /// of them.
    fn options(pages: &mut dyn Iterator<Item = PageBuf>) -> Option<NewIndex> {
        while let Some(page) = pages.next() {
            let bytes = page.page();
            let hnsw = || hnsw::options_in(bytes).map(Kind::Hnsw);
            let vamana = || vamana::options_in(bytes).map(|(of, centre)| Kind::Vamana(of, centre));
            if let Some(graph) = hnsw().or_else(vamana) {
                return Some(NewIndex(graph));
            }
            if let Some(options) = ivf::options_in(bytes) {
                let mut centroids = ivf::Centroids::new(options);
                iter::once(page).chain(pages).for_each(|page| centroids.note(page.page()));
                return centroids.into_index().map(|(of, around)| NewIndex(Kind::Ivf(of, around)));
            }
        }
        None
    }

    /// The key is the label, big-endian, which need not be the only one; the value is the bytes of the
    /// vector.
    fn entries(page: PageRef<'_>, entry: &mut dyn FnMut(&[u8], &[u8])) {
        let mut see = |label: u64, vector: &[u8]| entry(&label.to_be_bytes(), vector);
        hnsw::vectors_in(page, &mut see);
        vamana::vectors_in(page, &mut see);
        ivf::vectors_in(page, &mut see);
    }

    fn restore(index: &dyn VectorIndex, label: &[u8], vector: &[u8]) -> Result<(), PoolError> {
        let label = u64::from_be_bytes(label.try_into().map_err(PoolError::of_structure)?);
        let element = index.options().shape().element;
        let vector = VectorBuf::from_bytes(element, vector)
            .ok_or_else(|| PoolError::of_structure("the bytes are no vector of the index"))?;
        Ok(index.insert(label, vector.view()).map(drop)?)
    }
}

/// What the first page of an index is.
fn kind_of_first<T: Translation>(space: &Space<T>) -> Result<PageKind, PoolError> {
    read_page(space, AccessHint::Normal, root(), |page| PageKind(page.u8(header_at::KIND)))
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
        let first = first.page();
        let seen = match PageKind(first.u8(header_at::KIND)) {
            PageKind::HNSW_META | PageKind::VAMANA_META => verify(first),
            PageKind::IVF_META => verify(first)
                .and_then(|()| ensure(ivf::is_made(first), "the index was not made to its end")),
            _ => Err("the index has no first page"),
        };
        walk.note(root(), seen);
    }
    if walk.report.faults.is_empty() {
        return Err(error.into());
    }
    let others = space.used_pages()?.into_iter().filter(|number| *number != root());
    walk.each(others, progress, |walk, number, page| walk.note(number, verify(page)));
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

    /// Lists, around some of the vectors that [`bytes`] makes.
    fn lists(shape: VectorShape, lists: usize) -> NewIndex {
        let mut random = fastrand::Rng::with_seed(7);
        let vector = || VectorBuf::from_bytes(shape.element, &bytes(&mut random, shape)).unwrap();
        let sample: Vec<VectorBuf> = iter::repeat_with(vector).take(10 * lists).collect();
        NewIndex::trained(IvfOptions { shape, lists }, sample, &mut |_| true).unwrap()
    }

    /// What there can be of vectors of these, with options none of which is the default.
    fn news(shape: VectorShape) -> Vec<NewIndex> {
        let hnsw = HnswOptions { shape, links: 5, insert_width: 77 }.into();
        match shape.element {
            ElementKind::Bit => vec![hnsw, lists(shape, 3)],
            _ => vec![hnsw, vamana(shape).into(), lists(shape, 3)],
        }
    }

    fn kind_of(page: &PageBuf) -> PageKind {
        PageKind(page.page().u8(header_at::KIND))
    }

    /// What these pages tell, which may be all that is left.
    fn told<'p>(pages: impl IntoIterator<Item = &'p PageBuf>) -> Option<NewIndex> {
        VectorStructure::options(&mut pages.into_iter().map(|page| copy_of(page.page())))
    }

    /// An index that is made of what the pages of another one tell has the vectors of that, whichever of
    /// them is all that tells the options; of what all of them tell, it is the same. Labels may be given
    /// twice.
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
        let by_all = told(&pages).unwrap();
        assert_eq!(by_all.options(), new.options());
        assert!(by_all == *new || !matches!(new.0, Kind::Ivf(..)), "centroids are what they were");
        let by_one: Vec<_> = pages.iter().filter_map(|page| told([page])).collect();
        // Of a graph with codes its pages of nodes tell them, and the first page; of lists, pages of
        // entries.
        let tells = |page: &&PageBuf| {
            let silent = [PageKind::VAMANA_CODES, PageKind::IVF_META, PageKind::IVF_DIRECTORY];
            !silent.contains(&kind_of(page))
        };
        assert_eq!(by_one.len(), pages.iter().filter(tells).count());
        for told in by_one {
            let Hosted { space, index: again, .. } = &new_index(&told);
            match (again.options(), index.options()) {
                // Fewer lists are better than none.
                (IndexOptions::Ivf(again), IndexOptions::Ivf(of)) => {
                    assert_eq!(again, IvfOptions { lists: again.lists, ..of });
                }
                (again, of) => assert_eq!(again, of),
            }
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
            _ => panic!("it is another index"),
        };
        let new = NewIndex::around(vamana(shape), &[[-127.0_f32, 40.0], [-127.0, 42.0]]).unwrap();
        assert_eq!(centre_of(&new), [-127.0, 41.0]);
        let Hosted { space, index, .. } = &new_index(&new);
        index.insert(1, (&[7.0_f32, 8.0]).into()).unwrap();
        index.insert(2, (&[9.0_f32, 8.0]).into()).unwrap();
        let told: Vec<Vec<f32>> = pages(space)
            .iter()
            .filter_map(|page| told([page]))
            .map(|new| centre_of(&new))
            .collect();
        assert_eq!(told, [[-127.0, 41.0], [8.0, 8.0]]);
    }

    /// The centroids of a new one, each of one number.
    fn centroids_of(new: &NewIndex) -> Vec<f32> {
        let Kind::Ivf(_, centroids) = &new.0 else { panic!("it is another index") };
        centroids.iter().map(|centroid| centroid.elements::<f32>().unwrap()[0]).collect()
    }

    /// Where pages of centroids are lost, vectors tell where lists were; where both are, there is a list less.
    #[test]
    fn lists_are_made_of_what_is_left() {
        let shape = VectorShape { element: ElementKind::F32, dimensions: 400, metric: Metric::L2 };
        let vector = |number: f32| vec![number; 400];
        let sample: Vec<_> = [0.0, 100.0, 200.0, 300.0].map(vector).into();
        let options = IvfOptions { shape, lists: 4 };
        let new = NewIndex::trained(options, &sample, &mut |_| true).unwrap();
        let Hosted { space, index, .. } = &new_index(&new);
        for (label, number) in [(1, 90.0_f32), (2, 94.0), (3, 190.0), (4, 310.0)] {
            index.insert(label, (&vector(number)).into()).unwrap();
        }
        let node = index.insert(5, (&vector(301.0)).into()).unwrap();
        assert!(index.remove(5, node).unwrap());
        let pages = pages(space);
        let left = |lost: &[PageKind]| {
            let new = told(pages.iter().filter(|page| !lost.contains(&kind_of(page))));
            let new = new?;
            assert!(matches!(new.options(), IndexOptions::Ivf(of) if of.shape == shape));
            let mut centroids = centroids_of(&new);
            assert_eq!(
                new.options(),
                IndexOptions::Ivf(IvfOptions { shape, lists: centroids.len() })
            );
            centroids.sort_by(f32::total_cmp);
            Some(centroids)
        };
        let (entries, centroids) = (PageKind::IVF_ENTRIES, PageKind::IVF_CENTROIDS);
        let whole = vec![0.0, 100.0, 200.0, 300.0];
        assert_eq!(left(&[]).as_ref(), Some(&whole));
        assert_eq!(left(&[entries]).as_ref(), Some(&whole));
        assert_eq!(left(&[PageKind::IVF_META, PageKind::IVF_DIRECTORY]).as_ref(), Some(&whole));
        // In whichever order.
        let mut backwards = centroids_of(&told(pages.iter().rev()).unwrap());
        backwards.sort_by(f32::total_cmp);
        assert_eq!(backwards, whole);
        // Nothing is known of the list around 0, which was empty.
        assert_eq!(left(&[centroids]), Some(vec![92.0, 190.0, 310.0]));
        assert_eq!(left(&[centroids, entries]), None);
        // Two fit a page; the others are as they were.
        let lost = pages.iter().position(|page| kind_of(page) == centroids).unwrap();
        let others = pages.iter().enumerate().filter(|(at, _)| *at != lost);
        let mut some = centroids_of(&told(others.map(|(_, page)| page)).unwrap());
        some.sort_by(f32::total_cmp);
        let own = some.iter().filter(|number| [0.0, 100.0, 200.0, 300.0].contains(number)).count();
        assert!(own == 2 && some.len() >= 3, "{some:?}");
    }

    /// Pages of another index, as one that was dropped leaves them where maps are lost, tell nothing of this
    /// one; and no more lists are made than there were.
    #[test]
    fn pages_of_other_lists_are_not_mixed_in() {
        let shape = VectorShape { element: ElementKind::I8, dimensions: 3, metric: Metric::L2 };
        let other = VectorShape { metric: Metric::InnerProduct, ..shape };
        let made = [lists(shape, 3), lists(other, 3), lists(shape, 4)];
        let pages = made.each_ref().map(|new| pages(&new_index(new).space));
        let [first, second, third] = &pages;
        let mixed = |first: &[PageBuf], second, third| {
            told(
                first[..1]
                    .iter()
                    .chain::<&[PageBuf]>(second)
                    .chain::<&[PageBuf]>(third)
                    .chain(&first[1..]),
            )
        };
        assert_eq!(mixed(first, second, third).as_ref(), Some(&made[0]));
        assert_eq!(mixed(second, first, third).as_ref(), Some(&made[1]));
        assert_eq!(mixed(third, first, second).as_ref(), Some(&made[2]));
        // The same again, as if its lists had other names.
        let mut again: Vec<PageBuf> = first.iter().map(|page| copy_of(page.page())).collect();
        for page in again.iter_mut().filter(|page| kind_of(page) == PageKind::IVF_CENTROIDS) {
            (88..112).step_by(8).for_each(|label| {
                let name = page.page().u64(label);
                page.page_mut().set_u64(label, name + 1000);
            });
        }
        assert_eq!(told(first.iter().chain(&again)).as_ref(), Some(&made[0]));
    }

    /// Also where it is not found where the centroids are, without which no index of lists is opened.
    #[test]
    fn a_check_does_without_the_directory_of_centroids() {
        let shape = VectorShape { element: ElementKind::I8, dimensions: 3, metric: Metric::L2 };
        let Hosted { space, index, .. } = &new_index(&lists(shape, 3));
        index.insert(7, (&[1_i8, 2, 3]).into()).unwrap();
        let first = &pages(space)[0];
        let directory = polder_structure::page::page_no(first.page(), 48).unwrap();
        // It leads to itself.
        edit(space, |edit| {
            let mut page = edit.page_mut(directory)?;
            page.set_u64(32, directory.get());
            page.set_u32(48, 1);
            Ok(())
        })
        .unwrap();
        assert!(VectorStructure::open(space.clone()).is_err());
        let report = VectorStructure::check(space, &mut |_| true).unwrap();
        assert!(report.faults.iter().any(|fault| fault.page.page() == directory), "{report:?}");
        assert_eq!(report.entries, 1, "the others are looked at");
    }

    /// The first page of an index of lists whose making was cut off leads to none.
    #[test]
    fn lists_that_were_not_made_to_their_end_are_told() {
        let shape = VectorShape { element: ElementKind::I8, dimensions: 3, metric: Metric::L2 };
        let Hosted { space, .. } = &new_index(&lists(shape, 3));
        edit(space, |edit| {
            edit.page_mut(root())?.set_u64(48, 0);
            Ok(())
        })
        .unwrap();
        let opened = VectorStructure::open(space.clone()).unwrap_err();
        assert!(opened.to_string().contains("was not made to its end"), "{opened}");
        let report = VectorStructure::check(space, &mut |_| true).unwrap();
        let told: Vec<_> = report.faults.iter().map(ToString::to_string).collect();
        assert!(told.len() == 1 && told[0].contains("was not made to its end"), "{told:?}");
        assert_eq!(report.pages, space.used_pages().unwrap().len() as u64);
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

        let trained = |shape, lists| {
            NewIndex::trained(IvfOptions { shape, lists }, &[[1.0_f32, 2.0]], &mut |_| true)
        };
        assert!(trained(right, 1).is_ok());
        let refused = trained(right, 2);
        assert!(matches!(refused, Err(VectorError::SampleTooSmall { .. })), "{refused:?}");
        for (dimensions, lists) in [(0, 1), (usize::MAX, 1), (2, 0), (2, usize::MAX)] {
            let refused = trained(VectorShape { dimensions, ..right }, lists);
            assert!(matches!(refused, Err(VectorError::Option { .. })), "{refused:?}");
        }
        let refused = trained(VectorShape { metric: Metric::Hamming, ..right }, 1);
        assert!(matches!(refused, Err(VectorError::Metric { .. })), "{refused:?}");
        let refused = trained(VectorShape { dimensions: 3, ..right }, 1);
        assert!(matches!(refused, Err(VectorError::Dimensions { .. })), "{refused:?}");
        let options = IvfOptions { shape: right, lists: 1 };
        let stopped = NewIndex::trained(options, &[[1.0_f32, 2.0]], &mut |_| false);
        assert!(matches!(stopped, Err(VectorError::Stopped)), "{stopped:?}");
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
        let lists = [1000, 1001].map(|dimensions| is_made(lists(shape(dimensions), 1)));
        assert_eq!((hnsw, vamana, lists), ([true, false], [true, false], [true, false]));
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
