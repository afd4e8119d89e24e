//! `translations`: from its arguments to its two files.

use std::io::{self, Write};
use std::path::PathBuf;

use super::args::TranslationsArgs;
use super::{each_once, print};
use crate::child::PROGRAM;
use crate::error::BenchError;
use crate::interrupt::Interrupt;
use crate::ladder::{
    Figures, Ladder, Out, PARTS, Part, SharedWrites, check_graphs, judge, medians, table,
};

pub(super) fn run(args: &TranslationsArgs) -> Result<(), BenchError> {
    let parts = parts(args)?;
    check_sides(args, &parts)?;
    each_once("--threads", &args.terms.threads)?;
    let graphs: Result<Vec<PathBuf>, BenchError> =
        args.graph.iter().map(|path| path.canonicalize().map_err(BenchError::file(path))).collect();
    let graphs = graphs?;
    let writes = args.writes.as_deref().map(SharedWrites::read).transpose()?;
    let interrupt = Interrupt::listen()?;
    check_graphs(&graphs, &interrupt)?;
    let dir = args.work.make()?;
    let out = Out::claim(&args.out)?;
    let ladder = Ladder {
        terms: args.terms.clone(),
        parts,
        sides: args.side.clone(),
        graphs,
        writes,
        dir: dir.path().to_owned(),
        program: PROGRAM.into(),
    };
    let (results, kept) = ladder.run(&interrupt, &out)?;
    let judged = judge(&results);
    let shown = out.show(&results, &judged);
    match args.output.json {
        true => print(&serde_json::to_string(&Figures::of(&results))?)?,
        false => print(table(&judged).trim_end())?,
    }
    kept?;
    shown?;
    args.output.record(|| {
        let measured: Vec<_> = judged.into_iter().filter(|judged| judged.rounds > 0).collect();
        table(&measured) + "\n" + &medians(&results)
    })?;
    for path in [&out.json, &out.html] {
        let _ = writeln!(io::stderr(), "written: {}", path.display());
    }
    match results.failures.len() {
        _ if !results.complete => Err(BenchError::Interrupted),
        0 => Ok(()),
        count => Err(BenchError::Runs { count, path: out.json }),
    }
}

/// The parts that were asked for, each once, in the order in which they are listed. The one that needs
/// graphs is not asked for where there are none, unless it is named.
fn parts(args: &TranslationsArgs) -> Result<Vec<&'static Part>, BenchError> {
    let has_graphs = !args.graph.is_empty();
    let is_wanted = |part: &&Part| match args.parts.is_empty() {
        true => has_graphs || !part.needs_graphs(),
        false => args.parts.iter().any(|wanted| wanted.name == part.name),
    };
    let parts: Vec<&Part> = PARTS.iter().filter(is_wanted).collect();
    let why = match (parts.iter().any(|part| part.needs_graphs()), has_graphs) {
        (true, false) => "the part files needs a --graph",
        (false, true) => "--graph is for the part files, which is not among --parts",
        _ => return Ok(parts),
    };
    Err(BenchError::Options(why.to_owned()))
}

/// Each side that was asked for must be one of some part.
fn check_sides(args: &TranslationsArgs, parts: &[&Part]) -> Result<(), BenchError> {
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

    fn parsed(arguments: &[&str]) -> TranslationsArgs {
        let line = ["x", "translations"].iter().chain(arguments);
        match Cli::try_parse_from(line) {
            Ok(Cli { command: Command::Translations(args) }) => args,
            _ => panic!("{arguments:?} are not parsed"),
        }
    }

    #[test]
    fn sides_that_no_part_has_are_refused() {
        let check = |sides: &[&str]| {
            let args = parsed(&[&["--parts", "scan"], sides].concat());
            check_sides(&args, &parts(&args)?)
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
    fn parts_run_once_and_in_their_order() {
        let names = |arguments: &[&str]| -> Vec<&str> {
            parts(&parsed(arguments)).unwrap().iter().map(|part| part.name).collect()
        };
        assert_eq!(names(&[]).len(), PARTS.len() - 1);
        assert_eq!(names(&["--graph", "a"]).len(), PARTS.len());
        assert_eq!(names(&["--parts", "files,scan", "--graph", "a"]), ["scan", "files"]);
        assert_eq!(names(&["--parts", "graph,scan,graph"]), ["scan", "graph"]);
    }
}
