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
use softtimers_sim::csv::{self, Merge, MergeError};
use softtimers_sim::{Axis, Kind, Parameters, Part, Precision, Setting, Sweep, Typed, experiments};
use softtimers_wan::{PathConfig, Wan, Way};

use crate::commands::capture::{filter, pcapng};
use crate::commands::forward::metrics::{Metrics, Text};
use crate::commands::sim::{self, setting};
use crate::commands::wan::control::{self, Request};
use crate::commands::wan::delays;
use crate::commands::wan::scenario::ScenarioFile;

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
const BODIES: [(&str, Body); 10] = [
    ("captured", captured),
    ("control", |input| text(input, control)),
    ("filter_code", |input| text(input, filter_code)),
    ("machine", |input| text(input, machine)),
    ("metrics", metrics),
    ("saved_run", saved_run),
    ("scenario", |input| text(input, scenario)),
    ("sim_parts", |input| text(input, sim_parts)),
    ("sim_sweep", |input| text(input, sim_sweep)),
    ("units", |input| text(input, typed)),
];

/// Every other typed value is accepted or refused in one line: quanta, parts of a sweep, precisions, hardware
/// addresses, speeds and the parameters of experiments. Values that name a file are left out: a file may be anything,
/// even a terminal.
pub fn typed(text: &str) {
    softtimers_load::properties::quantum(text);
    if let Ok(part) = text.parse::<Part>() {
        assert!(part.of(100).all(|point| point < 100));
    }
    if let Ok(precision) = text.parse::<Precision>() {
        assert!(precision.share > 0.0 && precision.share <= 1.0 && !precision.column.is_empty());
    }
    let _ = text.parse::<softtimers_load::generate::MacAddress>();
    let _ = units::speed(text);
    for parameter in experiments::ALL.iter().flat_map(|experiment| experiment.parameters) {
        if matches!(parameter.kind, Kind::Trace) {
            continue;
        }
        match setting::parse(parameter.kind, text) {
            Ok(setting) => assert_eq!(setting::parse(parameter.kind, &setting.to_string()), Ok(setting)),
            Err(problem) => assert!(!problem.contains('\n')),
        }
    }
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

/// Any text is a machine or refused in one line; a machine prints as text that parses as the same, and says for each
/// experiment whether it can be run on it.
pub fn machine(text: &str) {
    match sim::machine::parse(text) {
        Ok(spec) => {
            let printed = spec.to_string();
            assert_eq!(sim::machine::parse(&printed).map(|again| again.to_string()), Ok(printed));
            for experiment in experiments::ALL {
                match spec.parameters(experiment) {
                    Ok(parameters) => _ = (experiment.check)(&parameters),
                    Err(problem) => assert!(!problem.to_string().contains('\n'), "{problem}"),
                }
            }
        }
        Err(problem) => assert!(!problem.contains('\n'), "{problem}"),
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

/// Any texts, separated by zeros, are parts of a sweep or refused, and merge into a complete part. Any text is the
/// beginning of a run to resume or refused, and no more of it is kept than there is.
pub fn sim_parts(texts: &str) {
    resumed(texts);
    let texts: Vec<&str> = texts.split('\0').collect();
    let merged = |texts: &[&str]| {
        let mut merge = Merge::default();
        texts.iter().try_for_each(|text| merge.add("part.csv", text))?;
        merge.finish()
    };
    if let Ok(whole) = merged(&texts) {
        assert_eq!(merged(&[&whole]), Ok::<_, MergeError>(whole));
    }
}

/// Resumes the text as a file: alone, and after the first lines of a sweep.
fn resumed(text: &str) {
    let Some(experiment) = experiments::find("slowstart") else { return };
    let values = (1..=9).map(|packets: u64| (packets.to_string(), Setting::Count(packets))).collect();
    let axes = vec![Axis { name: "packets", values }];
    let sweep = Sweep::new(experiment, Parameters::new(experiment.parameters), axes, 1);
    let id = format!("{:016x}", sweep.fingerprint());
    let ours = format!("{}{}", csv::header(&sweep), text.replace("SWEEP", &id));
    for text in [text, &ours] {
        match csv::finished(&sweep, Part::default(), "out.csv", text) {
            Ok((done, kept)) => {
                assert!(text.starts_with(kept) && done <= 9 && (kept.is_empty() || kept.ends_with('\n')));
                // The kept part is itself the beginning of such a run.
                assert!(csv::finished(&sweep, Part::default(), "out.csv", kept).is_ok());
            }
            Err(refused) => assert!(!refused.to_string().contains('\n')),
        }
    }
}

/// Any lines are sweeps of an experiment, as typed in the command and in Python, or are refused in one line each. An accepted
/// line gives one allowed value for each text between commas, and together they make a sweep that says whether it can run.
pub fn sim_sweep(lines: &str) {
    // A fuzzer would open any file.
    let typed = Typed { recording: |_| Err("none is read here".to_owned()), ..setting::TYPED };
    for experiment in experiments::ALL {
        let mut axes: Vec<Axis> = vec![];
        for line in lines.lines() {
            match typed.axis(experiment, line) {
                Ok(axis) => {
                    let values = line.split_once('=').map(|(_, values)| values);
                    assert!(values.is_some_and(|values| {
                        values.split(',').eq(axis.values.iter().map(|(text, _)| text))
                    }));
                    let known = experiment.parameters.iter().find(|parameter| parameter.name == axis.name);
                    assert!(axis.values.iter().all(|(_, to)| known.is_none_or(|known| known.kind.holds(to))));
                    if axes.iter().all(|other| other.name != axis.name) {
                        axes.push(axis);
                    }
                }
                Err(problem) => assert!(!problem.contains('\n'), "{problem}"),
            }
        }
        let names: Vec<_> = axes.iter().map(|axis| axis.name).collect();
        let sweep = Sweep::new(experiment, Parameters::new(experiment.parameters), axes, 1);
        if sweep.points() <= 100
            && let Err(problem) = sweep.check(&names)
        {
            assert!(!problem.to_string().contains('\n'), "{problem}");
        }
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

/// Any text in place of any saved run makes a report: see [`any_run`](crate::report::any_run).
pub fn saved_run(script: &[u8]) {
    let [source, run @ ..] = script else { return };
    crate::report::any_run((*source).into(), &String::from_utf8_lossy(run));
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
        replay::kept(&targets());
    }

    #[test]
    fn every_kept_input_is_read_or_refused_when_damaged() {
        replay::damaged(&targets());
    }
}
