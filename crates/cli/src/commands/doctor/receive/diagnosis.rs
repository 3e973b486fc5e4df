//! What two looks at the counters mean: is something lost, where, and what to change.

use std::time::Duration;

use super::counters::{CpuTime, Snapshot};
use super::report::{Cpu, Finding, Interface, ReceiveReport, Socket, State};
use crate::run::quantity::{packets, setting, share};

/// Says what happened between two looks.
pub(super) fn diagnose(before: &Snapshot, after: &Snapshot, span: Duration) -> ReceiveReport {
    let mut report = ReceiveReport {
        span_s: span.as_secs_f64(),
        cpus: cpus(before, after),
        interfaces: interfaces(before, after),
        sockets: sockets(before, after),
        ..ReceiveReport::default()
    };
    let processed: u64 = report.cpus.iter().map(|cpu| cpu.processed).sum();
    report.received_pps = processed as f64 / report.span_s.max(f64::MIN_POSITIVE);
    let findings = [early(&report, after), late(&report, before, after)].concat();
    let is_loss = |finding: &&Finding| finding.place != "budget";
    report.lost = findings.iter().filter(is_loss).map(|finding| finding.count).sum();
    // Dropped after all the kernel's work on them.
    let wasted: u64 =
        findings.iter().filter(|one| ["udp", "tcp"].contains(&one.place)).map(|one| one.count).sum();
    report.state = state(&report, wasted, after.udp_received.saturating_sub(before.udp_received));
    report.findings = findings;
    report.findings.extend(cpu_to_share(&report));
    report.verdict = verdict(&report, span);
    report
}

fn state(report: &ReceiveReport, wasted: u64, delivered: u64) -> State {
    let receiving = report.busiest().map_or(0.0, Cpu::receiving);
    let is_squeezed = report.cpus.iter().any(|cpu| cpu.squeezed > 0);
    match (report.lost > 0, receiving >= MOST_OF_A_CPU) {
        (true, true) => State::Livelock,
        (true, false) if receiving >= HALF && wasted > delivered => State::Livelock,
        (true, false) => State::Losing,
        (false, true) => State::Full,
        (false, false) if is_squeezed && receiving >= HALF => State::Full,
        (false, false) => State::Fine,
    }
}

/// Losses before the kernel has done its work on the packets, from the wire on.
fn early(report: &ReceiveReport, after: &Snapshot) -> Vec<Finding> {
    let mut findings = vec![];
    for Interface { name, missed, dropped, .. } in &report.interfaces {
        if *missed > 0 {
            findings.push(Finding {
                place: "ring",
                count: *missed,
                says: format!("{name}: {missed} packets found its ring full: the kernel did not empty it in time"),
                change: format!(
                    "a longer ring for bursts (ethtool -g {name}, then -G {name} rx N); for a steady flood more queues \
                     (ethtool -L) or another CPU for its interrupt"
                ),
            });
        }
        if *dropped > 0 {
            findings.push(Finding {
                place: "interface",
                count: *dropped,
                says: format!("{name}: {dropped} packets dropped by the driver or right behind it"),
                change: format!(
                    "ethtool -S {name} has the driver's own reasons; packets of a protocol that nobody speaks count, too"
                ),
            });
        }
    }
    for Cpu { cpu, dropped, squeezed, .. } in &report.cpus {
        if *dropped > 0 {
            let now =
                after.settings.get("netdev_max_backlog").map_or(String::new(), |now| format!(", now {now}"));
            findings.push(Finding {
                place: "backlog",
                count: *dropped,
                says: format!("CPU {cpu}: {dropped} packets dropped, for its backlog was full"),
                change: format!(
                    "for bursts a longer one (sysctl net.core.netdev_max_backlog{now}); for a steady flood other CPUs \
                     (/sys/class/net/IF/queues/rx-N/rps_cpus)"
                ),
            });
        }
        if *squeezed > 0 {
            let now = after.settings.get("netdev_budget").map_or(String::new(), |now| format!(", now {now}"));
            findings.push(Finding {
                place: "budget",
                count: *squeezed,
                says: format!("CPU {cpu}: softirq used its budget up {squeezed} times with packets left"),
                change: format!(
                    "a larger one only if other work may wait longer (sysctl net.core.netdev_budget{now}, and \
                     netdev_budget_usecs)"
                ),
            });
        }
    }
    findings
}

