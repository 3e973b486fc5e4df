//! The relay between real sockets on loopback, with the clients and upstreams that it must survive.
#![cfg(target_os = "linux")]

use std::collections::HashSet;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use softtimers::{Clock, LoopStats, Monotonic};
use softtimers_wan::udp::{ClientLimits, NotSent, RelayConfig, RelayStats};
use softtimers_wan::{
    Carried, Counters, EdgeStats, Ended, PathConfig, Probability, Relay, Wan, WanBuilder, Way,
};

/// A relay in a thread of its own, which ends with the test.
struct Running {
    address: SocketAddr,
    stop: UnixStream,
    thread: JoinHandle<Outcome>,
}

struct Outcome {
    stats: RelayStats,
    up: Counters,
    down: Counters,
    /// The shortest and the longest time on the way up and down, in nanoseconds.
    delays: [Option<(u64, u64)>; 2],
}

fn start(config: RelayConfig, path: WanBuilder) -> Running {
    let (stop, stopped) = UnixStream::pair().unwrap();
    let (say, hear) = mpsc::channel();
    let thread = thread::spawn(move || {
        let mut relay = Relay::udp(config, path).unwrap();
        relay.watch(&stopped, 7).unwrap();
        say.send(relay.local_addr().unwrap()).unwrap();
        let until = relay.now() + Duration::from_secs(60);
        let mut carried = 0;
        let observe = |packet: &Carried| {
            assert!(packet.offered <= packet.due && packet.due <= packet.left + LEAD, "{packet:?}");
            carried += 1;
        };
        assert_eq!(relay.run_observed(Some(until), observe).unwrap(), Ended::Watched(7));
        assert_eq!(
            carried,
            [Way::Up, Way::Down].map(|way| relay.counters(way).delivered).iter().sum::<u64>()
        );
        let delays = [Way::Up, Way::Down].map(|way| {
            let delay = relay.measured(way).delay_ns();
            delay.min().zip(delay.max())
        });
        let [up, down] = [Way::Up, Way::Down].map(|way| relay.counters(way));
        Outcome { stats: stats(&relay), up, down, delays }
    });
    Running { address: hear.recv_timeout(WAIT).unwrap(), stop, thread }
}

fn stats(relay: &Relay) -> RelayStats {
    let EdgeStats::Udp(stats) = relay.stats() else { panic!("it relays datagrams") };
    stats
}

impl Running {
    fn finish(mut self) -> Outcome {
        self.stop.write_all(b"x").unwrap();
        let outcome = self.thread.join().unwrap();
        let RelayStats { clients, opened, expired, evicted, .. } = outcome.stats;
        assert_eq!(opened, u64::from(clients) + expired + evicted, "{:?}", outcome.stats);
        for counters in [outcome.up, outcome.down] {
            let gone = counters.delivered + counters.queue_drops + counters.overflowed + counters.lost;
            assert_eq!(counters.offered + counters.duplicated, gone + counters.held);
        }
        outcome
    }
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(WAIT)).unwrap();
    socket
}

fn perfect() -> WanBuilder {
    Wan::builder()
}

fn receive(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut buffer = vec![0; 65_536];
    let (length, from) = socket.recv_from(&mut buffer).expect("a datagram within the time of a test");
    buffer.truncate(length);
    (buffer, from)
}

/// Long enough for any machine; what is waited for comes in milliseconds.
const WAIT: Duration = Duration::from_secs(20);
/// No send begins sooner before it is due.
const LEAD: Duration = Duration::from_micros(20);

