//! What the packages install, as it will lie under `/`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::c_library::{self, Place};
use crate::program::{Profile, must, output, program as command};
use crate::shipped;
use crate::workspace::Workspace;

/// A directory that stands for `/`.
pub(super) struct Tree {
    pub(super) root: PathBuf,
    pub(super) architecture: String,
    /// Where libraries are, below `usr`.
    pub(super) library: String,
}

impl Tree {
    /// Builds the command and the library, and lays everything out below `root`.
    ///
    /// # Errors
    /// If something does not build, or a file cannot be written.
    pub(super) fn make(workspace: &Workspace, profile: Profile, root: &Path) -> Result<Self> {
        emptied(root)?;
        let library = format!("lib/{}-linux-gnu", std::env::consts::ARCH);
        let tree = Tree { root: root.to_owned(), architecture: super::architecture()?, library };
        // One by one: built together, the command would have features that only the library wants.
        let from = workspace.root();
        let program = shipped::build(workspace, profile, "softtimers-cli", None)?.join("softtimers");
        copy(&program, &tree.at("usr/bin/softtimers"))?;
        shipped::strip(&tree.at("usr/bin/softtimers"), "--strip-all")?;
        let place = Place { prefix: "/usr", library: &tree.library, under: root };
        c_library::strip(&c_library::put(workspace, profile, &place)?)?;
        if profile == Profile::Release {
            for file in tree.files()? {
                shipped::is_nowhere(workspace, &tree.at(&file))?;
            }
        }
        tree.documents(&program)?;
        for (file, place) in COPIED {
            let name = Path::new(file).file_name().context(*file)?;
            copy(&from.join(file), &tree.at(place).join(name))?;
        }
        for unit in UNITS {
            let text = fs::read_to_string(from.join("docs").join(unit)).context(*unit)?;
            write(&tree.at("usr/share/doc/softtimers/examples").join(unit), &packaged(&text))?;
        }
        // Of the project, not what somebody compiled beside them.
        let examples = output(command("git", from).args(["ls-files", "--", "crates/capi/examples"]))?;
        for example in examples.lines() {
            let name = Path::new(example).file_name().context("a file")?;
            copy(&from.join(example), &tree.at("usr/share/doc/libsofttimers-dev/examples").join(name))?;
        }
        Ok(tree)
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// Manual pages and completions, as the command itself writes them.
    fn documents(&self, program: &Path) -> Result<()> {
        let says = |words: &[&str]| output(command(program, &self.root).args(words));
        let manual = self.at("usr/share/man/man1");
        let (mut unwritten, mut written) = (vec![vec!["man".to_owned()]], 0);
        while let Some(words) = unwritten.pop() {
            let page = says(&words.iter().map(String::as_str).collect::<Vec<_>>())?;
            let name = [&["softtimers".to_owned()], &words[1..]].concat().join("-");
            unwritten.extend(page.lines().filter_map(|line| page_named(line, &name)).map(|other| {
                let mut words = words.clone();
                words.push(other);
                words
            }));
            write(&manual.join(format!("{name}.1")), &page)?;
            written += 1;
        }
        ensure!(written > 1, "the manual page names no other");
        for (shell, place) in [
            ("bash", "bash-completion/completions/softtimers"),
            ("zsh", "zsh/vendor-completions/_softtimers"),
            ("fish", "fish/vendor_completions.d/softtimers.fish"),
        ] {
            write(&self.at("usr/share").join(place), &says(&["completions", shell])?)?;
        }
        must(command("gzip", &self.root).args(["-9", "-n", "-r"]).arg(&manual))
    }

    /// Files and links, from the root, in order.
    pub(super) fn files(&self) -> Result<Vec<String>> {
        let found = below(&self.root)?;
        let relative = found.iter().map(|path| path.strip_prefix(&self.root).ok()?.to_str());
        relative.map(|path| path.map(str::to_owned).context("a name that is text")).collect()
    }

    /// The packages that programs among `files` need of the C library's, by what they ask the dynamic linker for.
    pub(super) fn needs(&self, files: &[String]) -> Result<Vec<String>> {
        let (mut libc, mut unwinder) = (None, None);
        for file in files {
            let path = self.root.join(file);
            if path.is_symlink() || !(file.starts_with("usr/bin/") || file.contains(".so.")) {
                continue;
            }
            let symbols = output(command("objdump", &self.root).arg("-T").arg(&path))?;
            libc = libc.max(newest(&symbols, "GLIBC_"));
            unwinder = unwinder.max(newest(&symbols, "GCC_"));
        }
        let shown = |package: &str, version: Vec<u32>| {
            let numbers: Vec<String> = version.iter().map(u32::to_string).collect();
            format!("{package} (>= {})", numbers.join("."))
        };
        let libc = libc.map(|version| shown("libc6", version));
        Ok(libc.into_iter().chain(unwinder.map(|version| shown("libgcc-s1", version))).collect())
    }
}

/// `send` of a line `softtimers\-send(1)` in the page `softtimers`.
fn page_named(line: &str, page: &str) -> Option<String> {
    let whole = line.strip_suffix("(1)")?.replace("\\-", "-");
    let name = whole.strip_prefix(page)?.strip_prefix('-')?;
    // clap has a page for it, and nothing in it.
    (name != "help").then(|| name.to_owned())
}

/// The greatest version behind `prefix` in a list of symbols.
fn newest(symbols: &str, prefix: &str) -> Option<Vec<u32>> {
    let words = symbols.split(|c: char| c.is_whitespace() || c == '(' || c == ')');
    let versions = words.filter_map(|word| word.strip_prefix(prefix));
    versions.filter_map(|version| version.split('.').map(|part| part.parse().ok()).collect()).max()
}

/// Everything below a directory that is none itself, in order.
pub(super) fn below(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = vec![];
    let entries = fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.extend(below(&entry.path())?);
        } else {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// Makes a directory, without what was in it.
pub(super) fn emptied(directory: &Path) -> Result<()> {
    if directory.exists() {
        fs::remove_dir_all(directory).with_context(|| format!("cannot empty {}", directory.display()))?;
    }
    fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))
}

