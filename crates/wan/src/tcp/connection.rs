//! A connection with its two sockets: [`Connection`].
//!
//! ```text
//!   client ══ sides[0] ── flows[0], up ───▶ sides[1] ══ upstream
//!                      ◀─ flows[1], down ──
//! ```

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};
use softtimers::{EventLoop, Interest, TimerId, Timestamp, Token};

use crate::Way;
use crate::flow::{End, Flow, Load};
use crate::toxic::{Chain, Dose, Passed};

/// A client's connection and the one to the upstream.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) serial: u64,
    pub(super) flows: [Flow; 2],
    sides: [Side; 2],
    /// The socket towards the upstream, opened before the client was accepted, until it connects.
    towards: Option<OwnedFd>,
    /// Whether each direction is in line for the path.
    pub(super) in_line: [bool; 2],
    /// The time at which a byte last came or went.
    pub(super) moved: Timestamp,
    pub(super) expiry: Option<TimerId>,
    /// The toxics behind the path, each way.
    chains: [Chain; 2],
    /// The timer for their next event.
    pub(super) toxic_at: Option<(TimerId, Timestamp)>,
    was_reset: bool,
    was_closed: bool,
    /// Whether the client's side ends in order if the upstream refuses, and whether it has refused.
    ends_in_order: bool,
    was_refused: bool,
}

/// One of its ends.
#[derive(Debug, Default)]
struct Side {
    /// `None` before it is opened, and once it has failed.
    socket: Option<TcpStream>,
    connecting: bool,
    watched: Option<Interest>,
}

/// The state of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    /// The connection is open.
    Open,
    /// Both directions are over.
    Closed,
    /// One side has reset the connection.
    Reset,
}

impl Connection {
    pub(super) fn new(
        now: Timestamp,
        serial: u64,
        [client, towards]: [OwnedFd; 2],
        chains: [Chain; 2],
        ends_in_order: bool,
    ) -> Self {
        Connection {
            serial,
            flows: [Flow::opening(), Flow::default()],
            sides: [Side { socket: Some(client.into()), ..Side::default() }, Side::default()],
            towards: Some(towards),
            in_line: [false; 2],
            moved: now,
            expiry: None,
            chains,
            toxic_at: None,
            was_reset: false,
            was_closed: false,
            ends_in_order,
            was_refused: false,
        }
    }

    /// Receives a piece from the path. An error is the upstream's, which could not be connected to.
    pub(super) fn arrive(
        &mut self,
        now: Timestamp,
        way: Way,
        load: Load,
        upstream: SocketAddr,
    ) -> io::Result<()> {
        let chain = &mut self.chains[flow(way)];
        match load {
            Load::Open => {
                match self.towards.take().map_or(Ok(None), |socket| begin(socket, upstream).map(Some)) {
                    Ok(socket) => self.sides[1] = Side { socket, connecting: true, watched: None },
                    Err(error) => {
                        self.refuse(1);
                        return Err(error);
                    }
                }
            }
            Load::Bytes(bytes) if chain.is_clear() => self.flows[flow(way)].arrive(bytes),
            Load::Bytes(bytes) => chain.offer(now, bytes),
            Load::End(End::Finished) if chain.is_clear() => self.flows[flow(way)].arrive_end(),
            Load::End(End::Finished) => chain.end(now),
            Load::End(End::Reset) => self.was_reset = true,
        }
        self.let_through(now);
        Ok(())
    }

    /// Sets the toxics from now on.
    pub(super) fn set_toxics(&mut self, now: Timestamp, way: Way, doses: &[Dose]) {
        self.chains[flow(way)].set(now, doses);
        self.let_through(now);
    }

    /// Passes on what the toxics release by now.
    pub(super) fn let_through(&mut self, now: Timestamp) {
        for (chain, flow) in self.chains.iter_mut().zip(&mut self.flows) {
            while let Some(passed) = chain.pop_due(now) {
                match passed {
                    Passed::Bytes(bytes) => flow.arrive(bytes),
                    Passed::End => flow.arrive_end(),
                    Passed::Close => self.was_closed = true,
                    Passed::Reset => self.was_reset = true,
                }
            }
            flow.swallow(chain.swallowed());
        }
    }

    /// Returns when the toxics release something next.
    pub(super) fn next_toxic(&self) -> Option<Timestamp> {
        self.chains.iter().filter_map(Chain::poll_at).min()
    }

    /// Checks whether the upstream has accepted the connection, after its socket was reported.
    pub(super) fn connected(&mut self, side: usize) -> io::Result<()> {
        let Side { socket: Some(socket), connecting: connecting @ true, .. } = &mut self.sides[side] else {
            return Ok(());
        };
        *connecting = false;
        let outcome = match socket.take_error() {
            Ok(None) => socket.set_nodelay(true),
            Ok(Some(error)) | Err(error) => Err(error),
        };
        if outcome.is_err() {
            self.refuse(side);
        }
        outcome
    }