/// Each client has a source of its own at the upstream, gets its own answers, and none of them early.
#[test]
fn clients_are_told_apart_and_delayed() {
    let server = socket();
    let delay = Duration::from_millis(15);
    let relay = start(
        RelayConfig::to(server.local_addr().unwrap()),
        perfect().both(PathConfig::default().delay(delay)),
    );
    let clients = [socket(), socket(), socket()];
    let begin = Monotonic.now();
    for (client, name) in clients.iter().zip(["one", "two", "three"]) {
        client.send_to(name.as_bytes(), relay.address).unwrap();
    }
    let mut sources = HashSet::new();
    for _ in &clients {
        let (name, from) = receive(&server);
        assert!(Monotonic.now() >= begin + delay && sources.insert(from));
        server.send_to(&[name.as_slice(), b"!"].concat(), from).unwrap();
    }
    for (client, name) in clients.iter().zip(["one!", "two!", "three!"]) {
        assert_eq!(receive(client), (name.into(), relay.address));
        assert!(Monotonic.now() >= begin + 2 * delay);
    }
    let outcome = relay.finish();
    assert_eq!((outcome.stats.opened, outcome.up.delivered, outcome.down.delivered), (3, 3, 3));
    for (least, _) in outcome.delays.map(Option::unwrap) {
        assert!(least >= 15_000_000, "{least}");
    }
}

/// The longest datagram that there is, the empty one, and between.
#[test]
fn datagrams_of_any_length_come_whole() {
    let server = socket();
    let relay = start(RelayConfig::to(server.local_addr().unwrap()), perfect());
    let client = socket();
    for length in [65_507, 0, 1, 9_000, 65_507] {
        let sent: Vec<u8> = (0..length).map(|at: u32| at as u8).collect();
        client.send_to(&sent, relay.address).unwrap();
        let (got, from) = receive(&server);
        assert!(got == sent);
        server.send_to(&got, from).unwrap();
        assert!(receive(&client).0 == sent);
    }
    let outcome = relay.finish();
    assert_eq!((outcome.up.delivered_bytes, outcome.down.delivered_bytes), (140_015, 140_015));
}

/// IPv6, and clients of either family at one socket.
#[test]
fn both_families_pass() {
    let Ok(six) = UdpSocket::bind("[::1]:0") else {
        let name = thread::current().name().unwrap_or("?").to_owned();
        let line = format!("skipped: {name}: there is no IPv6 on the loopback interface\n");
        return std::io::stderr().write_all(line.as_bytes()).unwrap();
    };
    six.set_read_timeout(Some(WAIT)).unwrap();
    let server = socket();
    for (listen, upstream) in [("[::1]:0", &six), ("[::]:0", &server), ("127.0.0.1:0", &six)] {
        let listen = listen.parse().unwrap();
        let relay =
            start(RelayConfig { listen, ..RelayConfig::to(upstream.local_addr().unwrap()) }, perfect());
        let mut clients = vec![];
        clients.extend(listen.is_ipv6().then(|| ("::1", UdpSocket::bind("[::1]:0").unwrap())));
        clients.extend((!listen.ip().is_loopback() || listen.is_ipv4()).then(|| ("127.0.0.1", socket())));
        for (address, client) in &clients {
            client.set_read_timeout(Some(WAIT)).unwrap();
            client.send_to(b"hello", (*address, relay.address.port())).unwrap();
            let (hello, from) = receive(upstream);
            upstream.send_to(&hello, from).unwrap();
            assert_eq!(receive(client).0, b"hello");
        }
        assert_eq!(relay.finish().stats.opened, clients.len() as u64);
    }
}

/// Nobody there: packets are sent in vain, the relay says so, and goes on when somebody is.
#[test]
fn an_upstream_that_is_away_is_counted_and_may_come_back() {
    // Where no other test looks for a port, so that hardly anybody takes this one meanwhile.
    let server = UdpSocket::bind("127.0.87.4:0").unwrap();
    let address = server.local_addr().unwrap();
    drop(server);
    let mut relay = Relay::udp(RelayConfig::to(address), perfect()).unwrap();
    let client = socket();
    let mut carry = |packets: u64| {
        let all = relay.counters(Way::Up).delivered + packets;
        (0..packets)
            .for_each(|_| assert_eq!(client.send_to(b"packet", relay.local_addr().unwrap()).unwrap(), 6));
        for _ in 0..1_000 {
            relay.run(Some(relay.now() + Duration::from_millis(2))).unwrap();
            if relay.counters(Way::Up).delivered == all {
                break;
            }
        }
        assert_eq!(relay.counters(Way::Up).delivered, all);
        stats(&relay)
    };
    let stats = carry(50);
    assert!(stats.upstream_refused > 0 && stats.opened == 1, "{stats:?}");
    // Unless somebody else has taken the address meanwhile.
    if let Ok(server) = UdpSocket::bind(address) {
        server.set_read_timeout(Some(WAIT)).unwrap();
        carry(2);
        assert_eq!(receive(&server).0, b"packet");
    }
}

