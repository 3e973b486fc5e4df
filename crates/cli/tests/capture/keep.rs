//! Files that are rotated and kept: a full disk ends no capture, and neither end cuts a file inside of a block. Several
//! interfaces in one file, and the direction of each frame.

use std::fs;
use std::io::{BufRead, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Signal, kill_process};
use serde_json::Value;
use softtimers_net::packet::{FrameSender, Interface};

use super::common::hosts::{self, Hosts};
use super::common::skipped;
use super::readers::{endings, flagged, packets, statistics};
use super::{Capture, ScratchDir, of_datagrams, send, wait_for};

/// A disk, until it is dropped.
struct Disk {
    place: PathBuf,
}

impl Disk {
    /// Mounts a disk with room for `kib` KiB; `None`, and it is said, where there is none.
    fn new(place: &ScratchDir, kib: u32) -> Option<Self> {
        Disk::with(place, &format!("size={kib}k"))
    }

    /// Mounts a disk with room for `files` files, and any number of bytes.
    fn of_files(place: &ScratchDir, files: u32) -> Option<Self> {
        // The directory takes one, and so does the file with the filter.
        Disk::with(place, &format!("nr_inodes={}", files + 2))
    }

    fn with(place: &ScratchDir, room: &str) -> Option<Self> {
        let place = place.file("disk");
        fs::create_dir(&place).unwrap();
        let size = format!("{room},mode=777");
        let words = ["-t", "tmpfs", "-o", &size, "tmpfs", place.to_str().unwrap()];
        hosts::run("mount", &words).map(|()| Disk { place }).map_err(|reason| skipped(&reason)).ok()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = hosts::run("umount", &[self.place.to_str().unwrap()]);
    }
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<_> = all.filter(|path| path.extension().is_some_and(|end| end == "pcapng")).collect();
    all.sort();
    all
}

/// Sends frames, and waits until they are in the files: those of before, too, so nothing may be removed meanwhile.
fn send_and_find(hosts: &Hosts, directory: &Path, frames: usize, all: &mut u64) {
    send(hosts, std::iter::repeat_n(1_400, frames));
    *all += frames as u64;
    let bytes = || files(directory).iter().map(|path| fs::metadata(path).unwrap().len()).sum::<u64>();
    let found = (0..1_000).any(|_| {
        std::thread::park_timeout(Duration::from_millis(10));
        bytes() >= *all * 1_442
    });
    assert!(found, "{} bytes of {all} frames", bytes());
}

/// The note about a full disk.
fn says_it_is_full(capture: &mut Capture) -> String {
    let mut line = String::new();
    while !line.contains("frames are lost until there is room") {
        line.clear();
        assert!(capture.words.read_line(&mut line).unwrap() > 0, "it ended");
    }
    line
}

fn number(report: &Value, key: &str) -> u64 {
    report.pointer(key).and_then(Value::as_u64).unwrap_or_else(|| panic!("{key}: {report}"))
}

/// Every frame is counted, and the newest files have the newest frames: none is lost between two.
#[test]
fn the_newest_files_are_kept_and_rotation_loses_nothing() {
    hosts::with("ckeep", |hosts| {
        for flags in ["", "--max-delay 20ms"] {
            let place = ScratchDir::new("keep");
            let flags = format!("--json --filter udp --ring 64MiB --rotate 1MiB --keep 2 {flags}");
            let capture = Capture::start(hosts, &place.file("t.pcapng"), &flags);
            for _ in 0..10 {
                send(hosts, [1_400; 400]);
            }
            let (code, report, words) = capture.end(Signal::TERM);
            assert_eq!(code, Some(0), "{words}");
            assert_eq!((of_datagrams(&report), number(&report, "/dropped/ring")), (4_000, 0), "{report}");
            let all = number(&report, "/files");
            assert_eq!(number(&report, "/removed"), all - 2, "{report}");
            let kept = files(&place.0);
            let expected: Vec<_> =
                (all - 1..=all).map(|at| place.file(&format!("t-{at:05}.pcapng"))).collect();
            assert!(all >= 6 && kept == expected, "{kept:?} of {all}");
            // All but the last are full to less than a batch, so nothing is missing from them.
            let each = kept.iter().map(|path| packets(path)).collect::<Vec<_>>();
            assert!(each[0] > 500 && each.iter().sum::<u64>() <= 4_000, "{each:?}");
            // The last word of a file knows of all before it.
            let [received, _, behind, delivered] = statistics(&kept[1]);
            assert_eq!((received, behind, delivered), (4_000, 0, 4_000));
        }
    });
}

