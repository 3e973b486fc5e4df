//! Where blocks go: a file, numbered files one after another, or a pipe such as stdout. [`Sink`].
//!
//! Each file is whole at any time between two writes, and stays so when one of them fails: what fitted of it is kept
//! up to the end of its last whole block. What went into a pipe cannot be taken back, so whole blocks go there at a time.
//!
//! With `--keep` the oldest of numbered files goes when there are enough of them, and also when the disk is full: one for each
//! write, since a file that somebody reads gives no room until they close it. The one that is written never goes. What a
//! full disk has no room for even then is lost and counted, and the run goes on.
//!
//! ```text
//!   blocks ─▶ fit the file? ─ no ─▶ is there another? ─ yes ─▶ this one's end; the oldest goes, if there are enough
//!     │                      └ yes     │ disk full
//!     └─▶ written? ─ disk full ────────┴─▶ the oldest goes, and once more ─ none left, or full all the same: counted as lost
//! ```

use std::collections::VecDeque;
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
use crate::file::{NamedFile, OutputFile, Unopened, is_full};
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
    /// The most of them that have frames at a time, at least two.
    pub(crate) keep: Option<u32>,
    /// The number of interfaces, each with a last word in each file.
    pub(crate) interfaces: usize,
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
    /// The disk is full for now, and files are kept: the run goes on.
    Full(Failure),
    /// It cannot be written, and that ends the run.
    Failed(Failure),
}

