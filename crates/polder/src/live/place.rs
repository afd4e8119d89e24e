//! Where the socket lies: its name in the directory, and how to get there however the directory is
//! called.

use std::fs::{self, File, Metadata, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, lchown};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use crate::directory::{DATA, STATS};

/// Clients that may have come before the socket has its rights: more than the kernel lets wait.
const EARLY: usize = 1 << 16;

/// The directory, held by a descriptor: it may be renamed, its path may be longer than the address
/// of a socket can be, and a relative path may lead elsewhere later. That its name for the socket is
/// ours goes with it.
#[derive(Debug)]
pub(super) struct Place(File);

impl Place {
    /// A directory as a place, to be neither read nor written.
    pub(super) fn open(directory: &Path) -> io::Result<Place> {
        let here = directory.as_os_str().is_empty();
        let directory = if here { Path::new(".") } else { directory };
        let flags = libc::O_PATH | libc::O_DIRECTORY;
        // The access is not looked at: it is a place.
        Ok(Place(File::options().read(true).custom_flags(flags).open(directory)?))
    }

    fn path(&self, name: &str) -> PathBuf {
        format!("/proc/self/fd/{}/{name}", self.0.as_raw_fd()).into()
    }

    /// The path of the socket.
    pub(super) fn socket(&self) -> PathBuf {
        self.path(STATS)
    }

    /// Puts a socket into the directory, in the place of one that a killed process has left
    /// (`LIVE-1`), and listens.
    pub(super) fn take(directory: &Path) -> io::Result<(Place, UnixListener)> {
        let place = Place::open(directory)?;
        match fs::symlink_metadata(place.socket()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Ok(there) if there.file_type().is_socket() => fs::remove_file(place.socket())?,
            Ok(_) => {
                let text = format!("there is a file `{STATS}` that is no socket");
                return Err(io::Error::other(text));
            }
            Err(error) => return Err(error),
        }
        let listener = UnixListener::bind(place.socket())?;
        let ready = place.share().and_then(|()| send_away(&listener));
        ready.inspect_err(|_| place.leave())?;
        Ok((place, listener))
    }

    /// Whoever may read the data file may connect, which is to write to the socket.
    fn share(&self) -> io::Result<()> {
        let data = fs::metadata(self.path(DATA))?;
        let own = fs::symlink_metadata(self.socket())?;
        let is_of_others = |a: &Metadata, b: &Metadata| (a.uid(), a.gid()) != (b.uid(), b.gid());
        let mut readers = data.mode() & 0o444;
        if is_of_others(&data, &own)
            && lchown(self.socket(), Some(data.uid()), Some(data.gid())).is_err()
        {
            // The rights of its owner and its group are those of others.
            readers &= 0o400;
        }
        fs::set_permissions(self.socket(), Permissions::from_mode(readers | readers >> 1))
    }

    /// Removes the socket.
    pub(super) fn leave(&self) {
        // One that stays is nobody's, and the next process replaces it.
        let _ = fs::remove_file(self.socket());
    }
}

/// LIVE-5: those that are connected already.
fn send_away(listener: &UnixListener) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    for _ in 0..EARLY {
        match listener.accept() {
            Ok(early) => drop(early),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return listener.set_nonblocking(false);
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("too many clients ask before they can be answered"))
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn who_came_early_is_sent_away() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(STATS);
        let listener = UnixListener::bind(&path).unwrap();
        let early = [(); 3].map(|()| UnixStream::connect(&path).unwrap());
        send_away(&listener).unwrap();
        for mut early in early {
            assert_eq!(early.read(&mut [0]).unwrap(), 0);
        }
        // The others are waited for again.
        let later = UnixStream::connect(&path).unwrap();
        drop((listener.accept().unwrap(), later));
    }
}
