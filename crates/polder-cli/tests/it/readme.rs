//! The README of the command line: its examples are run, and say what it says they say.

use std::process::Command;

use crate::support::{Run, polder, run};

const README: &str = include_str!("../../README.md");

/// A command, and the lines that it is said to print; `...` stands for anything within a line.
struct Example {
    command: String,
    says: Vec<String>,
}

/// What stands in the blocks of a console: commands behind `$ `, and what they print.
fn examples() -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    for block in README.split("```console\n").skip(1) {
        let block = block.split("```").next().unwrap_or_default();
        for line in block.lines() {
            match (line.strip_prefix("$ "), examples.last_mut()) {
                (Some(command), _) => {
                    examples.push(Example { command: command.into(), says: Vec::new() });
                }
                (None, Some(example)) => example.says.push(line.into()),
                (None, None) => panic!("{line}: no command has said it"),
            }
        }
    }
    examples
}

fn fits(line: &str, pattern: &str) -> bool {
    let Some((first, others)) = pattern.split_once("...") else { return line == pattern };
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let mut pieces: Vec<&str> = others.split("...").collect();
    let last = pieces.pop().unwrap_or_default();
    for piece in pieces {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}

#[test]
fn its_examples_do_what_they_say() {
    let dir = tempfile::tempdir().unwrap();
    let program = polder();
    let program = std::path::Path::new(program.get_program());
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", program.parent().unwrap().display());
    let examples = examples();
    assert!(examples.len() > 20, "{}", examples.len());
    for Example { command, says } in &examples {
        let mut shell = Command::new("bash");
        shell.args(["-c", &format!("set -o pipefail; exec 2>&1; {command}")]);
        let run = run(shell.current_dir(dir.path()).env("PATH", &path));
        let Run { out, code, .. } = &run;
        let is_error = says.last().is_some_and(|line| line.starts_with("polder: "));
        assert_eq!(*code != 0, is_error, "{command}: {run:?}");
        let lines: Vec<&str> = out.lines().collect();
        let same = lines.len() == says.len() && lines.iter().zip(says).all(|(l, p)| fits(l, p));
        assert!(same, "{command} says\n{out}\nand not\n{}", says.join("\n"));
    }
}

#[test]
fn it_shows_every_command() {
    let help = run(polder().arg("--help")).ok();
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    for line in commands.take_while(|line| !line.is_empty()) {
        let command = line.split_whitespace().next().unwrap();
        let shown = examples().iter().any(|e| e.command.contains(&format!("polder {command}")));
        assert!(shown || ["help", "demo"].contains(&command), "{command} is in no example");
        assert!(README.contains(&format!("`{command}`")) || command == "help", "{command}");
    }
}
