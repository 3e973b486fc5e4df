//! Sizes: a file has one subject, a function fits on a screen.
//!
//! Counted are lines of code: no comments, no blank lines, no tests. A limit that is reached asks
//! whether there are two subjects; it is no reason to write denser lines, which `rustfmt` undoes anyway.

use crate::report::Outcome;
use crate::source;
use crate::workspace::TextFile;

const FILE_LINES: usize = 400;
const FUNCTION_LINES: usize = 60;

/// Checks every Rust file outside `tests` directories.
pub(crate) fn check(files: &[TextFile]) -> Outcome {
    let rust: Vec<_> = files.iter().filter(|file| is_measured(&file.path)).collect();
    let problems = rust.iter().flat_map(|file| problems(file)).collect();
    let longest = rust.iter().map(|file| (lines(file), &file.path)).max();
    let note = longest.map(|(lines, path)| format!("{} files; the longest is {path}, {lines}", rust.len()));
    Outcome::of(problems, note.unwrap_or_default())
}

fn is_measured(path: &str) -> bool {
    path.ends_with(".rs") && !path.split('/').any(|part| matches!(part, "tests" | "benches"))
}

fn lines(file: &TextFile) -> usize {
    source::code_lines(&source::without_tests(&source::blanked(&file.text)))
}

fn problems(file: &TextFile) -> Vec<String> {
    let path = &file.path;
    let code = source::without_tests(&source::blanked(&file.text));
    let mut problems = vec![];
    let lines = source::code_lines(&code);
    if lines > FILE_LINES {
        problems.push(format!("{path} has {lines} lines of code; the limit is {FILE_LINES}"));
    }
    for function in source::functions(&code).iter().filter(|f| f.code_lines > FUNCTION_LINES) {
        let source::Function { name, line, code_lines } = function;
        problems.push(format!(
            "{path}:{line}: `{name}` has {code_lines} lines of code; the limit is {FUNCTION_LINES}"
        ));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: String) -> TextFile {
        TextFile { path: path.into(), text }
    }

    #[test]
    fn a_long_file_and_a_long_function_are_named() {
        let body = |lines| format!("fn long() {{\n{}}}\n", "g();\n".repeat(lines));
        assert!(problems(&file("a.rs", body(FUNCTION_LINES - 2))).is_empty());
        let found = problems(&file("a.rs", body(FUNCTION_LINES - 1)));
        assert_eq!(found, ["a.rs:1: `long` has 61 lines of code; the limit is 60"]);
        let found = problems(&file("b.rs", "use a;\n".repeat(FILE_LINES + 1)));
        assert_eq!(found, ["b.rs has 401 lines of code; the limit is 400"]);
    }

    #[test]
    fn tests_and_other_languages_are_not_measured() {
        assert!(is_measured("crates/core/src/time.rs") && is_measured("xtask/src/testing.rs"));
        assert!(!is_measured("crates/core/tests/model.rs") && !is_measured("README.md"));
    }
}
