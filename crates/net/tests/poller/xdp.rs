//! AF_XDP between two virtual cables in a namespace of its own. Needs root and `ip`; says so where it has not got
//! them.
//!
//! ```text
//!   a0 ══ a1 ─▶ devices ─▶ b1 ══ b0
//! ```

use std::io::{self, BufRead, BufReader, ErrorKind};
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use softtimers::{Clock, Monotonic, Random, Timestamp};
use softtimers_net::packet::{FrameBatch, FrameReceiver, FrameSender, Interface};
use softtimers_net::poller::{Device, Outputs, Packet, Poller, Transmit, XdpDevice};
use softtimers_poll::{Interrupts, Quota, SourceConfig, SourceId};

use crate::network;
use crate::skipped::skipped;

/// Cables in a network that is named after this process and the test, and is deleted at the end.
pub(crate) struct Cables(String);

impl Cables {
    fn lay(test: &str, queues: u32) -> Result<Self, String> {
        let cables = Cables(format!("softtimers-xdp-{}-{test}", std::process::id()));
        network::ip(&format!("netns add {}", cables.0))?;
        for (one, other) in [("a0", "a1"), ("b0", "b1")] {
            let queues = format!("numtxqueues {queues} numrxqueues {queues}");
            cables.ip(&format!("link add {one} {queues} type veth peer name {other} {queues}"))?;
            for end in [one, other] {
                // Without addresses of IPv6 nothing is sent that the test has not sent.
                cables.ip(&format!("link set {end} addrgenmode none up"))?;
            }
        }
        Ok(cables)
    }

    fn ip(&self, words: &str) -> Result<(), String> {
        network::ip(&format!("-n {} {words}", self.0))
    }
}

impl Drop for Cables {
    fn drop(&mut self) {
        let _ = network::ip(&format!("netns del {}", self.0));
    }
}

/// Runs a test on a thread in the namespace, whose name is that of the test.
pub(crate) fn with_cables(test: &str, body: impl FnOnce(&Cables) + Send) {
    with_queues(test, 1, body);
}

/// Runs `body` between cables with `queues` queues at each end.
fn with_queues(test: &str, queues: u32, body: impl FnOnce(&Cables) + Send) {
    let cables = match Cables::lay(test, queues) {
        Ok(cables) => cables,
        Err(reason) => return skipped(&format!("no virtual cables: {reason}")),
    };
    if let Err(reason) = possible() {
        return skipped(&reason);
    }
    inside(&cables, || body(&cables));
}

/// Says whether there can be AF_XDP here, tried on cables of its own: where other tests start programs at this moment,
/// an interface stays occupied for a while after its device was closed.
fn possible() -> Result<(), String> {
    static POSSIBLE: OnceLock<Result<(), String>> = OnceLock::new();
    let try_it = || {
        let cables = Cables::lay("possible", 1)?;
        let tried = inside(&cables, || XdpDevice::on(&interface("a1"), XdpDevice::ENTRIES).map(drop));
        tried.map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied | ErrorKind::Unsupported => error.to_string(),
            _ => panic!("{error}"),
        })
    };
    POSSIBLE.get_or_init(try_it).clone()
}

/// On a thread in the namespace.
fn inside<T: Send>(cables: &Cables, body: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let inside = scope.spawn(|| {
            network::enter(&cables.0);
            body()
        });
        inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// A device, when the interface is free again of the one that was closed.
fn again() -> XdpDevice {
    let until = deadline();
    loop {
        match XdpDevice::on(&interface("a1"), XdpDevice::ENTRIES) {
            Err(error) if error.kind() == ErrorKind::ResourceBusy && Monotonic.now() < until => {
                thread::yield_now();
            }
            device => return device.unwrap(),
        }
    }
}

fn interface(name: &str) -> Interface {
    Interface::named(name).unwrap()
}

/// A device on a1 and one on b1.
fn devices(entries: u32) -> io::Result<Vec<XdpDevice>> {
    XdpDevice::on_all(&[interface("a1"), interface("b1")], entries)
}

/// No wait is longer than this, whatever is lost.
const WAIT_LIMIT: Duration = Duration::from_secs(20);

fn deadline() -> Timestamp {
    Monotonic.now() + WAIT_LIMIT
}

/// A frame of an ethertype for experiments, all different.
fn frame(number: u32, length: usize) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([0x88, 0xb5]);
    frame.extend(number.to_be_bytes());
    frame.extend((0..length.saturating_sub(18)).map(|at| (at as u32 * 7).wrapping_add(number) as u8));
    frame
}