/// A client that sends and goes: its answers reach nobody, and it is forgotten though they go on.
#[test]
fn a_vanished_client_is_forgotten() {
    let server = socket();
    let limits = ClientLimits { idle: Duration::from_millis(60), ..ClientLimits::default() };
    let config = RelayConfig { clients: limits, ..RelayConfig::to(server.local_addr().unwrap()) };
    // The answers are on the path for longer than the client is remembered.
    let path = perfect().down(PathConfig::default().delay(Duration::from_millis(150)));
    let mut relay = Relay::udp(config, path).unwrap();
    let address = relay.local_addr().unwrap();
    // Carries until something is so; how many answers are on the path or have been.
    let mut carry = |is_so: &dyn Fn(&Relay) -> bool, meanwhile: &dyn Fn()| {
        for _ in 0..10_000 {
            meanwhile();
            relay.run(Some(relay.now() + Duration::from_millis(2))).unwrap();
            if is_so(&relay) {
                return (relay.counters(Way::Down).offered, stats(&relay));
            }
        }
        panic!("{:?}", stats(&relay))
    };
    // A machine may stand still between a question and its answer for longer than the client is remembered: then
    // another one asks.
    let mut asked = 0;
    loop {
        asked += 1;
        socket().send_to(b"hello", address).unwrap();
        carry(&|relay| relay.counters(Way::Up).delivered == asked, &|| ());
        let (_, from) = receive(&server);
        // Once the relay has closed its socket this is refused now and then.
        let answer = || drop(server.send_to(b"still there?", from));
        if carry(&|relay| stats(relay).expired == asked, &answer).0 > 0 {
            break;
        }
        assert!(asked < 100, "no answer is ever on the path");
    }
    let (_, stats) = carry(&|relay| relay.counters(Way::Down).held == 0, &|| ());
    assert_eq!((stats.clients, stats.expired, stats.opened), (0, asked, asked), "{stats:?}");
    assert!(stats.stray > 0, "{stats:?}");
}

/// More sources than clients may be: a bounded number of sockets, and each packet accounted for.
#[test]
fn a_scan_from_many_ports_is_bounded() {
    let server = socket();
    let limits = ClientLimits { most: 8, ..ClientLimits::default() };
    let config = RelayConfig { clients: limits, ..RelayConfig::to(server.local_addr().unwrap()) };
    let relay = start(config, perfect());
    let honest = socket();
    let upstream = [0, 1].map(|_| exchange(&honest, &server, relay.address, b"honest"));
    assert_eq!(upstream[0], upstream[1]);

    let scan: Vec<_> = (0..200).map(|_| socket()).collect();
    for prober in &scan {
        prober.send_to(b"probe", relay.address).unwrap();
        thread::yield_now();
    }
    // Behind the scan, and still the same client.
    honest.send_to(b"last", relay.address).unwrap();
    let mut probes = 0;
    loop {
        match receive(&server) {
            (probe, _) if probe == b"probe" => probes += 1,
            (last, again) => break assert_eq!((last, again), (b"last".into(), upstream[0])),
        }
    }
    let outcome = relay.finish();
    let RelayStats { clients, evicted, recv_drops, .. } = outcome.stats;
    assert_eq!(clients, 8);
    assert_eq!(7 + evicted + recv_drops, 200, "{:?}", outcome.stats);
    assert_eq!(probes, 7 + evicted - outcome.stats.stray);
}

/// A question and its answer; where the question came from at the server.
fn exchange(client: &UdpSocket, server: &UdpSocket, relay: SocketAddr, text: &[u8]) -> SocketAddr {
    client.send_to(text, relay).unwrap();
    let (question, from) = receive(server);
    assert_eq!(question, text);
    server.send_to(text, from).unwrap();
    assert_eq!(receive(client).0, text);
    from
}

