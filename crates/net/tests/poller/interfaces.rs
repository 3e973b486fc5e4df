//! The poller on interfaces, in a network of the test's own. Needs root and `ip`; says so where it has not got them.
//!
//! ```text
//!   test ──▶ near ═══ in ─▶ poller ─▶ out ═══ far ──▶ test         ═══ a virtual cable
//! ```

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use softtimers::{Clock, Monotonic};
use softtimers_net::packet::{FrameBatch, FrameReceiver, FrameSender, Interface};
use softtimers_net::poller::{Blocks, Drops, FrameInfo, Outputs, Packet, PacketConfig, PacketDevice, Poller};
use softtimers_poll::{Interrupts, Policy, Quota, SourceConfig, SourceId, SpinThenBlock};

use crate::WAIT;
use crate::network::{enter, ip, with_network};

type Frame<'a> = Packet<'a, FrameInfo>;
type Packets = Poller<PacketDevice, Box<dyn Policy>>;

pub(crate) fn interface(name: &str) -> Interface {
    Interface::named(name).unwrap()
}

fn config() -> PacketConfig {
    PacketConfig { promiscuous: true, ..PacketConfig::default() }
}

/// `in` and `out`, polled by `policy`.
fn forwarder(policy: impl Fn() -> Box<dyn Policy>, config: &PacketConfig) -> (Packets, [SourceId; 2]) {
    let mut poller = Poller::new().unwrap();
    let ports = ["in", "out"].map(|name| {
        let device = PacketDevice::open(&interface(name), config).unwrap();
        poller.add(device, SourceConfig::new(policy()).with_quota(Quota::new(8, 8))).unwrap()
    });
    (poller, ports)
}

fn interrupts() -> Box<dyn Policy> {
    Box::new(Interrupts)
}

fn forward(ports: [SourceId; 2]) -> impl FnMut(Frame<'_>, &mut Outputs<'_, PacketDevice>) {
    move |frame, outputs| {
        let to = if outputs.from() == ports[0] { ports[1] } else { ports[0] };
        outputs.send(to, frame.bytes, Some(frame.from));
    }
}

/// Runs rounds until nothing has come for a while.
fn settle(poller: &mut Packets, handler: impl FnMut(Frame<'_>, &mut Outputs<'_, PacketDevice>)) {
    take(poller, 0, handler);
}

/// Runs rounds until `count` frames have come, however long the kernel takes, and nothing more comes for a while.
fn take(
    poller: &mut Packets,
    count: usize,
    mut handler: impl FnMut(Frame<'_>, &mut Outputs<'_, PacketDevice>),
) {
    let (mut quiet, mut taken, until) = (0, 0, Monotonic.now() + WAIT);
    while quiet < 20 || (taken < count && Monotonic.now() < until) {
        quiet += 1;
        poller
            .wait(Some(Monotonic.now() + Duration::from_millis(1)), |frame, outputs| {
                (quiet, taken) = (0, taken + 1);
                handler(frame, outputs);
            })
            .unwrap();
    }
}

/// The frames that arrive at an interface.
struct Listener(FrameReceiver, FrameBatch);

impl Listener {
    fn at(name: &str) -> Self {
        Listener(FrameReceiver::on(&interface(name)).unwrap(), FrameBatch::new(64))
    }

    /// All that has come, as it is on a wire.
    fn heard(&mut self) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        while self.0.recv_batch(&mut self.1).is_ok() {
            for frame in self.1.iter() {
                frame.on_the_wire(&mut |bytes| all.push(bytes.to_vec())).unwrap();
            }
        }
        all
    }
}

/// A frame of an ethertype that nobody else uses, with its number in it, of `length` bytes in all.
fn numbered(number: u32, length: usize) -> Vec<u8> {
    let mut frame = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5][..], &number.to_be_bytes()].concat();
    frame.extend((frame.len()..length).map(|at| (at as u32 ^ number) as u8));
    frame
}

/// Returns such a frame with tags.
fn tagged(number: u32, tags: &[[u16; 2]]) -> Vec<u8> {
    let mut frame = numbered(number, 100);
    let tags: Vec<u8> = tags.iter().flatten().flat_map(|half| half.to_be_bytes()).collect();
    frame.splice(12..12, tags);
    frame
}

