//! Requests that follow each other in the file, as one transfer.

use libc::iovec;

use crate::device::{Direction, Request};

/// Most pieces of memory in one system call: the least `IOV_MAX` of the systems we know.
pub(super) const JOINED_MAX: usize = 1024;

/// Bytes that are read by one transfer, unless one request has more: a device works at several of this
/// length at once, and at a longer one as at one.
pub(super) const READ_MAX: usize = 128 << 10;

/// A request, and the number by which its caller knows it.
pub(super) type Numbered = (u64, Request);

/// Requests that one system call can serve.
pub(super) type Transfer = Vec<Numbered>;

/// The memory of a request.
pub(super) fn piece_of(request: &Request) -> iovec {
    iovec { iov_base: request.buffer.as_ptr().cast(), iov_len: request.buffer.len() }
}

/// How many of `requests` go together with the first of them, itself among them.
pub(super) fn joined(requests: &[Numbered]) -> usize {
    let Some((_, first)) = requests.first() else { return 0 };
    let (mut end, mut pieces, mut joined) = (Some(first.offset), 0, 0);
    let (mut memory_end, mut bytes) = (None, 0);
    for (_, request) in requests {
        if request.direction != first.direction || end != Some(request.offset) {
            break;
        }
        let piece = piece_of(request);
        bytes += piece.iov_len;
        if request.direction == Direction::Read && bytes > READ_MAX && joined > 0 {
            break;
        }
        if memory_end != Some(piece.iov_base) {
            if pieces == JOINED_MAX {
                break;
            }
            pieces += 1;
        }
        memory_end = Some(piece.iov_base.wrapping_byte_add(piece.iov_len));
        end = request.offset.checked_add(piece.iov_len as u64);
        joined += 1;
    }
    joined
}

/// Whether a transfer reads.
pub(super) fn is_read(requests: &[Numbered]) -> bool {
    matches!(requests.first(), Some((_, first)) if first.direction == Direction::Read)
}

/// Whether so much is read together that it goes as a request of its own.
pub(super) fn is_long_read(requests: &[Numbered]) -> bool {
    is_read(requests)
        && requests.iter().map(|(_, request)| request.buffer.len()).sum::<usize>() >= READ_MAX
}

/// The memory of requests that go together, adjacent memory as one piece; gives how many bytes it has.
pub(super) fn pieces_of(requests: &[Numbered], pieces: &mut Vec<iovec>) -> usize {
    pieces.clear();
    let mut len = 0;
    for (_, request) in requests {
        let piece = piece_of(request);
        len += piece.iov_len;
        match pieces.last_mut() {
            Some(last) if last.iov_base.wrapping_byte_add(last.iov_len) == piece.iov_base => {
                last.iov_len += piece.iov_len;
            }
            _ => pieces.push(piece),
        }
    }
    len
}
