//! `softtimers echo-client`: the load of `send --busy echo`, in a process of its own so that its work
//! is not measured as the sender's.
//!
//! The client is a closed loop: a fixed number of datagrams is under way, and each reply is answered
//! by the next request at once. A server that falls behind is therefore kept exactly busy, never
//! flooded, and replies per second are its work rate. What is lost is sent again after 100 ms, so
//! that the number under way does not shrink.
//!
//! ```text
//!   slots   0 1 2 3 … window-1      request: slot, generation, padding
//!           │ └── reply: same slot and generation ─▶ next generation, sent at once
//!           └──── no reply for 100 ms ─────────────▶ next generation, counted as lost
//! ```
//!
//! With `--spin` it never sleeps. A sleeping client would have to be woken by the server's replies, and
//! those wake-ups would be charged to the server, as no remote client's are. Whether it has a processor
//! to itself, so that it may, only the server knows, which keeps the client off its own.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};
use softtimers::Monotonic;
use softtimers::udp::{RecvBatch, SendBatch, Stopped, UdpSocket};
use softtimers_core::{Clock, Timestamp};
use softtimers_measure::class::Class;
use softtimers_measure::distribution::{Distribution, Recorder};
use softtimers_measure::failure::Failure;
use softtimers_measure::interrupt::Interrupt;
use softtimers_measure::machine::Machine;

use crate::output::{Report, Run, Table};
use crate::plan::EchoClientPlan;

/// Loads the server until the plan's end, a signal, or the end of the server; then prints the report.
///
/// # Errors
/// A usage failure if an assertion names no key; a check failure if an assertion does not hold or
/// the system fails meanwhile.
pub fn run(plan: &EchoClientPlan) -> Result<(), Failure> {
    let broke = |error: io::Error| Failure::broke_off("loading the echo server", &error);
    let class = Class::current();
    if plan.spin && !class.may_spin() {
        return Err(Failure::not_possible(format_args!("--spin: {class}, so it must not spin")));
    }
    let machine = Machine::read();
    let run_of = |report| Run {
        machine: &machine,
        seed: None,
        config: &(),
        fallbacks: &[],
        inconclusive: None,
        report,
    };
    let example = EchoReport::default();
    plan.output.check_keys(&run_of(&example))?;
    let interrupt = Interrupt::listen().map_err(broke)?;
    let report = load(plan, &interrupt).map_err(broke)?;
    plan.output.finish(&run_of(&report))
}

/// What the client saw: the keys of `softtimers.echo-client/1`.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct EchoReport {
    /// Replies that came in time.
    pub replies: u64,
    /// Replies per second of the run; the server's work rate.
    pub replies_per_s: f64,
    /// Requests without a reply within 100 ms.
    pub lost: u64,
    /// From request to reply.
    pub rtt_ns: Distribution,
    /// The length of the run.
    pub duration_s: f64,
}

impl Report for EchoReport {
    const SCHEMA: &'static str = "softtimers.echo-client/1";

    fn table(&self) -> Table {
        let mut table = Table::default();
        table.row("replies", self.replies);
        table.row("replies/s", format!("{:.0}", self.replies_per_s));
        table.row("lost", self.lost);
        table.distribution("round trip", &self.rtt_ns);
        table
    }
}

/// Keeps the server busy until `plan` or a signal ends it, or the server is gone.
fn load(plan: &EchoClientPlan, interrupt: &Interrupt) -> io::Result<EchoReport> {
    let mut window = Window::new(plan)?;
    let mut incoming = RecvBatch::new(BATCH, TAG);
    let start = Monotonic.now();
    let end = start + plan.duration;
    let (mut now, mut sweep) = (start, start);
    while now < end && !interrupt.arrived() {
        if now >= sweep {
            window.sweep(now)?;
            sweep = now + SWEEP;
        }
        if !plan.spin {
            window.wait()?;
        }
        now = Monotonic.now();
        match window.socket.recv_batch(&mut incoming) {
            Ok(_) => window.answer(&incoming, now)?,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            // The port is closed: a server that never replied may still come.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused && window.replies == 0 => {}
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => break,
            Err(error) => return Err(error),
        }
        window.flush()?;
    }
    Ok(window.report(now.saturating_duration_since(start)))
}

/// The requests under way.
struct Window {
    socket: UdpSocket,
    slots: Vec<Slot>,
    request: Vec<u8>,
    outgoing: SendBatch,
    replies: u64,
    lost: u64,
    round_trips: Recorder,
}

