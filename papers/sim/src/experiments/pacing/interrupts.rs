//! One flow by a periodic hardware timer: the baseline for soft timers (§5.6).
//!
//! ```text
//!   ticks      |     |     |     |     |     |
//!   disabled         ░░░░░░░░░░░░░░
//!   sent       ●                  ●  ●     ●     ●       one is delivered late, those behind it are lost
//! ```

use softtimers_core::{Random, Timestamp};

use super::{Flow, PacingStats};
use crate::{Parameters, RunError, Steps, Streams};

/// Returns for how many nanoseconds interrupts are enabled, on average.
pub(super) fn enabled_mean(parameters: &Parameters) -> Result<u64, RunError> {
    let nanos = |name| parameters.time(name).as_nanos() as u64;
    let (longest, every) = (nanos("disabled"), nanos("disabled-every"));
    if parameters.count("flows") != 1 {
        return Err(RunError::new("strategy interrupts: one flow, for there is one timer"));
    }
    every.checked_sub(longest / 2).filter(|&mean| mean > 0).ok_or_else(|| {
        let (longest, every) = (parameters.time("disabled"), parameters.time("disabled-every"));
        RunError::new(format_args!(
            "disabled {longest:?} in each {every:?}: interrupts are enabled at some time if half of it is shorter"
        ))
    })
}

/// Sends a packet for each tick that is delivered.
pub(super) fn run(parameters: &Parameters, streams: Streams, steps: &Steps) -> Result<PacingStats, RunError> {
    let nanos = |name| parameters.time(name).as_nanos() as u64;
    let (target, longest, enabled_mean) = (nanos("target"), nanos("disabled"), enabled_mean(parameters)?);
    let mut random = streams.of("disabled");
    let mut flow = Flow::new(parameters.time("target"));
    let (mut disabled, mut enabled, mut pending_until, mut lost) = (0, 0, 0, 0u64);
    let ticks = nanos("duration") / target;
    for number in 1..=ticks {
        if !steps.go_on(number, ticks) {
            break;
        }
        let tick = number * target;
        while disabled <= tick {
            enabled = disabled + random.below(longest);
            disabled = enabled + exponential(&mut random, enabled_mean);
        }
        if tick < pending_until {
            lost += 1;
        } else {
            pending_until = enabled;
            flow.departed(Timestamp::from_nanos(tick.max(enabled)));
        }
    }
    let share = lost as f64 / ticks.max(1) as f64;
    Ok(PacingStats { flows: vec![flow], sending_states: flow.packets, lost: Some(share) })
}

fn exponential(random: &mut Random, mean: u64) -> u64 {
    (u128::from(random.exponential()) * u128::from(mean) / u128::from(Random::ONE)) as u64
}
