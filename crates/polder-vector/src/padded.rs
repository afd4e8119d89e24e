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
