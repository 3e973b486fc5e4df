//! The closed loop of requests and replies.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use softtimers::Monotonic;
use softtimers_core::{Clock, Timestamp};
use softtimers_measure::class::Class;
use softtimers_measure::distribution::Recorder;
use softtimers_measure::failure::Failure;
use softtimers_measure::interrupt::Interrupt;
use softtimers_net::udp::{RecvBatch, SendBatch, Stopped, UdpSocket};

use super::args::Echo;
use super::show::EchoReport;

use crate::run::output::Output;
use crate::run::quantity::setting;
use crate::run::{Command, Disturbance, Outcome, Run};

impl Command for Echo {
    type Config = ();
    type Report = EchoReport;
    const DISTURBED_BY: Disturbance = Disturbance::Unwatched;
    const FIELDS: &'static str = include_str!("fields.txt");

    fn output(&self) -> &Output {
        &self.output
    }

    fn config(&self) {}

    fn header(&self) -> String {
        let Echo { server, window, size, duration, .. } = self;
        format!("echo-client to {server}: {window} requests of {size} B at once, for {}", setting(*duration))
    }

    fn example(&self) -> EchoReport {
        EchoReport::default()
    }

    /// Loads the server until the plan's end, a signal, or the end of the server.
    fn run(&mut self, run: &Run<'_>) -> Result<Outcome<EchoReport>, Failure> {
        let class = Class::current();
        if self.spin && !class.may_spin() {
            return Err(Failure::not_possible(format_args!("--spin: {class}, so it must not spin")));
        }
        let interrupt = run.interrupt()?;
        let _progress = run.begin(self, "loading", Some(self.duration));
        load(self, interrupt)
            .map(Outcome::of)
            .map_err(|error| Failure::broke_off("loading the echo server", &error))
    }
}

/// Keeps the server busy until `plan` or a signal ends it, or the server is gone.
fn load(plan: &Echo, interrupt: &Interrupt) -> io::Result<EchoReport> {
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
            // The port is closed; a server that never replied may still come.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused && window.replies == 0 => {}
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => break,
            Err(error) => return Err(error),
        }
        window.flush()?;
    }
    Ok(window.report(now.saturating_duration_since(start)))
}

/// The outstanding requests.
struct Window {
    socket: UdpSocket,
    slots: Vec<Slot>,
    request: Vec<u8>,
    outgoing: SendBatch,
    replies: u64,
    lost: u64,
    round_trips: Recorder,
}

/// One request; generation 0 stands for none yet.
#[derive(Clone, Copy)]
struct Slot {
    generation: u32,
    sent: Timestamp,
}

impl Window {
    fn new(plan: &Echo) -> io::Result<Self> {
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

    /// Makes a request for each slot that has waited too long; the first time, for all of them.
    fn sweep(&mut self, now: Timestamp) -> io::Result<()> {
        for slot in 0..self.slots.len() {
            let Slot { generation, sent } = self.slots[slot];
            if generation > 0 && now.saturating_duration_since(sent) < REPLY_PATIENCE {
                continue;
            }
            self.lost += u64::from(generation > 0);
            self.request(slot, now)?;
        }
        self.flush()
    }

    /// Sleeps until there is a reply, room for unsent requests, or the next sweep is due.
    fn wait(&self) -> io::Result<()> {
        let unsent = if self.outgoing.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        let most = Timespec { tv_sec: 0, tv_nsec: SWEEP.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&self.socket, PollFlags::IN | unsent)], Some(&most)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads replies, and makes a request for each.
    fn answer(&mut self, incoming: &RecvBatch, now: Timestamp) -> io::Result<()> {
        for reply in incoming.iter() {
            let Some((slot, generation)) = read_tag(reply.payload) else { continue };
            // Another generation was given up already; another slot is not a reply to us.
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
        // If the batch has no room, the request counts as lost and is repeated.
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

/// Far longer than any round trip on one machine, even to a stalled server.
const REPLY_PATIENCE: Duration = Duration::from_millis(100);
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
