//! Two hosts, joined by a cable: network namespaces with a veth pair, where the other end is not
//! loopback and must agree. Needs root and `ip`; says so where it has not got them.

#[path = "common/captures.rs"]
mod captures;
mod common;
#[path = "network/marked.rs"]
mod marked;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Output, Stdio};

use common::hosts::{ip, run};
use serde_json::Value;

const COMMAND: &str = common::PROGRAM;

/// Two namespaces named after this process; both are deleted when it is dropped.
struct Cable {
    near: String,
    far: String,
}

impl Cable {
    fn lay(test: &str) -> Result<Self, String> {
        let name = |end| format!("softtimers-{}-{test}-{end}", std::process::id());
        let cable = Cable { near: name("near"), far: name("far") };
        for host in [&cable.near, &cable.far] {
            ip(&["netns", "add", host])?;
            ip(&["-n", host, "link", "set", "lo", "up"])?;
        }
        let (near, far) = (cable.near.as_str(), cable.far.as_str());
        ip(&["-n", near, "link", "add", "eth", "type", "veth", "peer", "name", "eth", "netns", far])?;
        ip(&["-n", near, "addr", "add", "10.98.0.1/24", "dev", "eth"])?;
        ip(&["-n", far, "addr", "add", "10.98.0.2/24", "dev", "eth"])?;
        for host in [&cable.near, &cable.far] {
            ip(&["-n", host, "link", "set", "eth", "up"])?;
        }
        Ok(cable)
    }

    fn command(host: &str, words: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", host, COMMAND]).args(words.split(' '));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn send(&self, words: &str) -> Output {
        Cable::command(&self.near, words).output().unwrap()
    }

    /// `recv` at the far end, listening.
    fn receiver(&self, words: &str) -> Child {
        let mut child = Cable::command(&self.far, words).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("listening on "), "{line}");
        child
    }
}

impl Cable {
    /// Lets no more than `rate` out of the near end, with a queue that holds six datagrams of 1200 bytes with their
    /// headers, and then not even a goodbye.
    fn narrow(&self, rate: &str) -> Result<(), String> {
        let shape = ["dev", "eth", "root", "tbf", "rate", rate, "burst", "2000", "limit", "7460"];
        run("ip", &[&["netns", "exec", &self.near, "tc", "qdisc", "add"], &shape[..]].concat())
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        for host in [&self.near, &self.far] {
            let _ = ip(&["netns", "del", host]);
        }
    }
}

/// Waits for a receiver's end and takes its object.
fn report_of(mut receiver: Child) -> Value {
    let mut text = String::new();
    receiver.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(receiver.wait().unwrap().success());
    serde_json::from_str(&text).unwrap()
}

fn with_cable(test: &str, body: impl FnOnce(&Cable)) {
    match Cable::lay(test) {
        Ok(cable) => body(&cable),
        Err(reason) => common::skipped(&format!("no two hosts: {reason}")),
    }
}

/// Fast traffic to another host is sent only with its consent, and then arrives as paced.
#[test]
fn another_host_is_asked_first() {
    with_cable("asked", |cable| {
        let fast = "send 10.98.0.2:9000 --rate 5kpps --count 500 --catch-up all --json";
        let refused = cable.send(fast);
        let message = common::refusal(&refused, 1);
        assert!(message.contains("10.98.0.2:9000") && message.contains("--no-handshake"), "{message}");

        let receiver = cable.receiver("recv 10.98.0.2:9000 --once --duration 60s --json");
        let sent = cable.send(fast);
        assert_eq!(sent.status.code(), Some(0), "{}", common::stderr(&sent));
        let received = report_of(receiver);
        assert_eq!((&received["received"], &received["lost"]), (&500.into(), &0.into()));
        assert_eq!(received["gap_ns"]["count"], 499);
        assert!(received["hellos"].as_u64() >= Some(1));
    });
}

