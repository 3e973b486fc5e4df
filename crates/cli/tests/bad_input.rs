//! Bad input: one line that names the value and what is allowed, exit code 2, nothing on stdout, and
//! nothing half started.

mod common;

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::os::unix::process::CommandExt;

use common::{command, refusal, run, stderr};

#[track_caller]
fn refused(words: &str, parts: &[&str]) {
    let message = refusal(&run(words), 2);
    for part in parts {
        assert!(message.contains(part), "`{words}`: {part:?} is not in {message:?}");
    }
}

#[test]
fn addresses() {
    for (address, problem) in [
        ("127.0.0.1", "no port"),
        ("nosuch.invalid:9", "unknown host"),
        ("127.0.0.1:65536", "the port is not a number from 0 to 65535"),
    ] {
        refused(&format!("send {address} --rate 1kpps"), &[address, problem, "IP:PORT"]);
        refused(&format!("recv {address}"), &[address, problem, "IP:PORT"]);
    }
}

#[test]
fn one_host_only() {
    for (address, problem) in [
        ("255.255.255.255:9", "a broadcast address"),
        ("127.255.255.255:9", "a broadcast address"),
        ("239.1.2.3:9", "a multicast address"),
        ("[ff02::1]:9", "a multicast address"),
        ("0.0.0.0:9", "an unspecified address"),
        ("127.0.0.1:0", "no port to send to"),
    ] {
        refused(&format!("send {address} --rate 1pps"), &[address, problem, "one host's address"]);
        // Nobody can insist on flooding a network.
        refused(&format!("send {address} --rate 1pps --no-handshake"), &[address, problem]);
    }
    refused("recv 239.1.2.3:9", &["239.1.2.3:9", "this machine's own"]);
}

#[test]
fn idle_policies_budgets_and_slices() {
    for (flags, parts) in [
        ("--idle doze", &["'doze'", "park, hybrid, spin"][..]),
        ("--idle spin --timer loop", &["--idle spin", "only --timer soft"]),
        ("--cpu-budget 50% --timer loop", &["--cpu-budget 50%", "only --timer soft"]),
        ("--cpu-budget 50% --busy compute", &["--cpu-budget 50%", "is never idle"]),
        ("--idle spin --cpu-budget 50", &["'50'", "%"]),
        ("--idle spin --cpu-budget 101%", &["'101%'", "100%"]),
        ("--sched-slice 99us", &["'99us'", "from 100us to 100ms"]),
        ("--sched-slice 1", &["'1'"]),
    ] {
        refused(&format!("send 127.0.0.1:9 --rate 1pps {flags}"), parts);
    }
}

#[test]
fn rates_and_intervals() {
    for (flags, parts) in [
        ("--rate 0pps", &["'0pps'", "above zero"][..]),
        ("--rate 0Mbit", &["'0Mbit'", "above zero"]),
        ("--interval 0us", &["'0us'", "above zero"]),
        ("--rate 18446744073709551616pps", &["'18446744073709551616pps'", "at most 18446744073709551615"]),
        ("--rate 99999999999Gbit", &["'99999999999Gbit'", "at most 18446744073709551615"]),
        ("--rate 18446744073709551615pps", &["18446744073709551615pps", "at most 1000000000pps"]),
        ("--interval 99999999999s", &["'99999999999s'", "at most 18446744073709551615ns"]),
        ("--rate 10", &["'10'", "no unit", "kpps"]),
        ("--rate -5pps", &["'-5pps'", "a rate can't be negative"]),
        ("-b -5pps", &["'-5pps'", "a rate can't be negative"]),
        ("-i 10", &["'10'", "no unit"]),
        ("--rat 5pps", &["\n  tip: a similar argument exists: '--rate'"]),
        ("--interval fast", &["'fast'", "such as 12us"]),
        ("--rate 1kpps --interval 1ms", &["--rate", "--interval", "cannot be used with"]),
        ("", &["--rate <RATE>", "--interval <TIME>"]),
        ("--interval 40us --burst-interval 41us", &["--burst-interval 41us", "at most 40us"]),
    ] {
        refused(&format!("send 127.0.0.1:9 {flags}"), parts);
    }
}