/// A server that sends back what it gets, until it gets nothing.
fn echo() -> (SocketAddr, JoinHandle<()>) {
    let server = socket();
    let address = server.local_addr().unwrap();
    let thread = thread::spawn(move || {
        let mut buffer = [0; 2_048];
        // Who asked may be gone: that is said at the next call, and is no reason to stop.
        while let Ok((length @ 1.., from)) = server.recv_from(&mut buffer) {
            let _ = server.send_to(&buffer[..length], from);
        }
    });
    (address, thread)
}

/// 5,000 sources, each with an address of its own, all answered: one client keeps its place among 64 through all of it, and
/// each new one has as many answers as questions.
#[test]
fn clients_are_served_through_a_flood_of_sources() {
    let (upstream, server) = echo();
    let limits = ClientLimits { most: 64, ..ClientLimits::default() };
    let relay = start(RelayConfig { clients: limits, ..RelayConfig::to(upstream) }, perfect());
    let ask = |client: &UdpSocket, text: &[u8]| {
        client.send_to(text, relay.address).unwrap();
        assert_eq!(receive(client).0, text);
    };
    let honest = socket();
    (0..2).for_each(|_| ask(&honest, b"honest"));
    let mut opened = 1;
    for round in 0..100u8 {
        for number in 0..50u8 {
            let spoofed = UdpSocket::bind((Ipv4Addr::new(127, 77, round, number + 1), 0)).unwrap();
            spoofed.send_to(&[7; 1_000], relay.address).unwrap();
            opened += 1;
        }
        ask(&honest, b"honest");
        if round % 10 == 9 {
            let new = socket();
            (0..12u8).for_each(|question| ask(&new, &[question]));
            opened += 1;
        }
    }
    // Each source was a client once, and only once: who is evicted and sends again is one client more.
    let RelayStats { clients, opened: clients_opened, recv_drops, .. } = relay.finish().stats;
    assert_eq!((clients, clients_opened), (64, opened - recv_drops));
    let stop = socket();
    stop.send_to(&[], upstream).unwrap();
    server.join().unwrap();
}

/// Without trust in loopback: three times what was sent and not a byte more, copies included, whenever it sends.
#[test]
fn nothing_is_amplified_for_a_source_that_may_be_spoofed() {
    let server = socket();
    let limits = ClientLimits { trust_loopback: false, ..ClientLimits::default() };
    let config = RelayConfig { clients: limits, ..RelayConfig::to(server.local_addr().unwrap()) };
    let relay = start(config, perfect().down(PathConfig::default().duplicate(Probability::ALWAYS)));
    let client = socket();
    client.send_to(&[1; 100], relay.address).unwrap();
    let (_, from) = receive(&server);
    // Too long; then one that may pass, though not twice; then one that may not pass any more.
    server.send_to(&[2; 301], from).unwrap();
    server.send_to(&[3; 200], from).unwrap();
    assert_eq!(receive(&client).0, [3; 200]);
    server.send_to(&[4; 101], from).unwrap();
    // That it sends again shows nothing: three times what it sent then, and 100 were left.
    client.send_to(&[5], relay.address).unwrap();
    let (_, from) = receive(&server);
    server.send_to(&[6; 104], from).unwrap();
    server.send_to(&[7; 51], from).unwrap();
    assert_eq!([receive(&client).0, receive(&client).0], [[7; 51], [7; 51]]);
    let outcome = relay.finish();
    let RelayStats { withheld_budget, withheld_rate, withheld_bytes, .. } = outcome.stats;
    assert_eq!((withheld_budget, withheld_rate), (7, 0));
    assert_eq!(withheld_bytes, 2 * 301 + 200 + 2 * 101 + 2 * 104);
    assert_eq!((outcome.down.delivered, outcome.down.duplicated), (10, 5));
}

