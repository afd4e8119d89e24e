//! Transfers by system calls, each of which waits for its end.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use libc::{iovec, off_t};

use super::transfer::{Numbered, piece_of, pieces_of};
use super::{BLOCK_BYTES, os};
use crate::device::{Direction, Request};

/// A file, and how it is read and written.
#[derive(Debug)]
pub(super) struct Calls {
    pub(super) file: File,
    /// Relaxed: it says how to understand a refusal, and a stale value costs one more attempt.
    direct: AtomicBool,
}

impl Calls {
    pub(super) fn new(file: File, direct: bool) -> Calls {
        Calls { file, direct: AtomicBool::new(direct) }
    }

    /// Whether I/O goes past the system's page cache.
    pub(super) fn is_direct(&self) -> bool {
        self.direct.load(Relaxed)
    }

    #[cfg(test)]
    pub(super) fn go_on_buffered(&self) {
        self.direct.store(false, Relaxed);
    }

    /// Carries out a request by itself.
    pub(super) fn perform(&self, request: &mut Request) {
        let piece = &mut [piece_of(request)];
        request.outcome = self.transfer(request.direction, piece, request.offset);
    }

    /// Carries out requests that go together.
    pub(super) fn perform_all(&self, requests: &mut [Numbered]) {
        if requests.len() > 1 {
            let mut pieces = Vec::new();
            pieces_of(requests, &mut pieces);
            let Some((_, Request { direction, offset, .. })) = requests.first() else { return };
            if self.transfer(*direction, &mut pieces, *offset).is_ok() {
                return requests.iter_mut().for_each(|(_, request)| request.outcome = Ok(()));
            }
        }
        // FILE-3: each request once more, by itself.
        requests.iter_mut().for_each(|(_, request)| self.perform(request));
    }

    /// Moves all bytes of `pieces`, which it uses up, from or to `offset` on.
    pub(super) fn transfer(
        &self,
        direction: Direction,
        mut pieces: &mut [iovec],
        mut offset: u64,
    ) -> io::Result<()> {
        advance(&mut pieces, 0);
        while !pieces.is_empty() {
            let direct = self.is_direct();
            match call(&self.file, direction, pieces, offset) {
                Ok(len) => {
                    let len = if direct { len - len % BLOCK_BYTES } else { len }; // FILE-2
                    if len == 0 {
                        return Err(match direction {
                            Direction::Read => io::ErrorKind::UnexpectedEof.into(),
                            Direction::Write => io::ErrorKind::WriteZero.into(),
                        });
                    }
                    advance(&mut pieces, len);
                    offset += len as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Some file systems take the flag and refuse the transfer.
                Err(error)
                    if direct
                        && error.raw_os_error() == Some(libc::EINVAL)
                        && is_aligned(pieces, offset) =>
                {
                    os::set_direct(&self.file, false)?;
                    self.direct.store(false, Relaxed);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Takes `len` bytes, and empty pieces, away from the front.
pub(super) fn advance(pieces: &mut &mut [iovec], mut len: usize) {
    while let Some(first) = pieces.first_mut() {
        if len < first.iov_len {
            first.iov_base = first.iov_base.wrapping_byte_add(len);
            first.iov_len -= len;
            return;
        }
        len -= first.iov_len;
        *pieces = &mut std::mem::take(pieces)[1..];
    }
}

pub(super) fn is_aligned(pieces: &[iovec], offset: u64) -> bool {
    offset.is_multiple_of(BLOCK_BYTES as u64)
        && pieces.iter().all(|piece| {
            piece.iov_base.addr().is_multiple_of(BLOCK_BYTES)
                && piece.iov_len.is_multiple_of(BLOCK_BYTES)
        })
}

/// One system call: returns how many bytes it moved. There is at least one piece.
fn call(file: &File, direction: Direction, pieces: &[iovec], offset: u64) -> io::Result<usize> {
    let fd = file.as_raw_fd();
    let offset = off_t::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
    let first = pieces[0];
    let count = pieces.len() as libc::c_int; // at most JOINED_MAX
    // SAFETY: the pieces name memory of requests that are not complete, so that it is mapped and
    // no other thread writes it (Buffer::new). For a read nobody relies on its contents, and only
    // the kernel writes them (FILE-1). `pieces` itself is a slice of `count` elements.
    let moved = unsafe {
        match (direction, count) {
            (Direction::Read, 1) => libc::pread(fd, first.iov_base, first.iov_len, offset),
            (Direction::Write, 1) => libc::pwrite(fd, first.iov_base, first.iov_len, offset),
            (Direction::Read, _) => libc::preadv(fd, pieces.as_ptr(), count, offset),
            (Direction::Write, _) => libc::pwritev(fd, pieces.as_ptr(), count, offset),
        }
    };
    usize::try_from(moved).map_err(|_| io::Error::last_os_error())
}
