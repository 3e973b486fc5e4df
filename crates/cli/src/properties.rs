//! Properties that hold for any input: one function each, called by the property tests and the fuzzer.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use softtimers_core::Timestamp;
use softtimers_measure::failure::Failure;
use softtimers_measure::units;
use softtimers_net::poller::FrameKind;
use softtimers_wan::{PathConfig, Wan, Way};

use crate::commands::capture::{filter, pcapng};
use crate::commands::forward::metrics::{Metrics, Text};
use crate::commands::wan::control::{self, Request};
use crate::commands::wan::delays;
use crate::commands::wan::scenario::ScenarioFile;
use crate::forwarder;

/// Runs the property of this name with any input.
///
/// # Panics
/// If there is no such property, or it does not hold.
pub fn run(name: &str, input: &[u8]) {
    let (_, body) =
        BODIES.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("no body {name}"));
    body(input);
}

/// Passes text to a property; other input would be refused before it reached a reader of text.
fn text(input: &[u8], body: fn(&str)) {
    if let Ok(text) = std::str::from_utf8(input) {
        body(text);
    }
}

/// The property of a corpus.
type Body = fn(&[u8]);

/// The properties by the names of their corpora.
const BODIES: [(&str, Body); 8] = [
    ("captured", captured),
    ("control", |input| text(input, control)),
    ("filter_code", |input| text(input, filter_code)),
    ("frames", forwarder::properties::frame),
    ("metrics", metrics),
    ("rules", forwarder::properties::rules),
    ("scenario", |input| text(input, scenario)),
    ("units", |input| text(input, typed)),
];

/// Every other typed value is accepted or refused in one line: quanta, hardware addresses and speeds.
pub fn typed(text: &str) {
    softtimers_load::properties::quantum(text);
    let _ = crate::commands::forward::args::mac(text);
    let _ = units::speed(text);
}

/// Any line is a request of the control socket or refused in one line, and a path accepts every request. Lines that
/// name a file are left out.
pub fn control(line: &str) {
    if line.split_ascii_whitespace().any(|word| word == "trace" || word.contains("dist=")) {
        return;
    }
    match control::request(line) {
        Ok(Request::Show) => assert_eq!(line.split_ascii_whitespace().collect::<Vec<_>>(), ["show"]),
        Ok(Request::Set(_, changes)) => {
            let mut path = PathConfig::default();
            changes.iter().for_each(|change| change.apply(&mut path));
            if let Err(problem) = path.check() {
                assert!(!problem.to_string().contains('\n'));
            }
        }
        Err(problem) => assert!(!problem.contains('\n'), "{problem}"),
    }
}

/// Any text is a scenario or refused with a message that names its line, and a path can carry out every scenario. Texts
/// that name a file are left out. The same holds for a file of delays.
pub fn scenario(text: &str) {
    let lines = text.lines().count().max(1);
    if let Err((line, problem)) = delays::parse(text.as_bytes()) {
        assert!((1..=lines).contains(&line) && !problem.contains('\n'), "{line}: {problem}");
    }
    // Also with escaped letters.
    if ["trace", "dist=", "delays", "\\"].iter().any(|word| text.contains(word)) {
        return;
    }
    match ScenarioFile::parse(text, Path::new("/proc/self/nowhere")) {
        Ok(file) => {
            let mut wan = Wan::builder().build::<()>().expect("a perfect wire");
            let checked = file.check(Way::Up, &PathConfig::default(), PathConfig::check);
            let played = wan.play(Timestamp::ZERO, &file.scenario);
            assert!(played.is_err() || checked.is_ok());
            let later = wan.direction(Way::Up).path_at(Timestamp::from_micros(1 << 40));
            assert!(played.is_err() || later.check().is_ok());
        }
        Err(problem) => {
            assert!(!problem.contains('\n'), "{problem}");
            let named = problem.strip_prefix("line ").and_then(|rest| rest.split(':').next()?.parse().ok());
            assert!(named.is_some_and(|line| (1..=lines).contains(&line)), "{problem}");
        }
    }
}

