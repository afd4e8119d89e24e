//! A document of results, in which each run that is told so (`--record FILE#KEY`) replaces a
//! section of its own: what it was told, when and where it ran, and what it printed.
//!
//! ```text
//! # Results                       anything up to the first section stays as it is
//!
//! ## KEY                          a section; its heading is what others link to
//!
//!     polder-bench compare ...
//!
//! 2026-11-24, on a machine with ...
//!
//! (what was printed, in a fenced block)
//!
//! # Kept by hand                  this and all behind it stays as it is
//! ```

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::SystemTime;

use crate::error::BenchError;
use crate::machine::Machine;
use crate::replaced::replace;

/// Where what is kept by hand begins.
const BY_HAND: &str = "# Kept by hand\n";
const FENCE: &str = "```";

/// A section of a document, as the command line names it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Place {
    file: PathBuf,
    key: String,
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        match text.rsplit_once('#') {
            Some((file, key))
                if !file.is_empty() && !key.is_empty() && key.chars().all(is_plain) =>
            {
                Ok(Place { file: PathBuf::from(file), key: key.to_owned() })
            }
            _ => Err(
                "a file and a key of small letters, digits and hyphens: docs/results.md#lookups"
                    .to_owned(),
            ),
        }
    }
}

/// What one run has left.
#[derive(Debug, Clone, PartialEq)]
struct Section {
    key: String,
    command: String,
    circumstances: String,
    printed: String,
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Section { key, command, circumstances, printed } = self;
        write!(
            f,
            "## {key}\n\n    {command}\n\n{circumstances}\n\n{FENCE}text\n{printed}{FENCE}\n\n"
        )
    }
}

impl Section {
    /// Reads what was written: all that stands from one heading to the next.
    fn read(text: &str) -> Option<Section> {
        let (key, rest) = text.strip_prefix("## ")?.split_once("\n\n    ")?;
        let (command, rest) = rest.split_once("\n\n")?;
        let (circumstances, rest) = rest.split_once("\n\n```text\n")?;
        let printed = rest.strip_suffix("```\n\n")?;
        let [key, command, circumstances, printed] =
            [key, command, circumstances, printed].map(str::to_owned);
        Some(Section { key, command, circumstances, printed })
    }
}

/// The whole document.
#[derive(Debug, Clone, PartialEq)]
struct Document {
    head: String,
    sections: Vec<Section>,
    by_hand: String,
}

impl fmt::Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.head)?;
        self.sections.iter().try_for_each(|section| section.fmt(f))?;
        f.write_str(&self.by_hand)
    }
}

impl FromStr for Document {
    type Err = String;

    fn from_str(text: &str) -> Result<Document, String> {
        let (written, by_hand) = text.split_at(heading(text, BY_HAND).unwrap_or(text.len()));
        let (head, mut rest) = written.split_at(heading(written, "## ").unwrap_or(written.len()));
        let mut sections = Vec::new();
        while !rest.is_empty() {
            let end = heading(&rest[1..], "## ").map_or(rest.len(), |at| at + 1);
            let (section, behind) = rest.split_at(end);
            let first = section.lines().next().unwrap_or_default();
            let wrong = || format!("the section {first:?} is not as polder-bench writes it");
            sections.push(Section::read(section).ok_or_else(wrong)?);
            rest = behind;
        }
        Ok(Document { head: head.to_owned(), sections, by_hand: by_hand.to_owned() })
    }
}

/// Where a line begins so, outside of fenced blocks.
fn heading(text: &str, begin: &str) -> Option<usize> {
    let (mut at, mut is_fenced) = (0, false);
    for line in text.split_inclusive('\n') {
        if !is_fenced && line.starts_with(begin) {
            return Some(at);
        }
        is_fenced ^= line.starts_with(FENCE);
        at += line.len();
    }
    None
}

