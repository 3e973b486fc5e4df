//! The control socket: changes of the path while packets flow.
//!
//! ```text
//!   $ printf 'set up delay 50ms loss 1%%\nshow\n' | socat - UNIX-CONNECT:wan.sock
//!   ok
//!   {"up":{…},"down":{…}}
//! ```
//!
//! Whoever may open it may change the path, so only its owner may. It must not exist, and it is taken away
//! at the end. Lines and connections are bounded, and nobody who is slow holds up a packet: an answer that
//! finds no room ends its connection.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use softtimers_wan::Way;

use super::setting::{Change, Setting};
use crate::user::as_caller;

/// A Unix socket that takes commands.
#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
    path: PathBuf,
    connections: [Option<Connection>; MOST_CONNECTIONS],
}

#[derive(Debug)]
struct Connection {
    stream: UnixStream,
    line: Vec<u8>,
}

/// What a line asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// New values in one direction, or in both.
    Set(Option<Way>, Vec<Change>),
    /// The whole report.
    Show,
}

impl Control {
    /// Listens at a path that does not exist.
    ///
    /// # Errors
    /// `AddrInUse` if it does; what else the system says of it.
    pub fn bind(path: &Path) -> io::Result<Self> {
        // There must be no moment in which others could connect.
        let mask = rustix::process::umask(Mode::from(0o177));
        let listener = as_caller(|| UnixListener::bind(path));
        rustix::process::umask(mask);
        let listener = listener?;
        let control = Control { listener, path: path.to_owned(), connections: Default::default() };
        control.listener.set_nonblocking(true)?;
        Ok(control)
    }

    /// Takes a connection, if there is one and room for it: its number and its descriptor.
    pub fn accept(&mut self) -> Option<(usize, BorrowedFd<'_>)> {
        let (stream, _) = self.listener.accept().ok()?;
        stream.set_nonblocking(true).ok()?;
        let free = self.connections.iter().position(Option::is_none)?;
        let connection = self.connections[free].insert(Connection { stream, line: Vec::new() });
        Some((free, connection.stream.as_fd()))
    }

    /// Takes what a connection has sent, and answers each whole line.
    pub fn serve(&mut self, number: usize, mut answer: impl FnMut(Result<Request, String>) -> String) {
        let Some(slot) = self.connections.get_mut(number) else { return };
        let Some(connection) = slot else { return };
        if !connection.serve(&mut answer) {
            *slot = None;
        }
    }
}

impl Connection {
    /// Whether it goes on.
    fn serve(&mut self, answer: &mut impl FnMut(Result<Request, String>) -> String) -> bool {
        let mut buffer = [0; LONGEST_LINE];
        let read = match self.stream.read(&mut buffer) {
            Ok(0) => return false,
            Ok(read) => read,
            Err(error) => return matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        };
        for &byte in &buffer[..read] {
            if byte != b'\n' {
                // One byte more than allowed is kept, as the sign that there were.
                if self.line.len() <= LONGEST_LINE {
                    self.line.push(byte);
                }
                continue;
            }
            let text = if self.line.len() > LONGEST_LINE {
                format!("error: a line has at most {LONGEST_LINE} bytes")
            } else {
                answer(request(&String::from_utf8_lossy(&self.line)))
            };
            self.line.clear();
            if self.stream.write_all(format!("{text}\n").as_bytes()).is_err() {
                return false;
            }
        }
        true
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // Nobody is left to tell.
        let _ = as_caller(|| fs::remove_file(&self.path));
    }
}

/// Understands a line.
///
/// # Errors
/// What is wrong with it, and what is allowed.
pub fn request(line: &str) -> Result<Request, String> {
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
                let setting = Setting::named(name).ok_or_else(|| {
                    let names: Vec<_> =
                        super::setting::SETTINGS.iter().map(|setting| setting.flags[0]).collect();
                    format!("no setting {name:?}; there are {}", names.join(", "))
                })?;
                let value = words.next().ok_or_else(|| format!("{name} needs a value, {}", setting.value))?;
                changes.push(setting.change(value).map_err(|error| format!("{name} {value}: {error}"))?);
            }
            if changes.is_empty() { Err("nothing is set".into()) } else { Ok(Request::Set(way, changes)) }
        }
        _ => Err("the commands are: set up|down|both SETTING VALUE …; show".into()),
    }
}

/// Connections at once.
pub const MOST_CONNECTIONS: usize = 8;
const LONGEST_LINE: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn lines_are_understood_or_named() {
        let delay = Change::Delay(Duration::from_millis(50));
        assert_eq!(request("set up delay 50ms"), Ok(Request::Set(Some(Way::Up), vec![delay.clone()])));
        assert_eq!(request("  set  both delay 50ms "), Ok(Request::Set(None, vec![delay])));
        assert_eq!(request("show"), Ok(Request::Show));
        for line in
            ["", "set", "set up", "set left delay 1ms", "set up delay", "set up dealy 1ms", "show me", "\0"]
        {
            assert!(request(line).is_err(), "{line:?}");
        }
        assert_eq!(request("set up delay 5").unwrap_err().split(':').next(), Some("delay 5"));
    }
}
