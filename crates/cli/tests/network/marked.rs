//! Datagrams and frames as another program sees them on the wire: the class that they ask for; and addresses whose zone is
//! an interface.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use crate::common::{self, hosts::ip, stderr};
use crate::{Cable, report_of, with_cable};

/// Runs a program of the far host that prints packets, until it has seen `count` of them; `None` without it.
fn tcpdump(cable: &Cable, count: usize) -> Option<impl FnOnce() -> String> {
    let mut tcpdump = Command::new("ip");
    // If less comes, it must not wait for ever.
    tcpdump.args(["netns", "exec", &cable.far, "timeout", "60"]);
    tcpdump.args(["tcpdump", "-i", "eth", "-nn", "-v", "-l"]);
    tcpdump.args(["-c", &count.to_string(), "udp dst port 9000"]);
    let spawned = tcpdump.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = spawned.unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("listening on") {
        line.clear();
        if errors.read_line(&mut line).unwrap() == 0 {
            child.wait().unwrap();
            return None;
        }
    }
    Some(move || {
        let mut text = String::new();
        child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        child.wait().unwrap();
        text
    })
}

/// Every driver, and every way by which a socket's datagrams leave.
#[test]
fn every_datagram_asks_for_its_class() {
    with_cable("marked", |cable| {
        for (host, address) in [(&cable.near, "fd98::1/64"), (&cable.far, "fd98::2/64")] {
            if let Err(why) = ip(&["-n", host, "addr", "add", address, "dev", "eth", "nodad"]) {
                return common::skipped(&format!("no IPv6: {why}"));
            }
        }
        let recording = std::env::temp_dir().join(format!("softtimers-{}-marked.csv", std::process::id()));
        std::fs::write(&recording, (0..20).map(|at| format!("{},100\n", at * 1_000)).collect::<String>())
            .unwrap();
        let replay = format!("replay {}", recording.display());
        let send = "send";
        for (command, to, flags, class) in [
            (send, "10.98.0.2", "-i 1ms", "tos 0xb8"),
            (send, "[fd98::2]", "-i 1ms", "class 0xb8"),
            (send, "[::ffff:10.98.0.2]", "-i 1ms", "tos 0xb8"),
            (send, "10.98.0.2", "-i 1ms --quantum 4", "tos 0xb8"),
            (send, "10.98.0.2", "-i 1ms --flows 4", "tos 0xb8"),
            (send, "10.98.0.2", "-i 1ms --timer signal", "tos 0xb8"),
            (send, "[fd98::2]", "-i 1ms --flows 2", "class 0xb8"),
            (replay.as_str(), "10.98.0.2", "", "tos 0xb8"),
            (replay.as_str(), "[fd98::2]", "--timer loop", "class 0xb8"),
        ] {
            // Of one segmented send the cable carries one frame.
            let seen = if flags.contains("quantum") { 5 } else { 20 };
            let Some(printed) = tcpdump(cable, seen) else { return common::skipped("no tcpdump") };
            let words = format!(
                "{command} {to}:9000 {flags} --dscp ef --count 20 --catch-up all --json --no-handshake"
            );
            let sent = cable.send(&words.split_whitespace().collect::<Vec<_>>().join(" "));
            assert_eq!(sent.status.code(), Some(0), "{words}: {}", stderr(&sent));
            let text = printed();
            assert_eq!(text.matches(class).count(), seen, "{words}: {text}");
        }
        let _ = std::fs::remove_file(&recording);
    });
}

/// Link-local addresses of either end, by the name of the interface and by its number.
#[test]
fn a_zone_leads_to_a_link_local_address() {
    with_cable("zones", |cable| {
        for (host, address) in [(&cable.near, "fe80::98:1/64"), (&cable.far, "fe80::98:2/64")] {
            if let Err(why) = ip(&["-n", host, "addr", "add", address, "dev", "eth", "nodad"]) {
                return common::skipped(&format!("no IPv6: {why}"));
            }
        }
        let receiver = cable.receiver("recv [fe80::98:2%eth]:9000 --once --duration 60s --json");
        let words = "send [fe80::98:2%eth]:9000 --rate 1kpps --count 200 --catch-up all --json";
        let sent = cable.send(words);
        assert_eq!(sent.status.code(), Some(0), "{words}: {}", stderr(&sent));
        assert_eq!(report_of(receiver)["received"], 200, "{words}");
        let refused = common::refusal(&cable.send("send [fe80::98:2]:9000 --rate 1kpps"), 2);
        assert!(refused.contains("no zone") && refused.contains("[fe80::98:2%eth0]:9000"), "{refused}");
    });
}
