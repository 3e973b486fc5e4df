//! Rings of blocks, which long delays have: the same promises, and what the same memory holds.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use softtimers::{Clock, Monotonic};

use super::common::hosts::{self, Hosts};
use super::readers::{packets, statistics};
use super::{Capture, ScratchDir, of_datagrams, send, wait_for};

fn layout(report: &Value) -> &str {
    report["config"]["ring_layout"].as_str().unwrap()
}

/// Also what is in a block that is being filled when the signal comes.
#[test]
fn a_ring_of_blocks_is_drained_to_the_last_frame() {
    hosts::with("cblocks", |hosts| {
        for flags in [
            "--max-delay 20ms",
            "--max-delay 10s",
            "--max-delay 2ms --snaplen 68",
            "--max-delay 1s --queue 512",
        ] {
            let place = ScratchDir::new("blocks");
            let file = place.file("t.pcapng");
            let capture = Capture::start(hosts, &file, &format!("--json --filter udp {flags}"));
            send(hosts, (0..200).map(|n| 1 + 7 * n));
            let (code, report, words) = capture.end(Signal::TERM);
            assert_eq!((code, layout(&report)), (Some(0), "blocks"), "{flags}: {words}");
            assert_eq!((of_datagrams(&report), packets(&file)), (200, 200), "{flags}: {report}");
            assert_eq!(statistics(&file), [200, 0, 0, 200], "{flags}");
        }
    });
}

/// Nobody looks meanwhile: what the ring has room for is there afterwards, and the rest is counted to the frame.
fn stalled(hosts: &Hosts, flags: &str, frames: usize) -> (Value, u64) {
    let place = ScratchDir::new("stalled");
    let file = place.file("t.pcapng");
    let capture = Capture::start(hosts, &file, &format!("--json --filter udp --max-delay 1s {flags}"));
    kill_process(capture.id(), Signal::STOP).unwrap();
    send(hosts, std::iter::repeat_n(18, frames));
    kill_process(capture.id(), Signal::CONT).unwrap();
    let (code, report, words) = capture.end(Signal::TERM);
    assert_eq!((code, layout(&report)), (Some(0), "blocks"), "{words}");
    let [_, by_interface, behind, delivered] = statistics(&file);
    assert_eq!((delivered, packets(&file)), (of_datagrams(&report), of_datagrams(&report)));
    assert_eq!(behind, report["dropped"]["ring"].as_u64().unwrap());
    // The interface drops what comes faster than the kernel hands on, and counts frames that are not for the filter.
    let frames = frames as u64;
    assert!(delivered + behind <= frames && delivered + behind + by_interface >= frames, "{report}");
    (report, behind)
}

#[test]
fn a_stall_fills_a_ring_of_blocks_with_what_it_has_room_for() {
    hosts::with("cstalled", |hosts| {
        // Slots of 2 KiB would be 80 MB.
        let (report, lost) = stalled(hosts, "--ring 64MiB", 40_000);
        assert_eq!(lost, 0, "{report}");
        let (report, lost) = stalled(hosts, "--ring 1MiB --snaplen 68", 40_000);
        assert!(lost > 0 && of_datagrams(&report) > 0, "{report}");
    });
}

/// While blocks stay nearly empty, each is handed over when its time is over, so half of the frames at the least are in the file
/// within the bound, or later by as much as a thread here that only sleeps.
#[test]
fn frames_of_blocks_are_in_the_file_within_the_bound() {
    hosts::with("cbound", |hosts| {
        let place = ScratchDir::new("bound");
        let file = place.file("t.pcapng");
        let capture = Capture::start(hosts, &file, "--json --filter udp --max-delay 200ms");
        // So its neighbour is known.
        send(hosts, [18]);
        let latest = hosts.at("near", || {
            let socket = UdpSocket::bind("192.0.2.9:0").unwrap();
            let late = |_| {
                assert_eq!(socket.send_to(&[7; 18], "192.0.2.1:9").unwrap(), 18);
                let (begin, nap) = (Monotonic.now(), Duration::from_millis(5));
                thread::park_timeout(nap);
                Monotonic.now().saturating_duration_since(begin).saturating_sub(nap)
            };
            (0..99).map(late).max().unwrap()
        });
        let latest = latest.join().unwrap();
        // Without another frame.
        wait_for(&file, 100 * (44 + 60));
        let (code, report, words) = capture.end(Signal::TERM);
        assert_eq!((code, layout(&report), of_datagrams(&report)), (Some(0), "blocks", 100), "{words}");
        assert_eq!(report["delay_ns"]["count"], 100);
        let half = Duration::from_nanos(report["delay_ns"]["p50"].as_u64().unwrap());
        assert!(half <= Duration::from_millis(200) + latest, "{half:?}, {latest:?}: {report}");
    });
}

