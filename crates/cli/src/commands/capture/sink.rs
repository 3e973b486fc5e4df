//! The destination of blocks: a file, a series of numbered files, or a pipe such as stdout. [`Sink`].
//!
//! Each file is complete between any two writes, and stays so when a write fails: it is cut after the last complete
//! block that fitted. Bytes in a pipe cannot be taken back, so a pipe gets whole blocks.
//!
//! With `--keep` the oldest of the numbered files is removed when there are enough of them, and also when the disk is
//! full: one per write, since a file open in a reader frees no room until it is closed. The current file is never
//! removed. Frames without room on a full disk are then lost and counted, and the run goes on.
//!
//! ```text
//!   blocks ─▶ fit the file? ─ no ─▶ is there another? ─ yes ─▶ end this one; remove the oldest, if there are enough
//!     │                      └ yes     │ disk full
//!     └─▶ written? ─ disk full ────────┴─▶ remove the oldest, retry ─ none left, or still full: counted as lost
//! ```

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs;
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
use crate::run::output::say;
use crate::run::privileges::paths::directory_of;
use crate::run::privileges::user::{User, as_caller};

/// When another file is begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rotate {
    /// Before one would be longer than this.
    Bytes(u64),
    /// After this time; not before a frame comes.
    Time(Duration),
}

/// The file, or files, to write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SinkConfig {
    /// The path; `-` is stdout.
    pub(crate) path: PathBuf,
    /// Whether to overwrite an existing file.
    pub(crate) force: bool,
    /// Whether to write several numbered files, and when to begin each.
    pub(crate) rotate: Option<Rotate>,
    /// The most files kept at a time, at least two.
    pub(crate) keep: Option<u32>,
    /// The number of interfaces, each with a closing block in each file.
    pub(crate) interfaces: usize,
}

/// Frames that were not written.
#[derive(Debug)]
pub(crate) struct Loss {
    /// Packets of the blocks that did get into the file.
    pub(crate) kept: usize,
    /// Why the others did not.
    pub(crate) why: Why,
}

/// Why blocks could not be written.
#[derive(Debug)]
pub(crate) enum Why {
    /// The reader has gone.
    Gone,
    /// The run is over for another reason, and the reader has stopped.
    Stalled(Failure),
    /// The disk is full for now, and old files can be removed: the run goes on.
    Full(Failure),
    /// It cannot be written, and that ends the run.
    Failed(Failure),
}

/// The destination that blocks are written to.
#[derive(Debug)]
pub(crate) struct Sink {
    config: SinkConfig,
    /// The blocks that begin each file, and the most bytes that its last ones need.
    head: Vec<u8>,
    ending: usize,
    output: Output,
    /// The patience with the reader of a pipe.
    patience: Arc<Patience>,
    /// The files before this one that are still there, the oldest first.
    earlier: VecDeque<NamedFile>,
    /// Whether one of them may be removed for the current write.
    may_remove: bool,
    /// The number in the name of the current file.
    number: u64,
    /// The number of files so far, and how many of them were removed.
    files: u64,
    removed: u64,
    /// The bytes written to the current file.
    bytes: u64,
    /// Whether it has its last blocks, as far as there was room.
    is_ended: bool,
    begun: Timestamp,
}

#[derive(Debug)]
enum Output {
    File(OutputFile),
    Pipe(Pipe),
}

impl Sink {
    /// Opens the first file and begins it with `head`, while files may still be removed: one that cannot be written to
    /// is removed, and otherwise it is complete from then on. The reader of a pipe is waited for with `patience`, and a
    /// pipe is begun by [`begin`](Sink::begin).
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
            number: 1,
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

    /// Returns the number of files begun, and how many of them were removed again.
    pub(crate) fn files(&self) -> [u64; 2] {
        [self.files, self.removed]
    }

    /// Returns the destination of the frames, for people.
    pub(crate) fn destination(&self) -> String {
        if self.config.path == Path::new("-") {
            return "stdout".to_owned();
        }
        name(&self.config, 1).display().to_string()
    }

    /// Begins the file unless that is done; the reader of a pipe waits for this.
    ///
    /// # Errors
    /// Why it could not be written.
    pub(crate) fn begin(&mut self) -> Result<(), Loss> {
        // On a full disk a part of it may be written already.
        let there = self.head.len().min(self.bytes as usize);
        if there == self.head.len() {
            return Ok(());
        }
        let head = std::mem::take(&mut self.head);
        let written = self.put(&head[there..]);
        self.head = head;
        written
    }

    /// Writes blocks of packets. If another file is due, `end` makes the blocks that end this one.
    ///
    /// # Errors
    /// Why not all could be written, and how many packets were.
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

    /// Writes the blocks that end the last file, unless that is done.
    ///
    /// # Errors
    /// Why they could not be written.
    pub(crate) fn finish(&mut self, blocks: &[u8]) -> Result<(), Loss> {
        self.may_remove = self.config.keep.is_some();
        self.begin()?;
        self.end(blocks)
    }

    fn end(&mut self, blocks: &[u8]) -> Result<(), Loss> {
        if std::mem::replace(&mut self.is_ended, true) { Ok(()) } else { self.put(blocks) }
    }