#[test]
fn a_full_disk_costs_the_oldest_file_and_no_frame() {
    hosts::with("ckfull", |hosts| {
        let place = ScratchDir::new("kfull");
        let Some(disk) = Disk::new(&place, 2_560) else { return };
        let flags = "--json --filter udp --ring 64MiB --rotate 1MiB --keep 8";
        let capture = Capture::start(hosts, &disk.place.join("t.pcapng"), flags);
        for _ in 0..10 {
            send(hosts, [1_400; 400]);
        }
        let (code, report, words) = capture.end(Signal::TERM);
        let (kept, all) = (files(&disk.place), number(&report, "/files"));
        let found: u64 = kept.iter().map(|path| packets(path)).sum();
        drop(disk);
        assert_eq!((code, &report["ended"]), (Some(0), &"signal".into()), "{words}");
        assert_eq!((of_datagrams(&report), number(&report, "/dropped/output")), (4_000, 0), "{report}");
        assert!(all >= 5 && number(&report, "/removed") == all - kept.len() as u64, "{report}");
        assert!(found > 1_000 && kept.len() < 4, "{found} in {kept:?}");
    });
}

/// Nothing can be removed: what has no room is lost and counted, and when there is room again it goes on.
#[test]
fn a_disk_that_others_fill_ends_no_capture() {
    hosts::with("ckothers", |hosts| {
        let place = ScratchDir::new("kothers");
        let Some(disk) = Disk::new(&place, 512) else { return };
        let (ballast, file) = (disk.place.join("ballast"), disk.place.join("t-00001.pcapng"));
        fs::write(&ballast, vec![1; 448 << 10]).unwrap();
        let flags = "--json --filter udp --rotate 1MiB --keep 2";
        let capture = Capture::start(hosts, &disk.place.join("t.pcapng"), flags);
        send(hosts, [1_000; 200]);
        // Filled up, to the last whole frame.
        wait_for(&file, 50 << 10);
        std::thread::park_timeout(Duration::from_millis(50));
        let before = fs::metadata(&file).unwrap().len();
        fs::remove_file(ballast).unwrap();
        send(hosts, [100; 50]);
        wait_for(&file, before + 50 * (44 + 144));
        let (code, report, words) = capture.end(Signal::TERM);
        let found = packets(&file);
        drop(disk);
        assert_eq!((code, &report["ended"]), (Some(0), &"signal".into()), "{words}");
        assert!(
            words.contains("No space left on device") && words.contains("until there is room"),
            "{words}"
        );
        let lost = number(&report, "/dropped/output");
        assert!(lost > 0 && of_datagrams(&report) + lost == 250, "{report}");
        assert_eq!(found, of_datagrams(&report));
    });
}

/// Room for bytes is left, but none for a third file.
#[test]
fn a_disk_with_no_room_for_another_file_costs_the_oldest_and_no_frame() {
    hosts::with("ckinodes", |hosts| {
        let place = ScratchDir::new("kinodes");
        let Some(disk) = Disk::of_files(&place, 2) else { return };
        let flags = "--json --filter udp --ring 64MiB --rotate 1MiB --keep 8";
        let capture = Capture::start(hosts, &disk.place.join("t.pcapng"), flags);
        for _ in 0..10 {
            send(hosts, [1_400; 400]);
        }
        let (code, report, words) = capture.end(Signal::TERM);
        let (kept, all) = (files(&disk.place), number(&report, "/files"));
        let found: u64 = kept.iter().map(|path| packets(path)).sum();
        let ended: Vec<_> = kept.iter().map(|path| endings(path)).collect();
        drop(disk);
        assert_eq!((code, &report["ended"]), (Some(0), &"signal".into()), "{words}");
        assert_eq!((of_datagrams(&report), number(&report, "/dropped/output")), (4_000, 0), "{report}");
        assert!(all >= 5 && number(&report, "/removed") == all - 2, "{report}");
        assert!(found > 500 && ended == [1, 1], "{found} and {ended:?} in {kept:?}");
    });
}

/// The file that is written stays, and goes on being it, until there is room for another.
#[test]
fn without_room_for_another_file_the_current_one_stays() {
    hosts::with("ckone", |hosts| {
        let place = ScratchDir::new("kone");
        let Some(disk) = Disk::of_files(&place, 1) else { return };
        let [first, second] = [1, 2].map(|at| disk.place.join(format!("t-{at:05}.pcapng")));
        let flags = "--json --filter udp --ring 64MiB --rotate 1MiB --keep 2";
        let mut capture = Capture::start(hosts, &disk.place.join("t.pcapng"), flags);
        send(hosts, [1_400; 1_000]);
        let said = says_it_is_full(&mut capture);
        assert!(said.contains("t-00002.pcapng': No space left on device"), "{said}");
        assert!(first.exists() && !second.exists());
        fs::remove_file(disk.place.join("udp.code")).unwrap();
        // More than the first has room for, which is less than a batch, and less than would begin a third.
        send(hosts, [1_400; 400]);
        wait_for(&second, 1);
        let (code, report, words) = capture.end(Signal::TERM);
        let found = [&first, &second].map(|path| packets(path));
        let ended = [&first, &second].map(|path| endings(path));
        drop(disk);
        assert_eq!((code, &report["ended"]), (Some(0), &"signal".into()), "{words}");
        let lost = number(&report, "/dropped/output");
        assert!(lost > 0 && of_datagrams(&report) + lost == 1_400, "{report}");
        assert_eq!((found.iter().sum(), ended), (of_datagrams(&report), [1, 1]));
        assert_eq!((number(&report, "/files"), number(&report, "/removed")), (2, 0));
    });
}

