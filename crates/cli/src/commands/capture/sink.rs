//! Where blocks go: a file, numbered files one after another, or a pipe such as stdout. [`Sink`].
//!
//! Each file is whole at any time between two writes, and stays so when one of them fails: what fitted of it is kept
//! up to the end of its last whole block. What went into a pipe cannot be taken back, so whole blocks go there at a time.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Access, access};
use rustix::process::getuid;
use softtimers::{Clock, Monotonic, Timestamp};
use softtimers_measure::failure::Failure;
use softtimers_measure::units::show_duration;

use super::pcapng;
use super::pipe::{GRACE, Patience, Pipe, Trouble};
use crate::file::OutputFile;
use crate::run::privileges::paths::directory_of;
use crate::run::privileges::user::{User, as_caller};

/// When another file is begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rotate {
    /// Before one would be longer than this.
    Bytes(u64),
    /// After this long; not before a frame comes.
    Time(Duration),
}

/// The file, or files, to write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SinkConfig {
    /// The path; `-` is stdout.
    pub(crate) path: PathBuf,
    /// Write over what exists.
    pub(crate) force: bool,
    /// Several, one after another: then all are numbered.
    pub(crate) rotate: Option<Rotate>,
}

/// The frames that were not written.
#[derive(Debug)]
pub(crate) struct Loss {
    /// Packets of the blocks that are in the file all the same.
    pub(crate) kept: usize,
    /// The reason that kept the others from it.
    pub(crate) why: Why,
}

/// Why something was not written.
#[derive(Debug)]
pub(crate) enum Why {
    /// The reader has gone.
    Gone,
    /// The run is over, for another reason, and who reads it does not.
    Stalled(Failure),
    /// It cannot be written, and that ends the run.
    Failed(Failure),
}

/// The file that blocks are written to.
#[derive(Debug)]
pub(crate) struct Sink {
    config: SinkConfig,
    /// The blocks that each file begins with.
    head: Vec<u8>,
    output: Output,
    /// The patience with who reads a pipe.
    patience: Arc<Patience>,
    /// The number of files so far.
    files: u64,
    /// The bytes of the current file.
    bytes: u64,
    begun: Timestamp,
}

#[derive(Debug)]
enum Output {
    File(OutputFile),
    Pipe(Pipe),
}

impl Sink {
    /// Opens the first file and begins it with `head`: one that cannot be written to is removed again while that is allowed, and
    /// from then on it is whole. Who reads a pipe is waited for with `patience`, and the pipe is begun by
    /// [`begin`](Sink::begin).
    ///
    /// # Errors
    /// A usage failure if it exists or cannot be opened; a check failure if it cannot be written to.
    pub(crate) fn open(config: SinkConfig, head: Vec<u8>, patience: Patience) -> Result<Self, Failure> {
        let patience = Arc::new(patience);
        let output = Output::open(&config, 1, &patience)?;
        let begun = Monotonic.now();
        let mut sink = Sink { config, head, output, patience, files: 1, bytes: 0, begun };
        match sink.output {
            Output::File(_) => match sink.begin() {
                Err(Loss { why: Why::Failed(why) | Why::Stalled(why), .. }) => Err(why),
                Err(Loss { why: Why::Gone, .. }) | Ok(()) => Ok(sink),
            },
            Output::Pipe(_) => Ok(sink),
        }
    }

    pub(crate) fn files(&self) -> u64 {
        self.files
    }

    /// The destination of the frames, for people.
    pub(crate) fn shown(&self) -> String {
        if self.config.path == Path::new("-") {
            return "stdout".to_owned();
        }
        name(&self.config, 1).display().to_string()
    }

    /// Begins the first file, which a reader of a pipe waits for, unless that is done.
    ///
    /// # Errors
    /// What kept it from being written.
    pub(crate) fn begin(&mut self) -> Result<(), Loss> {
        if self.bytes > 0 {
            return Ok(());
        }
        let head = std::mem::take(&mut self.head);
        let written = self.put(&head);
        self.head = head;
        written
    }

    /// Writes blocks of packets. If it is time for another file, `end` makes the blocks that end this one.
    ///
    /// # Errors
    /// What kept them from being written, and how many packets were.
    pub(crate) fn write(&mut self, blocks: &[u8], end: impl FnOnce(&mut Vec<u8>)) -> Result<(), Loss> {
        let is_full = match self.config.rotate {
            None => false,
            Some(Rotate::Bytes(most)) => self.bytes + (blocks.len() + ENDING) as u64 > most,
            Some(Rotate::Time(time)) => Monotonic.now() >= self.begun + time,
        };
        if is_full && self.bytes > self.head.len() as u64 {
            self.next(end)?;
        }
        self.put(blocks)
    }

    /// Writes the blocks that end the last file.
    ///
    /// # Errors
    /// What kept them from being written.
    pub(crate) fn finish(&mut self, blocks: &[u8]) -> Result<(), Loss> {
        self.put(blocks)
    }