/// Short and long, with tags and tags in tags, and longer than a slot: each as it was sent, in order, both ways.
#[test]
fn frames_cross_as_they_are() {
    with_network(|_| {
        let spin: fn() -> Box<dyn Policy> = || Box::new(SpinThenBlock::new(Duration::from_micros(50)));
        for policy in [interrupts, spin] {
            let (mut poller, ports) = forwarder(policy, &config());
            for (from, to) in [("near", "far"), ("far", "near")] {
                let (sender, mut listener) = (FrameSender::on(&interface(from)).unwrap(), Listener::at(to));
                let mut frames: Vec<_> = [18, 60, 64, 65, 1_000, 1_514, 1_952, 1_953, 4_000, 9_014]
                    .into_iter()
                    .zip(0..)
                    .map(|(length, number)| numbered(number, length))
                    .collect();
                frames.push(tagged(20, &[[0x8100, 0x2005]]));
                frames.push(tagged(21, &[[0x88a8, 7], [0x8100, 0xe009]]));
                frames.push(tagged(22, &[[0x8100, 1], [0x8100, 2], [0x8100, 3]]));
                frames.extend((30..130).map(|number| numbered(number, 60)));
                let (mut taken, mut truncated) = (0, 0);
                let mut forward = forward(ports);
                for frame in &frames {
                    sender.send(frame).unwrap();
                }
                take(&mut poller, frames.len(), |frame, outputs| {
                    taken += 1;
                    truncated += u32::from(frame.truncated);
                    assert!(frame.arrived.is_some_and(|at| at <= Monotonic.now()));
                    forward(frame, outputs);
                });
                assert_eq!((taken, truncated), (frames.len(), 0));
                let heard = listener.heard();
                assert_eq!(heard.len(), frames.len());
                heard.iter().zip(&frames).for_each(|(heard, sent)| assert!(heard == sent, "{heard:x?}"));
            }
            for port in ports {
                let (stats, drops) = (poller.source_stats(port), poller.drops(port).unwrap());
                assert_eq!(
                    (stats.packets, drops),
                    (113, Drops::default()),
                    "what we send does not come back"
                );
                assert!(stats.turns >= stats.packets.div_ceil(8), "a turn is eight at the most: {stats:?}");
            }
        }
    });
}

/// A burst that is longer than the ring, and an output that is shorter than a turn: what came in has left, or is counted where
/// it was lost.
#[test]
fn what_does_not_arrive_is_counted_where_it_was_lost() {
    with_network(|_| {
        let config = PacketConfig { slots: 64, output: 4, ..config() };
        let (mut poller, ports) = forwarder(interrupts, &config);
        assert_eq!(poller.device(ports[0]).slots(), 64);
        let (sender, mut listener) = (FrameSender::on(&interface("near")).unwrap(), Listener::at("far"));
        for number in 0..1_000 {
            sender.send(&numbered(number, 60)).unwrap();
        }
        // What the ring had no room for, before any of it is taken out.
        let until = Monotonic.now() + WAIT;
        while poller.drops(ports[0]).unwrap().ring < 936 && Monotonic.now() < until {}
        take(&mut poller, 64, forward(ports));
        let (drops, heard) = (poller.drops(ports[0]).unwrap(), listener.heard());
        assert_eq!((drops.ring, drops.interface), (936, 0));
        // Eight a turn, into room for four.
        assert_eq!((drops.output, heard.len()), (32, 32));
        assert_eq!(heard.len() as u64 + drops.total(), 1_000);
        // Asking resets the kernel's counter, not ours.
        assert_eq!(poller.drops(ports[0]).unwrap(), drops);
        assert_eq!(poller.drops(ports[1]).unwrap(), Drops::default());
    });
}

