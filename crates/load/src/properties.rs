//! Properties that hold for any input: one body each, called by the property tests and the fuzzer.

use std::io::{self, Read};
use std::net::SocketAddr;
use std::time::Duration;

use softtimers_core::Timestamp;
use softtimers_measure::distribution::Distribution;

use crate::pattern::SendPattern;
use crate::quantum::SendQuantum;
use crate::receipt::Receipt;
use crate::recording::{self, Fit, Recording};
use crate::recv::ledger::Ledger;
use crate::recv::{FlowReport, RecvReport};
use crate::wire::{Datagram, Hello, MAX_SIZE, MIN_SIZE, Token};

/// Any text is a quantum or refused, and an accepted one prints as an equal quantum.
pub fn quantum(text: &str) {
    if let Ok(quantum) = SendQuantum::parse(text) {
        assert_eq!(SendQuantum::parse(&quantum.to_string()), Ok(quantum));
    }
}

/// Any text is a pattern or refused, and an accepted one prints as an equal pattern.
pub fn pattern(text: &str) {
    match text.parse::<SendPattern>() {
        Ok(pattern) => assert_eq!(pattern.to_string().parse(), Ok(pattern)),
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
}

/// Any bytes are a datagram or refused, and an accepted one is written as it was read, except for padding; so is a receipt
/// behind it.
pub fn wire(bytes: &[u8]) {
    if let Ok(datagram) = Datagram::parse(bytes) {
        assert!(bytes.len() >= MIN_SIZE);
        assert_eq!(Datagram::parse(&datagram.encode()), Ok(datagram));
        let receipt = Receipt::parse(bytes, 7);
        assert_eq!(receipt.is_some(), bytes.len() >= Receipt::SIZE);
        if let Some(receipt) = receipt {
            assert!(
                receipt.lost <= 7
                    && receipt.gaps.back_to_back.is_none_or(|share| (0.0..=1.0).contains(&share))
            );
            assert_eq!(Receipt::parse(&receipt.encode(&datagram), 7), Some(receipt));
        }
    }
}

/// Any bytes are a recording whose packets are datagrams in order, or are refused with a byte's offset; and reading
/// them in any portions makes no difference.
pub fn recording(bytes: &[u8]) {
    let fit = Fit { headers: Some(0), clamp: true, ..Fit::default() };
    let whole = recording::read(bytes, &fit);
    match &whole {
        Ok(recording) => {
            let trace = &recording.trace;
            // A line of text needs at least three bytes.
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
    // What is whole is kept as it is, and a split packet has no fewer bytes than it had.
    let kept = recording::read(bytes, &Fit { keeps_whole: true, ..fit });
    let split = recording::read(bytes, &Fit { segment: Some(Fit::LEAST_SEGMENT), ..fit });
    if let (Ok(whole), Ok(split)) = (&whole, &split) {
        assert!(kept.is_ok_and(|kept| kept == *whole));
        let all =
            |recording: &Recording| recording.trace.iter().map(|(_, length)| u64::from(length)).sum::<u64>();
        assert!(all(split) >= all(whole) && split.trace.packets() <= whole.trace.packets() * 128);
    }
    assert_eq!(whole.is_ok(), split.is_ok());
}

/// Reads a few bytes at a time, as a pipe may.
struct Portions<'a>(&'a [u8]);

impl Read for Portions<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let few = buffer.len().min(1 + self.0.len() % 7);
        self.0.read(&mut buffer[..few])
    }
}

/// A receiver's counts of any datagrams add up. Each eight bytes of `script` are one datagram: its kind, its sender and
/// flow, and how far the clock and the sequence number move. The first byte sets whom the receiver believes. An eighth
/// of the datagrams are the bytes themselves, as of another program.
pub fn ledger(script: &[u8]) {
    let any = script.first().is_some_and(|first| first & 8 != 0);
    let mut ledger = Ledger::new(None, any);
    let (mut time, mut number, mut taken) = (Timestamp::ZERO, 0u64, 0u64);
    // Some use the last token given, to whichever sender.
    let mut given = None;
    for step in script.chunks_exact(8) {
        let peer = SocketAddr::from(([127, 0, 0, 1], u16::from(step[1] & 3)));
        let flow = u32::from(step[2] & 3);
        time += Duration::from_micros(u64::from(step[3]));
        // Mostly a few numbers on, sometimes anywhere.
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
            // With any due time that a sender may write.
            5 => data(Timestamp::from_nanos(number), None),
            6 => data(time, token),
            _ => data(time, None),
        };
        // Every other one is long enough to ask for a receipt.
        let mut bytes = [0; Receipt::SIZE];
        datagram.write(&mut bytes);
        bytes[usize::from(step[6]) % 8] ^= u8::from(step[7] == 255);
        let payload = match step[0] >> 5 {
            7 => &step[..usize::from(step[6]) % 9],
            _ if step[5] & 1 == 0 => &bytes[..MIN_SIZE],
            _ => &bytes[..],
        };
        let answer = ledger.take(peer, payload, time);
        let receipt = answer.and_then(|answer| ledger.receipt(peer, &answer, payload, time));
        let length = if receipt.is_some() { Receipt::SIZE } else { MIN_SIZE };
        assert!(answer.is_none() || length <= payload.len());
        assert!(receipt.is_none() || matches!(datagram, Datagram::Hello(_)), "data are no question");
        assert!(receipt.is_none_or(|receipt| receipt.in_time + receipt.duplicated <= receipt.received));
        if let Some(Datagram::Welcome { token, .. }) = answer {
            given = Some(token);
        }
        taken += 1;
    }
    adds_up(&ledger.report(), any, taken);
}

/// Checks that the counts of a report on `taken` datagrams agree; `any` says whether it includes other programs'.
fn adds_up(report: &RecvReport, any: bool, taken: u64) {
    assert!(report.received + report.foreign + report.unsorted + report.hellos + report.strangers <= taken);
    let delays = report.one_way_variation_ns;
    let told = [report.reordered, report.duplicated, report.too_late];
    if let [Some(reordered), Some(duplicated), Some(too_late)] = told {
        assert!(report.unnumbered == 0 && report.lost.is_some());
        assert!(reordered + duplicated + too_late <= report.received);
        assert!(delays.count + duplicated + too_late == report.received);
    } else {
        assert!(any && report.unnumbered > 0 && report.lost.is_none());
        assert!(told == [None; 3] && report.over_flows.lost == Distribution::default());
        assert!(delays.count + report.unnumbered <= report.received);
    }
    // There are at most twenty flows, so all are shown.
    let received =
        |flows: &mut dyn Iterator<Item = &FlowReport>| flows.map(|flow| flow.received).sum::<u64>();
    assert_eq!(received(&mut report.per_flow.iter()), report.received);
    let unnumbered = |flow: &&FlowReport| flow.flow.is_none();
    assert_eq!(received(&mut report.per_flow.iter().filter(unnumbered)), report.unnumbered);
    for flow in &report.per_flow {
        let told = [flow.lost, flow.reordered, flow.duplicated];
        assert!(told.iter().all(|figure| figure.is_some() == flow.flow.is_some()), "{flow:?}");
        assert!(flow.flow.is_some() || (flow.one_way_variation_ns.count == 0 && !flow.ended), "{flow:?}");
    }
    assert!(delays.p50 <= delays.p999 && delays.p999 <= delays.max);
    let gaps = report.gaps.gap_ns.count;
    assert!(gaps <= report.received && report.gaps.longest_burst.is_none_or(|burst| burst <= gaps + 1));
    assert!(report.gaps.back_to_back.is_none_or(|share| (0.0..=1.0).contains(&share)));
}
