//! Requests that follow each other in the file, as one transfer.

use std::ops::Range;

use libc::iovec;

use crate::device::{Direction, Request};

/// Most pieces of memory in one system call: the least `IOV_MAX` of the systems we know.
pub(super) const JOINED_MAX: usize = 1024;

/// Requests that one system call can serve.
pub(super) struct Run {
    pub(super) requests: Range<usize>,
    /// Where their memory is named, adjacent memory as one piece.
    pub(super) pieces: Range<usize>,
    pub(super) direction: Direction,
    pub(super) offset: u64,
    /// In bytes.
    pub(super) len: usize,
}

impl Run {
    /// As many of `requests`, which are those from number `begin` on, as go together; at least one.
    pub(super) fn first_of(requests: &[Request], begin: usize, pieces: &mut Vec<iovec>) -> Run {
        let Request { direction, offset, .. } = requests[0];
        let first = pieces.len();
        let (mut joined, mut len) = (0, 0);
        for request in requests {
            let end = offset.checked_add(len as u64);
            if request.direction != direction || end != Some(request.offset) {
                break;
            }
            let piece = piece_of(request);
            let full = pieces.len() - first == JOINED_MAX;
            match pieces[first..].last_mut() {
                Some(last) if last.iov_base.wrapping_byte_add(last.iov_len) == piece.iov_base => {
                    last.iov_len += piece.iov_len;
                }
                _ if full => break,
                _ => pieces.push(piece),
            }
            len += piece.iov_len;
            joined += 1;
        }
        let requests = begin..begin + joined;
        Run { requests, pieces: first..pieces.len(), direction, offset, len }
    }

    pub(super) fn end(&self) -> u64 {
        self.offset.saturating_add(self.len as u64)
    }
}

pub(super) fn piece_of(request: &Request) -> iovec {
    iovec { iov_base: request.buffer.as_ptr().cast(), iov_len: request.buffer.len() }
}
