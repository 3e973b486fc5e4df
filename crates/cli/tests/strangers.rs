//! Attacks that a public relay withstands: `wan --public` and `forward --udp --public` between real sockets. A
//! client with an address of this machine that is not loopback stands for one that may be forged.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use common::{command, refusal, run, skipped};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The two relays, as they are asked for.
const RELAYS: [&str; 2] = ["wan --listen", "forward --udp"];

/// A relay that runs.
struct Relay {
    child: Child,
    words: BufReader<ChildStderr>,
    port: u16,
}

impl Relay {
    fn start(kind: &str, listen: &str, to: SocketAddr, flags: &str) -> Self {
        Relay::of(command(&format!("{kind} {listen}:0 --to {to} --duration 60s {flags}")))
    }

    fn of(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let words = BufReader::new(child.stderr.take().unwrap());
        let mut relay = Relay { child, words, port: 0 };
        let first = relay.says();
        let address = first.split([' ', ',']).nth(2).and_then(|word| word.parse::<SocketAddr>().ok());
        relay.port = address.unwrap_or_else(|| panic!("{first}")).port();
        relay
    }

    /// The next line on its stderr.
    fn says(&mut self) -> String {
        let mut line = String::new();
        self.words.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Ends it as a service manager does: what it has printed, and what it had to say that was not read yet.
    fn finish(mut self) -> (String, String) {
        let id = Pid::from_raw(self.child.id() as i32).unwrap();
        kill_process(id, Signal::TERM).unwrap();
        let (mut text, mut rest) = (String::new(), String::new());
        self.child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        self.words.read_to_string(&mut rest).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{rest}");
        (text, rest)
    }

    /// The counts of clients of a run with --json.
    fn clients(self) -> Value {
        let (text, _) = self.finish();
        let report: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        report["clients"].clone()
    }
}

fn bound(ip: IpAddr) -> UdpSocket {
    let socket = UdpSocket::bind((ip, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    socket
}

fn socket() -> UdpSocket {
    bound(Ipv4Addr::LOCALHOST.into())
}

fn received(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut buffer = [0; 65_536];
    loop {
        match socket.recv_from(&mut buffer) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            outcome => {
                let (length, from) = outcome.expect("a datagram within the time of a test");
                return (buffer[..length].into(), from);
            }
        }
    }
}

/// An address of this machine that is not loopback.
fn outside() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    // Nothing is sent; the kernel says from where it would be.
    let address = socket.connect("192.0.2.1:9").and_then(|()| socket.local_addr());
    let ip = address.ok().map(|address| address.ip()).filter(|ip| !ip.is_loopback());
    if ip.is_none() {
        skipped("this machine has no address but loopback");
    }
    ip
}

/// The upstream sends for each packet 12,000 bytes in long answers, and a short one.
fn amplify(server: &UdpSocket, to: SocketAddr) {
    for bytes in [1_200; 10].into_iter().chain([32]) {
        server.send_to(&vec![2; bytes], to).unwrap();
    }
}

/// Two packets in a victim's name, then thirty, each worth 12,000 bytes to the upstream. Nobody reads at the victim's socket until
/// the end, so all that it was sent is there.
#[test]
fn a_victim_gets_no_more_than_three_times_what_was_sent_in_its_name() {
    let Some(ip) = outside() else { return };
    for kind in RELAYS {
        let server = socket();
        let mut relay = Relay::start(kind, "0.0.0.0", server.local_addr().unwrap(), "--public --json");
        let (victim, to) = (bound(ip), SocketAddr::from((ip, relay.port)));
        for _ in 0..32 {
            victim.send_to(&[1; 32], to).unwrap();
            let (_, from) = received(&server);
            amplify(&server, from);
        }
        // Behind them all.
        victim.send_to(&[1; 32], to).unwrap();
        let (_, from) = received(&server);
        server.send_to(b"last", from).unwrap();
        let (mut got, mut answers) = (0, 0);
        loop {
            let (datagram, _) = received(&victim);
            (got, answers) = (got + datagram.len(), answers + 1);
            if datagram == b"last" {
                break;
            }
        }
        let sent = 33 * 32;
        assert!(got <= 3 * sent, "{kind}: {got} bytes for {sent}");
        let said = relay.says();
        assert!(
            said.starts_with(&format!("withholding answers to {}: ", victim.local_addr().unwrap())),
            "{said}"
        );
        assert!(said.contains("--trust CIDR"), "{said}");
        let (text, rest) = relay.finish();
        assert_eq!(rest.matches("withholding").count(), 0, "said again: {rest}");
        let report: Value = serde_json::from_str(&text).unwrap();
        let clients = &report["clients"];
        let withheld = clients["withheld"].as_u64().unwrap();
        assert_eq!(answers + withheld, 32 * 11 + 1, "{clients}");
        assert_eq!((&clients["withheld_budget"], &clients["withheld_rate"]), (&withheld.into(), &0.into()));
        assert_eq!(clients["withheld_bytes"], 32 * (10 * 1_200 + 32) + 4 - got as u64);
        if kind == RELAYS[1] {
            assert_eq!(report["dropped"]["rule"], withheld, "{report}");
        }
    }
}

/// Each copy of an answer counts.
#[test]
fn copies_of_answers_count() {
    let Some(ip) = outside() else { return };
    let server = socket();
    let flags = "--public --down-duplicate 100% --json";
    let relay = Relay::start(RELAYS[0], "0.0.0.0", server.local_addr().unwrap(), flags);
    let client = bound(ip);
    client.send_to(&[1; 100], (ip, relay.port)).unwrap();
    let (_, from) = received(&server);
    (0..3).for_each(|_| assert_eq!(server.send_to(&[2; 100], from).unwrap(), 100));
    (0..3).for_each(|_| assert_eq!(received(&client).0, [2; 100]));
    assert_eq!(relay.clients()["withheld"], 3);
}

/// A client in a trusted network gets all that comes for it, and nothing is said about it.
#[test]
fn trust_lifts_the_bounds_for_its_network_only() {
    let Some(ip) = outside() else { return };
    for kind in RELAYS {
        for (trust, all) in [(format!("{ip}/32"), true), ("203.0.113.0/24".to_owned(), false)] {
            let server = socket();
            let flags =
                format!("--public --trust {trust} --trust 2001:db8::/32 --answers-per-prefix 1pps --json");
            let relay = Relay::start(kind, "0.0.0.0", server.local_addr().unwrap(), &flags);
            let client = bound(ip);
            client.send_to(&[1; 32], (ip, relay.port)).unwrap();
            let (_, from) = received(&server);
            amplify(&server, from);
            if all {
                assert!((0..10).all(|_| received(&client).0.len() == 1_200), "{kind}");
            }
            assert_eq!(received(&client).0.len(), 32, "{kind}");
            let clients = relay.clients();
            assert_eq!(clients["withheld"], if all { 0 } else { 10 }, "{kind}: {clients}");
        }
    }
}

/// Clients with an address each, of one network, have a rate of answers together.
#[test]
fn answers_to_a_prefix_have_a_rate() {
    let Some(ip) = outside() else { return };
    for kind in RELAYS {
        let server = socket();
        let flags = "--public --answers-per-prefix 1pps --json";
        let mut relay = Relay::start(kind, "0.0.0.0", server.local_addr().unwrap(), flags);
        let clients: Vec<_> = (0..20).map(|_| bound(ip)).collect();
        for client in &clients {
            client.send_to(&[1; 40], (ip, relay.port)).unwrap();
            let (_, from) = received(&server);
            server.send_to(&[2; 40], from).unwrap();
        }
        assert_eq!(received(&clients[0]).0, [2; 40], "the first answer is within the rate");
        let said = relay.says();
        assert!(said.contains("more than --answers-per-prefix"), "{said}");
        // Its time comes again.
        let last = &clients[19];
        last.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        while last.recv(&mut [0; 64]).is_err() {
            last.send_to(&[1; 40], (ip, relay.port)).unwrap();
            let (_, from) = received(&server);
            server.send_to(&[2; 40], from).unwrap();
        }
        let counts = relay.clients();
        assert!(counts["withheld_rate"].as_u64() >= Some(1), "{kind}: {counts}");
        assert_eq!((&counts["withheld_budget"], &counts["withheld"]), (&0.into(), &counts["withheld_rate"]));
    }
}

/// The table for people, and the metrics.
#[test]
fn what_is_withheld_is_told_everywhere() {
    let Some(ip) = outside() else { return };
    for kind in RELAYS {
        let server = socket();
        let forward = kind == RELAYS[1];
        let flags = if forward { "--public --metrics 127.0.0.1:0" } else { "--public" };
        let mut relay = Relay::start(kind, "0.0.0.0", server.local_addr().unwrap(), flags);
        let metrics = forward.then(|| relay.says());
        let client = bound(ip);
        client.send_to(&[1; 32], (ip, relay.port)).unwrap();
        let (_, from) = received(&server);
        amplify(&server, from);
        received(&client);
        if let Some(said) = metrics {
            let address =
                said.strip_prefix("metrics on http://").and_then(|rest| rest.strip_suffix("/metrics"));
            let mut scraper = TcpStream::connect(address.unwrap()).unwrap();
            scraper.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
            let mut text = String::new();
            scraper.read_to_string(&mut text).unwrap();
            for line in [
                "answers_withheld_by_budget_total 10",
                "answers_withheld_by_rate_total 0",
                "answers_withheld_bytes_total 12000",
            ] {
                assert!(text.contains(&format!("\nsofttimers_forward_{line}\n")), "{text}");
            }
        }
        let (table, _) = relay.finish();
        let told = table.lines().find_map(|line| line.strip_prefix("withheld")).expect(&table);
        assert_eq!(told.trim(), "10  over byte budget 10  12.0 kB", "{table}");
    }
}

/// A server that sends back what it gets, until it gets nothing.
fn echo() -> (SocketAddr, JoinHandle<()>) {
    let server = socket();
    let address = server.local_addr().unwrap();
    let thread = thread::spawn(move || {
        let mut buffer = [0; 2_048];
        while let Ok((length @ 1.., from)) = server.recv_from(&mut buffer) {
            // Who asked may be gone.
            let _ = server.send_to(&buffer[..length], from);
        }
    });
    (address, thread)
}

/// Asks, and has the answer.
fn ask(client: &UdpSocket, port: u16, text: &[u8]) {
    client.send_to(text, (Ipv4Addr::LOCALHOST, port)).unwrap();
    assert_eq!(received(client).0, text);
}

/// 4,000 sources, each with an address of its own and answered: a client in use keeps its place among 32 through all of it,
/// and each new one has twelve answers to twelve questions.
#[test]
fn clients_are_served_through_a_flood_of_sources() {
    for kind in RELAYS {
        let (upstream, server) = echo();
        let relay = Relay::start(kind, "127.0.0.1", upstream, "--clients 32 --json");
        let honest = socket();
        (0..2).for_each(|_| ask(&honest, relay.port, b"honest"));
        let mut sources = 1;
        for round in 0..80u8 {
            for number in 1..=50u8 {
                let spoofed = bound(Ipv4Addr::new(127, 78, round, number).into());
                spoofed.send_to(&[7; 1_000], (Ipv4Addr::LOCALHOST, relay.port)).unwrap();
                sources += 1;
            }
            ask(&honest, relay.port, b"honest");
            if round % 10 == 9 {
                let new = socket();
                (0..12u8).for_each(|question| ask(&new, relay.port, &[question]));
                sources += 1;
            }
        }
        let clients = relay.clients();
        // Who is evicted and sends again would be one client more.
        assert_eq!((&clients["opened"], &clients["now"]), (&sources.into(), &32.into()), "{kind}: {clients}");
        assert_eq!(clients["evicted"], sources - 32, "{kind}: {clients}");
        socket().send_to(&[], upstream).unwrap();
        server.join().unwrap();
    }
}

/// Where descriptors are fewer than --clients, they are the limit, and a new client still finds a place.
#[test]
fn a_new_client_is_served_when_descriptors_run_out() {
    for kind in RELAYS {
        let (upstream, server) = echo();
        let words = format!("{kind} 127.0.0.1:0 --to {upstream} --duration 60s --json");
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -n 40; exec \"$0\" \"$@\"", common::PROGRAM]);
        shell.args(words.split(' ')).stdin(Stdio::null());
        let relay = Relay::of(shell);
        let all: Vec<_> = (0..100).map(|_| socket()).collect();
        all.iter().for_each(|client| ask(client, relay.port, b"new"));
        let clients = relay.clients();
        assert_eq!((&clients["opened"], &clients["refused"]), (&100.into(), &0.into()), "{kind}: {clients}");
        assert!(clients["evicted"].as_u64() >= Some(60), "{kind}: {clients}");
        socket().send_to(&[], upstream).unwrap();
        server.join().unwrap();
    }
}

