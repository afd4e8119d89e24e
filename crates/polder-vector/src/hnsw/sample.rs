//! A sample of an index's vectors: how many there are, about, and some of their labels.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use polder_format::PageNo;
use polder_pool::{PoolError, Translation, lock};

use super::HnswIndex;
use crate::node_id::NodeId;

/// Vectors in a sample, about.
const SAMPLE: usize = 1024;
/// A sample is drawn anew when one vector in so many was inserted or removed since.
const RENEWED_AFTER: f64 = 8.0;

/// Vectors of an index, by chance.
pub(crate) struct Sample {
    pub(super) labels: Vec<(NodeId, u64)>,
    /// How many vectors the index has, about.
    pub(super) vectors: f64,
}

/// The sample that is used at the moment.
pub(crate) struct Kept {
    sample: Arc<Sample>,
    /// What [`Core::changes`](super::Core::changes) was when it was drawn.
    changes: u64,
}

impl<T: Translation> HnswIndex<T> {
    /// The sample that is used at the moment, or a new one.
    pub(super) fn sample(&self) -> Result<Arc<Sample>, PoolError> {
        let changes = self.core.changes.load(Relaxed);
        if let Some(kept) = &*lock(&self.core.sample)
            && changes.saturating_sub(kept.changes) as f64 * RENEWED_AFTER <= kept.sample.vectors
        {
            return Ok(Arc::clone(&kept.sample));
        }
        let sample = Arc::new(self.draw_sample()?);
        *lock(&self.core.sample) = Some(Kept { sample: Arc::clone(&sample), changes });
        Ok(sample)
    }

    fn draw_sample(&self) -> Result<Sample, PoolError> {
        let space = &self.space;
        let pages = space.used_pages()?;
        let of_a_page = SAMPLE.div_ceil(pages.len().max(1));
        let drawn = pages.iter().step_by(pages.len().div_ceil(SAMPLE).max(1));
        let drawn: Vec<PageNo> = drawn.copied().collect();
        let (mut labels, mut vectors, mut there) = (Vec::with_capacity(SAMPLE), 0, Vec::new());
        let ahead = space.most_ahead().max(1);
        for (i, page) in drawn.iter().enumerate() {
            if i % ahead == 0 {
                space.load_ahead(drawn[i..].iter().copied().take(ahead));
            }
            self.labels_of(*page, &mut there)?;
            vectors += there.len();
            // Other places of each page, where not all are taken.
            let step = there.len().div_ceil(of_a_page).max(1);
            let first = page.get() as usize % step;
            labels.extend(there.iter().skip(first).step_by(step));
        }
        let vectors = vectors as f64 * pages.len() as f64 / drawn.len().max(1) as f64;
        Ok(Sample { labels, vectors })
    }
}
