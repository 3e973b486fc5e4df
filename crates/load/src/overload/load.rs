//! The sender of a trial: `softtimers send` in another process. [`Offer`] is the traffic it is to send.
//!
//! A sender with one datagram a system call has its own limit, often below five times a receiver's capacity. So where
//! it has not reached the rate, it sends longer bursts, which the kernel segments from one send; the report says how
//! long they were.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use rustix::event::poll;
use rustix::io::Errno;
use serde::Deserialize;
use softtimers::{Clock, Monotonic};

use super::second::SIZE;
use super::window::Window;
use softtimers_measure::child::Process;
use softtimers_measure::class::Class;
use softtimers_measure::failure::Failure;
use softtimers_measure::units::show_duration;

/// The traffic that a sender is asked for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Offer {
    /// Datagrams a second; zero: none, the receiver idles.
    pub rate: f64,
    /// Datagrams back to back.
    pub burst: u32,
    /// The time for which it sends.
    pub length: Duration,
}

/// The traffic that was sent.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Offered {
    /// Datagrams sent, with the end messages.
    pub(crate) sent: u64,
    /// The rate in datagrams a second.
    pub(crate) pps: f64,
}

/// The keys of `send`'s report used here.
#[derive(Deserialize)]
struct Sent {
    sent: u64,
    achieved_pps: Option<f64>,
}

impl Offer {
    /// Returns whether the sender reached the offered rate.
    pub fn was_reached(&self, offered_pps: f64) -> bool {
        offered_pps >= self.rate * REACHED
    }

    /// Returns the offer with longer bursts, if there are any.
    pub fn in_longer_bursts(self) -> Option<Self> {
        let burst = self.burst.saturating_mul(2).min(LONGEST_BURST);
        (burst > self.burst).then_some(Offer { burst, ..self })
    }
}

/// Has `program`, which is `softtimers`, send to `address` from this CPU, and waits until it ends.
pub(crate) fn send(
    program: &Path,
    address: SocketAddr,
    offer: &Offer,
    processor: Option<usize>,
    window: &Window,
) -> Result<Offered, Failure> {
    let rate = offer.rate.round() as u64;
    if rate == 0 {
        window.begin(Monotonic.now());
        pause(offer.length).map_err(|error| Failure::broke_off("idling", &error))?;
        return Ok(Offered { sent: 0, pps: 0.0 });
    }
    // The receivers that are measured answer nothing.
    let mut words = ["send", &address.to_string(), "--no-handshake", "--json"].map(str::to_owned).to_vec();
    let mut flag = |flag: &str, value: String| words.extend([flag.to_owned(), value]);
    flag("--rate", format!("{rate}pps"));
    flag("--quantum", offer.burst.to_string());
    flag("--size", SIZE.to_string());
    flag("--duration", show_duration(offer.length));
    // Late datagrams are sent all the same: the rate is what matters.
    flag("--catch-up", "all".to_owned());
    match processor {
        Some(processor) => {
            flag("--cpu", processor.to_string());
            let timer = if Class::current().may_spin() { "spin" } else { "soft" };
            flag("--timer", timer.to_owned());
        }
        // The receiver needs it, too.
        None => flag("--timer", "soft".to_owned()),
    }
    let sent: Sent = Process::start_program(program, "the sender".to_owned(), &words)?.finish()?;
    Ok(Offered { sent: sent.sent, pps: sent.achieved_pps.unwrap_or(0.0) })
}

fn pause(time: Duration) -> io::Result<()> {
    let end = Monotonic.now() + time;
    loop {
        let left = end.saturating_duration_since(Monotonic.now());
        if left.is_zero() {
            return Ok(());
        }
        match poll(&mut [], Some(&left.try_into().map_err(io::Error::other)?)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The share of the rate that counts as reached: rates of a trial of thousands of datagrams are no more precise.
const REACHED: f64 = 0.97;
/// The most datagrams that the kernel segments from one send.
const LONGEST_BURST: u32 = 64;
