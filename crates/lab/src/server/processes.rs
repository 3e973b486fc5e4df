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

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Stdio};

use softtimers_measure::child;

use super::connection::{Connection, Step, scratch};
use super::request::Site;

/// Processes that end with this.
#[derive(Debug)]
pub struct Processes(Vec<Child>);

impl Processes {
    /// Starts so many of this program with these words, each of which is to call [`serve`], and waits until all are
    /// ready: a load that came sooner would be measured beside their start.
    ///
    /// # Errors
    /// If the system refuses, or one of them ends.
    pub fn start(number: usize, listener: &TcpListener, words: &[&str]) -> io::Result<Self> {
        let mut processes = Processes(Vec::with_capacity(number));
        for _ in 0..number {
            let inherited: OwnedFd = listener.as_fd().try_clone_to_owned()?;
            let mut command = child::command()?;
            command.args(words).stdin(Stdio::from(inherited)).stdout(Stdio::piped());
            processes.0.push(command.spawn()?);
        }
        for child in &mut processes.0 {
            let said =
                child.stdout.take().map(|mut stdout| stdout.read(&mut [0; READY.len()])).transpose()?;
            if said.is_none_or(|bytes| bytes == 0) {
                return Err(io::Error::other("a process did not begin to serve"));
            }
        }
        Ok(processes)
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
        }
        for child in &mut self.0 {
            let _ = child.wait();
        }
    }
}

/// Serves the connections of the listener that is this process's stdin, one after the other, for ever; says on stdout when it
/// begins.
///
/// # Errors
/// If stdin is no listener, or nobody hears it.
pub fn serve(site: &Site) -> io::Result<()> {
    let listener = TcpListener::from(io::stdin().as_fd().try_clone_to_owned()?);
    listener.local_addr()?;
    let mut scratch = scratch();
    let mut stdout = io::stdout();
    stdout.write_all(READY)?;
    stdout.flush()?;
    loop {
        // An error is a client's who has given up meanwhile.
        let Ok((stream, _)) = listener.accept() else { continue };
        let mut connection: Connection<TcpStream> = Connection::new(stream);
        while let Step::Answered { .. } = connection.step(site, &mut scratch) {}
    }
}

const READY: &[u8] = b"ready\n";
