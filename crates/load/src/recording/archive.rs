//! Recordings of the Internet Traffic Archive: lines of a time in seconds and a length, between white space.
//!
//! ```text
//!   0.003056   64                           BC-pAug89.TL: the time, and the bytes of an Ethernet frame
//!   0.010445 2 1 2436 23 2                  lbl-tcp-3.tcp: the time, hosts, ports, and bytes of data
//! ```
//!
//! Text between the two is ignored. Lengths are used unchanged.

use std::io::Read;

use softtimers_core::Timestamp;

use softtimers_measure::units;

use super::collector::{Collector, Packet, RecordingError};
use super::fit::Fit;
use super::lines;

/// Says whether this line is one of the archive's, and not one of a table with commas.
pub(super) fn is_line(text: &str) -> bool {
    !text.contains(',') && text.split_whitespace().nth(1).is_some()
}

/// Reads to the end, and returns its offset.
pub(super) fn read(input: impl Read, into: &mut Collector) -> Result<u64, RecordingError> {
    lines::each(input, EXPECTED, |text| packet(text, &into.fit).and_then(|packet| into.take(packet)))
}

fn packet(text: &str, fit: &Fit) -> Result<Packet, String> {
    let fields: Vec<&str> = text.split_whitespace().collect();
    let (time, length) = match fields[..] {
        [time, length] | [time, _, _, _, _, length] => (time, length),
        _ => return Err(format!("'{}': {EXPECTED} is expected", fit.quoted(text))),
    };
    let nanos = lines::nanos(time, 1_000_000_000)
        .ok_or_else(|| format!("'{}' is no time in seconds, such as 12 or 12.003056", fit.quoted(time)))?;
    let length = units::scaled(length, 1)
        .ok_or_else(|| format!("'{}' is no length in bytes, such as 64", fit.quoted(length)))?;
    Ok(Packet { time: Timestamp::from_nanos(nanos), length, link: None })
}

const EXPECTED: &str = "a time in seconds and a length, or with two hosts and two ports between them,";

#[cfg(test)]
mod tests {
    use super::super::{self as recording, Fit, Format};

    fn read(text: &str) -> Result<Vec<(u128, u16)>, String> {
        let recording =
            recording::read(text.as_bytes(), &Fit::default()).map_err(|error| error.to_string())?;
        assert_eq!(recording.format, Format::Ita);
        Ok(recording.trace.iter().map(|(time, length)| (time.as_nanos(), length)).collect())
    }

    #[test]
    fn lines_are_packets() {
        let expected = Ok(vec![(0, 64), (8_000, 1518), (1_000_008_000, 64)]);
        for text in [
            "0.003056     64\n0.003064   1518\n1.003064     64\n",
            "# a comment\n\n 0.003056\t64\r\n0.003064 1518\r\n1.003064 64",
            "0.003056 2 1 2436 23 64\n0.003064 1 2 23 2436 1518\n1.003064 2 1 2436 23 64\n",
        ] {
            assert_eq!(read(text), expected, "{text:?}");
        }
    }

    #[test]
    fn mistakes_are_shown_with_line_and_byte() {
        for (text, message) in [
            ("0.1 64\n0.2\n", "byte 7, line 2: '0.2': a time in seconds and a length"),
            ("0.1 64\n0.2 64 3\n", "byte 7, line 2: '0.2 64 3': a time in seconds"),
            ("0.1 64\n-1 64\n", "byte 7, line 2: '-1' is no time in seconds, such as"),
            ("1e3 64\n", "byte 0, line 1: '1e3' is no time in seconds"),
            ("0.1 6.4\n", "byte 0, line 1: '6.4' is no length in bytes"),
            ("0.1 70000\n", "byte 0, line 1: a packet of 70000 bytes"),
            ("99999999999 64\n", "byte 0, line 1: '99999999999' is no time"),
            ("x y\n", "byte 0, line 1: 'x' is no time in seconds"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(message), "{text:?}: {error}");
        }
    }
}
