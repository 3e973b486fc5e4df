//! Shared by the examples: their paths, and the output of a result.

use std::time::Duration;

use softtimers_core::Timestamp;
use softtimers_wan::{
    Bottleneck, GilbertElliott, Jitter, Loss, PathConfig, Probability, Queue, Wan, WanBuilder,
};

/// A path with a name, and the rate of its slower direction in bits a second.
#[derive(Clone, Debug)]
pub struct Line {
    pub name: &'static str,
    pub path: WanBuilder,
    pub rate_bps: u64,
}

/// Returns paths from a cable to a bad radio link.
pub fn lines() -> Result<[Line; 3], softtimers_core::RateError> {
    let path = |rate, delay_ms, queue_ms| -> Result<PathConfig, softtimers_core::RateError> {
        Ok(PathConfig::default()
            .bottleneck(Bottleneck::bits_per_second(rate)?)
            .delay(Duration::from_millis(delay_ms))
            .queue(Queue::time(Duration::from_millis(queue_ms))))
    };
    let cable = path(50_000_000, 10, 50)?;
    let far = path(20_000_000, 100, 200)?;
    let bursts = GilbertElliott::bursts(Probability::once_in(400), Probability::once_in(3));
    let radio = path(10_000_000, 25, 100)?
        .jitter(Jitter::uniform(Duration::from_millis(3)))
        .loss(Loss::GilbertElliott(bursts));
    let line =
        |name, path: PathConfig, rate_bps| Line { name, path: Wan::builder().both(path).seed(1), rate_bps };
    Ok([
        line("cable, 50 Mbit/s, 20 ms", cable, 50_000_000),
        line("far, 20 Mbit/s, 200 ms", far, 20_000_000),
        line("radio, 10 Mbit/s, 50 ms, bursts", radio, 10_000_000),
    ])
}

/// A finished transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transfer {
    pub bytes: u64,
    pub end: Timestamp,
    /// Drops by the queue towards the receiver.
    pub queue_drops: u64,
    pub lost: u64,
}

impl Transfer {
    /// Returns the bits a second, from the first packet of the handshake to the last byte.
    pub fn goodput_bps(&self) -> u64 {
        self.bytes * 8 * 1_000_000_000 / self.end.as_nanos().max(1)
    }
}

/// Prints a transfer as a line of a table.
pub fn show(line: &Line, transfer: &Transfer) {
    let Transfer { end, queue_drops, lost, .. } = transfer;
    let (seconds, mbit) = (end.as_nanos() as f64 / 1e9, transfer.goodput_bps() as f64 / 1e6);
    println!("{:32} {seconds:7.3} s  {mbit:6.2} Mbit/s  {queue_drops:5} dropped  {lost:4} lost", line.name);
}
