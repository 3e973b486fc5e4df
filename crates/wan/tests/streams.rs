//! The TCP relay between real sockets on loopback: nothing lost, nothing early, nothing without bounds.
#![cfg(target_os = "linux")]

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use softtimers::{Clock, Monotonic};
use softtimers_wan::tcp::{StreamConfig, StreamStats};
use softtimers_wan::toxic::{Dose, Toxic};
use softtimers_wan::{
    Bottleneck, Carried, Counters, EdgeStats, Loss, PathConfig, PathError, Probability, Queue, Relay,
    Scenario, Wan, WanBuilder, Way,
};

/// A relay in a thread of its own, which ends with the test.
struct Running {
    address: SocketAddr,
    stop: UnixStream,
    thread: JoinHandle<(StreamStats, [Counters; 2])>,
}

fn start(config: StreamConfig, path: WanBuilder) -> Running {
    let (stop, stopped) = UnixStream::pair().unwrap();
    let (say, hear) = mpsc::channel();
    let thread = thread::spawn(move || {
        let mut relay = Relay::tcp(config, path).unwrap();
        relay.watch(&stopped, 7).unwrap();
        say.send(relay.local_addr().unwrap()).unwrap();
        let until = relay.now() + Duration::from_secs(60);
        let observe = |piece: &Carried| assert!(piece.due <= piece.left + LEAD, "{piece:?}");
        relay.run_observed(Some(until), observe).unwrap();
        let EdgeStats::Tcp(stats) = relay.stats() else { panic!("it relays streams") };
        (stats, [Way::Up, Way::Down].map(|way| relay.counters(way)))
    });
    Running { address: hear.recv_timeout(WAIT).unwrap(), stop, thread }
}

impl Running {
    fn connect(&self) -> TcpStream {
        patient(TcpStream::connect(self.address).unwrap())
    }

    fn finish(self) -> (StreamStats, [Counters; 2]) {
        let (stats, ways) = self.end();
        for counters in ways {
            // What a stream is promised: the path has lost nothing of it.
            assert_eq!(counters.queue_drops + counters.overflowed + counters.lost, 0, "{counters:?}");
            assert_eq!(counters.offered, counters.delivered + counters.held);
        }
        (stats, ways)
    }

    fn end(mut self) -> (StreamStats, [Counters; 2]) {
        self.stop.write_all(b"x").unwrap();
        let (stats, ways) = self.thread.join().unwrap();
        let StreamStats { connections, opened, closed, reset, expired, .. } = stats;
        assert_eq!(opened, u64::from(connections) + closed + reset + expired, "{stats:?}");
        (stats, ways)
    }
}

fn listener() -> (TcpListener, StreamConfig) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = StreamConfig::to(listener.local_addr().unwrap());
    (listener, config)
}

/// A socket that gives up rather than hang.
fn patient(socket: TcpStream) -> TcpStream {
    socket.set_read_timeout(Some(WAIT)).unwrap();
    socket.set_write_timeout(Some(WAIT)).unwrap();
    socket
}

fn accept(listener: &TcpListener) -> TcpStream {
    patient(listener.accept().unwrap().0)
}

fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = softtimers_core::Random::stream(seed, 0);
    (0..bytes).map(|_| random.next_u64() as u8).collect()
}

fn rest(mut socket: &TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    socket.read_to_end(&mut all).unwrap();
    all
}

const WAIT: Duration = Duration::from_secs(20);
/// No send begins sooner before it is due.
const LEAD: Duration = Duration::from_micros(20);