/// Two packets in a victim's name, then thirty, and 12,000 bytes come for each. Nobody listens at the victim's socket until the
/// end: what is there then is all that it was sent.
#[test]
fn a_victim_gets_no_more_than_three_times_what_was_sent_in_its_name() {
    let server = socket();
    let limits = ClientLimits { trust_loopback: false, ..ClientLimits::default() };
    let config = RelayConfig { clients: limits, ..RelayConfig::to(server.local_addr().unwrap()) };
    let relay = start(config, perfect());
    let victim = socket();
    for _ in 0..32 {
        victim.send_to(&[1; 32], relay.address).unwrap();
        let (_, from) = receive(&server);
        for bytes in [1_200; 10].into_iter().chain([32]) {
            server.send_to(&vec![2; bytes], from).unwrap();
        }
    }
    // In order behind them all, so that nothing is on its way any more.
    victim.send_to(&[1; 32], relay.address).unwrap();
    let (_, from) = receive(&server);
    server.send_to(b"last", from).unwrap();
    let (mut got, mut datagrams) = (0, 0);
    loop {
        let (datagram, _) = receive(&victim);
        (got, datagrams) = (got + datagram.len(), datagrams + 1);
        if datagram == b"last" {
            break;
        }
    }
    let sent = 33 * 32;
    assert!(got <= 3 * sent, "{got} bytes for {sent}");
    let withheld = relay.finish().stats.withheld_budget;
    assert_eq!(datagrams + withheld, 32 * 11 + 1);
}

/// The first answer that is withheld is told of, and no other.
#[test]
fn the_first_withheld_answer_is_told_of() {
    static TOLD: Mutex<Vec<NotSent>> = Mutex::new(Vec::new());
    let server = socket();
    let limits = ClientLimits { trust_loopback: false, ..ClientLimits::default() };
    let relay = start(
        RelayConfig {
            clients: limits,
            on_first_withheld: Some(|why| TOLD.lock().unwrap().push(why)),
            ..RelayConfig::to(server.local_addr().unwrap())
        },
        perfect(),
    );
    let client = socket();
    client.send_to(&[1; 10], relay.address).unwrap();
    let (_, from) = receive(&server);
    (0..3).for_each(|_| assert_eq!(server.send_to(&[2; 31], from).unwrap(), 31));
    server.send_to(&[3; 30], from).unwrap();
    assert_eq!(receive(&client).0, [3; 30]);
    assert_eq!(relay.finish().stats.withheld_budget, 3);
    assert_eq!(*TOLD.lock().unwrap(), [NotSent::Budget(client.local_addr().unwrap())]);
}

/// A packet that seems to come from the upstream would go round for ever.
#[test]
fn loops_are_refused() {
    let server = socket();
    let relay = start(RelayConfig::to(server.local_addr().unwrap()), perfect());
    server.send_to(b"round", relay.address).unwrap();
    let client = socket();
    client.send_to(b"straight", relay.address).unwrap();
    assert_eq!(receive(&server).0, b"straight");
    let outcome = relay.finish();
    assert_eq!((outcome.stats.misdirected, outcome.stats.opened, outcome.up.offered), (1, 1, 1));

    let taken = socket().local_addr().unwrap();
    for listen in [taken, SocketAddr::from(([0, 0, 0, 0], taken.port()))] {
        let error = Relay::udp(RelayConfig { listen, ..RelayConfig::to(taken) }, perfect()).unwrap_err();
        assert_eq!(error.to_string(), format!("the upstream {taken} is the relay itself"));
    }
    let jitter = softtimers_wan::Jitter::uniform(Duration::from_millis(1));
    let error =
        Relay::udp(RelayConfig::to(taken), perfect().up(PathConfig::default().jitter(jitter))).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
}

/// Nothing to do: it sleeps, and a change of the path in the meantime does not wake it.
#[test]
fn an_idle_relay_sleeps() {
    let server = socket();
    let mut relay = Relay::udp(RelayConfig::to(server.local_addr().unwrap()), perfect()).unwrap();
    relay.set(Way::Up, PathConfig::default().delay(Duration::from_millis(1))).unwrap();
    for _ in 0..3 {
        let until = relay.now() + Duration::from_millis(50);
        assert_eq!(relay.run(Some(until)).unwrap(), Ended::Time);
        assert!(relay.now() >= until);
    }
    let LoopStats { waits, polls, .. } = relay.loop_stats();
    // A sleep each, in stages at most, and what is polled at its end.
    assert!(waits <= 30, "{waits} waits, {polls} polls");
    assert_eq!(relay.path(Way::Up).delay, Duration::from_millis(1));
}