/// Two devices, each passing on to the other.
fn forwarder(entries: u32, quota: u32) -> Poller<XdpDevice, Interrupts> {
    let mut poller = Poller::new().unwrap();
    for device in devices(entries).unwrap() {
        poller.add(device, SourceConfig::new(Interrupts).with_quota(Quota::new(quota, quota))).unwrap();
    }
    poller
}

fn across(
    packet: Packet<'_, softtimers_net::poller::FrameInfo>,
    outputs: &mut Outputs<'_, XdpDevice>,
) -> bool {
    let other = SourceId::from_index(1 - outputs.from().index() as u32);
    outputs.send(other, packet.bytes, Some(packet.from))
}

/// The frames that arrive at one end until nothing more is expected, while the poller forwards.
fn arrivals(
    poller: &mut Poller<XdpDevice, Interrupts>,
    receiver: &FrameReceiver,
    mut enough: impl FnMut(&mut Poller<XdpDevice, Interrupts>, &[Vec<u8>]) -> bool,
) -> Vec<Vec<u8>> {
    let (mut frames, mut batch, until) = (Vec::new(), FrameBatch::new(64), deadline());
    while !enough(poller, &frames) && Monotonic.now() < until {
        poller
            .wait(Some(Monotonic.now() + Duration::from_millis(1)), |packet, outputs| {
                across(packet, outputs);
            })
            .unwrap();
        match receiver.recv_batch(&mut batch) {
            Ok(_) => frames.extend(batch.iter().map(|frame| frame.bytes.to_vec())),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }
    frames
}

/// Every byte, in order, of every length, both ways.
#[test]
fn frames_cross_unchanged() {
    with_cables("cross", |_| {
        let mut poller = forwarder(256, 16);
        for (from, to) in [("a0", "b0"), ("b0", "a0")] {
            let sender = FrameSender::on(&interface(from)).unwrap();
            let receiver = FrameReceiver::on(&interface(to)).unwrap();
            let sent: Vec<_> = (0..1_000).map(|n| frame(n, 18 + n as usize * 13 % 1_497)).collect();
            let mut arrived = Vec::new();
            for burst in sent.chunks(32) {
                burst.iter().for_each(|frame| sender.send(frame).unwrap());
                arrived.extend(arrivals(&mut poller, &receiver, |_, frames| frames.len() >= burst.len()));
            }
            assert_eq!(arrived.len(), sent.len());
            assert!(arrived == sent, "{from} to {to}");
        }
        for index in 0..2 {
            let source = SourceId::from_index(index);
            assert_eq!(poller.drops(source).unwrap().total(), 0);
        }
        assert_eq!(poller.stats().sent, 2_000);
    });
}

/// A frame that is sent as a copy may be changed afterwards; several outputs get a frame each.
#[test]
fn copies_are_copies() {
    with_cables("copies", |_| {
        let mut poller = forwarder(64, 16);
        let (a0, b0) = (interface("a0"), interface("b0"));
        let (near, far) = (FrameReceiver::on(&a0).unwrap(), FrameReceiver::on(&b0).unwrap());
        FrameSender::on(&a0).unwrap().send(&frame(7, 64)).unwrap();
        let (mut back, mut there, mut batch, until) =
            (Vec::new(), Vec::new(), FrameBatch::new(4), deadline());
        while (back.is_empty() || there.len() < 3) && Monotonic.now() < until {
            poller
                .wait(Some(Monotonic.now() + Duration::from_millis(1)), |packet, outputs| {
                    let (here, other) = (outputs.from(), SourceId::from_index(1));
                    assert!(outputs.send(other, packet.bytes, None));
                    packet.bytes[17] = 8;
                    assert!(outputs.send(here, &packet.bytes[..60], None));
                    packet.bytes[17] = 9;
                    assert!(outputs.send(other, &packet.bytes[4..], None));
                    assert!(outputs.send(other, packet.bytes, None));
                    assert!(!outputs.send(other, &[0; 13], None), "no header");
                    assert!(!outputs.send(other, &[0; 5_000], None), "no room");
                })
                .unwrap();
            for (receiver, frames) in [(&near, &mut back), (&far, &mut there)] {
                if receiver.recv_batch(&mut batch).is_ok() {
                    frames.extend(batch.iter().map(|frame| frame.bytes.to_vec()));
                }
            }
        }
        let numbered = |number: u8| {
            let mut frame = frame(7, 64);
            frame[17] = number;
            frame
        };
        assert_eq!(back, [&numbered(8)[..60]]);
        assert_eq!(there, [&numbered(7), &numbered(9)[4..], &numbered(9)]);
        assert_eq!(poller.drops(SourceId::from_index(0)).unwrap().output, 2);
    });
}

/// Far more than the ring holds: what came in went out or was counted, and all of it works afterwards.
#[test]
fn nothing_is_lost_uncounted() {
    with_cables("count", |_| {
        let mut poller = forwarder(64, 64);
        let sender = FrameSender::on(&interface("a0")).unwrap();
        let receiver = FrameReceiver::on(&interface("b0")).unwrap();
        let a1 = SourceId::from_index(0);
        for round in 0..3u32 {
            let before = poller.drops(a1).unwrap().ring;
            (0..500).for_each(|n| sender.send(&frame(round * 500 + n, 100)).unwrap());
            let arrived = arrivals(&mut poller, &receiver, |poller, frames| {
                poller.drops(a1).unwrap().ring - before + frames.len() as u64 == 500
            });
            let dropped = poller.drops(a1).unwrap();
            assert_eq!((dropped.interface, dropped.rule, dropped.queue, dropped.output), (0, 0, 0, 0));
            assert_eq!(dropped.ring - before + arrived.len() as u64, 500);
            assert!(arrived.len() >= 64, "a ring of them");
        }
    });
}

/// Another program stays, and is named.
#[test]
fn what_is_there_already_stays() {
    with_cables("stays", |_| {
        let mut poller = forwarder(XdpDevice::ENTRIES, 16);
        let error = XdpDevice::on(&interface("a1"), XdpDevice::ENTRIES).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ResourceBusy);
        let message = error.to_string();
        assert!(message.starts_with("a1: another XDP program is attached (softtimers, number "), "{message}");
        FrameSender::on(&interface("a0")).unwrap().send(&frame(1, 60)).unwrap();
        let receiver = FrameReceiver::on(&interface("b0")).unwrap();
        assert_eq!(arrivals(&mut poller, &receiver, |_, frames| !frames.is_empty()), [frame(1, 60)]);
        drop(poller);
        drop(again());
    });
}

