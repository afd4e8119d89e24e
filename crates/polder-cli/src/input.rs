//! The bytes of a file or of standard input, by lines or as they come, without getting stuck in it.
//!
//! A thread of its own reads chunks ahead, so that reading and inserting overlap, and so that
//! Ctrl-C ends the command although the input may be silent for ever.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// Bytes read at a time.
const CHUNK_BYTES: usize = 64 << 10;
/// Chunks read ahead: enough to bridge a burst of page faults.
const CHUNKS_AHEAD: usize = 16;
/// How long a silent input may hide a Ctrl-C.
const PATIENCE: Duration = Duration::from_millis(100);
/// What no row may exceed: a value, of which a byte takes at most six as text (`\u0000` in JSON),
/// and a key. It bounds the memory that input without ends of rows can take.
const MAX_ROW_BYTES: usize = 6 * polder::MAX_VALUE_BYTES as usize + (1 << 20);
/// What is said of such a row.
pub const TOO_LONG: &str = "the row is longer than any can be; its end may be missing";

/// What [`Input::next_line`] came to.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A line, without its end (`\n` or `\r\n`).
    Whole,
    /// A line longer than any row may be; its bytes are gone.
    TooLong,
    /// There are no more.
    End,
}

/// Where lines come from.
pub struct Input {
    name: String,
    bytes: Option<u64>,
    chunks: Receiver<io::Result<Vec<u8>>>,
    chunk: Vec<u8>,
    at: usize,
    taken: u64,
    /// Bytes of the row so far, where rows are not read as lines.
    row: usize,
    /// How often a reader of rows has been told that there is nothing more: once by the end of a
    /// line, then by no bytes.
    ends: u32,
    stop: Interrupt,
}

impl Input {
    /// Opens a file, or standard input for `-`.
    pub fn open(path: &Path, stop: &Interrupt) -> Result<Input, Failure> {
        let (chunks, bytes, name) = if path == Path::new("-") {
            let name = "standard input".to_owned();
            (read_ahead(&name, || Ok(io::stdin()))?, None, name)
        } else {
            let name = path.display().to_string();
            let about =
                std::fs::metadata(path).map_err(Failure::io(format!("cannot read {name}")))?;
            let bytes = about.is_file().then_some(about.len());
            let path: PathBuf = path.into();
            (read_ahead(&name, move || File::open(path))?, bytes, name)
        };
        Ok(Input::new(name, bytes, chunks, stop.clone()))
    }

    fn new(
        name: String,
        bytes: Option<u64>,
        chunks: Receiver<io::Result<Vec<u8>>>,
        stop: Interrupt,
    ) -> Input {
        Input { name, bytes, chunks, chunk: Vec::new(), at: 0, taken: 0, row: 0, ends: 0, stop }
    }

    /// What to call it in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes in all, where that is known.
    pub fn bytes(&self) -> Option<u64> {
        self.bytes
    }

    /// Bytes of the lines so far.
    pub fn bytes_taken(&self) -> u64 {
        self.taken
    }

    /// Puts the next line into `line`.
    pub fn next_line(&mut self, line: &mut Vec<u8>) -> Result<Line, Failure> {
        self.stop.check()?;
        line.clear();
        let mut too_long = false;
        let mut begun = false;
        loop {
            if self.at == self.chunk.len() && !self.next_chunk()? {
                return Ok(match (begun, too_long) {
                    (false, _) => Line::End,
                    (true, true) => Line::TooLong,
                    (true, false) => Line::Whole,
                });
            }
            begun = true;
            let rest = &self.chunk[self.at..];
            let end = rest.iter().position(|&byte| byte == b'\n');
            let piece = &rest[..end.unwrap_or(rest.len())];
            if too_long || line.len() + piece.len() > MAX_ROW_BYTES {
                too_long = true;
                *line = Vec::new();
            } else {
                line.extend_from_slice(piece);
            }
            let used = piece.len() + usize::from(end.is_some());
            self.at += used;
            self.taken += used as u64;
            if end.is_some() {
                line.pop_if(|byte| *byte == b'\r');
                return Ok(if too_long { Line::TooLong } else { Line::Whole });
            }
        }
    }