    /// Continues in another file. It is opened first: until that succeeds, this one stays the current one.
    fn next(&mut self, end: impl FnOnce(&mut Vec<u8>)) -> Result<(), Loss> {
        let (number, next) = self.open_next()?;
        let mut ending = Vec::with_capacity(self.ending);
        end(&mut ending);
        match self.end(&ending) {
            // The file is complete without it.
            Ok(()) | Err(Loss { why: Why::Full(_), .. }) => {}
            lost => return lost,
        }
        if let Output::File(file) = std::mem::replace(&mut self.output, next) {
            self.earlier.push_back(file.close());
        }
        (self.number, self.files) = (number, self.files + 1);
        (self.bytes, self.is_ended, self.begun) = (0, false, Monotonic.now());
        let most = self.config.keep.map_or(usize::MAX, |keep| keep as usize);
        while self.earlier.len() >= most {
            self.remove_oldest();
        }
        self.begin()
    }

    /// Opens the file of the next number. A number whose file was made by somebody else meanwhile is skipped.
    fn open_next(&mut self) -> Result<(u64, Output), Loss> {
        let mut number = self.number + 1;
        loop {
            match Output::open(&self.config, number, &self.patience) {
                Ok(output) => return Ok((number, output)),
                Err(Unopened { exists: true, .. }) => {
                    let name = name(&self.config, number);
                    say(format_args!("'{}' exists and stays: its number is skipped", name.display()));
                    number += 1;
                }
                Err(Unopened { failure, is_full, .. }) => {
                    // By now it is not a mistake of the command line any more.
                    let made = self.make_room(is_full, Failure::check(failure));
                    made.map_err(|why| Loss { kept: 0, why })?;
                }
            }
        }
    }

    /// On a full disk, removes the oldest file that is still ours, if one may be removed.
    ///
    /// # Errors
    /// The meaning of the failure for the run, if no file was removed.
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

    /// Appends blocks to the file, for which earlier files may have to be removed.
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

/// Checks that `user`, whom the capture becomes, can create all files of `--rotate`, and that none exists: those after
/// the first are opened later, and by then it can become no other user.
///
/// # Errors
/// A usage failure if not.
pub(crate) fn check_rotation(config: &SinkConfig, user: Option<User>) -> Result<(), Failure> {
    if let Some(existing) = existing(config) {
        return Err(Failure::usage(format_args!(
            "-w '{}': exists, and --rotate would come to it; --force overwrites it then",
            existing.display()
        )));
    }
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

/// Checks that this process, with its current rights, can create files next to the first.
///
/// # Errors
/// A usage failure if not.
pub(crate) fn check_directory(config: &SinkConfig) -> Result<(), Failure> {
    let directory = directory_of(&config.path);
    as_caller(|| Ok(access(directory, Access::WRITE_OK | Access::EXEC_OK)?)).map_err(|error| {
        let (user, directory) = (getuid().as_raw(), directory.display());
        // After sudo, the files must belong to its caller.
        let other = if User::caller().is_ok_and(User::is_root) { "; --user names another" } else { "" };
        Failure::usage(format_args!(
            "--rotate: user {user}, who makes the files, may not write in '{directory}' ({error}){other}"
        ))
    })
}

/// Returns the first of the numbered files that exists and is not to be overwritten. In a directory that cannot be read it
/// is met, and skipped, when its turn comes.
fn existing(config: &SinkConfig) -> Option<PathBuf> {
    config.rotate.filter(|_| !config.force)?;
    let directory = directory_of(&config.path);
    let entries = as_caller(|| fs::read_dir(directory)).into_iter().flatten();
    let names = entries.filter_map(|entry| Some(entry.ok()?.file_name()));
    let mut numbers: Vec<_> = names.filter_map(|name| number(config, &name)).collect();
    numbers.sort_unstable();
    numbers.first().map(|&number| name(config, number))
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

/// Returns `trace.pcapng`, or for several files `trace-00001.pcapng`.
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

/// Returns the number of a file of `--rotate` by its name.
fn number(config: &SinkConfig, file: &OsStr) -> Option<u64> {
    let stem = Path::new(file).file_stem()?.to_str()?;
    let number = stem.rsplit_once('-')?.1.parse().ok().filter(|&number| number > 0)?;
    (name(config, number).file_name() == Some(file)).then_some(number)
}

/// The most bytes of a file's closing block, per interface.
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
        let config =
            SinkConfig { path: "/tmp/a.b.pcapng".into(), force: false, rotate, keep: None, interfaces: 1 };
        let number = |name: &str| number(&config, OsStr::new(name));
        assert_eq!([number("a.b-00012.pcapng"), number("a.b-100000.pcapng")], [Some(12), Some(100_000)]);
        for other in ["a.b-00000.pcapng", "a.b-12.pcapng", "a.b-00012", "b-00012.pcapng", "a.b.pcapng", "-"] {
            assert_eq!(number(other), None, "{other}");
        }
        assert_eq!(named("/tmp/a.b.pcapng", rotate), "/tmp/a.b-00012.pcapng");
        assert_eq!(named("trace", rotate), "trace-00012");
        assert_eq!(named("trace.pcapng", None), "trace.pcapng");
    }
}
