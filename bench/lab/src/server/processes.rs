//! A process for each connection: the paper's Apache, the slower baseline.
//!
//! ```text
//!   listener, as stdin ─┬─▶ process 1: accept ─▶ read, write, read, … asleep in each ─▶ accept
//!                       ├─▶ process 2
//!                       └─▶ …
//! ```
//!
//! All wait at one listener, started beforehand. Each blocks in its reads, so that the scheduler finds the next
//! request: such a server cannot poll at trigger states, since it has as many programs as connections.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::Stdio;

use softtimers_measure::child;

use super::connection::{Connection, Step, scratch};
use super::request::Site;
use softtimers_trials::command::{Killed, announced};

/// Starts `number` processes of this program with these words, each of which calls [`serve`], and waits until all are
/// ready: an earlier load would be measured together with their start.
///
/// # Errors
/// If the system refuses, or one of them ends.
pub fn start(number: usize, listener: &TcpListener, words: &[&str]) -> anyhow::Result<Vec<Killed>> {
    let one = |_| {
        let mut command = child::command()?;
        command.args(words).stdin(Stdio::from(listener.as_fd().try_clone_to_owned()?));
        Ok(announced(&mut command, READY)?.0)
    };
    (0..number).map(one).collect()
}

/// Serves the connections of the listener on this process's stdin, one after the other, for ever; prints on stderr when
/// it begins.
///
/// # Errors
/// If stdin is not a listener.
pub fn serve(site: &Site) -> io::Result<()> {
    let listener = TcpListener::from(io::stdin().as_fd().try_clone_to_owned()?);
    listener.local_addr()?;
    let mut scratch = scratch();
    eprintln!("{READY}");
    loop {
        // An error means that the client has given up meanwhile.
        let Ok((stream, _)) = listener.accept() else { continue };
        let mut connection: Connection<TcpStream> = Connection::new(stream);
        while let Step::Answered { .. } = connection.step(site, &mut scratch) {}
    }
}

const READY: &str = "ready";
