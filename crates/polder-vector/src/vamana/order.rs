//! In which order the vectors of a run are placed: near ones lie near each other, so that a search that
//! comes to one has read others with it.
//!
//! ```text
//! 1  some are drawn as pivots, the one nearest to the centre of the index before all others
//! 2  from the first pivot on, the next one is the nearest that is left
//! 3  each vector goes to the cell of the pivot that is nearest
//! 4  in a cell, from its pivot on, the same
//! ```

use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::Core;
use crate::near::order_of;
use crate::random::Numbers;
use crate::share::share;
use crate::vectors::Vector;

/// Vectors of a cell, about, and cells at most.
const OF_A_CELL: usize = 64;
const MOST_CELLS: usize = 1024;
/// Of those that are left so many are looked at for the nearest.
const WINDOW: usize = 256;

impl Core {
    /// The numbers of these vectors as they are to be placed, `first` before all others. `None` if `go_on`
    /// says so.
    pub(super) fn order(
        &self,
        vectors: &[&Vector],
        first: usize,
        threads: usize,
        go_on: &mut dyn FnMut(usize) -> bool,
    ) -> Option<Vec<u32>> {
        let cells = vectors.len().div_ceil(OF_A_CELL).min(MOST_CELLS);
        // 1
        let (mut random, mut pivots) = (Numbers::default(), vec![first as u32]);
        pivots.extend((1..cells).map(|_| random.below(vectors.len()) as u32));
        // 2
        self.chain(vectors, &mut pivots);
        // 3
        let cell_of: Vec<AtomicU32> = vectors.iter().map(|_| AtomicU32::new(0)).collect();
        let assign = |(): &mut (), number: usize| -> Result<(), Infallible> {
            let distance = |pivot: &u32| order_of(self.between(vectors, number, *pivot as usize));
            let nearest = (0..pivots.len()).min_by_key(|at| distance(&pivots[*at]));
            cell_of[number].store(nearest.unwrap_or(0) as u32, Relaxed);
            Ok(())
        };
        let Ok(assigned) = share(vectors.len(), threads, || (), assign, go_on);
        assigned?;
        let mut order: Vec<u32> = (0..vectors.len() as u32).collect();
        let cell = |number: &u32| {
            let cell = cell_of[*number as usize].load(Relaxed);
            (cell, pivots[cell as usize] != *number)
        };
        order.sort_unstable_by_key(|number| (cell(number), *number));
        // 4
        for of_cell in order.chunk_by_mut(|one, other| cell(one).0 == cell(other).0) {
            self.chain(vectors, of_cell);
        }
        Some(order)
    }

    fn between(&self, vectors: &[&Vector], one: usize, other: usize) -> f32 {
        let other = vectors[other];
        self.distances.between(vectors[one], other.run(), || other.scale)
    }

    /// Brings the nearest that is left behind each.
    fn chain(&self, vectors: &[&Vector], numbers: &mut [u32]) {
        for at in 1..numbers.len() {
            let last = numbers[at - 1] as usize;
            let left = at..numbers.len().min(at + WINDOW);
            let distance =
                |at: &usize| order_of(self.between(vectors, last, numbers[*at] as usize));
            if let Some(nearest) = left.min_by_key(distance) {
                numbers.swap(at, nearest);
            }
        }
    }
}
