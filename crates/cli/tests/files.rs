//! Whatever path somebody names, it is opened with their rights: by root for the caller of sudo, and by a program that was
//! given capabilities for who started it. What is written is theirs alone.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use common::{command, refusal, skipped, stderr};

/// The user who calls sudo in these tests.
const CALLER: u32 = 12_345;
/// The content of files that are not theirs, which is no rule, program, recording or part of a sweep.
const SECRET: &str = "hunter2 hunter3,hunter4\nhunter5\n";

/// A directory that everybody may look into: `theirs/` is the caller's, `roots/` is root's.
struct TestDirectory(PathBuf);

impl TestDirectory {
    /// None where nobody has more rights than who calls them.
    fn new(test: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skipped("only root has more rights than who calls sudo");
            return None;
        }
        let place = TestDirectory(
            std::env::temp_dir().join(format!("softtimers-files-{}-{test}", std::process::id())),
        );
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

impl Drop for TestDirectory {
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

/// The output of a capture of nothing much; `None` where no interface can be opened.
fn captured(command: &mut Command) -> Option<Output> {
    let output = command.output().unwrap();
    if output.status.code() == Some(77) {
        skipped(&stderr(&output));
        return None;
    }
    Some(output)
}

fn owner_and_mode(path: &Path) -> (u32, u32, u32) {
    let found = fs::symlink_metadata(path).unwrap();
    (found.uid(), found.gid(), found.mode() & 0o7777)
}

fn capture(path: &Path, flags: &str) -> String {
    format!("capture lo -w {} --duration 50ms {flags}", path.display())
}

#[test]
fn a_capture_is_its_users_alone() {
    let Some(place) = TestDirectory::new("own") else { return };
    let path = place.at("theirs/t.pcapng");
    let Some(output) = captured(&mut by_sudo(&capture(&path, ""))) else { return };
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(owner_and_mode(&path), (CALLER, CALLER, 0o600));
    // One that all could read is no longer read by all.
    let old = place.file("theirs/old.pcapng", "old", CALLER, 0o644);
    assert_eq!(by_sudo(&capture(&old, "--force")).output().unwrap().status.code(), Some(0));
    assert_eq!(owner_and_mode(&old), (CALLER, CALLER, 0o600));
    // Root's own login makes root's own file.
    let roots = place.at("roots/t.pcapng");
    let mut plain = command(&capture(&roots, ""));
    plain.env_remove("SUDO_UID").env_remove("SUDO_GID");
    assert_eq!(plain.output().unwrap().status.code(), Some(0));
    assert_eq!(owner_and_mode(&roots), (0, 0, 0o600));
}

#[test]
fn nothing_is_made_where_the_caller_may_not() {
    let Some(place) = TestDirectory::new("made") else { return };
    let path = place.at("roots/x");
    let Some(output) = captured(&mut by_sudo(&capture(&path, ""))) else { return };
    assert!(refusal(&output, 2).contains("Permission denied"), "{output:?}");
    let relay = "wan --listen 127.0.0.1:0 --to 127.0.0.1:9 --duration 1ms --control";
    let said = refused(&mut by_sudo(&format!("{relay} {}", path.display())));
    assert!(said.contains("Permission denied"), "{said}");
    assert_eq!(fs::read_dir(place.at("roots")).unwrap().count(), 0);
}

#[test]
fn force_touches_nothing_of_somebody_else() {
    let Some(place) = TestDirectory::new("force") else { return };
    for (name, mode, why) in [
        ("theirs/closed", 0o644, "Permission denied"),
        // They may write it; root could read what they capture.
        ("theirs/open", 0o666, "belongs to user 0, who could read it; remove it first"),
    ] {
        let path = place.file(name, SECRET, 0, mode);
        let Some(output) = captured(&mut by_sudo(&capture(&path, "--force"))) else { return };
        assert!(refusal(&output, 2).contains(why), "{output:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), SECRET);
        assert_eq!(owner_and_mode(&path), (0, 0, mode));
    }
}

#[test]
fn a_link_is_not_followed_to_a_file() {
    let Some(place) = TestDirectory::new("link") else { return };
    let target = place.file("theirs/target", SECRET, CALLER, 0o644);
    let link = place.at("theirs/link");
    symlink(&target, &link).unwrap();
    for force in ["", "--force"] {
        let Some(output) = captured(&mut by_sudo(&capture(&link, force))) else { return };
        assert!(refusal(&output, 2).contains("is a symbolic link; give the path it leads to"), "{output:?}");
    }
    assert_eq!(fs::read_to_string(&target).unwrap(), SECRET);
}

/// Each flag and argument that names a file to be read.
fn readers(path: &Path) -> Vec<String> {
    let shown = path.display();
    let relay = "--listen 127.0.0.1:0 --to 127.0.0.1:9 --duration 1ms";
    vec![
        format!("forward --udp 127.0.0.1:0 --to 127.0.0.1:9 --duration 1ms --rules {shown}"),
        format!("capture lo -w /dev/null --force --duration 1ms --filter-code {shown}"),
        format!("replay {shown} 127.0.0.1:9"),
        format!("wan {relay} --trace {shown}"),
        format!("wan {relay} --up-trace {shown}"),
    ]
}

#[test]
fn files_that_the_caller_may_not_read_stay_unread() {
    let Some(place) = TestDirectory::new("read") else { return };
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
        let said = refused(&mut by_sudo(&format!("replay {} 127.0.0.1:9", place.at(path).display())));
        assert!(said.contains("Permission denied") && !said.contains("hunter"), "{path}: {said}");
    }
}

#[test]
fn messages_quote_no_file_while_the_process_may_do_more() {
    let Some(place) = TestDirectory::new("quote") else { return };
    let open = place.file("theirs/open", SECRET, CALLER, 0o644);
    for words in readers(&open) {
        let said = refused(&mut by_sudo(&words));
        assert!(said.contains(" 1:") || said.contains(":1:"), "it says in which line: {said}");
        assert!(!said.contains("hunter"), "{words}: {said}");
    }
    let falling = place.file("theirs/falling", "77123\n77122\n", CALLER, 0o644);
    let words = format!("wan --listen 127.0.0.1:0 --to 127.0.0.1:9 --trace {}", falling.display());
    let said = refused(&mut by_sudo(&words));
    assert!(said.contains("line 2: each is a whole number") && !said.contains("7712"), "{said}");
    // Who has no more rights than they themselves is shown what is wrong.
    let said = refused(command(&words).env_remove("SUDO_UID"));
    assert!(said.contains("line 2: 77122 comes after 77123"), "{said}");
}

#[test]
fn changed_rules_are_read_with_the_same_rights() {
    let Some(place) = TestDirectory::new("reload") else { return };
    let rules = place.file("theirs/rules", "accept\n", CALLER, 0o600);
    place.file("theirs/secret", SECRET, 0, 0o600);
    let words =
        format!("forward --udp 127.0.0.1:0 --to 127.0.0.1:9 --duration 30s --rules {}", rules.display());
    let mut child = by_sudo(&words).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().starts_with("listening on "));
    fs::remove_file(&rules).unwrap();
    symlink("secret", &rules).unwrap();
    let said = lines.find(|line| line.contains("the old rules stay")).unwrap();
    assert!(said.contains("Permission denied") && !said.contains("hunter"), "{said}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn files_of_rotation_have_one_owner() {
    let Some(place) = TestDirectory::new("rotate") else { return };
    let rotated = |name: &str, flags: &str| capture(&place.at(name), &format!("--rotate 1MiB {flags}"));
    let Some(output) = captured(&mut by_sudo(&rotated("theirs/t.pcapng", ""))) else { return };
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(owner_and_mode(&place.at("theirs/t-00001.pcapng")), (CALLER, CALLER, 0o600));
    // What comes after the first would be somebody else's.
    let said = refused(&mut by_sudo(&rotated("theirs/u.pcapng", "--user 65534")));
    assert!(said.contains("--rotate: files are opened with the rights of user 12345"), "{said}");
    let mut plain = command(&rotated("roots/t.pcapng", ""));
    let said = refused(plain.env_remove("SUDO_UID"));
    assert!(said.contains("--rotate: user 65534, who makes the files, may not write in"), "{said}");
    assert_eq!(fs::read_dir(place.at("roots")).unwrap().count(), 0);
}

#[test]
fn who_called_sudo_is_known_or_nothing_is_opened() {
    let Some(place) = TestDirectory::new("sudo") else { return };
    let path = place.file("theirs/part", "t_us,len\n0,100\n", CALLER, 0o600);
    let words = format!("replay {} 127.0.0.1:9 --no-handshake", path.display());
    for (name, value) in
        [("SUDO_UID", "root"), ("SUDO_UID", ""), ("SUDO_GID", "x"), ("SUDO_UID", "4294967295")]
    {
        let said = refused(by_sudo(&words).env(name, value));
        assert!(said.contains(&format!("{name} is no number")), "{said}");
    }
    assert_eq!(by_sudo(&words).output().unwrap().status.code(), Some(0));
}

/// The command where everybody may start it; tests run it as somebody else.
fn for_everybody(place: &TestDirectory) -> PathBuf {
    let path = place.at("softtimers");
    fs::copy(common::PROGRAM, &path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn neither_variables_nor_capabilities_open_more() {
    let Some(place) = TestDirectory::new("more") else { return };
    let binary = for_everybody(&place);
    let secret = place.file("theirs/secret", SECRET, 0, 0o600);
    let own = place.file("theirs/own", "t_us,len\n0,100\n", CALLER, 0o600);
    let become_caller = ["--reuid", "12345", "--regid", "12345", "--clear-groups"];
    let capable = ["--inh-caps", "+dac_override,+net_raw", "--ambient-caps", "+dac_override,+net_raw"];
    for flags in [&become_caller[..], &[&become_caller[..], &capable].concat()] {
        let replay = |path: &Path| {
            let mut command = Command::new("setpriv");
            command.args(flags).arg(&binary).arg("replay").arg(path).args(["127.0.0.1:9", "--no-handshake"]);
            command.env("SUDO_UID", "0").env("SUDO_GID", "0").output()
        };
        match replay(&own) {
            Ok(output) if output.status.code() == Some(0) => {}
            Ok(output) if !stderr(&output).contains("setpriv") => panic!("{output:?}"),
            other => return skipped(&format!("setpriv: {other:?}")),
        }
        let said = refusal(&replay(&secret).unwrap(), 2);
        assert!(said.contains("Permission denied") && !said.contains("hunter"), "{flags:?}: {said}");
    }
}

#[test]
fn the_callers_other_groups_count() {
    let Some(place) = TestDirectory::new("groups") else { return };
    let shared = place.at("shared");
    fs::create_dir(&shared).unwrap();
    chown(&shared, Some(0), Some(54_321)).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o770)).unwrap();
    // In a mount namespace the caller has a name, and a group more.
    fs::write(place.at("passwd"), "root:x:0:0::/:/bin/sh\ncaller:x:12345:12345::/:/bin/sh\n").unwrap();
    fs::write(place.at("group"), "root:x:0:\ncaller:x:12345:\nteam:x:54321:caller\n").unwrap();
    let shown = place.0.display();
    let mounts = format!("mount --bind {shown}/passwd /etc/passwd && mount --bind {shown}/group /etc/group");
    let in_it = |then: &str| {
        let script = format!("{mounts} && {then}");
        Command::new("unshare")
            .args(["-m", "sh", "-c", &script])
            .env("SUDO_UID", CALLER.to_string())
            .env("SUDO_GID", CALLER.to_string())
            .output()
    };
    match in_it("true") {
        Ok(output) if output.status.success() => {}
        other => return skipped(&format!("no mount namespace: {other:?}")),
    }
    let path = shared.join("t.pcapng");
    let binary = common::PROGRAM;
    for (flags, made) in [("", "t.pcapng"), ("--rotate 1MiB", "t-00001.pcapng")] {
        let output = in_it(&format!("{binary} {}", capture(&path, flags))).unwrap();
        if output.status.code() == Some(77) {
            return skipped(&stderr(&output));
        }
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(owner_and_mode(&shared.join(made)), (CALLER, CALLER, 0o600));
    }
    // Where the caller may not make the files, --user is no way out.
    let roots = capture(&place.at("roots/t.pcapng"), "--rotate 1MiB");
    let said = refusal(&in_it(&format!("{binary} {roots}")).unwrap(), 2);
    assert!(
        said.contains("user 12345, who makes the files, may not write in") && !said.contains("--user"),
        "{said}"
    );
}

/// Sources that open a path by themselves: those that take rights on, readers and makers of the kernel's own files, and processes that
/// have begun in a user namespace of the caller's, whose rights end there.
const OPEN_BY_THEMSELVES: [&str; 11] = [
    "run/src/file.rs",
    "run/src/privileges/user.rs",
    "cli/src/commands/doctor/receive/counters.rs",
    "cli/src/commands/wan/inside/roles.rs",
    "cli/src/commands/pace/group.rs",
    "cli/src/commands/pace/guard.rs",
    "measure/src/class.rs",
    "measure/src/interrupt.rs",
    "measure/src/machine.rs",
    "measure/src/ticks.rs",
    "measure/src/usage.rs",
];

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
    let all = ["cli/src", "load/src", "measure/src", "run/src"].map(|sources| crates.join(sources));
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
    assert!(read > 100, "{read} sources");
}

#[test]
fn the_control_socket_is_its_users_alone() {
    let Some(place) = TestDirectory::new("control") else { return };
    let path = place.at("theirs/wan.sock");
    let words =
        format!("wan --listen 127.0.0.1:0 --to 127.0.0.1:9 --duration 30s --control {}", path.display());
    let mut child = by_sudo(&words).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("listening on "), "{line}");
    let found = owner_and_mode(&path);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(found, (CALLER, CALLER, 0o600));
}