/// More than the ring holds comes while files are begun: every frame is in one of them, or counted as lost at the ring.
#[test]
fn rotation_under_load_loses_nothing_uncounted() {
    hosts::with("crotate", |hosts| {
        let place = ScratchDir::new("rotate");
        // Room for some 7,000 of these frames.
        let flags = "--json --filter udp --max-delay 1s --ring 1MiB --snaplen 68 --rotate 1MiB";
        let capture = Capture::start(hosts, &place.file("t.pcapng"), flags);
        let files = || {
            let all = fs::read_dir(&place.0).unwrap().map(|entry| entry.unwrap().path());
            all.filter(|path| path.extension().is_some_and(|end| end == "pcapng")).collect::<Vec<_>>()
        };
        let mut sent = 0;
        while files().len() < 4 {
            assert!(sent < 2_000_000, "{:?}", files());
            send(hosts, std::iter::repeat_n(18, 4_000));
            sent += 4_000;
        }
        let (code, report, words) = capture.end(Signal::TERM);
        assert_eq!((code, layout(&report)), (Some(0), "blocks"), "{words}");
        let mut all = files();
        all.sort();
        let found: u64 = all.iter().map(|path| packets(path)).sum();
        let number = |key: &str| report.pointer(key).and_then(Value::as_u64).unwrap();
        let lost = number("/dropped/ring");
        assert_eq!(
            (found, number("/files"), number("/dropped/output")),
            (of_datagrams(&report), all.len() as u64, 0)
        );
        // The interface counts frames that are not for the filter, too.
        let counted = found + lost;
        assert!(counted <= sent && counted + number("/dropped/interface") >= sent, "{sent}: {report}");
        // The last word of the last file knows of all before it.
        let [received, _, behind, delivered] = statistics(all.last().unwrap());
        assert_eq!((received, behind, delivered), (counted, lost, found));
    });
}

/// Frames that are longer than an interface sends, as the loopback interface and joined ones are.
#[test]
fn long_frames_have_room_in_a_block() {
    hosts::with("clong", |hosts| {
        let place = ScratchDir::new("long");
        let file = place.file("t.pcapng");
        let _ = hosts::ip(&["-n", &hosts.host("middle"), "link", "set", "lo", "up"]);
        let words = format!("capture lo -w {} --duration 60s --max-delay 100ms --json", file.display());
        let mut child = hosts.command(&words).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert!(line.starts_with("capturing on lo"), "{line}");
        let send = || {
            let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            (0..20).for_each(|_| _ = socket.send_to(&[7; 65_507], "127.0.0.1:9").unwrap());
        };
        hosts.at("middle", send).join().unwrap();
        kill_process(Pid::from_raw(child.id() as i32).unwrap(), Signal::TERM).unwrap();
        let mut text = String::new();
        child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0));
        let report: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((layout(&report), &report["dropped"]["ring"]), ("blocks", &0.into()), "{report}");
        let bytes = fs::read(&file).unwrap();
        let (mut rest, mut whole) = (&bytes[..], 0);
        while let Ok((after, block)) = pcap_parser::pcapng::parse_block_le(rest) {
            if let pcap_parser::Block::EnhancedPacket(packet) = block {
                whole += u64::from(packet.caplen == 65_549 && packet.origlen == 65_549);
            }
            rest = after;
        }
        assert_eq!(whole, 20);
    });
}
