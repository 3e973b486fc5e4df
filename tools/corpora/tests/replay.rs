//! Every input that is kept, through its target: `fuzz/corpus/NAME/*`, small and picked by hand from what fuzzing found.

use std::fs;

use softtimers_corpora::replay::{self, files, fuzz};
use softtimers_corpora::{OF_THE_COMMAND, TARGETS, find};

#[test]
fn every_kept_input_is_read_or_refused() {
    replay::kept(&fuzz(), TARGETS);
}

#[test]
fn every_kept_input_is_read_or_refused_when_damaged() {
    replay::damaged(&fuzz(), TARGETS);
}

/// A target that is in one of the lists only is one that nobody runs.
#[test]
fn targets_corpora_and_the_table_of_readers_are_the_same() {
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    let table = fs::read_to_string(fuzz().join("README.md")).unwrap();
    let names = || TARGETS.iter().map(|target| target.name).chain(OF_THE_COMMAND);
    for name in names() {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name} is not in fuzz/Cargo.toml");
        assert!(table.contains(&format!("| `{name}` |")), "{name} is not in fuzz/README.md");
        let source = fs::read_to_string(fuzz().join(format!("fuzz_targets/{name}.rs"))).unwrap();
        assert!(source.contains(&format!("run(\"{name}\"")), "{name} runs something else");
    }
    for directory in files(&fuzz().join("corpus")) {
        let name = directory.file_name().unwrap().to_str().unwrap();
        let known = find(name).is_some() || OF_THE_COMMAND.contains(&name);
        assert!(known, "{} is the corpus of no target", directory.display());
    }
    assert_eq!(files(&fuzz().join("fuzz_targets")).len(), names().count());
}
