//! The files of a command, each opened with the rights of [the caller](crate::privileges::user) and no more.
//!
//! Files written here are readable by their owner only, and never overwrite others by accident: a capture contains
//! other people's traffic, and a path in a world-writable directory can have been prepared by an attacker.

mod lock;
mod named;

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use softtimers_measure::failure::Failure;

use crate::privileges::user::{as_caller, exceeds_caller};

pub use named::NamedFile;

/// Opens a file to read it.
///
/// # Errors
/// The system's errors, for the caller.
pub fn open(path: &Path) -> io::Result<File> {
    as_caller(|| File::open(path))
}

/// Opens a regular file to read it: others, such as FIFOs, are refused rather than waited for.
fn open_regular(path: &Path) -> io::Result<File> {
    let nonblocking =
        || OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path);
    let file = as_caller(nonblocking)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok(file)
}

/// A file that a run resumes, and its content; no other process can resume it at the same time.
#[derive(Debug)]
pub struct Resumed {
    /// Its content.
    pub text: String,
    /// Kept open, and so locked, for as long as the run.
    _locked: File,
}

impl Resumed {
    /// Locks the regular file that `flag` names, and reads it; `None` if there is none.
    ///
    /// # Errors
    /// A usage failure: the system's, or that another process has locked it.
    pub fn open(path: &Path, flag: &str) -> Result<Option<Self>, Failure> {
        let refused =
            |error: io::Error| Failure::usage(format_args!("{flag}: file '{}': {error}", path.display()));
        let mut file = match open_regular(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(refused(error)),
        };
        lock::locked(&file, path, flag)?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(refused)?;
        Ok(Some(Resumed { text, _locked: file }))
    }
}

/// Returns part of a file's content, for a message; `…` in a process with [more rights](exceeds_caller) than the
/// caller.
pub fn quoted(content: impl fmt::Display) -> impl fmt::Display {
    Quoted(content)
}

/// A value as [`quoted`] returns it.
struct Quoted<T>(T);

impl<T: fmt::Display> fmt::Display for Quoted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if exceeds_caller() { f.write_str("…") } else { self.0.fmt(f) }
    }
}

/// A file opened before a run and written at its end, so that a path that cannot be written is refused before anything
/// is measured.
///
/// An existing file is refused, a dangling link included, unless overwriting was requested; a link at the path's end is
/// never followed. The file belongs to the caller, who alone may read and write it. A file created and not written by a
/// run that breaks off is removed.
#[derive(Debug)]
pub struct OutputFile {
    file: File,
    path: PathBuf,
    /// Whether it was created here and is still empty.
    fresh: bool,
    /// The number of bytes written.
    written: u64,
}

impl OutputFile {
    /// Opens the file that `flag` names. Waits for the reader of a FIFO until a signal ends the process.
    ///
    /// # Errors
    /// A usage failure if it exists and `force` is not given, or cannot be written.
    pub fn create(path: &Path, flag: &str, force: bool) -> Result<Self, Failure> {
        Ok(OutputFile::create_while(path, flag, force, pause)?)
    }

