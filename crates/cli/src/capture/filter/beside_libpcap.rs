//! What our compiler's programs keep of many frames, beside what libpcap's do: by `tcpdump -ddd`, where that is
//! installed, and a machine of a few lines that runs both.

use std::io::Write;
use std::process::Command;

use pktbaffle::{LinkType, Target, compile};

use super::instruction;

type Instruction = (u16, u8, u8, u32);

#[test]
fn both_keep_the_same_frames() {
    let frames = frames();
    let mut differ = Vec::new();
    for expression in EXPRESSIONS {
        let Some(theirs) = by_tcpdump(expression) else {
            let name = std::thread::current().name().unwrap_or("?").to_owned();
            let _ = writeln!(std::io::stderr(), "skipped: {name}: no tcpdump that compiles filters");
            return;
        };
        let ours = by_us(expression);
        for frame in &frames {
            let (ours, theirs) = (run(&ours, frame) > 0, run(&theirs, frame) > 0);
            if ours != theirs {
                differ.push(format!(
                    "'{expression}' keeps it: {ours}, libpcap: {theirs}: {:02x?}",
                    &frame[12..]
                ));
                break;
            }
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

fn by_us(expression: &str) -> Vec<Instruction> {
    let program = compile(expression, LinkType::Ethernet, Target::Classic).expect(expression);
    let classic = program.as_classic().expect("classic").instructions();
    classic.iter().map(|one| (one.code, one.jt, one.jf, one.k)).collect()
}

fn by_tcpdump(expression: &str) -> Option<Vec<Instruction>> {
    let output = Command::new("tcpdump").args(["-ddd", "-y", "EN10MB", expression]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let program: Vec<_> = text.lines().skip(1).filter_map(instruction).collect();
    (output.status.success() && !program.is_empty()).then_some(program)
}

/// How many bytes of a frame a program keeps.
fn run(program: &[Instruction], frame: &[u8]) -> u32 {
    let (mut a, mut x, mut memory, mut at) = (0u32, 0u32, [0u32; 16], 0);
    loop {
        let (code, holds, fails, k) = program[at];
        at += 1;
        let operand = if code & 0x08 == 0 { k } else { x };
        match code & 0x07 {
            0x00 | 0x01 => {
                let from = if code & 0xe0 == 0x40 { x.wrapping_add(k) } else { k } as usize;
                let bytes = |count: usize| frame.get(from..from.checked_add(count)?);
                let number = |count| bytes(count).map(|b| b.iter().fold(0, |n, &b| n << 8 | u32::from(b)));
                let loaded = match (code & 0xe0, code & 0x18) {
                    (0x00, _) => Some(k),
                    (0x60, _) => Some(memory[k as usize]),
                    (0x80, _) => Some(frame.len() as u32),
                    (0xa0, _) => bytes(1).map(|b| u32::from(b[0] & 0xf) * 4),
                    (_, 0x00) => number(4),
                    (_, 0x08) => number(2),
                    _ => number(1),
                };
                // Beyond its end, a frame is not wanted.
                let Some(loaded) = loaded else { return 0 };
                if code & 0x07 == 0 { a = loaded } else { x = loaded }
            }
            0x02 => memory[k as usize] = a,
            0x03 => memory[k as usize] = x,
            0x04 => {
                a = match code & 0xf0 {
                    0x00 => a.wrapping_add(operand),
                    0x10 => a.wrapping_sub(operand),
                    0x20 => a.wrapping_mul(operand),
                    0x30 => a.checked_div(operand).unwrap_or(0),
                    0x40 => a | operand,
                    0x50 => a & operand,
                    0x60 => a.wrapping_shl(operand),
                    0x70 => a.wrapping_shr(operand),
                    0x80 => a.wrapping_neg(),
                    _ => a ^ operand,
                }
            }
            0x05 if code & 0xf0 == 0 => at += k as usize,
            0x05 => {
                let jumps = match code & 0xf0 {
                    0x10 => a == operand,
                    0x20 => a > operand,
                    0x30 => a >= operand,
                    _ => a & operand != 0,
                };
                at += usize::from(if jumps { holds } else { fails });
            }
            0x06 => return if code & 0x18 == 0x10 { a } else { k },
            _ if code & 0x80 == 0 => x = a,
            _ => a = x,
        }
    }
}

/// Of IPv4 with and without options and in pieces, IPv6, ARP and none of these; whole and cut short.
fn frames() -> Vec<Vec<u8>> {
    let ends = [[192, 0, 2, 1], [10, 1, 2, 3], [224, 0, 0, 1]];
    let ports = [[0, 53], [0, 22], [0x1f, 0x90]];
    let mut frames = Vec::new();
    for (a, b) in ends.iter().flat_map(|a| ends.iter().map(move |b| (a, b))) {
        for (from, to) in ports.iter().flat_map(|a| ports.iter().map(move |b| (a, b))) {
            for protocol in [1, 6, 17, 47] {
                for (words, piece) in [(5, 0), (6, 0), (5, 0x2000), (5, 0x00b9)] {
                    let mut frame = ethernet(0x0800);
                    frame.extend([
                        0x40 | words,
                        0,
                        0,
                        60,
                        0,
                        1,
                        (piece >> 8) as u8,
                        piece as u8,
                        64,
                        protocol,
                        0,
                        0,
                    ]);
                    frame.extend([&a[..], &b[..]].concat());
                    frame.extend(vec![1; usize::from(words - 5) * 4]);
                    frame.extend([&from[..], &to[..], &[0, 20, 0, 0, 0, 0, 0, 0, 0x50, 0x02, 0, 0]].concat());
                    frames.push(frame);
                }
                let mut frame = ethernet(0x86dd);
                frame.extend([0x60, 0, 0, 0, 0, 20, protocol, 64]);
                for end in [a, b] {
                    frame.extend([0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0]);
                    frame.extend(end);
                }
                frame.extend([&from[..], &to[..], &[0, 20, 0, 0, 0, 0, 0, 0, 0x50, 0x10]].concat());
                frames.push(frame);
            }
        }
        let mut arp = ethernet(0x0806);
        arp.extend([0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1]);
        arp.extend([&a[..], &[0; 6], &b[..]].concat());
        frames.push(arp);
    }
    frames.push(ethernet(0x88cc));
    let cut: Vec<_> = frames
        .iter()
        .enumerate()
        .map(|(at, frame)| frame[..frame.len().min(14 + at % 30)].to_vec())
        .collect();
    frames.extend(cut);
    frames
}

fn ethernet(kind: u16) -> Vec<u8> {
    let mut header = vec![0xff; 6];
    header.extend([2, 0, 0, 0, 0, 1]);
    header.extend(kind.to_be_bytes());
    header
}

const EXPRESSIONS: [&str; 30] = [
    "udp",
    "tcp",
    "icmp",
    "ip",
    "ip6",
    "arp",
    "udp port 53",
    "tcp port 22",
    "port 53",
    "src port 53",
    "dst port 8080",
    "portrange 22-53",
    "udp portrange 50-60",
    "host 192.0.2.1",
    "src host 10.1.2.3",
    "dst host 10.1.2.3",
    "net 10.0.0.0/8",
    "src net 192.0.2.0/24",
    "ip6 host 2001:db8::c000:201",
    "tcp port 22 and host 192.0.2.1",
    "not arp",
    "not (udp port 53) and ip",
    "udp or icmp",
    "ip and not tcp port 8080",
    "ether host 02:00:00:00:00:01",
    "ether broadcast",
    "ip proto 47",
    "tcp[13] & 2 != 0",
    "greater 60",
    "ip[6:2] & 0x1fff = 0",
];