/// One request; generation 0 is none yet.
#[derive(Clone, Copy)]
struct Slot {
    generation: u32,
    sent: Timestamp,
}

impl Window {
    fn new(plan: &EchoClientPlan) -> io::Result<Self> {
        let any: IpAddr =
            if plan.server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(plan.server)?;
        socket.set_nonblocking(true)?;
        Ok(Window {
            socket,
            slots: vec![Slot { generation: 0, sent: Timestamp::ZERO }; plan.window],
            request: vec![0; plan.size],
            outgoing: SendBatch::new(BATCH, plan.size),
            replies: 0,
            lost: 0,
            round_trips: Recorder::new(),
        })
    }

    /// Makes a request of each slot that has waited too long; the first time that is all of them.
    fn sweep(&mut self, now: Timestamp) -> io::Result<()> {
        for slot in 0..self.slots.len() {
            let Slot { generation, sent } = self.slots[slot];
            if generation > 0 && now.saturating_duration_since(sent) < PATIENCE {
                continue;
            }
            self.lost += u64::from(generation > 0);
            self.request(slot, now)?;
        }
        self.flush()
    }

    /// Sleeps until there is a reply, or room for what could not be sent, or it is time to sweep.
    fn wait(&self) -> io::Result<()> {
        let unsent = if self.outgoing.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        let most = Timespec { tv_sec: 0, tv_nsec: SWEEP.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&self.socket, PollFlags::IN | unsent)], Some(&most)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes replies, and makes a request for each.
    fn answer(&mut self, incoming: &RecvBatch, now: Timestamp) -> io::Result<()> {
        for reply in incoming {
            let Some((slot, generation)) = read_tag(reply.payload) else { continue };
            // Another generation was given up already; another slot is no reply to us at all.
            let Some(known) = self.slots.get(slot).filter(|known| known.generation == generation) else {
                continue;
            };
            self.replies += 1;
            self.round_trips.record_duration(now.saturating_duration_since(known.sent));
            self.request(slot, now)?;
        }
        Ok(())
    }

    /// Puts the next request of `slot` into the batch.
    fn request(&mut self, slot: usize, now: Timestamp) -> io::Result<()> {
        let generation = self.slots[slot].generation.checked_add(1).unwrap_or(1);
        self.slots[slot] = Slot { generation, sent: now };
        write_tag(&mut self.request, slot, generation);
        if self.outgoing.is_full() {
            self.flush()?;
        }
        // If the kernel takes nothing, the request is as good as lost, and comes again.
        let _ = self.outgoing.push(&self.request, None);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.socket.send_batch(&mut self.outgoing).stopped {
            Some(Stopped::Error(error)) if error.kind() != ErrorKind::ConnectionRefused => Err(error),
            _ => Ok(()),
        }
    }

    fn report(&self, took: Duration) -> EchoReport {
        EchoReport {
            replies: self.replies,
            replies_per_s: if took.is_zero() { 0.0 } else { self.replies as f64 / took.as_secs_f64() },
            lost: self.lost,
            rtt_ns: self.round_trips.distribution(),
            duration_s: took.as_secs_f64(),
        }
    }
}

fn write_tag(request: &mut [u8], slot: usize, generation: u32) {
    request[..4].copy_from_slice(&(slot as u32).to_be_bytes());
    request[4..TAG].copy_from_slice(&generation.to_be_bytes());
}

fn read_tag(reply: &[u8]) -> Option<(usize, u32)> {
    let tag: &[u8; TAG] = reply.first_chunk()?;
    let word = |at: usize| u32::from_be_bytes(std::array::from_fn(|byte| tag[at + byte]));
    Some((word(0) as usize, word(4)))
}

/// Slot and generation at the front of a request; the smallest datagram has room for four of them.
const TAG: usize = 8;

/// Half of the usual window in one call keeps the server supplied while the other half is handled.
const BATCH: usize = 64;

/// Far beyond any round trip on one machine, a stalled server included.
const PATIENCE: Duration = Duration::from_millis(100);
const SWEEP: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_read_back_and_short_replies_are_ignored() {
        let mut request = vec![0; 32];
        write_tag(&mut request, 4_095, u32::MAX);
        assert_eq!(read_tag(&request), Some((4_095, u32::MAX)));
        assert_eq!(read_tag(&request[..7]), None);
    }
}
