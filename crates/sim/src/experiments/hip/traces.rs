//! The six traces of Table 1, made anew: [`lan`].
//!
//! Of the recordings only count, duration, mean gap and mean length have survived. How the packets came is what HIP's
//! results depend on, so it is inferred from them: for each trace the seven numbers of [`Bursts`] were searched for with which
//! seven figures of Table 3 come out, by [`fit`](super::fit). So that they come out shows that the algorithm can
//! produce the whole table at once, not that the traces were these. What was not fitted is real recordings.

use std::time::Duration;

use softtimers_core::poll::Factor;
use softtimers_core::poll::hip::Reading;

use crate::Machine;
use crate::arrivals::{Bursts, Lan, Lengths};
use crate::constants::HipTraces;

use super::paper::{PaperTrace, TRACES};

/// The traffic that stands for a trace of the paper.
///
/// ```
/// use softtimers_sim::{Machine, Streams};
/// use softtimers_sim::hip::{paper, traces};
///
/// let row = &paper::TRACES[0];
/// let trace = traces::lan(&Machine::PAPERS.hip_traces, row, traces::FITTED[0]).trace(Streams::new(1))?;
/// assert_eq!(trace.packets(), 4_502);
/// assert_eq!(trace.span().as_millis(), 11_500);
/// # Ok::<(), softtimers_sim::arrivals::LanError>(())
/// ```
pub const fn lan(of: &HipTraces, row: &PaperTrace, bursts: Bursts) -> Lan {
    // Frames as tcpdump counts them. Idle workstations get short ones: ARP, names, attributes of files.
    let long = if row.bytes > 300 { of.long } else { of.long_idle } as u16;
    let lengths = Lengths { short: of.short as u16, long, mean: row.bytes };
    Lan { packets: row.packets, duration: row.duration, lengths, bursts }
}

/// The number of a trace of this name.
pub fn find(name: &str) -> Option<usize> {
    TRACES.iter().position(|row| row.name == name)
}

/// The bursts of each trace of [`TRACES`] with which Table 3 comes out in a reading of the text: the *counter* of section 3,
/// or the *event* of section 6, with traffic that is a little different.
pub const fn fitted(of: &HipTraces, reading: Reading) -> [Bursts; 6] {
    match reading {
        Reading::Counter => [of.t_high_1, of.t_high_2, of.t_med_1, of.t_med_2, of.t_low_1, of.t_low_2],
        Reading::Event => [
            of.event_t_high_1,
            of.event_t_high_2,
            of.event_t_med_1,
            of.event_t_med_2,
            of.event_t_low_1,
            of.event_t_low_2,
        ],
    }
}

/// [`fitted`] to the counter, of the list of constants.
pub const FITTED: [Bursts; 6] = fitted(&Machine::PAPERS.hip_traces, Reading::Counter);

/// [`fitted`] to the event, of the list of constants.
pub const FITTED_EVENT: [Bursts; 6] = fitted(&Machine::PAPERS.hip_traces, Reading::Event);

/// Packets in a train, gap in µs, its even share; trains in a session, pause in µs, its even share; share of single packets.
/// All but the times in thousandths.
pub(crate) const fn bursts(
    train: u32,
    gap: u32,
    gap_even: u32,
    trains: u32,
    pause: u32,
    pause_even: u32,
    alone: u32,
) -> Bursts {
    Bursts {
        train: Factor::thousandths(train),
        gap: Duration::from_micros(gap as u64),
        gap_even: Factor::thousandths(gap_even),
        trains: Factor::thousandths(trains),
        pause: Duration::from_micros(pause as u64),
        pause_even: Factor::thousandths(pause_even),
        alone: Factor::thousandths(alone),
    }
}
