//! What must hold for any input at all: one body each, called by the property tests and the fuzzer.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::OnceLock;
use std::time::Duration;

use softtimers_core::Timestamp;
use softtimers_measure::failure::Failure;
use softtimers_measure::units;
use softtimers_sim::csv::{Merge, MergeError};
use softtimers_sim::{Kind, Part, experiments};
use softtimers_wan::PathConfig;

use crate::args::MacAddress;
use crate::commands::capture::{filter, pcapng};
use crate::commands::wan::control::{self, Request};
use crate::forward::{metrics::Metrics, rules};
use crate::pattern::SendPattern;
use crate::quantum::SendQuantum;
use crate::recording::{self, Fit};
use crate::recv::ledger::Ledger;
use crate::commands::sim::setting;
use crate::wire::{Datagram, Hello, MAX_SIZE, MIN_SIZE, Token};

/// Every other value that people type is accepted or refused in one line: quanta, parts of a sweep, hardware addresses,
/// speeds and the parameters of experiments. Those that name a file are left out: a file may be anything, a terminal too.
pub fn typed(text: &str) {
    if let Ok(quantum) = SendQuantum::parse(text) {
        assert_eq!(SendQuantum::parse(&quantum.to_string()), Ok(quantum));
    }
    if let Ok(part) = text.parse::<Part>() {
        assert!(part.of(100).all(|point| point < 100));
    }
    let _ = text.parse::<MacAddress>();
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

/// Any line is a request of the control socket or is refused in one line, and a path takes whatever is accepted. A line
/// that names a file is left out.
pub fn control(line: &str) {
    if line.split_ascii_whitespace().any(|word| word == "trace") {
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

/// Any bytes that a scraper sends are answered as HTTP answers, or not at all, and the connection ends.
pub fn metrics(request: &[u8]) {
    static METRICS: OnceLock<std::sync::Mutex<Metrics>> = OnceLock::new();
    let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let start = || Metrics::start(anywhere).map(std::sync::Mutex::new);
    let metrics = METRICS.get_or_init(|| start().expect("a port of loopback"));
    let metrics = metrics.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let exchange = || -> io::Result<Vec<u8>> {
        let mut scraper = TcpStream::connect(metrics.address())?;
        scraper.set_read_timeout(Some(Duration::from_millis(1)))?;
        scraper.write_all(request)?;
        scraper.shutdown(Shutdown::Write)?;
        let (mut answer, mut buffer) = (Vec::new(), [0; 4_096]);
        loop {
            metrics.answer(|| Box::new(|| "counted 1\n".to_owned()));
            match scraper.read(&mut buffer) {
                Ok(0) => return Ok(answer),
                Ok(read) => answer.extend_from_slice(&buffer[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    };
    // Where it ends before it has read all, the rest of the request resets the connection.
    if let Ok(answer) = exchange() {
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1."), "{}", answer.escape_ascii());
    }
}

/// Any texts, cut apart at zeros, are parts of a sweep or are refused, and what they make together is a part that is whole.
pub fn sim_parts(texts: &str) {
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

/// Any text is a program of instructions or is refused at a line of it.
pub fn filter_code(text: &str) {
    if let Err(problem) = filter::of_decimal(text) {
        // As it is shown.
        let shown = Failure::usage(problem).to_string();
        assert!(!shown.contains(char::is_control), "{shown:?}");
    }
}

/// Any text in the place of any saved run makes a report: see [`any_run`](crate::report::any_run).
pub fn saved_run(script: &[u8]) {
    let [source, run @ ..] = script else { return };
    crate::report::any_run((*source).into(), &String::from_utf8_lossy(run));
}

/// Any text is a pattern or is refused, and what is accepted is shown as the same pattern.
pub fn pattern(text: &str) {
    match text.parse::<SendPattern>() {
        Ok(pattern) => assert_eq!(pattern.to_string().parse(), Ok(pattern)),
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
}

/// Any bytes are a datagram or are refused, and what is read is written as it was, padding apart.
pub fn wire(bytes: &[u8]) {
    if let Ok(datagram) = Datagram::parse(bytes) {
        assert!(bytes.len() >= MIN_SIZE);
        assert_eq!(Datagram::parse(&datagram.encode()), Ok(datagram));
    }
}

/// Any bytes are rules or are refused at a line of theirs, and what is accepted is shown as the same rules.
pub fn rules(text: &[u8]) {
    let shown = |rules: &rules::Rules| rules.to_string();
    match rules::parse(text) {
        Ok(rules) => {
            let again = rules::parse(shown(&rules).as_bytes()).map(|again| shown(&again));
            assert_eq!(again, Ok(shown(&rules)));
        }
        Err(problem) => {
            let lines = text.split(|&byte| byte == b'\n').count();
            assert!((1..=lines + 1).contains(&problem.line()), "{problem}");
            assert!(!problem.to_string().contains(char::is_control), "{problem}");
        }
    }
}

/// Any frame is forwarded, answered or dropped, as frames are: see [`any_frame`](crate::forward::frames::properties).
pub fn frame(script: &[u8]) {
    crate::forward::frames::properties::any_frame(script);
}

/// Any bytes are a recording whose packets are datagrams in order, or are refused at a byte of theirs; and
/// it makes no difference in what portions they are read.
pub fn recording(bytes: &[u8]) {
    let fit = Fit { headers: Some(0), clamp: true, ..Fit::default() };
    let whole = recording::read(bytes, &fit);
    match &whole {
        Ok(recording) => {
            let trace = &recording.trace;
            // A line of text needs three bytes at the least.
            assert!(trace.packets() <= bytes.len() / 3);
            let lengths = trace.iter().map(|(_, length)| usize::from(length));
            assert!(lengths.into_iter().all(|length| (MIN_SIZE..=MAX_SIZE).contains(&length)));
            assert_eq!(trace.time(0), Some(Duration::ZERO));
            assert!(trace.iter().is_sorted_by_key(|(time, _)| time));
            assert!(trace.peak(Duration::from_secs(1)) <= trace.packets());
        }
        Err(error) => assert!(error.byte() <= bytes.len() as u64, "{error}"),
    }
    assert_eq!(whole, recording::read(Portions(bytes), &fit));
}

/// Reads a few bytes at a time, as a pipe may.
struct Portions<'a>(&'a [u8]);

impl Read for Portions<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let few = buffer.len().min(1 + self.0.len() % 7);
        self.0.read(&mut buffer[..few])
    }
}

/// A receiver's account of any datagrams adds up. Each eight bytes of `script` are one datagram: its
/// kind, its sender and flow, how far the clock and the sequence number move. The first byte says whom it believes.
pub fn ledger(script: &[u8]) {
    let mut ledger = Ledger::new(None, script.first().is_some_and(|first| first & 8 != 0));
    let (mut time, mut number, mut taken) = (Timestamp::ZERO, 0u64, 0u64);
    // Some know the last token that was given, whoever got it.
    let mut given = None;
    for step in script.chunks_exact(8) {
        let peer = SocketAddr::from(([127, 0, 0, 1], u16::from(step[1] & 3)));
        let flow = u32::from(step[2] & 3);
        time += Duration::from_micros(u64::from(step[3]));
        // Mostly on by a few numbers, sometimes anywhere.
        number = match step[4] {
            0..200 => number.wrapping_add(u64::from(step[4] % 4)),
            200..230 => number.wrapping_sub(u64::from(step[5])),
            _ => u64::from_be_bytes([step[5], step[6], step[7], step[5], step[6], step[7], step[5], step[6]]),
        };
        let interval = Duration::from_micros(u64::from(step[7]));
        let token = if step[0] & 16 == 0 { given } else { Token::new(number) };
        let interval_ns = u32::from(step[7]) * 1_000;
        let hello = Hello { nonce: u64::from(step[3] & 1), flow: 0, flows: 3, interval_ns, token };
        let data = |scheduled, token| Datagram::Data { flow, sequence: number, scheduled, interval, token };
        let datagram = match step[0] % 8 {
            0 => Datagram::Hello(Hello { token: None, ..hello }),
            1 => Datagram::Bye { flow, sent: number, token: None },
            2 => Datagram::Bye { flow, sent: number, token },
            3 if step[0] & 32 == 0 => Datagram::Hello(hello),
            3 => Datagram::Welcome { nonce: number, token: Token::new(1).unwrap_or_else(|| unreachable!()) },
            // Due whenever a sender says.
            5 => data(Timestamp::from_nanos(number), None),
            6 => data(time, token),
            _ => data(time, None),
        };
        let mut bytes = datagram.encode();
        bytes[usize::from(step[6]) % 8] ^= u8::from(step[7] == 255);
        let answer = ledger.take(peer, &bytes, time);
        assert!(answer.is_none_or(|answer| answer.encode().len() <= bytes.len()));
        if let Some(Datagram::Welcome { token, .. }) = answer {
            given = Some(token);
        }
        taken += 1;
    }
    let report = ledger.report();
    assert!(report.received + report.foreign + report.unsorted + report.hellos + report.strangers <= taken);
    assert!(report.reordered + report.duplicated + report.too_late <= report.received);
    let delays = report.one_way_variation_ns;
    assert!(delays.count + report.duplicated + report.too_late == report.received);
    assert!(delays.p50 <= delays.p999 && delays.p999 <= delays.max);
    let gaps = report.gaps.gap_ns.count;
    assert!(gaps <= report.received && report.gaps.longest_burst.is_none_or(|burst| burst <= gaps + 1));
    assert!(report.gaps.back_to_back.is_none_or(|share| (0.0..=1.0).contains(&share)));
}

/// What `capture` writes of any frames is read as what they were, by a reader that shares nothing with it, and so is what
/// is left of a file that could be written only in part. The first two bytes of `script` say how much of it could. Two
/// more readers, which are programs, read files of the same making in the command's tests.
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

/// A frame: its time in ns, its length, and what was kept of it.
pub type Frame<'a> = (u64, u32, &'a [u8]);

/// The file of a capture of frames that `script` makes up, and what these are.
pub fn capture_of(script: &[u8]) -> (Vec<u8>, Vec<Frame<'_>>) {
    let mut file = Vec::new();
    pcapng::begin(&mut file, &pcapng::Interface { name: "eth0", snap_length: 262_144, filter: Some("udp") });
    let mut expected = Vec::new();
    let mut rest = script;
    while let [kept, more, a, b, c, d, e, after @ ..] = rest {
        let (bytes, after) = after.split_at(after.len().min(usize::from(*kept)));
        let time = u64::from_be_bytes([0, 0, 0, *a, *b, *c, *d, *e]) * 15_625;
        let length = bytes.len() as u32 + u32::from(*more);
        let before = file.len();
        pcapng::packet(&mut file, &pcapng::Stamp { time: Duration::from_nanos(time), length }, bytes);
        assert_eq!(file.len() - before, pcapng::packet_size(bytes.len()));
        expected.push((time, length, bytes));
        rest = after;
    }
    pcapng::statistics(
        &mut file,
        &pcapng::Statistics { delivered: expected.len() as u64, ..Default::default() },
    );
    (file, expected)
}

/// The packets of a file.
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
