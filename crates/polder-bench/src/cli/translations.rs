//! `translations`: from its arguments to its two files.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::args::TranslationsArgs;
use super::{each_once, listen, own_program, print, record, run_dir, to_json};
use crate::error::BenchError;
use crate::ladder::{
    Figures, Ladder, Out, PARTS, Part, SharedWrites, check_graphs, judge, medians, table,
};

pub(super) fn run(args: &TranslationsArgs) -> Result<(), BenchError> {
    let parts = parts(args)?;
    sides(args, &parts)?;
    each_once("--threads", &args.terms.threads)?;
    let graphs: Result<Vec<PathBuf>, BenchError> =
        args.graph.iter().map(|path| path.canonicalize().map_err(BenchError::file(path))).collect();
    let graphs = graphs?;
    let writes = args.writes.as_deref().map(SharedWrites::read).transpose()?;
    let interrupt = listen()?;
    check_graphs(&graphs, &interrupt)?;
    let program = own_program()?;
    let dir = run_dir(args.dir.as_deref())?;
    let out = Out::claim(args.out.as_deref().unwrap_or(Path::new(".")))?;
    let ladder = Ladder {
        terms: args.terms.clone(),
        parts,
        sides: args.side.clone(),
        graphs,
        writes,
        dir: dir.path().to_owned(),
        program,
    };
    let (results, kept) = ladder.run(&interrupt, &out)?;
    let judged = judge(&results);
    let shown = out.show(&results, &judged);
    match args.json {
        true => print(&to_json(&Figures::of(&results))?)?,
        false => print(table(&judged).trim_end())?,
    }
    kept?;
    shown?;
    record(args.record.as_ref(), || {
        let measured: Vec<_> = judged.into_iter().filter(|judged| judged.rounds > 0).collect();
        table(&measured) + "\n" + &medians(&results)
    })?;
    for path in [out.json(), out.html()] {
        let _ = writeln!(io::stderr(), "written: {}", path.display());
    }
    match results.failures.len() {
        _ if !results.complete => Err(BenchError::Interrupted),
        0 => Ok(()),
        count => Err(BenchError::Runs { count, path: out.json().to_owned() }),
    }
}

/// The parts that were asked for, in the order in which they are listed. Those that need graphs are
/// not asked for where there are none, unless they are named.
fn parts(args: &TranslationsArgs) -> Result<Vec<&'static Part>, BenchError> {
    if let Some(unknown) = args.parts.iter().find(|name| Part::find(name).is_none()) {
        let why = format!("there is no part {unknown:?}; there are: {}", Part::names());
        return Err(BenchError::Options(why));
    }
    let has_graphs = !args.graph.is_empty();
    let wanted = |part: &&Part| match args.parts.is_empty() {
        true => has_graphs || !part.needs_graphs,
        false => args.parts.iter().any(|name| name == part.name),
    };
    let parts: Vec<&Part> = PARTS.iter().filter(wanted).collect();
    match (parts.iter().find(|part| part.needs_graphs), has_graphs) {
        (Some(part), false) => {
            Err(BenchError::Options(format!("the part {} needs a --graph", part.name)))
        }
        (None, true) => {
            let why = "--graph is for the part files, which is not among --parts";
            Err(BenchError::Options(why.to_owned()))
        }
        _ => Ok(parts),
    }
}

/// Each side that was asked for must be one of some part.
fn sides(args: &TranslationsArgs, parts: &[&Part]) -> Result<(), BenchError> {
    let is_there = |name: &String| parts.iter().any(|part| part.side(name).is_some());
    let Some(unknown) = args.side.iter().find(|name| !is_there(name)) else { return Ok(()) };
    let mut names: Vec<&str> =
        parts.iter().flat_map(|part| part.sides()).map(|side| side.name).collect();
    names.sort_unstable();
    names.dedup();
    let why = format!("no part has a side {unknown:?}; there are: {}", names.join("; "));
    Err(BenchError::Options(why))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::args::{Cli, Command};

    fn names(line: &str) -> Result<Vec<&'static str>, BenchError> {
        let line = format!("x translations {line}");
        let Ok(Cli { command: Command::Translations(args) }) =
            Cli::try_parse_from(line.split_whitespace())
        else {
            panic!("{line} is not parsed")
        };
        Ok(parts(&args)?.iter().map(|part| part.name).collect())
    }

    #[test]
    fn sides_that_no_part_has_are_refused() {
        let check = |line: &[&str]| {
            let line = ["x", "translations", "--parts", "scan"].iter().chain(line);
            let Ok(Cli { command: Command::Translations(args) }) = Cli::try_parse_from(line) else {
                panic!("it is not parsed")
            };
            sides(&args, &parts(&args).unwrap())
        };
        assert!(check(&["--side", "array", "--side", "hash"]).is_ok());
        let Err(BenchError::Options(why)) = check(&["--side", "hash, shared"]) else { panic!() };
        assert!(
            why.contains("\"hash, shared\"")
                && why.contains("array; array-plain; array-swizzled; direct;"),
            "{why}"
        );
    }

    #[test]
    fn graphs_and_the_part_for_them_go_together() {
        assert!(!names("").unwrap().contains(&"files"));
        assert_eq!(names("--graph a").unwrap().len(), PARTS.len());
        assert_eq!(names("--parts files,scan --graph a").unwrap(), ["scan", "files"]);
        assert_eq!(names("--parts heap,scan,heap").unwrap(), ["scan", "heap"]);
        for line in ["--parts files", "--parts scan,files", "--parts scan --graph a"] {
            let Err(BenchError::Options(why)) = names(line) else { panic!("{line}") };
            assert!(why.contains("--graph") && why.contains("files"), "{why}");
        }
    }
}
