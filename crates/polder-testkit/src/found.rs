//! What a test needs beside a Rust toolchain, and may not find: without it the test is skipped, and
//! says so.

use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, io, thread};

/// Says that this test ends here, and why. Written past the test harness, which keeps what tests
/// that pass print to itself; `scripts/test` counts these lines.
pub fn skip(why: impl Display) {
    let thread = thread::current();
    let test = thread.name().unwrap_or("a test");
    // Without standard error there is nobody to tell.
    let _ = writeln!(io::stderr().lock(), "skipped: {test}: {why}");
}

/// A file of the folder with data that `POLDER_DATA` names; else, the test is skipped.
pub fn data(name: impl AsRef<Path>) -> Option<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let path = env::var_os("POLDER_DATA").map_or(PathBuf::from(beside), PathBuf::from).join(name);
    if path.is_file() {
        return Some(path);
    }
    skip(format_args!("there is no {} (set POLDER_DATA)", path.display()));
    None
}

/// What a program of the system prints; else, where it is missing or fails, the test is skipped.
pub fn output_of(command: &mut Command) -> Option<Vec<u8>> {
    match command.output() {
        Ok(output) if output.status.success() => return Some(output.stdout),
        Ok(output) => skip(format_args!("{command:?}: {}", output.status)),
        Err(error) => skip(format_args!("{command:?}: {error}")),
    }
    None
}
