#!/bin/sh
# quinn's CUBIC stands still for half a second after two cuts in a row, on a path of 20 ms.
#
# Expected: between two losses the window grows with every round trip, slowly at first.
# Found:    with fast convergence the second cut makes CUBIC remember a smaller window than the one that it cut, and the time until
#           the curve is back there is computed from the remembered one alone (RFC 8312; RFC 9438 takes the cut one, too). So the
#           window begins above the curve, and does not move until the curve has come up to it.
# Of:       quinn-proto 0.11.19. Needs cargo and some minutes.
# Method:   server and client in virtual time, timers in whole milliseconds as tokio's are; a download without end over 100 Mbit/s,
#           a queue of 20 packets and a round trip of 20 ms; the longest time without growth in seconds 0.3 to 4.
#
# Seen:     the window stands still for up to 673 ms, 33 round trips
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
command -v cargo > "$dir/found" || { echo "skipped: cargo is missing"; exit 77; }
cd "$dir"
mkdir src
cat > Cargo.toml <<'TOML'
[package]
name = "download"
version = "0.0.0"
edition = "2021"

[dependencies]
quinn-proto = { version = "=0.11.19", default-features = false, features = ["rustls-ring"] }
rustls = { version = "=0.23.46", default-features = false, features = ["ring", "std"] }
rcgen = { version = "=0.14.7", default-features = false, features = ["ring"] }

[profile.dev]
opt-level = 1
debug = false

[workspace]
TOML
cat > src/main.rs <<'RS'
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event, ServerConfig,
    StreamId, TransportConfig, VarInt,
};
use rustls::pki_types::PrivateKeyDer;
use rustls::RootCertStore;

const ONE_WAY: u64 = 10_000_000;
const HEADERS: u64 = 28;

struct Side {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
}

/// The link from the server to the client.
struct Link {
    bits_per_second: u64,
    queue: u64,
    free_at: u64,
}

impl Link {
    /// Returns when a packet arrives, or nothing if the queue is full.
    fn carry(&mut self, now: u64, bytes: usize) -> Option<u64> {
        let time = (bytes as u64 + HEADERS) * 8_000_000_000 / self.bits_per_second;
        if self.free_at.saturating_sub(now) > self.queue * time {
            return None;
        }
        self.free_at = self.free_at.max(now) + time;
        Some(self.free_at + ONE_WAY)
    }
}

fn configs() -> (ClientConfig, ServerConfig) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let made = rcgen::generate_simple_self_signed(vec!["server".into()]).unwrap();
    let certificate = made.cert.der().clone();
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let mut client = ClientConfig::with_root_certificates(Arc::new(roots)).unwrap();
    let secret = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let mut server = ServerConfig::with_single_cert(vec![certificate], secret).unwrap();
    let mut transport = TransportConfig::default();
    let room = VarInt::from_u32(16 << 20);
    transport.stream_receive_window(room).receive_window(room).send_window(16 << 20);
    let transport = Arc::new(transport);
    client.transport_config(transport.clone());
    server.transport_config(transport);
    (client, server)
}

