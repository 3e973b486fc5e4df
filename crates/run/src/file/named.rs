//! Files that were written here, to be removed later: those, and no others that have their names by then.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::SystemTime;

use crate::privileges::user::as_caller;

/// A file that was written here and closed. Its name may belong to another file by now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedFile {
    path: PathBuf,
    identity: Option<Identity>,
}

impl NamedFile {
    pub(super) fn new(path: PathBuf, file: &File) -> Self {
        NamedFile { path, identity: file.metadata().ok().as_ref().map(Identity::from_metadata) }
    }

    /// Removes it, unless its name has another file, or one of another length; returns whether it is gone.
    pub fn remove(self) -> bool {
        let there = as_caller(|| fs::symlink_metadata(&self.path)).ok().as_ref().map(Identity::from_metadata);
        there.is_some() && there == self.identity && as_caller(|| fs::remove_file(&self.path)).is_ok()
    }
}

/// The identity of a file. A number alone is not enough: file systems reuse that of a removed file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Identity {
    device: u64,
    number: u64,
    length: u64,
    /// Its time of creation. Only if the file system does not record that, its time of modification, which some file
    /// servers set later than the write.
    time: Option<SystemTime>,
}

impl Identity {
    fn from_metadata(metadata: &fs::Metadata) -> Self {
        Identity {
            device: metadata.dev(),
            number: metadata.ino(),
            length: metadata.len(),
            time: metadata.created().or_else(|_| metadata.modified()).ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::OutputFile;
    use super::*;

    #[test]
    fn only_what_was_written_here_is_removed() {
        let path = std::env::temp_dir().join(format!("softtimers-{}-named", std::process::id()));
        let closed = || {
            let mut file = OutputFile::create(&path, "-w", true).unwrap();
            file.append("as it was written").unwrap();
            file.close()
        };
        assert!(closed().remove() && !path.exists());
        let changes: [&dyn Fn(); 3] = [
            // It keeps its inode number, and here its time of creation, too.
            &|| fs::write(&path, "as it was not written").unwrap(),
            // Some file systems reuse the number at once. The time differs once their clock has advanced.
            &|| {
                let time = || Identity::from_metadata(&fs::metadata(&path).unwrap()).time;
                let before = time();
                while time() == before {
                    fs::remove_file(&path).unwrap();
                    fs::write(&path, "as it was written").unwrap();
                }
            },
            &|| {
                fs::rename(&path, path.with_extension("away")).unwrap();
                fs::write(&path, "as it was written").unwrap();
            },
        ];
        for change in changes {
            let named = closed();
            change();
            assert!(!named.remove() && path.exists(), "{:?}", fs::read_to_string(&path));
            fs::remove_file(&path).unwrap();
        }
        fs::remove_file(path.with_extension("away")).unwrap();
    }
}
