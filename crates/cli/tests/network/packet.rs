//! `send --driver packet` over a cable: frames of this process are the datagrams that they stand for, and go where the
//! kernel's would.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddrV4;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, recv, sendto, socket_with,
};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;

use crate::common::{self, hosts::ip, refusal};
use crate::{Cable, report_of, with_cable};

/// Addresses of IPv6 beside the others.
fn with_both(test: &str, body: impl FnOnce(&Cable)) {
    common::watch();
    with_cable(test, |cable| {
        for (host, address) in [(&cable.near, "fd98::1/64"), (&cable.far, "fd98::2/64")] {
            if let Err(why) = ip(&["-n", host, "addr", "add", address, "dev", "eth", "nodad"]) {
                return common::skipped(&format!("no IPv6: {why}"));
            }
        }
        body(cable);
    });
}

/// One flow and several, with an odd size too: the far kernel has checked what `recv` counts.
#[test]
fn every_frame_is_a_datagram_to_a_far_socket() {
    with_both("frames", |cable| {
        for (to, flags) in [
            ("10.98.0.2:9000", "--size 201"),
            ("[fd98::2]:9000", "--size 1400"),
            ("10.98.0.2:9000", "--flows 4 --phase together"),
            ("[fd98::2]:9000", "--flows 3 --size 33 --quantum 2"),
            ("10.98.0.2:9000", "--timer thread"),
        ] {
            let receiver = cable.receiver(&format!("recv {to} --once --duration 60s --json"));
            let words =
                format!("send {to} --driver packet --rate 2kpps --count 2000 --catch-up all --json {flags}");
            let sent = cable.send(&words);
            assert_eq!(sent.status.code(), Some(0), "{words}: {}", common::stderr(&sent));
            let sent: Value = serde_json::from_slice(&sent.stdout).unwrap();
            let received = report_of(receiver);
            assert_eq!(
                (&received["received"], &received["lost"]),
                (&2_000.into(), &0.into()),
                "{words}: {received}"
            );
            assert_eq!((&received["reordered"], &received["duplicated"]), (&0.into(), &0.into()), "{words}");
            let count = |key: &str| sent["frames"][key].as_u64().unwrap();
            assert_eq!(count("sent") + count("by_socket"), 2_000, "{words}: {sent}");
            // One a second at the least, and one turn of it.
            assert!(count("by_socket") >= 1 && count("sent") > 1_000, "{words}: {}", sent["frames"]);
            assert_eq!(sent["config"]["driver"], "packet");
            assert!(sent["send_via"]["way"].as_str().unwrap().starts_with("frame"), "{sent}");
            assert_eq!(sent["machine"]["sandbox"]["capabilities"], Value::from(Vec::<String>::new()));
        }
    });
}

/// Other programs' reading of the frames, on the wire.
#[test]
fn tcpdump_finds_no_fault() {
    with_both("tcpdump", |cable| {
        for to in ["10.98.0.2:9000", "[fd98::2]:9000"] {
            let mut tcpdump = Command::new("ip");
            tcpdump
                .args(["netns", "exec", &cable.far, "tcpdump", "-i", "eth", "-nn", "-vv", "-l", "-c", "100"]);
            tcpdump.args(["udp", "dst", "port", "9000", "and", "greater", "300"]);
            let spawned = tcpdump.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
            let mut child = spawned.unwrap();
            let mut line = String::new();
            let mut errors = BufReader::new(child.stderr.take().unwrap());
            errors.read_line(&mut line).unwrap();
            while !line.contains("listening on") {
                line.clear();
                if errors.read_line(&mut line).unwrap() == 0 {
                    child.wait().unwrap();
                    return common::skipped("no tcpdump");
                }
            }
            let receiver = cable.receiver(&format!("recv {to} --once --duration 60s --json"));
            let sent =
                cable.send(&format!("send {to} --driver packet --rate 1kpps --count 1000 --size 301 --json"));
            assert_eq!(sent.status.code(), Some(0), "{}", common::stderr(&sent));
            report_of(receiver);
            let mut text = String::new();
            child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
            child.wait().unwrap();
            let sound = text.matches("[udp sum ok]").count();
            // Of what the socket sends, a virtual cable leaves the checksum out.
            assert!(sound >= 95 && text.matches("UDP, length 301").count() >= 95, "{to}: {text}");
            assert!(!text.contains("bad cksum") && text.contains("64"), "{to}: {text}");
        }
    });
}

/// The station of the far end changes while it runs; the kernel is told, and frames follow.
#[test]
fn frames_follow_the_neighbour() {
    with_both("follow", |cable| {
        let mut receiver =
            Cable::command(&cable.far, "recv 10.98.0.2:9000 --once --duration 100s --json-stream")
                .spawn()
                .unwrap();
        let mut lines = BufReader::new(receiver.stdout.take().unwrap()).lines();
        let sender = Cable::command(
            &cable.near,
            "send 10.98.0.2:9000 --driver packet --rate 1kpps --duration 90s --json",
        )
        .spawn()
        .unwrap();
        // Far more than the one a second that the socket sends.
        let mut wait_for_frames = || {
            let line = lines.by_ref().map(Result::unwrap).find(|line| {
                let line: Value = serde_json::from_str(line).unwrap();
                line["interval"]["received"].as_u64() >= Some(50)
            });
            assert!(line.is_some(), "the receiver has ended");
        };
        wait_for_frames();
        let other = "02:00:00:00:00:77";
        ip(&["-n", &cable.far, "link", "set", "eth", "address", other]).unwrap();
        let known = ["-n", &cable.near, "neigh", "replace", "10.98.0.2", "lladdr", other, "dev", "eth"];
        ip(&known).unwrap();
        // The first line may be of before.
        wait_for_frames();
        wait_for_frames();
        wait_for_frames();
        kill_process(Pid::from_raw(sender.id() as i32).unwrap(), Signal::INT).unwrap();
        let output = sender.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", common::stderr(&output));
        let sent: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(sent["frames"]["way_changes"].as_u64() >= Some(1), "{}", sent["frames"]);
        lines.for_each(drop);
        assert!(receiver.wait().unwrap().success());
    });
}

