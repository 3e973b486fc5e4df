//! The control socket: changes of the path while packets flow.
//!
//! ```text
//!   $ printf 'set up delay 50ms loss 1%%\nshow\n' | socat - UNIX-CONNECT:wan.sock
//!   ok
//!   {"up":{…},"down":{…}}
//! ```
//!
//! Whoever may open it may change the path, so only its owner may. One that a killed run left behind is replaced, when
//! connecting says that nobody is there; whatever else is at its place stays. It is taken away at the end.
//!
//! Lines and connections are bounded, and nobody who is slow holds up a packet, or anybody else: an answer that finds no
//! room ends its connection, and where there are more than there is room for, the one that was silent for longest gives
//! way.

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
use softtimers_wan::{Change, Way};

use super::setting::Setting;
use crate::run::privileges::user::as_caller;

/// A Unix socket that takes commands.
#[derive(Debug)]
pub(crate) struct Control {
    listener: UnixListener,
    path: PathBuf,
    /// The identity of the file: another may be at its place by the end.
    file: Option<(u64, u64)>,
    connections: [Option<Connection>; MOST_CONNECTIONS],
    /// Counts what connections do, to know which has done nothing for longest.
    clock: u64,
}

#[derive(Debug)]
struct Connection {
    stream: UnixStream,
    line: Vec<u8>,
    /// When it last did something.
    active: u64,
}

/// A request by a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Request {
    /// New values in one direction, or in both.
    Set(Option<Way>, Vec<Change>),
    /// Shows the whole report.
    Show,
}

impl Control {
    /// Listens at a path where there is nothing, or a socket at which nobody listens any more.
    ///
    /// # Errors
    /// `AddrInUse` if something else is there; what else the system says of it.
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

    /// Takes a connection, if there is one: its number and its descriptor. If there is no room, another gives way.
    ///
    /// # Errors
    /// If it stays where it is, as without a free descriptor: it is to be tried again later, not at once.
    pub(crate) fn accept(&mut self) -> io::Result<Option<(usize, BorrowedFd<'_>)>> {
        let stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            // Whoever it was is gone.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionAborted) => {
                return Ok(None);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(None),
            Err(error) => return Err(error),
        };
        stream.set_nonblocking(true)?;
        self.clock += 1;
        let active = |slot: &Option<Connection>| slot.as_ref().map(|connection| connection.active);
        // An empty place is before all others.
        let place = (0..MOST_CONNECTIONS).min_by_key(|&place| active(&self.connections[place])).unwrap_or(0);
        if let Some(Connection { mut stream, .. }) = self.connections[place].take() {
            let _ = writeln!(stream, "error: {MOST_CONNECTIONS} later connections have taken its place");
        }
        let connection = Connection { stream, line: Vec::new(), active: self.clock };
        Ok(Some((place, self.connections[place].insert(connection).stream.as_fd())))
    }

    /// The connections there are: their numbers and descriptors.
    pub(crate) fn connections(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>)> {
        let there = |(number, slot)| Some((number, Option::as_ref(slot)?));
        let all = self.connections.iter().enumerate().filter_map(there);
        all.map(|(number, connection): (_, &Connection)| (number, connection.stream.as_fd()))
    }

    /// Ends a connection to the socket.
    pub(crate) fn close(&mut self, number: usize) {
        self.connections.iter_mut().skip(number).take(1).for_each(|slot| *slot = None);
    }

    /// Takes what a connection has sent, and answers each whole line.
    pub(crate) fn serve(&mut self, number: usize, mut answer: impl FnMut(&str) -> String) {
        let Some(Some(connection)) = self.connections.get_mut(number) else { return };
        self.clock += 1;
        connection.active = self.clock;
        if !connection.serve(&mut answer) {
            self.close(number);
        }
    }
}

/// A socket at this path, which only this user may open.
fn listen(path: &Path) -> io::Result<UnixListener> {
    // There must be no moment in which others could connect.
    let mask = rustix::process::umask(Mode::from(0o177));
    let listener = as_caller(|| UnixListener::bind(path));
    rustix::process::umask(mask);
    listener
}

