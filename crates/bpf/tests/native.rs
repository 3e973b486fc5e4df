//! Headers of the BPF programs in ordinary ones, `softtimer.bpf.h` against a model in virtual time: needs a C compiler and no
//! privilege.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

fn skipped(reason: &str) {
    let name = std::thread::current().name().unwrap_or("?").to_owned();
    let line = format!("skipped: {name}: {reason}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

/// `SOURCE.c` of `tests/native`, compiled with these flags; `None`: this compiler cannot.
fn compiled(name: &str, source: &str, flags: &[&str]) -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let output = Command::new(&compiler)
        .args([
            "-std=gnu11",
            "-g",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-Wno-unused-parameter",
            "-Wno-unused-function",
        ])
        .args(flags)
        .arg("-I")
        .arg(here.join("include"))
        .arg(here.join("tests/native").join(source))
        .arg("-o")
        .arg(&program)
        .output();
    match output {
        Err(error) => {
            skipped(&format!("{compiler}: {error}"));
            None
        }
        Ok(output) if output.status.success() => Some(program),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.contains("cannot find -l") || said.contains("sanitize"), "{said}");
            skipped("the compiler has no sanitizers");
            None
        }
    }
}

fn agree(program: &Path, steps: u32, seeds: std::ops::Range<u32>) {
    for seed in seeds {
        let output = Command::new(program).args([steps.to_string(), seed.to_string()]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "seed {seed}: {:?} {said}", output.status);
    }
}

#[test]
fn the_wheel_agrees_with_the_model_whatever_comes_in_between() {
    if let Some(program) = compiled("model", "model.c", &["-O2"]) {
        agree(&program, 500_000, 1..9);
    }
}

#[test]
fn the_wheel_is_clean_under_sanitizers() {
    let flags = ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    if let Some(program) = compiled("model-sanitized", "model.c", &flags) {
        agree(&program, 200_000, 100..102);
    }
}

/// Half the rate arrives while a queue fills: that is a smaller path only where more waits than a connection's own first
/// packets, and more than a quarter of the round trip.
#[test]
fn a_queue_of_own_packets_is_no_smaller_path() {
    let Some(program) = compiled("behind", "behind.c", &["-O2"]) else { return };
    let output = Command::new(program).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// Whoever has the header has neither our types nor our build: the kernel's types and libbpf's helpers do as well.
#[test]
fn a_program_of_another_author_compiles() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let compile = |more: &[&str]| {
        let mut clang = Command::new("clang");
        clang.args(["-O2", "-g", "-target", "bpf", "-mcpu=v3"]).args(more);
        clang.arg("-I").arg(here.join("include")).arg("-c").arg(here.join("tests/native/author.bpf.c"));
        clang.arg("-o").arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("author.bpf.o")).output()
    };
    let output = match compile(&["-Wall", "-Werror"]) {
        Ok(output) => output,
        Err(error) => return skipped(&format!("clang: {error}")),
    };
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("unable to create target") || said.contains("unknown target") {
        return skipped(&format!("this clang does not compile for BPF: {}", said.trim()));
    }
    assert!(output.status.success(), "{said}");
    let output = compile(&["-Wall", "-Werror", "-D__TARGET_ARCH_x86"]).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let types = Path::new(env!("CARGO_TARGET_TMPDIR")).join("vmlinux");
    std::fs::create_dir_all(&types).unwrap();
    let dump = ["btf", "dump", "file", "/sys/kernel/btf/vmlinux", "format", "c"];
    match Command::new("bpftool").args(dump).output() {
        Ok(dumped) if dumped.status.success() && Path::new("/usr/include/bpf/bpf_helpers.h").exists() => {
            std::fs::write(types.join("vmlinux.h"), dumped.stdout).unwrap();
        }
        _ => return skipped("the kernel's types need bpftool and libbpf's headers"),
    }
    let types = format!("-I{}", types.display());
    let output = compile(&["-DVMLINUX", &types]).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
