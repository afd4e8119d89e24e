//! Searches.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use polder_pool::lock;
use polder_vector::{Answer, Filter, Probe, Probed, Search, VectorRef};

use super::{Collection, record};
use crate::error::StoreError;

/// Tries of a search that has met vectors without rows, which others were inserting, replacing or removing.
const MOST_TRIES: usize = 3;
/// How much a search looks at that was not told.
const WIDTH: usize = 100;

/// Whether a key with this payload may be found.
pub type RowFilter<'f> = dyn Fn(&[u8], &[u8]) -> bool + Sync + 'f;

/// What a search of a collection is to find.
///
/// ```
/// use polder::Query;
///
/// let dutch = |_key: &[u8], payload: &[u8]| payload == b"nl";
/// let query = Query::new(10).width(200).within(0.5).filter(&dutch);
/// # assert!(format!("{query:?}").contains("200"));
/// ```
#[derive(Clone, Copy)]
pub struct Query<'f> {
    count: usize,
    width: usize,
    within: f32,
    filter: Option<&'f RowFilter<'f>>,
    is_exact: bool,
}

impl<'f> Query<'f> {
    /// The `count` nearest.
    pub fn new(count: usize) -> Query<'f> {
        Query { count, width: WIDTH, within: f32::INFINITY, filter: None, is_exact: false }
    }

    /// How much is looked at, 100 by default: with more, more of the nearest are found, and it takes
    /// longer. How many of the nearest the search keeps in sight (`ef` in the papers).
    #[must_use]
    pub fn width(self, width: usize) -> Query<'f> {
        Query { width, ..self }
    }

    /// None that is farther; see [`Metric`](crate::vector::Metric).
    #[must_use]
    pub fn within(self, distance: f32) -> Query<'f> {
        Query { within: distance, ..self }
    }

    /// None of which this is false, which is asked of keys and payloads while the search goes on: as many
    /// are found as were asked for, if so many match. It may read the store, and not write to it.
    #[must_use]
    pub fn filter(self, filter: &'f RowFilter<'f>) -> Query<'f> {
        Query { filter: Some(filter), ..self }
    }

    /// The very nearest: all vectors are compared.
    #[must_use]
    pub fn exact(self) -> Query<'f> {
        Query { is_exact: true, ..self }
    }
}

impl fmt::Debug for Query<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Query")
            .field("count", &self.count)
            .field("width", &self.width)
            .field("within", &self.within)
            .field("filter", &self.filter.map(|_| ..))
            .field("is_exact", &self.is_exact)
            .finish()
    }
}

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// Its key.
    pub key: Vec<u8>,
    /// Its payload.
    pub payload: Vec<u8>,
    /// How far its vector is; see [`Metric`](crate::vector::Metric).
    pub distance: f32,
}

/// What a search has found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Hits {
    /// Nearest first.
    pub hits: Vec<Hit>,
    /// Whether each vector that matches was compared, so that these are the nearest, and fewer than were
    /// asked for only if there are no more.
    pub is_exhaustive: bool,
}

/// A filter of rows, as the index asks it of labels.
struct Rows<'r> {
    of: &'r Collection,
    filter: Option<&'r RowFilter<'r>>,
    /// Whether there was a label without a row.
    has_missed: AtomicBool,
    /// The first error that was met.
    failed: Mutex<Option<StoreError>>,
}

impl<'r> Rows<'r> {
    fn new(of: &'r Collection, filter: Option<&'r RowFilter<'r>>) -> Rows<'r> {
        Rows { of, filter, has_missed: AtomicBool::new(false), failed: Mutex::new(None) }
    }
}

impl Filter for Rows<'_> {
    fn matches(&self, label: u64) -> bool {
        let filter = |key: &[u8], payload: &[u8]| self.filter.is_none_or(|of| of(key, payload));
        match self.of.row(label, filter) {
            Ok(Some(matches)) => matches,
            Ok(None) => {
                self.has_missed.store(true, Relaxed);
                false
            }
            Err(error) => {
                lock(&self.failed).get_or_insert(error);
                false
            }
        }
    }
}