/// Removes a socket at which nobody listens, and nothing else.
fn remove_abandoned(path: &Path) -> io::Result<()> {
    let in_use = |why: &str| Err(io::Error::new(ErrorKind::AddrInUse, why));
    let metadata = as_caller(|| fs::symlink_metadata(path))?;
    if !metadata.file_type().is_socket() {
        return in_use("exists, and is no socket");
    }
    // A connection that would have to wait is none to nobody.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match connect(&socket, &SocketAddrUnix::new(path)?) {
        Err(Errno::CONNREFUSED) => {}
        Ok(()) | Err(Errno::AGAIN | Errno::PROTOTYPE) => {
            return in_use("a program that runs listens there");
        }
        Err(error) => return Err(error.into()),
    }
    // Somebody else may have found the same, and be there by now.
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
            // One byte more than allowed is kept, as the sign that there were.
            if self.line.len() <= LONGEST_LINE {
                self.line.push(byte);
            }
            true
        })
    }

    /// Answers the line that is there; whether the connection goes on.
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
            // Nobody is left to tell of an error.
            let _ = as_caller(|| fs::remove_file(&self.path));
        }
    }
}

/// Parses a line.
///
/// # Errors
/// Names the fault, and what is allowed.
pub(crate) fn request(line: &str) -> Result<Request, String> {
    let mut words = line.split_ascii_whitespace();
    match words.next() {
        Some("show") => match words.next() {
            None => Ok(Request::Show),
            Some(word) => Err(format!("show takes nothing, not {word:?}")),
        },
        Some("set") => {
            let way = match words.next() {
                Some("up") => Some(Way::Up),
                Some("down") => Some(Way::Down),
                Some("both") => None,
                _ => return Err("set up, set down or set both, then settings with their values".into()),
            };
            let mut changes = Vec::new();
            while let Some(name) = words.next() {
                changes.push(change(name, words.next())?);
            }
            if changes.is_empty() { Err("nothing is set".into()) } else { Ok(Request::Set(way, changes)) }
        }
        _ => Err("the commands are: set up|down|both SETTING VALUE …; show".into()),
    }
}

/// A new value of the setting `name`. `rtt` is one of two directions: half of it is the delay of each.
pub(super) fn change(name: &str, value: Option<&str>) -> Result<Change, String> {
    let is_rtt = name == "rtt";
    let setting = Setting::named(if is_rtt { "delay" } else { name }).ok_or_else(|| {
        let names: Vec<_> = super::setting::SETTINGS.iter().map(|setting| setting.flags[0]).collect();
        format!("no setting {name:?}; there are rtt, {}", names.join(", "))
    })?;
    let value = value.ok_or_else(|| format!("{name} needs a value, {}", setting.value))?;
    Ok(match setting.change(value).map_err(|error| format!("{name} {value}: {error}"))? {
        Change::Delay(rtt) if is_rtt => Change::Delay(rtt / 2),
        change => change,
    })
}

/// Without a descriptor for another connection: one may be free later.
pub(crate) const DEAF: Duration = Duration::from_millis(100);
/// The most connections at once.
pub(crate) const MOST_CONNECTIONS: usize = 8;
const LONGEST_LINE: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood_or_named() {
        let delay = Change::Delay(Duration::from_millis(50));
        assert_eq!(request("set up delay 50ms"), Ok(Request::Set(Some(Way::Up), vec![delay.clone()])));
        assert_eq!(request("  set  both delay 50ms "), Ok(Request::Set(None, vec![delay.clone()])));
        assert_eq!(request("set both rtt 100ms"), Ok(Request::Set(None, vec![delay])));
        assert!(request("set both rtt 5").unwrap_err().starts_with("rtt 5: "));
        assert_eq!(request("show"), Ok(Request::Show));
        for line in
            ["", "set", "set up", "set left delay 1ms", "set up delay", "set up dealy 1ms", "show me", "\0"]
        {
            assert!(request(line).is_err(), "{line:?}");
        }
        assert_eq!(request("set up delay 5").unwrap_err().split(':').next(), Some("delay 5"));
    }
}
