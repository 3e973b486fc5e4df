//! The place where a snippet runs: a directory, and namespaces with the interfaces and addresses that pages name.
//!
//! ```text
//!   snippet:  lo, eth0 192.0.2.1, eth1, eth2, veth0 10.0.0.1, veth-a, veth-b      as far as it names them
//!                      ║               ║     ║                  ║       ║
//!   other:         192.0.2.7                10.0.0.2
//! ```
//!
//! Nothing but the directory can be written, and nothing outlives the snippet: its processes have a namespace, too.

use std::fs::{self, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, geteuid, pidfd_open};

use crate::call::{CALLS, tools};
use crate::files::Files;

/// Makes the namespace's own view of the system, its interfaces, and a receiver where a line sends to one that the page has
/// started elsewhere; then becomes the snippet.
const LAY: &str = r#"
set -e
mount --bind "$PLACE" "$PLACE"
mount -o remount,bind,ro /
mount -t tmpfs tmpfs /run
if grep --quiet /sys/class/net "$PLACE/snippet"; then mount -t sysfs sysfs /sys; fi
ip link set lo up
ip netns add other
for name in $INTERFACES; do
  queues='numtxqueues 2 numrxqueues 2'
  ip link add "$name" $queues type veth peer name "$name" $queues netns other
  ip link set "$name" up
  ip -n other link set "$name" up
  # So it takes frames that a program made.
  SOFTTIMERS_TAKES_FRAMES=$name ip netns exec other "$TEST"
  case $name in
    eth0) ip addr add 192.0.2.1/24 dev eth0; ip -n other addr add 192.0.2.7/24 dev eth0 ;;
    veth0) ip addr add 10.0.0.1/24 dev veth0; ip -n other addr add 10.0.0.2/24 dev veth0 ;;
  esac
done
receive() {
  "${@:2}" "$PROGRAM" recv "$1" --any >"$PLACE/receiver" 2>&1 &
  until grep -q listening "$PLACE/receiver"; do kill -0 $!; sleep 0.02; done
}
case $SENDS_TO in
  '') ;;
  127.*) receive "$SENDS_TO" ;;
  *) receive "$SENDS_TO" ip netns exec other ;;
esac
cd "$PLACE/here"
exec bash --norc --noprofile "$PLACE/snippet"
"#;

/// Does nothing, as after a `sudo` by the user who owns the directory.
const SUDO: &str = "#!/bin/sh\n[ -z \"$CALLER\" ] || export SUDO_UID=$CALLER SUDO_GID=$CALLER\nexec \"$@\"\n";

/// `cargo run -- WORDS` is the command that the project is about.
const CARGO: &str = "#!/bin/bash\n[[ $1 == run ]] || exit 101\nwhile [[ $1 != -- ]]; do shift; done\nexec softtimers \"${@:2}\"\n";

/// A client measures for a second.
const IPERF3: &str = "#!/bin/sh\nPATH=${PATH#*\"$PLACE/bin:\"}\n\
                      case \" $* \" in *\" -c \"*) set -- \"$@\" -t 1 ;; esac\nexec iperf3 \"$@\"\n";

/// Programs that a machine may lack, and others that do the same there, as the pages say.
const STAND_INS: &[(&str, &str, &str)] = &[
    // -w 1 -U PATH
    ("nc", "socat", "#!/bin/sh\nexec socat -t 1 - \"UNIX-CONNECT:$4\"\n"),
    // -r -
    ("tshark", "tcpdump", "#!/bin/sh\nexec tcpdump \"$@\"\n"),
];

/// A user who calls `sudo`; nobody else is this one.
const CALLER: u32 = 210_000;

/// Longer than any snippet takes beside other work.
const PATIENCE: Duration = Duration::from_secs(150);

/// A directory, gone with it.
#[derive(Debug)]
pub(crate) struct Place(PathBuf);

/// What a snippet's shell has printed and said.
#[derive(Debug)]
pub(crate) struct Printed {
    pub(crate) ended: bool,
    pub(crate) text: String,
}

