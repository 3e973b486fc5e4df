//! Reconstructions of the six traces of Table 1: [`lan`].
//!
//! Only count, duration, mean gap and mean length of the recordings are known. HIP's results depend on how
//! the packets arrived, so that is inferred from them: for each trace, [`fit`](super::fit) searched for the
//! seven numbers of [`Bursts`] that reproduce seven figures of Table 3. Their agreement shows that the
//! algorithm can produce the whole table, not that the traces were like this. Real recordings were not
//! fitted.

use softtimers_poll::readings::Reading;

use super::paper::PaperTrace;
use crate::choice::choices;
use crate::constants::HipTraces;
use crate::engine::arrivals::{Bursts, Lan, Lengths};

/// Returns the reconstruction of a trace of the paper.
pub(crate) const fn lan(of: &HipTraces, row: &PaperTrace, bursts: Bursts) -> Lan {
    // Frames as tcpdump counts them. Idle workstations receive short ones: ARP, names, attributes of files.
    let long = if row.bytes > 300 { of.long } else { of.long_idle } as u16;
    let lengths = Lengths { short: of.short as u16, long, mean: row.bytes };
    Lan { packets: row.packets, duration: row.duration, lengths, bursts }
}

/// A trace of the paper, by its number in [`TRACES`](super::paper::TRACES).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TraceNumber(pub(super) usize);

choices! {
    TraceNumber:
    "t-high-1" => TraceNumber(0),
    "t-high-2" => TraceNumber(1),
    "t-med-1" => TraceNumber(2),
    "t-med-2" => TraceNumber(3),
    "t-low-1" => TraceNumber(4),
    "t-low-2" => TraceNumber(5),
}

/// Returns the bursts of each trace of [`TRACES`] that reproduce Table 3 in a reading of the text: the
/// *counter* of section 3, or the *event* of section 6, for which the traffic differs slightly.
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

#[cfg(test)]
mod tests {
    use super::super::paper::TRACES;
    use super::*;
    use crate::Choice;

    #[test]
    fn a_word_names_its_trace() {
        assert!(
            TraceNumber::WORDS.iter().zip(TraceNumber::VALUES).all(|(word, at)| TRACES[at.0].name == *word)
        );
        assert_eq!(TraceNumber::WORDS.len(), TRACES.len());
    }
}
