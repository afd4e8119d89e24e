//! `translations`: from its arguments to its two files.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::args::TranslationsArgs;
use super::{listen, own_program, print, run_dir};
use crate::error::BenchError;
use crate::ladder::{Ladder, PARTS, Part, judge, table, write};

pub(super) fn run(args: &TranslationsArgs) -> Result<(), BenchError> {
    let parts = parts(args)?;
    let graphs: Result<Vec<PathBuf>, BenchError> =
        args.graph.iter().map(|path| path.canonicalize().map_err(BenchError::file(path))).collect();
    let interrupt = listen()?;
    let dir = run_dir(args.dir.as_deref())?;
    let ladder = Ladder {
        size: args.size,
        parts,
        rounds: args.rounds,
        seconds: args.seconds,
        threads: args.threads.clone(),
        graphs: graphs?,
        dir: dir.path().to_owned(),
        program: own_program()?,
    };
    let results = ladder.run(&interrupt)?;
    let judged = judge(&results);
    let paths = write(&results, &judged, args.out.as_deref().unwrap_or(Path::new(".")))?;
    print(table(&judged).trim_end())?;
    for path in paths {
        let _ = writeln!(io::stderr(), "written: {}", path.display());
    }
    match results.failures.first() {
        _ if !results.complete => Err(BenchError::Interrupted),
        Some(first) => Err(BenchError::Worker {
            engine: format!("{}, {}", first.part, first.side),
            message: format!(
                "{} of the runs failed; this one: {}",
                results.failures.len(),
                first.why
            ),
        }),
        None => Ok(()),
    }
}

/// The parts that were asked for, in the order in which they are listed.
fn parts(args: &TranslationsArgs) -> Result<Vec<&'static Part>, BenchError> {
    if let Some(unknown) = args.parts.iter().find(|name| Part::find(name).is_none()) {
        let why = format!("there is no part {unknown:?}; there are: {}", Part::names());
        return Err(BenchError::Options(why));
    }
    let wanted = |part: &&Part| args.parts.is_empty() || args.parts.iter().any(|n| n == part.name);
    let parts: Vec<&Part> = PARTS.iter().filter(wanted).collect();
    if args.graph.is_empty() && parts.iter().all(|part| part.needs_graphs) {
        return Err(BenchError::Options("files needs a --graph".to_owned()));
    }
    Ok(parts)
}
