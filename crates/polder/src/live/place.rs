//! Where the socket lies: its name in the directory, and how to get there by a path of any length.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::directory::{DATA, STATS};

/// The longest path, in bytes, that the address of a socket takes: 108 with the zero at its end.
const LONGEST_PATH: usize = 107;
/// Clients that may wait for the thread.
const BACKLOG: i32 = 16;

/// The directory, however it is called by now, and that the socket's name in it is ours.
#[derive(Debug)]
pub(super) struct Place(OwnedFd);

impl Place {
    /// Puts a socket into the directory, in the place of one that a killed process has left
    /// (`LIVE-1`), and listens.
    pub(super) fn take(directory: &Path) -> io::Result<(Place, UnixListener)> {
        let place = Place(open(directory)?);
        match rustix::fs::statat(&place.0, STATS, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => {}
            Ok(there) if FileType::from_raw_mode(there.st_mode) == FileType::Socket => {
                rustix::fs::unlinkat(&place.0, STATS, AtFlags::empty())?;
            }
            Ok(_) => {
                let text = format!("there is a file `{STATS}` that is no socket");
                return Err(io::Error::other(text));
            }
            Err(error) => return Err(error.into()),
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(path(directory, &place.0))?)?;
        // Nobody can connect before it listens.
        let listens = place.share().and_then(|()| rustix::net::listen(&socket, BACKLOG));
        listens.inspect_err(|_| place.leave())?;
        Ok((place, UnixListener::from(socket)))
    }

    /// Whoever may read the data file may connect, which is to write to the socket.
    fn share(&self) -> Result<(), Errno> {
        let data = rustix::fs::statat(&self.0, DATA, AtFlags::empty())?;
        let own = rustix::fs::statat(&self.0, STATS, AtFlags::SYMLINK_NOFOLLOW)?;
        let is_of_others = |a: &Stat, b: &Stat| (a.st_uid, a.st_gid) != (b.st_uid, b.st_gid);
        let mut readers = data.st_mode & 0o444;
        if is_of_others(&data, &own) {
            let (user, group) =
                (rustix::fs::Uid::from_raw(data.st_uid), rustix::fs::Gid::from_raw(data.st_gid));
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            if rustix::fs::chownat(&self.0, STATS, Some(user), Some(group), flags).is_err() {
                // The rights of its owner and its group are those of others.
                readers &= 0o400;
            }
        }
        let mode = Mode::from_raw_mode(readers | readers >> 1);
        rustix::fs::chmodat(&self.0, STATS, mode, AtFlags::empty())
    }

    /// Removes the socket.
    pub(super) fn leave(&self) {
        // One that stays is nobody's, and the next process replaces it.
        let _ = rustix::fs::unlinkat(&self.0, STATS, AtFlags::empty());
    }
}

/// A directory as a place, to be neither read nor written.
pub(super) fn open(directory: &Path) -> io::Result<OwnedFd> {
    let here = directory.as_os_str().is_empty();
    let directory = if here { Path::new(".") } else { directory };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(directory, flags, Mode::empty())?)
}

/// A path to the socket that the address of one takes: where its own is too long, by way of a file
/// descriptor of the directory.
pub(super) fn path(directory: &Path, opened: &OwnedFd) -> PathBuf {
    let path = directory.join(STATS);
    let length = |name: &OsStr| name.as_bytes().len();
    match length(path.as_os_str()) <= LONGEST_PATH {
        true => path,
        false => format!("/proc/self/fd/{}/{STATS}", opened.as_raw_fd()).into(),
    }
}
