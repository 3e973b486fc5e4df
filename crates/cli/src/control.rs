//! Control sockets, through which a run is changed: lines in, a line back for each. [`Control`].
//!
//! Only the owner may open one, since opening it allows changing the run. A socket left behind by a killed run is
//! replaced, when connecting shows that nobody listens; anything else at the path stays. It is removed at the end.
//!
//! Lines and connections are bounded, and a slow client delays no packet and no other client: an answer without room
//! ends its connection, and when there are too many connections, the one that was silent for longest is closed.

use std::fs::{self, Metadata};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use crate::run::privileges::user::as_caller;

/// A Unix socket that takes commands.
#[derive(Debug)]
pub(crate) struct Control {
    listener: UnixListener,
    path: PathBuf,
    /// The identity of the file: by the end another one may be in its place.
    file: Option<(u64, u64)>,
    connections: [Option<Connection>; MOST_CONNECTIONS],
    /// Counts the actions of connections, to find the one idle for longest.
    clock: u64,
}

#[derive(Debug)]
struct Connection {
    stream: UnixStream,
    line: Vec<u8>,
    /// The time of its last action.
    active: u64,
}

impl Control {
    /// Listens at a path where there is nothing, or a socket without a listener.
    ///
    /// # Errors
    /// `AddrInUse` if something else is there, or another error of the system.
    pub(crate) fn bind(path: &Path) -> io::Result<Self> {
        let listen = || match listen(path) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                remove_abandoned(path)?;
                listen(path)
            }
            outcome => outcome,
        };
        let (listener, file) = (as_caller(listen)?, identity_at(path));
        let control =
            Control { listener, path: path.to_owned(), file, connections: Default::default(), clock: 0 };
        control.listener.set_nonblocking(true)?;
        Ok(control)
    }

    /// Accepts a connection, if there is one, and returns its number and descriptor. Without room, another one is
    /// closed.
    ///
    /// # Errors
    /// If it stays queued, as without a free descriptor: try again later, not at once.
    pub(crate) fn accept(&mut self) -> io::Result<Option<(usize, BorrowedFd<'_>)>> {
        let stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            // The client is gone.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionAborted) => {
                return Ok(None);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(None),
            Err(error) => return Err(error),
        };
        stream.set_nonblocking(true)?;
        self.clock += 1;
        let active = |slot: &Option<Connection>| slot.as_ref().map(|connection| connection.active);
        // An empty slot comes before all others.
        let place = (0..MOST_CONNECTIONS).min_by_key(|&place| active(&self.connections[place])).unwrap_or(0);
        if let Some(Connection { mut stream, .. }) = self.connections[place].take() {
            let _ = writeln!(stream, "error: {MOST_CONNECTIONS} later connections have taken its place");
        }
        let connection = Connection { stream, line: Vec::new(), active: self.clock };
        Ok(Some((place, self.connections[place].insert(connection).stream.as_fd())))
    }

    /// Returns the numbers and descriptors of the connections.
    pub(crate) fn connections(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>)> {
        let there = |(number, slot)| Some((number, Option::as_ref(slot)?));
        let all = self.connections.iter().enumerate().filter_map(there);
        all.map(|(number, connection): (_, &Connection)| (number, connection.stream.as_fd()))
    }

    /// Closes a connection.
    pub(crate) fn close(&mut self, number: usize) {
        self.connections.iter_mut().skip(number).take(1).for_each(|slot| *slot = None);
    }

    /// Reads what a connection has sent, and answers each complete line.
    pub(crate) fn serve(&mut self, number: usize, mut answer: impl FnMut(&str) -> String) {
        let Some(Some(connection)) = self.connections.get_mut(number) else { return };
        self.clock += 1;
        connection.active = self.clock;
        if !connection.serve(&mut answer) {
            self.close(number);
        }
    }
}

/// Creates a socket at this path that only this user may open.
fn listen(path: &Path) -> io::Result<UnixListener> {
    // From the first moment others must be unable to connect.
    let mask = rustix::process::umask(Mode::from(0o177));
    let listener = as_caller(|| UnixListener::bind(path));
    rustix::process::umask(mask);
    listener
}

/// Removes a socket without a listener, and nothing else.
fn remove_abandoned(path: &Path) -> io::Result<()> {
    let in_use = |why: &str| Err(io::Error::new(ErrorKind::AddrInUse, why));
    let metadata = as_caller(|| fs::symlink_metadata(path))?;
    if !metadata.file_type().is_socket() {
        return in_use("exists, and is no socket");
    }
    // A connection that would have to wait shows that somebody listens.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match connect(&socket, &SocketAddrUnix::new(path)?) {
        Err(Errno::CONNREFUSED) => {}
        Ok(()) | Err(Errno::AGAIN | Errno::PROTOTYPE) => {
            return in_use("a program that runs listens there");
        }
        Err(error) => return Err(error.into()),
    }
    // Another process may have found the same, and listen there by now.
    if identity_at(path) == Some(identity(&metadata)) { as_caller(|| fs::remove_file(path)) } else { Ok(()) }
}

fn identity_at(path: &Path) -> Option<(u64, u64)> {
    as_caller(|| fs::symlink_metadata(path)).ok().map(|metadata| identity(&metadata))
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

impl Connection {
    /// Says whether the connection goes on.
    fn serve(&mut self, answer: &mut impl FnMut(&str) -> String) -> bool {
        let mut buffer = [0; LONGEST_LINE];
        let read = match self.stream.read(&mut buffer) {
            // The last line may have no newline.
            Ok(0) => {
                if !self.line.is_empty() {
                    self.answer(answer);
                }
                return false;
            }
            Ok(read) => read,
            Err(error) => return matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        };
        buffer[..read].iter().all(|&byte| {
            if byte == b'\n' {
                return self.answer(answer);
            }
            // One byte more than allowed is kept, to detect a longer line.
            if self.line.len() <= LONGEST_LINE {
                self.line.push(byte);
            }
            true
        })
    }

    /// Answers the current line; returns whether the connection goes on.
    fn answer(&mut self, answer: &mut impl FnMut(&str) -> String) -> bool {
        let text = if self.line.len() > LONGEST_LINE {
            format!("error: a line has at most {LONGEST_LINE} bytes")
        } else {
            answer(&String::from_utf8_lossy(&self.line))
        };
        self.line.clear();
        self.stream.write_all(format!("{text}\n").as_bytes()).is_ok()
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        if self.file.is_some() && identity_at(&self.path) == self.file {
            // An error can no longer be reported.
            let _ = as_caller(|| fs::remove_file(&self.path));
        }
    }
}

/// The pause without a descriptor for another connection.
pub(crate) const DEAF: Duration = Duration::from_millis(100);
/// The most connections at once.
pub(crate) const MOST_CONNECTIONS: usize = 8;
const LONGEST_LINE: usize = 4_096;
