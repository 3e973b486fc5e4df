//! Recorded traffic in files of other programs: pcap, pcapng, lines of `t_us,len`, or of the Internet Traffic Archive.
//!
//! A recording is read and checked completely before the first datagram leaves: errors show at once, and no departure
//! waits for a disk. Of each packet only its time and its length are kept, ten bytes; the file itself passes through:
//!
//! ```text
//!   file ─▶ sniff ─▶ pcap, pcapng, csv, archive ─▶ Collector ─▶ Trace
//!           first     (time, length) at             lengths made
//!           bytes     byte offset                    those of datagrams
//! ```
//!
//! Nothing in a file is trusted: memory grows with the bytes actually read, never by a length that the file claims, and
//! every error names the byte.

mod archive;
mod capture;
mod collector;
mod csv;
mod fit;
mod lines;

use std::io::{Cursor, Read};

use serde::Serialize;
use softtimers_core::{Trace, TraceBuilder};

pub use collector::RecordingError;
use collector::{Collector, HEAD};
pub use fit::{Changed, Fit};

/// A recording, ready to be replayed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recording {
    /// When the datagrams leave, and how long they are.
    pub trace: Trace,
    /// The format of the file.
    pub format: Format,
    /// The necessary changes.
    pub changed: Changed,
}

/// The formats of recordings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// The capture format of libpcap, with times in micro- or nanoseconds.
    Pcap,
    /// pcapng, the successor of pcap.
    Pcapng,
    /// Lines of `t_us,len`, a time in microseconds and a length in bytes.
    Csv,
    /// Lines of seconds and a length, as in the Internet Traffic Archive.
    Ita,
}

/// Reads a recording to its end.
///
/// ```
/// use softtimers_load::recording::{self, Fit, Format};
///
/// let file = "t_us,len\n0,100\n12.5,1200\n";
/// let recording = recording::read(file.as_bytes(), &Fit::default())?;
/// assert_eq!((recording.format, recording.trace.packets()), (Format::Csv, 2));
///
/// let error = recording::read("0,100\n12.5,long\n".as_bytes(), &Fit::default()).unwrap_err();
/// assert!(error.to_string().starts_with("byte 6, line 2: "));
/// # Ok::<(), recording::RecordingError>(())
/// ```
///
/// # Errors
/// [`RecordingError`] if it cannot be read, is not a recording, or has no packet.
///
/// # Cost
/// Ten bytes of memory for each datagram, up to twice that while reading, and a buffer of 64 KiB, which grows with the
/// longest block in the file, to at most 16 MiB.
pub fn read(mut input: impl Read, fit: &Fit) -> Result<Recording, RecordingError> {
    let mut head = Vec::new();
    input
        .by_ref()
        .take(HEAD as u64)
        .read_to_end(&mut head)
        .map_err(|error| RecordingError::at(0, format_args!("cannot be read ({error})")))?;
    let format = sniff(&head, fit).map_err(|problem| RecordingError::at(0, problem))?;
    let input = Cursor::new(head).chain(input);
    let mut collector = Collector { fit: *fit, trace: TraceBuilder::default(), changed: Changed::default() };
    let end = match format {
        Format::Pcap => capture::pcap(input, &mut collector).map_err(|error| error.quoting(fit))?,
        Format::Pcapng => capture::pcapng(input, &mut collector).map_err(|error| error.quoting(fit))?,
        Format::Csv => csv::read(input, &mut collector)?,
        Format::Ita => archive::read(input, &mut collector)?,
    };
    let changed = Changed { out_of_order: collector.trace.out_of_order(), ..collector.changed };
    match collector.trace.finish() {
        Some(trace) => Ok(Recording { trace, format, changed }),
        None => Err(RecordingError::at(end, "the file ends, and there was no packet in it")),
    }
}

/// Recognizes the format by the first bytes.
fn sniff(head: &[u8], fit: &Fit) -> Result<Format, String> {
    let allowed = "pcap, pcapng, lines of t_us,len and of the Internet Traffic Archive are read";
    match head {
        [] => Err(format!("the file is empty; {allowed}")),
        [0x0a, 0x0d, 0x0d, 0x0a, ..] => Ok(Format::Pcapng),
        [0xd4, 0xc3, 0xb2, 0xa1, ..] | [0xa1, 0xb2, 0xc3, 0xd4, ..] => Ok(Format::Pcap),
        [0x4d, 0x3c, 0xb2, 0xa1, ..] | [0xa1, 0xb2, 0x3c, 0x4d, ..] => Ok(Format::Pcap),
        [0x1f, 0x8b, ..] => Err(format!("the file is compressed, by gzip; {allowed}, also from a pipe: -")),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            Err(format!("the file is compressed, by zstd; {allowed}, also from a pipe: -"))
        }
        _ if is_text(head) => Ok(if begins_with(head, archive::is_line) { Format::Ita } else { Format::Csv }),
        _ => {
            let first: Vec<String> = head.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
            Err(format!("the file begins with {}; {allowed}", fit.quoted(first.join(" "))))
        }
    }
}

/// Says whether the first line is readable text.
fn is_text(head: &[u8]) -> bool {
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or(head);
    let end = line.len().min(LONGEST_TEXT);
    line[..end].iter().all(|&byte| byte >= b' ' || byte == b'\t' || byte == b'\r')
}

/// Says whether the first line that is not empty is of this kind.
fn begins_with(head: &[u8], is_line: impl Fn(&str) -> bool) -> bool {
    let text = String::from_utf8_lossy(head);
    let mut lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
    lines.find(|line| !line.is_empty() && !line.starts_with('#')).is_some_and(is_line)
}

/// The longest first line that counts as text.
const LONGEST_TEXT: usize = 256;

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn refusal(bytes: &[u8]) -> String {
        read(bytes, &Fit::default()).unwrap_err().to_string()
    }

    #[test]
    fn what_is_no_recording_is_named() {
        assert_eq!(
            refusal(b""),
            "byte 0: the file is empty; pcap, pcapng, lines of t_us,len and of the Internet Traffic Archive are read"
        );
        assert!(
            refusal(b"\x7fELF\x02\x01\x01\0").starts_with("byte 0: the file begins with 7f 45 4c 46; pcap")
        );
        assert!(refusal(b"\x1f\x8b\x08\0").contains("compressed, by gzip"));
        assert!(refusal(b"\x28\xb5\x2f\xfd").contains("compressed, by zstd"));
        assert_eq!(refusal(b"# nothing\n"), "byte 10: the file ends, and there was no packet in it");
    }

    #[test]
    fn a_disk_that_fails_is_not_the_end_of_a_file() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("a bad sector"))
            }
        }
        let rows = "0,100\n".repeat(HEAD / 6 + 10);
        for good in [&b"0,100\n1"[..], &b"\xd4\xc3\xb2\xa1\x02\0\x04\0"[..], rows.as_bytes()] {
            let error = read(good.chain(Broken), &Fit::default()).unwrap_err();
            assert!(error.to_string().contains("a bad sector"), "{error}");
        }
    }
}
