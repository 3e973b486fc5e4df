//! `compute`: what a computation keeps of its rate next to packets that it polls for at its own trigger states, and
//! next to packets for which a thread is woken.
//!
//! ```text
//!   alone    compute ▸ clock ▸ compute ▸ clock …
//!   polled   compute ▸ clock ▸ compute ▸ clock, due: poll ▸ compute …
//!   woken    compute ▸ clock ▸ comp│ switch ▸ receive ▸ switch │ute ▸ clock …
//! ```
//!
//! Its rate is by the CPU time of the process, so that other programs' time does not count; the woken thread's time and
//! its switches do.
//!
//! The ways take turns on the same device, in rotating order, since a virtual machine's speed drifts. Turns are short,
//! and a full ring is a fifth of the packets of one: packets that came between turns are discarded, and not part of a
//! turn.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::setpriority_process;
use serde_json::{Value, json};
use softtimers::{Clock, Monotonic, Timestamp};
use softtimers_load::mode::Mode;
use softtimers_load::overload::Filter;
use softtimers_measure::distribution::Recorder;
use softtimers_measure::estimate::median;
use softtimers_net::poller::{Device, FrameInfo, Packet, Poller};
use softtimers_poll::{AnyPolicy, SourceConfig, SourceId};
use softtimers_trials::paired::in_turn;

use super::{How, With, came, looking, open};
use softtimers_trials::cpu;

#[derive(clap::Args, Debug, Clone)]
pub struct Arguments {
    interface: String,
    #[command(flatten)]
    how: How,
    /// Turns of each way
    #[arg(long, default_value_t = 8)]
    rounds: usize,
}

pub(crate) fn run(arguments: &Arguments) -> io::Result<Value> {
    let _kept = arguments.how.keep()?;
    open(&arguments.how, &[&arguments.interface], Turns(arguments.rounds))
}

/// Alone, polling at its trigger states by two policies, and next to a thread that is woken.
const WAYS: [&str; 4] = ["alone", "poll", "hybrid", "wake-up"];

/// The number of rounds.
struct Turns(usize);

impl With for Turns {
    fn with<D: Device<Address = FrameInfo> + AsFd>(self, devices: Vec<D>) -> io::Result<Value> {
        let mut device = devices.into_iter().next().ok_or_else(gone)?;
        let mut all = WAYS.map(|_| Heard::default());
        for round in 0..self.0 {
            for way in in_turn(round, all.len()) {
                discard(&mut device)?;
                let heard = &mut all[way];
                heard.begun = Monotonic.now();
                device = turn(way, device, heard)?;
                heard.time += Monotonic.now().saturating_duration_since(heard.begun);
            }
        }
        let found = WAYS.iter().zip(&all);
        Ok(found.map(|(name, heard)| ((*name).to_owned(), heard.found(&all[0].rates))).collect())
    }
}

/// Runs a turn of this way; the device is returned for the next one.
fn turn<D: Device<Address = FrameInfo> + AsFd>(way: usize, device: D, heard: &mut Heard) -> io::Result<D> {
    match way {
        0 => {
            heard.rates.push(work(TURN, || Ok(None))?);
            Ok(device)
        }
        1 => polled(device, Mode::POLL, heard),
        2 => polled(device, Mode::HYBRID, heard),
        _ => woken(device, heard),
    }
}

/// A way's received frames, and the work in its turns.
#[derive(Default)]
struct Heard {
    /// When this turn began.
    begun: Timestamp,
    /// The time of all turns.
    time: Duration,
    received: u64,
    latency: Recorder,
    /// Pieces of work a second in each turn.
    rates: Vec<f64>,
}

impl Heard {
    /// Counts a packet, and records how long it waited, if it came in this turn.
    fn note(&mut self, packet: &Packet<'_, FrameInfo>) {
        if let Some(came) = came(packet).filter(|&came| came > self.begun) {
            self.received += 1;
            self.latency.record_duration(Monotonic.now().saturating_duration_since(came));
        }
    }

    /// Returns the findings; `alone` has the first way's rates in the same rounds.
    fn found(&self, alone: &[f64]) -> Value {
        json!({
            "kept": median(self.rates.iter().zip(alone).map(|(rate, alone)| rate / alone)),
            "received_pps": self.received as f64 / self.time.as_secs_f64(),
            "latency_ns": self.latency.distribution(),
        })
    }
}

/// Computes for this time; after each piece of work it passes a trigger state, at which `look` is called when it is
/// due. Returns the process's pieces of work a second.
fn work(time: Duration, mut look: impl FnMut() -> io::Result<Option<Timestamp>>) -> io::Result<f64> {
    let filter = Filter::new(PIECE);
    let (until, before) = (Monotonic.now() + time, cpu::of_process());
    let (mut pieces, mut due) = (0u64, look()?);
    loop {
        std::hint::black_box(filter.accepts(([127, 0, 0, 1], 9).into(), &[1; 64]));
        pieces += 1;
        let now = Monotonic.now();
        if now >= until {
            let seconds = (cpu::of_process() - before).as_secs_f64();
            return Ok(pieces as f64 / seconds);
        }
        if due.is_some_and(|due| now >= due) {
            due = look()?;
        }
    }
}

fn polled<D: Device<Address = FrameInfo> + AsFd>(device: D, mode: Mode, heard: &mut Heard) -> io::Result<D> {
    with_poller(device, mode, |poller, source| {
        let rate = work(TURN, || {
            let next = poller.poll(|packet, _| heard.note(&packet))?;
            // A source with enabled wake-ups is polled a little later all the same: this loop never sleeps.
            Ok(next.filter(|_| !poller.is_armed(source)).or_else(|| Some(Monotonic.now() + LOOK)))
        })?;
        heard.rates.push(rate);
        Ok(())
    })
}

fn woken<D: Device<Address = FrameInfo> + AsFd>(device: D, heard: &mut Heard) -> io::Result<D> {
    let over = AtomicBool::new(false);
    with_poller(device, Mode::INTERRUPT, |poller, _| {
        thread::scope(|scope| {
            // The computation gives way, as a program does to an interrupt; in a thread of its own, since unprivileged
            // threads can only raise their nice value.
            let computation = scope.spawn(|| {
                let niced = setpriority_process(None, 19);
                let rate = work(TURN, || Ok(None));
                over.store(true, Ordering::Relaxed);
                niced?;
                rate
            });
            while !over.load(Ordering::Relaxed) {
                poller.wait(Some(Monotonic.now() + WAIT), |packet, _| heard.note(&packet))?;
            }
            let rate = computation.join().map_err(|_| io::Error::other("the computation panicked"))??;
            heard.rates.push(rate);
            Ok(())
        })
    })
}

/// Drives the device by a poller.
fn with_poller<D: Device<Address = FrameInfo> + AsFd>(
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

/// Discards the frames waiting in the ring, as many turns' worth as it has room for.
fn discard<D: Device<Address = FrameInfo>>(device: &mut D) -> io::Result<()> {
    for _ in 0..MOST_TURNS {
        if !device.poll_rx(QUOTA as usize, |_, _| {})?.more {
            break;
        }
    }
    Ok(())
}

fn gone() -> io::Error {
    io::Error::other("the device is gone")
}

/// Packets of a turn of the device.
const QUOTA: u32 = 64;
/// The most turns for waiting frames: more than rings have room for.
const MOST_TURNS: usize = 256;
const TURN: Duration = Duration::from_millis(50);
/// The number of rules: about a microsecond's work.
const PIECE: usize = 1_000;
const LOOK: Duration = Duration::from_micros(50);
const WAIT: Duration = Duration::from_millis(20);
