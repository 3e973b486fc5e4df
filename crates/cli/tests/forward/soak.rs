//! Forwarding under load, by each driver, while rules change, links go down and come up, and interfaces are made anew.
//! Every frame is accounted for. A few seconds for each driver where `SOFTTIMERS_LONG` is set, as in `.ci/run`; at least a
//! minute if `SOFTTIMERS_FULL` is set, and `SOFTTIMERS_RESULTS=FILE` writes the counts.

use std::fs::{read_to_string, write};
use std::thread::JoinHandle;

use softtimers::{Clock, Monotonic};
use softtimers_measure::machine::Machine;
use softtimers_trials::result::{Results, Table};

use super::*;

/// An event in the life of a forwarder, beside load and changing rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Life {
    /// Nothing, so the kernel's counters must be those of the report.
    Rules,
    /// Both links of the router go down and come up.
    Outages,
    /// An interface is removed, which ends the run; the next one is with a new interface.
    Anew,
}

#[test]
fn every_frame_is_accounted_for_by_packet() {
    soak("--driver packet");
}

#[test]
fn every_frame_is_accounted_for_by_xdp() {
    soak("--driver xdp");
}

#[test]
fn every_frame_is_accounted_for_by_tc() {
    soak("--driver tc");
}

#[test]
fn every_frame_is_accounted_for_by_xdp_fast() {
    soak("--driver xdp-fast");
}

fn soak(driver: &'static str) {
    let is_full = std::env::var_os("SOFTTIMERS_FULL").is_some();
    if !is_full && std::env::var_os("SOFTTIMERS_LONG").is_none() {
        return skipped("it takes long; SOFTTIMERS_LONG=1 runs it");
    }
    with_router(&format!("soak-{}", &driver[9..]), |hosts| {
        keep_quiet(hosts);
        if !takes_complete(hosts, driver) {
            return;
        }
        let least = Duration::from_secs(if is_full { 60 } else { 0 });
        for driver in working(hosts, &[driver], &routing()) {
            let (began, mut lives) = (Monotonic.now(), vec![]);
            let so_far = || Monotonic.now().saturating_duration_since(began);
            while lives.is_empty() || so_far() < least {
                for life in [Life::Rules, Life::Outages, Life::Anew] {
                    lives.push(live(hosts, driver, life));
                }
            }
            keep(&driver[9..], &lives, so_far());
        }
    });
}

/// Writes what came of it where that is wanted.
fn keep(driver: &str, lives: &[Value], time: Duration) {
    let Some(path) = std::env::var_os("SOFTTIMERS_RESULTS") else { return };
    let columns = ["driver", "lives", "seconds", "in", "out", "dropped by rules", "in rings", "at outputs"];
    let mut table = Table::new("forwarding", &columns.map(|head| (head, 0)));
    let sum = |pointer: &str| lives.iter().map(|report| count(report, pointer) as f64).sum::<f64>().into();
    table.row([
        driver.into(),
        (lives.len() as f64).into(),
        time.as_secs_f64().round().into(),
        sum("/in"),
        sum("/out"),
        sum("/dropped/rule"),
        sum("/dropped/ring"),
        sum("/dropped/output"),
    ]);
    let run = "SOFTTIMERS_FULL=1 cargo test -p softtimers-cli --test forward -- soak";
    let results = Results { tables: vec![table], ..Results::today(&Machine::read().line(), run) };
    write(path, results.to_text().unwrap()).unwrap();
}

/// Makes frames complete, so that XDP has some to forward there; says whether they are as the driver wants them.
fn takes_complete(hosts: &Hosts, driver: &str) -> bool {
    driver != "--driver xdp-fast"
        || (takes_redirected(hosts) && set_offload(hosts, "near", Offload::SendChecksums, false))
}

/// Returns the report.
fn live(hosts: &Hosts, driver: &str, life: Life) -> Value {
    let what = format!("{driver}, {life:?}");
    let middle = hosts.host("middle");
    let rules = Scratch::new(&format!("soak{}.rules", &driver[9..]), &text(0));
    let before = Counters::read(hosts);
    let mut forwarder =
        Forwarder::start(hosts, &format!("{driver} {} --rules {}", routing(), rules.0.display()));
    let far = bound(hosts, "far", "10.98.2.9:7000");
    let load = Load::start(hosts);
    for change in 1..=CHANGES {
        super::super::rewrite(&rules.0, &text(change));
        if life == Life::Outages {
            for end in ["wb", "wa"] {
                for state in ["down", "up"] {
                    ip(&["-n", &middle, "link", "set", end, state]).unwrap();
                    thread::park_timeout(Duration::from_millis(20));
                }
            }
        }
        hears(&mut forwarder, "rules reloaded", &what);
    }
    if life == Life::Anew {
        ip(&["-n", &middle, "link", "del", "wa"]).unwrap();
        let mut output = String::new();
        forwarder.child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
        assert_eq!(forwarder.child.wait().unwrap().code(), Some(1), "{what}");
        load.stop();
        let report: Value = serde_json::from_str(&output).unwrap();
        adds_up(&report);
        assert!(count(&report, "/ends/0/received/packets") > 100, "{what}: {report}");
        lay_anew(hosts);
        takes_complete(hosts, driver);
        return report;
    }
    let rejected = load.stop();
    let near = bound(hosts, "near", "10.98.1.9:0");
    // Pieces come up behind all that has come up, so that has been taken.
    echoed(&near, &far, &[7; 2_000]);
    let report = forwarder.finish();
    let after = Counters::read(hosts);
    let came = count(&report, "/ends/0/received/packets") + count(&report, "/ends/0/dropped/ring");
    let left = count(&report, "/ends/1/sent/packets") + count(&report, "/made/sent");
    let [into, refused, lost, out] = after.since(&before);
    if life == Life::Rules {
        // The kernel's drops at the way in are counted as the ring's.
        assert!((into..=into + refused).contains(&came), "{what}: {came} of {into} and {refused}: {report}");
        assert_eq!(left, out + lost, "{what}: {report}");
        let entries = report["rules"]["entries"].as_array().unwrap().iter();
        let reject = entries.filter(|entry| entry["rule"] == "port 7001 reject");
        let matched: u64 = reject.map(|entry| count(entry, "/matched")).sum();
        assert!(matched > 0 && matched <= rejected, "{what}: {matched} of {rejected}: {report}");
    } else {
        // What an interface takes until it is known to be down is lost there, and counted as sent.
        let most = into + refused;
        assert!(came <= most && left >= out, "{what}: {came} of {most}, {left} and {out}: {report}");
        assert_eq!(report["outages"], serde_json::json!([CHANGES, CHANGES]), "{what}");
    }
    report
}

