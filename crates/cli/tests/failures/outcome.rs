//! One run of a command among faults, and whether it ended as it should: with one of the four exit codes, a line that names
//! the cause, and nothing half written.

use std::fs::{self, File};
use std::io::{self, PipeWriter};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};
use serde_json::Value;

use crate::commands::{Line, Place};
use crate::fault::{Fault, NOT_STARTED, VARIABLE};

/// The faults of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) faults: Vec<Fault>,
    pub(crate) stdout: Out,
    /// A shell's words before the program is started, where `DIR` is its directory and `KEPT` a copy of it as it was. Takes root.
    pub(crate) prepared: Option<String>,
    /// The signal that it is sent after this time.
    pub(crate) hangs_up: Option<Duration>,
    /// Words of which a line that names the cause has one.
    pub(crate) causes: Vec<String>,
}

/// The fate of its output.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Out {
    #[default]
    Kept,
    Closed,
    ReaderLeft,
    HungUp,
    Full,
}

impl Case {
    pub(crate) fn of(name: impl Into<String>, faults: impl Into<Vec<Fault>>) -> Self {
        let faults = faults.into();
        let causes = faults.iter().flat_map(Fault::causes).collect();
        Case { name: name.into(), faults, causes, ..Case::default() }
    }
}

/// The end of a run, as far as the table of results is concerned.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum End {
    Code(i32),
    /// By the signal that it was sent.
    Signal,
    /// The loader said that there is no descriptor left for it.
    NeverBegan,
}

/// The place where commands find what they need.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) program: PathBuf,
    pub(crate) directory: PathBuf,
    /// The addresses that stand for these words of a line.
    pub(crate) addresses: Vec<(&'static str, String)>,
    pub(crate) is_root: bool,
}

/// Longer than any run takes, on a machine that others use, too, and than any wait that a command bounds.
const PATIENCE: Duration = Duration::from_secs(200);

impl Bench {
    /// Runs the line, and returns its end.
    ///
    /// # Errors
    /// In which way it ended as it should not.
    pub(crate) fn tried(&self, line: &Line, case: &Case, number: usize) -> Result<End, String> {
        let directory = self.directory.join(number.to_string());
        let tried =
            self.run(line, case, &directory).unwrap_or_else(|error| Err(format!("this test: {error}")));
        let _ = fs::remove_dir_all(&directory);
        tried.map_err(|why| format!("{} with {}: {why}", line.words, case.name))
    }

    fn run(&self, line: &Line, case: &Case, directory: &Path) -> io::Result<Result<End, String>> {
        let inside = directory.join("inside");
        fs::create_dir_all(&inside)?;
        for path in [directory, &inside] {
            fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o777))?;
        }
        fs::write(inside.join("recording.csv"), "t_us,len\n0,100\n20000,100\n")?;
        fs::write(inside.join("rules"), "length 0-3 reject\naccept\n")?;
        let fifo = inside.join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o666.into(), 0)?;
        // Open at both ends, so that whoever writes has a reader.
        let _reader = File::options().read(true).write(true).open(&fifo)?;
        let said = directory.join("stderr");
        let stdout = directory.join("stdout");
        let mut command = self.command(line, case, &inside)?;
        command.stdin(Stdio::null()).stderr(File::create(&said)?).process_group(0);
        let _kept = case.stdout.give(&mut command, &stdout)?;
        let mut child = command.spawn()?;
        drop(command);
        if let Some(after) = case.hangs_up {
            let _ = ends_within(&child, after)?;
            kill_process(Pid::from_child(&child), Signal::HUP)?;
        }
        let ended = ends_within(&child, PATIENCE)?;
        let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
        let status = child.wait()?;
        let said = String::from_utf8_lossy(&fs::read(&said)?).into_owned();
        if !ended {
            return Ok(Err(format!("it goes on after {PATIENCE:?}: {said}")));
        }
        let read = |name: &str| fs::read(directory.join(name)).unwrap_or_default();
        Ok(judge(line, case, status, &said, &read("stdout")).and_then(|end| {
            whole(&inside).map_err(|why| format!("{end:?}, {why}: {said}"))?;
            Ok(end)
        }))
    }

    fn command(&self, line: &Line, case: &Case, inside: &Path) -> io::Result<Command> {
        let this = std::env::current_exe()?;
        let mut scripts = Vec::new();
        let mut command = if line.place == Place::Network || case.prepared.is_some() {
            if line.place == Place::Network {
                scripts.push(CABLES);
            }
            let mut command = Command::new("unshare");
            command.arg("--mount").args((line.place == Place::Network).then_some("--net"));
            command
        } else {
            Command::new("env")
        };
        scripts.extend(case.prepared.as_ref().map(|_| "cp -r DIR KEPT"));
        scripts.extend(case.prepared.as_deref());
        scripts.push(match case.stdout {
            Out::Closed => "exec \"$@\" >&-",
            // What is on another disk is gone with its mount: it is brought here. What cannot be laid out is no run.
            _ if case.prepared.as_ref().is_some_and(|script| script.contains("tmpfs")) => {
                "{ \"$@\"; code=$?; rm -rf KEPT DIR/fifo && cp -r DIR KEPT && umount -l DIR && cp -r KEPT/. DIR && exit $code; }"
            }
            _ => "exec \"$@\"",
        });
        let directory = inside.display().to_string();
        let kept = format!("{directory}-kept");
        let script = scripts.join(" && ").replace("DIR", &directory).replace("KEPT", &kept);
        let script = format!("{script} || exit {NOT_STARTED}");
        command.args(["sh", "-c", &script, "sh"]).arg(this).arg(&self.program);
        for word in line.words.split(' ') {
            let known = self.addresses.iter().find(|(name, _)| *name == word);
            command
                .arg(known.map_or_else(|| word.replace("DIR", &directory), |(_, address)| address.clone()));
        }
        command.env(VARIABLE, serde_json::to_string(&case.faults)?);
        // What the run says is the same everywhere.
        command.env_remove("SUDO_UID").env_remove("SUDO_GID").env("LC_ALL", "C");
        Ok(command)
    }
}