/// Killed at any time: nothing is left, and another one begins where it was.
#[test]
fn it_is_attached_again_after_a_kill() {
    const INSIDE: &str = "SOFTTIMERS_TEST_XDP_INSIDE";
    if std::env::var_os(INSIDE).is_some() {
        // The child, which is in the namespace already.
        let mut poller = forwarder(XdpDevice::ENTRIES, 16);
        println!("attached");
        loop {
            poller.wait(None, |packet, outputs| _ = across(packet, outputs)).unwrap();
        }
    }
    with_cables("kill", |_| {
        for round in 0..3 {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "xdp::it_is_attached_again_after_a_kill", "--nocapture"])
                .env(INSIDE, "")
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
            let attached = lines.any(|line| line.is_ok_and(|line| line.contains("attached")));
            // SIGKILL
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(attached, "round {round}");
        }
        let mut poller = forwarder(XdpDevice::ENTRIES, 16);
        FrameSender::on(&interface("a0")).unwrap().send(&frame(1, 60)).unwrap();
        let receiver = FrameReceiver::on(&interface("b0")).unwrap();
        assert_eq!(arrivals(&mut poller, &receiver, |_, frames| !frames.is_empty()), [frame(1, 60)]);
    });
}

/// A cable that is unplugged loses what is under way, counted; plugged in again it carries. One that is gone for good
/// is an error, not a loop.
#[test]
fn a_link_goes_down_and_comes_back() {
    with_cables("link", |cables| {
        let mut poller = forwarder(64, 16);
        let sender = FrameSender::on(&interface("a0")).unwrap();
        let far = interface("b0");
        let carries = |poller: &mut Poller<_, _>, number| {
            let (receiver, mark) = (FrameReceiver::on(&far).unwrap(), frame(number, 60));
            sender.send(&mark).unwrap();
            let arrived = arrivals(poller, &receiver, |_, frames| {
                let came = frames.contains(&mark);
                if !came {
                    // Behind what had to wait there is not always room.
                    sender.send(&mark).unwrap();
                }
                came
            });
            assert!(arrived.contains(&mark), "{number}: {} others came", arrived.len());
        };
        carries(&mut poller, 1);
        for (down, number) in [("b0", 100), ("b1", 200), ("a1", 300)] {
            cables.ip(&format!("link set {down} down")).unwrap();
            for n in 0..100 {
                // Where the cable itself is unplugged the send fails.
                let _ = sender.send(&frame(number + n, 60));
                let soon = Some(Monotonic.now() + Duration::from_micros(100));
                poller.wait(soon, |packet, outputs| _ = across(packet, outputs)).unwrap();
            }
            cables.ip(&format!("link set {down} up")).unwrap();
            carries(&mut poller, number + 999);
        }
        let drops = poller.drops(SourceId::from_index(1)).unwrap();
        assert!(drops.output > 0, "{drops:?}");
        cables.ip("link del a0").unwrap();
        let until = deadline();
        let error = loop {
            assert!(Monotonic.now() < until, "nobody says that it is gone");
            if let Err(error) = poller.drops(SourceId::from_index(0)) {
                break error;
            }
        };
        assert_eq!(error.raw_os_error(), Some(19), "ENODEV, not {error}");
        assert!(poller.device(SourceId::from_index(0)).is_gone());
    });
}