    /// Waits for more; `false` at the end.
    fn next_chunk(&mut self) -> Result<bool, Failure> {
        loop {
            self.stop.check()?;
            match self.chunks.recv_timeout(PATIENCE) {
                Ok(Ok(chunk)) => {
                    (self.chunk, self.at) = (chunk, 0);
                    return Ok(true);
                }
                Ok(Err(error)) => {
                    return Err(Failure::io(format!("cannot read {}", self.name))(error));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(false),
            }
        }
    }
}

impl Input {
    /// A row begins here, for a reader that knows rows.
    pub fn begin_row(&mut self) {
        self.row = 0;
    }

    /// Whether that reader wanted more when the last line had ended: its row is not complete.
    pub fn is_overdrawn(&self) -> bool {
        self.ends > 1
    }
}

/// For readers that know rows. The last line has an end, also where the input has none. An error holds
/// a [`Failure`], or is [`TOO_LONG`].
impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.chunk.len() && !self.next_chunk().map_err(io::Error::other)? {
            self.ends = self.ends.saturating_add(1);
            return if self.is_overdrawn() { Ok(0) } else { (&b"\n"[..]).read(buffer) };
        }
        if self.row > MAX_ROW_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, TOO_LONG));
        }
        let len = (&self.chunk[self.at..]).read(buffer)?;
        self.at += len;
        self.taken += len as u64;
        self.row += len;
        Ok(len)
    }
}

/// Starts the thread that reads. It ends with its input, or when nobody wants more; one that waits
/// for silent input ends with the process.
fn read_ahead<R: Read>(
    name: &str,
    open: impl FnOnce() -> io::Result<R> + Send + 'static,
) -> Result<Receiver<io::Result<Vec<u8>>>, Failure> {
    let (sender, receiver) = sync_channel(CHUNKS_AHEAD);
    let read = move || {
        if let Err(error) = open().and_then(|source| pump(source, &sender)) {
            // Nobody is left to tell if this fails.
            let _ = sender.send(Err(error));
        }
    };
    let started = thread::Builder::new().name("read-ahead".to_owned()).spawn(read);
    started.map_err(Failure::io(format!("cannot start a thread to read {name}")))?;
    Ok(receiver)
}

fn pump(mut source: impl Read, chunks: &SyncSender<io::Result<Vec<u8>>>) -> io::Result<()> {
    loop {
        let mut chunk = vec![0; CHUNK_BYTES];
        let len = match source.read(&mut chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            outcome => outcome?,
        };
        chunk.truncate(len);
        if len == 0 || chunks.send(Ok(chunk)).is_err() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn input(chunks: &'static [&'static [u8]]) -> Input {
        let (sender, receiver) = sync_channel(chunks.len());
        for chunk in chunks {
            sender.send(Ok(chunk.to_vec())).unwrap();
        }
        Input::new("test".to_owned(), None, receiver, Interrupt::default())
    }

    fn lines(mut input: Input) -> Vec<String> {
        let (mut line, mut lines) = (Vec::new(), Vec::new());
        while input.next_line(&mut line).unwrap() == Line::Whole {
            lines.push(String::from_utf8(line.clone()).unwrap());
        }
        lines
    }

    #[test]
    fn lines_cross_chunks_and_the_last_needs_no_end() {
        assert_eq!(
            lines(input(&[b"on", b"e\r", b"\n\ntw", b"o\nthree"])),
            ["one", "", "two", "three"]
        );
        assert_eq!(lines(input(&[b"one\n"])), ["one"]);
        assert!(lines(input(&[])).is_empty());
    }

    #[test]
    fn a_silent_input_can_be_left() {
        let (_sender, chunks) = sync_channel(1);
        let mut input = Input { chunks, ..input(&[]) };
        let stop = input.stop.clone();
        let waiter = thread::spawn(move || input.next_line(&mut Vec::new()));
        stop.request();
        let begun = Instant::now();
        while !waiter.is_finished() {
            assert!(begun.elapsed() < 100 * PATIENCE, "the input holds the command");
            thread::sleep(PATIENCE / 10);
        }
        assert!(matches!(waiter.join().unwrap(), Err(Failure::Interrupted)));
    }
}
