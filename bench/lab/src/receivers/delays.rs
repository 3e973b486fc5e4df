//! `delays`: how long the generator's packets were under way, from the due time to the kernel's receive time.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use serde_json::{Value, json};
use softtimers::{Clock, Monotonic};
use softtimers_load::mode::Mode;
use softtimers_measure::distribution::Recorder;
use softtimers_net::poller::{Device, FrameInfo, Poller};
use softtimers_poll::{AnyPolicy, SourceConfig};

use super::{How, PATIENCE, SETTLED, With, datagram, looking, open};

#[derive(clap::Args, Debug, Clone)]
pub struct Arguments {
    interface: String,
    #[command(flatten)]
    how: How,
    /// Packets per burst: the first ones are reported separately
    #[arg(long, default_value_t = 1)]
    burst: u64,
}

pub(crate) fn run(arguments: &Arguments) -> io::Result<Value> {
    let _kept = arguments.how.keep()?;
    open(&arguments.how, &[&arguments.interface], Delays(arguments))
}

struct Delays<'a>(&'a Arguments);

impl With for Delays<'_> {
    fn with<D: Device<Address = FrameInfo> + AsFd>(self, devices: Vec<D>) -> io::Result<Value> {
        let looking = looking(Mode::INTERRUPT, 64);
        let mut poller: Poller<D, AnyPolicy> = Poller::new()?;
        for device in devices {
            poller.add(device, SourceConfig::new(looking.policy()).with_quota(looking.ring_quota()))?;
        }
        let (mut all, mut first) = (Recorder::default(), Recorder::default());
        let mut last = None;
        let begun = Monotonic.now();
        loop {
            let now = Monotonic.now();
            if last.map_or(now >= begun + PATIENCE, |last| now >= last + QUIET) {
                break;
            }
            poller.wait(Some(now + SETTLED), |packet, _| {
                let Some(((sequence, due), arrived)) = datagram(packet.bytes).zip(packet.arrived) else {
                    return;
                };
                last = Some(now);
                let delay = arrived.saturating_duration_since(due);
                // The sender's goodbyes are not datagrams of its flow.
                if delay > PATIENCE {
                    return;
                }
                all.record_duration(delay);
                if sequence % self.0.burst.max(1) == 0 {
                    first.record_duration(delay);
                }
            })?;
        }
        Ok(json!({ "latency_ns": all.distribution(), "first_ns": first.distribution() }))
    }
}

/// The generator is silent this long only when it has ended.
const QUIET: Duration = Duration::from_millis(300);
