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
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};

use super::connection::{Connection, Step, scratch};
use super::request::Site;

/// Processes that end with this.
#[derive(Debug)]
pub struct Processes(Vec<Child>);

impl Processes {
    /// Starts so many of this program with these arguments, each of which is to call [`serve`].
    ///
    /// # Errors
    /// If the system refuses.
    pub fn start(number: usize, listener: &TcpListener, arguments: &[String]) -> io::Result<Self> {
        let mut processes = Processes(Vec::with_capacity(number));
        for _ in 0..number {
            let inherited: OwnedFd = listener.as_fd().try_clone_to_owned()?;
            let mut command = Command::new(std::env::current_exe()?);
            command.args(arguments).stdin(Stdio::from(inherited)).stdout(Stdio::null());
            processes.0.push(command.spawn()?);
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

/// Serves the connections of the listener that is this process's stdin, one after the other, for ever.
///
/// # Errors
/// If stdin is no listener.
pub fn serve(site: &Site) -> io::Result<()> {
    let listener = TcpListener::from(io::stdin().as_fd().try_clone_to_owned()?);
    listener.local_addr()?;
    let mut scratch = scratch();
    loop {
        // An error is a client's who has given up meanwhile.
        let Ok((stream, _)) = listener.accept() else { continue };
        let mut connection: Connection<TcpStream> = Connection::new(stream);
        while let Step::Answered { .. } = connection.step(site, &mut scratch) {}
    }
}