/// A file that somebody reads gives no room when it is removed: then it is the only one that goes for a batch.
#[test]
fn a_batch_costs_one_file_at_the_most() {
    hosts::with("ckheld", |hosts| {
        let place = ScratchDir::new("kheld");
        let Some(disk) = Disk::new(&place, 4_096) else { return };
        let [first, second, third] = [1, 2, 3].map(|at| disk.place.join(format!("t-{at:05}.pcapng")));
        let flags = "--json --filter udp --ring 64MiB --rotate 1MiB --keep 8";
        let mut capture = Capture::start(hosts, &disk.place.join("t.pcapng"), flags);
        let mut sent = 0;
        while !third.exists() {
            send_and_find(hosts, &disk.place, 100, &mut sent);
        }
        let _held = [&first, &second].map(|path| fs::File::open(path).unwrap());
        let mut ballast = fs::File::create(disk.place.join("ballast")).unwrap();
        while ballast.write_all(&[1; 4_096]).is_ok() {}
        // Until a frame cannot have room in the rest of the last page.
        loop {
            let length = fs::metadata(&third).unwrap().len();
            if length.next_multiple_of(4_096) - length < 1_400 {
                break;
            }
            send_and_find(hosts, &disk.place, 1, &mut sent);
        }
        send(hosts, [1_400]);
        says_it_is_full(&mut capture);
        assert_eq!([&first, &second, &third].map(|path| path.exists()), [false, true, true]);
        let (_, report, _) = capture.end(Signal::TERM);
        assert_eq!((of_datagrams(&report), number(&report, "/dropped/output")), (sent, 1), "{report}");
    });
}

/// In the place of a file of the run is somebody else's, with its number, as file systems give it to the next file.
#[test]
fn rotation_removes_nothing_that_the_run_has_not_written() {
    hosts::with("cktheirs", |hosts| {
        let place = ScratchDir::new("ktheirs");
        let [first, second] = [1, 2].map(|at| place.file(&format!("t-{at:05}.pcapng")));
        let flags = "--json --filter udp --ring 64MiB --rotate 1MiB --keep 2";
        let capture = Capture::start(hosts, &place.file("t.pcapng"), flags);
        // The first file is closed when the second has something in it.
        let mut sent = 0;
        while !fs::metadata(&second).is_ok_and(|file| file.len() > 0) {
            send_and_find(hosts, &place.0, 100, &mut sent);
        }
        fs::write(&first, "theirs").unwrap();
        while !place.file("t-00004.pcapng").exists() {
            send(hosts, [1_400; 100]);
        }
        let (code, report, words) = capture.end(Signal::TERM);
        assert_eq!(code, Some(0), "{words}");
        assert_eq!(fs::read_to_string(&first).unwrap(), "theirs");
        assert_eq!(number(&report, "/removed"), number(&report, "/files") - 3, "{report}");
        assert!(!second.exists());
    });
}

/// The next file cannot be made: the run ends, and the last word is in the current one once.
#[test]
fn a_directory_that_is_closed_leaves_the_file_before_whole() {
    hosts::with("ckway", |hosts| {
        let place = ScratchDir::new("kway");
        let [first, second] = [1, 2].map(|at| place.file(&format!("t-{at:05}.pcapng")));
        let flags = "--json --filter udp --ring 64MiB --rotate 1MiB";
        let capture = Capture::start(hosts, &place.file("t.pcapng"), flags);
        fs::set_permissions(&place.0, fs::Permissions::from_mode(0o555)).unwrap();
        send(hosts, [1_400; 1_000]);
        let (code, report, words) = capture.finish();
        assert_eq!((code, &report["ended"]), (Some(1), &"output".into()), "{words}");
        assert!(words.contains("t-00002.pcapng': Permission denied"), "{words}");
        assert_eq!((endings(&first), packets(&first)), (1, of_datagrams(&report)));
        let lost = number(&report, "/interfaces/0/dropped/output");
        assert!(lost > 0, "{report}");
        assert_eq!(statistics(&first)[3], of_datagrams(&report));
        assert!(!second.exists());
    });
}