/// Beside a sender at full speed, a rule that drops and frames that are too long for the way out.
#[test]
fn a_flood_is_accounted_for_to_the_frame() {
    with_network(|network| {
        ip("link set out mtu 1500").unwrap();
        let (mut poller, ports) = forwarder(interrupts, &PacketConfig { slots: 128, ..config() });
        let (mut listener, name) = (Listener::at("far"), network.0.clone());
        let flood = thread::spawn(move || {
            enter(&name);
            {
                let sender = FrameSender::on(&interface("near")).unwrap();
                let sent = |number: &u32| {
                    sender.send(&numbered(*number, if number % 10 == 0 { 2_000 } else { 60 })).is_ok()
                };
                (0..50_000).filter(sent).count() as u64
            }
        });
        let (mut forward, mut number, mut heard) = (forward(ports), 0, 0);
        let until = Monotonic.now() + WAIT;
        while !flood.is_finished() && Monotonic.now() < until {
            let soon = Monotonic.now() + Duration::from_millis(1);
            poller
                .wait(Some(soon), |frame, outputs| {
                    number += 1;
                    if number % 7 == 0 { outputs.drop_by_rule() } else { forward(frame, outputs) }
                })
                .unwrap();
            heard += listener.heard().len();
        }
        let sent = flood.join().unwrap();
        let [here, there] = loop {
            settle(&mut poller, &mut forward);
            heard += listener.heard().len();
            let drops @ [here, there] = ports.map(|port| poller.drops(port).unwrap());
            if poller.stats().sent + here.total() + there.total() >= sent || Monotonic.now() >= until {
                break drops;
            }
        };
        assert!(here.rule > 0 && there.output > 0, "{here:?} {there:?}");
        assert_eq!(poller.device(ports[1]).outages(), 0);
        let (left, deaf) = (poller.stats().sent, u64::from(listener.1.drops()));
        assert_eq!(sent, left + here.total() + there.total(), "{here:?} {there:?}");
        assert!(heard as u64 + deaf <= left);
    });
}

/// The interface is switched off and on again, under every policy that asks.
#[test]
fn a_link_that_returns_carries_on() {
    with_network(|_| {
        let (mut poller, ports) = forwarder(interrupts, &config());
        let (near, far) =
            (FrameSender::on(&interface("near")).unwrap(), FrameSender::on(&interface("far")).unwrap());
        let mut listener = Listener::at("far");
        near.send(&numbered(1, 60)).unwrap();
        take(&mut poller, 1, forward(ports));
        assert_eq!(listener.heard().len(), 1);

        ip("link set out down").unwrap();
        near.send(&numbered(2, 60)).unwrap();
        take(&mut poller, 1, forward(ports));
        let before = poller.stats().rounds;
        settle(&mut poller, forward(ports));
        let rounds = poller.stats().rounds - before;
        assert!(rounds < 60, "{rounds} rounds: it spins");
        let device = poller.device(ports[1]);
        assert!(device.outages() > 0 && !device.is_gone());
        assert_eq!(poller.drops(ports[1]).unwrap().output, 1, "not sent later, when it is stale");

        ip("link set out up").unwrap();
        let until = Monotonic.now() + WAIT;
        let mut heard = Vec::new();
        // The kernel lets frames through some time after it says that the interface is up; and the receiver of the test
        // has the outage to report as well.
        while heard.is_empty() && Monotonic.now() < until {
            near.send(&numbered(3, 60)).unwrap();
            settle(&mut poller, forward(ports));
            heard = listener.heard();
            heard.extend(listener.heard());
        }
        assert!(!heard.is_empty() && heard.iter().all(|frame| *frame == numbered(3, 60)), "{heard:?}");
        let mut returned = 0;
        while returned == 0 && Monotonic.now() < until {
            let _ = far.send(&numbered(4, 60));
            settle(&mut poller, |frame, _| returned += u32::from(frame.bytes == numbered(4, 60)));
        }
        assert_eq!(returned, 1);
    });
}

/// The interface is removed: an error, once, and silence.
#[test]
fn an_interface_that_vanishes_is_told_once() {
    with_network(|_| {
        let (mut poller, ports) = forwarder(interrupts, &config());
        settle(&mut poller, forward(ports));
        ip("link del out").unwrap();
        let near = FrameSender::on(&interface("near")).unwrap();
        near.send(&numbered(1, 60)).unwrap();
        let (mut errors, until) = (Vec::new(), Monotonic.now() + WAIT);
        let mut round = |poller: &mut Packets| {
            let soon = Monotonic.now() + Duration::from_millis(1);
            errors.extend(poller.wait(Some(soon), forward(ports)).err());
            !errors.is_empty()
        };
        while !(round(&mut poller) && poller.source_stats(ports[0]).packets > 0) && Monotonic.now() < until {}
        let before = poller.stats().rounds;
        (0..40).for_each(|_| _ = round(&mut poller));
        let errors: Vec<_> = errors.iter().map(Errno::from_io_error).collect();
        assert_eq!(errors, [Some(Errno::NODEV)]);
        assert!(poller.stats().rounds - before < 100);
        assert!(poller.device(ports[1]).is_gone() && !poller.device(ports[0]).is_gone());
        // The other one goes on.
        assert_eq!(poller.source_stats(ports[0]).packets, 1);
        assert_eq!(poller.drops(ports[1]).unwrap().output, 1);
    });
}

