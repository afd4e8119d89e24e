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

use std::fs;
use std::ops::Range;
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
        let (file, key) = text.rsplit_once('#').unwrap_or_default();
        if file.is_empty() || key.is_empty() || !key.chars().all(is_plain) {
            let why =
                "a file and a key of small letters, digits and hyphens: docs/results.md#lookups";
            return Err(why.to_owned());
        }
        Ok(Place { file: PathBuf::from(file), key: key.to_owned() })
    }
}

impl Place {
    /// Puts what this process was told and has printed into its section.
    pub(crate) fn record(&self, printed: &str) -> Result<(), BenchError> {
        let day = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let circumstances = format!("{}, on {}.", &day[..10], Machine::here());
        let printed = format!("{}\n", printed.trim_end());
        self.replace(&section(&self.key, &command(std::env::args()), &circumstances, &printed))
    }

    /// Puts a section in the place of the one with its heading, or behind all others.
    fn replace(&self, section: &str) -> Result<(), BenchError> {
        let mut text = fs::read_to_string(&self.file).map_err(BenchError::file(&self.file))?;
        text.replace_range(place_of(&text, &format!("## {}\n", self.key)), section);
        replace(&self.file, &text)
    }
}

/// What one run has left.
fn section(key: &str, command: &str, circumstances: &str, printed: &str) -> String {
    format!("## {key}\n\n    {command}\n\n{circumstances}\n\n{FENCE}text\n{printed}{FENCE}\n\n")
}

/// Where the section with this heading stands in a document, up to the next one; or, empty, where it
/// should. Lines in fenced blocks are no headings.
fn place_of(text: &str, heading: &str) -> Range<usize> {
    let (mut at, mut is_fenced, mut begin) = (0, false, None);
    for line in text.split_inclusive('\n') {
        let ends = line == BY_HAND || begin.is_some() && line.starts_with("## ");
        if !is_fenced && ends {
            break;
        }
        if !is_fenced && line == heading {
            begin = Some(at);
        }
        is_fenced ^= line.starts_with(FENCE);
        at += line.len();
    }
    begin.unwrap_or(at)..at
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

    fn scanned(key: &str, printed: &str) -> String {
        section(key, "polder-bench scan", "2026-11-24, on a machine.", printed)
    }

    #[test]
    fn the_results_of_the_project_are_as_they_are_written() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results.md");
        let text = fs::read_to_string(path).unwrap();
        let (written, _) = text.split_at(place_of(&text, "## none\n").end);
        assert!(text.starts_with("# ") && text[written.len()..].starts_with(BY_HAND));
        let (mut at, mut sections) = (written.find("\n## ").unwrap() + 1, 0);
        while at < written.len() {
            let heading = written[at..].split_inclusive('\n').next().unwrap();
            let place = place_of(written, heading);
            assert_eq!(place.start, at, "{heading}");
            let parts: Vec<&str> = written[place.clone()].splitn(4, "\n\n").collect();
            let [_, command, circumstances, printed] = parts[..] else { panic!("{heading}") };
            let printed =
                printed.strip_prefix("```text\n").unwrap().strip_suffix("```\n\n").unwrap();
            let key = heading.trim_start_matches("## ").trim_end();
            let again = section(key, command.trim_start(), circumstances, printed);
            assert_eq!(written[place.clone()], again);
            (at, sections) = (place.end, sections + 1);
        }
        assert!(sections > 5);
    }

    #[test]
    fn a_run_replaces_its_own_section_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("results.md");
        let (head, by_hand) = ("# Results\n\nWords.\n\n", "# Kept by hand\n\n## scans\n\nOld.\n");
        fs::write(&file, format!("{head}{by_hand}")).unwrap();
        let put = |key: &str, printed: &str| {
            let place = Place { file: file.clone(), key: key.to_owned() };
            place.replace(&scanned(key, printed)).unwrap();
        };
        put("scans", "1\n");
        put("loads", "## 2\n## loads\n");
        put("scans", "# Kept by hand\n3\n");
        put("loads", "## 2\n## scans\n");
        let scans = scanned("scans", "# Kept by hand\n3\n");
        let loads = scanned("loads", "## 2\n## scans\n");
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(text, format!("{head}{scans}{loads}{by_hand}"));
        let nowhere = Place { file: dir.path().join("none.md"), key: "scans".to_owned() };
        assert!(nowhere.replace("").unwrap_err().to_string().contains("none.md"));
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