    /// As [`create`](Self::create), for a command that handles signals itself. `goes_on` waits for at most the given
    /// time, and returns whether the run goes on.
    ///
    /// # Errors
    /// As [`create`](Self::create); a check failure if the run is over.
    pub fn create_while(
        path: &Path,
        flag: &str,
        force: bool,
        mut goes_on: impl FnMut(Duration) -> io::Result<bool>,
    ) -> Result<Self, Unopened> {
        let opened = loop {
            if let Some(opened) = as_caller(|| open_to_write(path, force)).transpose() {
                break opened;
            }
            let doing = || format!("{flag} '{}'", path.display());
            if !goes_on(RETRY).map_err(|error| Failure::broke_off(doing(), &error))? {
                let doing = doing();
                return Err(Failure::check(format_args!(
                    "{doing}: the run ended before the file could be opened; a FIFO needs a reader"
                ))
                .into());
            }
        };
        let (file, fresh) = opened.map_err(|error| {
            let shown = path.display();
            let failure = match error.kind() {
                _ if looked_at(path, |path| fs::metadata(path)).is_some_and(|found| found.is_dir()) => {
                    Failure::usage(format_args!("{flag} '{shown}': a directory, not a file"))
                }
                _ if looked_at(path, |path| fs::symlink_metadata(path))
                    .is_some_and(|found| found.is_symlink()) =>
                {
                    Failure::usage(format_args!(
                        "{flag} '{shown}': is a symbolic link; give the path it leads to"
                    ))
                }
                io::ErrorKind::AlreadyExists => {
                    Failure::usage(format_args!("{flag} '{shown}': exists; --force overwrites it"))
                }
                _ => Failure::usage(format_args!("{flag} '{shown}': {error}")),
            };
            Unopened {
                failure,
                is_full: is_full(&error),
                exists: error.kind() == io::ErrorKind::AlreadyExists,
            }
        })?;
        Ok(OutputFile { file, path: path.to_owned(), fresh, written: 0 })
    }

    /// Keeps the first `bytes` of the content, and appends after them.
    ///
    /// # Errors
    /// A check failure if that is not possible.
    pub fn after(mut self, bytes: u64) -> Result<Self, Failure> {
        let kept = self.cut(bytes).and_then(|()| self.file.seek(SeekFrom::Start(bytes)));
        kept.map_err(|error| self.failed(&error))?;
        (self.fresh, self.written) = (false, bytes);
        Ok(self)
    }

    /// Locks it, so that no other process [resumes](Resumed) it. Only regular files are locked.
    ///
    /// # Errors
    /// A usage failure that names the process that has locked it.
    pub fn lock(&self, flag: &str) -> Result<(), Failure> {
        if self.is_regular() { lock::locked(&self.file, &self.path, flag) } else { Ok(()) }
    }

    /// Writes the whole content of the file.
    ///
    /// # Errors
    /// A check failure, as for a full disk; then the file is empty, and removed if it was created here.
    pub fn write(mut self, text: &str) -> Result<(), Failure> {
        self.append(text)
    }

    /// Appends `text` completely or not at all: on a full disk, earlier text is kept and no part of this one.
    ///
    /// # Errors
    /// As for [`write`](Self::write); then the text is not in the file.
    pub fn append(&mut self, text: &str) -> Result<(), Failure> {
        let emptied = if self.written == 0 { self.empty() } else { Ok(()) };
        emptied.and_then(|()| self.put(text)).map_err(|error| {
            // If that fails too, the file ends in a visibly truncated line.
            let _ = self.cut(self.written);
            self.failed(&error)
        })
    }

    /// Appends `bytes`. If only some of them fit, the file keeps as many as `whole` returns for that number.
    ///
    /// # Errors
    /// The system's error, which [`failed`](Self::failed) puts into words, and how many bytes were kept.
    pub fn append_some(
        &mut self,
        bytes: &[u8],
        whole: impl FnOnce(usize) -> usize,
    ) -> Result<(), (usize, io::Error)> {
        if self.written == 0 {
            self.empty().map_err(|error| (0, error))?;
        }
        let mut done = 0;
        while done < bytes.len() {
            match self.file.write(&bytes[done..]) {
                Ok(0) => return Err((self.keep(whole(done)), io::ErrorKind::WriteZero.into())),
                Ok(some) => done += some,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err((self.keep(whole(done)), error)),
            }
        }
        self.wrote(bytes.len());
        Ok(())
    }

    /// Says whether it is a regular file, not a pipe or a device.
    pub fn is_regular(&self) -> bool {
        self.file.metadata().is_ok_and(|metadata| metadata.is_file())
    }

