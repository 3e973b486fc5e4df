//! The two sides of the relay, as devices of a poller: [`Side`].
//!
//! ```text
//!   clients ──▶ listening socket ── Side ─▶ handler ─▶ Side ── a socket for each client ──▶ upstream
//!           ◀── sendmmsg ── Output ◀─┘                  └─▶ Output, a run for each client: sendmmsg
//! ```
//!
//! [`NapiDevice`] receives from clients; it polls their interface's queue if it is told to. The sockets of the other
//! side are read in turn, a few datagrams each, so that one client with a thousand answers does not delay the others. A
//! turn's datagrams leave grouped by client, each client's in order of arrival: those of one socket by one system call,
//! and those of one length to one address by one send that the kernel segments (`UDP_SEGMENT`). So interleaved clients
//! cost no more system calls than clients that send in bursts. The clock is read once a turn.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::mem::{replace, take};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use softtimers_net::napi::{BACKUP, Driven, NapiDevice};
use softtimers_net::poller::{Device, Drops, Left, Packet, Received, Sent, UdpDevice};
use softtimers_net::relay::ClientId;
use softtimers_net::udp::{RecvBatch, Stopped, UdpSocket, is_about_an_earlier_datagram};

use super::hop::{BATCH, Hop, LONGEST_DATAGRAM, Peer};
use super::output::Output;
use super::table::Table;
use crate::forwarder::engine::{Counted, RunEnd};
use crate::forwarder::notify::Notify;
use crate::forwarder::stats::Stats;
use crate::forwarder::volume::Volume;

/// One side of the relay.
#[derive(Debug)]
pub(crate) struct Side {
    inlet: Inlet,
    output: Output,
    until: RunEnd,
    /// Datagrams received.
    came: u64,
    /// Datagrams received since the last count.
    received: Volume,
    /// Drops of receive buffers at the last check.
    ring: u64,
    counted: Counters,
}

/// The counts of others, up to the last count here.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    ring: u64,
    refusals: u64,
}

#[derive(Debug)]
enum Inlet {
    Clients(Box<Clients>),
    Upstream(Box<Answers>),
}

/// The socket that clients send to.
#[derive(Debug)]
struct Clients {
    device: NapiDevice,
    /// Who is to be told that its queue cannot be polled, until then.
    notify: Option<Notify>,
}

/// The receiving end of the clients' sockets.
#[derive(Debug)]
struct Answers {
    table: Rc<RefCell<Table>>,
    /// A duplicate of the table's descriptor, which cannot be borrowed from its cell.
    readable: OwnedFd,
    batch: RecvBatch,
    ready: VecDeque<u32>,
    refusals: u64,
}

impl Side {
    fn new(inlet: Inlet, until: RunEnd) -> Self {
        let (received, counted) = (Volume::default(), Counters::default());
        Side { inlet, output: Output::new(), until, came: 0, received, ring: 0, counted }
    }

    /// Creates the device of the clients' side, which counts its socket's drops from now on, and polls its queue if `napi`.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn device(socket: UdpSocket, napi: bool) -> io::Result<NapiDevice> {
        let device = UdpDevice::with_room(socket, BATCH, LONGEST_DATAGRAM)?;
        Ok(if napi { NapiDevice::new(device, BACKUP) } else { NapiDevice::by_interrupts(device) })
    }

    /// Creates the side of the clients.
    pub(crate) fn clients(device: NapiDevice, until: RunEnd, notify: Notify) -> Self {
        Side::new(Inlet::Clients(Box::new(Clients { device, notify: Some(notify) })), until)
    }

    /// Creates the side of the upstream.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub(crate) fn upstream(table: &Rc<RefCell<Table>>, until: RunEnd) -> io::Result<Self> {
        let answers = Answers {
            readable: table.borrow().as_fd().try_clone_to_owned()?,
            table: Rc::clone(table),
            batch: RecvBatch::new(BATCH, LONGEST_DATAGRAM),
            ready: VecDeque::new(),
            refusals: 0,
        };
        let inlet = Inlet::Upstream(Box::new(answers));
        Ok(Side::new(inlet, until))
    }

    /// Returns how often the other end, or a host on the way, replied unreachable (ICMP).
    fn refusals(&self) -> u64 {
        match &self.inlet {
            Inlet::Clients(clients) => clients.device.device().refusals(),
            Inlet::Upstream(answers) => answers.refusals,
        }
    }
}

impl Counted for Side {
    fn received(&self) -> u64 {
        self.came
    }

    fn count(&mut self, end: usize, stats: &mut Stats) {
        if let Inlet::Clients(clients) = &mut self.inlet {
            clients.say_if_left();
        }
        let counted = &mut stats.ends[end];
        counted.received += &take(&mut self.received);
        counted.sent += &take(&mut self.output.sent);
        counted.dropped.output += &take(&mut self.output.failed);
        counted.dropped.ring += self.ring.saturating_sub(replace(&mut self.counted.ring, self.ring));
        self.output.latencies.drain(..).for_each(|latency| stats.latency.record(latency));
        let refusals = self.refusals();
        let new = refusals - replace(&mut self.counted.refusals, refusals);
        stats.clients.get_or_insert_default().upstream_refused += new;
    }

    /// Reads the drops of receive buffers, with a system call for each socket.
    fn ask(&mut self) -> io::Result<()> {
        self.ring = match &mut self.inlet {
            // A system without this count stays without it.
            Inlet::Clients(clients) => clients.device.drops().map_or(self.ring, |drops| drops.ring),
            Inlet::Upstream(answers) => answers.table.borrow().sessions.dropped(),
        };
        Ok(())
    }

    fn flush(&mut self) {
        while let Ok(Sent { left: Left::More, .. }) = self.poll_tx(BATCH) {}
        while self.output.discard() {}
    }
}

