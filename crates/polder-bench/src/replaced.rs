//! Files whose content is replaced in one step, so that there is always a whole one.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use crate::error::BenchError;

/// Puts the text in the place of what the file holds. What fails leaves nothing behind.
pub(crate) fn replace(path: &Path, text: &str) -> Result<(), BenchError> {
    let new = path.with_added_extension("new");
    let written = File::create(&new).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    let replaced = written
        .map_err(BenchError::file(&new))
        .and_then(|()| fs::rename(&new, path).map_err(BenchError::file(path)));
    if replaced.is_err() {
        let _ = fs::remove_file(&new);
    }
    replaced
}
