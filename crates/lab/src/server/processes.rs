//! A process for each connection: the paper's Apache, which is the server to be slower than.
//!
//! ```text
//!   listener, as stdin ─┬─▶ process 1: accept ─▶ read, write, read, … asleep in each ─▶ accept
//!                       ├─▶ process 2
//!                       └─▶ …
//! ```
//!
//! All wait at one listener, started beforehand. Each sleeps in its reads, so that the scheduler is what finds the next
//! request: this one cannot be polled from trigger states of a program, for it has as many programs as connections.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::Stdio;

use softtimers_measure::child;

use super::connection::{Connection, Step, scratch};
use super::request::Site;
use crate::command::{Killed, announced};

/// Starts `number` of this program with these words, each of which is to call [`serve`], and waits until all are
/// ready: a load that came sooner would be measured beside their start.
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

/// Serves the connections of the listener that is this process's stdin, one after the other, for ever; says on stderr when it
/// begins.
///
/// # Errors
/// If stdin is no listener.
pub fn serve(site: &Site) -> io::Result<()> {
    let listener = TcpListener::from(io::stdin().as_fd().try_clone_to_owned()?);
    listener.local_addr()?;
    let mut scratch = scratch();
    eprintln!("{READY}");
    loop {
        // An error is a client's who has given up meanwhile.
        let Ok((stream, _)) = listener.accept() else { continue };
        let mut connection: Connection<TcpStream> = Connection::new(stream);
        while let Step::Answered { .. } = connection.step(site, &mut scratch) {}
    }
}

const READY: &str = "ready";