impl Place {
    /// Lays a directory of this name with the files that the text needs.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn laid(name: &str, files: &Files, text: &str) -> io::Result<Self> {
        // It becomes part of PATH.
        let name = name.replace(|character: char| !character.is_alphanumeric(), "-");
        let place = Place(std::env::temp_dir().join(format!("softtimers-{}-{name}", std::process::id())));
        for folder in ["here", "bin", "calls"] {
            fs::create_dir_all(place.0.join(folder))?;
        }
        let here = place.0.join("here");
        files.lay(&here, Some(text))?;
        fs::create_dir(place.0.join("tmp"))?;
        fs::set_permissions(place.0.join("tmp"), Permissions::from_mode(0o1777))?;
        if geteuid().is_root() && text.contains("sudo ") {
            for entry in fs::read_dir(&here)?.chain(fs::read_dir(&place.0)?) {
                let path = entry?.path();
                if path == here || (path.starts_with(&here) && !path.is_symlink()) {
                    chown(&path, Some(CALLER), Some(CALLER))?;
                }
            }
        }
        let mut scripts = vec![("sudo", SUDO), ("cargo", CARGO), ("iperf3", IPERF3)];
        let missing = STAND_INS.iter().map(|&(program, ..)| program).filter(|program| !has(program));
        scripts.extend(missing.filter_map(|program| Some((program, stand_in(program)?))));
        for (program, script) in scripts {
            let path = place.0.join("bin").join(program);
            fs::write(&path, script)?;
            fs::set_permissions(path, Permissions::from_mode(0o755))?;
        }
        symlink(std::env::current_exe()?, place.0.join("bin/softtimers"))?;
        Ok(place)
    }

    pub(crate) fn calls(&self) -> PathBuf {
        self.0.join("calls")
    }

    /// Runs a script, and returns what it printed.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn run(&self, script: &str, needs: &Needs) -> io::Result<Printed> {
        fs::write(self.0.join("snippet"), script)?;
        // Not a file: what goes into one is read by a later line.
        let (mut reader, writer) = io::pipe()?;
        let mut command = Command::new("setsid");
        command.args(["--wait", "unshare"]).args(NAMESPACES);
        if !geteuid().is_root() {
            command.arg("--map-root-user");
        }
        command.args(["bash", "--norc", "--noprofile", "-c", LAY]).stdin(Stdio::null());
        command.stdout(writer.try_clone()?).stderr(writer);
        let path = std::env::var("PATH").unwrap_or_default();
        let caller = if geteuid().is_root() { CALLER.to_string() } else { String::new() };
        command
            .env("PATH", format!("{}/bin:{path}", self.0.display()))
            .env("PLACE", &self.0)
            .env("HOME", self.0.join("here"))
            .env("TMPDIR", self.0.join("tmp"))
            .env("TEST", std::env::current_exe()?)
            .env("PROGRAM", tools())
            .env("CALLER", caller)
            .env(CALLS, self.calls())
            .env("INTERFACES", needs.interfaces.join(" "))
            .env("SENDS_TO", needs.sends_to.as_deref().unwrap_or_default())
            .env_remove("SUDO_UID")
            .env_remove("SUDO_GID")
            .env("LC_ALL", "C.UTF-8");
        let mut child = command.spawn()?;
        drop(command);
        let printed = thread::spawn(move || {
            let mut printed = vec![];
            reader.read_to_end(&mut printed).map(|_| printed)
        });
        let process = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
        let time = Timespec::try_from(PATIENCE).map_err(io::Error::other)?;
        let ended = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&time))? > 0;
        if !ended {
            // Its namespace of processes goes with it.
            child.kill()?;
        }
        child.wait()?;
        let printed = printed.join().map_err(|_| io::Error::other("the reader panicked"))??;
        Ok(Printed { ended, text: String::from_utf8_lossy(&printed).into_owned() })
    }

    /// Says whether the script made this file beside its directory.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.join(name).exists()
    }

    /// Returns the text of a file that the script wrote there.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap_or_default()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const NAMESPACES: [&str; 6] = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];

/// The interfaces that are laid if a text names them.
const INTERFACES: [&str; 6] = ["eth0", "eth1", "eth2", "veth0", "veth-a", "veth-b"];

/// What a snippet needs that others lay.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    interfaces: Vec<&'static str>,
    /// The address of a receiver that is not in the snippet.
    sends_to: Option<String>,
}

impl Needs {
    /// Reads them from a snippet.
    pub(crate) fn of(text: &str) -> Self {
        let is_named = |name: &str| {
            text.contains(name)
                || (name == "eth0" && text.contains("192.0.2.7"))
                || (name.starts_with("veth-") && text.contains("proxies.json"))
        };
        let mut words = text.split_whitespace();
        let to = |word: &str| word.ends_with(":9000") && !text.contains(&format!("recv {word}"));
        Needs {
            interfaces: INTERFACES.into_iter().filter(|name| is_named(name)).collect(),
            sends_to: words.find(|word| to(word)).map(str::to_owned),
        }
    }
}

/// Says why a place cannot be had, if it cannot.
pub(crate) fn lacks(files: &Files) -> Option<String> {
    let tried = || -> io::Result<Option<String>> {
        let place = Place::laid("trial", files, "")?;
        let needs = Needs { interfaces: vec!["eth0"], sends_to: None };
        let printed = place.run("touch ../laid", &needs)?;
        Ok((!place.has("laid")).then(|| printed.text.trim().replace('\n', "; ")))
    };
    tried().unwrap_or_else(|error| Some(error.to_string()))
}

/// Returns the script that does here what a program does.
pub(crate) fn stand_in(program: &str) -> Option<&'static str> {
    let found = STAND_INS.iter().find(|(missing, other, _)| *missing == program && has(other));
    found.map(|&(.., script)| script)
}

/// Says whether there is a program of this name.
pub(crate) fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| Path::new(&folder).join(program).is_file())
}