/// Two cables, whose ends `wa` and `wb` a forwarder takes; the other end of the first takes frames of programs.
const CABLES: &str = "ip link set lo up && ip link add wa type veth peer name pa && ip link add wb type veth peer name pb \
    && for end in wa pa wb pb; do ip link set $end up || exit 99; done && SOFTTIMERS_TAKES_FRAMES=pa \"$1\"";

/// Keeps an output as it is while the program runs.
enum Held {
    Nothing,
    Pipe { _writer: PipeWriter },
}

impl Out {
    fn give(self, command: &mut Command, kept: &Path) -> io::Result<Held> {
        match self {
            Out::Kept | Out::Closed => drop(command.stdout(File::create(kept)?)),
            Out::Full => drop(command.stdout(File::options().write(true).open("/dev/full")?)),
            Out::ReaderLeft => {
                let (reader, writer) = io::pipe()?;
                drop(reader);
                command.stdout(writer.try_clone()?);
                return Ok(Held::Pipe { _writer: writer });
            }
            Out::HungUp => {
                use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
                let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
                let terminal = openpt(flags)?;
                grantpt(&terminal)?;
                unlockpt(&terminal)?;
                let name = ptsname(&terminal, Vec::new())?;
                let end = rustix::fs::open(
                    &*name,
                    rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY,
                    0.into(),
                )?;
                command.stdout(end);
            }
        }
        Ok(Held::Nothing)
    }
}

/// Says whether it ends in time.
fn ends_within(child: &Child, time: Duration) -> io::Result<bool> {
    let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let time = Timespec::try_from(time).map_err(io::Error::other)?;
    Ok(poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&time))? > 0)
}

/// Checks that it answered and said what it should.
fn judge(line: &Line, case: &Case, status: ExitStatus, said: &str, stdout: &[u8]) -> Result<End, String> {
    let wrong = |why: &str| Err(format!("{why} ({status}): {said}"));
    if said.contains("panicked at") {
        return wrong("it panicked");
    }
    if case.hangs_up.is_some() && status.signal() == Some(Signal::HUP.as_raw()) {
        return Ok(End::Signal);
    }
    let code = match status.code() {
        Some(code @ (0 | 1 | 2 | 77)) => code,
        // 128 + SIGHUP: it came twice, or before the command could say what there is.
        Some(129) if case.hangs_up.is_some() => return Ok(End::Signal),
        Some(127) if said.contains("error while loading shared libraries") => return Ok(End::NeverBegan),
        Some(code) if code == i32::from(NOT_STARTED) => return wrong("this test could not start it"),
        _ => return wrong("no exit code of the program's"),
    };
    if code != 0 {
        // A child of the command's is the command, too, and may say it first.
        let mut lines = said.lines().filter(|line| line.starts_with("softtimers: "));
        if lines.clone().next().is_none() {
            return wrong("no line that says why");
        }
        if !case.causes.is_empty() && !lines.any(|line| case.causes.iter().any(|cause| line.contains(cause)))
        {
            return wrong("the line does not name the cause");
        }
    }
    let text = String::from_utf8_lossy(stdout);
    if code == 0 && text.is_empty() && case.stdout == Out::Kept && case.hangs_up.is_none() {
        return wrong("it said nothing");
    }
    if line.words.contains("--json-stream") {
        if text.lines().any(|line| serde_json::from_str::<Value>(line).is_err()) || !ends_whole(&text) {
            return wrong("a line of stdout is cut off");
        }
    } else if line.words.contains("--json")
        && !text.is_empty()
        && serde_json::from_str::<Value>(&text).is_err()
    {
        return wrong("stdout is cut off");
    }
    Ok(End::Code(code))
}

fn ends_whole(text: &str) -> bool {
    text.is_empty() || text.ends_with('\n')
}

/// Checks that each file that was written is whole.
fn whole(directory: &Path) -> Result<(), String> {
    for entry in fs::read_dir(directory).map_err(|error| error.to_string())?.flatten() {
        let path = entry.path();
        let kind = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        if !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        let bytes = fs::read(&path).map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&bytes);
        let is_whole = match kind {
            "html" => text.trim_end().ends_with("</html>"),
            "json" => serde_json::from_str::<Value>(&text).is_ok(),
            "csv" | "md" => !text.is_empty() && ends_whole(&text),
            "pcapng" => is_whole_capture(&bytes),
            _ => true,
        };
        if !is_whole {
            return Err(format!("{} is cut off after {} bytes", path.display(), bytes.len()));
        }
    }
    Ok(())
}

/// Blocks, each with its length at both ends.
fn is_whole_capture(mut bytes: &[u8]) -> bool {
    let length =
        |at: &[u8]| at.get(..4).map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]) as usize);
    let some = !bytes.is_empty();
    while !bytes.is_empty() {
        let Some(block) = bytes.get(4..).and_then(length).filter(|&block| block >= 12) else { return false };
        if bytes.get(block - 4..).and_then(length) != Some(block) {
            return false;
        }
        bytes = &bytes[block..];
    }
    some
}