    fn next(&mut self, end: impl FnOnce(&mut Vec<u8>)) -> Result<(), Loss> {
        let mut ending = Vec::with_capacity(ENDING);
        end(&mut ending);
        self.put(&ending)?;
        let output = Output::open(&self.config, self.files + 1, &self.patience);
        self.output = output.map_err(|why| {
            // It is no mistake of the command line any more.
            Loss { kept: 0, why: Why::Failed(Failure::check(why)) }
        })?;
        (self.files, self.bytes, self.begun) = (self.files + 1, 0, Monotonic.now());
        self.begin()
    }

    fn put(&mut self, blocks: &[u8]) -> Result<(), Loss> {
        let whole = |written| pcapng::whole_blocks(blocks, written);
        match &mut self.output {
            Output::File(file) => file
                .append_some(blocks, |written| whole(written).0)
                .map_err(|(kept, why)| Loss { kept: whole(kept).1, why: Why::Failed(why) })?,
            Output::Pipe(pipe) => pipe.write(blocks).map_err(|(written, trouble)| {
                let kept = whole(written).1;
                Loss { kept, why: why(trouble, &self.config.path) }
            })?,
        }
        self.bytes += blocks.len() as u64;
        Ok(())
    }
}

impl Output {
    /// Opens stdout, or the file with this number.
    fn open(config: &SinkConfig, number: u64, patience: &Arc<Patience>) -> Result<Self, Failure> {
        let pipe = |to: BorrowedFd<'_>| {
            let opened = to.try_clone_to_owned().and_then(|to| Pipe::new(to, Arc::clone(patience)));
            opened.map(Output::Pipe).map_err(|error| Failure::broke_off("opening the output", &error))
        };
        if config.path == Path::new("-") {
            return pipe(io::stdout().as_fd());
        }
        let goes_on = |wait| patience.goes_on(wait);
        let mut file = OutputFile::create_while(&name(config, number), "-w", config.force, goes_on)?;
        if file.is_regular() { Ok(Output::File(file)) } else { pipe(file.stream()) }
    }
}

/// Checks that all files of `--rotate` can be made by `user`, whom the capture becomes: those after the first are
/// opened when it has, and by then it can become nobody else.
///
/// # Errors
/// A usage failure where somebody who called `sudo` wants them to be another user's.
pub(crate) fn check_rotation(config: &SinkConfig, user: Option<User>) -> Result<(), Failure> {
    let caller = User::caller().map_err(Failure::usage)?;
    match user {
        Some(user) if config.rotate.is_some() && !caller.is_root() && user.uid != caller.uid => {
            let (uid, caller) = (user.uid, caller.uid);
            Err(Failure::usage(format_args!(
                "--rotate: files are opened with the rights of user {caller}, and user {uid} has others; leave --user out"
            )))
        }
        _ => Ok(()),
    }
}

/// Checks that this process, as it is now, can make files beside the first.
///
/// # Errors
/// A usage failure if not.
pub(crate) fn check_directory(config: &SinkConfig) -> Result<(), Failure> {
    let directory = directory_of(&config.path);
    as_caller(|| Ok(access(directory, Access::WRITE_OK | Access::EXEC_OK)?)).map_err(|error| {
        let (user, directory) = (getuid().as_raw(), directory.display());
        // Where somebody called sudo, it must be them.
        let other = if User::caller().is_ok_and(User::is_root) { "; --user names another" } else { "" };
        Failure::usage(format_args!(
            "--rotate: files are made by user {user}, who may not in '{directory}' ({error}){other}"
        ))
    })
}

fn why(trouble: Trouble, path: &Path) -> Why {
    let doing = match path.to_str() {
        Some("-") => "writing to stdout".to_owned(),
        _ => format!("writing '{}'", path.display()),
    };
    match trouble {
        Trouble::Gone => Why::Gone,
        Trouble::Stalled => {
            let grace = show_duration(GRACE);
            Why::Stalled(Failure::check(format_args!(
                "{doing}: nothing was read for {grace} after the run's end"
            )))
        }
        Trouble::System(error) => Why::Failed(Failure::broke_off(doing, &error.into())),
    }
}

/// `trace.pcapng`, or where there are several `trace-00001.pcapng`.
fn name(config: &SinkConfig, number: u64) -> PathBuf {
    if config.rotate.is_none() {
        return config.path.clone();
    }
    let mut name = config.path.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{number:05}"));
    if let Some(extension) = config.path.extension() {
        name.push(".");
        name.push(extension);
    }
    config.path.with_file_name(name)
}

/// The most bytes that a file's last blocks need.
const ENDING: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_files_are_numbered() {
        let named = |path: &str, rotate| {
            let config = SinkConfig { path: path.into(), force: false, rotate };
            name(&config, 12).display().to_string()
        };
        let rotate = Some(Rotate::Bytes(1));
        assert_eq!(named("/tmp/a.b.pcapng", rotate), "/tmp/a.b-00012.pcapng");
        assert_eq!(named("trace", rotate), "trace-00012");
        assert_eq!(named("trace.pcapng", None), "trace.pcapng");
    }
}
