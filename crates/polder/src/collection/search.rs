//! Searches.

use std::cmp::Reverse;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use polder_pool::lock;
use polder_vector::{
    Answer, Filter, Places, Probe, Probed, Queries, Search, VectorBuf, VectorRef, answer_many,
    search_many, widening,
};

use super::{Collection, KeySet, record};
use crate::error::StoreError;

/// Tries of a search beside others that insert, replace and remove what it finds.
const MOST_TRIES: usize = 4;
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
    among: Option<&'f KeySet>,
    is_exact: bool,
}

impl<'f> Query<'f> {
    /// The `count` nearest.
    pub fn new(count: usize) -> Query<'f> {
        let (within, filter, among, is_exact) = (f32::INFINITY, None, None, false);
        Query { count, width: WIDTH, within, filter, among, is_exact }
    }

    /// How much is looked at, 100 by default: with more, more of the nearest are found, and it takes
    /// longer. How many of the nearest a search of a graph keeps in sight (`ef` in the papers), at least as
    /// many as it is to find; in how many lists with anything that matches a search of lists looks, those
    /// nearest first (`nprobe` in other systems), and in farther ones as long as it has not found enough.
    /// [`Collection::probe`] finds out which width finds how many of the nearest.
    #[must_use]
    pub fn width(self, width: usize) -> Query<'f> {
        Query { width, ..self }
    }

    /// None that is farther: by the square of the Euclidean distance, or by one less the inner product or
    /// the cosine; see [`Metric`](crate::vector::Metric).
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

    /// None but these, of which is known how many there are and where they lie; nothing is asked of rows for it.
    /// If they are few, all of them are compared, and nothing else is looked at.
    #[must_use]
    pub fn among(self, keys: &'f KeySet) -> Query<'f> {
        Query { among: Some(keys), ..self }
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
            .field("among", &self.among.map(KeySet::len))
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

/// Which labels a search may find, as the index asks for it.
struct Rows<'r> {
    of: &'r Collection,
    wanted: &'r Query<'r>,
    /// Whether there was a label without a row.
    has_missed: AtomicBool,
    /// The first error that was met.
    failed: Mutex<Option<StoreError>>,
}

impl<'r> Rows<'r> {
    fn new(of: &'r Collection, wanted: &'r Query<'r>) -> Rows<'r> {
        Rows { of, wanted, has_missed: AtomicBool::new(false), failed: Mutex::new(None) }
    }

    /// The search of the index. If it looks first, each label that may be found is looked up.
    fn search(&self, looks_first: bool) -> Search<'_> {
        let Query { count, width, within, among, .. } = *self.wanted;
        let plain = Search::new(count, width).within(within);
        match (looks_first, among) {
            (true, _) => plain.filter(self),
            (false, Some(keys)) => plain.filter(&keys.0),
            (false, None) => plain,
        }
    }

    /// Whether a label's row matches. `None` if there is none.
    fn ask(&self, label: u64) -> Option<bool> {
        if self.wanted.among.is_some_and(|keys| !keys.0.contains(label)) {
            return Some(false);
        }
        let filter = self.wanted.filter;
        let filter = |key: &[u8], payload: &[u8]| filter.is_none_or(|of| of(key, payload));
        self.of.row(label, filter).unwrap_or_else(|error| {
            lock(&self.failed).get_or_insert(error);
            Some(false)
        })
    }
}

impl Filter for Rows<'_> {
    fn matches(&self, label: u64) -> bool {
        self.ask(label).unwrap_or_else(|| {
            self.has_missed.store(true, Relaxed);
            false
        })
    }

    fn would_match(&self, label: u64) -> bool {
        self.ask(label).unwrap_or(false)
    }

    fn places(&self) -> Option<&Places> {
        self.wanted.among.map(|keys| &keys.0)
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
        Ok(self.search_for(query.into(), wanted)?.0)
    }

    /// Tells as well whether the index has found all that it could.
    fn search_for(
        &self,
        query: VectorRef<'_>,
        wanted: &Query<'_>,
    ) -> Result<(Hits, bool), StoreError> {
        // Where all may be found, or a set of keys, only what is found is looked up.
        let mut looks_first = wanted.filter.is_some();
        let mut tries = 1;
        loop {
            let begun = self.labels.moment();
            let rows = Rows::new(self, wanted);
            let search = rows.search(looks_first);
            let answer = self.read(|index| match wanted.is_exact {
                true => index.search_exact(query, &search),
                false => index.search(query, &search),
            })?;
            if let Some(error) = lock(&rows.failed).take() {
                return Err(error);
            }
            let found = answer.found.len();
            let mut hits = self.hits(answer)?;
            // COLL-1: others without a row may be in the way of those that have one. And where a vector had
            // lost its row, another one has come by now, if a batch was made meanwhile.
            let has_lost = hits.hits.len() < found;
            let has_moved = rows.has_missed.load(Relaxed) && self.labels.have_changed_since(begun);
            if !has_lost && !has_moved {
                return Ok((hits, found < wanted.count));
            }
            if tries == MOST_TRIES {
                hits.is_exhaustive = false;
                return Ok((hits, found < wanted.count));
            }
            (looks_first, tries) = (true, tries + 1);
        }
    }

    /// The same for many, by so many threads. Gives what is found in the order of the queries. Where vectors
    /// must be read from a device, a graph reads for several queries at once.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// # use polder::vector::{ElementKind, HnswOptions, Metric, VectorRef, VectorShape};
    /// # let shape = VectorShape { element: ElementKind::F32, dimensions: 2, metric: Metric::L2 };
    /// # let points = store.create_collection("points", HnswOptions::new(shape))?;
    /// use polder::Query;
    ///
    /// points.insert("a", &[1.0_f32, 2.0], "")?;
    /// points.insert("b", &[3.0_f32, 1.0], "")?;
    /// let queries = [[0.9_f32, 2.2], [3.1, 0.8]];
    /// let queries: Vec<VectorRef> = queries.iter().map(VectorRef::from).collect();
    /// let found = points.search_many(&queries, &Query::new(1), 2)?;
    /// assert_eq!((&found[0].hits[0].key[..], &found[1].hits[0].key[..]), (&b"a"[..], &b"b"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Collection::search`], for any of them.
    pub fn search_many(
        &self,
        queries: &[VectorRef<'_>],
        wanted: &Query<'_>,
        threads: usize,
    ) -> Result<Vec<Hits>, StoreError> {
        if wanted.is_exact {
            let each = |queries: &Queries<'_>| -> Result<Vec<(usize, Hits)>, StoreError> {
                let mut hits = Vec::new();
                while let Some((number, query)) = queries.take() {
                    hits.push((number, self.search_for(query, wanted)?.0));
                }
                Ok(hits)
            };
            return answer_many(queries, threads, each);
        }
        let begun = self.labels.moment();
        let rows = Rows::new(self, wanted);
        let search = rows.search(wanted.filter.is_some());
        let answers = self.read(|index| search_many(index, queries, &search, threads))?;
        if let Some(error) = lock(&rows.failed).take() {
            return Err(error);
        }
        let has_moved = rows.has_missed.load(Relaxed) && self.labels.have_changed_since(begun);
        let hits = |(query, answer): (&VectorRef<'_>, Answer)| {
            let found = answer.found.len();
            let hits = self.hits(answer)?;
            // As of a search alone.
            match has_moved || hits.hits.len() < found {
                true => Ok(self.search_for(*query, wanted)?.0),
                false => Ok(hits),
            }
        };
        queries.iter().zip(answers).map(hits).collect()
    }

    /// The keys whose vectors are near to `query` one after the other, nearest first but for some that are found
    /// late: as many as are taken, up to those that the query is for. Each time that more are wanted, it
    /// searches for twice as many, and wider; a query that compares with all does that each time. (Beside
    /// changes that is no snapshot; no key is given twice.)
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// # use polder::vector::{ElementKind, HnswOptions, Metric, VectorShape};
    /// # let shape = VectorShape { element: ElementKind::F32, dimensions: 2, metric: Metric::L2 };
    /// # let points = store.create_collection("points", HnswOptions::new(shape))?;
    /// use polder::Query;
    ///
    /// points.insert("a", &[1.0_f32, 2.0], "10 euros")?;
    /// points.insert("b", &[3.0_f32, 1.0], "12 euros")?;
    /// // Until the user has seen enough.
    /// for hit in points.nearest(&[0.9_f32, 2.2], &Query::new(usize::MAX)).take(1) {
    ///     assert_eq!(hit?.key, b"a");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Collection::search`], in place of the next hit; then there is none.
    pub fn nearest<'c, 'v>(
        &'c self,
        query: impl Into<VectorRef<'v>>,
        wanted: &Query<'c>,
    ) -> impl Iterator<Item = Result<Hit, StoreError>> + 'c {
        let (query, wanted) = (VectorBuf::from(query.into()), *wanted);
        let find = move |count| {
            let options = self.read(|index| Ok(index.options()))?;
            let width = options.width_for(count, wanted.width);
            let (found, is_last) =
                self.search_for(query.view(), &Query { count, width, ..wanted })?;
            Ok((found.hits, is_last))
        };
        widening(wanted.count, find, |hit: &Hit| hit.key.clone())
    }

    /// The rows of what was found, of what has one. Of two vectors of one key the newer one counts.
    fn hits(&self, answer: Answer) -> Result<Hits, StoreError> {
        let Answer { found, is_exhaustive } = answer;
        let labels: Vec<_> = found.iter().map(|found| found.label.to_be_bytes()).collect();
        let (mut hits, mut is_whole) = (Vec::with_capacity(found.len()), true);
        let looked_up = self.rows.get_many(&labels, |at, row| {
            let Some(row) = row else { return };
            let row = record::row(row).map(|(key, payload)| {
                let (key, payload) = (key.to_vec(), payload.to_vec());
                (at, Hit { key, payload, distance: found[at].distance })
            });
            is_whole &= row.is_some();
            hits.extend(row);
        });
        match looked_up {
            Err(StoreError::Key { source, .. }) => return Err(*source),
            other => other?,
        }
        if !is_whole {
            return Err(self.broken("a row has no key"));
        }
        let newest = |(at, _): &(usize, Hit)| Reverse(found[*at].label);
        hits.sort_unstable_by(|a, b| a.1.key.cmp(&b.1.key).then(newest(a).cmp(&newest(b))));
        hits.dedup_by(|older, newer| older.1.key == newer.1.key);
        hits.sort_unstable_by_key(|(at, _)| *at);
        Ok(Hits { hits: hits.into_iter().map(|(_, hit)| hit).collect(), is_exhaustive })
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
    /// # let points = store.create_collection("points", HnswOptions::new(shape))?;
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
