//! Recordings as lines of text: `t_us,len`, a time in microseconds and the bytes of a datagram's payload.
//!
//! ```text
//!   # a comment              anywhere
//!   t_us,len                 a header, as the first line that is not a comment; optional
//!   0,1200
//!   40.125,1200              fractions of a microsecond; digits beyond the nanosecond are dropped
//! ```

use std::io::Read;

use softtimers_core::Timestamp;

use softtimers_measure::units;

use super::collector::{Collector, Packet, RecordingError};
use super::fit::Fit;
use super::lines;

/// Reads to the end, and returns its offset.
pub(super) fn read(input: impl Read, into: &mut Collector) -> Result<u64, RecordingError> {
    let mut begun = false;
    lines::each(input, "t_us,len", |text| {
        if begun || !is_head(text, &into.fit)? {
            packet(text, &into.fit).and_then(|packet| into.take(packet))?;
        }
        begun = true;
        Ok(())
    })
}

/// Says whether this is the table's header, whose names must match the columns.
fn is_head(text: &str, fit: &Fit) -> Result<bool, String> {
    if !text.starts_with(|first: char| first.is_alphabetic() || first == '"') {
        return Ok(false);
    }
    let names = text.split_once(',').map(|(time, length)| (time.trim(), length.trim()));
    match names {
        Some(("t_us", "len" | "len_bytes")) => Ok(true),
        _ => Err(format!("a head of '{}': the columns are t_us,len", fit.quoted(text))),
    }
}

fn packet(text: &str, fit: &Fit) -> Result<Packet, String> {
    let (time, length) = text
        .split_once(',')
        .ok_or_else(|| format!("'{}': a time and a length are expected, t_us,len", fit.quoted(text)))?;
    let (time, length) = (time.trim(), length.trim());
    let nanos = lines::nanos(time, 1_000)
        .ok_or_else(|| format!("'{}' is no time in microseconds, such as 12 or 12.5", fit.quoted(time)))?;
    let length = units::scaled(length, 1)
        .ok_or_else(|| format!("'{}' is no length in bytes, such as 1200", fit.quoted(length)))?;
    Ok(Packet { time: Timestamp::from_nanos(nanos), length, link: None })
}

#[cfg(test)]
mod tests {
    use super::super::{self as recording, Fit};

    fn read(text: &str) -> Result<Vec<(u128, u16)>, String> {
        let recording =
            recording::read(text.as_bytes(), &Fit::default()).map_err(|error| error.to_string())?;
        Ok(recording.trace.iter().map(|(time, length)| (time.as_nanos(), length)).collect())
    }

    #[test]
    fn lines_are_packets() {
        let expected = Ok(vec![(0, 100), (1_500, 1200), (1_500_999, 32)]);
        for text in [
            "10,100\n11.5,1200\n1510.9999999,32\n",
            "t_us,len\n10,100\n11.5,1200\n1510.999,32",
            "\u{feff}# made by hand\r\n\r\nt_us, len_bytes\r\n10,100\r\n# pause\r\n 11.50 , 1200 \r\n1510.999,32\r\n",
        ] {
            assert_eq!(read(text), expected, "{text:?}");
        }
    }

    #[test]
    fn mistakes_are_shown_with_line_and_byte() {
        for (text, message) in [
            ("0,100\n7\n", "byte 6, line 2: '7': a time and a length are expected, t_us,len"),
            ("# x\n0;100\n", "byte 4, line 2: '0;100': a time and a length are expected, t_us,len"),
            ("-1,100\n", "byte 0, line 1: '-1' is no time in microseconds, such as 12 or 12.5"),
            ("1.2.3,100\n", "byte 0, line 1: '1.2.3' is no time"),
            ("1.2345x,100\n", "byte 0, line 1: '1.2345x' is no time"),
            ("1.µs,100\n", "byte 0, line 1: '1.µs' is no time"),
            ("0,1e3\n", "byte 0, line 1: '1e3' is no length in bytes, such as 1200"),
            ("0,100,6\n", "byte 0, line 1: '100,6' is no length"),
            ("99999999999999999,1\n", "byte 0, line 1: '99999999999999999' is no time"),
            ("t_ms,len\n", "byte 0, line 1: a head of 't_ms,len': the columns are t_us,len"),
            ("0,100\nt_us,len\n", "byte 6, line 2: 't_us' is no time"),
            ("0,100\n1,65508\n", "byte 6, line 2: a packet of 65508 bytes"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(message), "{text:?}: {error}");
        }
        let long = format!("0,100\n{}\n", "7".repeat(2_000));
        assert!(read(&long).unwrap_err().starts_with("byte 6, line 2: a line of more than 1024 bytes"));
        let binary = recording::read(&b"0,100\n\xff\xfe,1\n"[..], &Fit::default()).unwrap_err().to_string();
        assert!(binary.starts_with("byte 6, line 2: not text"), "{binary}");
    }
}