impl Place {
    /// Puts what this process was told and has printed into its section.
    pub(crate) fn record(&self, printed: &str) -> Result<(), BenchError> {
        let day = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        self.replace(Section {
            key: self.key.clone(),
            command: command(std::env::args()),
            circumstances: format!("{}, on {}.", &day[..10], Machine::here()),
            printed: format!("{}\n", printed.trim_end()),
        })
    }

    fn replace(&self, section: Section) -> Result<(), BenchError> {
        let text = fs::read_to_string(&self.file).map_err(BenchError::file(&self.file))?;
        let path = self.file.display();
        let mut document: Document =
            text.parse().map_err(|why| BenchError::Options(format!("{path}: {why}")))?;
        match document.sections.iter_mut().find(|old| old.key == section.key) {
            Some(old) => *old = section,
            None => document.sections.push(section),
        }
        replace(&self.file, &document.to_string())
    }
}

/// The command line as somebody would type it again, without `--record`.
fn command(arguments: impl IntoIterator<Item = String>) -> String {
    let mut arguments = arguments.into_iter();
    let program = arguments.next().unwrap_or_default();
    let name = Path::new(&program).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut words = vec![name];
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--record" => drop(arguments.next()),
            with_place if with_place.starts_with("--record=") => {}
            plain if !plain.contains([' ', '"', '\'']) => words.push(argument),
            _ => words.push(format!("{argument:?}")),
        }
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(key: &str, printed: &str) -> Section {
        Section {
            key: key.to_owned(),
            command: "polder-bench scan".to_owned(),
            circumstances: "2026-11-24, on a machine.".to_owned(),
            printed: printed.to_owned(),
        }
    }

    #[test]
    fn the_results_of_the_project_are_as_they_are_written() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results.md");
        let text = fs::read_to_string(path).unwrap();
        let document: Document = text.parse().unwrap();
        assert_eq!(document.to_string(), text);
        assert!(document.by_hand.starts_with(BY_HAND) && document.head.starts_with("# "));
    }

    #[test]
    fn a_run_replaces_its_own_section_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("results.md");
        let (head, by_hand) = ("# Results\n\nWords.\n\n", "# Kept by hand\n\n## scans\n\nOld.\n");
        fs::write(&file, format!("{head}{by_hand}")).unwrap();
        let place = Place { file: file.clone(), key: String::new() };
        let (scans, loads) = (section("scans", "1\n"), section("loads", "## 2\n"));
        for written in [&scans, &loads, &section("scans", "# Kept by hand\n3\n")] {
            place.replace(written.clone()).unwrap();
        }
        let scans = section("scans", "# Kept by hand\n3\n");
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(text, format!("{head}{scans}{loads}{by_hand}"));
        assert_eq!(text.parse::<Document>().unwrap().sections, [scans, loads]);

        let broken = text.replace("    polder-bench scan\n", "");
        fs::write(&file, &broken).unwrap();
        let why = place.replace(section("loads", "")).unwrap_err().to_string();
        assert!(why.contains("results.md") && why.contains("\"## scans\""), "{why}");
        assert_eq!(fs::read_to_string(&file).unwrap(), broken);
    }

    #[test]
    fn places_have_a_file_and_a_plain_key() {
        let place: Place = "a/b#c.md#tpcc-2".parse().unwrap();
        assert_eq!((place.file, place.key), (PathBuf::from("a/b#c.md"), "tpcc-2".to_owned()));
        for text in ["a.md", "#a", "a.md#", "a.md#Big", "a.md#two words"] {
            assert!(text.parse::<Place>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_command_can_be_typed_again() {
        let words = ["/x/polder-bench", "scan", "--record", "a#b", "--side", "hash, copy"];
        let told = command(words.map(str::to_owned));
        assert_eq!(told, "polder-bench scan --side \"hash, copy\"");
        let told = command(["x", "--record=a#b", "--json"].map(str::to_owned));
        assert_eq!(told, "x --json");
    }
}
