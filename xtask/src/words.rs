//! What must not stand in the project's files: paths of one machine, hosts of package registries,
//! code left open, and a use of the kernel's tick.

use crate::report::Outcome;
use crate::source;
use crate::workspace::TextFile;

/// First directories of absolute paths that exist on somebody's machine only. `/dev`, `/proc`, `/sys`
/// and `/tmp` are everybody's.
const MACHINE_DIRECTORIES: &[&str] = &["work", "root", "home", "farm", "Users"];

/// Hosts that packages come from: which mirror somebody uses is theirs to set.
const REGISTRY_HOSTS: &[&str] = &[
    concat!("crates", ".io"),
    concat!("pypi", ".org"),
    concat!("pythonhosted", ".org"),
    concat!("npmjs", ".org"),
    concat!("proxy.golang", ".org"),
    concat!("maven", ".org"),
    concat!("deb.debian", ".org"),
];

/// Marks of unfinished code, in source files.
const LEFT_OPEN: &[&str] = &[
    concat!("to", "do!("),
    concat!("unimpl", "emented!("),
    concat!("db", "g!("),
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
];

/// Names of the kernel's tick and of its rate. Time is nanoseconds here: a program that counts in ticks
/// behaves differently from one kernel's configuration to the next (Tsafrir et al. §3).
const KERNEL_TICK: &[&str] = &[
    "HZ",
    "USER_HZ",
    "CONFIG_HZ",
    "CLK_TCK",
    "_SC_CLK_TCK",
    "jiffies",
    "jiffies_64",
    "clock_ticks_per_second",
];

/// Cargo writes the registry's address there.
const WRITTEN_BY_CARGO: &str = "Cargo.lock";

/// Checks every text file.
pub(crate) fn check(files: &[TextFile]) -> Outcome {
    let problems = files.iter().flat_map(problems).collect();
    Outcome::of(problems, format!("{} files", files.len()))
}

fn problems(file: &TextFile) -> Vec<String> {
    let path = &file.path;
    let is_lock = path == WRITTEN_BY_CARGO || path.ends_with(&format!("/{WRITTEN_BY_CARGO}"));
    let is_source = [".rs", ".c", ".h", ".sh", ".toml"].iter().any(|end| path.ends_with(end));
    let mut problems = vec![];
    for (line, number) in file.text.lines().zip(1..) {
        let mut found = |what: &str, word: &str| problems.push(format!("{path}:{number}: {what}: {word}"));
        MACHINE_DIRECTORIES
            .iter()
            .filter(|d| has_path(line, d))
            .for_each(|d| found("a path of one machine", &format!("/{d}")));
        if !is_lock {
            let hosts = REGISTRY_HOSTS.iter().filter(|host| line.contains(**host));
            hosts.for_each(|host| found("a host of a package registry", host));
        }
        if is_source {
            let open = LEFT_OPEN.iter().filter(|word| line.contains(**word));
            open.for_each(|word| found("left open", word));
        }
    }
    if [".rs", ".c", ".h"].iter().any(|end| path.ends_with(end)) {
        problems.extend(ticks(file));
    }
    problems
}

/// Uses of the kernel's tick in code; comments and strings may speak of it.
fn ticks(file: &TextFile) -> Vec<String> {
    let code = source::blanked(&file.text);
    let names = |line: &str| -> Vec<String> {
        let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.filter(|word| KERNEL_TICK.contains(word)).map(str::to_owned).collect()
    };
    let found = code.lines().zip(1..).flat_map(|(line, number)| {
        names(line).into_iter().map(move |word| format!("{}:{number}: the kernel's tick: {word}", file.path))
    });
    found.collect()
}

/// Whether an absolute path under `/directory` stands in `line`.
fn has_path(line: &str, directory: &str) -> bool {
    line.match_indices('/').any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let inside_a_path = before.is_some_and(|c| c.is_alphanumeric() || "._-~/}<>$*".contains(c));
        let after = line[at + 1..].strip_prefix(directory).map(|rest| rest.chars().next());
        let ends = after.is_some_and(|c| c.is_none_or(|c| !c.is_alphanumeric() && !"_-.".contains(c)));
        ends && !inside_a_path
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        problems(&TextFile { path: path.into(), text: text.into() })
    }

    #[test]
    fn absolute_paths_of_a_machine_are_found() {
        for directory in MACHINE_DIRECTORIES {
            let text = format!("see `/{directory}/x`\n");
            assert_eq!(found("a.md", &text), [format!("a.md:1: a path of one machine: /{directory}")]);
        }
        assert_eq!(found("a.md", &format!("({}/)", concat!("/wo", "rk"))).len(), 1);
    }

    #[test]
    fn other_paths_are_let_be() {
        for text in
            ["src/work/x", "../root/x", "https://host/home/x", "/working/x", "/proc/self/stat", "a / work"]
        {
            assert!(found("a.md", text).is_empty(), "{text}");
        }
    }

    #[test]
    fn registry_hosts_are_found_except_where_cargo_writes_them() {
        let line = format!("registry = {}", REGISTRY_HOSTS[0]);
        assert_eq!(found("docs/a.md", &line).len(), 1);
        assert!(found("Cargo.lock", &line).is_empty() && found("fuzz/Cargo.lock", &line).is_empty());
    }

    #[test]
    fn the_kernels_tick_is_found_in_code_only() {
        for word in KERNEL_TICK {
            let code = format!("fn f() {{\n    g({word});\n}}\n");
            assert_eq!(found("a.rs", &code), [format!("a.rs:2: the kernel's tick: {word}")]);
            assert!(found("a.rs", &format!("// not {word}\nf(\"{word}\");\n")).is_empty());
            assert!(found("a.md", &code).is_empty());
        }
        assert!(found("a.rs", "let (hz, MEASURE_HZ) = (1, 2);\n").is_empty());
    }

    #[test]
    fn unfinished_code_is_found_in_sources_only() {
        for word in LEFT_OPEN {
            assert_eq!(found("a.rs", &format!("fn f() {{\n    {word}\n}}\n")).len(), 1, "{word}");
            assert!(found("a.md", word).is_empty());
        }
    }
}
