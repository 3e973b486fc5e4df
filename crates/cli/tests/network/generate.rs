//! `send --driver xdp` over a cable: what arrives is what it says, and it goes nowhere else.

use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;
use softtimers_linux::ethtool::Offload;
use softtimers_load::wire::Datagram;
use softtimers_net::packet::Interface;
use softtimers_net::poller::{Device, XdpConfig, XdpDevice};

use crate::Cable;
use crate::common::{self, hosts, refusal};

/// Does something on a host.
fn at<T: Send>(host: &str, what: impl FnOnce() -> T + Send) -> T {
    let host = format!("/run/netns/{host}");
    let inside = || {
        let namespace = File::open(host).unwrap();
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        what()
    };
    thread::scope(|scope| scope.spawn(inside).join().unwrap())
}

/// Looks again for a while: the kernel may be a little later with a frame than its sender was.
fn look_until(mut is_there: impl FnMut() -> bool) {
    for _ in 0..1_000 {
        if is_there() {
            return;
        }
        thread::park_timeout(Duration::from_millis(5));
    }
}

/// The flags for the near end, once it is known that this can be done here.
fn with_cable(test: &str, body: impl FnOnce(&Cable, &str)) {
    common::watch();
    let cable = match Cable::lay(test) {
        Ok(cable) => cable,
        Err(reason) => return common::skipped(&format!("no two hosts: {reason}")),
    };
    let far = at(&cable.far, || Interface::named("eth").unwrap());
    let mac = far.hardware_address().map(|byte| format!("{byte:02x}")).join(":");
    body(&cable, &format!("send 10.98.0.2:9000 --driver xdp --iface eth --to-mac {mac} --size 32 --json"));
}

/// Each of them once, in order, with its number and its time, and no faster than asked.
#[test]
fn every_datagram_of_the_program_arrives() {
    with_cable("xdp", |cable, flags| {
        let entries = XdpConfig { entries: 8_192, ..XdpConfig::default() };
        let device = at(&cable.far, || XdpDevice::on(&Interface::named("eth").unwrap(), entries));
        let mut device = match device {
            Ok(device) => device,
            Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::Unsupported) => {
                return common::skipped(&error.to_string());
            }
            Err(error) => panic!("{error}"),
        };
        for (quantum, rate) in [(1, 20_000u64), (4, 50_000)] {
            let output = cable.send(&format!(
                "{flags} --rate {rate}pps --quantum {quantum} --count 4000 --catch-up all --from 192.0.2.7:77"
            ));
            assert_eq!(output.status.code(), Some(0), "{}", common::stderr(&output));
            let report: Value = serde_json::from_slice(&output.stdout).unwrap();
            let mut arrived = 0;
            let mut due = None;
            let mut each = |bytes: &[u8], arrived: &mut u64| {
                // The near end's kernel may have something to say as well.
                if bytes.get(26..30) != Some(&[192, 0, 2, 7]) {
                    return;
                }
                let Ok(Datagram::Data { sequence, scheduled, .. }) = Datagram::parse(&bytes[42..]) else {
                    panic!("{bytes:?}")
                };
                assert_eq!(sequence, *arrived);
                assert!(due <= Some(scheduled));
                (due, *arrived) = (Some(scheduled), *arrived + 1);
            };
            look_until(|| {
                device.poll_rx(100_000, |packet, _| each(packet.bytes, &mut arrived)).unwrap();
                arrived >= 4_000
            });
            assert_eq!((&report["sent"], arrived), (&4_000.into(), 4_000), "{report}");
            assert_eq!((&report["forfeited"], &report["schema"]), (&0.into(), &"softtimers.send/1".into()));
            assert_eq!(report["target_pps"], rate as f64);
            // From its first datagram on it is caught up with, if the first was late.
            let latest = report["late_ns"]["max"].as_f64().unwrap() / 1e9;
            let lasting = 4_000.0 / rate as f64;
            let fastest = rate as f64 * lasting / (lasting - latest).max(lasting / 1e3);
            let achieved = report["achieved_pps"].as_f64().unwrap();
            assert!(achieved > 0.0 && achieved <= fastest * 1.01, "{report}");
        }
    });
}