/// Losses at sockets, after the kernel's work.
fn late(report: &ReceiveReport, before: &Snapshot, after: &Snapshot) -> Vec<Finding> {
    let grown = |count: fn(&Snapshot) -> u64| count(after).saturating_sub(count(before));
    let setting = |name| after.settings.get(name).map_or(String::new(), |now| format!(", now {now}"));
    let mut findings = vec![];
    let full = grown(|counters| counters.udp_full);
    if full > 0 {
        let ports: Vec<String> = report
            .sockets
            .iter()
            .take(PORTS)
            .map(|socket| format!("port {}: {}", socket.port, socket.drops))
            .collect();
        let ports = if ports.is_empty() { String::new() } else { format!(" ({})", ports.join(", ")) };
        findings.push(Finding {
            place: "udp",
            count: full,
            says: format!("UDP: {full} datagrams found a socket's receive buffer full{ports}: its program reads too slowly"),
            change: format!(
                "finish each datagram before the next and read by quotas (docs/overload.md); for bursts a longer buffer \
                 (SO_RCVBUF, at most net.core.rmem_max{}); more sockets and threads (SO_REUSEPORT)",
                setting("rmem_max")
            ),
        });
    }
    let segments = grown(|counters| counters.tcp_full);
    if segments > 0 {
        findings.push(Finding {
            place: "tcp",
            count: segments,
            says: format!(
                "TCP: {segments} segments found a socket's queue full: its program reads too slowly"
            ),
            change: "read faster, or let the window close: a smaller SO_RCVBUF".to_owned(),
        });
    }
    let listen = grown(|counters| counters.listen_drops);
    if listen > 0 {
        findings.push(Finding {
            place: "listen",
            count: listen,
            says: format!("TCP: {listen} connections turned away, for nobody accepted those before them (ss -ltn: Recv-Q)"),
            change: format!(
                "accept in a loop of its own; a longer queue (listen's backlog, at most net.core.somaxconn{})",
                setting("somaxconn")
            ),
        });
    }
    findings
}

/// What to do about a CPU that is taken by receiving.
fn cpu_to_share(report: &ReceiveReport) -> Option<Finding> {
    let busiest = report.busiest().filter(|cpu| cpu.receiving() >= HALF && report.state != State::Fine)?;
    let others_idle = report.cpus.iter().any(|cpu| cpu.cpu != busiest.cpu && cpu.idle_share >= HALF);
    let mut change = vec![];
    if others_idle {
        change.push("let other CPUs receive (rps_cpus, or more queues)".to_owned());
    }
    if let Some(one) = report.interfaces.iter().find(|one| one.threaded == Some(false) && one.name != "lo") {
        let name = &one.name;
        change.push(format!("let the scheduler share the CPU: echo 1 > /sys/class/net/{name}/threaded"));
        if one.pollable_queues != Some(0) {
            change
                .push(format!("let the program poll {name} instead of being interrupted (docs/overload.md)"));
        }
    }
    change.push("drop what nobody wants before the stack: XDP, or a filter of the card".to_owned());
    Some(Finding {
        place: "cpu",
        count: 0,
        says: format!("CPU {}: {} of its time goes into receiving", busiest.cpu, share(busiest.receiving())),
        change: change.join("; "),
    })
}

fn verdict(report: &ReceiveReport, span: Duration) -> String {
    let rate = packets(report.received_pps);
    let busiest = report.busiest().map_or(String::new(), |cpu| {
        format!(", and receiving took {} of CPU {}", share(cpu.receiving()), cpu.cpu)
    });
    // The kernel's ticks make spans a little longer than they were asked for.
    let span = setting(Duration::from_millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)));
    let came = format!("{rate} came in for {span}{busiest}");
    let places: Vec<&str> =
        report.findings.iter().filter(|one| one.count > 0).map(|one| one.says.as_str()).collect();
    let first = places.first().copied().unwrap_or_default();
    match report.state {
        State::Fine => format!("Nothing was lost. {came}."),
        State::Full => format!("Nothing was lost yet, but there is no room for more. {came}."),
        State::Losing => format!("This machine is losing packets. {came}. {first}."),
        State::Livelock => format!(
            "This machine is in receive livelock: most of a CPU goes into receiving, and what it receives is lost. \
             {came}. {first}."
        ),
    }
}