    /// Reads once from one side, if bytes are wanted.
    pub(super) fn read(&mut self, now: Timestamp, side: usize, window: usize, buffer: &mut [u8]) {
        let Side { socket: Some(socket), connecting: false, .. } = &mut self.sides[side] else { return };
        let room = self.flows[side].appetite(window).min(buffer.len());
        if room == 0 {
            return;
        }
        match socket.read(&mut buffer[..room]) {
            Ok(0) => self.flows[side].end(End::Finished),
            Ok(length) => {
                self.flows[side].take(&buffer[..length]);
                self.moved = now;
            }
            Err(error) if is_passing(&error) => {}
            Err(_) => self.fail(side),
        }
    }

    /// Writes arrived bytes to one side, as many as it accepts.
    pub(super) fn write(&mut self, now: Timestamp, side: usize) {
        let Side { socket: Some(socket), connecting: false, .. } = &mut self.sides[side] else { return };
        let flow = &mut self.flows[1 - side];
        while !flow.slices().is_empty() {
            match socket.write_vectored(&flow.slices()) {
                Ok(length) => {
                    flow.wrote(length);
                    self.moved = now;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return self.fail(side),
            }
        }
        if flow.end_is_due() {
            flow.is_over = true;
            if socket.shutdown(Shutdown::Write).is_err() {
                self.fail(side);
            }
        }
    }

    /// Makes the loop watch each side only for what it needs: an event that is reported and not handled would be
    /// reported for ever.
    pub(super) fn watch(&mut self, events: &EventLoop, slot: u32, window: usize) {
        for side in 0..2 {
            let reads = self.flows[side].appetite(window) > 0;
            let Side { socket: Some(socket), connecting, watched } = &mut self.sides[side] else { continue };
            let writes = *connecting || self.flows[1 - side].wants_to_write();
            let wanted = match (reads && !*connecting, writes) {
                (true, true) => Some(Interest::Both),
                (true, false) => Some(Interest::Readable),
                (false, true) => Some(Interest::Writable),
                (false, false) => None,
            };
            if wanted == *watched {
                continue;
            }
            let token = Token(u64::from(slot) * 2 + side as u64);
            let outcome = match (*watched, wanted) {
                (_, None) => events.deregister(socket),
                (None, Some(interest)) => events.register(socket, token, interest),
                (Some(_), Some(interest)) => events.reregister(socket, token, interest),
            };
            *watched = wanted;
            if outcome.is_err() {
                self.fail(side);
            }
        }
    }

    pub(super) fn standing(&self) -> Standing {
        if self.was_reset {
            Standing::Reset
        } else if (self.was_closed && !self.flows.iter().any(Flow::has_backlog))
            || (self.was_refused && self.flows[1].is_over)
        {
            Standing::Closed
        } else if self.flows.iter().all(|flow| flow.is_over) {
            // If a side failed, its reset is still on the path.
            if self.sides.iter().all(|side| side.socket.is_some()) {
                Standing::Closed
            } else {
                Standing::Open
            }
        } else {
            Standing::Open
        }
    }

    /// Resets both sides.
    pub(super) fn abort(&mut self) {
        self.sides.iter_mut().for_each(Side::abort);
    }

    /// Handles an upstream that refuses the connection.
    fn refuse(&mut self, side: usize) {
        if !self.ends_in_order {
            return self.fail(side);
        }
        self.was_refused = true;
        self.sides[side].abort();
        self.flows[side].end(End::Finished);
        self.flows[1 - side].abandon();
    }

    /// Handles the failure of one side: the other learns of it over the path.
    fn fail(&mut self, side: usize) {
        self.sides[side].abort();
        self.flows[side].end(End::Reset);
        self.flows[1 - side].abandon();
    }
}

impl Side {
    fn abort(&mut self) {
        if let Some(socket) = self.socket.take() {
            reset(socket);
        }
        *self = Side::default();
    }
}

/// Ends a connection by a reset.
pub(super) fn reset(socket: TcpStream) {
    // If the system refuses, it ends in order.
    let _ = sockopt::set_socket_linger(&socket, Some(Duration::ZERO));
    drop(socket);
}

/// Returns the index of a direction's flow, which reads from the side of the same number and writes to the other.
pub(super) fn flow(way: Way) -> usize {
    if way == Way::Up { 0 } else { 1 }
}

/// Opens a socket that can connect to this address.
pub(super) fn open_towards(upstream: SocketAddr) -> io::Result<OwnedFd> {
    let family = if upstream.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(family, SocketType::STREAM, flags, None)?)
}

fn begin(socket: OwnedFd, upstream: SocketAddr) -> io::Result<TcpStream> {
    match connect(&socket, &upstream) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket.into()),
        Err(error) => Err(error.into()),
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
