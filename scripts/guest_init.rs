//! The first process of an emulated guest (guest.bash): mounts what programs find mounted everywhere
//! else, and becomes the program, which has the same arguments. Built by rustc alone.

use std::ffi::{CStr, c_char, c_int, c_ulong, c_void};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::{env, fs, io, ptr};

unsafe extern "C" {
    fn mount(
        source: *const c_char,
        target: *const c_char,
        kind: *const c_char,
        flags: c_ulong,
        data: *const c_void,
    ) -> c_int;
}

fn mount_at(kind: &CStr, at: &CStr) -> io::Result<()> {
    fs::create_dir_all(at.to_str().map_err(io::Error::other)?)?;
    // SAFETY: the texts end with a zero, and the kernel only reads them.
    match unsafe { mount(kind.as_ptr(), at.as_ptr(), kind.as_ptr(), 0, ptr::null()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn main() -> io::Result<()> {
    for (kind, at) in
        [(c"proc", c"/proc"), (c"sysfs", c"/sys"), (c"devtmpfs", c"/dev"), (c"tmpfs", c"/tmp")]
    {
        // A small kernel lacks some of them, and the program may not need that.
        if let Err(error) = mount_at(kind, at) {
            eprintln!("{}: {error}", at.to_string_lossy());
        }
    }
    Err(Command::new("/program").args(env::args_os().skip(1)).exec())
}
