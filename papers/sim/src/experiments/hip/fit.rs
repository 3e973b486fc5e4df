//! Finds traffic that gives the figures of Table 3: [`fit`].
//!
//! A random search in two phases: a third of the tries anywhere within `BOUNDS`, the rest ever closer to the
//! best so far. It minimises the sum of (found − paper)² / (found · paper) over seven figures, each the mean
//! of a few seeds, so that the traffic is fitted and not one sample of it. The search has a seed and avoids
//! platform-dependent rounding, so its result is the same everywhere.

use softtimers_core::Random;
use softtimers_poll::Hip;
use softtimers_poll::HipConfig;
use softtimers_poll::readings::Costs;

use super::paper::PaperTrace;
use super::traces;
use crate::constants::HipTraces;
use crate::engine::arrivals::{Bursts, LanError, of_trace};
use crate::engine::receiver::{ReceiveStats, Receiver, Timing};
use crate::{Steps, Streams};

/// The figures of Table 3 that depend on how packets come: polling's and HIP's overhead, their delays (all in
/// microseconds), and HIP's interrupts, polls and unsuccessful polls.
pub(crate) type Figures = [f64; 7];

/// The result of a search.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Fit {
    pub(crate) bursts: Bursts,
    /// The sum of squares: 0.01 is 4% for each figure.
    pub(crate) error: f64,
}

/// Searches for the bursts with which a trace of the paper gives its figures, starting from `best`.
pub(crate) fn fit(
    of: &HipTraces,
    row: &PaperTrace,
    best: Bursts,
    tries: u32,
    streams: Streams,
    config: HipConfig,
    steps: &Steps,
) -> Fit {
    let mut random = streams.of("fit");
    let mut best = (numbers(best), error_of(of, row, best, config));
    for number in 0..tries {
        if !steps.go_on(number.into(), tries.into()) {
            break;
        }
        let candidate = if number < tries / 3 {
            BOUNDS.map(|bound| bound.anywhere(&mut random))
        } else {
            let left = u64::from(tries - number) * 300 / u64::from(tries) + 10;
            std::array::from_fn(|index| BOUNDS[index].near(best.0[index], left, &mut random))
        };
        let error = error_of(of, row, of_numbers(candidate), config);
        if error < best.1 {
            best = (candidate, error);
        }
    }
    Fit { bursts: of_numbers(best.0), error: best.1 }
}

/// The figures of one sample of the traffic.
///
/// # Errors
/// Such traffic is impossible.
pub(crate) fn figures(
    of: &HipTraces,
    row: &PaperTrace,
    bursts: Bursts,
    streams: Streams,
    config: HipConfig,
) -> Result<Figures, LanError> {
    let trace = traces::lan(of, row, bursts).trace(streams)?;
    let run = |config: HipConfig| -> ReceiveStats {
        Receiver::new(Hip::new(config), Costs::HIP, Timing::Clock, of_trace(&trace)).run(|_, _| ()).0
    };
    let (polling, hip) = (run(config.polling_only()), run(config));
    let counts = [hip.interrupts, hip.polls, hip.unsuccessful].map(|count| count as f64);
    let [interrupts, polls, unsuccessful] = counts;
    let (overheads, delays) =
        ([polling.overhead_us(), hip.overhead_us()], [polling.delay_us(), hip.delay_us()]);
    Ok([overheads[0], overheads[1], delays[0], delays[1], interrupts, polls, unsuccessful])
}

/// The distance of the means of a few samples from the paper's figures; infinite if one of them is
/// impossible.
pub(crate) fn error_of(of: &HipTraces, row: &PaperTrace, bursts: Bursts, config: HipConfig) -> f64 {
    let mut means = Figures::default();
    for seed in 0..SEEDS {
        let Ok(found) = figures(of, row, bursts, Streams::new(seed), config) else { return f64::INFINITY };
        for (mean, found) in means.iter_mut().zip(found) {
            *mean += found / SEEDS as f64;
        }
    }
    let paper = target(row);
    means.iter().zip(paper).map(|(found, paper)| (found - paper) * (found - paper) / (found * paper)).sum()
}

/// The paper's figures; HIP's overhead as consistent with its counts.
pub(crate) fn target(row: &PaperTrace) -> Figures {
    let found = &row.found;
    [
        found.polling_overhead,
        found.consistent_overhead(row.packets, row.bytes),
        found.polling_delay,
        found.delay,
        found.interrupts.into(),
        found.polls.into(),
        found.unsuccessful.into(),
    ]
}

/// The bounds of the search: thousandths, and microseconds.
const BOUNDS: [Bound; 7] = [
    Bound { least: 1_000, most: 24_000, scale: true },
    Bound { least: 70, most: 20_000, scale: true },
    Bound { least: 0, most: 1_000, scale: false },
    Bound { least: 1_000, most: 60_000, scale: true },
    Bound { least: 500, most: 200_000, scale: true },
    Bound { least: 0, most: 1_000, scale: false },
    Bound { least: 0, most: 1_000, scale: false },
];

#[derive(Clone, Copy)]
struct Bound {
    least: u64,
    most: u64,
    /// Relative changes matter, not differences.
    scale: bool,
}

impl Bound {
    fn anywhere(self, random: &mut Random) -> u32 {
        let Bound { least, most, scale } = self;
        if !scale {
            return (least + random.below(most - least + 1)) as u32;
        }
        // An octave, and a position in it.
        let base = least << random.below(u64::from((most / least).ilog2()) + 1);
        (base + random.below(base)).min(most) as u32
    }

    /// Unchanged, or changed by up to `thousandths` of the value or of the whole range.
    fn near(self, value: u32, thousandths: u64, random: &mut Random) -> u32 {
        let keep = random.next_u64() & 1 == 0;
        let reach = if self.scale { u64::from(value) * thousandths / 1_000 } else { thousandths }.max(1);
        let moved = u64::from(value) + random.below(2 * reach + 1);
        let moved = moved.saturating_sub(reach).clamp(self.least, self.most) as u32;
        if keep { value } else { moved }
    }
}

fn numbers(bursts: Bursts) -> [u32; 7] {
    let micros = |time: std::time::Duration| u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
    let Bursts { train, gap, gap_even, trains, pause, pause_even, alone } = bursts;
    [train.get(), micros(gap), gap_even.get(), trains.get(), micros(pause), pause_even.get(), alone.get()]
}

fn of_numbers([train, gap, gap_even, trains, pause, pause_even, alone]: [u32; 7]) -> Bursts {
    Bursts::new(train, gap, gap_even, trains, pause, pause_even, alone)
}

/// Samples for each candidate.
const SEEDS: u64 = 4;