/// Returns for how many milliseconds the window did not grow, at most, in some seconds of a download.
fn longest_standstill(mut link: Link, seconds: u64) -> u64 {
    let (client, server) = configs();
    let addresses: [SocketAddr; 2] = ["10.0.0.1:1".parse().unwrap(), "10.0.0.2:443".parse().unwrap()];
    let side = |server: Option<ServerConfig>| Side {
        endpoint: Endpoint::new(Arc::new(EndpointConfig::default()), server.map(Arc::new), true, None),
        connection: None,
    };
    let mut sides = [side(None), side(Some(server))];
    let epoch = Instant::now();
    sides[0].connection = Some(sides[0].endpoint.connect(epoch, client, addresses[1], "server").unwrap());
    let mut under_way: BinaryHeap<Reverse<(u64, u64, usize, Vec<u8>)>> = BinaryHeap::new();
    let (mut now, mut number, mut stream) = (0, 0, None);
    let (mut longest, mut window, mut grown_at) = (0, 0, 0);
    while now < seconds * 1_000_000_000 {
        let instant = epoch + Duration::from_nanos(now);
        while let Some(Reverse((at, ..))) = under_way.peek() {
            if *at > now {
                break;
            }
            let Reverse((_, _, to, bytes)) = under_way.pop().unwrap();
            arrive(&mut sides[to], instant, addresses[1 - to], &bytes);
        }
        for from in [0, 1] {
            let Some((handle, connection)) = &mut sides[from].connection else { continue };
            if connection.poll_timeout().is_some_and(|at| at <= instant) {
                connection.handle_timeout(instant);
            }
            while let Some(event) = connection.poll_endpoint_events() {
                if let Some(answer) = sides[from].endpoint.handle_event(*handle, event) {
                    connection.handle_event(answer);
                }
            }
            if from == 0 { read(connection) } else { write(connection, &mut stream) }
            let mut buffer = Vec::new();
            while let Some(sent) = connection.poll_transmit(instant, 10, &mut buffer) {
                for packet in buffer[..sent.size].chunks(sent.segment_size.unwrap_or(sent.size)) {
                    let at = if from == 0 { Some(now + ONE_WAY) } else { link.carry(now, packet.len()) };
                    number += 1;
                    under_way.extend(at.map(|at| Reverse((at, number, 1 - from, packet.to_vec()))));
                }
                buffer.clear();
            }
        }
        if let Some((_, server)) = &sides[1].connection {
            let current = server.congestion_state().window();
            if current != window {
                (window, grown_at) = (current, now);
            }
            if now > 300_000_000 {
                longest = longest.max((now - grown_at) / 1_000_000);
            }
        }
        let timers = sides.iter_mut().filter_map(|side| side.connection.as_mut()?.1.poll_timeout());
        let timers = timers.map(|at| (at - epoch).as_nanos().div_ceil(1_000_000) as u64 * 1_000_000);
        let arrival = under_way.peek().map(|Reverse((at, ..))| *at);
        now = timers.chain(arrival).min().expect("both ends wait for each other").max(now + 1);
    }
    longest
}

fn arrive(side: &mut Side, instant: Instant, from: SocketAddr, bytes: &[u8]) {
    let mut answer = vec![];
    match side.endpoint.handle(instant, from, None, None, bytes.into(), &mut answer) {
        Some(DatagramEvent::NewConnection(incoming)) => {
            side.connection = Some(side.endpoint.accept(incoming, instant, &mut answer, None).ok().unwrap());
        }
        Some(DatagramEvent::ConnectionEvent(_, event)) => side.connection.as_mut().unwrap().1.handle_event(event),
        _ => {}
    }
}

fn read(connection: &mut Connection) {
    while let Some(event) = connection.poll() {
        assert!(!matches!(event, Event::ConnectionLost { .. }));
    }
    while let Some(stream) = connection.streams().accept(Dir::Uni) {
        assert_eq!(stream.index(), 0);
    }
    let first = StreamId::new(quinn_proto::Side::Server, Dir::Uni, 0);
    let mut stream = connection.recv_stream(first);
    if let Ok(mut chunks) = stream.read(true) {
        while let Ok(Some(_)) = chunks.next(usize::MAX) {}
        let _ = chunks.finalize();
    };
}

fn write(connection: &mut Connection, stream: &mut Option<StreamId>) {
    while let Some(event) = connection.poll() {
        if let Event::Connected = event {
            *stream = connection.streams().open(Dir::Uni);
        }
    }
    if let Some(stream) = *stream {
        while connection.send_stream(stream).write(&[0; 16_384]).is_ok() {}
    }
}

fn main() {
    let longest = longest_standstill(Link { bits_per_second: 100_000_000, queue: 20, free_at: 0 }, 4);
    println!("the window stands still for up to {longest} ms, {} round trips", longest / 20);
    if longest < 200 {
        println!("changed");
        std::process::exit(1);
    }
}
RS
cargo --version
CARGO_TARGET_DIR="$dir/target" cargo build --quiet > log 2>&1 ||
    { echo "skipped: quinn-proto 0.11.19 cannot be built: $(tail -n 1 log)"; exit 77; }
"$dir/target"/debug/download
