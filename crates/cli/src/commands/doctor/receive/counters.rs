//! The kernel's own counters of what it received and dropped, read below a root of files, so that tests have one of their
//! own.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use softtimers_net::napi::Napi;

/// All counters at one moment.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Snapshot {
    /// CPU time by number of the CPU (`/proc/stat`).
    pub(super) cpus: BTreeMap<u32, CpuTime>,
    /// What each CPU's softirq took (`/proc/net/softnet_stat`).
    pub(super) softnet: BTreeMap<u32, Softnet>,
    /// Datagrams handed to sockets, IPv6 included.
    pub(super) udp_received: u64,
    /// Datagrams dropped because a socket's buffer was full, IPv6 included.
    pub(super) udp_full: u64,
    /// Connections turned away because nobody accepted them in time.
    pub(super) listen_drops: u64,
    /// TCP segments dropped because a socket's backlog or queue was full.
    pub(super) tcp_full: u64,
    pub(super) interfaces: BTreeMap<String, Interface>,
    /// UDP sockets by inode.
    pub(super) sockets: BTreeMap<u64, Socket>,
    /// Settings of `net.core`, those that are readable.
    pub(super) settings: BTreeMap<&'static str, u64>,
}

/// Clock ticks since the machine began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct CpuTime {
    pub(super) all: u64,
    pub(super) idle: u64,
    pub(super) irq: u64,
    pub(super) softirq: u64,
}

/// A CPU's part of receiving.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Softnet {
    /// Packets that it took out of drivers and backlogs.
    pub(super) processed: u64,
    /// Packets dropped because its backlog was full.
    pub(super) dropped: u64,
    /// How often its budget was used up with packets left.
    pub(super) squeezed: u64,
}

/// A network interface.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Interface {
    pub(super) packets: u64,
    /// Packets for which the card or its ring had no room.
    pub(super) missed: u64,
    /// Packets dropped by the driver or right behind it.
    pub(super) dropped: u64,
    pub(super) queues: u64,
    index: u32,
    /// Queues that a program can poll, if [`Snapshot::with_pollable`] was told.
    pub(super) pollable: Option<u64>,
    /// Whether a kernel thread receives, which the scheduler can stop; nothing where the kernel has no such setting.
    pub(super) threaded: Option<bool>,
    pub(super) defer_hard_irqs: Option<u64>,
    pub(super) gro_flush_timeout_ns: Option<u64>,
}

/// A UDP socket.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Socket {
    pub(super) port: u16,
    pub(super) queued: u64,
    pub(super) drops: u64,
}

impl Snapshot {
    /// Reads the counters below `root`. What this kernel does not have stays at zero, but for those of the CPUs.
    ///
    /// # Errors
    /// If the counters of the CPUs cannot be read.
    pub(super) fn read(root: &Path) -> io::Result<Self> {
        let needed = |path: &str| {
            fs::read_to_string(root.join(path))
                .map_err(|error| io::Error::new(error.kind(), format!("/{path}: {error}")))
        };
        let text = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
        let (snmp, netstat, snmp6) =
            (text("proc/net/snmp"), text("proc/net/netstat"), text("proc/net/snmp6"));
        let udp6 = |name: &str| named(&snmp6, name);
        let tcp = |name: &str| in_table(&netstat, "TcpExt", name);
        let number = |name: &str| text(&format!("proc/sys/net/core/{name}")).trim().parse().ok();
        Ok(Snapshot {
            cpus: cpus(&needed("proc/stat")?),
            softnet: softnet(&needed("proc/net/softnet_stat")?),
            udp_received: in_table(&snmp, "Udp", "InDatagrams") + udp6("Udp6InDatagrams"),
            udp_full: in_table(&snmp, "Udp", "RcvbufErrors") + udp6("Udp6RcvbufErrors"),
            listen_drops: tcp("ListenDrops").max(tcp("ListenOverflows")),
            tcp_full: tcp("TCPBacklogDrop") + tcp("TCPRcvQDrop") + tcp("RcvPruned"),
            interfaces: interfaces(&root.join("sys/class/net")),
            sockets: ["proc/net/udp", "proc/net/udp6"].iter().flat_map(|path| sockets(&text(path))).collect(),
            settings: SETTINGS.into_iter().filter_map(|name| Some((name, number(name)?))).collect(),
        })
    }

    /// Counts the queues of each interface among these.
    pub(super) fn with_pollable(mut self, queues: &[Napi]) -> Self {
        for one in self.interfaces.values_mut() {
            one.pollable = Some(queues.iter().filter(|queue| queue.interface == one.index).count() as u64);
        }
        self
    }
}