#[test]
fn sizes_counts_and_words() {
    for (flags, parts) in [
        ("--size 65508", &["'65508'", "32 to 65507"][..]),
        ("--size 31", &["'31'", "32 to 65507"]),
        ("--size 99999999999999999999", &["too large"]),
        ("--flows 0", &["'0'", "from 1 to 10000"]),
        ("--flows 10001", &["'10001'", "from 1 to 10000"]),
        ("--flows 2 --timer signal", &["--flows 2", "--timer signal", "only --flows 1"]),
        ("--flows 2 --timer off", &["--flows 2", "--timer off", "only --flows 1"]),
        ("--flows 2 --phase apart", &["'apart'", "spread, together, random"]),
        ("--phase together", &["--phase together", "--flows 2 or more"]),
        ("--flows 2 --train 65", &["'65'", "from 1 to 64, or none"]),
        ("--train none", &["--train none", "--flows 2 or more"]),
        ("--train 3 --timer tick", &["--train 3", "--timer tick", "makes up nothing"]),
        ("--train 3 --timer off", &["--train 3", "--timer off", "sends nothing"]),
        ("--train 3 --timer kernel", &["--train 3", "--timer kernel", "ahead of their times"]),
        ("--count 0", &["'0'", "1.."]),
        ("-t -1", &["'-1'", "a duration can't be negative"]),
        ("-t 0", &["'0'", "above zero"]),
        ("-t -c 5", &["a value is required for '--duration <TIME>'"]),
        ("--echo-batch 65 --busy echo", &["'65'", "1..=64"]),
        ("--echo-batch 4", &["--echo-batch 4", "--busy echo only"]),
        (
            "--timer sundial",
            &["'sundial'", "soft, loop, loop-inside, pwait2, ms, timerfd, signal, thread, spin, kernel, off"],
        ),
        ("--timer kernel --idle spin", &["--idle spin", "only --timer soft"]),
        ("--quantum 0", &["'0'", "from 1 to 64", "100us"]),
        ("--quantum 65", &["'65'", "from 1 to 64", "100us"]),
        ("--quantum some", &["'some'", "from 1 to 64", "100us"]),
        ("--quantum 2 --timer signal", &["--quantum 2", "--timer signal", "only --quantum 1"]),
        ("--quantum 2 --timer tick", &["--quantum 2", "--timer tick", "only --quantum 1"]),
        ("--quantum 2ms --timer off", &["--quantum 2ms", "--timer off", "only --quantum 1"]),
        ("--no-gso", &["--no-gso", "2 datagrams or more"]),
        ("--busy very", &["'very'", "none, compute, web, echo"]),
        ("--catch-up some", &["'some'", "none and all"]),
        ("--slack 1ms --timer ms", &["--slack 1ms", "--timer soft"]),
        ("--disable-source idle", &["'idle'", "handler_exit, readiness, send, syscall_exit"]),
        ("--disable-source send --timer spin", &["--disable-source send", "only --timer soft"]),
        ("--timer tick --pattern poisson", &["--timer tick", "--pattern poisson"]),
        ("--slack 1us --timer signal", &["--slack 1us", "--timer soft"]),
        ("--slack 1us --timer thread", &["--slack 1us", "--timer soft"]),
        ("--slack 1us --timer spin", &["--slack 1us", "--timer soft"]),
        ("--assert sent", &["'sent'", "< <= > >= =="]),
        ("--assert sent<many", &["'sent<many'", "no plain number"]),
        ("--colour", &["'--colour'"]),
    ] {
        refused(&format!("send 127.0.0.1:9 --rate 1kpps {flags}"), parts);
    }
}

#[test]
fn patterns_and_seeds() {
    for (flags, parts) in [
        ("--pattern steady", &["'steady'", "constant, poisson and onoff:ON/OFF"][..]),
        ("--pattern onoff", &["'onoff'", "onoff:10ms/90ms"]),
        ("--pattern onoff:10ms", &["'onoff:10ms'", "two times"]),
        ("--pattern onoff:0ms/1ms", &["'onoff:0ms/1ms'", "the on period must be above zero"]),
        ("--pattern onoff:1ms/0ms", &["'onoff:1ms/0ms'", "the off period must be above zero"]),
        ("--pattern onoff:1/9ms", &["'onoff:1/9ms'", "the on period: no unit", "us"]),
        ("--pattern onoff:1ms/soon", &["'onoff:1ms/soon'", "the off period: not a duration"]),
        ("--pattern onoff:10000000000s/10000000000s", &["at most 584 years"]),
        ("--pattern poisson --seed -1", &["'-1'"]),
        ("--pattern poisson --seed many", &["'many'"]),
        ("--seed 5", &["--seed 5", "--pattern poisson or --phase random only"]),
        ("--pattern onoff:1ms/9ms --seed 5", &["--seed 5", "onoff:1ms/9ms has nothing random"]),
    ] {
        refused(&format!("send 127.0.0.1:9 --rate 1kpps {flags}"), parts);
    }
}