/// A frame that came before the wake-up was enabled wakes the poller, and so does one that came after.
#[test]
fn frames_around_the_arming_are_seen() {
    with_network(|_| {
        let (mut poller, ports) = forwarder(interrupts, &config());
        let near = FrameSender::on(&interface("near")).unwrap();
        for number in 0..300 {
            near.send(&numbered(number, 60)).unwrap();
            let (mut seen, until) = (0, Monotonic.now() + WAIT);
            while seen == 0 && Monotonic.now() < until {
                poller.wait(Some(until), |_, _| seen += 1).unwrap();
            }
            assert_eq!(seen, 1);
        }
        let stats = poller.source_stats(ports[0]);
        assert!(stats.woken <= stats.armed - stats.raced, "{stats:?}");
    });
}

/// A datagram of IPv4 between two ports, which the kernel can tell apart.
fn datagram(port: u16, number: u32) -> Vec<u8> {
    let mut frame = numbered(number, 14);
    frame.truncate(12);
    frame.extend([0x08, 0, 0x45, 0, 0, 32, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2]);
    frame.extend([port.to_be_bytes(), [0, 9], [0, 12], [0, 0]].concat());
    frame.extend(number.to_be_bytes());
    frame
}

/// Two pollers on two threads: each frame comes to one of them, and flows neither part nor change their order.
#[test]
fn shares_of_an_interface_are_disjoint_and_whole() {
    with_network(|_| {
        let devices = PacketDevice::sharded(&interface("in"), &config(), 2).unwrap();
        let threads: Vec<_> = devices
            .into_iter()
            .map(|device| {
                thread::spawn(move || {
                    let mut poller: Packets = Poller::new().unwrap();
                    poller.add(device, SourceConfig::new(interrupts())).unwrap();
                    let mut flows: BTreeMap<u16, Vec<u32>> = BTreeMap::new();
                    let (mut last, until) = (false, Monotonic.now() + WAIT);
                    while !last && Monotonic.now() < until {
                        let soon = Monotonic.now() + Duration::from_millis(100);
                        poller
                            .wait(Some(soon), |frame, _| {
                                let Some([high, low]) =
                                    frame.bytes.get(34..36).and_then(<[u8]>::first_chunk).copied()
                                else {
                                    return;
                                };
                                let number =
                                    frame.bytes[42..46].first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
                                flows.entry(u16::from_be_bytes([high, low])).or_default().extend(number);
                                last |= number == Some(u32::MAX);
                            })
                            .unwrap();
                    }
                    flows
                })
            })
            .collect();
        let near = FrameSender::on(&interface("near")).unwrap();
        for number in 0..2_000u32 {
            near.send(&datagram(1_000 + (number % 40) as u16, number)).unwrap();
        }
        // The last one, to each of them: some flow of these is theirs.
        (2_000..2_200).for_each(|port| near.send(&datagram(port, u32::MAX)).unwrap());
        let shares: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        let mut all = Vec::<u32>::new();
        for (share, flows) in shares.iter().enumerate() {
            assert!(!flows.is_empty());
            for (port, numbers) in flows.iter().filter(|(port, _)| **port < 2_000) {
                assert!(!shares[1 - share].contains_key(port), "the flow of port {port} has parted");
                assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "of port {port}: {numbers:?}");
                all.extend(numbers);
            }
        }
        all.sort_unstable();
        assert_eq!(all, (0..2_000).collect::<Vec<_>>());
    });
}

