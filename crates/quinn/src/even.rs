//! A congestion controller for senders that pace: [`EvenCubic`].
//!
//! CUBIC as in RFC 9438, with a slow start that ends when the path is full instead of when its queue
//! overflows. quinn's slow start doubles until packets are lost; over a short queue that is at nearly one and
//! a half times the capacity of the path and its queue, and costs two cuts. HyStart++ does not help there:
//! the rise of 4 ms that it needs is longer than such a queue.
//!
//! ```text
//!          trains leave in lumps                        evenly
//!   Start ────── window ≥ rate of trains · round trip ────▶ Probe ── a queue shows ──▶ Avoid: CUBIC
//!     ▲ ×2 to ×4 a round trip  or the round trip rises       │ +⅛     or loss            ▲
//!     └──────────── no queue with ¾ more ────────────────┘                           │
//!   loss: to the delivered rate ─────────────────────────────────────────────────────────┘
//! ```
//!
//! The first train tells the rate, so the window need not double blindly: where no queue shows it is filled up to what
//! the trains allow, at most four times in a round trip, as SUSS does (SIGCOMM 2024). A train is believed for one
//! such step; three that agree, for the rest. What is added is paced, so that it fills no queue by itself.
//! Probe adds 1/64 to 1/8 in each round trip, and at most six packets in each of the first ten. Where the path holds more than
//! 384 packets that is less than 1/64, and Start begins again with about half more instead of ¾.
//!
//! The pieces, each a state machine that takes the time as an argument:
//!
//! 1. `train`: the link's rate, read from the spacing of ACKs, a round trip before the window fills the path.
//! 2. `path`: the shortest round trip, which expires; rounds; the delivered rate.
//! 3. `cubic`: the window after a cut.
//! 4. `machine`: the decisions from these.
//!
//! # Limits of quinn's interface
//!
//! `on_ack` comes for each packet, before the round-trip estimate has the sample, and without the packet's
//! number: so rounds and trains are distinguished by times of sending. Losses come as one time and a sum: all
//! packets that left before the reaction to an event belong to that event. After a migration there is a new
//! controller, which ignores packets of the old path.

mod cubic;
mod delivery;
mod machine;
mod path;
mod train;

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};
use softtimers_core::Timestamp;

use machine::Machine;
pub(crate) use path::Least;

/// A factory of controllers for senders that pace: CUBIC with a slow start that ends in time.
///
/// ```
/// use std::sync::Arc;
/// use quinn::TransportConfig;
/// use softtimers_quinn::EvenCubic;
///
/// // On any runtime of quinn's, without the gate.
/// let mut transport = TransportConfig::default();
/// transport.congestion_controller_factory(Arc::new(EvenCubic::default()));
/// ```
///
/// [`with_even_controller`](crate::with_even_controller) puts it under a [`SmoothController`](crate::SmoothController), for the gate.
///
/// # Cost
/// Some 400 bytes for each path; everything is O(1), an ACK in congestion avoidance costs a few floating-point operations.
#[derive(Clone, Debug)]
pub struct EvenCubic {
    initial_window: u64,
}

impl EvenCubic {
    /// Sets the window of a new connection in bytes: by default 12,000, as in quinn. Less than two packets is
    /// raised to two.
    #[must_use]
    pub fn initial_window(mut self, bytes: u64) -> Self {
        self.initial_window = bytes;
        self
    }
}

impl Default for EvenCubic {
    fn default() -> Self {
        EvenCubic { initial_window: 12_000 }
    }
}

impl ControllerFactory for EvenCubic {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let machine = Machine::new(BEGIN, self.initial_window, current_mtu);
        Box::new(Even { initial_window: self.initial_window, built: now, machine })
    }
}

/// The machine, as quinn calls it.
#[derive(Clone)]
struct Even {
    initial_window: u64,
    built: Instant,
    machine: Machine,
}

impl Even {
    fn time(&self, instant: Instant) -> Timestamp {
        match instant.checked_duration_since(self.built) {
            Some(since) => BEGIN + since,
            None => BEGIN.saturating_sub(self.built.saturating_duration_since(instant)),
        }
    }
}

impl Controller for Even {
    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        let (now, sent) = (self.time(now), self.time(sent));
        self.machine.acked(now, sent, bytes, app_limited, rtt.get());
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, persistent: bool, _lost_bytes: u64) {
        let (now, sent) = (self.time(now), self.time(sent));
        self.machine.lost(now, sent, persistent);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.machine.set_mtu(new_mtu);
    }

    fn window(&self) -> u64 {
        self.machine.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.machine.window();
        metrics.ssthresh = Some(self.machine.threshold());
        let pace = self.machine.pace().map(|bytes| (bytes * 8.0) as u64);
        metrics.pacing_rate = if self.machine.wants_trains() { Some(UNPACED) } else { pace };
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.initial_window
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// A pacing rate that leaves pacing to quinn's own pacer.
pub(crate) const UNPACED: u64 = u64::MAX;
/// The time at which a controller is built. Earlier packets may have left before it.
const BEGIN: Timestamp = Timestamp::from_nanos(Duration::from_secs(3_600).as_nanos() as u64);
