//! `polder export`: tables as text. What is no table is left out, and the user is told.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Instant;

use polder::{Collection, Store, Table};
use serde_json::json;
use tempfile::NamedTempFile;

use super::Context;
use crate::args::ExportArgs;
use crate::exchange::{Tally, Writer};
use crate::failure::{Failure, note};
use crate::opening::with_store_to_read;
use crate::progress::{Progress, Unit};
use crate::units::{duration, plural};

/// Ctrl-C is looked at, and the bar is moved, once in so many entries.
const ENTRIES_A_STEP: u64 = 256;

pub fn run(context: &Context, args: &ExportArgs) -> Result<(), Failure> {
    let begun = Instant::now();
    let (entries, tables, left_out) = with_store_to_read(&args.store, |store| {
        let (names, left_out) = match &args.tables[..] {
            [] => all_tables(store)?,
            named => (named.to_vec(), Vec::new()),
        };
        // All of them are there, before anything is written.
        let tables = names.iter().map(|name| store.table(name)).collect::<Result<Vec<_>, _>>()?;
        let target = Target::open(&args.file).map_err(cannot_write(args))?;
        let entries = write(context, args, &tables, target)?;
        Ok((entries, tables.len() as u64, left_out))
    })?;
    if !left_out.is_empty() {
        note(&format!("not exported, being no tables: {}", left_out.join(", ")));
    }
    let (file, time) = (args.file.display(), begun.elapsed());
    if is_standard_output(&args.file) {
        return Ok(());
    }
    let value = json!({
        "file": file.to_string(),
        "tables": tables,
        "entries": entries,
        "seconds": time.as_secs_f64(),
    });
    let (entries, tables) =
        (plural(entries, "entry", "entries"), plural(tables, "table", "tables"));
    context.print(&value, &format!("{entries} of {tables} in {file}; {}", duration(time)))
}

/// All tables but those of collections, which are of no use without the vectors, and keep a new collection
/// of that name from being made; and what else there is, which is not exported.
fn all_tables(store: &Store) -> Result<(Vec<String>, Vec<String>), Failure> {
    let (mut tables, collections) = (store.tables()?, store.collections()?);
    let theirs: Vec<_> =
        collections.iter().flat_map(|name| Collection::table_names(name)).collect();
    tables.retain(|table| !theirs.contains(table));
    let others = store.structures()?.into_iter().map(|other| {
        let is_collection = collections.contains(&other.name);
        let what = if is_collection { "collection" } else { &*other.structure };
        format!("{} ({what})", other.name)
    });
    Ok((tables, others.collect()))
}

/// Writes all tables; gives the number of entries.
fn write(
    context: &Context,
    args: &ExportArgs,
    tables: &[Table],
    target: Target,
) -> Result<u64, Failure> {
    let all = tables.iter().map(Table::len).sum();
    let progress = Progress::new("exporting", Unit::Things("entries"), Some(all));
    let mut out = Writer::new(args.format, target);
    let mut done = 0u64;
    out.head().map_err(cannot_write(args))?;
    for table in tables {
        let name = table.name();
        let (mut tally, mut range) = (Tally::default(), table.iter());
        while let Some((key, value)) = range.next_entry()? {
            tally.add(key, value);
            out.entry(Some(name), key, value).map_err(cannot_write(args))?;
            done += 1;
            if done.is_multiple_of(ENTRIES_A_STEP) {
                context.stop.check()?;
                progress.at(done);
            }
        }
        out.end_table(name, tally).map_err(cannot_write(args))?;
    }
    out.end(tables.len() as u64).map_err(cannot_write(args))?;
    out.finish().and_then(|target| target.keep(&args.file, sync)).map_err(cannot_write(args))?;
    Ok(done)
}

fn is_standard_output(file: &Path) -> bool {
    file == Path::new("-")
}

/// Where a file is, or will be.
fn directory_of(file: &Path) -> &Path {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// Makes the names in a directory durable.
fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

fn cannot_write(args: &ExportArgs) -> impl FnOnce(io::Error) -> Failure {
    move |error| match is_standard_output(&args.file) {
        true => Failure::output(error),
        false => Failure::io(format!("cannot write {}", args.file.display()))(error),
    }
}

/// Where an export goes.
enum Target {
    /// Standard output, or a file that is no ordinary one, such as a pipe.
    Stream(Box<dyn Write>),
    /// A file beside the one that is asked for, whose place it takes in the end. It goes if the
    /// export does not come to its end.
    New(NamedTempFile),
}

impl Target {
    fn open(path: &Path) -> io::Result<Target> {
        if is_standard_output(path) {
            return Ok(Target::Stream(Box::new(io::stdout().lock())));
        }
        if fs::metadata(path).is_ok_and(|about| !about.is_file()) {
            return Ok(Target::Stream(Box::new(File::options().write(true).open(path)?)));
        }
        // What the user's mask leaves of it.
        let permissions = Permissions::from_mode(0o666);
        let mut new = tempfile::Builder::new();
        new.prefix(".polder-export-").permissions(permissions);
        Ok(Target::New(new.tempfile_in(directory_of(path))?))
    }

    /// All is written: the file takes its name when it is on the disk, and then `sync` makes the
    /// name durable in its directory.
    fn keep(self, path: &Path, sync: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
        match self {
            Target::Stream(mut out) => out.flush(),
            Target::New(file) => {
                file.as_file().sync_all()?;
                file.persist(path)?;
                sync(directory_of(path)).map_err(|error| {
                    let why =
                        format!("the file is whole, but its name may not be durable: {error}");
                    io::Error::new(error.kind(), why)
                })
            }
        }
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Target::Stream(out) => out.write(bytes),
            Target::New(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Target::Stream(out) => out.flush(),
            Target::New(file) => file.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_synced_when_the_file_has_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("backup");
        let mut target = Target::open(&file).unwrap();
        target.write_all(b"all").unwrap();
        let mut synced = Vec::new();
        let sync = |directory: &Path| {
            synced.push((directory.to_owned(), fs::read(&file)?));
            sync(directory)
        };
        target.keep(&file, sync).unwrap();
        assert_eq!(synced, [(dir.path().to_owned(), b"all".to_vec())]);
        assert_eq!(directory_of(Path::new("backup")), Path::new("."));
    }
}
