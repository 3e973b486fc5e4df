//! `capture` on virtual cables: what passes is in the file, to the last frame, however the run ends; and what is not in
//! it is told. Files are read by another reader than ours wherever one is installed.

#[path = "capture/blocks.rs"]
mod blocks;
mod common;
#[path = "capture/ends.rs"]
mod ends;
#[path = "capture/keep.rs"]
mod keep;
#[path = "capture/readers.rs"]
mod readers;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command};
use std::time::Duration;

use common::hosts::{self, Hosts};
use common::{refusal, run, skipped};
use readers::{packets, statistics};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use softtimers_load::recording::{self, Fit};

/// A directory of a test's own, where anybody may write.
struct ScratchDir(PathBuf);

impl ScratchDir {
    fn new(test: &str) -> Self {
        use std::os::unix::fs::PermissionsExt;
        let path = std::env::temp_dir().join(format!("softtimers-capture-{}-{test}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        ScratchDir(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// UDP over IPv4, as `tcpdump -ddd` prints a program: no other program is needed here.
const UDP: &str = "6\n40 0 0 12\n21 0 3 2048\n48 0 0 23\n21 0 1 17\n6 0 0 262144\n6 0 0 0\n";

/// A capture that runs.
struct Capture {
    child: Child,
    words: BufReader<ChildStderr>,
}

impl Capture {
    /// In the middle, of the cable to near.
    fn start(hosts: &Hosts, file: &Path, flags: &str) -> Self {
        Capture::start_by(hosts, file, flags, None)
    }

    /// Likewise, as sudo starts it for this user, or as root.
    fn start_by(hosts: &Hosts, file: &Path, flags: &str, user: Option<&str>) -> Self {
        Capture::start_on(hosts, "wa", file, flags, user)
    }

    /// Likewise, of these interfaces.
    fn start_on(hosts: &Hosts, on: &str, file: &Path, flags: &str, user: Option<&str>) -> Self {
        let udp = file.with_file_name("udp.code");
        let _ = fs::write(&udp, UDP);
        let flags = flags.replace("--filter udp", &format!("--filter-code {}", udp.display()));
        let file = file.display();
        let mut command = hosts.command(&format!("capture {on} -w {file} --duration 60s {flags}"));
        for variable in ["SUDO_UID", "SUDO_GID"] {
            match user {
                Some(user) => command.env(variable, user),
                None => command.env_remove(variable),
            };
        }
        let mut child = command.spawn().unwrap();
        let mut words = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        words.read_line(&mut line).unwrap();
        assert!(line.starts_with("capturing on wa"), "{line}");
        Capture { child, words }
    }

    fn id(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32).unwrap()
    }

    fn end(self, signal: Signal) -> (Option<i32>, Value, String) {
        kill_process(self.id(), signal).unwrap();
        self.finish()
    }

    fn finish(mut self) -> (Option<i32>, Value, String) {
        let (mut text, mut words) = (String::new(), String::new());
        self.child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        self.words.read_to_string(&mut words).unwrap();
        let code = self.child.wait().unwrap().code();
        (
            code,
            text.lines().last().map_or(Value::Null, |_| serde_json::from_str(&text).unwrap_or(Value::Null)),
            words,
        )
    }
}

/// Sends datagrams of these lengths from near, by a neighbour that is not there: to port 9 of the middle's station.
fn send(hosts: &Hosts, lengths: impl IntoIterator<Item = usize> + Send + 'static) {
    let near = hosts.host("near");
    let _ = hosts::ip(&["-n", &near, "addr", "replace", "192.0.2.9/24", "dev", "eth"]);
    let to = ["-n", &near, "neigh", "replace", "192.0.2.1", "lladdr", hosts::WA, "dev", "eth"];
    hosts::ip(&to).unwrap();
    hosts
        .at("near", move || {
            let socket = UdpSocket::bind("192.0.2.9:0").unwrap();
            for length in lengths {
                socket.send_to(&vec![length as u8; length], "192.0.2.1:9").unwrap();
            }
        })
        .join()
        .unwrap();
}

/// Waits until `bytes` are in a file.
fn wait_for(path: &Path, bytes: u64) {
    for _ in 0..1_000 {
        if fs::metadata(path).is_ok_and(|file| file.len() >= bytes) {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    panic!("{bytes} bytes never come into {}", path.display());
}

fn of_datagrams(report: &Value) -> u64 {
    report["captured"].as_u64().unwrap()
}

/// Then those whom we start ignore it, too.
fn ignores_hang_up() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or("0");
    u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask & 1 == 1)
}

#[test]
fn what_passes_is_in_the_file_to_the_last_frame_whatever_signal_ends_it() {
    hosts::with("csig", |hosts| {
        for (signal, name) in [(Signal::TERM, "term"), (Signal::INT, "int"), (Signal::HUP, "hup")] {
            if signal == Signal::HUP && ignores_hang_up() {
                skipped("these tests run under nohup");
                continue;
            }
            let place = ScratchDir::new(name);
            let file = place.file("t.pcapng");
            let capture = Capture::start(hosts, &file, "--json --filter udp");
            send(hosts, (0..200).map(|n| 1 + 7 * n));
            let (code, report, words) = capture.end(signal);
            assert_eq!((code, &report["ended"]), (Some(0), &"signal".into()), "{words}");
            assert_eq!((of_datagrams(&report), &report["dropped"]["ring"]), (200, &0.into()), "{report}");
            assert_eq!(packets(&file), 200);
            assert_eq!(statistics(&file), [200, 0, 0, 200]);
            assert_eq!(report["delay_ns"]["count"], 200);
            let read = recording::read(fs::File::open(&file).unwrap(), &Fit::default()).unwrap();
            assert_eq!(read.changed.out_of_order, 0, "{:?}", read.changed);
        }
    });
}

#[test]
fn frames_are_in_the_file_while_it_runs_and_privileges_are_gone() {
    hosts::with("clive", |hosts| {
        let place = ScratchDir::new("live");
        let file = place.file("t.pcapng");
        let capture = Capture::start_by(hosts, &file, "--json --filter udp --max-delay 5ms", Some("12345"));
        send(hosts, [100; 3]);
        wait_for(&file, 3 * (44 + 144));
        for task in fs::read_dir(format!("/proc/{}/task", capture.id())).unwrap() {
            let status = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
            let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
            assert!(!line("Uid:").split('\t').any(|uid| uid == "0"), "{status}");
            assert_eq!(
                (line("CapEff:"), line("CapPrm:"), line("Groups:")),
                ("0000000000000000", "0000000000000000", "12345")
            );
        }
        let owner = std::os::unix::fs::MetadataExt::uid(&fs::metadata(&file).unwrap());
        assert_eq!(owner, 12_345, "the file is the user's");
        let (code, report, words) = capture.end(Signal::TERM);
        assert_eq!((code, of_datagrams(&report)), (Some(0), 3), "{words}");
    });
}

#[test]
fn snap_length_filter_and_count_choose() {
    hosts::with("csnap", |hosts| {
        let place = ScratchDir::new("snap");
        let file = place.file("t.pcapng");
        let capture = Capture::start(hosts, &file, "--json --snaplen 68 --count 25 --filter udp");
        send(hosts, [1_000; 40]);
        let (code, report, words) = capture.finish();
        assert_eq!((code, &report["ended"]), (Some(0), &"count".into()), "{words}");
        assert_eq!((of_datagrams(&report), &report["bytes"]), (25, &(25 * 68).into()));
        assert_eq!(packets(&file), 25);
        let read = recording::read(fs::File::open(&file).unwrap(), &Fit::default()).unwrap();
        assert!(read.trace.iter().all(|(_, length)| length == 1_000), "as long as they were");
    });
}

/// Livelock §9: a trial of 30,000 packets, of which 68 bytes are kept; each is in the file or counted as lost.
#[test]
fn a_trial_of_30_000_headers_is_accounted_for_to_the_last() {
    hosts::with("ctrial", |hosts| {
        let place = ScratchDir::new("trial");
        let file = place.file("t.pcapng");
        let capture = Capture::start(hosts, &file, "--json --snaplen 68 --filter udp");
        send(hosts, std::iter::repeat_n(1_000, 30_000));
        let (code, report, words) = capture.end(Signal::TERM);
        let captured = of_datagrams(&report);
        assert_eq!((code, &report["bytes"]), (Some(0), &(captured * 68).into()), "{words}");
        // The interface drops what comes faster than the kernel hands on, and counts frames that are not for the filter.
        let [_, by_interface, behind, delivered] = statistics(&file);
        assert_eq!((delivered, packets(&file)), (captured, captured));
        assert!(delivered + behind <= 30_000, "{report}");
        assert!(delivered + behind + by_interface >= 30_000, "{report}");
        assert!(captured > 0);
    });
}

#[test]
fn an_interface_that_vanishes_leaves_a_whole_file() {
    hosts::with("cgone", |hosts| {
        let place = ScratchDir::new("gone");
        let file = place.file("t.pcapng");
        let capture = Capture::start(hosts, &file, "--json --filter udp");
        send(hosts, [100; 10]);
        hosts::ip(&["-n", &hosts.host("middle"), "link", "del", "wa"]).unwrap();
        let (code, report, words) = capture.finish();
        assert_eq!((code, &report["ended"]), (Some(1), &"interface".into()), "{words}");
        assert!(words.contains("the interface is gone"), "{words}");
        assert_eq!((of_datagrams(&report), packets(&file)), (10, 10));
    });
}

#[test]
fn a_full_disk_keeps_whole_frames_and_the_rest_is_told() {
    hosts::with("cfull", |hosts| {
        let place = ScratchDir::new("full");
        let disk = place.file("disk");
        fs::create_dir(&disk).unwrap();
        let mount =
            hosts::run("mount", &["-t", "tmpfs", "-o", "size=64k,mode=777", "tmpfs", disk.to_str().unwrap()]);
        if let Err(reason) = mount {
            return skipped(&reason);
        }
        let file = disk.join("t.pcapng");
        let capture = Capture::start(hosts, &file, "--json --filter udp");
        send(hosts, [1_000; 200]);
        let (code, report, words) = capture.finish();
        let captured = of_datagrams(&report);
        let lost = report["dropped"]["output"].as_u64().unwrap();
        let found = packets(&file);
        let unmounted = hosts::run("umount", &[disk.to_str().unwrap()]);
        assert_eq!((code, &report["ended"]), (Some(1), &"output".into()), "{words}");
        assert!(words.contains("No space left on device"), "{words}");
        assert!(captured > 20 && lost > 0 && captured + lost <= 200, "{report}");
        assert_eq!(found, captured);
        unmounted.unwrap();
    });
}

#[test]
fn files_are_rotated_by_size() {
    hosts::with("crot", |hosts| {
        let place = ScratchDir::new("rot");
        let capture = Capture::start(hosts, &place.file("t.pcapng"), "--json --filter udp --rotate 1MiB");
        for _ in 0..5 {
            send(hosts, [1_400; 400]);
            std::thread::park_timeout(Duration::from_millis(20));
        }
        let (code, report, words) = capture.end(Signal::TERM);
        assert_eq!(code, Some(0), "{words}");
        let files = report["files"].as_u64().unwrap();
        assert!(files >= 3, "{report}");
        let found: u64 = (1..=files)
            .map(|number| {
                let file = place.file(&format!("t-{number:05}.pcapng"));
                assert!(fs::metadata(&file).unwrap().len() <= 1 << 20);
                packets(&file)
            })
            .sum();
        assert_eq!((found, of_datagrams(&report)), (2_000, 2_000));
    });
}

#[test]
fn a_numbered_file_that_exists_is_refused_at_the_start_and_skipped_later() {
    hosts::with("cthere", |hosts| {
        let place = ScratchDir::new("there");
        let numbered = |number: u64| place.file(&format!("t-{number:05}.pcapng"));
        let flags = "--json --filter udp --rotate 1MiB";
        fs::write(numbered(7), "theirs").unwrap();
        let early = format!("capture wa -w {} --rotate 1MiB", place.file("t.pcapng").display());
        let refused = refusal(&hosts.command(&early).output().unwrap(), 2);
        assert!(refused.contains("t-00007.pcapng': exists") && refused.contains("--force"), "{refused}");
        assert!(!numbered(1).exists());
        fs::remove_file(numbered(7)).unwrap();

        let capture = Capture::start(hosts, &place.file("t.pcapng"), flags);
        fs::write(numbered(2), "theirs").unwrap();
        for _ in 0..3 {
            send(hosts, [1_400; 400]);
            std::thread::park_timeout(Duration::from_millis(20));
        }
        let (code, report, words) = capture.end(Signal::TERM);
        assert_eq!((code, report["files"].as_u64()), (Some(0), Some(2)), "{words}");
        assert!(words.contains("t-00002.pcapng' exists and stays"), "{words}");
        assert_eq!(fs::read(numbered(2)).unwrap(), b"theirs");
        assert_eq!([numbered(1), numbered(3)].map(|file| packets(&file)).iter().sum::<u64>(), 1_200);
    });
}

#[test]
fn frames_go_to_a_pipe_and_its_reader_may_leave() {
    hosts::with("cpipe", |hosts| {
        let place = ScratchDir::new("pipe");
        let udp = place.file("udp.code");
        fs::write(&udp, UDP).unwrap();
        let words = format!("capture wa -w - --filter-code {} --duration 60s", udp.display());
        let mut child = hosts.command(&words).spawn().unwrap();
        let mut words = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        words.read_line(&mut line).unwrap();
        assert_eq!(line, "capturing on wa to stdout\n");
        let mut stdout = child.stdout.take().unwrap();
        send(hosts, [100; 10]);
        let mut bytes = vec![0; 10 * (44 + 144)];
        stdout.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes[..4], [10, 13, 13, 10]);
        drop(stdout);
        send(hosts, [100; 10]);
        let mut rest = String::new();
        words.read_to_string(&mut rest).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{rest}");
        assert!(rest.contains("ended by") && rest.contains("output"), "{rest}");
    });
}

#[test]
fn a_queue_accounts_for_what_it_has_no_room_for() {
    hosts::with("cqueue", |hosts| {
        let place = ScratchDir::new("queue");
        let file = place.file("t.pcapng");
        let capture = Capture::start(hosts, &file, "--json --filter udp --queue 32 --max-delay 20ms");
        for _ in 0..4 {
            send(hosts, [60; 500]);
        }
        let (code, report, words) = capture.end(Signal::TERM);
        assert_eq!(code, Some(0), "{words}");
        let dropped = report["dropped"]["queue"].as_u64().unwrap();
        let ring = report["dropped"]["ring"].as_u64().unwrap();
        assert_eq!(of_datagrams(&report) + dropped + ring, 2_000, "{report}");
        assert_eq!(packets(&file), of_datagrams(&report));
        assert!(report["feedback"]["shut"].as_u64().unwrap() > 0, "{report}");
    });
}

#[test]
fn hostile_frames_do_not_break_the_writer() {
    hosts::with("chost", |hosts| {
        let place = ScratchDir::new("hostile");
        let file = place.file("t.pcapng");
        let capture = Capture::start(hosts, &file, "--json");
        let sent = hosts
            .at("near", || {
                let interface = softtimers_net::packet::Interface::named("eth").unwrap();
                let sender = softtimers_net::packet::FrameSender::on(&interface).unwrap();
                let mut state = 0x9e37_79b9_7f4a_7c15u64;
                let mut sent = 0;
                for round in 0..400usize {
                    let frame: Vec<u8> = (0..14 + round * 7 % 1_500)
                        .map(|_| {
                            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                            (state >> 56) as u8
                        })
                        .collect();
                    sent += u64::from(sender.send(&frame).is_ok());
                }
                sent
            })
            .join()
            .unwrap();
        let (code, report, words) = capture.end(Signal::TERM);
        assert_eq!(code, Some(0), "{words}");
        assert!(sent > 300 && of_datagrams(&report) >= sent, "{report}");
        assert_eq!(packets(&file), of_datagrams(&report));
    });
}

#[test]
fn expressions_are_compiled_by_libpcap() {
    if Command::new("tcpdump").arg("--version").output().is_err() {
        return skipped("no tcpdump");
    }
    hosts::with("cexpr", |hosts| {
        let place = ScratchDir::new("expr");
        let file = place.file("t.pcapng");
        let words = format!("capture wa -w {} --json --count 5 --duration 20s --filter", file.display());
        let mut command = hosts.command(&words);
        let mut child = command.arg("udp dst port 9 and greater 142").spawn().unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        said.read_line(&mut line).unwrap();
        assert!(line.starts_with("capturing"), "{line}");
        send(hosts, [99, 100].repeat(5));
        assert_eq!(child.wait().unwrap().code(), Some(0));
        let read = recording::read(fs::File::open(&file).unwrap(), &Fit::default()).unwrap();
        assert!(read.trace.iter().all(|(_, length)| length == 100) && packets(&file) == 5);
        let wrong = hosts.command(&words.replace("t.pcapng", "u.pcapng")).arg("udp prot 9").output().unwrap();
        assert!(refusal(&wrong, 2).contains("--filter 'udp prot 9': can't parse"), "{wrong:?}");
    });
}

#[test]
fn what_cannot_be_is_refused() {
    let place = ScratchDir::new("refused");
    let file = place.file("t.pcapng");
    let shown = file.display();
    let refused = |flags: &str| refusal(&run(&format!("capture nosuch0 -w {flags}")), 2);
    assert!(refused(&format!("{shown}")).contains("no such interface"));
    let any = refusal(&run(&format!("capture any -w {shown}")), 2);
    assert!(any.contains("-i lo -i eth0"), "{any}");
    assert!(refused(&format!("{shown} --max-delay 1us")).contains("20us to 10s"));
    assert!(refused(&format!("{shown} --filter vlan")).contains("--filter-code"));
    assert!(refused(&format!("{shown} --filter-code /nonexistent")).contains("No such file"));
    assert!(refused(&format!("{shown} --user no-such-user")).contains("--user no-such-user"));
    assert!(refused(&format!("{shown} --rotate 10")).contains("64MiB"));
    assert!(refused("- --json").contains("stdout has the frames"));
    assert!(!file.exists());
}

#[test]
fn a_path_that_cannot_be_written_is_refused_before_anything_is_captured() {
    hosts::with("cpath", |hosts| {
        let place = ScratchDir::new("path");
        let there = place.file("there");
        fs::write(&there, "theirs").unwrap();
        let run = |words: &str| hosts.command(words).output().unwrap();
        let exists = refusal(&run(&format!("capture wa -w {}", there.display())), 2);
        assert!(exists.contains("--force"), "{exists}");
        assert_eq!(fs::read(&there).unwrap(), b"theirs");
        let link = place.file("link");
        std::os::unix::fs::symlink(&there, &link).unwrap();
        let linked = refusal(&run(&format!("capture wa -w {} --force", link.display())), 2);
        assert!(linked.contains("is a symbolic link; give the path it leads to"), "{linked}");
        let nowhere = refusal(&run(&format!("capture wa -w {}/x/y", there.display())), 2);
        assert!(nowhere.contains("Not a directory"), "{nowhere}");
        let full = run("capture wa -w /dev/full --force --duration 5s");
        assert_eq!(full.status.code(), Some(1), "{full:?}");
        assert!(String::from_utf8_lossy(&full.stderr).contains("/dev/full"), "{full:?}");
    });
}
