//! The two files of a run: the figures, written after each part, and the page of plots.
//!
//! * What an earlier run has left is never overwritten.
//! * The figures of the parts that are over are in the file whatever happens then: a new state of
//!   it takes the place of the last one in one step.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::criteria::{Judged, judge};
use super::html;
use super::results::{Results, Summary};
use crate::error::BenchError;
use crate::replaced::replace;

/// Both files, which are this run's own.
#[derive(Debug)]
pub(crate) struct Out {
    /// The figures.
    pub(crate) json: PathBuf,
    /// The page, once it was made.
    pub(crate) html: PathBuf,
}

/// What stands in the file of figures.
#[derive(Serialize)]
pub(crate) struct Figures<'r> {
    criteria: Vec<Judged>,
    medians: Vec<Summary>,
    #[serde(flatten)]
    results: &'r Results,
}

impl Figures<'_> {
    /// All that is known of a run.
    pub(crate) fn of(results: &Results) -> Figures<'_> {
        Figures { criteria: judge(results), medians: results.summaries(), results }
    }
}

impl Out {
    /// Makes the directory, in which there must be neither of them.
    pub(crate) fn claim(dir: &Path) -> Result<Out, BenchError> {
        fs::create_dir_all(dir).map_err(BenchError::file(dir))?;
        let out = Out { json: dir.join("translations.json"), html: dir.join("translations.html") };
        for path in [&out.json, &out.html] {
            if fs::exists(path).map_err(BenchError::file(path))? {
                let path = path.display();
                return Err(BenchError::Options(format!(
                    "{path} is there already, from another run: move it away, or name another \
                     directory with --out"
                )));
            }
        }
        Ok(out)
    }

    /// Writes down the figures that are known by now.
    pub(crate) fn keep(&self, results: &Results) -> Result<(), BenchError> {
        let text = serde_json::to_string_pretty(&Figures::of(results))
            .map_err(|error| BenchError::Options(error.to_string()))?;
        replace(&self.json, &text)
    }

    /// Makes the page.
    pub(crate) fn show(&self, results: &Results, judged: &[Judged]) -> Result<(), BenchError> {
        replace(&self.html, &html::page(results, judged))
    }
}

#[cfg(test)]
mod tests {
    use super::super::results::testing::empty;
    use super::*;

    #[test]
    fn what_is_there_is_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("some/where");
        let out = Out::claim(&at).unwrap();
        out.keep(&empty()).unwrap();
        out.keep(&empty().with(("scan", "random", "hash"), 0.0, &[3.0])).unwrap();
        let text = fs::read_to_string(&out.json).unwrap();
        assert!(text.contains("\"medians\"") && text.contains("\"hash\""), "{text}");
        out.show(&empty(), &judge(&empty())).unwrap();
        let names = || at.read_dir().unwrap().count();
        assert_eq!(names(), 2, "something was left behind");

        for left in [&out.json, &out.html] {
            let Err(BenchError::Options(why)) = Out::claim(&at) else { panic!("{left:?}") };
            assert!(why.contains("is there already") && why.contains("--out"), "{why}");
            assert_eq!(fs::read_to_string(&out.json).unwrap_or_else(|_| text.clone()), text);
            fs::remove_file(left).unwrap();
        }
        Out::claim(&at).unwrap();
        fs::create_dir(&out.json).unwrap();
        assert!(out.keep(&empty()).is_err());
        assert_eq!(names(), 1, "something was left behind");
        fs::remove_dir(&out.json).unwrap();
        fs::write(&out.json, "").unwrap();
        assert!(matches!(Out::claim(&out.json), Err(BenchError::File { .. })));
    }
}