/// `cpu0 USER NICE SYSTEM IDLE IOWAIT IRQ SOFTIRQ STEAL …`, in ticks.
fn cpus(stat: &str) -> BTreeMap<u32, CpuTime> {
    let cpu = |line: &str| {
        let (name, rest) = line.split_once(' ')?;
        let number = name.strip_prefix("cpu")?.parse().ok()?;
        let ticks: Vec<u64> = rest.split_whitespace().map_while(|word| word.parse().ok()).take(8).collect();
        let at = |place: usize| ticks.get(place).copied().unwrap_or(0);
        let (all, idle) = (ticks.iter().sum(), at(3) + at(4));
        Some((number, CpuTime { all, idle, irq: at(5), softirq: at(6) }))
    };
    stat.lines().filter_map(cpu).collect()
}

/// A line of hexadecimal numbers for each CPU that is online; kernels from 5.10 on say in the 13th which one.
fn softnet(text: &str) -> BTreeMap<u32, Softnet> {
    let cpu = |(place, line): (usize, &str)| {
        let words: Vec<u64> =
            line.split_whitespace().map_while(|word| u64::from_str_radix(word, 16).ok()).collect();
        let at = |place: usize| words.get(place).copied();
        let number = at(12).unwrap_or(place as u64);
        let counts = Softnet { processed: at(0)?, dropped: at(1)?, squeezed: at(2)? };
        Some((u32::try_from(number).ok()?, counts))
    };
    text.lines().enumerate().filter_map(cpu).collect()
}

/// The number below a name, in two lines that begin with `table`: names, then numbers.
fn in_table(text: &str, table: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(table)?.strip_prefix(':'));
    let found = lines.next().zip(lines.next()).and_then(|(names, numbers)| {
        let place = names.split_whitespace().position(|word| word == name)?;
        numbers.split_whitespace().nth(place)?.parse().ok()
    });
    found.unwrap_or(0)
}

/// The number behind a name at the beginning of a line.
fn named(text: &str, name: &str) -> u64 {
    let found = text.lines().find_map(|line| {
        let (word, number) = line.split_once(char::is_whitespace)?;
        (word == name).then(|| number.trim().parse().ok())?
    });
    found.unwrap_or(0)
}

fn interfaces(folder: &Path) -> BTreeMap<String, Interface> {
    let Ok(entries) = fs::read_dir(folder) else { return BTreeMap::new() };
    let one = |entry: fs::DirEntry| {
        let path = entry.path();
        let number = |name: &str| fs::read_to_string(path.join(name)).ok()?.trim().parse::<u64>().ok();
        let count = |name: &str| number(&format!("statistics/{name}")).unwrap_or(0);
        let queues = fs::read_dir(path.join("queues")).into_iter().flatten().flatten();
        let is_rx = |queue: &fs::DirEntry| queue.file_name().to_string_lossy().starts_with("rx-");
        let found = Interface {
            packets: count("rx_packets"),
            missed: count("rx_missed_errors") + count("rx_fifo_errors") + count("rx_over_errors"),
            dropped: count("rx_dropped"),
            queues: queues.filter(is_rx).count() as u64,
            index: number("ifindex").and_then(|index| index.try_into().ok()).unwrap_or(0),
            pollable: None,
            threaded: number("threaded").map(|flag| flag != 0),
            defer_hard_irqs: number("napi_defer_hard_irqs"),
            gro_flush_timeout_ns: number("gro_flush_timeout"),
        };
        (entry.file_name().to_string_lossy().into_owned(), found)
    };
    entries.flatten().map(one).collect()
}

/// `sl: LOCAL:PORT REMOTE ST TX:RX … INODE … DROPS`, after a line of names.
fn sockets(text: &str) -> Vec<(u64, Socket)> {
    let one = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let port = u16::from_str_radix(words.get(1)?.rsplit_once(':')?.1, 16).ok()?;
        let queued = u64::from_str_radix(words.get(4)?.split_once(':')?.1, 16).ok()?;
        Some((words.get(9)?.parse().ok()?, Socket { port, queued, drops: words.get(12)?.parse().ok()? }))
    };
    text.lines().skip(1).filter_map(one).collect()
}