/// Four connections at once over a slow path with a queue of five: every byte, in order, both ways; and all of
/// them together are no faster than the link.
#[test]
fn bytes_arrive_whole_and_in_order_and_no_faster_than_the_link() {
    let (listener, config) = listener();
    let slow = PathConfig::default()
        .bottleneck(Bottleneck::bits_per_second(40_000_000).unwrap())
        .queue(Queue::packets(5))
        .overhead(52)
        .delay(Duration::from_millis(5));
    let relay = start(config, Wan::builder().both(slow));
    let server = thread::spawn(move || {
        let echoes: Vec<_> = (0..4)
            .map(|_| {
                let mut socket = accept(&listener);
                thread::spawn(move || std::io::copy(&mut socket.try_clone().unwrap(), &mut socket).unwrap())
            })
            .collect();
        echoes.into_iter().map(|echo| echo.join().unwrap()).sum::<u64>()
    });
    let begin = Monotonic.now();
    let clients: Vec<_> = (0..4)
        .map(|seed| {
            let socket = relay.connect();
            thread::spawn(move || {
                let sent = noise(seed, 150_000 + seed as usize * 7);
                let mut writer = socket.try_clone().unwrap();
                let copy = sent.clone();
                let writing = thread::spawn(move || {
                    writer.write_all(&copy).unwrap();
                    writer.shutdown(Shutdown::Write).unwrap();
                });
                assert!(rest(&socket) == sent, "bytes differ");
                writing.join().unwrap();
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    let took = Monotonic.now().saturating_duration_since(begin);
    assert_eq!(server.join().unwrap(), 600_042);
    // 600 kB with headers at 40 Mbit/s, and twice the delay.
    assert!(took > Duration::from_millis(124 + 10), "{took:?}");
    let (stats, [up, down]) = relay.finish();
    assert_eq!((stats.opened, stats.closed, stats.connections), (4, 4, 0), "{stats:?}");
    assert_eq!([up, down].map(|way| way.delivered_bytes), [600_042; 2]);
}

/// Each side may end while the other goes on, and each waits for its answer.
#[test]
fn either_direction_ends_alone() {
    let (listener, config) = listener();
    let path = Wan::builder().both(PathConfig::default().delay(Duration::from_millis(3)));
    let relay = start(config, path);

    let mut client = relay.connect();
    client.write_all(b"question").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut server = accept(&listener);
    assert_eq!(rest(&server), b"question");
    server.write_all(b"answer").unwrap();
    drop(server);
    assert_eq!(rest(&client), b"answer");

    let mut client = relay.connect();
    let mut server = accept(&listener);
    server.write_all(b"greeting").unwrap();
    server.shutdown(Shutdown::Write).unwrap();
    assert_eq!(rest(&client), b"greeting");
    client.write_all(b"thanks").unwrap();
    drop(client);
    assert_eq!(rest(&server), b"thanks");
    drop(server);
    let (stats, _) = relay.finish();
    assert_eq!((stats.opened, stats.closed, stats.reset), (2, 2, 0), "{stats:?}");
}

/// Whatever ends a connection at one side ends it at the other, one delay later.
#[test]
fn a_reset_and_a_refusal_are_passed_on() {
    let (listener, config) = listener();
    let delay = Duration::from_millis(5);
    let relay = start(config, Wan::builder().both(PathConfig::default().delay(delay)));
    let mut client = relay.connect();
    let mut server = accept(&listener);
    // What is closed with something unread is reset.
    client.write_all(&[1; 5_000]).unwrap();
    server.read_exact(&mut [0; 1]).unwrap();
    drop(server);
    let error = client.read(&mut [0; 9]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);

    drop(listener);
    let begin = Monotonic.now();
    let mut refused = relay.connect();
    let error = refused.read(&mut [0; 9]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert!(Monotonic.now() >= begin + delay * 2);
    let (stats, _) = relay.finish();
    assert_eq!((stats.opened, stats.reset, stats.upstream_refused), (2, 2, 1), "{stats:?}");
}

/// Over a wire bytes stay in the kernel, where a socket tells its error only once: a reset is none the less no end in order.
#[test]
fn a_reset_is_passed_on_over_a_wire() {
    let (listener, config) = listener();
    let relay = start(config, Wan::builder());
    for client_resets in [true, false] {
        let (client, server) = (relay.connect(), accept(&listener));
        let [mut resets, mut waits] = if client_resets { [client, server] } else { [server, client] };
        // What is closed with something unread is reset.
        waits.write_all(&[1; 5_000]).unwrap();
        resets.read_exact(&mut [0; 1]).unwrap();
        drop(resets);
        let outcome = waits.read(&mut [0; 9]);
        assert_eq!(outcome.map_err(|error| error.kind()), Err(ErrorKind::ConnectionReset), "{client_resets}");
    }
    let (stats, _) = relay.finish();
    assert_eq!((stats.opened, stats.reset), (2, 2), "{stats:?}");
}

/// What stays in the kernel counts as what is copied does.
#[test]
fn no_piece_over_a_wire_is_longer_than_the_window_or_the_path_holds() {
    let (listener, mut config) = listener();
    config.window = 50_000;
    let mut relay = Relay::tcp(config, Wan::builder()).unwrap();
    relay.set(Way::Down, PathConfig::default().hold(100, 30_000)).unwrap();
    let client = patient(TcpStream::connect(relay.local_addr().unwrap()).unwrap());
    let sent = noise(4, 2 << 20);
    let bytes = sent.clone();
    let echo = thread::spawn(move || {
        let mut socket = accept(&listener);
        std::io::copy(&mut socket.try_clone().unwrap(), &mut socket).unwrap();
    });
    let reader = client.try_clone().unwrap();
    let reading = thread::spawn(move || rest(&reader));
    let writing = thread::spawn(move || {
        (&client).write_all(&bytes).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
    });
    let (begin, mut longest) = (relay.now(), [0; 2]);
    while !reading.is_finished() && relay.now() < begin + WAIT {
        let until = relay.now() + Duration::from_millis(10);
        let observe = |piece: &Carried| {
            let longest = &mut longest[usize::from(piece.way == Way::Down)];
            *longest = piece.bytes.max(*longest);
        };
        relay.run_observed(Some(until), observe).unwrap();
    }
    assert!(reading.join().unwrap() == sent, "bytes differ");
    writing.join().unwrap();
    echo.join().unwrap();
    assert!(longest[0] <= 50_000 && longest[1] <= 30_000, "{longest:?}");
}

/// The third of two is reset at once; those on which nothing moves are, after their time.
#[test]
fn connections_are_limited_in_number_and_in_idleness() {
    let (listener, mut config) = listener();
    // Long enough for a machine that is slow to open three connections.
    let idle = Duration::from_secs(3);
    (config.most, config.idle) = (2, idle);
    let relay = start(config, Wan::builder());
    let mut two = [relay.connect(), relay.connect()];
    let servers = [accept(&listener), accept(&listener)];
    let begin = Monotonic.now();
    two[0].write_all(b"x").unwrap();
    let mut third = relay.connect();
    assert_eq!(third.read(&mut [0; 9]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    for client in &mut two {
        assert_eq!(client.read(&mut [0; 9]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
    assert!(Monotonic.now() > begin + idle / 2);
    drop(servers);
    let (stats, _) = relay.finish();
    assert_eq!((stats.opened, stats.refused, stats.expired, stats.connections), (2, 1, 2, 0), "{stats:?}");
}

/// A reader that waits stops its sender at what the window and the kernel hold, loses nothing, and holds up nobody
/// else.
#[test]
fn a_reader_that_waits_stops_its_sender_only() {
    let (listener, mut config) = listener();
    config.window = 1 << 20;
    let relay = start(config, Wan::builder());
    let mut client = relay.connect();
    let server = accept(&listener);
    client.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let piece = noise(3, 1 << 16);
    let mut sent = Vec::new();
    loop {
        match client.write(&piece) {
            Ok(length) => sent.extend_from_slice(&piece[..length]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
            Err(error) => panic!("{error}"),
        }
        // Two kernel buffers each way, of at most six megabytes each, and the window.
        assert!(sent.len() < 32 << 20, "nothing stops the sender");
    }
    let mut other = relay.connect();
    let mut beside = accept(&listener);
    other.write_all(b"not held up").unwrap();
    let mut buffer = [0; 11];
    beside.read_exact(&mut buffer).unwrap();
    assert_eq!(&buffer, b"not held up");

    client.shutdown(Shutdown::Write).unwrap();
    assert!(rest(&server) == sent, "bytes differ");
    relay.finish();
}

/// Over a wire nothing is copied; a path and toxics that come meanwhile treat what passes from then on, and a reader that waits
/// stops its sender.
#[test]
fn bytes_that_stay_in_the_kernel_arrive_whole() {
    let (listener, config) = listener();
    let mut relay = Relay::tcp(config, Wan::builder()).unwrap();
    let mut client = patient(TcpStream::connect(relay.local_addr().unwrap()).unwrap());
    let sent = noise(9, 24 << 20);
    let (bytes, halves) = (sent.clone(), mpsc::channel());
    let sending = thread::spawn(move || {
        client.write_all(&bytes).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        rest(&client)
    });
    let receiving = thread::spawn(move || {
        let mut socket = accept(&listener);
        let mut got = vec![0; 12 << 20];
        socket.read_exact(&mut got).unwrap();
        halves.0.send(()).unwrap();
        got.extend(rest(&socket));
        socket.write_all(b"answer").unwrap();
        got
    });
    let toxic = Toxic::Slicer { average_size: 30_000, size_variation: 9_000, delay: Duration::ZERO };
    let slice = Dose { id: 1, revision: 0, toxic, toxicity: Probability::ALWAYS };
    let (begin, mut is_slow, mut longest) = (relay.now(), false, 0);
    while !sending.is_finished() && relay.now() < begin + WAIT {
        let until = relay.now() + Duration::from_millis(10);
        relay.run_observed(Some(until), |piece| longest = longest.max(piece.bytes)).unwrap();
        if !is_slow && halves.1.try_recv().is_ok() {
            is_slow = true;
            relay.set_toxics(Way::Up, vec![slice]);
            relay.set(Way::Up, PathConfig::default().delay(Duration::from_millis(3))).unwrap();
        }
    }
    assert!(is_slow && receiving.join().unwrap() == sent, "bytes differ");
    assert_eq!(sending.join().unwrap(), b"answer");
    let up = relay.counters(Way::Up);
    assert_eq!(up.delivered_bytes, sent.len() as u64);
    // Twelve of 24 MiB came in pieces of up to one.
    assert!(up.delivered < 1_000, "{up:?}");
}

/// A segment that is lost stalls its stream until it is sent again; every byte arrives, in order, and the ends do.
#[test]
fn a_loss_is_a_stall_and_no_byte_is_missing() {
    let (listener, config) = listener();
    let lossy =
        PathConfig::default().delay(Duration::from_millis(1)).loss(Loss::Random(Probability::once_in(4)));
    let relay = start(config, Wan::builder().both(lossy).seed(3));
    let sent = noise(5, 400_000);
    let mut client = relay.connect();
    let echo = thread::spawn(move || {
        let mut socket = accept(&listener);
        std::io::copy(&mut socket.try_clone().unwrap(), &mut socket).unwrap();
    });
    let reader = client.try_clone().unwrap();
    let reading = thread::spawn(move || rest(&reader));
    client.write_all(&sent).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert!(reading.join().unwrap() == sent, "bytes differ");
    echo.join().unwrap();
    let (stats, ways) = relay.end();
    let lost = ways.map(|counters| counters.lost);
    assert!(lost.iter().all(|&lost| lost > 50), "{ways:?}");
    assert_eq!((stats.resent, stats.closed), (lost.iter().sum(), 1), "{stats:?}");
}

/// Nothing passes in an outage, and everything after it.
#[test]
fn an_outage_holds_a_stream_up() {
    let (listener, config) = listener();
    let scenario = Scenario::default().outage(Duration::ZERO, Some(Way::Up), Duration::from_millis(300));
    let mut relay = Relay::tcp(config, Wan::builder()).unwrap();
    relay.play(&scenario).unwrap();
    let begin = relay.now();
    let mut client = patient(TcpStream::connect(relay.local_addr().unwrap()).unwrap());
    client.write_all(b"hello").unwrap();
    let server = thread::spawn(move || {
        let mut buffer = [0; 5];
        accept(&listener).read_exact(&mut buffer).unwrap();
        (Monotonic.now(), buffer)
    });
    while !server.is_finished() && relay.now() < begin + WAIT {
        relay.run(Some(relay.now() + Duration::from_millis(20))).unwrap();
    }
    assert!(server.is_finished());
    let (at, got) = server.join().unwrap();
    assert_eq!(&got, b"hello");
    assert!(at >= begin + Duration::from_millis(300));
}

#[test]
fn what_a_stream_cannot_have_is_refused() {
    let (_listener, config) = listener();
    let twice = PathConfig::default().duplicate(Probability::once_in(9));
    let error = Relay::tcp(config, Wan::builder().up(twice.clone())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("cannot have duplicates"), "{error}");
    let mut relay = Relay::tcp(config, Wan::builder()).unwrap();
    assert_eq!(relay.set(Way::Down, twice), Err(PathError::Stream { what: "duplicates" }));
    let itself = StreamConfig { listen: config.upstream, ..config };
    assert!(Relay::tcp(itself, Wan::builder()).is_err());
}