/// No wake-up says that an interface was removed: a poller that sleeps finds it all the same.
#[test]
fn a_poller_that_sleeps_is_told_that_an_interface_vanished() {
    with_cables("vanished", |cables| {
        let mut poller = forwarder(64, 16);
        let sources = [0, 1].map(SourceId::from_index);
        let until = deadline();
        while !sources.iter().all(|&source| poller.is_armed(source)) {
            assert!(Monotonic.now() < until, "it never rests");
            let soon = Monotonic.now() + Duration::from_millis(1);
            poller.wait(Some(soon), |packet, outputs| _ = across(packet, outputs)).unwrap();
        }
        cables.ip("link del a0").unwrap();
        // A wait may end for another reason first.
        let told = (0..10).find_map(|_| {
            let late = Monotonic.now() + Duration::from_secs(5);
            poller.wait(Some(late), |packet, outputs| _ = across(packet, outputs)).err()
        });
        assert_eq!(told.and_then(|error| error.raw_os_error()), Some(19), "ENODEV");
        assert!(poller.device(sources[0]).is_gone() && !poller.device(sources[1]).is_gone());
    });
}

/// As many frames of noise as of sense: none of them stops it.
#[test]
fn hostile_frames_are_passed_on_or_counted() {
    with_cables("hostile", |_| {
        let mut poller = forwarder(256, 16);
        let sender = FrameSender::on(&interface("a0")).unwrap();
        let receiver = FrameReceiver::on(&interface("b0")).unwrap();
        let mut random = Random::stream(7, 0);
        let mut noise = Vec::new();
        for number in 0..300u32 {
            // Headers that contradict their frame: fragments, tags in tags, lengths beyond all bounds.
            let length = 14 + (random.next_u64() % 1_500) as usize;
            let mut bytes = frame(number, length.max(18));
            bytes.iter_mut().skip(14).for_each(|byte| *byte = random.next_u64() as u8);
            let kinds = [0x0800u16, 0x86dd, 0x8100, 0x88a8, 0x0806, 0xffff];
            bytes[12..14].copy_from_slice(&kinds[number as usize % kinds.len()].to_be_bytes());
            noise.push(bytes);
        }
        let mut arrived = 0;
        for burst in noise.chunks(16) {
            burst.iter().for_each(|bytes| sender.send(bytes).unwrap());
            arrived += arrivals(&mut poller, &receiver, |_, frames| frames.len() >= burst.len()).len();
        }
        assert_eq!(arrived, noise.len());
    });
}

