//! zstd, unpacked as it is read (in Rust alone, by `ruzstd`).

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

/// What a zstd file unpacks to, also where it has several frames.
pub(super) struct Unpacked {
    /// `None` once a frame's head could not be read.
    frame: Option<StreamingDecoder<BufReader<File>, FrameDecoder>>,
}

impl Unpacked {
    pub(super) fn new(packed: BufReader<File>) -> io::Result<Unpacked> {
        let frame = StreamingDecoder::new(packed).map_err(io::Error::other)?;
        Ok(Unpacked { frame: Some(frame) })
    }
}

impl Read for Unpacked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(frame) = &mut self.frame {
            let read = frame.read(buffer)?;
            if read > 0 || frame.get_mut().fill_buf()?.is_empty() {
                return Ok(read);
            }
            let rest = self.frame.take().map(StreamingDecoder::into_inner);
            self.frame = rest.map(StreamingDecoder::new).transpose().map_err(io::Error::other)?;
        }
        Err(io::Error::other("the file is damaged"))
    }
}