fn cpus(before: &Snapshot, after: &Snapshot) -> Vec<Cpu> {
    let one = |(&cpu, now): (&u32, &CpuTime)| {
        let then = before.cpus.get(&cpu).copied().unwrap_or_default();
        let all = now.all.saturating_sub(then.all).max(1) as f64;
        let part = |now: u64, then: u64| now.saturating_sub(then) as f64 / all;
        let [had, has] = [before, after].map(|look| look.softnet.get(&cpu).copied().unwrap_or_default());
        Cpu {
            cpu,
            irq_share: part(now.irq, then.irq),
            softirq_share: part(now.softirq, then.softirq),
            idle_share: part(now.idle, then.idle),
            processed: has.processed.saturating_sub(had.processed),
            dropped: has.dropped.saturating_sub(had.dropped),
            squeezed: has.squeezed.saturating_sub(had.squeezed),
        }
    };
    after.cpus.iter().map(one).collect()
}

fn interfaces(before: &Snapshot, after: &Snapshot) -> Vec<Interface> {
    let one = |(name, now): (&String, &super::counters::Interface)| {
        let then = before.interfaces.get(name).cloned().unwrap_or_default();
        Interface {
            name: name.clone(),
            packets: now.packets.saturating_sub(then.packets),
            missed: now.missed.saturating_sub(then.missed),
            dropped: now.dropped.saturating_sub(then.dropped),
            queues: now.queues,
            pollable_queues: now.pollable,
            threaded: now.threaded,
            napi_defer_hard_irqs: now.defer_hard_irqs,
            gro_flush_timeout_ns: now.gro_flush_timeout_ns,
        }
    };
    let mut found: Vec<Interface> = after.interfaces.iter().map(one).collect();
    found.retain(|one| one.packets + one.missed + one.dropped > 0);
    found
}

/// The UDP sockets that lost something, the worst first.
fn sockets(before: &Snapshot, after: &Snapshot) -> Vec<Socket> {
    let one = |(&inode, now): (&u64, &super::counters::Socket)| {
        let then = before.sockets.get(&inode).map_or(0, |socket| socket.drops);
        Socket { port: now.port, inode, drops: now.drops.saturating_sub(then), queued_bytes: now.queued }
    };
    let mut found: Vec<Socket> = after.sockets.iter().map(one).collect();
    found.retain(|socket| socket.drops > 0);
    found.sort_by_key(|socket| std::cmp::Reverse(socket.drops));
    found
}