#[test]
fn unknown_keys_end_a_run_before_it_begins() {
    refused(
        "recv 127.0.0.1:0 --assert gap_ns.p98<5",
        &["no key gap_ns.p98; did you mean", "gap_ns.p99", "--json shows all keys"],
    );
    refused("recv 127.0.0.1:0 --assert schema<5", &["schema is no number"]);
    refused("recv 127.0.0.1:0 --assert inconclusive<5", &["inconclusive is no number"]);
    refused("recv 127.0.0.1:0 --assert per_flow.64.lost<5", &["no key per_flow.64.lost"]);
}

#[test]
fn a_port_in_use() {
    let owner = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = owner.local_addr().unwrap();
    refused(&format!("recv {address}"), &[&address.to_string(), "is in use", "0 for any free one"]);
}

#[test]
fn a_foreign_address() {
    refused("recv 192.0.2.1:9", &["192.0.2.1:9", "not an address of this machine"]);
}

/// Root may use any port, so under root the command runs as nobody.
#[test]
fn a_privileged_port_without_permission() {
    let start = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").unwrap_or_default();
    if start.trim().parse::<u16>().is_ok_and(|start| start <= 1) {
        common::skipped("no port is privileged here");
        return;
    }
    let mut command = command("recv 127.0.0.1:1");
    if rustix::process::geteuid().is_root() {
        command.uid(65_534).gid(65_534);
    }
    match command.output() {
        Ok(output) => {
            let message = refusal(&output, 2);
            assert!(
                message.contains("127.0.0.1:1: no permission for port 1; choose 1024 or above"),
                "{message}"
            );
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            common::skipped("nobody may not run this executable");
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn nothing_where_something_is_wanted() {
    for (words, parts) in [
        (&["capture", "", "-w", "x"][..], &["a value is required", "INTERFACE"][..]),
        (&["forward", "", "eth1"], &["a value is required", "INTERFACE"]),
        (&["capture", "lo", "-w", ""], &["a value is required", "--write"]),
    ] {
        let message = refusal(&command("").args(words).output().unwrap(), 2);
        parts.iter().for_each(|part| assert!(message.contains(part), "{words:?}: {message}"));
    }
}

#[test]
fn a_directory_where_a_file_is_wanted() {
    let directory = std::env::temp_dir();
    let directory = directory.display();
    for words in [format!("capture lo -w {directory}")] {
        // Without the privilege for it the interface is refused first.
        if words.starts_with("capture") && run(&words).status.code() == Some(77) {
            common::skipped("no privilege to capture");
            continue;
        }
        refused(&words, &[&directory.to_string(), "a directory, not a file"]);
    }
}

#[test]
fn addresses_are_told_with_their_flag() {
    refused("forward --udp x --to 127.0.0.1:9", &["--udp: address 'x': no port"]);
    refused("forward --udp 127.0.0.1:0 --to y", &["--to: address 'y': no port"]);
    refused("forward --udp 127.0.0.1:0 --to 127.0.0.1:0", &["--to: address 127.0.0.1:0: no port to send to"]);
    refused("forward --udp 127.0.0.1:0 --to 127.0.0.1:9 --metrics z", &["--metrics: address 'z'"]);
    refused("wan --listen x --to 127.0.0.1:9", &["--listen: address 'x': no port"]);
}

#[test]
fn no_command_and_unknown_commands() {
    let nothing = run("");
    assert_eq!(nothing.status.code(), Some(2));
    assert!(
        nothing.stdout.is_empty() && stderr(&nothing).contains("Usage: softtimers"),
        "{}",
        stderr(&nothing)
    );
    refused("sned 127.0.0.1:9", &["'sned'"]);
}
