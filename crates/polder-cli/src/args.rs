//! What may be typed.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use bytesize::ByteSize;
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use polder::{Durability, TranslationKind};

use crate::durability::parse_durability;
use crate::every::parse_every;
use crate::exchange::{Format, ImportFormat};

mod vector;

pub use vector::{
    Index, LookArgs, Names, VectorArgs, VectorCommand, VectorCreateArgs, VectorLoadArgs,
    VectorProbeArgs, VectorRepairArgs, VectorSearchArgs,
};

/// Shown at the end of `polder --help`.
const RULES: &str = "\
Text and bytes:
  Keys and values are bytes. They are shown as text; a byte that is not part of UTF-8 text, a
  control character (in a value: other than a tab), a byte-order mark and the backslash are shown
  as \\xNN and \\\\. With --escaped, \\xNN and \\\\ are understood in what you give as well. With
  --json, bytes that are UTF-8 are a string, others an object {\"escaped\": \"...\"} by the same rule.
  A scan puts a key or a value in quotes if it has a tab or a quote in it, and a quote in it twice:
  `polder import` reads that, and any other reader of tab-separated values.

Sizes: 4096, 4KiB, 64MiB, 1.5GiB (powers of 1024); 64MB or 64M (powers of 1000).

Durability: when a write survives the end of the process, of the system and of the power:
  sync            when it has returned
  periodic:10ms   within this time (us, ms or s)
  none            within a second or so; it is at the latest when the command has ended
  After a crash a store holds all writes up to some point of time, and none behind it. The next
  command that writes to the store recovers it; one that only reads (get, scan, tables, stat, check)
  reads it as if it had been recovered, and writes nothing. Either says so on standard error.

Errors: one sentence on standard error, the last line there. With --json every line there is an
object: {\"note\": \"...\"}, or at the end {\"error\": {\"kind\", \"message\", \"hint\", \"exit_code\"}},
with \"input\" and \"line\" where it is about a line of an input. Kinds stay what they are; the README
lists them.

Exit codes:
    0  all went well
    1  not found: the key or the table; or damage was found; or something may be missing in what a
       salvage has saved: it says what (0: nothing is, as far as anybody can know)
    2  the command line or a row of the input is wrong, or a table has the name already
    3  the store cannot be opened: none there, held by a process, damaged, foreign, newer
    4  reading or writing failed, or the device or the memory budget is full
  130  stopped by Ctrl-C (or a signal to end); the store was closed";

/// So many times the budget is what keys and values take that the demo loads in order: far more than
/// memory, and loaded in seconds. As many more are inserted between them if there is time.
pub const DEMO_DATA_TIMES: u64 = 4;

/// An ordered key-value store for data larger than memory.
#[derive(Debug, Parser)]
#[command(name = "polder", version, after_help = RULES, max_term_width = 100)]
pub struct Cli {
    /// Print results for programs: JSON, one object (a scan: one object a line).
    #[arg(long, global = true)]
    pub json: bool,

    /// Tell on standard error what the store does in the background; twice: in detail. The variable
    /// POLDER_LOG says more precisely what: error, warn, info, debug, or `warn,polder_log=debug`.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,

    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a new store.
    Create(CreateArgs),
    /// Write tables, not collections, to a file, for `polder import` and for other programs.
    Export(ExportArgs),
    /// Read what an export or a scan has written, lines or tab-separated rows into tables.
    Import(ImportArgs),
    /// Print the value of a key.
    Get(GetArgs),
    /// Give a key a value; makes the table if there is none.
    Put(PutArgs),
    /// Remove a key.
    Del(DelArgs),
    /// Print entries in the order of their keys, a line each: the key, a tab, the value.
    Scan(ScanArgs),
    /// List the tables.
    Tables(StoreArgs),
    /// Show what the store holds and what memory and disk it takes.
    Stat(StatArgs),
    /// Read everything and report each fault with its page.
    Check(CheckArgs),
    /// Print the log of a store that is not open, record by record. Recovers and writes nothing.
    Log(LogArgs),
    /// Copy what is readable of a damaged store into a new one. Writes nothing to the damaged one.
    Salvage(SalvageArgs),
    /// Vector indexes: make them, load vectors, look for the nearest.
    #[command(subcommand)]
    Vector(VectorCommand),
    /// Give a table another name.
    Rename(RenameArgs),
    /// Remove a table with all that is in it.
    Drop(DropArgs),
    /// Give free space of the store's file back to the system.
    Shrink(StoreArgs),
    /// Have the next program that opens the store find tables in memory, or try the list of what was.
    Prewarm(PrewarmArgs),
    /// Write all changed pages in place, so that a recovery has nothing to read.
    Checkpoint(StoreArgs),
    /// See what Polder does: several times more data than memory, in about a minute.
    Demo(DemoArgs),
    /// Print what a shell needs to complete commands and options.
    Completions(CompletionsArgs),
    /// Write the manual pages.
    Man(ManArgs),
}

/// Which store, and how to open it.
#[derive(Debug, Args)]
pub struct StoreArgs {
    /// The directory of the store.
    pub dir: PathBuf,

    /// Memory to use [default: what the store was made with].
    #[arg(long, value_name = "SIZE")]
    pub budget: Option<ByteSize>,

    #[arg(long, value_name = "NAME", default_value_t, help = translation_help())]
    pub translation: TranslationKind,
}

fn translation_help() -> String {
    let resident: Vec<_> = TranslationKind::RESIDENT.iter().map(|kind| kind.name()).collect();
    format!(
        "How pages are found in memory, chosen anew at each opening: {}. With {} all data must fit in \
         the budget",
        TranslationKind::names(),
        resident.join(" and "),
    )
}

fn demo_budget_help() -> String {
    format!(
        "Memory to use; the records loaded at first take {DEMO_DATA_TIMES} times as much, and more \
         are inserted then"
    )
}

#[derive(Debug, Args)]
pub struct CreateArgs {
    /// The directory to make; it must not be there, or be empty.
    pub dir: PathBuf,

    /// Memory to use, now and by default later.
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    pub budget: ByteSize,

    /// A power of two from 4KiB to 64KiB; a key may take an eighth of it.
    #[arg(long, value_name = "SIZE", default_value = "4KiB")]
    pub page_size: ByteSize,

    /// Most bytes that the log takes on the disk, at least 4MiB: the more, the less often pages are
    /// written, and the longer a recovery may read [default: by the budget and the disk's room].
    #[arg(long, value_name = "SIZE")]
    pub log_limit: Option<ByteSize>,

    #[arg(long, value_name = "NAME", default_value_t, help = translation_help())]
    pub translation: TranslationKind,
}

/// How to write.
#[derive(Debug, Args)]
pub struct WriteArgs {
    /// Most bytes that the log takes on the disk, now and by default later.
    #[arg(long, value_name = "SIZE")]
    pub log_limit: Option<ByteSize>,
}

/// When a write that the command waits for is durable.
#[derive(Debug, Args)]
pub struct DurabilityArgs {
    /// When the write is durable: sync, periodic:TIME or none.
    #[arg(long, value_name = "WHEN", default_value = "sync", value_parser = parse_durability)]
    pub durability: Durability,

    #[command(flatten)]
    pub write: WriteArgs,
}

/// How keys and values are given.
#[derive(Debug, Args)]
pub struct TextArgs {
    /// Understand \xNN and \\ in the keys and values given.
    #[arg(long)]
    pub escaped: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
What is no table is not exported: collections of vectors, and other structures. Their names are told
on standard error. Of a collection c the tables c.keys, c.rows and c.pending, which are of use to it
alone, are left out as well, unless they are named.")]
pub struct ExportArgs {
    #[command(flatten)]
    pub store: StoreArgs,

    /// The file to write; - is standard output. A file that is there is replaced when all is
    /// written.
    pub file: PathBuf,

    /// How to write.
    #[arg(long, value_enum)]
    pub format: Format,

    /// Only this table; may be given several times.
    #[arg(long = "table", value_name = "TABLE")]
    pub tables: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
A table that is not there appears when all of it has been read: if the import fails or is stopped,
or the process dies, it is not there. A key that is there already gets the new value; rows of a table
that was there go in one by one, and if the import stops it says how many are in. Tables that an
export has to their end stay.")]
pub struct ImportArgs {
    #[command(flatten)]
    pub store: StoreArgs,

    /// The file to read; - is standard input.
    pub file: PathBuf,

    /// What the file holds.
    #[arg(long, value_enum)]
    pub format: ImportFormat,

    /// Of an export: only this table; may be given several times. Of all else: the table that the
    /// rows go to.
    #[arg(long = "table", value_name = "TABLE")]
    pub tables: Vec<String>,

    /// For rows: the column that is the key, counted from 1 [default: 1].
    #[arg(long, value_name = "COLUMN")]
    pub key: Option<std::num::NonZeroUsize>,

    /// Skip and count rows that cannot be imported, instead of stopping at the first; of an export
    /// that was damaged, take what can be read.
    #[arg(long)]
    pub skip_bad: bool,

    /// For rows that go into a table that was there: when each is durable, sync, periodic:TIME or
    /// none. All are when the command has ended.
    #[arg(long, value_name = "WHEN", default_value = "none", value_parser = parse_durability)]
    pub durability: Durability,

    #[command(flatten)]
    pub write: WriteArgs,

    /// For lines and rows: understand \xNN and \\ in them. (In what an export or a scan has
    /// written they always are.)
    #[arg(long)]
    pub escaped: bool,
}

#[derive(Debug, Args)]
pub struct GetArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    /// The table.
    pub table: String,
    /// The key; of several, those that are there are printed with their values, as a scan prints them.
    #[arg(value_name = "KEY", required_unless_present = "keys_from")]
    pub keys: Vec<OsString>,
    /// A file with more keys, one a line; - for standard input.
    #[arg(long, value_name = "FILE")]
    pub keys_from: Option<PathBuf>,
    /// Print the bytes of the value as they are, with no end of line; for one key.
    #[arg(long, conflicts_with_all = ["json", "keys_from"])]
    pub raw: bool,
    #[command(flatten)]
    pub text: TextArgs,
}

#[derive(Debug, Args)]
pub struct PutArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    /// The table.
    pub table: String,
    /// The key.
    pub key: OsString,
    /// The value.
    pub value: OsString,
    #[command(flatten)]
    pub durability: DurabilityArgs,
    #[command(flatten)]
    pub text: TextArgs,
}

#[derive(Debug, Args)]
pub struct DelArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    /// The table.
    pub table: String,
    /// The key.
    pub key: OsString,
    #[command(flatten)]
    pub durability: DurabilityArgs,
    #[command(flatten)]
    pub text: TextArgs,
}

#[derive(Debug, Args)]
pub struct ScanArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    /// The table.
    pub table: String,
    /// Only keys that begin so.
    #[arg(long, conflicts_with_all = ["from", "to"])]
    pub prefix: Option<OsString>,
    /// Only keys from this one on.
    #[arg(long, value_name = "KEY")]
    pub from: Option<OsString>,
    /// Only keys below this one.
    #[arg(long, value_name = "KEY")]
    pub to: Option<OsString>,
    /// From the last key to the first.
    #[arg(long)]
    pub reverse: bool,
    /// At most so many entries.
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Only the keys.
    #[arg(long)]
    pub keys_only: bool,
    #[command(flatten)]
    pub text: TextArgs,
}

