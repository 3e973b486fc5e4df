//! Ends of a capture that a queue or a reader could keep away: a number of frames, a signal, a time.

use std::fs;
use std::io::{BufRead, BufReader, Read};

use rustix::process::{Pid, Signal, kill_process};

use super::common::hosts;
use super::readers::packets;
use super::{Capture, ScratchDir, UDP, of_datagrams, send};

/// Frames that the queue has no room for are not in the file.
#[test]
fn what_is_counted_is_in_the_file_behind_a_queue_too() {
    hosts::with("ccount", |hosts| {
        let place = ScratchDir::new("count");
        let file = place.file("t.pcapng");
        let mut capture = Capture::start(hosts, &file, "--json --filter udp --queue 4 --count 100");
        for _ in 0..2_000 {
            if capture.child.try_wait().unwrap().is_some() {
                break;
            }
            send(hosts, [100; 50]);
        }
        let (code, report, words) = capture.finish();
        assert_eq!((code, &report["ended"]), (Some(0), &"count".into()), "{words}");
        assert_eq!((of_datagrams(&report), packets(&file)), (100, 100), "{report}");
    });
}

/// Three captures whose reader stalls: a pipe is full, nobody reads, and the run ends all the same.
#[test]
fn a_reader_that_stalls_cannot_hold_the_end() {
    hosts::with("cstall", |hosts| {
        for (flags, ended) in [
            ("--duration 60s", "signal"),
            ("--duration 60s --queue 64", "signal"),
            ("--duration 2s", "duration"),
        ] {
            let place = ScratchDir::new("stall");
            let udp = place.file("udp.code");
            fs::write(&udp, UDP).unwrap();
            let mut child = hosts
                .command(&format!("capture wa -w - --filter-code {} {flags}", udp.display()))
                .spawn()
                .unwrap();
            let mut words = BufReader::new(child.stderr.take().unwrap());
            let mut line = String::new();
            words.read_line(&mut line).unwrap();
            assert_eq!(line, "capturing on wa to stdout\n");
            send(hosts, [1_000; 200]);
            if ended == "signal" {
                kill_process(Pid::from_raw(child.id() as i32).unwrap(), Signal::TERM).unwrap();
            }
            let mut said = String::new();
            words.read_to_string(&mut said).unwrap();
            assert_eq!(child.wait().unwrap().code(), Some(1), "{flags}: {said}");
            assert!(
                said.contains("writing to stdout: nothing was read for 1s after the run's end"),
                "{said}"
            );
            let row = |name: &str| said.lines().find_map(|line| line.strip_prefix(name)).expect(name);
            assert_eq!(row("ended by").trim(), ended, "{said}");
            let captured: u64 =
                row("captured").split_whitespace().find_map(|word| word.parse().ok()).expect(&said);
            let lost = |at: &str| {
                let words = row("dropped").split("  ").find_map(|part| part.trim().strip_prefix(at));
                words.and_then(|count| count.trim().parse::<u64>().ok()).unwrap_or(0)
            };
            assert!(lost("output") > 0 && captured > 10, "{said}");
            let sum = captured + lost("ring") + lost("queue") + lost("output");
            assert!(sum == 200 || ended == "duration", "{said}");
            // What was in the pipe is whole.
            let file = place.file("t.pcapng");
            let mut bytes = Vec::new();
            child.stdout.take().unwrap().read_to_end(&mut bytes).unwrap();
            fs::write(&file, bytes).unwrap();
            assert_eq!(packets(&file), captured, "{said}");
        }
    });
}