/// The reasons that the kernel gives by a number are put into words.
#[test]
fn cables_that_cannot_have_a_program_say_why() {
    with_cables("why", |cables| {
        let refused = |part: &str| {
            let error = XdpDevice::on(&interface("a1"), XdpDevice::ENTRIES).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        };
        cables.ip("link set a1 mtu 9000").unwrap();
        refused("a1: an MTU of 9000; at most 3818 is allowed");
        cables.ip("link set a1 mtu 1500").unwrap();
        cables.ip("link set a0 mtu 9000").unwrap();
        refused("the other end's MTU is too large");
    });
}

#[test]
fn rings_of_other_sizes_are_refused() {
    for entries in [0, 63, 65, 65_536, u32::MAX] {
        let error = XdpDevice::on_all(&[], entries).unwrap_err();
        assert!(error.to_string().contains(&format!("{entries} entries")), "{error}");
    }
}

/// All queues of an interface are one device, whichever a frame comes by.
#[test]
fn several_queues_are_one_device() {
    with_queues("queues", 3, |_| {
        let mut poller = forwarder(64, 4);
        assert_eq!(poller.device(SourceId::from_index(0)).queues(), 3);
        let sender = FrameSender::on(&interface("a0")).unwrap();
        let receiver = FrameReceiver::on(&interface("b0")).unwrap();
        // The kernel spreads flows over queues, so these differ in their ports.
        let flow = |port: u16| {
            let mut frame = frame(port.into(), 60);
            let header = [8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
            frame[12..34].copy_from_slice(&header);
            frame[34..36].copy_from_slice(&port.to_be_bytes());
            frame
        };
        let sent: Vec<_> = (0..300).map(flow).collect();
        let mut arrived = Vec::new();
        for burst in sent.chunks(10) {
            burst.iter().for_each(|frame| sender.send(frame).unwrap());
            arrived.extend(arrivals(&mut poller, &receiver, |_, frames| frames.len() >= burst.len()));
        }
        arrived.sort_by_key(|frame| u16::from_be_bytes([frame[34], frame[35]]));
        assert!(arrived == sent, "{} of {}", arrived.len(), sent.len());
    });
}

/// Each share has some of the queues of both interfaces and a thread of its own: together they have all frames, and those
/// of a flow in order.
#[test]
#[allow(clippy::too_many_lines, reason = "one scene, from its setting to its end")]
fn shares_of_queues_are_disjoint_and_whole() {
    with_queues("shares", 3, |cables| {
        let ports = [interface("a1"), interface("b1")];
        let refused = |shares| XdpDevice::sharded(&ports, 256, shares).unwrap_err();
        assert!(refused(4).to_string().starts_with("a1: 4 shares of 3 queues that receive and 3 "));
        cables.ip("link add t1 numtxqueues 1 numrxqueues 3 type veth peer name t0").unwrap();
        let error = XdpDevice::sharded(&[interface("t1")], 256, 2).unwrap_err();
        let told =
            "t1: 2 shares of 3 queues that receive and 1 that send; each wants one of both (ethtool -L t1 ";
        assert!(error.to_string().starts_with(told), "{error}");
        assert_eq!(refused(0).kind(), ErrorKind::InvalidInput);

        let shares = XdpDevice::sharded(&ports, 256, 2).unwrap();
        assert_eq!(shares.iter().map(|share| share[0].queues()).collect::<Vec<_>>(), [2, 1]);
        let (sender, receiver) =
            (FrameSender::on(&interface("a0")).unwrap(), FrameReceiver::on(&interface("b0")).unwrap());
        let (over, last) = (AtomicBool::new(false), deadline());
        let taken: Vec<u64> = thread::scope(|scope| {
            let threads: Vec<_> = shares
                .into_iter()
                .map(|share| {
                    let over = &over;
                    scope.spawn(move || {
                        let mut poller: Poller<XdpDevice, Interrupts> = Poller::new().unwrap();
                        for device in share {
                            poller.add(device, SourceConfig::new(Interrupts)).unwrap();
                        }
                        while !over.load(Ordering::Relaxed) && Monotonic.now() < last {
                            let soon = Monotonic.now() + Duration::from_millis(5);
                            poller.wait(Some(soon), |packet, outputs| _ = across(packet, outputs)).unwrap();
                        }
                        let source = SourceId::from_index(0);
                        assert_eq!(poller.drops(source).unwrap().total(), 0);
                        poller.source_stats(source).packets
                    })
                })
                .collect();
            let (mut came, mut batch, until) = (Vec::new(), FrameBatch::new(64), deadline());
            for burst in 0..20u32 {
                for number in burst * 100..(burst + 1) * 100 {
                    let mut frame = frame(number, 60);
                    let header = [8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
                    frame[12..34].copy_from_slice(&header);
                    frame[34..36].copy_from_slice(&(number as u16 % 40).to_be_bytes());
                    frame[36..42].copy_from_slice(&[0, 9, 0, 26, 0, 0]);
                    frame[42..46].copy_from_slice(&number.to_be_bytes());
                    sender.send(&frame).unwrap();
                }
                while came.len() < (burst as usize + 1) * 100 && Monotonic.now() < until {
                    if receiver.recv_batch(&mut batch).is_ok() {
                        came.extend(batch.iter().map(|frame| frame.bytes.to_vec()));
                    }
                }
            }
            over.store(true, Ordering::Relaxed);
            let mut of_flow = vec![Vec::new(); 40];
            for frame in &came {
                let number = u32::from_be_bytes(frame[42..46].try_into().unwrap());
                of_flow[usize::from(frame[35])].push(number);
            }
            for (flow, numbers) in of_flow.iter().enumerate() {
                let sent: Vec<_> = (0..2_000).filter(|number| number % 40 == flow as u32).collect();
                assert_eq!(*numbers, sent, "flow {flow}");
            }
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(taken.iter().all(|&packets| packets > 0) && taken.iter().sum::<u64>() == 2_000, "{taken:?}");
    });
}

/// The kernel leaves checksums to the end of a virtual cable, and it is filled in on the way.
#[test]
fn checksums_are_complete_when_they_leave() {
    with_cables("sums", |cables| {
        cables.ip("addr add 10.98.0.1/24 dev a0").unwrap();
        cables.ip("neigh add 10.98.0.2 lladdr 02:00:00:00:00:02 dev a0").unwrap();
        let mut poller = forwarder(64, 16);
        let receiver = FrameReceiver::on(&interface("b0")).unwrap();
        let socket = UdpSocket::bind("10.98.0.1:0").unwrap();
        let count = 50;
        (0..count).for_each(|n| _ = socket.send_to(&vec![n; n.into()], "10.98.0.2:9").unwrap());
        let is_datagram = |frame: &Vec<u8>| frame[12..14] == [8, 0] && frame[23] == 17;
        let frames = arrivals(&mut poller, &receiver, |_, frames| {
            frames.iter().filter(|frame| is_datagram(frame)).count() == usize::from(count)
        });
        for frame in frames.into_iter().filter(is_datagram) {
            let packet = &frame[14..];
            // The pseudo-header and the datagram add up to all ones.
            let halves = packet[12..]
                .chunks(2)
                .map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| u32::from(low)));
            let mut sum = halves.sum::<u32>() + 17 + packet.len() as u32 - 20;
            while sum > 0xffff {
                sum = (sum & 0xffff) + (sum >> 16);
            }
            assert_eq!(sum, 0xffff, "{packet:?}");
        }
    });
}

/// An output keeps chunks for itself, and the smallest ring still has its own.
#[test]
fn a_small_ring_does_not_run_dry() {
    with_cables("dry", |_| {
        let mut device = XdpDevice::on(&interface("a1"), 64).unwrap();
        let sender = FrameSender::on(&interface("a0")).unwrap();
        let (mut came, until) = (0, deadline());
        for n in 0..600 {
            sender.send(&frame(n, 60)).unwrap();
            let mut one = 0;
            while one == 0 && Monotonic.now() < until {
                device.arm().unwrap();
                one = device
                    .poll_rx(1, |packet, output| {
                        assert!(output.queue(packet.bytes, None));
                    })
                    .unwrap()
                    .done;
                device.poll_tx(64).unwrap();
            }
            came += one;
        }
        assert_eq!((came, device.drops().unwrap().ring), (600, 0));
    });
}

/// The kernel has put into the rings of a1 what was sent so far.
fn settled(sent: u64) {
    let counted = || {
        let text = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
        let line = text.lines().find_map(|line| line.trim().strip_prefix("a1:").map(str::to_owned));
        line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0u64)
    };
    let until = deadline();
    while counted() < sent && Monotonic.now() < until {
        thread::yield_now();
    }
    // They are counted a little before they are in the ring, by a softirq. Nobody else runs on its CPU before it
    // is done; it is one of those that the sender may run on.
    let all = sched_getaffinity(None).unwrap();
    for processor in (0..CpuSet::MAX_CPU).filter(|&processor| all.is_set(processor)) {
        let mut one = CpuSet::new();
        one.set(processor);
        sched_setaffinity(None, &one).unwrap();
    }
    sched_setaffinity(None, &all).unwrap();
}

/// A queue that is never empty does not keep the others waiting.
#[test]
fn queues_of_a_device_take_turns() {
    with_queues("turns", 3, |_| {
        let mut device = XdpDevice::on(&interface("a1"), 256).unwrap();
        let sender = FrameSender::on(&interface("a0")).unwrap();
        let flow = |port: u16| {
            let mut frame = frame(port.into(), 60);
            let header = [8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
            frame[12..34].copy_from_slice(&header);
            frame[34..36].copy_from_slice(&port.to_be_bytes());
            frame
        };
        let ports = |device: &mut XdpDevice, quota: usize| {
            let mut ports = Vec::new();
            let until = deadline();
            while ports.len() < 150 && Monotonic.now() < until {
                device
                    .poll_rx(quota, |packet, _| {
                        ports.push(u16::from_be_bytes([packet.bytes[34], packet.bytes[35]]));
                    })
                    .unwrap();
            }
            ports
        };
        (0..150).for_each(|port| sender.send(&flow(port)).unwrap());
        settled(150);
        let by_queue = ports(&mut device, 1_000);
        // Of each queue they come in order.
        let mut queue_of = [0; 150];
        let mut queue = 0;
        for pair in by_queue.windows(2) {
            queue_of[usize::from(pair[0])] = queue;
            queue += usize::from(pair[1] < pair[0]);
            queue_of[usize::from(pair[1])] = queue;
        }
        assert_eq!(queue, 2, "three queues");
        (0..150).for_each(|port| sender.send(&flow(port)).unwrap());
        settled(300);
        let turns = ports(&mut device, 8);
        let first: std::collections::BTreeSet<_> =
            turns[..24].iter().map(|&port| queue_of[usize::from(port)]).collect();
        assert_eq!(first.len(), 3, "{turns:?}");
    });
}