/// The same traffic as that of a socket: `recv` at a far kernel's socket understands it. Where frames go is the kernel's to know.
#[test]
fn a_far_socket_gets_the_datagrams_of_the_program() {
    with_cable("xdp-recv", |cable, flags| {
        let far = cable.far.as_str();
        if let Err(reason) = hosts::set_offload(far, Offload::Gro, true) {
            return common::skipped(&reason);
        }
        let receiver = cable.receiver("recv 10.98.0.2:9000 --any --count 1000 --duration 60s --json");
        let (flags, mac) = without_station(flags);
        let output = cable.send(&format!("{flags} --rate 5kpps --count 1000 --catch-up all"));
        let outcome = receiver.wait_with_output().unwrap();
        if output.status.code() == Some(77) {
            return common::skipped(&common::stderr(&output));
        }
        let sent: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(sent["config"]["mac"], mac, "{sent}");
        let received: Value = serde_json::from_slice(&outcome.stdout).unwrap();
        assert_eq!((&received["received"], &received["lost"]), (&1_000.into(), &0.into()), "{received}");
    });
}

/// The flags without `--to-mac`, and its value.
fn without_station(flags: &str) -> (String, String) {
    let (before, after) = flags.split_once(" --to-mac ").unwrap();
    let (mac, after) = after.split_once(' ').unwrap();
    (format!("{before} {after}"), mac.to_owned())
}

/// No other interface, no end that takes nothing, and nothing that would be ignored.
#[test]
fn the_program_is_kept_to_cables() {
    with_cable("xdp-guard", |cable, flags| {
        let refused = |words: &str, exit: i32, part: &str| {
            let message = refusal(&cable.send(words), exit);
            assert!(message.contains(part), "{words}: {message}");
        };
        refused(
            &format!("{} --rate 1kpps", flags.replace("--iface eth", "--iface lo")),
            2,
            "lo: not an Ethernet",
        );
        refused(&format!("{} --rate 1kpps", flags.replace("--iface eth", "--iface no0")), 2, "no0: no such");
        refused(
            &format!("{} --rate 1kpps", flags.replace("--size 32", "--size 1473")),
            2,
            "at most 1472 bytes",
        );
        let (unknown, _) = without_station(flags);
        let nobody = unknown.replace("10.98.0.2", "10.98.0.77");
        refused(&format!("{nobody} --rate 1kpps"), 1, "10.98.0.77 has not answered at eth for 3s");
        // Nobody is asked for a run that may not be.
        refused(
            &format!("{} --rate 1kpps", nobody.replace("--size 32", "--size 1473")),
            2,
            "at most 1472 bytes",
        );
        refused(
            &format!("{} --rate 1kpps", unknown.replace("10.98.0.2", "127.0.0.1")),
            2,
            "this machine itself",
        );
        refused(
            &format!("{} --rate 1kpps", unknown.replace("10.98.0.2", "192.0.2.1")),
            2,
            "--to-mac MAC says",
        );
        // Nobody at the other end takes frames of programs: it is found out.
        let quiet = cable.send(&format!("{flags} --rate 1kpps --count 20"));
        assert!(refusal(&quiet, 77).contains("--driver xdp: "), "{}", common::stderr(&quiet));
        let mut plain = std::process::Command::new("ip");
        plain.args(["netns", "exec", &cable.near, "setpriv", "--bounding-set", "-bpf,-sys_admin"]);
        plain.args(["--inh-caps", "-bpf,-sys_admin", crate::COMMAND]).args(flags.split(' '));
        match plain.args(["--rate", "1kpps"]).output() {
            Ok(output) if common::stderr(&output).starts_with("softtimers: ") => {
                assert!(refusal(&output, 77).contains("CAP_BPF"));
            }
            _ => common::skipped("no setpriv to give a privilege up"),
        }
    });
}

/// Ctrl-C ends it with what was sent.
#[test]
fn a_signal_ends_the_program() {
    with_cable("xdp-signal", |cable, flags| {
        let device =
            at(&cable.far, || XdpDevice::on(&Interface::named("eth").unwrap(), XdpConfig::default()));
        let mut device = match device {
            Ok(device) => device,
            Err(error) => return common::skipped(&error.to_string()),
        };
        let mut arrived = 0u64;
        let mut count = |device: &mut XdpDevice| {
            let counted = device.poll_rx(4_096, |packet, _| {
                arrived += u64::from(packet.bytes.get(26..30) == Some(&[192, 0, 2, 7]));
            });
            counted.unwrap();
            arrived
        };
        let words = format!("{flags} --rate 1kpps --duration 100s --from 192.0.2.7:77");
        let child = Cable::command(&cable.near, &words).spawn().unwrap();
        // The watchdog ends this if nothing ever comes.
        while count(&mut device) < 100 {
            thread::yield_now();
        }
        kill_process(Pid::from_raw(child.id() as i32).unwrap(), Signal::INT).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", common::stderr(&output));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let sent = report["sent"].as_u64().unwrap();
        look_until(|| count(&mut device) >= sent);
        assert_eq!(count(&mut device), sent, "{report}");
    });
}