impl Side {
    /// Sends at most `quota`, each run by its socket.
    fn transmit(&mut self, quota: usize) -> Sent {
        let mut done = 0;
        while let Some((peer, run)) = self.output.run(quota - done) {
            let batch = &mut self.output.batch;
            let outcome = match (&mut self.inlet, peer) {
                (Inlet::Clients(clients), _) => clients.device.device().socket().send_at_most(batch, run),
                (Inlet::Upstream(answers), Peer::Upstream(client)) => {
                    match answers.table.borrow_mut().sessions.socket(client) {
                        Some(socket) => {
                            let outcome = socket.send_at_most(batch, run);
                            answers.refusals += outcome.retried as u64;
                            outcome
                        }
                        // Its client was evicted meanwhile.
                        None => {
                            self.output.discard();
                            continue;
                        }
                    }
                }
                (Inlet::Upstream(_), Peer::Address(_)) => {
                    self.output.discard();
                    continue;
                }
            };
            self.output.have_left(outcome.sent);
            done += outcome.sent;
            match outcome.stopped {
                None => {}
                Some(Stopped::WouldBlock | Stopped::NoBuffers) => {
                    return Sent { done, left: Left::Blocked };
                }
                // This error concerns this datagram only: no route, or too long for the path.
                Some(Stopped::Error(_)) => drop(self.output.discard()),
            }
        }
        Sent { done, left: if self.output.is_empty() { Left::Nothing } else { Left::More } }
    }
}

impl Device for Side {
    type Address = Hop;
    type Transmitter = Output;

    fn poll_rx(
        &mut self,
        quota: usize,
        mut sink: impl FnMut(Packet<'_, Hop>, &mut Output),
    ) -> io::Result<Received> {
        let mut done = 0;
        loop {
            let some = (quota - done).min(BATCH);
            let (output, received, came) = (&mut self.output, &mut self.received, &mut self.came);
            let turn = match &mut self.inlet {
                Inlet::Clients(clients) => clients.device.poll_rx(some, |packet, _| {
                    let Packet { bytes, from, arrived, truncated } = packet;
                    let from = Hop { peer: Peer::Address(from), arrived };
                    received.count(bytes.len());
                    *came += 1;
                    sink(Packet { bytes, from, arrived, truncated }, output);
                }),
                Inlet::Upstream(answers) => answers.poll_rx(some, |packet| {
                    received.count(packet.bytes.len());
                    *came += 1;
                    sink(packet, output);
                }),
            }?;
            done += turn.done;
            if !turn.more || done >= quota || self.until.is_reached(self.came) {
                return Ok(Received { done, more: turn.more });
            }
        }
    }

    fn poll_tx(&mut self, quota: usize) -> io::Result<Sent> {
        self.output.arrange();
        let sent = self.transmit(quota);
        self.output.note_departures();
        Ok(sent)
    }

    fn transmitter(&mut self) -> &mut Output {
        &mut self.output
    }

    /// Both descriptors are readable while a datagram is there.
    fn arm(&mut self) -> io::Result<bool> {
        match &mut self.inlet {
            Inlet::Clients(clients) => clients.device.arm(),
            Inlet::Upstream(_) => Ok(true),
        }
    }

    /// The datagrams dropped here are [counted](Counted::count) with their bytes.
    fn drops(&mut self) -> io::Result<Drops> {
        Ok(Drops { ring: self.ring, ..Drops::default() })
    }
}

impl AsFd for Side {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.inlet {
            Inlet::Clients(clients) => clients.device.as_fd(),
            Inlet::Upstream(answers) => answers.readable.as_fd(),
        }
    }
}

impl Clients {
    /// Tells once that polls are not possible, or not any more.
    fn say_if_left(&mut self) {
        if self.notify.is_some()
            && let Driven::FellBack(why) = self.device.driven()
            && let Some(notify) = self.notify.take()
        {
            notify(format_args!("driver udp: {why}"));
        }
    }
}

impl Answers {
    fn poll_rx(&mut self, quota: usize, mut sink: impl FnMut(Packet<'_, Hop>)) -> io::Result<Received> {
        let (mut done, mut looked) = (0, false);
        while done < quota {
            let Some(slot) = self.ready.pop_front() else {
                if !looked {
                    self.table.borrow_mut().ready(&mut self.ready)?;
                }
                if replace(&mut looked, true) || self.ready.is_empty() {
                    return Ok(Received { done, more: false });
                }
                continue;
            };
            let asked = (quota - done).min(SHARE);
            let Some((client, received)) = self.receive(slot, asked) else { continue };
            for index in 0..received {
                let Some(datagram) = self.batch.get(index) else { break };
                let (arrived, truncated) = (datagram.received, datagram.truncated);
                let Some(bytes) = self.batch.payload_mut(index) else { break };
                let from = Hop { peer: Peer::Upstream(client), arrived };
                sink(Packet { bytes, from, arrived, truncated });
            }
            done += received;
            if received == asked {
                self.ready.push_back(slot);
            }
        }
        Ok(Received { done, more: true })
    }

    /// Receives from the socket in a slot; `None` if it has no datagram, or no client any more.
    fn receive(&mut self, slot: u32, most: usize) -> Option<(ClientId, usize)> {
        let mut table = self.table.borrow_mut();
        let (client, socket) = table.sessions.in_slot(slot)?;
        match socket.recv_at_most(&mut self.batch, most) {
            Ok(received) => Some((client, received)),
            Err(error) => {
                self.refusals += u64::from(is_about_an_earlier_datagram(&error));
                None
            }
        }
    }
}

/// Datagrams from one socket before the next one's turn.
const SHARE: usize = 16;
