//! The six traces of Table 1, made anew: [`lan`].
//!
//! Only count, duration, mean gap and mean length of the recordings have survived. How the packets came is what HIP's
//! results depend on, so it is inferred from them: for each trace the seven numbers of [`Bursts`] were searched for with which
//! seven figures of Table 3 come out, by [`fit`](super::fit). So that they come out shows that the algorithm can
//! produce the whole table at once, not that the traces were these. What was not fitted is real recordings.

use softtimers_core::poll::hip::Reading;

use super::paper::{PaperTrace, TRACES};
use crate::constants::HipTraces;
use crate::engine::arrivals::{Bursts, Lan, Lengths};

/// The traffic that stands for a trace of the paper.
pub(crate) const fn lan(of: &HipTraces, row: &PaperTrace, bursts: Bursts) -> Lan {
    // Frames as tcpdump counts them. Idle workstations get short ones: ARP, names, attributes of files.
    let long = if row.bytes > 300 { of.long } else { of.long_idle } as u16;
    let lengths = Lengths { short: of.short as u16, long, mean: row.bytes };
    Lan { packets: row.packets, duration: row.duration, lengths, bursts }
}

/// The number of a trace of this name.
pub(crate) fn find(name: &str) -> Option<usize> {
    TRACES.iter().position(|row| row.name == name)
}

/// The bursts of each trace of [`TRACES`] with which Table 3 comes out in a reading of the text: the *counter* of section 3,
/// or the *event* of section 6, with traffic that is a little different.
pub(crate) const fn fitted(of: &HipTraces, reading: Reading) -> [Bursts; 6] {
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