#[derive(Debug, Args)]
pub struct StatArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    /// Ask the process that has the store open, instead of opening it.
    #[arg(long, conflicts_with_all = ["budget", "translation"])]
    pub live: bool,
    /// Ask that process how often a page would not be in memory with more memory and with less, as a
    /// table and a picture. What a store tells was gathered since it was opened, so that one which no
    /// process has open tells nothing.
    #[arg(long, conflicts_with_all = ["budget", "translation"])]
    pub mrc: bool,
    /// With --live: again each time that this has passed, such as 1s, until Ctrl-C or until the
    /// store is closed.
    #[arg(long, value_name = "TIME", requires = "live", value_parser = parse_every)]
    pub every: Option<Duration>,
}

#[derive(Debug, Args)]
pub struct CheckArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    /// Also read from the disk what is in memory or not looked at else: the superblocks, the live
    /// log, and each page in use.
    #[arg(long)]
    pub deep: bool,
}

#[derive(Debug, Args)]
pub struct LogArgs {
    /// The directory of the store.
    pub dir: PathBuf,
    /// Begin at this position of the log, or behind it where a record is found [default: where a
    /// recovery would begin].
    #[arg(long, value_name = "LSN")]
    pub from: Option<u64>,
    /// At most so many records.
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
}

