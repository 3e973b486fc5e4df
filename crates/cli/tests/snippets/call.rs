//! Stands in for the command `softtimers` in a snippet: runs the real one for as long as a user tries a line,
//! presses Ctrl-C, and records how it ended.
//!
//! ```text
//!   snippet ── softtimers WORDS ──▶ this ──▶ the real one          in a process group of its own, as under a terminal
//!                                    │ after a second: SIGINT ▲
//!                                    └ calls/N.json: words, exit code, stderr
//! ```

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use serde_json::{Value, json};

use crate::common::{IS_PAPERS, PROGRAM, is_of_papers};

/// The variable that says where calls are written down.
pub(crate) const CALLS: &str = "SNIPPET_CALLS";

/// The variable of a call in the background: a number, by which its first words are found.
pub(crate) const LASTING: &str = "SNIPPET_LASTING";

/// How long a user tries a line that does not end by itself.
const TRIED: Duration = Duration::from_secs(1);

/// For a line that ends by itself, or is ended by the snippet.
const PATIENCE: Duration = Duration::from_secs(60);

/// From Ctrl-C to the end: several times what it takes on a machine with other work.
const HANGS: Duration = Duration::from_secs(10);

/// A call that has ended.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) words: String,
    /// `None`: by a signal.
    pub(crate) code: Option<i32>,
    pub(crate) hung: bool,
    pub(crate) stderr: String,
}

/// Returns the program `softtimers`, which may not be built beside that of the papers.
pub(crate) fn tools() -> PathBuf {
    Path::new(PROGRAM).with_file_name("softtimers")
}

/// Returns the program that has this command.
fn program(words: &str) -> PathBuf {
    if IS_PAPERS && is_of_papers(words) { PathBuf::from(PROGRAM) } else { tools() }
}

/// Runs the real command with this process's arguments, and ends with its exit code.
///
/// # Errors
/// If it cannot be started, waited for, or written about.
pub(crate) fn stand_in() -> io::Result<ExitCode> {
    let calls = PathBuf::from(std::env::var_os(CALLS).ok_or_else(|| io::Error::other("no snippet"))?);
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let goes_into_a_file = FileType::from_raw_mode(fstat(io::stdout())?.st_mode) == FileType::RegularFile;
    if goes_into_a_file && words[..] == ["doctor", "--json"] {
        // A later line reads all of it.
        words.push("--quick".to_owned());
    }
    let lasting = std::env::var(LASTING).ok();
    let ends_itself = goes_into_a_file || words.iter().any(|word| word == "--once" || word == "--");
    let tried = if lasting.is_some() || ends_itself { PATIENCE } else { TRIED };
    let (number, place) = place(&calls)?;
    let name = lasting.map_or_else(|| number.to_string(), |number| format!("lasting-{number}"));
    let said = calls.join(format!("{name}.stderr"));

    let (interrupts, written) = UnixStream::pair()?;
    signal_hook::low_level::pipe::register(signal_hook::consts::SIGINT, written)?;
    let mut command = Command::new(program(&words.join(" ")));
    command.args(&words).env_remove(LASTING).stderr(File::create(&said)?).process_group(0);
    let mut child = command.spawn()?;
    let hung = !ends(&child, &interrupts, tried)?;
    let status = child.wait()?;
    let stderr = String::from_utf8_lossy(&fs::read(said)?).into_owned();
    if let Some(at) = words.iter().position(|word| word == "--run") {
        complete(Path::new(words.get(at + 1).map_or("", String::as_str)))?;
    }
    let call = json!({"words": words.join(" "), "code": status.code(), "hung": hung, "stderr": stderr});
    fs::write(place, call.to_string())?;
    let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    Ok(ExitCode::from(code as u8))
}

/// Puts saved runs beside those that a report made before Ctrl-C: a later line reads what ten minutes would have left.
fn complete(directory: &Path) -> io::Result<()> {
    for run in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/report/runs"))? {
        let run = run?;
        fs::copy(run.path(), directory.join(run.file_name()))?;
    }
    Ok(())
}