#[test]
fn what_cannot_be_is_refused() {
    with_network(|_| {
        let refused =
            |config: &PacketConfig| PacketDevice::open(&interface("in"), config).unwrap_err().to_string();
        let message = refused(&PacketConfig { slots: 1, ..config() });
        assert_eq!(message, "1 slots, not 2 to 65536");
        let message = refused(&PacketConfig { max_frame: 70_000, ..config() });
        assert_eq!(message, "70000 bytes of a frame, not 64 to 65536");
        let blocks = Blocks { block: 1 << 16, blocks: 2, retire: Duration::from_millis(1) };
        let blocks = PacketConfig { blocks: Some(blocks), ..config() };
        for (config, shares) in [(config(), 0), (config(), 257), (blocks, 1)] {
            let error = PacketDevice::sharded(&interface("in"), &config, shares).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("{shares} shares of an interface, not 1 to 256 with slots")
            );
        }
        ip("link set in down").unwrap();
        assert_eq!(PacketDevice::open(&interface("in"), &config()).unwrap().outages(), 1);
    });
}

/// Does something on a host.
fn at<T: Send + 'static>(host: String, what: impl FnOnce() -> T + Send + 'static) -> thread::JoinHandle<T> {
    thread::spawn(move || {
        enter(&host);
        what()
    })
}

/// The kernels' own TCP between two hosts: what senders leave to interfaces, checksums and cuts, is done.
#[test]
fn joined_frames_and_missing_checksums_cross() {
    with_network(|network| {
        let (near, far) = (network.host("near", "10.96.0.1/24"), network.host("far", "10.96.0.2/24"));
        let (mut poller, ports) = forwarder(interrupts, &config());
        let listener = at(far, || TcpListener::bind("10.96.0.2:7000").unwrap()).join().unwrap();
        let server = thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            socket.set_read_timeout(Some(WAIT)).unwrap();
            let mut all = Vec::new();
            socket.read_to_end(&mut all).unwrap();
            all
        });
        let sent: Vec<u8> = (0..1_000_000u32).flat_map(u32::to_ne_bytes).collect();
        let copy = sent.clone();
        let client = at(near, move || {
            let mut socket = TcpStream::connect("10.96.0.2:7000").unwrap();
            socket.set_write_timeout(Some(WAIT)).unwrap();
            socket.write_all(&copy).unwrap();
            socket.shutdown(Shutdown::Write).unwrap();
        });
        let (mut forward, mut joined, mut unsummed, until) = (forward(ports), 0, 0, Monotonic.now() + WAIT);
        while !server.is_finished() && Monotonic.now() < until {
            poller
                .wait(Some(Monotonic.now() + Duration::from_millis(5)), |frame, outputs| {
                    joined += u32::from(frame.from.offload.segments.is_some());
                    unsummed += u32::from(frame.from.offload.checksum.is_some());
                    forward(frame, outputs);
                })
                .unwrap();
        }
        client.join().unwrap();
        assert!(server.join().unwrap() == sent);
        assert!(joined > 0 && unsummed > joined, "{joined} joined, {unsummed} without a checksum");
        ports.iter().for_each(|&port| assert_eq!(poller.drops(port).unwrap(), Drops::default()));
    });
}

/// An output that is told nothing gets frames that lack nothing.
#[test]
fn a_checksum_may_be_completed_by_a_handler() {
    with_network(|network| {
        let (near, far) = (network.host("near", "10.96.0.1/24"), network.host("far", "10.96.0.2/24"));
        let (mut poller, ports) = forwarder(interrupts, &config());
        let server = at(far, || UdpSocket::bind("10.96.0.2:7000").unwrap()).join().unwrap();
        server.set_nonblocking(true).unwrap();
        let client = at(near, || UdpSocket::bind("10.96.0.1:7000").unwrap()).join().unwrap();
        let (mut got, mut completed, until) = (None, 0, Monotonic.now() + WAIT);
        let mut buffer = [0; 64];
        while got.is_none() && Monotonic.now() < until {
            client.send_to(b"hello", "10.96.0.2:7000").unwrap();
            settle(&mut poller, |frame, outputs| {
                let to = if outputs.from() == ports[0] { ports[1] } else { ports[0] };
                let mut offload = frame.from.offload;
                completed += u32::from(offload.checksum.is_some());
                offload.complete_checksum(frame.bytes).unwrap();
                outputs.send(to, frame.bytes, None);
            });
            got = server.recv(&mut buffer).ok();
        }
        assert_eq!(got.map(|length| &buffer[..length]), Some(&b"hello"[..]));
        assert!(completed > 0);
    });
}
