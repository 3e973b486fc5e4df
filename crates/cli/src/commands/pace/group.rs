//! A cgroup for a command: [`Group`].

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::event::PollFlags;
use rustix::process::{Pid, Signal, kill_process};
use softtimers_measure::failure::Failure;

use super::watch::Members;

/// A cgroup (version 2) below this process's own. Its [guard](super::guard) removes it.
#[derive(Debug)]
pub(super) struct Group {
    path: PathBuf,
    /// To attach programs to.
    directory: File,
    /// Says whether there are processes in it; a change of it is an exceptional condition of poll(2).
    events: File,
    processes: File,
    /// Where this process belongs.
    own: PathBuf,
}

impl Group {
    /// Makes a cgroup.
    ///
    /// # Errors
    /// Not-possible, with what is missing.
    pub(super) fn make() -> Result<Self, Failure> {
        let refused = |what: &Path, error: io::Error| {
            Failure::not_possible(format_args!("pacing a command: a cgroup at {}: {error}", what.display()))
        };
        let own = own_group().ok_or_else(|| {
            Failure::not_possible(
                "pacing a command: no cgroup of version 2 is mounted here (`ip netns exec` hides it, `nsenter --net=` does not)",
            )
        })?;
        let path = own.join(format!("softtimers-pace-{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| refused(&path, error))?;
        let opened = || {
            let open = |name: &str| File::open(path.join(name));
            Ok((File::open(&path)?, open("cgroup.events")?, open("cgroup.procs")?))
        };
        match opened() {
            Ok((directory, events, processes)) => Ok(Group { directory, events, processes, own, path }),
            Err(error) => {
                let _ = fs::remove_dir(&path);
                Err(refused(&path, error))
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Does something, such as starting a command, as a process of this group.
    ///
    /// # Errors
    /// If the kernel refuses the change; or those of `act`.
    pub(super) fn inside<T>(&self, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        enter(&self.path)?;
        let done = act();
        enter(&self.own)?;
        done
    }
}

impl Members for Group {
    fn is_populated(&self) -> bool {
        !read(&self.events).lines().any(|line| line == "populated 0")
    }

    fn signal(&self, signal: Signal) {
        let ids = read(&self.processes);
        for id in ids.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)) {
            // It may have ended meanwhile.
            let _ = kill_process(id, signal);
        }
    }

    fn events(&self) -> (BorrowedFd<'_>, PollFlags) {
        (self.events.as_fd(), PollFlags::PRI)
    }

    /// Takes the event: until its file is read, it stays.
    fn serve(&self) {
        self.is_populated();
    }
}

impl AsFd for Group {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

/// Makes this process one of a group.
fn enter(group: &Path) -> io::Result<()> {
    let processes = OpenOptions::new().write(true).open(group.join("cgroup.procs"))?;
    processes.write_at(b"0", 0).map(drop)
}

fn read(file: &File) -> String {
    let mut text = vec![0; LARGEST_FILE];
    let length = file.read_at(&mut text, 0).unwrap_or(0);
    String::from_utf8_lossy(&text[..length]).into_owned()
}

/// Returns the directory of this process's cgroup.
fn own_group() -> Option<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mount = mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut words = before.split(' ').skip(3);
        let (root, at) = (words.next()?, words.next()?);
        after.starts_with("cgroup2 ").then(|| (root.to_owned(), at.to_owned()))
    })?;
    // In a container, the mount may show only a part of the tree.
    let below = own.strip_prefix(mount.0.trim_matches('/')).unwrap_or(own);
    Some(Path::new(&mount.1).join(below.trim_start_matches('/')))
}

/// The kernel hands these files out by the page.
const LARGEST_FILE: usize = 64 << 10;