/// A CPU that receives for most of its time has nothing left for programs.
const MOST_OF_A_CPU: f64 = 0.9;
const HALF: f64 = 0.5;
/// Sockets that a sentence names.
const PORTS: usize = 3;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::counters::tests::{FILES, root};
    use super::*;

    const SPAN: Duration = Duration::from_secs(2);

    /// What the machine of the files is told when `second` has changed some of them.
    fn told(name: &str, second: &[(&str, &str)]) -> ReceiveReport {
        let at = |name: String, files: &[(&str, &str)]| {
            let root = root(&name, files);
            let found = Snapshot::read(&root).unwrap();
            fs::remove_dir_all(root).unwrap();
            found
        };
        let changed = |(path, text): (&'static str, &'static str)| {
            (path, second.iter().find(|change| change.0 == path).map_or(text, |change| change.1))
        };
        let before = at(format!("{name}-before"), &FILES);
        let mut files: Vec<(&str, &str)> = FILES.into_iter().map(changed).collect();
        files.extend(second.iter().filter(|change| FILES.iter().all(|file| file.0 != change.0)));
        diagnose(&before, &at(format!("{name}-after"), &files), SPAN)
    }

    const QUIET: (&str, &str) = ("proc/stat", "cpu0 110 0 60 970 10 20 30\ncpu1 20 0 15 1080 0 0 15\n");
    const BUSY: (&str, &str) = ("proc/stat", "cpu0 100 0 50 804 10 40 190\ncpu1 10 0 5 1100 0 0 5\n");
    const LOST: (&str, &str) = (
        "proc/net/snmp",
        "Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors\nUdp: 600 1 2 3 1040\n",
    );

    #[test]
    fn a_quiet_machine_is_told_so() {
        let report = told("quiet", &[QUIET]);
        assert_eq!((report.state, report.lost, report.findings.len()), (State::Fine, 0, 0), "{report:?}");
        assert!(report.verdict.starts_with("Nothing was lost. 0 pps came in for 2 s, and"), "{report:?}");
    }

    #[test]
    fn a_full_socket_is_named_by_its_port_with_a_remedy() {
        let socket =
            "  sl\n 7: 0100007F:1388 00000000:0000 07 00000000:00000200 00:0 0 1000 0 4711 2 0 1038\n";
        let report = told("udp", &[QUIET, LOST, ("proc/net/udp", socket)]);
        assert_eq!((report.state, report.lost), (State::Losing, 1000), "{report:?}");
        let finding = &report.findings[0];
        assert_eq!((finding.place, finding.count), ("udp", 1000));
        assert!(finding.says.contains("(port 5000: 1000)"), "{finding:?}");
        assert!(finding.change.contains("net.core.rmem_max, now 212992"), "{finding:?}");
        assert_eq!(report.sockets[0].inode, 4711);
    }

    #[test]
    fn work_for_what_is_dropped_afterwards_is_livelock() {
        let report = told("livelock", &[BUSY, LOST]);
        assert_eq!(report.state, State::Livelock, "{report:?}");
        let busiest = report.busiest().unwrap();
        assert_eq!(busiest.cpu, 0);
        assert!(busiest.receiving() > 0.9, "{busiest:?}");
        let cpu = report.findings.last().unwrap();
        assert!(cpu.says.contains("of its time goes into receiving"), "{cpu:?}");
        assert!(!cpu.change.contains("threaded"), "eth0 received nothing: {cpu:?}");
        // Another CPU is idle.
        assert!(cpu.change.starts_with("let other CPUs receive"), "{cpu:?}");
    }

    #[test]
    fn the_same_load_without_a_loss_is_only_full() {
        let eth0 = ("sys/class/net/eth0/statistics/rx_packets", "3000\n");
        let report = told("full", &[BUSY, eth0]);
        assert_eq!((report.state, report.lost), (State::Full, 0), "{report:?}");
        let cpu = report.findings.last().unwrap();
        assert!(cpu.change.contains("echo 1 > /sys/class/net/eth0/threaded"), "{cpu:?}");
        assert!(cpu.change.contains("let the program poll eth0"), "{cpu:?}");
    }

    #[test]
    fn each_place_before_the_sockets_is_told_from_the_wire_on() {
        let softnet = "000007d0 0000001a 00000009 0 0 0 0 0 0 0 0 0 00000001 0 0\n\
                       00000064 00000000 00000000 0 0 0 0 0 0 0 0 0 00000000 0 0\n";
        let missed = ("sys/class/net/eth0/statistics/rx_missed_errors", "12\n");
        let dropped = ("sys/class/net/eth0/statistics/rx_dropped", "3\n");
        let report = told("places", &[QUIET, ("proc/net/softnet_stat", softnet), missed, dropped]);
        let places: Vec<(&str, u64)> = report.findings.iter().map(|one| (one.place, one.count)).collect();
        assert_eq!(places, [("ring", 5), ("interface", 3), ("backlog", 16), ("budget", 7)]);
        // The budget is no loss.
        assert_eq!(report.lost, 24);
        assert!((report.received_pps - 500.0).abs() < 1e-9, "{}", report.received_pps);
    }

    #[test]
    fn connections_that_nobody_accepts_are_told() {
        let netstat =
            "TcpExt: ListenOverflows ListenDrops TCPBacklogDrop TCPRcvQDrop RcvPruned\nTcpExt: 3 9 5 8 7\n";
        let report = told("listen", &[QUIET, ("proc/net/netstat", netstat)]);
        let places: Vec<(&str, u64)> = report.findings.iter().map(|one| (one.place, one.count)).collect();
        assert_eq!(places, [("tcp", 2), ("listen", 5)]);
    }

    #[test]
    fn a_counter_that_went_back_counts_nothing() {
        let report = told("back", &[QUIET, ("proc/net/snmp", "Udp: InDatagrams RcvbufErrors\nUdp: 0 0\n")]);
        assert_eq!(report.lost, 0, "{report:?}");
    }
}
