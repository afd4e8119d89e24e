//! A small file system in memory, where the process may mount one.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use polder_testkit::found;

/// A mounted tmpfs; dropping it unmounts.
pub struct Mount<'d>(&'d Path);

impl<'d> Mount<'d> {
    /// Mounts a tmpfs of this size. `None`, and a message, if that is not allowed.
    pub fn new(path: &'d Path, size: &str) -> Option<Mount<'d>> {
        let options = format!("size={size}");
        if run("mount", &["-t", "tmpfs", "-o", &options, "polder-test"], path) {
            return Some(Mount(path));
        }
        found::skip("this process may not mount a tmpfs");
        None
    }

    /// Gives it another size.
    pub fn resize(&self, size: &str) {
        assert!(run("mount", &["-o", &format!("remount,size={size}")], self.0));
    }

    /// From now on nothing can be written in it.
    pub fn make_read_only(&self) {
        assert!(run_soon("mount", &["-o", "remount,ro"], self.0));
    }
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        assert!(run_soon("umount", &[], self.0) || std::thread::panicking());
    }
}

/// Runs it until it works, for a while: a child that another test starts has this process's files
/// open too until it runs its program.
fn run_soon(program: &str, arguments: &[&str], path: &Path) -> bool {
    (0..100).any(|_| {
        let worked = run(program, arguments, path);
        if !worked {
            thread::sleep(Duration::from_millis(10));
        }
        worked
    })
}

fn run(program: &str, arguments: &[&str], path: &Path) -> bool {
    let output = Command::new(program).args(arguments).arg(path).output();
    output.is_ok_and(|output| output.status.success())
}
