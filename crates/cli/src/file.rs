//! Files that a command writes: none of somebody else's is overwritten by a slip of the hand.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::failure::Failure;

/// A file that is opened before a run and written at its end, so that a path that cannot be written is
/// refused before anything was measured.
///
/// One that exists is refused, a dangling link included, unless overwriting was asked for; a link at the
/// path's end is never followed. What a run that breaks off has made and not written is removed.
///
/// ```
/// use softtimers_cli::file::OutputFile;
///
/// let path = std::env::temp_dir().join(format!("softtimers-doc-{}", std::process::id()));
/// OutputFile::create(&path, "--csv", false)?.write("a,b\n")?;
/// let refused = OutputFile::create(&path, "--csv", false).unwrap_err();
/// assert!(refused.to_string().ends_with("exists; --force overwrites it"));
/// std::fs::remove_file(&path).unwrap();
/// # Ok::<(), softtimers_cli::failure::Failure>(())
/// ```
#[derive(Debug)]
pub struct OutputFile {
    file: File,
    path: PathBuf,
    /// Made here, and nothing is in it yet.
    fresh: bool,
    /// Bytes of it that were written.
    written: u64,
}

impl OutputFile {
    /// Opens the file that `flag` names.
    ///
    /// # Errors
    /// A usage failure if it exists and `force` is not given, or cannot be written.
    pub fn create(path: &Path, flag: &str, force: bool) -> Result<Self, Failure> {
        let mut options = OpenOptions::new();
        options.write(true).custom_flags((OFlags::NOFOLLOW | OFlags::CLOEXEC).bits() as i32);
        let opened = match options.clone().create_new(true).open(path) {
            Ok(file) => Ok((file, true)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && force => {
                options.open(path).map(|file| (file, false))
            }
            Err(error) => Err(error),
        };
        let (file, fresh) = opened.map_err(|error| {
            let shown = path.display();
            match error.kind() {
                _ if path.is_dir() => {
                    Failure::usage(format_args!("{flag} '{shown}': a directory, not a file"))
                }
                _ if path.is_symlink() => Failure::usage(format_args!(
                    "{flag} '{shown}': is a symbolic link; give the path it leads to"
                )),
                io::ErrorKind::AlreadyExists => {
                    Failure::usage(format_args!("{flag} '{shown}': exists; --force overwrites it"))
                }
                _ => Failure::usage(format_args!("{flag} '{shown}': {error}")),
            }
        })?;
        Ok(OutputFile { file, path: path.to_owned(), fresh, written: 0 })
    }

    /// Writes the file's whole content.
    ///
    /// # Errors
    /// A check failure, as for a full disk; then the file holds what fitted.
    pub fn write(mut self, text: &str) -> Result<(), Failure> {
        self.cut(0).and_then(|()| self.put(text)).map_err(|error| self.failed(&error))
    }

    /// Adds `text`, whole or not at all: what was added before is kept when a disk is full, and nothing half.
    ///
    /// # Errors
    /// As for [`write`](Self::write); the text is not in the file then.
    pub fn append(&mut self, text: &str) -> Result<(), Failure> {
        let emptied = if self.written == 0 { self.cut(0) } else { Ok(()) };
        emptied.and_then(|()| self.put(text)).map_err(|error| {
            // If that fails too, the file ends in a line that is cut off, and who reads it sees that.
            let _ = self.cut(self.written);
            self.failed(&error)
        })
    }

    /// Adds `bytes`. Of what did not fit, the file keeps as much as `whole` says of so many bytes that did.
    ///
    /// # Errors
    /// As for [`write`](Self::write), and how much was kept.
    pub fn append_some(
        &mut self,
        bytes: &[u8],
        whole: impl FnOnce(usize) -> usize,
    ) -> Result<(), (usize, Failure)> {
        if self.written == 0 {
            self.cut(0).map_err(|error| (0, self.failed(&error)))?;
        }
        self.fresh = false;
        let mut done = 0;
        while done < bytes.len() {
            match self.file.write(&bytes[done..]) {
                Ok(0) => return Err(self.keep(whole(done), &io::ErrorKind::WriteZero.into())),
                Ok(some) => done += some,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.keep(whole(done), &error)),
            }
        }
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// Gives a file that was made here to this user.
    pub fn hand_to(&self, uid: u32, gid: u32) {
        if self.fresh {
            // If it cannot be, it is still open, and readable for who asked for it.
            let _ = std::os::unix::fs::fchown(&self.file, Some(uid), Some(gid));
        }
    }

    /// Whether it has a length, and keeps what is written: no pipe, no device.
    pub fn is_regular(&self) -> bool {
        self.file.metadata().is_ok_and(|metadata| metadata.is_file())
    }

    /// For who writes to what is no regular file.
    pub fn stream(&mut self) -> BorrowedFd<'_> {
        self.fresh = false;
        self.file.as_fd()
    }

    /// Ends the file after so many bytes of those that were being added.
    fn keep(&mut self, kept: usize, error: &io::Error) -> (usize, Failure) {
        self.written += kept as u64;
        // If that fails, the file ends in what is cut off, and who reads it sees that.
        let _ = self.cut(self.written).and_then(|()| self.file.seek(SeekFrom::Start(self.written)).map(drop));
        (kept, self.failed(error))
    }

    fn put(&mut self, text: &str) -> io::Result<()> {
        self.fresh = false;
        self.file.write_all(text.as_bytes())?;
        self.written += text.len() as u64;
        Ok(())
    }

    /// Makes it that long. A device has no length to set.
    fn cut(&self, length: u64) -> io::Result<()> {
        if self.is_regular() { self.file.set_len(length) } else { Ok(()) }
    }

    fn failed(&self, error: &io::Error) -> Failure {
        Failure::broke_off(format_args!("writing '{}'", self.path.display()), error)
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if self.fresh {
            // An empty file would only be in the way of the next run.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Exit;

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
    fn a_full_disk_is_told() {
        let Ok(full) = OutputFile::create(Path::new("/dev/full"), "--csv", true) else { return };
        let failed = full.write("text").unwrap_err();
        assert_eq!(failed.exit(), Exit::Check);
        assert!(failed.to_string().contains("/dev/full"), "{failed}");
    }
}