/// A busy second in an idle hour needs consent; and frames as long as the cable takes stay whole, since the
/// datagrams that stand for them leave room for their headers.
#[test]
fn a_recording_asks_for_its_busiest_second_and_fits_the_cable() {
    with_cable("replay", |cable| {
        let packets: Vec<(u64, u32)> = (0..1_100).map(|number| (number * 500_000, 1_514)).collect();
        let path = std::env::temp_dir().join(format!("softtimers-{}-cable.pcap", std::process::id()));
        std::fs::write(&path, captures::pcap(captures::LITTLE, false, 64, &packets)).unwrap();
        let replay = format!("replay {} 10.98.0.2:9000 --catch-up all --json", path.display());
        let message = common::refusal(&cable.send(&replay), 1);
        assert!(
            message.contains("1000 packets/s to another machine") && message.contains("recv"),
            "{message}"
        );
        let slow = cable.send(&format!("{replay} --speed 0.5x --count 20"));
        let report: Value = serde_json::from_slice(&slow.stdout).unwrap();
        assert_eq!((slow.status.code(), &report["sent"]), (Some(1), &20.into()), "to nobody: {report}");

        let receiver = cable.receiver("recv 10.98.0.2:9000 --once --duration 60s --json");
        let sent = cable.send(&replay);
        assert_eq!(sent.status.code(), Some(0), "{}", common::stderr(&sent));
        let received = report_of(receiver);
        assert_eq!(
            (&received["received"], &received["received_bytes"]),
            (&1_100.into(), &(1_100 * 1_472).into())
        );
        let (names, values) = ip_counters(&cable.near);
        let at = names.iter().position(|name| name == "FragCreates").unwrap();
        assert_eq!(values[at], "0", "datagrams were cut into fragments");
        std::fs::remove_file(path).unwrap();
    });
}

