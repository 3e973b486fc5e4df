//! A UDP echo server that clients in another process keep saturated.

use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::process::{Child, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use softtimers_measure::child;
use softtimers_measure::class::Class;
use softtimers_measure::interrupt::Interrupt;
use softtimers_measure::processor::Processor;
use softtimers_net::udp::UdpSocket;
use softtimers_net::udp::{RecvBatch, SendBatch};

/// A UDP echo server on loopback and the process that keeps it busy.
#[derive(Debug)]
pub(crate) struct EchoServer {
    socket: UdpSocket,
    pub(super) requests: RecvBatch,
    answers: SendBatch,
    pub(super) answered: u64,
    pub(super) dropped: u64,
    clients: Child,
}

impl EchoServer {
    /// Starts it and its clients, which `program` provides and which are kept off `cpu`.
    pub(super) fn start(
        batch: usize,
        program: Option<&Path>,
        cpu: Option<Processor>,
        interrupt: &Interrupt,
    ) -> io::Result<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.set_nonblocking(true)?;
        // Clients that outlive the sender would disturb later measurements on this machine.
        let mut command = program.map_or_else(child::command, |program| Ok(child::command_of(program)))?;
        command.arg("echo-client").arg(socket.local_addr()?.to_string());
        command.args(["--window", CLIENT_WINDOW, "--size", REQUEST_SIZE, "--duration", CLIENT_DURATION]);
        // Sleeping clients have to be woken by the server, which costs it time; spinning clients need a CPU of their
        // own, and must not be of a real-time class, which they inherit. Only here is it known which CPUs they have.
        if Processor::two().is_some() && Class::current().may_spin() {
            command.arg("--spin");
        }
        let clients = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let largest = 2048;
        let mut server = EchoServer {
            socket,
            requests: RecvBatch::new(batch, largest),
            answers: SendBatch::new(batch, largest),
            answered: 0,
            dropped: 0,
            clients,
        };
        // Any failure from here on ends them.
        if let Some(processor) = cpu {
            processor.keep_off(server.clients.id())?;
        }
        server.await_clients(interrupt)?;
        Ok(server)
    }

    /// Answers until the clients run at full speed, so that their start is not part of the run; or until a signal ends
    /// the run.
    fn await_clients(&mut self, interrupt: &Interrupt) -> io::Result<()> {
        while self.answered < WARM_UP && !interrupt.arrived() {
            let patience = Timespec { tv_sec: 10, tv_nsec: 0 };
            let mut sources = vec![PollFd::new(&self.socket, PollFlags::IN)];
            // It is closed when they have ended.
            sources.extend(self.clients.stderr.iter().map(|said| PollFd::new(said, PollFlags::empty())));
            match poll(&mut sources, Some(&patience)) {
                Ok(0) => {
                    let silent = "the echo clients did not start within 10 s";
                    return Err(io::Error::new(io::ErrorKind::TimedOut, silent));
                }
                Err(Errno::INTR) => continue,
                outcome => outcome?,
            };
            if sources.get(1).is_some_and(|said| !said.revents().is_empty()) {
                return Err(self.ended_early());
            }
            let taken = self.take_group()?;
            self.answer(0..taken);
        }
        (self.answered, self.dropped) = (0, 0);
        Ok(())
    }

    /// Returns why the clients ended, in their own words.
    fn ended_early(&mut self) -> io::Error {
        let mut said = String::new();
        let read = self.clients.stderr.take().map_or(Ok(0), |mut pipe| pipe.read_to_string(&mut said));
        let last = said.lines().last().unwrap_or("they said nothing");
        let last = last.strip_prefix("softtimers: ").unwrap_or(last);
        read.err().unwrap_or_else(|| io::Error::other(format!("the echo clients ended: {last}")))
    }

    /// Makes one receive call; returns how many requests it received.
    pub(super) fn take_group(&mut self) -> io::Result<usize> {
        let received = match self.socket.recv_batch(&mut self.requests) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error),
        };
        Ok(received)
    }

    /// Makes one send call for the answers to some of them.
    pub(super) fn answer(&mut self, some: Range<usize>) {
        if some.is_empty() {
            return;
        }
        self.answers.clear();
        for request in self.requests.iter().skip(some.start).take(some.len()) {
            // Our clients send no request that is too long for the batch.
            let _ = self.answers.push(request.payload, Some(request.from));
        }
        self.answered += self.socket.send_batch(&mut self.answers).sent as u64;
        // Not kept for later: to the client a missing answer is a loss, and it asks again.
        self.dropped += self.answers.len() as u64;
    }

    /// Ends the clients. Returns their failure, if any; that a signal ended them together with the run is none.
    pub(super) fn stop(&mut self, interrupt: &Interrupt) -> Option<String> {
        let ended = self.clients.try_wait();
        let killed = self.clients.kill();
        // A client that cannot be killed is not waited for: it ends with this process.
        let waited = killed.and_then(|()| self.clients.wait());
        match (ended, waited) {
            // Ctrl-C signals all processes of the terminal.
            (Ok(Some(status)), _) if status.success() && interrupt.arrived() => None,
            (Ok(Some(status)), _) => {
                Some(format!("the echo clients had ended before the run did ({status}): it was idle in part"))
            }
            (_, Ok(_)) => None,
            (_, Err(error)) => Some(format!("the echo clients could not be ended: {error}")),
        }
    }
}

/// Does not leave the clients behind after a failed start.
impl Drop for EchoServer {
    fn drop(&mut self) {
        let _ = self.clients.kill().and_then(|()| self.clients.wait());
    }
}

impl AsFd for EchoServer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The number of outstanding requests, so that the server never waits for one.
const CLIENT_WINDOW: &str = "64";
const REQUEST_SIZE: &str = "64";
/// Longer than any run; the clients end with this process.
const CLIENT_DURATION: &str = "1000000s";
const WARM_UP: u64 = 1_000;