/// Waits until it has ended, by itself or by Ctrl-C; `false`: it had to be killed.
fn ends(child: &Child, interrupts: &UnixStream, tried: Duration) -> io::Result<bool> {
    let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let over = |time| -> io::Result<bool> { Ok(readable(&[&process], time)?[0]) };
    if readable(&[&process, interrupts], tried)?[0] {
        return Ok(true);
    }
    // Until it listens, a signal would end it as it does any program. One that never does is interrupted all the same.
    for _ in 0..500 {
        if listens(child) || over(Duration::from_millis(10))? {
            break;
        }
    }
    let group = Pid::from_child(child);
    // It may have ended meanwhile.
    let _ = kill_process_group(group, Signal::INT);
    let in_time = over(HANGS)?;
    if !in_time {
        kill_process_group(group, Signal::KILL)?;
    }
    Ok(in_time)
}

/// Says of each whether it can be read, once one can or the time is over.
fn readable(files: &[&dyn AsFd], time: Duration) -> io::Result<Vec<bool>> {
    let mut waiting: Vec<PollFd<'_>> =
        files.iter().map(|file| PollFd::from_borrowed_fd(file.as_fd(), PollFlags::IN)).collect();
    let time = Timespec::try_from(time).map_err(io::Error::other)?;
    retry_on_intr(|| poll(&mut waiting, Some(&time)))?;
    Ok(waiting.iter().map(|file| !file.revents().is_empty()).collect())
}

/// Says whether a process has made up its mind about SIGINT.
fn listens(child: &Child) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let has = |line: &str| {
        let bits = status.lines().find_map(|status| status.strip_prefix(line)).unwrap_or("0");
        u64::from_str_radix(bits.trim(), 16).is_ok_and(|bits| bits >> (Signal::INT.as_raw() - 1) & 1 == 1)
    };
    has("SigCgt:") || has("SigBlk:")
}

/// The next number, and the file for that call.
fn place(calls: &Path) -> io::Result<(u32, PathBuf)> {
    for number in 1.. {
        let path = calls.join(format!("{number}.json"));
        match File::create_new(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|_| (number, path)),
        }
    }
    Err(io::Error::other("too many calls"))
}

/// Returns the calls that a snippet has made, in the order in which they began. One that is not over has an empty file.
///
/// # Errors
/// If they cannot be read.
pub(crate) fn made(calls: &Path) -> io::Result<Vec<Call>> {
    let mut made = vec![];
    for number in 1.. {
        let Ok(text) = fs::read_to_string(calls.join(format!("{number}.json"))) else { break };
        let call: Value = serde_json::from_str(&text).unwrap_or_default();
        let text = |key: &str| call[key].as_str().unwrap_or_default().to_owned();
        made.push(Call {
            words: text("words"),
            code: call["code"].as_i64().map(|code| code as i32),
            hung: call["hung"] != json!(false),
            stderr: text("stderr"),
        });
    }
    Ok(made)
}

impl Call {
    /// Judges its end: the reason for which it is not possible here, if that is so.
    ///
    /// # Errors
    /// If it did not end as the pages say.
    pub(crate) fn judge(&self) -> Result<Option<String>, String> {
        let Call { words, code, hung, stderr } = self;
        let reason = stderr.lines().find_map(|line| line.strip_prefix("softtimers: ")).unwrap_or("");
        match code {
            _ if *hung => Err(format!("softtimers {words}: does not end: {stderr}")),
            _ if stderr.contains("panicked at") => Err(format!("softtimers {words}: panicked: {stderr}")),
            Some(0) => Ok(None),
            // What a machine with other work answers, or one that was interrupted.
            Some(1) if ["does not hold", "no round is complete"].iter().any(|told| stderr.contains(told)) => {
                Ok(None)
            }
            Some(77) => Ok(Some(format!("softtimers {words}: {reason}"))),
            Some(code) => Err(format!("softtimers {words}: exit code {code}: {stderr}")),
            None => Err(format!("softtimers {words}: ended by a signal: {stderr}")),
        }
    }
}
