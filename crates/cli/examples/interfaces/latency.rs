//! `latency`: how long packets of the generator wait, by a plain epoll loop and by policies, in turns on the same ring.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use serde_json::{Value, json};
use softtimers::epoll::{Epoll, EventFlags, Events, Waiting};
use softtimers::poll::SourceConfig;
use softtimers::poller::{Device, FrameInfo, Packet, Poller};
use softtimers::{Clock, Monotonic, Timestamp};
use softtimers_cli::distribution::Recorder;
use softtimers_cli::forward::mode::{Looks, Mode};

use super::{How, With, came, looking, open};

#[derive(clap::Args, Debug, Clone)]
pub(crate) struct Arguments {
    interface: String,
    #[command(flatten)]
    how: How,
    /// Turns of each, of a quarter of a second
    #[arg(long, default_value_t = 8)]
    rounds: usize,
}

pub(crate) fn run(arguments: &Arguments) -> io::Result<Value> {
    let _kept = arguments.how.keep()?;
    open(&arguments.how, &[&arguments.interface], Turns(arguments))
}

struct Turns<'a>(&'a Arguments);

impl With for Turns<'_> {
    fn with<D: Device<Address = FrameInfo> + AsFd>(self, devices: Vec<D>) -> io::Result<Value> {
        let mut recorders: [Recorder; 4] = std::array::from_fn(|_| Recorder::new());
        let mut device = devices.into_iter().next();
        for round in 0..self.0.rounds {
            for turn in 0..NAMES.len() {
                // Another one first each time.
                let which = (round + turn) % NAMES.len();
                let taken = device.take().ok_or_else(|| io::Error::other("the device is gone"))?;
                let recorder = &mut recorders[which];
                device = Some(match which {
                    0 => plain(taken, recorder)?,
                    1 => polled(taken, Mode::Interrupt, recorder)?,
                    2 => polled(taken, Mode::Hybrid, recorder)?,
                    _ => polled(taken, Mode::Hip, recorder)?,
                });
            }
        }
        let found = NAMES.iter().zip(&recorders);
        Ok(found.map(|(name, recorder)| ((*name).to_owned(), json!(recorder.distribution()))).collect())
    }
}

/// Notes the wait of a packet that is of this turn.
fn note(recorder: &mut Recorder, from: Timestamp, packet: &Packet<'_, FrameInfo>) {
    if let Some(came) = came(packet).filter(|&came| came > from) {
        recorder.record_duration(Monotonic.now().saturating_duration_since(came));
    }
}

fn plain<D: Device<Address = FrameInfo> + AsFd>(mut device: D, recorder: &mut Recorder) -> io::Result<D> {
    let mut epoll = Epoll::new(Waiting::Pwait2)?;
    epoll.add(device.as_fd(), 0, EventFlags::IN)?;
    let mut events = Events::with_capacity(1);
    let from = Monotonic.now();
    while Monotonic.now() < from + TURN {
        epoll.wait(&mut events, Some(LOOK))?;
        while device.poll_rx(QUOTA, |packet, _| note(recorder, from, &packet))?.more {}
    }
    epoll.delete(device.as_fd())?;
    Ok(device)
}

fn polled<D: Device<Address = FrameInfo> + AsFd>(
    device: D,
    mode: Mode,
    recorder: &mut Recorder,
) -> io::Result<D> {
    let looking = looking(mode, QUOTA as u32);
    let mut poller: Poller<D, Looks> = Poller::new()?;
    let config = SourceConfig::new(looking.policy()).with_quota(looking.quota());
    let source = poller.add(device, config)?;
    let from = Monotonic.now();
    while Monotonic.now() < from + TURN {
        poller.wait(Some(Monotonic.now() + LOOK), |packet, _| note(recorder, from, &packet))?;
    }
    poller.remove(source).ok_or_else(|| io::Error::other("the device is gone"))
}

const NAMES: [&str; 4] = ["epoll", "interrupt", "hybrid", "hip"];
const TURN: Duration = Duration::from_millis(250);
const LOOK: Duration = Duration::from_millis(20);
const QUOTA: usize = 64;