/// A router on the way tells that it cuts nothing so long. The kernel learns it, and sends no notice.
#[test]
fn frames_follow_a_learnt_mtu() {
    with_both("learnt", |cable| {
        let receiver = cable.receiver("recv 10.98.0.2:9000 --once --duration 100s --json");
        let words = "send 10.98.0.2:9000 --driver packet --rate 200pps --size 1200 --duration 90s --json";
        let sender = Cable::command(&cable.near, words).spawn().unwrap();
        let far = format!("/run/netns/{}", cable.far);
        let follows = thread::spawn(move || {
            let namespace = File::open(far).unwrap();
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            let open = |protocol| {
                socket_with(AddressFamily::INET, SocketType::RAW, SocketFlags::CLOEXEC, Some(protocol))
            };
            let (arrives, tells) = (open(ipproto::UDP).unwrap(), open(ipproto::ICMP).unwrap());
            set_socket_timeout(&arrives, Timeout::Recv, Some(Duration::from_secs(20))).unwrap();
            let (mut buffer, mut told, mut cut) = ([0; 2_048], false, 0);
            for _ in 0..12_000 {
                let (length, _) = recv(&arrives, &mut buffer[..], RecvFlags::empty()).expect("a datagram");
                if length != 1_228 {
                    continue;
                }
                if !told {
                    let near = SocketAddrV4::new([10, 98, 0, 1].into(), 0);
                    sendto(&tells, &needs_cut(&buffer[..28]), SendFlags::empty(), &near).unwrap();
                    told = true;
                }
                // Far more in a row than the one a second that may be cut anyway.
                cut = if buffer[6] & 0x40 == 0 { cut + 1 } else { 0 };
                if cut == 100 {
                    return true;
                }
            }
            false
        });
        assert!(follows.join().unwrap(), "frames that are too long for the path");
        kill_process(Pid::from_raw(sender.id() as i32).unwrap(), Signal::INT).unwrap();
        let output = sender.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", common::stderr(&output));
        let sent: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(sent["frames"]["way_changes"].as_u64() >= Some(1), "{}", sent["frames"]);
        report_of(receiver);
    });
}

/// ICMP: fragmentation needed, to 1,000 bytes, about a packet.
fn needs_cut(packet: &[u8]) -> Vec<u8> {
    let mut told = [&[3, 4, 0, 0, 0, 0, 0x03, 0xe8], packet].concat();
    let mut sum: u32 = told.chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1])).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    told[2..4].copy_from_slice(&(!sum as u16).to_be_bytes());
    told
}

/// Nothing leaves without consent, without the right, or longer than the cable takes.
#[test]
fn frames_are_guarded_as_datagrams_are() {
    with_both("guard", |cable| {
        let refused = |words: &str, exit: i32, part: &str| {
            let message = refusal(&cable.send(words), exit);
            assert!(message.contains(part), "{words}: {message}");
        };
        refused("send 10.98.0.2:9000 --driver packet --rate 5kpps", 1, "--no-handshake");
        refused("send 10.98.0.1:9000 --driver packet --rate 1kpps", 2, "this machine itself");
        refused("send 10.98.0.2:9000 --driver packet --rate 1kpps --size 1473", 2, "at most 1472 bytes");
        refused("send [fd98::2]:9000 --driver packet --rate 1kpps --size 1453", 2, "at most 1452 bytes");
    });
}

/// It works with CAP_NET_RAW and nothing else, has nothing left of it while it runs, and is refused with all but that.
#[test]
fn frames_need_one_capability() {
    with_both("right", |cable| {
        let with = |rights: &str, words: &[&str]| {
            let mut command = Command::new("ip");
            let privileges = ["setpriv", "--bounding-set", rights, "--inh-caps", rights];
            command.args(["netns", "exec", &cable.near]).args(privileges).args(words);
            command.stdin(Stdio::null()).output().unwrap()
        };
        let status = with("-all,+net_raw", &["cat", "/proc/self/status"]);
        let status = String::from_utf8_lossy(&status.stdout).into_owned();
        // CAP_NET_RAW is bit 13.
        if !["CapPrm", "CapEff", "CapBnd"]
            .iter()
            .all(|set| status.contains(&format!("{set}:\t0000000000002000")))
        {
            return common::skipped("no setpriv to keep one privilege");
        }
        let receiver = cable.receiver("recv 10.98.0.2:9000 --once --duration 60s --json");
        let words = "send 10.98.0.2:9000 --driver packet --rate 2kpps --count 2000 --catch-up all --json";
        let words: Vec<&str> = [crate::COMMAND].into_iter().chain(words.split(' ')).collect();
        let sent = with("-all,+net_raw", &words);
        assert_eq!(sent.status.code(), Some(0), "{}", common::stderr(&sent));
        let sent: Value = serde_json::from_slice(&sent.stdout).unwrap();
        assert!(sent["frames"]["sent"].as_u64() > Some(1_000), "{}", sent["frames"]);
        assert_eq!(sent["machine"]["sandbox"]["capabilities"], Value::from(Vec::<String>::new()));
        assert_eq!(report_of(receiver)["received"], 2_000);
        assert!(refusal(&with("-net_raw", &words), 77).contains("CAP_NET_RAW"));
    });
}
