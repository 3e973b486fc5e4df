//! **Response time over a long path** (soft timers §5.7, Tables X and XI): an answer by slow start, and one
//! paced from the first packet at the capacity of the path.
//!
//! ```text
//!   slow start  ●●      ●●●●      ●●●●●●●●        a round trip between them, until the path is full
//!   paced       ●●●●●●●●●●●●●●                    at the rate of the slow link, at once
//! ```
//!
//! Slow start is [`SlowStart`], in both readings of the rule that opens the window: each packet that is
//! acknowledged (A.2), or each ACK, so that with a receiver that acknowledges every second packet it grows by
//! half in a round trip. The paced sender is a [`RateClock`](softtimers_core::RateClock) at the rate of
//! [`StartRate`].

use std::time::Duration;

use softtimers_core::StartRate;
use softtimers_core::{Percent, Rate};

use super::slow_link::{MBIT, capacity};
use crate::engine::path::ack_receiver::AckReceiver;
use crate::engine::path::slow_start::{Growth, SlowStart};
use crate::engine::path::transfer::{Sender, Transfer};
use crate::{Column, Experiment, Parameter, Parameters, Row, RunError, Steps, Streams};

/// Time from the request to the last packet, with slow start and paced.
pub(crate) static SLOWSTART: Experiment = Experiment {
    name: "slowstart",
    about: "Response time by slow start and paced at the capacity (soft timers, Tables X and XI)",
    details: "An answer of N packets (--packets) of 1,500 bytes over a slow link with 50 ms each way. \
              Nothing is lost, and the window grows up to the capacity of the path. The paper's 89% for 100 \
              packets matches the reading with delayed ACKs.",
    parameters: &[
        Parameter::count("packets", "Packets in the answer", 1..=10_000_000, 100),
        Parameter::count("mbit", "Rate of the slow link, in Mbit/s", MBIT, 100).in_unit("per_s"),
        Parameter::time(
            "rtt",
            "Round-trip time",
            Duration::from_micros(10)..=Duration::from_secs(10),
            Duration::from_millis(100),
        ),
        Parameter::switch("set-up", "The transfer begins with the connection set-up"),
        Parameter::count(
            "fraction",
            "Initial rate of the paced train, in % of the capacity; it doubles in each round trip",
            1..=100,
            100,
        )
        .in_unit("percent"),
        Parameter::count("acked-at-once", "Packets for each delayed ACK", 1..=64, 2),
    ],
    columns: &[
        Column::new("mbit", "rate of the slow link, in Mbit/s").in_unit("per_s"),
        Column::new("packets", "packets in the answer").given(),
        Column::new("kbytes", "data in the answer, 1,448 bytes in each packet").digits(0).given(),
        Column::new("slow_start_s", "slow start that adds a packet for each acknowledged one").digits(3),
        Column::new("delayed_acks_s", "slow start that adds one packet for each ACK, delayed ACKs").digits(3),
        Column::new("paced_s", "paced at the capacity, or from a fraction of it").digits(3),
        Column::share("reduction", "reduction of the time compared with slow start").digits(2),
        Column::share("reduction_delayed", "reduction compared with slow start and delayed ACKs").digits(2),
        Column::share("paper_reduction", "the paper's, for 100 packets and for the longest")
            .digits(2)
            .given(),
    ],
    sweep: &[("mbit", "50,100"), ("packets", "5,10,20,100,1000,10000,100000")],
    check: |parameters| link(parameters).map(drop),
    run,
};

/// The time a packet takes on the slow link.
fn link(parameters: &Parameters) -> Result<Duration, RunError> {
    let link = capacity(parameters)?.interval();
    if link.is_zero() {
        Err(RunError::new("mbit: a packet must take at least one nanosecond"))
    } else {
        Ok(link)
    }
}

fn run(parameters: &Parameters, _: Streams, _: &Steps) -> Result<Vec<Row>, RunError> {
    let capacity = capacity(parameters)?;
    let link = link(parameters)?;
    let rtt = parameters.time("rtt");
    let held = u64::try_from(rtt.as_nanos() / link.as_nanos()).unwrap_or(u64::MAX).saturating_add(4);
    let packets = parameters.count("packets");
    let seconds = |sender, every| {
        let delayed_acks = parameters.machine().path.delayed_acks;
        let receiver =
            AckReceiver { every, ..AckReceiver::new(Duration::ZERO, Duration::ZERO, delayed_acks) };
        let set_up = parameters.is_on("set-up");
        Transfer { sender, packets, link, delay: rtt / 2, set_up, receiver }.time().as_secs_f64()
    };
    let slow = seconds(Sender::SlowStart(SlowStart::new(held, Growth::PerPacket)), 1);
    let at_once = parameters.count("acked-at-once");
    let delayed = seconds(Sender::SlowStart(SlowStart::new(held, Growth::PerAck)), at_once);
    let paced = seconds(paced(capacity, parameters.count_u32("fraction"))?, 1);
    let reduction = |before: f64| 1.0 - paced / before;
    let paper = match (packets, parameters.is_on("set-up")) {
        (100, false) => Some(0.89),
        (100_000, false) => Some(0.02),
        _ => None,
    };
    Ok(vec![vec![
        parameters.count("mbit").into(),
        packets.into(),
        (packets as f64 * 1.448).into(),
        slow.into(),
        delayed.into(),
        paced.into(),
        reduction(slow).into(),
        reduction(delayed).into(),
        paper.into(),
    ]])
}

fn paced(capacity: Rate, percent: u32) -> Result<Sender, RunError> {
    let fraction = Percent::new(percent).map_err(RunError::new)?;
    let start = StartRate::new(capacity, fraction).map_err(RunError::new)?;
    Ok(if percent == 100 { Sender::Paced(start) } else { Sender::Climbing(start) })
}

#[cfg(test)]
mod tests;