#[derive(Debug, Args)]
pub struct SalvageArgs {
    /// The directory of the damaged store.
    pub damaged: PathBuf,
    /// The directory of the new store; it must not be there, or be empty.
    pub new: PathBuf,
    /// Memory to use, and that of the new store.
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    pub budget: ByteSize,
}

#[derive(Debug, Args)]
pub struct RenameArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    /// The table.
    pub table: String,
    /// Its new name, which no table may have.
    pub new: String,
}

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    pub shell: Shell,
}

#[derive(Debug, Args)]
pub struct ManArgs {
    /// The directory to write them to, one for each command; it is made if it is not there.
    pub dir: PathBuf,
}

#[derive(Debug, Args)]
pub struct DropArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    /// The table.
    pub table: String,
}

#[derive(Debug, Args)]
#[command(after_help = "\
A store keeps a list of the pages that are in memory: when it is closed, and now and then. Whoever
opens it next has these loaded in the background. With tables this command loads their pages, as far as
the budget allows, and leaves the list of them; without it loads what the list names, and leaves the
list as it is.")]
pub struct PrewarmArgs {
    #[command(flatten)]
    pub store: StoreArgs,

    /// Load all pages of this table; may be given several times [default: what the list names].
    #[arg(long = "table", value_name = "TABLE")]
    pub tables: Vec<String>,
}

#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Where to make the store of the demo, which is removed at the end.
    #[arg(long, default_value = ".")]
    pub dir: PathBuf,

    #[arg(long, value_name = "SIZE", default_value = "64MiB", help = demo_budget_help())]
    pub budget: ByteSize,

    /// Leave the store where it is.
    #[arg(long)]
    pub keep: bool,

    /// Records to load first, whatever the budget.
    #[arg(long, hide = true)]
    pub records: Option<u64>,

    /// Seconds for each part.
    #[arg(long, hide = true)]
    pub seconds: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn the_help_names_each_translation() {
        use clap::CommandFactory;
        for name in ["create", "get"] {
            let mut cli = Cli::command();
            let command = cli.find_subcommand_mut(name).unwrap();
            let arg = command.get_arguments().find(|arg| arg.get_id() == "translation").unwrap();
            let help = arg.get_help().unwrap().to_string();
            let words: Vec<_> = help.split([' ', ',', '.']).collect();
            for kind in TranslationKind::ALL.iter().copied() {
                assert!(words.contains(&kind.name()), "{name}: {kind} is not in {help}");
            }
        }
    }
}