/// Copies a file, or a link as a link.
pub(super) fn copy(from: &Path, to: &Path) -> Result<()> {
    let shown = || format!("cannot copy {} to {}", from.display(), to.display());
    fs::create_dir_all(to.parent().with_context(shown)?).with_context(shown)?;
    if from.is_symlink() {
        symlink(fs::read_link(from).with_context(shown)?, to).with_context(shown)
    } else {
        fs::copy(from, to).map(drop).with_context(shown)
    }
}

/// Writes a file, and the directories above it.
pub(super) fn write(file: &Path, text: &str) -> Result<()> {
    let shown = || format!("cannot write {}", file.display());
    fs::create_dir_all(file.parent().with_context(shown)?).with_context(shown)?;
    fs::write(file, text).with_context(shown)
}

/// What `md5sum` says of the files of a package.
pub(super) fn sums(directory: &Path) -> Result<String> {
    let mut sums = command("md5sum", directory);
    let files = below(directory)?;
    let files =
        files.iter().filter(|path| !path.is_symlink()).filter_map(|path| path.strip_prefix(directory).ok());
    output(sums.args(files))
}

/// What a package takes when it is installed.
pub(super) fn kibibytes(directory: &Path) -> Result<u64> {
    let files = below(directory)?;
    let sizes = files.iter().map(|path| Ok(path.symlink_metadata()?.len().div_ceil(1024)));
    sizes.sum()
}

/// Whoever builds: everybody may read everything, and run programs.
pub(super) fn modes(directory: &Path) -> Result<()> {
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    set(directory, 0o755)?;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() {
            modes(&path)?;
        } else if kind.is_file() {
            let is_program = directory.ends_with("usr/bin");
            set(&path, if is_program { 0o755 } else { 0o644 })?;
        }
    }
    Ok(())
}

/// Examples of units of systemd, in `docs`.
const UNITS: &[&str] = &["softtimers-wan.service", "softtimers-forward.service"];

/// A unit that starts what the package installs, and not what an administrator has put beside it.
fn packaged(unit: &str) -> String {
    unit.replace("/usr/local/bin/", "/usr/bin/")
}

/// Files of the project, and the directory where each goes.
const COPIED: &[(&str, &str)] = &[
    ("docs/c.md", "usr/share/doc/libsofttimers-dev"),
    ("crates/bpf/include/softtimer.bpf.h", "usr/include/softtimers-bpf"),
    ("crates/bpf/include/sources.bpf.h", "usr/include/softtimers-bpf"),
    ("crates/bpf/include/kernel.bpf.h", "usr/include/softtimers-bpf"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_is_found_by_number() {
        let symbols =
            "0 DF *UND* 0 (GLIBC_2.9) read\n0 DF *UND* 0 (GLIBC_2.34) open\n0 DF *UND* 0 GCC_3.3 _Unwind\n";
        assert_eq!(newest(symbols, "GLIBC_"), Some(vec![2, 34]));
        assert_eq!(newest(symbols, "GCC_"), Some(vec![3, 3]));
        assert_eq!(newest("0 DF *UND* 0 GLIBC_PRIVATE x", "GLIBC_"), None);
    }

    #[test]
    fn pages_are_those_that_the_main_one_names() {
        let text = ".TP\nsofttimers\\-send(1)\nSend\nsofttimers\\-help(1)\n";
        let named =
            |text: &str, page| -> Vec<_> { text.lines().filter_map(|line| page_named(line, page)).collect() };
        assert_eq!(named(text, "softtimers"), ["send"]);
        let text = "softtimers\\-sim\\-hip\\-traces(1)\nsofttimers\\-sim\\-help(1)\nsofttimers\\-send(1)\n";
        assert_eq!(named(text, "softtimers-sim"), ["hip-traces"]);
    }
}