/// Rules of which one changes: ports that are accepted, rejected, and kept at a rate by who screens.
fn text(change: usize) -> String {
    let first = if change.is_multiple_of(2) { "port 9 reject\n" } else { "" };
    format!("{first}port 7001 reject\nport 7002 rate 1kpps accept\nport 7002 reject\naccept")
}

/// Reads what it says until this.
fn hears(forwarder: &mut Forwarder, words: &str, what: &str) {
    loop {
        let said = forwarder.says();
        assert!(!said.is_empty(), "{what}: it ended");
        if said.starts_with(words) {
            return;
        }
    }
}

/// Nobody says anything but what is sent here: no questions for addresses, nothing of IPv6.
fn keep_quiet(hosts: &Hosts) {
    for host in ["near", "middle", "far"] {
        let quiet = hosts.at(host, || {
            for which in ["all", "default"] {
                write(format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6"), "1").unwrap();
            }
        });
        quiet.join().unwrap();
    }
    know(hosts, "near", "10.98.1.1", WA);
    know(hosts, "far", "10.98.2.1", WB);
}

fn know(hosts: &Hosts, host: &str, address: &str, station: &str) {
    let words = ["neigh", "replace", address, "lladdr", station, "dev", "eth", "nud", "permanent"];
    ip(&[&["-n", &hosts.host(host)], &words[..]].concat()).unwrap();
}

/// Another cable between near and the middle, which went with its end.
fn lay_anew(hosts: &Hosts) {
    let [near, middle] = ["near", "middle"].map(|host| hosts.host(host));
    let link = ["-n", &near, "link", "add", "eth", "address", NEAR, "type", "veth"];
    ip(&[&link[..], &["peer", "name", "wa", "address", WA, "netns", &middle]].concat()).unwrap();
    ip(&["-n", &near, "addr", "add", "10.98.1.9/24", "dev", "eth"]).unwrap();
    ip(&["-n", &near, "link", "set", "eth", "up"]).unwrap();
    ip(&["-n", &middle, "link", "set", "wa", "up"]).unwrap();
    ip(&["-n", &near, "route", "add", "default", "via", "10.98.1.1"]).unwrap();
    know(hosts, "near", "10.98.1.1", WA);
}

/// The kernel's own counters: frames that came in at `wa` and that it dropped, that `wb` dropped, and that came to the far
/// host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Counters([u64; 4]);

impl Counters {
    fn read(hosts: &Hosts) -> Self {
        let at = |host, end: &'static str, column: usize| {
            let read = hosts.at(host, move || {
                let text = read_to_string("/proc/thread-self/net/dev").unwrap();
                let line = text.lines().find_map(|line| line.trim().strip_prefix(end)?.strip_prefix(':'));
                line.unwrap().split_whitespace().nth(column).unwrap().parse().unwrap()
            });
            read.join().unwrap()
        };
        Counters([at("middle", "wa", 1), at("middle", "wa", 3), at("middle", "wb", 11), at("far", "eth", 1)])
    }

    fn since(&self, before: &Counters) -> [u64; 4] {
        [0, 1, 2, 3].map(|at| self.0[at] - before.0[at])
    }
}

/// Datagrams to three ports, until it is stopped.
struct Load {
    over: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl Load {
    fn start(hosts: &Hosts) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&over);
        let thread = hosts.at("near", move || {
            let near = UdpSocket::bind("10.98.1.9:0").unwrap();
            let mut rejected = 0;
            while !ended.load(Ordering::Relaxed) {
                for _ in 0..10 {
                    // A link that is down says so, or not.
                    let [_, sent, _] =
                        [7_000, 7_001, 7_002].map(|port| near.send_to(b"load", ("10.98.2.9", port)));
                    rejected += u64::from(sent.is_ok());
                }
                thread::park_timeout(Duration::from_millis(1));
            }
            rejected
        });
        Load { over, thread }
    }

    /// Those that were sent to the port that is rejected.
    fn stop(self) -> u64 {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// Changes of the rules, in a life.
const CHANGES: usize = 2;