/// The names and values of the IP counters of a host.
fn ip_counters(host: &str) -> (Vec<String>, Vec<String>) {
    let output = Command::new("ip").args(["netns", "exec", host, "cat", "/proc/net/snmp"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Ip: "));
    let mut words = || lines.next().unwrap().split(' ').map(str::to_owned).collect();
    (words(), words())
}

/// Slow traffic needs no consent, but somebody who receives it; an insisting user needs none either, and a directed broadcast is
/// refused whatever is typed.
#[test]
fn slow_or_insisted_traffic_is_sent_and_broadcast_is_not() {
    with_cable("slow", |cable| {
        for (words, exit) in [("--rate 500pps", 1), ("--rate 20kpps --no-handshake", 0)] {
            let sent = cable.send(&format!("send 10.98.0.2:9000 --count 50 --json {words}"));
            assert_eq!(sent.status.code(), Some(exit), "{words}: {}", common::stderr(&sent));
            let report: Value = serde_json::from_slice(&sent.stdout).unwrap();
            assert_eq!(report["sent"], 50, "{words}");
        }
        let message = common::refusal(&cable.send("send 10.98.0.255:9000 --rate 1kpps --no-handshake"), 2);
        assert!(message.contains("10.98.0.255"), "{message}");
    });
}

/// Eight times as much as the cable carries: what the full queue holds up is late or given up, not
/// hidden, nothing that was taken is lost, and the goodbyes get through the same queue.
#[test]
fn a_full_queue_shows_as_lateness_and_the_goodbyes_pass_it() {
    with_cable("full", |cable| {
        if let Err(reason) = cable.narrow("1mbit") {
            return common::skipped(&format!("no shaper: {reason}"));
        }
        let receiver = cable.receiver("recv 10.98.0.2:9000 --once --duration 60s --json");
        let sent = cable.send("send 10.98.0.2:9000 --rate 800pps --duration 1500ms --json");
        assert_eq!(sent.status.code(), Some(0), "{}", common::stderr(&sent));
        let sent: Value = serde_json::from_slice(&sent.stdout).unwrap();
        let count = |value: &Value| value.as_u64().unwrap();
        let refused = count(&sent["socket"]["would_block"]) + count(&sent["socket"]["no_buffers"]);
        assert!(refused > 0 && count(&sent["forfeited"]) > 0, "{sent}");
        // Most of them queue behind others, so the median knows of it: more than a whole interval.
        assert!(count(&sent["late_ns"]["p50"]) > 1_250_000, "{sent}");
        assert!(count(&sent["late"]["catch_up"]["count"]) > 0, "{sent}");
        let received = report_of(receiver);
        assert_eq!((&received["received"], &received["lost"]), (&sent["sent"], &0.into()));
        assert_eq!(received["per_flow"][0]["ended"], true);
    });
}

/// With several flows, what a batch could not get rid of leaves first, in order, and none of it twice.
#[test]
fn a_full_queue_loses_nothing_of_several_flows() {
    with_cable("flows", |cable| {
        if let Err(reason) = cable.narrow("1mbit") {
            return common::skipped(&format!("no shaper: {reason}"));
        }
        let receiver = cable.receiver("recv 10.98.0.2:9000 --once --duration 60s --json");
        let sent = cable.send("send 10.98.0.2:9000 --rate 50pps --flows 16 --duration 1500ms --json");
        assert_eq!(sent.status.code(), Some(0), "{}", common::stderr(&sent));
        let sent: Value = serde_json::from_slice(&sent.stdout).unwrap();
        let refused = ["would_block", "no_buffers"].map(|key| sent["socket"][key].as_u64().unwrap());
        assert!(refused.iter().sum::<u64>() > 0, "{sent}");
        let received = report_of(receiver);
        assert_eq!((&received["received"], &received["lost"]), (&sent["sent"], &0.into()));
        assert_eq!((&received["reordered"], &received["duplicated"]), (&0.into(), &0.into()));
        // Nobody has it all: those that wait longest go first.
        let shares = &received["over_flows"]["received"];
        assert!(shares["min"].as_u64().unwrap() * 2 > shares["max"].as_u64().unwrap(), "{received}");
    });
}

/// The cable is pulled for good: the run ends by itself, with its summary and then the reason.
#[test]
fn a_destination_that_goes_out_of_reach_ends_the_run_with_its_summary() {
    with_cable("pulled", |cable| {
        let mut receiver = cable.receiver("recv 10.98.0.2:9000 --any --count 5 --duration 60s --json");
        let sender = Cable::command(
            &cable.near,
            "send 10.98.0.2:9000 --no-handshake --rate 100pps --duration 60s --json",
        );
        let sender = { sender }.spawn().unwrap();
        assert!(receiver.wait().unwrap().success());
        ip(&["-n", &cable.near, "link", "set", "eth", "down"]).unwrap();
        let output = sender.wait_with_output().unwrap();
        let words = common::stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{words}");
        assert!(
            words.contains("softtimers: sending to 10.98.0.2:9000: ") && words.contains("unreachable"),
            "{words}"
        );
        let sent: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(sent["sent"].as_u64() >= Some(5) && sent["socket"]["refused"].as_u64() > Some(0), "{sent}");
    });
}

/// Segments have to fit the packets of the device; where they do not, each datagram is a send of its own, and
/// the report says so.
#[test]
fn what_the_kernel_does_not_cut_leaves_all_the_same() {
    with_cable("uncut", |cable| {
        let receiver = cable.receiver("recv 10.98.0.2:9000 --once --duration 60s --json");
        let sent = cable.send(
            "send 10.98.0.2:9000 --rate 800pps --count 80 --size 2000 --quantum 4 --catch-up all --json",
        );
        assert_eq!(sent.status.code(), Some(0), "{}", common::stderr(&sent));
        let sent: Value = serde_json::from_slice(&sent.stdout).unwrap();
        let received = report_of(receiver);
        assert_eq!((&received["received"], &received["lost"]), (&80.into(), &0.into()));
        assert_eq!((&received["reordered"], &received["duplicated"]), (&0.into(), &0.into()));
        // One attempt more than there are turns.
        assert_eq!(
            (&sent["sent"], &sent["segmented"], &sent["system_calls"]),
            (&80.into(), &0.into(), &21.into())
        );
        let fallbacks = sent["fallbacks"].to_string();
        assert!(fallbacks.contains("UDP_SEGMENT"), "{fallbacks}");
    });
}

/// Full queues and buffers delay trains; what is sent in the end is sent once.
#[test]
fn a_narrow_path_takes_each_datagram_of_a_quantum_once() {
    with_cable("trains", |cable| {
        if let Err(reason) = cable.narrow("2mbit") {
            return common::skipped(&format!("no token bucket: {reason}"));
        }
        let receiver = cable.receiver("recv 10.98.0.2:9000 --duration 20s --count 200 --json");
        // On one CPU: each has a backlog of its own at the other end of the cable, and one may overtake the other.
        let sent = cable.send(
            "send 10.98.0.2:9000 --rate 800pps --count 200 --size 1200 --quantum 4 --no-gso --catch-up all --cpu 0 --json",
        );
        assert_eq!(sent.status.code(), Some(0), "{}", common::stderr(&sent));
        let sent: Value = serde_json::from_slice(&sent.stdout).unwrap();
        let received = report_of(receiver);
        assert_eq!((&sent["sent"], &received["received"]), (&200.into(), &200.into()), "{}", sent["socket"]);
        assert_eq!((&received["reordered"], &received["duplicated"]), (&0.into(), &0.into()));
        assert!(sent["socket"]["no_buffers"].as_u64() > Some(0), "{}", sent["socket"]);
    });
}
