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

use super::pipes::{Pipe, Pipes};
use crate::Way;
use crate::flow::{End, Flow, Load, Segment};
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
    /// The pipe with bytes of each direction, if they stay in the kernel.
    pipes: [Option<Pipe>; 2],
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
            pipes: [None, None],
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
        segment: Segment,
        upstream: SocketAddr,
    ) -> io::Result<()> {
        let (index, mut outcome) = (flow(way), Ok(()));
        let mut next = self.flows[index].take_in(segment);
        while let Some(load) = next {
            let (chain, flow) = (&mut self.chains[index], &mut self.flows[index]);
            match load {
                Load::Open => outcome = self.open(upstream),
                Load::Bytes(bytes) if chain.is_clear() => flow.arrive(bytes),
                Load::Bytes(bytes) => chain.offer(now, bytes),
                Load::Piped(bytes) if chain.is_clear() => flow.arrive_piped(bytes),
                // Toxics have come while it was under way.
                Load::Piped(bytes) => {
                    let pipe = self.pipes[index].as_ref();
                    pipe.into_iter().for_each(|pipe| chain.offer(now, pipe.copied(bytes as usize)));
                    flow.empty_pipe();
                }
                Load::End(End::Finished) if chain.is_clear() => flow.arrive_end(),
                Load::End(End::Finished) => chain.end(now),
                Load::End(End::Reset) => self.was_reset = true,
            }
            next = self.flows[index].next_early();
        }
        self.let_through(now);
        outcome
    }

    /// Begins to connect to the upstream.
    fn open(&mut self, upstream: SocketAddr) -> io::Result<()> {
        let Some(towards) = self.towards.take() else { return Ok(()) };
        match begin(towards, upstream) {
            Ok(socket) => self.sides[1] = Side { socket: Some(socket), connecting: true, watched: None },
            Err(error) => {
                self.refuse(1);
                return Err(error);
            }
        }
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

    /// Reads once from one side, if bytes are wanted; without copying them, if the direction is free and one of the pipes
    /// is, which come with the most bytes of a piece.
    pub(super) fn read(
        &mut self,
        now: Timestamp,
        side: usize,
        window: usize,
        buffer: &mut [u8],
        pipes: Option<(&mut Pipes, usize)>,
    ) {
        let Side { socket: Some(socket), connecting: false, .. } = &mut self.sides[side] else { return };
        let flow = &mut self.flows[side];
        let room = flow.appetite(window).min(buffer.len());
        if room == 0 {
            return;
        }
        let is_free = flow.is_empty() && self.chains[side].is_clear() && self.pipes[side].is_none();
        if let Some((pipes, most)) = pipes.filter(|_| is_free) {
            match pipes.fill(socket, most.min(window)) {
                None => {}
                Some(Ok((pipe, 0))) => {
                    pipes.put_back(pipe);
                    return flow.end(End::Finished);
                }
                Some(Ok((pipe, bytes))) => {
                    flow.take_piped(bytes);
                    self.pipes[side] = Some(pipe);
                    self.moved = now;
                    return;
                }
                Some(Err(error)) if is_passing(&error) => return,
                Some(Err(_)) => return self.fail(side),
            }
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

    /// Returns how many pipes it has.
    pub(super) fn piped(&self) -> usize {
        self.pipes.iter().flatten().count()
    }

    /// Returns the pipes that have become empty.
    pub(super) fn emptied(&mut self) -> impl Iterator<Item = Pipe> {
        let flows = &self.flows;
        let ways = self.pipes.iter_mut().zip(flows);
        ways.filter_map(|(pipe, flow)| if flow.has_piped() { None } else { pipe.take() })
    }

    /// Writes arrived bytes to one side, as many as it accepts.
    pub(super) fn write(&mut self, now: Timestamp, side: usize) {
        let Side { socket: Some(socket), connecting: false, .. } = &mut self.sides[side] else { return };
        let flow = &mut self.flows[1 - side];
        while let (Some(pipe), bytes @ 1..) = (&self.pipes[1 - side], flow.piped()) {
            match pipe.empty_into(socket, bytes) {
                Ok(length) => {
                    flow.wrote_piped(length);
                    self.moved = now;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return self.fail(side),
            }
        }
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
