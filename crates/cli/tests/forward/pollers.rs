//! The relay of datagrams on several threads: each client stays with one, so nothing is reordered, nothing comes twice, and what
//! does not come is counted, exactly.

use std::collections::{HashMap, HashSet};
use std::thread;

use super::*;

/// Enough that the hash does not give all of them to one of two threads: 2⁻³¹ is less than 10⁻⁹.
const CLIENTS: usize = 32;
const DATAGRAMS: u64 = 600;

/// The datagrams that came to a socket.
#[derive(Clone, Copy, Debug, Default)]
struct Arrived {
    received: u64,
    /// Those that had no room in its buffer.
    dropped: u64,
}

impl Arrived {
    /// All of them, when no other can come.
    fn at(socket: &softtimers_net::udp::UdpSocket, received: u64) -> Self {
        Arrived { received, dropped: socket.drops().unwrap().into() }
    }

    fn all(self) -> u64 {
        self.received + self.dropped
    }
}

/// Takes datagrams until the run is over, and answers each; those of a source must come in the order of their numbers.
fn echoes(server: UdpSocket, over: &AtomicBool) -> Arrived {
    server.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let (mut last, mut received, mut buffer) = (HashMap::new(), 0, [0; 2_000]);
    loop {
        match server.recv_from(&mut buffer) {
            Ok((length, from)) => {
                let number = u64::from_be_bytes(buffer[..8].try_into().unwrap());
                let before = last.insert(from, number).unwrap_or(0);
                assert!(number > before, "{number} after {before} from {from}");
                received += 1;
                server.send_to(&buffer[..length], from).unwrap();
            }
            Err(_) if over.load(Ordering::Relaxed) => return Arrived::at(&server.into(), received),
            Err(_) => {}
        }
    }
}

/// Sends numbered datagrams, the last ones until an answer to one of them has come: by then all others have been taken, or lost.
/// The answers come in order, too. Returns how many it has sent, and the answers.
fn client(to: SocketAddr) -> (u64, Arrived) {
    let socket = socket();
    let (mut number, mut last, mut answers, mut buffer) = (0u64, 0, 0, [0; 2_000]);
    let send = |number: &mut u64| {
        *number += 1;
        let mut bytes = vec![7; if number.is_multiple_of(5) { 300 } else { 200 }];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        assert_eq!(socket.send_to(&bytes, to).unwrap(), bytes.len());
    };
    (0..DATAGRAMS).for_each(|_| send(&mut number));
    // However slow the way is, some time it is faster than the wait.
    for round in 0..12 {
        socket.set_read_timeout(Some(Duration::from_millis(20 << round))).unwrap();
        send(&mut number);
        while let Ok((_, from)) = socket.recv_from(&mut buffer) {
            assert_eq!(from, to);
            let answered = u64::from_be_bytes(buffer[..8].try_into().unwrap());
            assert!(answered > last, "{answered} after {last}");
            (last, answers) = (answered, answers + 1);
        }
        if last == number {
            return (number, Arrived::at(&socket.into(), answers));
        }
    }
    panic!("{last} of {number} is answered")
}

/// The number of threads that have clients: of epoll instances with sockets that are connected to the server.
fn with_clients(relay: &Relay, server: SocketAddr) -> usize {
    let SocketAddr::V4(server) = server else { panic!("{server}") };
    let to = format!("{:08X}:{:04X}", u32::from_ne_bytes(server.ip().octets()), server.port());
    let sockets = fs::read_to_string("/proc/net/udp").unwrap();
    let sockets = sockets.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let sockets: HashSet<u64> =
        sockets.filter(|words| words[2] == to).map(|words| words[9].parse().unwrap()).collect();
    let number = |line: &str| {
        let number = line.strip_prefix("tfd:")?.split("ino:").nth(1)?.split(' ').next()?;
        u64::from_str_radix(number, 16).ok().filter(|number| sockets.contains(number))
    };
    let open = fs::read_dir(format!("/proc/{}/fdinfo", relay.child.id())).unwrap();
    let watched = open.filter_map(|one| {
        let text = fs::read_to_string(one.unwrap().path()).ok()?;
        Some(text.lines().filter_map(number).collect::<Vec<_>>())
    });
    // One instance may have two descriptors.
    watched.filter(|numbers| !numbers.is_empty()).collect::<HashSet<_>>().len()
}

