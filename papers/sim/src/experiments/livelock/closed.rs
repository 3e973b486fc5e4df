//! The same kernels without simulation: [`Closed`], a few divisions.
//!
//! Interrupts have absolute priority, so arriving packets take their share of the CPU first, and the
//! remainder does the rest. With `d` for the cost of an arriving packet before the first queue that can drop
//! it, and `k` for the rest of its path:
//!
//! ```text
//!   output(r) = r                     for r ≤ 1 / (d + k)     the loss-free rate
//!             = (1 − d·r) / k         beyond
//!             = 0                     from r = 1 / d on       livelock (§1, §4.2)
//! ```
//!
//! A polled kernel spends nothing on packets it has not taken: beyond its loss-free rate it continues at that
//! rate. If a turn has more packets than the transmitter takes at once, the excess is dropped at the output
//! queue after the turn has spent its time on it.

use std::time::Duration;

use super::config::{Config, Consumer, TransmitPriority};
use super::costs::Costs;

/// The closed form of a kernel.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Closed {
    /// Seconds for a packet that is dropped after that; none for a kernel that drops only in the interface.
    before: Option<f64>,
    /// Seconds for a packet that is forwarded.
    whole: f64,
}

impl Closed {
    /// The closed form of a configuration; one interrupt for each packet if it has interrupts.
    pub(crate) fn from_config(config: &Config) -> Self {
        let costs = config.costs();
        let ticks = 1.0 - costs.tick.as_secs_f64() / config.machine.ticks.as_secs_f64();
        let seconds = |time: Duration| time.as_secs_f64() / ticks;
        if config.kernel.polls() {
            let (before, whole) = polled(config, &costs);
            return Closed { before: before.map(seconds), whole: seconds(whole) };
        }
        let Costs { interrupt, receive, input, output, finish, queue, process, .. } = costs;
        let sent = costs.transmit_interrupt + costs.transmit;
        let others = interrupt + costs.switch_network + receive + input + queue + sent;
        let (before, after) = match config.consumer {
            Consumer::Kernel if config.to_completion => {
                let forwarded = receive + costs.forward();
                // If transmitting has priority, excess packets are dropped in the interface.
                if config.transmit == TransmitPriority::Higher {
                    return Closed { before: None, whole: seconds(forwarded + sent) };
                }
                (forwarded, sent)
            }
            Consumer::Kernel => (interrupt + receive, input + output + finish + sent),
            Consumer::Screend => {
                (interrupt + receive + input + queue, process + output + finish + sent + cold(&costs, others))
            }
            Consumer::Monitor => (interrupt + receive + input + queue, process),
        };
        Closed { before: Some(seconds(before)), whole: seconds(before + after) }
    }

    /// The maximum loss-free receive rate, packets a second.
    pub(crate) fn loss_free(&self) -> f64 {
        1.0 / self.whole
    }

    /// Returns the rate from which nothing is forwarded.
    pub(crate) fn livelock(&self) -> Option<f64> {
        self.before.map(|before| 1.0 / before)
    }

    /// The output at an input of `rate` packets a second.
    pub(crate) fn output(&self, rate: f64) -> f64 {
        if rate <= self.loss_free() {
            return rate;
        }
        match self.before {
            None => self.loss_free(),
            Some(before) => ((1.0 - before * rate) / (self.whole - before)).max(0.0),
        }
    }
}

/// Returns the extra time of screend for each packet, if others had the CPU for `away`.
fn cold(costs: &Costs, away: Duration) -> Duration {
    let work = costs.process + costs.output + costs.finish;
    let evicted = away.saturating_mul(u32::try_from(costs.cooling.share).unwrap_or(u32::MAX)) / 1_000;
    evicted.min(costs.cooling.most).min(work)
}

/// A packet of a full turn: its cost before it can be dropped, unless that is in the interface, and its total
/// cost.
fn polled(config: &Config, costs: &Costs) -> (Option<Duration>, Duration) {
    let Costs { receive, input, queue, process, turn, output, finish, .. } = *costs;
    let quota = config.quota.receive();
    let taken = turn / quota + receive;
    // Alone on the wire, each with its own interrupt and turn.
    let sent = costs.transmit_interrupt + costs.switch_network + costs.transmit_turn + costs.transmit;
    let through_process = match config.consumer {
        Consumer::Kernel => {
            let loaded = quota.min(config.machine.descriptors);
            let sent = costs.transmit_interrupt + costs.transmit_turn + costs.transmit * loaded;
            let all = (taken + costs.forward()).saturating_mul(quota).saturating_add(sent);
            return (None, all / loaded);
        }
        Consumer::Screend => {
            let sent = sent + costs.user;
            (taken + input + queue, process + output + finish + sent + cold(costs, sent))
        }
        Consumer::Monitor => (taken + queue, process),
    };
    let (before, after) = through_process;
    (config.feedback.is_none().then_some(before), before + after)
}
