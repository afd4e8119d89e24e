//! Bytes in private memory that kernels read as they read those of pages: by whole registers, the last of
//! which may go beyond their end.

use polder_pool::bytes::{OVERRUN_BYTES, Run};

/// Bytes, and padding behind them.
#[derive(Debug, Clone)]
pub(crate) struct Padded {
    words: Vec<u64>,
    bytes: usize,
}

impl Padded {
    /// Zeros.
    fn new(bytes: usize) -> Padded {
        Padded { words: vec![0; (bytes + OVERRUN_BYTES).div_ceil(8)], bytes }
    }

    /// A copy of these bytes.
    pub(crate) fn of(bytes: &[u8]) -> Padded {
        let mut padded = Padded::new(bytes.len());
        for (word, bytes) in padded.words.iter_mut().zip(bytes.chunks(8)) {
            let mut of_word = [0; 8];
            of_word[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(of_word);
        }
        padded
    }

    /// A copy of bytes of a page.
    pub(crate) fn copy_of(run: Run<'_>) -> Padded {
        let mut padded = Padded::new(run.len());
        run.copy_to(&mut padded.words);
        padded
    }

    #[inline(always)]
    pub(crate) fn run(&self) -> Run<'_> {
        Run::of(&self.words).part(0, self.bytes)
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(8 * self.words.len());
        self.words.iter().for_each(|word| bytes.extend_from_slice(&word.to_ne_bytes()));
        bytes.truncate(self.bytes);
        bytes
    }
}

/// Copies of runs of one length, one behind the other.
#[derive(Debug)]
pub(crate) struct Copies {
    words: Vec<u64>,
    /// Bytes of each, and words from one to the next.
    bytes: usize,
    stride: usize,
    count: usize,
}

impl Copies {
    /// None yet; as many as `most` take no more memory.
    pub(crate) fn with_capacity(bytes: usize, most: usize) -> Copies {
        let stride = bytes.div_ceil(8);
        let words = Vec::with_capacity(stride * most + OVERRUN_BYTES / 8);
        Copies { words, bytes, stride, count: 0 }
    }

    /// Only the first `count` are left.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.count = self.count.min(count);
    }

    pub(crate) fn push(&mut self, run: Run<'_>) {
        let at = self.stride * self.count;
        self.words.resize(at + self.stride + OVERRUN_BYTES / 8, 0);
        run.part(0, self.bytes).copy_to(&mut self.words[at..]);
        self.count += 1;
    }

    /// One of those that there are.
    #[inline(always)]
    pub(crate) fn get(&self, at: usize) -> Run<'_> {
        debug_assert!(at < self.count);
        Run::of(&self.words).part(8 * self.stride * at, self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_lie_behind_each_other() {
        for bytes in [1, 7, 8, 20, 512] {
            let mut copies = Copies::with_capacity(bytes, 2);
            let vector = |number: usize| vec![number as u8; bytes];
            let bytes_of = |copies: &Copies, at| Padded::copy_of(copies.get(at)).to_bytes();
            for number in 0..5 {
                copies.push(Padded::of(&vector(number)).run());
                (0..=number).for_each(|at| assert_eq!(bytes_of(&copies, at), vector(at)));
            }
            copies.truncate(2);
            copies.push(Padded::of(&vector(9)).run());
            let left: Vec<_> = (0..3).map(|at| bytes_of(&copies, at)).collect();
            assert_eq!(left, [vector(0), vector(1), vector(9)]);
        }
    }
}