/// Those that an advice names.
const SETTINGS: [&str; 5] =
    ["netdev_max_backlog", "netdev_budget", "netdev_budget_usecs", "rmem_max", "somaxconn"];

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use softtimers_net::napi::Deferral;

    #[test]
    fn queues_that_can_be_polled_are_counted_by_interface() {
        let eth0 = Interface { index: 2, ..Interface::default() };
        let all =
            [("eth0".to_owned(), eth0), ("lo".to_owned(), Interface { index: 1, ..Interface::default() })];
        let before = Snapshot { interfaces: all.into(), ..Snapshot::default() };
        let napi = |interface, id| Napi { id, interface, thread: None, deferral: Deferral::default() };
        let after = before.with_pollable(&[napi(2, 8193), napi(2, 8194), napi(7, 8195)]);
        assert_eq!(after.interfaces["eth0"].pollable, Some(2));
        assert_eq!(after.interfaces["lo"].pollable, Some(0));
    }

    /// A root with these files, by their paths.
    pub(in super::super) fn root(name: &str, files: &[(&str, &str)]) -> std::path::PathBuf {
        let root = std::env::temp_dir().join(format!("softtimers-receive-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    /// Counters of a machine with two CPUs.
    pub(in super::super) const FILES: [(&str, &str); 12] = [
        ("proc/stat", "cpu  9 9\ncpu0 100 0 50 800 10 20 20 0 0 0\ncpu1 10 0 5 900 0 0 5 0 0 0\nintr 9\n"),
        (
            "proc/net/softnet_stat",
            "000003e8 0000000a 00000002 0 0 0 0 0 0 0 0 00000000 00000001 0 0\n\
             00000064 00000000 00000000 0 0 0 0 0 0 0 0 00000000 00000000 0 0\n",
        ),
        (
            "proc/net/snmp",
            "Ip: A\nIp: 1\nUdp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors\nUdp: 500 1 2 3 40\nUdpLite: InDatagrams\nUdpLite: 9\n",
        ),
        ("proc/net/snmp6", "Udp6InDatagrams                 \t5\nUdp6RcvbufErrors                \t2\n"),
        (
            "proc/net/netstat",
            "TcpExt: ListenOverflows ListenDrops TCPBacklogDrop TCPRcvQDrop RcvPruned\nTcpExt: 3 4 5 6 7\n",
        ),
        (
            "proc/net/udp",
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
             \x20 7: 0100007F:1388 00000000:0000 07 00000000:00000200 00:00000000 00000000  1000        0 4711 2 0000000000000000 38\n",
        ),
        ("proc/sys/net/core/rmem_max", "212992\n"),
        ("sys/class/net/eth0/statistics/rx_packets", "1000\n"),
        ("sys/class/net/eth0/statistics/rx_missed_errors", "7\n"),
        ("sys/class/net/eth0/threaded", "0\n"),
        ("sys/class/net/eth0/napi_defer_hard_irqs", "0\n"),
        ("sys/class/net/eth0/queues/rx-0/rps_cpus", "0\n"),
    ];

    #[test]
    fn the_kernels_files_are_read_as_they_are() {
        let root = root("files", &FILES);
        let found = Snapshot::read(&root).unwrap();
        fs::remove_dir_all(root).unwrap();
        assert_eq!(found.cpus[&0], CpuTime { all: 1000, idle: 810, irq: 20, softirq: 20 });
        assert_eq!(found.softnet[&1], Softnet { processed: 1000, dropped: 10, squeezed: 2 });
        assert_eq!((found.udp_received, found.udp_full), (505, 42));
        assert_eq!((found.listen_drops, found.tcp_full), (4, 18));
        let eth0 = &found.interfaces["eth0"];
        assert_eq!((eth0.packets, eth0.missed, eth0.queues, eth0.threaded), (1000, 7, 1, Some(false)));
        assert_eq!(eth0.gro_flush_timeout_ns, None);
        assert_eq!(found.sockets[&4711], Socket { port: 5000, queued: 512, drops: 38 });
        assert_eq!(found.settings, [("rmem_max", 212_992)].into());
    }

    #[test]
    fn a_file_that_is_needed_is_named() {
        let root = root("missing", &FILES[..1]);
        let error = Snapshot::read(&root).unwrap_err().to_string();
        fs::remove_dir_all(root).unwrap();
        assert!(error.starts_with("/proc/net/softnet_stat: "), "{error}");
    }

    #[test]
    fn what_is_damaged_counts_nothing() {
        let files = FILES.map(|(path, _)| (path, "Udp: InDatagrams\nUdp:\ncpu0 x\n\n:: 1:2:3\n"));
        let root = root("damaged", &files);
        let found = Snapshot::read(&root).unwrap();
        fs::remove_dir_all(root).unwrap();
        assert_eq!((found.udp_full, found.sockets.len(), found.cpus[&0].all), (0, 0, 0));
    }
}
