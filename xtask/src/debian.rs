//! `cargo xtask debian`: the Debian packages, made with `dpkg-deb` and nothing else of Debian's tools.
//!
//! ```text
//!   cargo build ─▶ tree.rs: /usr as it will be ─┬─▶ softtimers           command, manual pages, completions, examples
//!                                               ├─▶ libsofttimersN       the shared library, named for what it promises
//!                                               └─▶ libsofttimers-dev    headers, static library, pkg-config, C examples
//!                  trial.rs: installed, used and removed in an empty root
//! ```
//!
//! Not cargo-deb, which makes one package of one crate: a shared library has a package of its own, whose name changes
//! with the library's, so that an old program's library can stay beside the new one. Not debhelper either, which
//! wants Debian's own copy of each dependency. What is left is a directory for each package and five small files.

mod texts;
mod tree;
pub(crate) mod trial;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::c_library::{promised, soname};
use crate::program::{self, Profile, must, output, program as command};
use crate::report::Report;
use crate::workspace::Workspace;
use texts::Texts;
use tree::Tree;

/// `cargo xtask debian [--debug] [--try]`.
///
/// # Errors
/// If a tool is missing, something does not build, or a file cannot be written.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let (mut profile, mut is_trial) = (Profile::Release, false);
    for argument in arguments {
        match argument.as_str() {
            "--debug" => profile = Profile::Debug,
            "--try" => is_trial = true,
            _ => bail!(crate::usage_of("debian")),
        }
    }
    let workspace = Workspace::load()?;
    if is_trial {
        let mut report = Report::default();
        report.step("Debian packages", || trial::check(&workspace, profile));
        return Ok(report.close());
    }
    if let Some(missing) = missing() {
        bail!(missing);
    }
    for file in build(&workspace, profile)? {
        println!("{}", file.display());
    }
    Ok(true)
}

/// Why there can be no packages here.
pub(crate) fn missing() -> Option<String> {
    let here = Path::new(".");
    let tools = ["dpkg-deb", "dpkg", "strip", "objdump", "gzip", "md5sum", "git"];
    let lacks = |tool: &&&str| !program::works(command(tool, here).arg("--version"));
    tools.iter().find(lacks).map(|tool| format!("`{tool}` is needed to make Debian packages"))
}

/// One of the packages.
struct Package {
    name: String,
    section: &'static str,
    /// Beginnings of the paths that it takes from the tree.
    takes: Vec<String>,
    /// Further packages that it needs; what its programs need of the C library is found.
    depends: Option<String>,
    /// Whether two architectures may have it at once.
    is_of_each_architecture: bool,
    description: &'static [&'static str],
}

fn packages(version: &str, library: &str) -> [Package; 3] {
    let shared = format!("libsofttimers{}", promised(version));
    let soname = soname(version);
    [
        Package {
            name: "softtimers".into(),
            section: "net",
            takes: vec!["usr/bin/".into(), "usr/share/".into()],
            depends: None,
            is_of_each_architecture: false,
            description: COMMAND,
        },
        Package {
            name: shared.clone(),
            section: "libs",
            takes: vec![format!("usr/{library}/{soname}")],
            depends: None,
            is_of_each_architecture: true,
            description: SHARED,
        },
        Package {
            name: "libsofttimers-dev".into(),
            section: "libdevel",
            takes: vec!["usr/include/".into(), format!("usr/{library}/"), DEV_DOCUMENTS.into()],
            depends: Some(format!("{shared} (= {version}-{REVISION})")),
            is_of_each_architecture: true,
            description: DEV,
        },
    ]
}

/// Builds the packages into `debian` of the target directory, and returns their files.
///
/// # Errors
/// If something does not build, or a file cannot be written.
pub(crate) fn build(workspace: &Workspace, profile: Profile) -> Result<Vec<PathBuf>> {
    let to = place(workspace);
    fs::create_dir_all(&to).with_context(|| format!("cannot make {}", to.display()))?;
    let tree = Tree::make(workspace, profile, &to.join("tree"))?;
    let texts = Texts::of(workspace, profile)?;
    let packages = packages(&texts.version, &tree.library);
    let mut taken: Vec<Vec<String>> = packages.iter().map(|_| vec![]).collect();
    for file in tree.files()? {
        // The most specific beginning decides.
        let length = |package: &Package| {
            package.takes.iter().filter(|start| file.starts_with(*start)).map(String::len).max()
        };
        let claims = (0..).zip(&packages).filter_map(|(at, package)| Some((length(package)?, at)));
        let (_, owner) = claims.max().with_context(|| format!("{file} is of no package"))?;
        taken[owner].push(file);
    }
    let pairs = packages.iter().zip(taken);
    pairs.map(|(package, files)| one(package, &files, &tree, &texts, &to)).collect()
}

