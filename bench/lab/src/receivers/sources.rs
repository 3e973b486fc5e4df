//! `sources`: serves four interfaces in turn, and reports what each has received and dropped. Each packet costs a walk
//! through the rules.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use serde_json::{Value, json};
use softtimers::{Clock, Monotonic};
use softtimers_load::mode::Mode;
use softtimers_load::overload::Filter;
use softtimers_measure::units;
use softtimers_net::poller::{Device, FrameInfo, Poller};
use softtimers_poll::{AnyPolicy, SourceConfig};

use super::stages::accepts;
use super::{How, PATIENCE, SETTLED, With, datagram, looking, open};

#[derive(clap::Args, Debug, Clone)]
pub struct Arguments {
    interfaces: Vec<String>,
    #[command(flatten)]
    how: How,
    #[arg(long, default_value_t)]
    mode: Mode,
    #[arg(long, default_value_t = 64)]
    quota: u32,
    /// How long it runs; longer while packets come
    #[arg(long, value_parser = units::positive_duration)]
    duration: Duration,
}

pub(crate) fn run(arguments: &Arguments) -> io::Result<Value> {
    let _kept = arguments.how.keep()?;
    let names: Vec<&str> = arguments.interfaces.iter().map(String::as_str).collect();
    open(&arguments.how, &names, Sources(arguments))
}

struct Sources<'a>(&'a Arguments);

impl With for Sources<'_> {
    fn with<D: Device<Address = FrameInfo> + AsFd>(self, devices: Vec<D>) -> io::Result<Value> {
        let looking = looking(self.0.mode, self.0.quota);
        let filter = Filter::new(self.0.how.rules);
        let mut poller: Poller<D, AnyPolicy> = Poller::new()?;
        let config = || SourceConfig::new(looking.policy()).with_quota(looking.ring_quota());
        let sources = devices.into_iter().map(|device| poller.add(device, config()));
        let sources = sources.collect::<io::Result<Vec<_>>>()?;
        let mut received = vec![0u64; sources.len()];
        let until = Monotonic.now() + self.0.duration;
        // The datagrams of a late sender would be lost once the receiver has ended.
        let mut last = Monotonic.now();
        loop {
            let now = Monotonic.now();
            if now >= until && (now >= last + QUIET || now >= until + PATIENCE) {
                break;
            }
            poller.wait(Some(now + SETTLED), |packet, outputs| {
                last = now;
                let place = sources.iter().position(|&source| source == outputs.from());
                if let Some(place) = place.filter(|_| datagram(packet.bytes).is_some()) {
                    received[place] += u64::from(accepts(&filter, packet.bytes));
                }
            })?;
        }
        let mut found = Vec::new();
        for (&source, received) in sources.iter().zip(received) {
            let drops = poller.drops(source)?;
            found.push(json!({ "received": received, "ring": drops.ring, "interface": drops.interface }));
        }
        Ok(found.into())
    }
}

/// The silence after which senders that share a CPU have ended: none is silent for longer.
const QUIET: Duration = Duration::from_secs(1);