/// A packet from the upstream's address would go round for ever.
#[test]
fn loops_are_refused() {
    for (kind, counted) in RELAYS.into_iter().zip(["refused", "misdirected"]) {
        let server = socket();
        let relay = Relay::start(kind, "127.0.0.1", server.local_addr().unwrap(), "--json");
        let to = SocketAddr::from((Ipv4Addr::LOCALHOST, relay.port));
        server.send_to(b"round", to).unwrap();
        let client = socket();
        client.send_to(b"straight", to).unwrap();
        assert_eq!(received(&server).0, b"straight");
        let clients = relay.clients();
        assert_eq!((&clients[counted], &clients["opened"]), (&1.into(), &1.into()), "{kind}: {clients}");
    }
}

/// However much it is sent: when it has sent nothing for its time, nobody is there for its answers.
#[test]
fn a_client_that_has_vanished_is_forgotten() {
    for kind in RELAYS {
        let server = socket();
        let flags = "--client-timeout 200ms --json";
        let relay = Relay::start(kind, "127.0.0.1", server.local_addr().unwrap(), flags);
        socket().send_to(b"hello", (Ipv4Addr::LOCALHOST, relay.port)).unwrap();
        let (_, from) = received(&server);
        server.connect(from).unwrap();
        server.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
        // An error about an earlier one says that its socket is closed.
        let refused = |error: std::io::Error| error.kind() == std::io::ErrorKind::ConnectionRefused;
        while !server.send(b"still there?").is_err_and(refused)
            && !server.recv(&mut [0; 64]).is_err_and(refused)
        {}
        let clients = relay.clients();
        assert_eq!((&clients["expired"], &clients["now"]), (&1.into(), &0.into()), "{kind}: {clients}");
    }
}

#[test]
fn what_is_no_trust_is_refused() {
    for (flags, part) in [
        ("--trust 192.0.2.1/24", "192.0.2.0/24 has none"),
        ("--trust everybody", "a network such as 192.0.2.0/24"),
        ("--answers-per-prefix 1Mbit", "answers a second are allowed"),
        ("--answers-per-prefix 0pps", "above zero"),
    ] {
        for kind in RELAYS {
            let message = refusal(&run(&format!("{kind} 127.0.0.1:0 --to 127.0.0.1:9 {flags}")), 2);
            assert!(message.contains(part), "{kind} {flags}: {message}");
        }
    }
    // Connections show that their clients receive, and frames are nobody's answers.
    for words in [
        "wan --tcp --listen 127.0.0.1:0 --to 127.0.0.1:9 --trust 192.0.2.0/24",
        "wan --ifaces a,b --trust 192.0.2.0/24",
        "forward eth1 eth2 --trust 192.0.2.0/24",
    ] {
        assert!(refusal(&run(words), 2).contains("--trust"), "{words}");
    }
}
