//! Ways to take an interface's packets, in turns on the same device: [`Ways`].
//!
//! ```text
//!   way 0 │ way 1 │ way 2 │ way 3 ║ way 1 │ way 2 │ way 3 │ way 0 ║ …     another one first each round
//!         └ what came while nobody looked is thrown away, and no part of a turn
//! ```
//!
//! Turns are short, since a virtual machine's speed drifts. A ring full is a fifth of the packets of a short turn, so who has
//! the next turn must not be charged for it.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use serde_json::{Value, json};
use softtimers::{Clock, Monotonic, Timestamp};
use softtimers_forward::Mode;
use softtimers_measure::distribution::Recorder;
use softtimers_measure::estimate::median;
use softtimers_net::poller::{Device, FrameInfo, Packet, Poller};
use softtimers_poll::{AnyPolicy, SourceConfig, SourceId};

use super::{How, With, came, looking, open};

#[derive(clap::Args, Debug, Clone)]
pub struct Arguments {
    interface: String,
    #[command(flatten)]
    how: How,
    /// Turns of each way
    #[arg(long, default_value_t = 8)]
    rounds: usize,
}

/// Four ways.
pub(crate) trait Ways {
    const NAMES: [&'static str; 4];

    /// A turn of the way with this number; the device is for the next one.
    ///
    /// # Errors
    /// What the system says.
    fn turn<D: Device<Address = FrameInfo> + AsFd>(way: usize, device: D, heard: &mut Heard)
    -> io::Result<D>;
}

/// What a way has heard and done in its turns.
pub(crate) struct Heard {
    /// When this turn began.
    begun: Timestamp,
    /// How long all took.
    time: Duration,
    received: u64,
    latency: Recorder,
    /// What it did beside that in a second, a number a turn; nothing, if it did nothing beside.
    pub(crate) rates: Vec<f64>,
}

impl Heard {
    fn new() -> Self {
        Heard {
            begun: Timestamp::ZERO,
            time: Duration::ZERO,
            received: 0,
            latency: Recorder::new(),
            rates: Vec::new(),
        }
    }

    /// Counts a packet, and notes how long it waited, if it came in this turn.
    pub(crate) fn note(&mut self, packet: &Packet<'_, FrameInfo>) {
        if let Some(came) = came(packet).filter(|&came| came > self.begun) {
            self.received += 1;
            self.latency.record_duration(Monotonic.now().saturating_duration_since(came));
        }
    }

    /// `alone` is what the first way did in the same rounds.
    fn found(&self, alone: &[f64]) -> Value {
        let kept = median(self.rates.iter().zip(alone).map(|(rate, alone)| rate / alone));
        json!({
            "kept": kept,
            "received_pps": self.received as f64 / self.time.as_secs_f64(),
            "latency_ns": self.latency.distribution(),
        })
    }
}

/// Has the ways take turns.
///
/// # Errors
/// What the system says.
pub(crate) fn run<W: Ways>(arguments: &Arguments) -> io::Result<Value> {
    let _kept = arguments.how.keep()?;
    let turns = Turns { rounds: arguments.rounds, ways: std::marker::PhantomData::<W> };
    open(&arguments.how, &[&arguments.interface], turns)
}

struct Turns<W> {
    rounds: usize,
    ways: std::marker::PhantomData<W>,
}

impl<W: Ways> With for Turns<W> {
    fn with<D: Device<Address = FrameInfo> + AsFd>(self, devices: Vec<D>) -> io::Result<Value> {
        let mut device = devices.into_iter().next().ok_or_else(gone)?;
        let mut all: [Heard; 4] = std::array::from_fn(|_| Heard::new());
        for round in 0..self.rounds {
            for turn in 0..all.len() {
                let way = (round + turn) % all.len();
                discard(&mut device)?;
                let heard = &mut all[way];
                heard.begun = Monotonic.now();
                device = W::turn(way, device, heard)?;
                heard.time += Monotonic.now().saturating_duration_since(heard.begun);
            }
        }
        let found = W::NAMES.iter().zip(&all);
        Ok(found.map(|(name, heard)| ((*name).to_owned(), heard.found(&all[0].rates))).collect())
    }
}

/// What waits in the ring, as many turns' worth as it has room for.
fn discard<D: Device<Address = FrameInfo>>(device: &mut D) -> io::Result<()> {
    for _ in 0..MOST_TURNS {
        if !device.poll_rx(QUOTA as usize, |_, _| {})?.more {
            break;
        }
    }
    Ok(())
}

/// Has a poller drive the device meanwhile.
///
/// # Errors
/// Of the poller, and of `drive`.
pub(crate) fn with_poller<D: Device<Address = FrameInfo> + AsFd>(
    device: D,
    mode: Mode,
    drive: impl FnOnce(&mut Poller<D, AnyPolicy>, SourceId) -> io::Result<()>,
) -> io::Result<D> {
    let looking = looking(mode, QUOTA);
    let mut poller: Poller<D, AnyPolicy> = Poller::new()?;
    let source = poller.add(device, SourceConfig::new(looking.policy()).with_quota(looking.ring_quota()))?;
    drive(&mut poller, source)?;
    poller.remove(source).ok_or_else(gone)
}

fn gone() -> io::Error {
    io::Error::other("the device is gone")
}

/// Packets of a turn of the device.
pub(crate) const QUOTA: u32 = 64;
/// Of frames that wait: more than rings have room for.
const MOST_TURNS: usize = 256;