fn place(workspace: &Workspace) -> PathBuf {
    workspace.target_directory.join("debian")
}

/// Makes one package and returns its file.
fn one(package: &Package, files: &[String], tree: &Tree, texts: &Texts, to: &Path) -> Result<PathBuf> {
    let name = &package.name;
    let directory = to.join(name);
    tree::emptied(&directory)?;
    for file in files {
        tree::copy(&tree.root.join(file), &directory.join(file))?;
    }
    texts.documents(name, &directory)?;
    let control = directory.join("DEBIAN");
    fs::create_dir_all(&control)?;
    fs::write(control.join("md5sums"), tree::sums(&directory)?)?;
    let kibibytes = tree::kibibytes(&directory)?;
    let needs = tree.needs(files)?;
    let depends: Vec<String> = package.depends.iter().cloned().chain(needs).collect();
    let mut text = format!(
        "Package: {name}\nSource: softtimers\nVersion: {}-{REVISION}\nArchitecture: {}\nMaintainer: {}\n",
        texts.version, tree.architecture, texts.maintainer
    );
    text += &format!("Installed-Size: {kibibytes}\nSection: {}\nPriority: optional\n", package.section);
    if !depends.is_empty() {
        text += &format!("Depends: {}\n", depends.join(", "));
    }
    if package.is_of_each_architecture {
        text += "Multi-Arch: same\n";
    }
    text += &format!("Description: {}\n", package.description.join("\n "));
    fs::write(control.join("control"), text)?;
    if files.iter().any(|file| file.ends_with(&soname(&texts.version))) {
        let promised = promised(&texts.version);
        let line = format!("libsofttimers {promised} {name} (>= {})\n", texts.version);
        fs::write(control.join("shlibs"), line)?;
        fs::write(control.join("triggers"), "activate-noawait ldconfig\n")?;
    }
    tree::modes(&directory)?;
    let file = to.join(format!("{name}_{}-{REVISION}_{}.deb", texts.version, tree.architecture));
    let mut dpkg = command("dpkg-deb", to);
    dpkg.args(["--root-owner-group", texts.compression, "--build"]).arg(&directory).arg(&file);
    must(dpkg.env("SOURCE_DATE_EPOCH", &texts.epoch))?;
    Ok(file)
}

/// Of the packages, not of what is in them.
const REVISION: u32 = 1;
const DEV_DOCUMENTS: &str = "usr/share/doc/libsofttimers-dev/";

const COMMAND: &[&str] = &[
    "microsecond timers and even packet pacing: the command",
    "Sends UDP evenly at microsecond intervals from a busy program, receives and",
    "judges such a stream, emulates a network path without root, forwards and",
    "captures packets under overload, and says what timers cost on a machine.",
    ".",
    "It needs neither root nor a kernel module; the few subcommands that open",
    "interfaces or load BPF programs say which capability they lack.",
];
const SHARED: &[&str] = &[
    "microsecond timers and even packet pacing: shared library",
    "Timers that are looked at where a program passes anyway, with one kernel timer",
    "as the deadline; pacing of many flows; policies for receiving under overload;",
    "and the timer interfaces of BSD.",
    ".",
    "This package has the library that programs in C and C++ are linked with.",
];
const DEV: &[&str] = &[
    "microsecond timers and even packet pacing: development files",
    "Timers that are looked at where a program passes anyway, with one kernel timer",
    "as the deadline; pacing of many flows; policies for receiving under overload;",
    "and the timer interfaces of BSD.",
    ".",
    "This package has the header, the static library, the file for pkg-config and",
    "examples, and the header that gives BPF programs soft timers.",
];

/// The machine's name for what it runs.
fn architecture() -> Result<String> {
    Ok(output(command("dpkg", Path::new(".")).arg("--print-architecture"))?.trim().to_owned())
}