/// The file that blocks are written to.
#[derive(Debug)]
pub(crate) struct Sink {
    config: SinkConfig,
    /// The blocks that each file begins with, and the most bytes that its last ones need.
    head: Vec<u8>,
    ending: usize,
    output: Output,
    /// The patience with who reads a pipe.
    patience: Arc<Patience>,
    /// The files before this one that are still there, the oldest first.
    earlier: VecDeque<NamedFile>,
    /// One of them may go for what is being written.
    may_remove: bool,
    /// The number of files so far, and of those of them that were removed.
    files: u64,
    removed: u64,
    /// The bytes of the current file.
    bytes: u64,
    /// Its last blocks are in it, as far as there was room.
    is_ended: bool,
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
        let (patience, ending) = (Arc::new(patience), ENDING * config.interfaces);
        let output = Output::open(&config, 1, &patience)?;
        let mut sink = Sink {
            config,
            head,
            ending,
            output,
            patience,
            earlier: VecDeque::new(),
            may_remove: false,
            files: 1,
            removed: 0,
            bytes: 0,
            is_ended: false,
            begun: Monotonic.now(),
        };
        match sink.output {
            Output::File(_) => match sink.begin() {
                Err(Loss { why: Why::Failed(why) | Why::Stalled(why) | Why::Full(why), .. }) => Err(why),
                Err(Loss { why: Why::Gone, .. }) | Ok(()) => Ok(sink),
            },
            Output::Pipe(_) => Ok(sink),
        }
    }

    /// Returns the number of files that were begun, and of those of them that were removed again.
    pub(crate) fn files(&self) -> [u64; 2] {
        [self.files, self.removed]
    }

    /// The destination of the frames, for people.
    pub(crate) fn shown(&self) -> String {
        if self.config.path == Path::new("-") {
            return "stdout".to_owned();
        }
        name(&self.config, 1).display().to_string()
    }

    /// Begins the file, which a reader of a pipe waits for, unless that is done.
    ///
    /// # Errors
    /// What kept it from being written.
    pub(crate) fn begin(&mut self) -> Result<(), Loss> {
        // On a full disk a part of it may be there.
        let there = self.head.len().min(self.bytes as usize);
        if there == self.head.len() {
            return Ok(());
        }
        let head = std::mem::take(&mut self.head);
        let written = self.put(&head[there..]);
        self.head = head;
        written
    }

    /// Writes blocks of packets. If it is time for another file, `end` makes the blocks that end this one.
    ///
    /// # Errors
    /// What kept them from being written, and how many packets were.
    pub(crate) fn write(&mut self, blocks: &[u8], end: impl FnOnce(&mut Vec<u8>)) -> Result<(), Loss> {
        self.may_remove = self.config.keep.is_some();
        let is_full = match self.config.rotate {
            None => false,
            Some(Rotate::Bytes(most)) => self.bytes + (blocks.len() + self.ending) as u64 > most,
            Some(Rotate::Time(time)) => Monotonic.now() >= self.begun + time,
        };
        if is_full && self.bytes > self.head.len() as u64 {
            self.next(end)?;
        }
        self.begin()?;
        self.put(blocks)
    }

    /// Writes the blocks that end the last file, unless they are there.
    ///
    /// # Errors
    /// What kept them from being written.
    pub(crate) fn finish(&mut self, blocks: &[u8]) -> Result<(), Loss> {
        self.may_remove = self.config.keep.is_some();
        self.begin()?;
        self.end(blocks)
    }

    fn end(&mut self, blocks: &[u8]) -> Result<(), Loss> {
        if std::mem::replace(&mut self.is_ended, true) { Ok(()) } else { self.put(blocks) }
    }

    /// Goes on in another file. That is opened first: as long as there is none, this one stays the current one.
    fn next(&mut self, end: impl FnOnce(&mut Vec<u8>)) -> Result<(), Loss> {
        let next = self.open_next()?;
        let mut ending = Vec::with_capacity(self.ending);
        end(&mut ending);
        match self.end(&ending) {
            // The file is whole without it.
            Ok(()) | Err(Loss { why: Why::Full(_), .. }) => {}
            lost => return lost,
        }
        if let Output::File(file) = std::mem::replace(&mut self.output, next) {
            self.earlier.push_back(file.close());
        }
        (self.files, self.bytes, self.is_ended, self.begun) = (self.files + 1, 0, false, Monotonic.now());
        let most = self.config.keep.map_or(usize::MAX, |keep| keep as usize);
        while self.earlier.len() >= most {
            self.remove_oldest();
        }
        self.begin()
    }

    fn open_next(&mut self) -> Result<Output, Loss> {
        loop {
            match Output::open(&self.config, self.files + 1, &self.patience) {
                Ok(output) => return Ok(output),
                Err(Unopened { failure, is_full }) => {
                    // It is no mistake of the command line any more.
                    let made = self.make_room(is_full, Failure::check(failure));
                    made.map_err(|why| Loss { kept: 0, why })?;
                }
            }
        }
    }

    /// On a full disk removes the oldest file that is still ours, if one may go.
    ///
    /// # Errors
    /// What the failure means for the run, where none went.
    fn make_room(&mut self, is_full: bool, failure: Failure) -> Result<(), Why> {
        if !is_full || self.config.keep.is_none() {
            return Err(Why::Failed(failure));
        }
        let before = self.removed;
        while self.may_remove && self.removed == before && !self.earlier.is_empty() {
            self.remove_oldest();
        }
        self.may_remove = false;
        if self.removed > before { Ok(()) } else { Err(Why::Full(failure)) }
    }

    fn remove_oldest(&mut self) {
        self.removed += u64::from(self.earlier.pop_front().is_some_and(NamedFile::remove));
    }

    fn put(&mut self, blocks: &[u8]) -> Result<(), Loss> {
        let Output::Pipe(pipe) = &mut self.output else { return self.append(blocks) };
        pipe.write(blocks).map_err(|(written, trouble)| {
            let kept = pcapng::whole_blocks(blocks, written).1;
            Loss { kept, why: why(trouble, &self.config.path) }
        })?;
        self.bytes += blocks.len() as u64;
        Ok(())
    }

    /// Adds blocks to the file, for which earlier ones may have to go.
    fn append(&mut self, blocks: &[u8]) -> Result<(), Loss> {
        let (mut rest, mut packets) = (blocks, 0);
        while let Output::File(file) = &mut self.output {
            let appended = file.append_some(rest, |written| pcapng::whole_blocks(rest, written).0);
            let Err((kept, error)) = appended else {
                self.bytes += rest.len() as u64;
                break;
            };
            packets += pcapng::whole_blocks(rest, kept).1;
            rest = &rest[kept..];
            self.bytes += kept as u64;
            let failure = file.failed(&error);
            self.make_room(is_full(&error), failure).map_err(|why| Loss { kept: packets, why })?;
        }
        Ok(())
    }
}

impl Output {
    /// Opens stdout, or the file with this number.
    fn open(config: &SinkConfig, number: u64, patience: &Arc<Patience>) -> Result<Self, Unopened> {
        let pipe = |to: BorrowedFd<'_>| {
            let opened = to.try_clone_to_owned().and_then(|to| Pipe::new(to, Arc::clone(patience)));
            let failed = |error: io::Error| Failure::broke_off("opening the output", &error);
            opened.map(Output::Pipe).map_err(|error| Unopened::from(failed(error)))
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

/// The most bytes that a file's last block needs, of each interface.
const ENDING: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_files_are_numbered() {
        let named = |path: &str, rotate| {
            let config = SinkConfig { path: path.into(), force: false, rotate, keep: None, interfaces: 1 };
            name(&config, 12).display().to_string()
        };
        let rotate = Some(Rotate::Bytes(1));
        assert_eq!(named("/tmp/a.b.pcapng", rotate), "/tmp/a.b-00012.pcapng");
        assert_eq!(named("trace", rotate), "trace-00012");
        assert_eq!(named("trace.pcapng", None), "trace.pcapng");
    }
}