    /// Returns the descriptor of a pipe or a device to write to.
    pub fn stream(&mut self) -> BorrowedFd<'_> {
        self.fresh = false;
        self.file.as_fd()
    }

    /// Ends the file after `kept` of the bytes that were being appended.
    fn keep(&mut self, kept: usize) -> usize {
        self.wrote(kept);
        // If that fails, the file visibly ends in a truncated part.
        let _ = self.cut(self.written).and_then(|()| self.file.seek(SeekFrom::Start(self.written)).map(drop));
        kept
    }

    fn put(&mut self, text: &str) -> io::Result<()> {
        self.file.write_all(text.as_bytes())?;
        self.wrote(text.len());
        Ok(())
    }

    fn wrote(&mut self, bytes: usize) {
        self.written += bytes as u64;
        self.fresh &= self.written == 0;
    }

    /// Removes the old content.
    fn empty(&self) -> io::Result<()> {
        if self.fresh { Ok(()) } else { self.cut(0) }
    }

    /// Sets its length. A device has none.
    fn cut(&self, length: u64) -> io::Result<()> {
        if self.is_regular() { self.file.set_len(length) } else { Ok(()) }
    }

    /// Returns the failure to write it, in words.
    pub fn failed(&self, error: &io::Error) -> Failure {
        Failure::broke_off(format_args!("writing '{}'", self.path.display()), error)
    }

    /// Closes this file and returns its identity, to remove it later.
    pub fn close(self) -> NamedFile {
        NamedFile::new(self.path.clone(), &self.file)
    }
}

/// Why a file could not be opened for writing.
#[derive(Debug)]
pub struct Unopened {
    /// The reason, in words.
    pub failure: Failure,
    /// Whether the disk has no room for another file.
    pub is_full: bool,
    /// Whether the path exists, and was not to be overwritten.
    pub exists: bool,
}

impl From<Failure> for Unopened {
    fn from(failure: Failure) -> Self {
        Unopened { failure, is_full: false, exists: false }
    }
}

impl From<Unopened> for Failure {
    fn from(unopened: Unopened) -> Self {
        unopened.failure
    }
}

/// Says whether the disk, or the user's share of it, has no room left.
pub fn is_full(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOSPC | Errno::DQUOT))
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if self.fresh {
            // An empty file would only obstruct the next run.
            let _ = as_caller(|| fs::remove_file(&self.path));
        }
    }
}

/// Opens a file, and says whether it is new. Never blocks, because a thread blocked in `open` misses signals: `None`
/// for a FIFO without a reader, and while another process gives up its lease on the file.
fn open_to_write(path: &Path, force: bool) -> io::Result<Option<(File, bool)>> {
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    options.write(true).mode(PRIVATE).custom_flags(flags.bits() as i32);
    let (file, fresh) = match options.clone().create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && force => {
            // A socket and a device without a driver give the same error.
            let is_fifo = || fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_fifo());
            let file = match options.open(path) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if Errno::from_io_error(&error) == Some(Errno::NXIO) && is_fifo() => {
                    return Ok(None);
                }
                opened => opened?,
            };
            make_private(&file)?;
            (file, false)
        }
        opened => (opened?, true),
    };
    let waits = fcntl_getfl(&file).and_then(|flags| fcntl_setfl(&file, flags - OFlags::NONBLOCK));
    if waits.is_err() && fresh {
        let _ = fs::remove_file(path);
    }
    waits?;
    Ok(Some((file, fresh)))
}