/// One of several interfaces is removed: it is named, and the file has what all had.
#[test]
fn the_interface_that_is_gone_is_named() {
    hosts::with("ckgone", |hosts| {
        for flags in ["", "--max-delay 20ms"] {
            let place = ScratchDir::new("kgone");
            let file = place.file("t.pcapng");
            let name = if flags.is_empty() { "wb" } else { "wc" };
            let middle = hosts.host("middle");
            if name == "wc" {
                let link = ["-n", &middle, "link", "add", "wc", "type", "veth", "peer", "name", "wd"];
                hosts::ip(&link).unwrap();
                hosts::ip(&["-n", &middle, "link", "set", "wc", "up"]).unwrap();
            }
            let flags = format!("--json --filter udp {flags}");
            let capture = Capture::start_on(hosts, &format!("-i wa -i {name}"), &file, &flags, None);
            send(hosts, [100; 10]);
            hosts::ip(&["-n", &middle, "link", "del", name]).unwrap();
            let (code, report, words) = capture.finish();
            assert_eq!((code, &report["ended"]), (Some(1), &"interface".into()), "{words}");
            assert!(words.contains(&format!("capturing on {name}: the interface is gone")), "{words}");
            assert_eq!((of_datagrams(&report), packets(&file)), (10, 10));
        }
    });
}

#[test]
fn what_is_killed_leaves_whole_blocks() {
    hosts::with("ckill", |hosts| {
        for flags in ["--max-delay 1ms", "--max-delay 20ms"] {
            let place = ScratchDir::new("kill");
            let file = place.file("t.pcapng");
            let mut capture = Capture::start(hosts, &file, &format!("--json --filter udp {flags}"));
            send(hosts, [1_400; 400]);
            wait_for(&file, 100 << 10);
            kill_process(capture.id(), Signal::KILL).unwrap();
            assert_eq!(capture.child.wait().unwrap().code(), None);
            let (whole, rest) = flagged(&file);
            assert!(whole.len() >= 60 && rest < 1_500, "{} and {rest} bytes", whole.len());
        }
    });
}

/// Two cables, frames of both ways: each is in the one file with its interface and its direction.
#[test]
fn several_interfaces_have_one_file_with_directions() {
    hosts::with("cboth", |hosts| {
        for flags in ["", "--max-delay 20ms"] {
            let place = ScratchDir::new("both");
            let file = place.file("t.pcapng");
            let flags = format!("--json --filter udp {flags}");
            let capture = Capture::start_on(hosts, "-i wa -i wb", &file, &flags, None);
            sent(hosts, "near", "eth", hosts::WA, 30);
            sent(hosts, "far", "eth", hosts::WB, 20);
            sent(hosts, "middle", "wb", hosts::FAR, 7);
            sent(hosts, "far", "eth", "ff:ff:ff:ff:ff:ff", 5);
            sent(hosts, "far", "eth", hosts::NEAR, 3);
            let (code, report, words) = capture.end(Signal::TERM);
            assert_eq!(code, Some(0), "{words}");
            let (each, _) = flagged(&file);
            let count = |interface, flags| each.iter().filter(|one| **one == (interface, flags)).count();
            // Inbound to here, outbound, to everybody, to others.
            let found = [(0, 0b0_0101), (1, 0b0_0101), (1, 0b0_0010), (1, 0b0_1101), (1, 0b1_0001)];
            assert_eq!(found.map(|(at, flags)| count(at, flags)), [30, 20, 7, 5, 3], "{each:?}");
            assert_eq!((of_datagrams(&report), packets(&file)), (65, 65));
            assert_eq!([0, 1].map(|at| number(&report, &format!("/interfaces/{at}/captured"))), [30, 35]);
            assert_eq!(report["config"]["interfaces"], serde_json::json!(["wa", "wb"]));
            // The first interface's.
            assert_eq!(statistics(&file), [30, 0, 0, 30]);
        }
    });
}

/// Sends datagrams by an interface of a host to a station.
fn sent(hosts: &Hosts, host: &str, interface: &'static str, station: &'static str, frames: usize) {
    let bytes = station.split(':').map(|two| u8::from_str_radix(two, 16).unwrap());
    let mut frame: Vec<u8> = bytes.chain([2, 0, 0, 0, 9, 9, 8, 0]).collect();
    let header =
        [0x45, 0, 0, 46, 0, 0, 0, 0, 9, 17, 0, 0, 192, 0, 2, 9, 192, 0, 2, 1, 0, 9, 0, 9, 0, 26, 0, 0];
    frame.extend(header);
    frame.resize(60, 7);
    let send = move || {
        let sender = FrameSender::on(&Interface::named(interface).unwrap()).unwrap();
        (0..frames).for_each(|_| sender.send(&frame).unwrap());
    };
    hosts.at(host, send).join().unwrap();
}
