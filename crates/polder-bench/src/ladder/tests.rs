use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use super::plan::Size;
use super::*;

fn ladder(dir: &Path) -> Ladder {
    Ladder {
        terms: Terms { size: Size::Small, rounds: 1, seconds: 0.01, threads: vec![1] },
        parts: vec![Part::find("scan").unwrap(), Part::find("graph").unwrap()],
        graphs: Vec::new(),
        sides: Vec::new(),
        writes: None,
        dir: dir.to_owned(),
        program: PathBuf::from("/nowhere/at/all"),
    }
}

#[test]
fn a_run_without_a_place_or_a_program_is_a_failure_among_others() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    for (place, why) in [(&*file, "file/scan/run"), (dir.path(), "/nowhere/at/all")] {
        let at = dir.path().join(why.replace('/', "-"));
        let out = Out::claim(&at).unwrap();
        let (results, kept) = ladder(place).run(&Interrupt::silent(), &out).unwrap();
        kept.unwrap();
        let sides = ["scan", "graph"].map(|part| Part::find(part).unwrap().sides().len());
        assert_eq!((results.failures.len(), results.runs.len()), (sides.iter().sum(), 0));
        assert!(results.complete);
        assert!(results.failures[0].why.contains(why), "{:?}", results.failures[0]);
        let text = fs::read_to_string(at.join("translations.json")).unwrap();
        assert!(text.contains(why) && text.contains("\"complete\": true"));
    }
}

fn write_program(at: &Path, lines: &str) {
    fs::write(at, format!("#!/bin/sh\n{lines}\n")).unwrap();
    fs::set_permissions(at, fs::Permissions::from_mode(0o700)).unwrap();
}

/// Its children keep what is written by then, and fail.
#[test]
fn each_part_finds_the_figures_of_those_before_it_written() {
    let dir = tempfile::tempdir().unwrap();
    let [script, seen] = ["child", "seen"].map(|name| dir.path().join(name));
    let out = Out::claim(&dir.path().join("out")).unwrap();
    let (from, to) = (out.json.display(), seen.display());
    write_program(&script, &format!("cp '{from}' '{to}'"));
    let ladder = Ladder { program: script, ..ladder(dir.path()) };
    let (results, _) = ladder.run(&Interrupt::silent(), &out).unwrap();
    assert!(results.complete);
    let seen = fs::read_to_string(&seen).unwrap();
    assert!(seen.contains("\"part\": \"scan\"") && !seen.contains("\"part\": \"graph\""));
    assert!(seen.contains("\"complete\": false"));
}

#[test]
fn an_interrupt_is_no_failure() {
    let dir = tempfile::tempdir().unwrap();
    let out = Out::claim(&dir.path().join("out")).unwrap();
    let interrupt = Interrupt::silent();
    interrupt.set();
    let echo = Ladder { program: PathBuf::from("cat"), ..ladder(dir.path()) };
    let (results, _) = echo.run(&interrupt, &out).unwrap();
    assert!(!results.complete && results.failures.is_empty());
}

/// Its first child answers, and its second never does.
#[test]
fn what_was_measured_before_an_interrupt_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let [script, first, second] = ["child", "first", "second"].map(|name| dir.path().join(name));
    let (one, two) = (first.display(), second.display());
    let figure = r#"{"metric":"random","at":0,"value":7}"#;
    let lines = format!(
        "if mkdir '{one}' 2>/dev/null; then read order; echo '{{\"answer\":[{figure}]}}'; exit; fi\n\
         touch '{two}'\nexec sleep 600"
    );
    write_program(&script, &lines);
    let out = Out::claim(&dir.path().join("out")).unwrap();
    let interrupt = Interrupt::silent();
    let ladder = Ladder { program: script, ..ladder(dir.path()) };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..6000 {
                if second.exists() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            interrupt.set();
        });
        ladder.run(&interrupt, &out).unwrap().1.unwrap();
    });
    let text = fs::read_to_string(&out.json).unwrap();
    let written: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(written["complete"], false);
    let runs = written["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0]["figures"][0]["value"], 7.0);
}

#[test]
fn what_cannot_be_written_is_an_error_at_the_beginning_and_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let [script, at] = ["child", "out"].map(|name| dir.path().join(name));
    let in_the_way = at.join("translations.json.new");
    write_program(&script, &format!("mkdir -p '{}'", in_the_way.display()));
    let ladder = Ladder { program: script, ..ladder(dir.path()) };
    let out = Out::claim(&at).unwrap();
    let (results, kept) = ladder.run(&Interrupt::silent(), &out).unwrap();
    assert!(results.complete);
    assert!(kept.unwrap_err().to_string().contains("translations.json.new"));

    fs::remove_file(&out.json).unwrap();
    let out = Out::claim(&at).unwrap();
    assert!(ladder.run(&Interrupt::silent(), &out).is_err());
    assert!(!out.json.exists(), "the next run finds a file without anything in it");
}