/// Any bytes from a scraper get an HTTP answer or none, and the connection ends.
pub fn metrics(request: &[u8]) {
    static METRICS: OnceLock<SocketAddr> = OnceLock::new();
    let address = METRICS.get_or_init(|| {
        let metrics = Metrics::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a port of loopback");
        let address = metrics.address();
        let counted = || Box::new(|| "counted 1\n".to_owned()) as Text;
        metrics.serve(move |reply| _ = reply.send(counted())).expect("a thread");
        address
    });
    let exchange = || -> io::Result<Vec<u8>> {
        let mut scraper = TcpStream::connect(address)?;
        scraper.write_all(request)?;
        scraper.shutdown(Shutdown::Write)?;
        let mut answer = Vec::new();
        scraper.read_to_end(&mut answer)?;
        Ok(answer)
    };
    // If it ends before it has read everything, the unread part resets the connection.
    if let Ok(answer) = exchange() {
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1."), "{}", answer.escape_ascii());
    }
}

/// Any text is a program of instructions or refused with a line number.
pub fn filter_code(text: &str) {
    if let Err(problem) = filter::of_decimal(text) {
        // As it is shown.
        let shown = Failure::usage(problem).to_string();
        assert!(!shown.contains(char::is_control), "{shown:?}");
    }
}

/// An independent reader reads the frames that `capture` writes as they were, and also the complete part of a file that
/// was written only in part. The first two bytes of `script` say how much was written. Two more readers, which are
/// programs, read such files in the command's tests.
pub fn captured(script: &[u8]) {
    let (cut, frames) = script.split_at(script.len().min(2));
    let (file, expected) = capture_of(frames);
    assert_eq!(read_back(&file), expected);
    assert_eq!(pcapng::whole_blocks(&file, file.len()), (file.len(), expected.len()));

    let written =
        usize::from(cut.first().copied().unwrap_or(0)) * 256 + usize::from(cut.get(1).copied().unwrap_or(0));
    let written = written % (file.len() + 1);
    let (whole, packets) = pcapng::whole_blocks(&file, written);
    assert!(whole <= written && packets <= expected.len());
    if whole > 0 {
        assert_eq!(read_back(&file[..whole]), expected[..packets]);
    }
}

/// A frame: its time in ns, its length, and its kept bytes.
pub type Frame<'a> = (u64, u32, &'a [u8]);

/// Returns the file of a capture with frames made from `script`, and these frames.
pub fn capture_of(script: &[u8]) -> (Vec<u8>, Vec<Frame<'_>>) {
    let mut file = Vec::new();
    let interface = |name| pcapng::Interface { name, snap_length: 262_144, filter: Some("udp") };
    pcapng::begin(&mut file, ["eth0", "eth1"].map(interface));
    let mut expected = Vec::new();
    let mut rest = script;
    while let [kept, more, a, b, c, d, e, after @ ..] = rest {
        let (bytes, after) = after.split_at(after.len().min(usize::from(*kept)));
        let time = u64::from_be_bytes([0, 0, 0, *a, *b, *c, *d, *e]) * 15_625;
        let length = bytes.len() as u32 + u32::from(*more);
        let before = file.len();
        let kind = if kept % 2 == 0 { FrameKind::Host } else { FrameKind::Outgoing };
        let (stamp, interface) = (Duration::from_nanos(time), u32::from(more % 2));
        pcapng::packet(&mut file, &pcapng::Stamp { time: stamp, length, interface, kind }, bytes);
        assert_eq!(file.len() - before, pcapng::packet_size(bytes.len()));
        expected.push((time, length, bytes));
        rest = after;
    }
    let statistics = pcapng::Statistics { delivered: expected.len() as u64, ..Default::default() };
    pcapng::statistics(&mut file, 1, &statistics);
    (file, expected)
}

/// Returns the packets of a file.
fn read_back(file: &[u8]) -> Vec<Frame<'_>> {
    let (mut rest, mut packets) = (file, Vec::new());
    while !rest.is_empty() {
        let (after, block) = pcap_parser::pcapng::parse_block_le(rest).expect("a whole block");
        if let pcap_parser::Block::EnhancedPacket(packet) = block {
            let time = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
            let kept = packet.data.get(..packet.caplen as usize).expect("what it says was kept");
            packets.push((time, packet.origlen, kept));
        }
        rest = after;
    }
    packets
}

#[cfg(test)]
mod tests {
    use softtimers_corpora::{Target, replay};

    use super::*;

    fn targets() -> Vec<Target> {
        BODIES.iter().map(|&(name, body)| Target { name, body }).collect()
    }

    #[test]
    fn every_kept_input_is_read_or_refused() {
        replay::kept(&replay::fuzz(), &targets());
    }

    #[test]
    fn every_kept_input_is_read_or_refused_when_damaged() {
        replay::damaged(&replay::fuzz(), &targets());
    }
}
