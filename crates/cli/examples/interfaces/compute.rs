//! `compute`: what a computation keeps of its rate beside packets that it looks for at its own trigger states, and
//! beside packets that a thread is woken up for.
//!
//! ```text
//!   alone    compute ▸ clock ▸ compute ▸ clock …
//!   polled   compute ▸ clock ▸ compute ▸ clock, due: poll ▸ compute …
//!   woken    compute ▸ clock ▸ comp│ switch ▸ receive ▸ switch │ute ▸ clock …
//! ```
//!
//! Its rate is that by the processor time of the process, so that what other programs take does not count; the woken
//! thread's time and its switches do. Turns are short, since a virtual machine's speed drifts, and what came while nobody
//! looked is thrown away before a turn: it is a ring full, a fifth of a turn's packets, and no part of the turn's rate.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::setpriority_process;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use softtimers::poll::SourceConfig;
use softtimers::poller::{Device, FrameInfo, Packet, Poller};
use softtimers::{Clock, Monotonic, Timestamp};
use softtimers_cli::bench::filter::Filter;
use softtimers_cli::distribution::Recorder;
use softtimers_cli::forward::mode::{Looks, Mode};

use super::{How, With, came, looking, open};

#[derive(clap::Args, Debug, Clone)]
pub(crate) struct Arguments {
    interface: String,
    #[command(flatten)]
    how: How,
    /// Turns of each, of 50 ms
    #[arg(long, default_value_t = 8)]
    rounds: usize,
}

pub(crate) fn run(arguments: &Arguments) -> io::Result<Value> {
    let _kept = arguments.how.keep()?;
    open(&arguments.how, &[&arguments.interface], Turns(arguments))
}

struct Turns<'a>(&'a Arguments);

/// What a turn has come to.
#[derive(Default)]
struct Kind {
    /// Pieces of work a second of processor time, a number a turn.
    rates: Vec<f64>,
    received: u64,
    latency: Vec<Recorder>,
}

impl With for Turns<'_> {
    fn with<D: Device<Address = FrameInfo> + AsFd>(self, devices: Vec<D>) -> io::Result<Value> {
        let mut device = devices.into_iter().next();
        let mut kinds: [Kind; 4] = Default::default();
        for round in 0..self.0.rounds {
            for turn in 0..NAMES.len() {
                let which = (round + turn) % NAMES.len();
                let kind = &mut kinds[which];
                if which == 0 {
                    kind.rates.push(work(TURN, || Ok(None))?);
                    continue;
                }
                let mut taken = device.take().ok_or_else(|| io::Error::other("the device is gone"))?;
                discard(&mut taken)?;
                let mut recorder = Recorder::new();
                device = Some(match which {
                    1 => polled(taken, Mode::Poll, kind, &mut recorder)?,
                    2 => polled(taken, Mode::Hybrid, kind, &mut recorder)?,
                    _ => woken(taken, kind, &mut recorder)?,
                });
                kind.latency.push(recorder);
            }
        }
        let alone = kinds[0].rates.clone();
        let found = NAMES.iter().zip(kinds).map(|(name, kind)| {
            let mut latency = Recorder::new();
            kind.latency.iter().for_each(|recorder| latency.add(recorder));
            let seconds = TURN.as_secs_f64() * kind.rates.len() as f64;
            let found = json!({
                "kept": median(kind.rates.iter().zip(&alone).map(|(rate, alone)| rate / alone).collect()),
                "received_pps": kind.received as f64 / seconds,
                "latency_ns": latency.distribution(),
            });
            ((*name).to_owned(), found)
        });
        Ok(found.collect())
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

/// Computes for so long; after each piece of work it passes a trigger state, and `look` is called when it is due. Pieces
/// of work a second of the process.
fn work(time: Duration, mut look: impl FnMut() -> io::Result<Option<Timestamp>>) -> io::Result<f64> {
    let filter = Filter::new(PIECE);
    let (until, before) = (Monotonic.now() + time, used());
    let (mut pieces, mut due) = (0u64, look()?);
    loop {
        std::hint::black_box(filter.accepts(([127, 0, 0, 1], 9).into(), &[1; 64]));
        pieces += 1;
        let now = Monotonic.now();
        if now >= until {
            let seconds = (used() - before).as_secs_f64();
            return Ok(pieces as f64 / seconds);
        }
        if due.is_some_and(|due| now >= due) {
            due = look()?;
        }
    }
}

fn polled<D: Device<Address = FrameInfo> + AsFd>(
    device: D,
    mode: Mode,
    kind: &mut Kind,
    recorder: &mut Recorder,
) -> io::Result<D> {
    let looking = looking(mode, QUOTA);
    let mut poller: Poller<D, Looks> = Poller::new()?;
    let source = poller.add(device, SourceConfig::new(looking.policy()).with_quota(looking.quota()))?;
    let (from, mut received) = (Monotonic.now(), 0);
    kind.rates.push(work(TURN, || {
        let next = poller.poll(|packet, _| received += note(recorder, from, &packet))?;
        // Whose wake-ups are enabled is asked a little later all the same: this loop never sleeps.
        Ok(next.or_else(|| Some(Monotonic.now() + LOOK)))
    })?);
    kind.received += received;
    poller.remove(source).ok_or_else(|| io::Error::other("the device is gone"))
}

fn woken<D: Device<Address = FrameInfo> + AsFd>(
    device: D,
    kind: &mut Kind,
    recorder: &mut Recorder,
) -> io::Result<D> {
    let (over, received) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        // The computation gives way, as a program does to an interrupt; a thread of its own, since nice values of
        // unprivileged threads only grow.
        let (over, counted) = (&over, &received);
        let looking = looking(Mode::Interrupt, 64);
        let mut poller: Poller<D, Looks> = Poller::new()?;
        let source = poller.add(device, SourceConfig::new(looking.policy()).with_quota(looking.quota()))?;
        let computation = scope.spawn(move || {
            let niced = setpriority_process(None, 19);
            let rate = work(TURN, || Ok(None));
            over.store(true, Ordering::Relaxed);
            niced?;
            rate
        });
        let from = Monotonic.now();
        while !over.load(Ordering::Relaxed) {
            poller.wait(Some(Monotonic.now() + WAIT), |packet, _| {
                counted.fetch_add(note(recorder, from, &packet), Ordering::Relaxed);
            })?;
        }
        kind.rates.push(computation.join().map_err(|_| io::Error::other("the computation panicked"))??);
        kind.received += counted.load(Ordering::Relaxed);
        poller.remove(source).ok_or_else(|| io::Error::other("the device is gone"))
    })
}

/// Whether it came in this turn.
fn note(recorder: &mut Recorder, from: Timestamp, packet: &Packet<'_, FrameInfo>) -> u64 {
    let came = came(packet).filter(|&came| came > from);
    if let Some(came) = came {
        recorder.record_duration(Monotonic.now().saturating_duration_since(came));
    }
    u64::from(came.is_some())
}

/// Processor time of the process.
fn used() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

const NAMES: [&str; 4] = ["alone", "poll", "hybrid", "wake-up"];
const TURN: Duration = Duration::from_millis(50);
/// Of frames that wait: more than rings have room for.
const MOST_TURNS: usize = 256;
/// Rules: about a microsecond's worth.
const PIECE: usize = 1_000;
const QUOTA: u32 = 64;
const LOOK: Duration = Duration::from_micros(50);
const WAIT: Duration = Duration::from_millis(20);
