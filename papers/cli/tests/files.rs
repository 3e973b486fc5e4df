//! Whatever path somebody names to these commands, it is opened with their rights, as by those of `softtimers`.

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{command, refusal, skipped, stderr};

/// The user who calls sudo in these tests.
const CALLER: u32 = 12_345;
/// The content of files that are not theirs, which is no rule, program, recording or part of a sweep.
const SECRET: &str = "hunter2 hunter3,hunter4\nhunter5\n";

/// A directory that everybody may look into: `theirs/` is the caller's, `roots/` is root's.
struct Place(PathBuf);

impl Place {
    /// None where nobody has more rights than who calls them.
    fn new(test: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skipped("only root has more rights than who calls sudo");
            return None;
        }
        let place =
            Place(std::env::temp_dir().join(format!("softtimers-files-{}-{test}", std::process::id())));
        for (name, owner) in [("theirs", CALLER), ("roots", 0)] {
            fs::create_dir_all(place.at(name)).unwrap();
            fs::set_permissions(place.at(name), fs::Permissions::from_mode(0o755)).unwrap();
            chown(place.at(name), Some(owner), Some(owner)).unwrap();
        }
        fs::set_permissions(&place.0, fs::Permissions::from_mode(0o755)).unwrap();
        Some(place)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn file(&self, name: &str, text: &str, owner: u32, mode: u32) -> PathBuf {
        let path = self.at(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        chown(&path, Some(owner), Some(owner)).unwrap();
        path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// As sudo starts it for the caller.
fn by_sudo(words: &str) -> Command {
    let mut command = command(words);
    command.env("SUDO_UID", CALLER.to_string()).env("SUDO_GID", CALLER.to_string());
    command
}

fn refused(command: &mut Command) -> String {
    refusal(&command.output().unwrap(), 2)
}

fn owner_and_mode(path: &Path) -> (u32, u32, u32) {
    let found = fs::symlink_metadata(path).unwrap();
    (found.uid(), found.gid(), found.mode() & 0o7777)
}

#[test]
fn nothing_is_made_where_the_caller_may_not() {
    let Some(place) = Place::new("made") else { return };
    let path = place.at("roots/x");
    let shown = path.display();
    for words in [
        format!("sim hip --out {shown}"),
        format!("report --only costs --from {} --out {shown}", place.at("theirs").display()),
        format!("report --quick --only costs --run {shown} --out {}", place.at("theirs/r").display()),
    ] {
        let said = refused(&mut by_sudo(&words));
        assert!(said.contains("Permission denied"), "{words}: {said}");
    }
    assert_eq!(fs::read_dir(place.at("roots")).unwrap().count(), 0);
}

/// Each flag and argument that names a file to be read.
fn readers(path: &Path) -> Vec<String> {
    let shown = path.display();
    vec![format!("sim hip --trace {shown}"), format!("sim merge {shown}")]
}

#[test]
fn files_that_the_caller_may_not_read_stay_unread() {
    let Some(place) = Place::new("read") else { return };
    let secret = place.file("theirs/secret", SECRET, 0, 0o600);
    for words in readers(&secret) {
        let said = refused(&mut by_sudo(&words));
        assert!(said.contains("Permission denied") && !said.contains("hunter"), "{words}: {said}");
    }
    // Nor behind a link, nor in a directory that is closed to them.
    symlink(&secret, place.at("theirs/link")).unwrap();
    fs::create_dir(place.at("roots/closed")).unwrap();
    place.file("roots/closed/open", SECRET, 0, 0o644);
    fs::set_permissions(place.at("roots/closed"), fs::Permissions::from_mode(0o700)).unwrap();
    for path in ["theirs/link", "roots/closed/open"] {
        let said = refused(&mut by_sudo(&format!("sim merge {}", place.at(path).display())));
        assert!(said.contains("Permission denied") && !said.contains("hunter"), "{path}: {said}");
    }
    // A directory of saved runs, whose files are read one by one.
    fs::rename(&secret, place.at("theirs/doctor.json")).unwrap();
    let (from, out) = (place.at("theirs"), place.at("theirs/r.html"));
    let report = format!("report --only costs --from {} --out {}", from.display(), out.display());
    let output = by_sudo(&report).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let page = fs::read_to_string(&out).unwrap();
    assert!(page.contains("Permission denied") && !page.contains("hunter"), "{page}");
    assert_eq!(owner_and_mode(&out), (CALLER, CALLER, 0o600));
}

#[test]
fn messages_quote_no_file_while_the_process_may_do_more() {
    let Some(place) = Place::new("quote") else { return };
    let open = place.file("theirs/open", SECRET, CALLER, 0o644);
    for words in readers(&open) {
        let said = refused(&mut by_sudo(&words));
        assert!(said.contains(" 1:") || said.contains(":1:"), "it says in which line: {said}");
        assert!(!said.contains("hunter"), "{words}: {said}");
    }
}

#[test]
fn who_called_sudo_is_known_or_nothing_is_opened() {
    let Some(place) = Place::new("sudo") else { return };
    let path = place.file("theirs/part", "sweep,point,row,x\nab,1/1,1/1,5\n", CALLER, 0o600);
    let words = format!("sim merge {}", path.display());
    for (name, value) in
        [("SUDO_UID", "root"), ("SUDO_UID", ""), ("SUDO_GID", "x"), ("SUDO_UID", "4294967295")]
    {
        let said = refused(by_sudo(&words).env(name, value));
        assert!(said.contains(&format!("{name} is no number")), "{said}");
    }
    assert_eq!(by_sudo(&words).output().unwrap().status.code(), Some(0));
}

/// The command where everybody may start it; tests run it as somebody else.
fn for_everybody(place: &Place) -> PathBuf {
    let path = place.at("softtimers");
    fs::copy(common::PROGRAM, &path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn neither_variables_nor_capabilities_open_more() {
    let Some(place) = Place::new("more") else { return };
    let binary = for_everybody(&place);
    let secret = place.file("theirs/secret", SECRET, 0, 0o600);
    let own = place.file("theirs/own", "sweep,point,row,x\nab,1/1,1/1,5\n", CALLER, 0o600);
    let become_caller = ["--reuid", "12345", "--regid", "12345", "--clear-groups"];
    let capable = ["--inh-caps", "+dac_override,+net_raw", "--ambient-caps", "+dac_override,+net_raw"];
    for flags in [&become_caller[..], &[&become_caller[..], &capable].concat()] {
        let merge = |path: &Path| {
            let mut command = Command::new("setpriv");
            command.args(flags).arg(&binary).args(["sim", "merge"]).arg(path);
            command.env("SUDO_UID", "0").env("SUDO_GID", "0").output()
        };
        match merge(&own) {
            Ok(output) if output.status.code() == Some(0) => {}
            Ok(output) if !stderr(&output).contains("setpriv") => panic!("{output:?}"),
            other => return skipped(&format!("setpriv: {other:?}")),
        }
        let said = refusal(&merge(&secret).unwrap(), 2);
        assert!(said.contains("Permission denied") && !said.contains("hunter"), "{flags:?}: {said}");
    }
}

/// Sources that open a path by themselves: readers of the kernel's own files.
const OPEN_BY_THEMSELVES: [&str; 2] =
    ["cli/src/commands/noise/account.rs", "cli/src/commands/noise/rates/power.rs"];

/// A path that is opened otherwise than as the caller would be opened by root.
#[test]
fn no_source_opens_a_path_with_other_rights() {
    const WAYS: [&str; 14] = [
        "File::open(",
        "File::create(",
        "OpenOptions::new(",
        "Listener::bind(path",
        "Datagram::bind(path",
        "fs::read",
        "fs::write(",
        "fs::metadata(",
        "fs::symlink_metadata(",
        "fs::canonicalize(",
        "fs::create_dir",
        "fs::remove_",
        "fs::rename(",
        "fs::copy(",
    ];
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let all = ["cli/src"].map(|sources| crates.join(sources));
    let (mut left, mut read) = (all.into_iter().filter(|sources| sources.exists()).collect::<Vec<_>>(), 0);
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
                continue;
            }
            let name = path.strip_prefix(crates).unwrap().to_str().unwrap();
            let is_test = name.ends_with("tests.rs") || name.ends_with("/snapshot.rs");
            if is_test || OPEN_BY_THEMSELVES.contains(&name) {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            let text = text.replace("OutputFile::create(", "").replace("RuleFile::open(", "");
            for (line, number) in text.lines().zip(1..) {
                let is_code = !line.trim_start().starts_with("//") && !line.trim_start().starts_with("use ");
                let opens = is_code && WAYS.iter().any(|way| line.contains(way));
                let allowed =
                    line.contains("as_caller(") || line.contains("/proc/") || line.contains("unix::fs::");
                assert!(!opens || allowed, "{name}:{number}: {line}");
            }
            read += 1;
        }
    }
    assert!(read > 40, "{read} sources");
}