/// Searches.
impl Collection {
    /// The keys whose vectors are near to `query`, nearest first. (Beside changes it is no snapshot: a key
    /// whose vector is replaced meanwhile is found by the old one or the new one.)
    ///
    /// # Errors
    /// [`StoreError::Structure`] for a vector that is not one of the collection, and those of reading.
    pub fn search<'v>(
        &self,
        query: impl Into<VectorRef<'v>>,
        wanted: &Query<'_>,
    ) -> Result<Hits, StoreError> {
        self.search_for(query.into(), wanted)
    }

    fn search_for(&self, query: VectorRef<'_>, wanted: &Query<'_>) -> Result<Hits, StoreError> {
        let mut count = wanted.count;
        for tries in 1.. {
            let rows = Rows::new(self, wanted.filter);
            let mut search = Search::new(count, wanted.width).within(wanted.within);
            // Without a filter only what is found is looked up.
            if wanted.filter.is_some() {
                search = search.filter(&rows);
            }
            let answer = self.read(|index| match wanted.is_exact {
                true => index.search_exact(query, &search),
                false => index.search(query, &search),
            })?;
            if let Some(error) = lock(&rows.failed).take() {
                return Err(error);
            }
            let found = answer.found.len();
            let mut hits = self.hits(answer)?;
            let missed = found - hits.hits.len();
            if missed == 0 && !rows.has_missed.load(Relaxed) || tries == MOST_TRIES {
                hits.hits.truncate(wanted.count);
                return Ok(hits);
            }
            // COLL-1: the vector that has come in its place is there by now.
            count = count.saturating_add(missed);
        }
        Ok(Hits::default())
    }

    /// The rows of what was found, of what has one.
    fn hits(&self, answer: Answer) -> Result<Hits, StoreError> {
        let labels: Vec<_> = answer.found.iter().map(|found| found.label.to_be_bytes()).collect();
        let mut rows = vec![None; labels.len()];
        self.rows.get_many(&labels, |at, row| rows[at] = row.map(<[u8]>::to_vec))?;
        let mut hits = Vec::with_capacity(labels.len());
        for (found, row) in answer.found.iter().zip(rows) {
            let Some(row) = row else { continue };
            let row = record::row(&row).ok_or_else(|| self.broken("a row has no key"))?;
            let (key, payload) = (row.0.to_vec(), row.1.to_vec());
            hits.push(Hit { key, payload, distance: found.distance });
        }
        Ok(Hits { hits, is_exhaustive: answer.is_exhaustive })
    }

    /// How many of the `count` nearest to these vectors searches of each width find, and how fast, beside
    /// comparing with all; and the least width that finds this part of them, `None` if none does. Behind
    /// `progress`, which is told how many vectors were compared with all, that is; it stops the probe by
    /// returning false, and `None` is the answer.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// # use polder::vector::{ElementKind, HnswOptions, Metric, VectorRef, VectorShape};
    /// # let shape = VectorShape { element: ElementKind::F32, dimensions: 2, metric: Metric::L2 };
    /// # let points = store.create_collection("points", &HnswOptions::new(shape))?;
    /// # points.insert("a", &[1.0_f32, 2.0], "")?;
    /// let sample = [[0.2_f32, 0.7], [0.9, 0.1]];
    /// let sample: Vec<VectorRef> = sample.iter().map(VectorRef::from).collect();
    /// let probed = points.probe(&sample, 10, &[20, 100], Some(0.95), &mut |_| true)?.unwrap();
    /// assert!(probed.enough.unwrap().recall >= 0.95);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Collection::search`].
    pub fn probe(
        &self,
        sample: &[VectorRef<'_>],
        count: usize,
        widths: &[usize],
        recall: Option<f64>,
        progress: &mut dyn FnMut(usize) -> bool,
    ) -> Result<Option<CollectionProbe>, StoreError> {
        self.read(|index| {
            let Some(probe) = Probe::new(index, sample, &Search::new(count, 0), progress)? else {
                return Ok(None);
            };
            let widths = widths.iter().map(|width| probe.measure(*width));
            let widths = widths.collect::<Result<_, _>>()?;
            let enough = match recall {
                Some(recall) => probe.width_for(recall)?,
                None => None,
            };
            Ok(Some(CollectionProbe { widths, enough }))
        })
    }
}

/// What a probe of a collection has found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CollectionProbe {
    /// For each width that was given.
    pub widths: Vec<Probed>,
    /// For the least width that finds as much as was asked for.
    pub enough: Option<Probed>,
}