#[test]
fn flows_keep_their_order_and_losses_are_counted_with_any_number_of_pollers() {
    for pollers in [1, 2, 4] {
        let server = socket();
        let upstream = server.local_addr().unwrap();
        let relay = Relay::start(&server, &format!("--pollers {pollers} --recv-buffer 64KiB"));
        let over = Arc::new(AtomicBool::new(false));
        let echo = thread::spawn({
            let over = Arc::clone(&over);
            move || echoes(server, &over)
        });
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                thread::spawn({
                    let to = relay.address;
                    move || client(to)
                })
            })
            .collect();
        let (mut sent, mut answers) = (0, Arrived::default());
        for client in clients {
            let (its, Arrived { received, dropped }) = client.join().unwrap();
            sent += its;
            answers = Arrived { received: answers.received + received, dropped: answers.dropped + dropped };
        }
        let threads = || {
            let tasks = fs::read_dir(format!("/proc/{}/task", relay.child.id())).unwrap();
            let names = tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("comm")).ok());
            names.filter(|name| name.starts_with("poller ")).count()
        };
        // A thread gives itself its name.
        let there = (0..1_000).any(|_| {
            thread::park_timeout(Duration::from_millis(10));
            threads() == pollers - 1
        });
        let busy = with_clients(&relay, upstream);
        assert!((pollers.min(2)..=pollers).contains(&busy), "{busy} of {pollers}");
        let report = relay.finish();
        over.store(true, Ordering::Relaxed);
        let server = echo.join().unwrap();
        let count = |key: &str| report.pointer(key).and_then(Value::as_u64).unwrap();
        assert_eq!((there, count("/config/pollers")), (true, pollers as u64));
        assert_eq!(count("/clients/opened"), CLIENTS as u64, "{report}");
        assert!(server.received >= CLIENTS as u64, "{report}");
        // There, and back: to the datagram, from socket to socket.
        for (from, to, came, left) in [(0, 1, sent, server), (1, 0, server.received, answers)] {
            let of = |end: u64, key: &str| count(&format!("/ends/{end}/{key}"));
            let received = of(from, "received/packets");
            assert_eq!(came, received + of(from, "dropped/ring"), "from end {from}: {report}");
            let sent = of(to, "sent/packets");
            let lost = of(from, "dropped/rule/packets") + of(to, "dropped/output/packets");
            assert_eq!(received, sent + lost, "from end {from}: {report}");
            assert_eq!(sent, left.all(), "to end {to}: {left:?}, {report}");
        }
    }
}

/// The hash gives most threads more or fewer than their number, and yet nobody has to go: threads have room in common.
#[test]
fn no_client_gives_way_below_the_bound_however_the_hash_divides_them() {
    let server = socket();
    let relay = Relay::start(&server, "--clients 64 --pollers 16");
    // Two places for each thread, and 32 in common: those are enough unless more than half of the threads have none, nearly.
    // That is less likely than 10⁻¹⁰.
    let clients: Vec<_> = (0..48).map(|_| socket()).collect();
    for text in [b"once", b"more"] {
        clients.iter().for_each(|client| echoed(client, &server, relay.address, text));
    }
    let report = relay.finish();
    let counts = ["opened", "evicted", "now"].map(|key| report["clients"][key].as_u64().unwrap());
    assert_eq!(counts, [48, 0, 48], "{report}");
}

/// No poller counts for all, so what would have to be counted by one is refused.
#[test]
fn several_pollers_of_a_relay_have_no_rates_and_no_count() {
    let rules = Scratch::new("pollers.rules", "rate 10pps accept\nreject\n");
    let base = "forward --udp 127.0.0.1:0 --to 127.0.0.1:9 --pollers 2";
    let refused = |flags: &str| refusal(&run(&format!("{base} {flags}")), 2);
    assert!(refused("--count 9").contains("--pollers 2: --count is of one poller only"));
    assert!(refused("--clients 1").contains("--clients 1: at least one for each of --pollers 2"));
    let rate = refused(&format!("--rules {}", rules.0.display()));
    assert!(rate.contains("pollers.rules:1: a rate, which --pollers 1 can count"), "{rate}");
}

/// A port that somebody else shares with others is not shared with them.
#[test]
fn several_pollers_take_no_address_that_is_in_use() {
    let group = softtimers_net::udp::UdpSocket::bind_group("127.0.0.1:0".parse().unwrap(), 2).unwrap();
    let address = group[0].local_addr().unwrap();
    let said = refusal(&run(&format!("forward --udp {address} --to 127.0.0.1:9 --pollers 2")), 2);
    assert!(said.contains("in use"), "{said}");
}
