//! C programs: compiled against the header, linked with the library that was built with these tests, and run to their end.
#![allow(dead_code, reason = "each of the tests uses a part of it")]

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

pub(crate) const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"];
/// Far more than any of them takes.
const PROGRAM_TIME_LIMIT: Duration = Duration::from_secs(240);

pub(crate) fn skipped(reason: &str) {
    let line = format!("skipped: {}: {reason}\n", std::thread::current().name().unwrap_or("?"));
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

pub(crate) fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The library that was built with these tests lies beside them.
pub(crate) fn library() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let library = tests.parent().unwrap().join("libsofttimers_capi.a");
    assert!(library.is_file(), "{} is not there", library.display());
    library
}

/// A place for what a test builds.
pub(crate) fn built(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    std::fs::create_dir_all(&directory).unwrap();
    directory.join(name)
}

/// The first of these programs that there is.
pub(crate) fn first_of(names: &[&'static str]) -> Option<&'static str> {
    let works = |name: &&&str| {
        let version =
            Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        version.is_ok_and(|status| status.success())
    };
    names.iter().find(works).copied()
}

pub(crate) fn c_compiler() -> Option<&'static str> {
    first_of(&["cc", "gcc", "clang"])
}

/// Each compiler that can build a program with AddressSanitizer and UndefinedBehaviorSanitizer, and the flags for it.
pub(crate) fn sanitizers() -> Vec<(&'static str, [&'static str; 2])> {
    let sanitize = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    let empty = built("empty.c");
    std::fs::write(&empty, "int main(void) { return 0; }\n").unwrap();
    let links = |name: &&str| {
        let out = built(&format!("empty_{name}"));
        let linked = Command::new(name).args(sanitize).arg(&empty).arg("-o").arg(&out).output();
        linked.is_ok_and(|linked| linked.status.success())
            && Command::new(&out).status().is_ok_and(|status| status.success())
    };
    ["gcc", "clang"].into_iter().filter(links).map(|name| (name, sanitize)).collect()
}

/// Compiles, and fails the test with what the compiler said.
pub(crate) fn compile(compiler: &str, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) {
    let done = Command::new(compiler).arg("-I").arg(here().join("include")).args(arguments).output().unwrap();
    assert!(done.status.success(), "{compiler}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Compiles a program of `tests/c` in C99 and links it with the library.
pub(crate) fn program(compiler: &str, source: &str, name: &str, flags: &[&str]) -> PathBuf {
    let out = built(name);
    let source = here().join("tests/c").join(source);
    let fixed = ["-std=c99", "-g", "-O1", "-o"].map(OsStr::new);
    let libraries = ["-lpthread", "-lm", "-ldl"].map(OsStr::new);
    let (library, flags) = (library(), flags.iter().chain(&WARNINGS).map(OsStr::new));
    let arguments = flags.chain(fixed).chain([out.as_os_str(), source.as_os_str(), library.as_os_str()]);
    compile(compiler, arguments.chain(libraries));
    out
}

/// Runs a program to its end, or ends it.
pub(crate) fn run(command: &mut Command) -> Output {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (done, ended) = mpsc::channel();
    let mut streams = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let reader = std::thread::spawn(move || {
        let (mut out, mut err) = (vec![], vec![]);
        let errors = std::thread::spawn(move || {
            streams.1.read_to_end(&mut err).unwrap();
            err
        });
        streams.0.read_to_end(&mut out).unwrap();
        let err = errors.join().unwrap();
        let _ = done.send(());
        (out, err)
    });
    let hung = ended.recv_timeout(PROGRAM_TIME_LIMIT).is_err();
    if hung {
        child.kill().unwrap();
    }
    let status = child.wait().unwrap();
    let (stdout, stderr) = reader.join().unwrap();
    assert!(!hung, "{command:?} hung: {}", String::from_utf8_lossy(&stderr));
    Output { status, stdout, stderr }
}

/// Runs a program that says `ok` when all was well.
pub(crate) fn passes(command: &mut Command) {
    let Output { status, stdout, stderr } = run(command);
    let (said, complained) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success() && said.trim() == "ok", "{command:?}: {status}\n{said}{complained}");
}