/// Waits for this long; a signal ends the process.
fn pause(time: Duration) -> io::Result<bool> {
    let time = Timespec::try_from(time).map_err(|_| Errno::INVAL)?;
    match poll(&mut [], Some(&time)) {
        Ok(_) | Err(Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Makes an existing file readable by its owner only, who must be the caller: another owner could undo that.
fn make_private(file: &File) -> io::Result<()> {
    let found = file.metadata()?;
    if !found.is_file() {
        return Ok(());
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other(format!(
            "belongs to user {}, who could read it; remove it first",
            found.uid()
        )));
    }
    if found.mode() & 0o777 == PRIVATE {
        Ok(())
    } else {
        file.set_permissions(fs::Permissions::from_mode(PRIVATE))
    }
}

/// Returns the metadata of a path, as the caller sees it.
fn looked_at(
    path: &Path,
    look: impl FnOnce(&Path) -> io::Result<fs::Metadata> + Send,
) -> Option<fs::Metadata> {
    as_caller(|| look(path)).ok()
}

/// The period in which a FIFO is checked for a reader: the kernel gives no notice.
const RETRY: Duration = Duration::from_millis(20);
/// Access for the owner only.
const PRIVATE: u32 = 0o600;

#[cfg(test)]
mod tests {
    use super::*;
    use softtimers_measure::failure::Exit;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("softtimers-{}-{name}", std::process::id()))
    }

    #[test]
    fn what_exists_is_kept_unless_forced() {
        let path = path("kept");
        fs::write(&path, "a long old text").unwrap();
        let refused = OutputFile::create(&path, "--json", false).unwrap_err();
        assert_eq!(refused.exit(), Exit::Usage);
        assert!(refused.to_string().starts_with("--json '") && refused.to_string().contains("--force"));
        let unwritten = OutputFile::create(&path, "--json", true).unwrap();
        drop(unwritten);
        assert_eq!(fs::read_to_string(&path).unwrap(), "a long old text");
        OutputFile::create(&path, "--json", true).unwrap().write("new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        fs::remove_file(&path).unwrap();
        let directory = OutputFile::create(&std::env::temp_dir(), "-w", true).unwrap_err().to_string();
        assert!(directory.ends_with("': a directory, not a file"), "{directory}");
    }

    #[test]
    fn links_are_not_followed() {
        let (target, link) = (path("target"), path("link"));
        fs::write(&target, "theirs").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        for force in [false, true] {
            let refused = OutputFile::create(&link, "--csv", force).unwrap_err();
            assert_eq!(refused.exit(), Exit::Usage);
            let words = refused.to_string();
            assert!(words.ends_with("is a symbolic link; give the path it leads to"), "{words}");
        }
        assert_eq!(fs::read_to_string(&target).unwrap(), "theirs");
        fs::remove_file(&target).unwrap();
        let dangling = OutputFile::create(&link, "--csv", false).unwrap_err().to_string();
        assert!(dangling.contains("symbolic link"), "a dangling one neither: {dangling}");
        assert!(!target.exists());
        fs::remove_file(&link).unwrap();
    }

    #[test]
    fn a_run_that_breaks_off_leaves_nothing() {
        let path = path("fresh");
        drop(OutputFile::create(&path, "--csv", false).unwrap());
        assert!(!path.exists());
        let nowhere = OutputFile::create(&path.join("x"), "--csv", false).unwrap_err();
        assert!(nowhere.to_string().contains("No such file"), "{nowhere}");
    }

    #[test]
    fn a_fifo_waits_for_its_reader_while_the_run_goes_on() {
        let path = path("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, PRIVATE.into(), 0).unwrap();
        let ended = OutputFile::create_while(&path, "-w", true, |_| Ok(false)).unwrap_err().failure;
        assert_eq!(ended.exit(), Exit::Check);
        assert!(ended.to_string().ends_with("a FIFO needs a reader"), "{ended}");
        let (mut reader, mut tries) = (None, 0);
        let file = OutputFile::create_while(&path, "-w", true, |_| {
            tries += 1;
            if tries == 3 {
                let flags = OFlags::NONBLOCK.bits() as i32;
                reader = Some(OpenOptions::new().read(true).custom_flags(flags).open(&path)?);
            }
            Ok(true)
        });
        let mut file = file.unwrap();
        assert_eq!(tries, 3);
        assert!(!fcntl_getfl(file.stream()).unwrap().contains(OFlags::NONBLOCK), "writes block as ever");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_full_disk_is_told() {
        let Ok(full) = OutputFile::create(Path::new("/dev/full"), "--csv", true) else { return };
        let failed = full.write("text").unwrap_err();
        assert_eq!(failed.exit(), Exit::Check);
        assert!(failed.to_string().contains("/dev/full"), "{failed}");
    }
}
