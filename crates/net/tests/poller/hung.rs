//! A consumer that hangs, behind a real interface: input is shut while its queue is full, a time-out opens it for a turn,
//! others go on, and all that came is accounted for. [`simulated`](super) has the same on a manual clock.
//!
//! ```text
//!   near ══ in ─▶ poller ─▶ queue ─▶ the consumer, which hangs, and later does not
//!   near ◀═ in ◀─ poller ◀─────────── out ◀═ far: somebody else's, forwarded all the time
//! ```

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::time::Duration;

use softtimers::{Clock, Monotonic};
use softtimers_net::packet::{FrameBatch, FrameReceiver, FrameSender};
use softtimers_net::poller::{Device, FrameInfo, Gauge, PacketConfig, PacketDevice, Poller, XdpDevice};
use softtimers_poll::{FeedbackConfig, Interrupts, Preset, Quota, SourceConfig};

use super::{interfaces, network, xdp};

/// The ends of two cables that are not the poller's.
struct Ends {
    near: FrameSender,
    far: FrameSender,
    /// The receiver at near's interface.
    heard: FrameReceiver,
}

/// A frame of ours, with its number.
fn frame(number: u32) -> Vec<u8> {
    let mut frame = vec![2; 60];
    frame[12..14].copy_from_slice(&KIND);
    frame[14..18].copy_from_slice(&number.to_be_bytes());
    frame
}

fn number(bytes: &[u8]) -> Option<u32> {
    let number = bytes.get(14..18)?.first_chunk()?;
    (bytes[12..14] == KIND).then(|| u32::from_be_bytes(*number))
}

/// The destinations of the first device's frames.
#[derive(Default)]
struct Account {
    queue: VecDeque<u32>,
    refused: u64,
    taken: u64,
    /// Frames of nobody's: the kernel's own.
    other: u64,
}

/// Claims hold however slow the machine is: they are about counts, and nothing is waited for that may not come.
#[allow(clippy::too_many_lines, reason = "one scene, from its setting to its end")]
fn survives<D: Device<Address = FrameInfo> + AsFd>(devices: [D; 2], ends: &Ends) {
    let mut poller: Poller<D, Interrupts> = Poller::new().unwrap();
    let [from, to] = devices.map(|device| {
        let config = SourceConfig::new(Interrupts).with_quota(Quota::new(TURN, TURN));
        poller.add(device, config).unwrap()
    });
    let (gauge, marks) = (Gauge::new().unwrap(), FeedbackConfig::preset(Preset::Paper, ROOM).unwrap());
    let high = u64::from(marks.high);
    let queue = poller.attach_queue(&gauge, marks, &[from]).unwrap();
    let (mut account, mut batch) = (Account::default(), FrameBatch::new(64));
    let (mut sent, mut asked, mut forwarded, until) = (0u32, 0u32, 0u32, Monotonic.now() + super::WAIT);
    let round = |poller: &mut Poller<D, Interrupts>, account: &mut Account| {
        let soon = Monotonic.now() + Duration::from_millis(1);
        let handler = |packet: softtimers_net::poller::Packet<'_, FrameInfo>,
                       outputs: &mut softtimers_net::poller::Outputs<'_, D>| {
            if outputs.from() == to {
                outputs.send(from, packet.bytes, Some(packet.from));
                return;
            }
            account.taken += 1;
            match number(packet.bytes) {
                None => account.other += 1,
                Some(number) if gauge.depth() < ROOM => {
                    gauge.put(1);
                    account.queue.push_back(number);
                }
                Some(_) => {
                    gauge.refused();
                    account.refused += 1;
                }
            }
        };
        poller.wait(Some(soon), handler).unwrap();
    };

    // It hangs. More comes than the queue, a turn for each time-out and the ring have room for.
    while (asked < OTHERS || forwarded < asked || poller.queue_stats(queue).timed_out < 3)
        && Monotonic.now() < until
    {
        if sent < FLOOD {
            (0..32).for_each(|n| ends.near.send(&frame(sent + n)).unwrap());
            sent += 32;
        }
        // One at a time: what is lost of these would be lost here.
        if forwarded == asked && asked < OTHERS {
            ends.far.send(&frame(ASKED + asked)).unwrap();
            asked += 1;
        }
        round(&mut poller, &mut account);
        if ends.heard.recv_batch(&mut batch).is_ok() {
            let answers = batch.iter().filter_map(|frame| number(frame.bytes));
            forwarded += answers.filter(|&number| number >= ASKED).count() as u32;
        }
    }
    let hung = poller.queue_stats(queue);
    assert_eq!((sent, forwarded), (FLOOD, OTHERS), "others go on: {hung:?}");
    assert_eq!((hung.resumed, gauge.depth()), (0, account.queue.len() as u32));
    assert!(hung.shut >= 3 && hung.timed_out >= 3, "{hung:?}");
    // Up to the mark, one turn beyond it, and one for each time-out.
    let most = high + u64::from(TURN) * (hung.timed_out + 1);
    assert!(account.taken - account.other <= most, "{} taken: {hung:?}", account.taken);
    assert!(account.refused > 0, "a queue of {ROOM}, and {} taken", account.taken);

    // It goes on, and with it the rest: all that the ring has kept, and what comes now.
    let (mut consumed, mut last) = (Vec::new(), None);
    while last.is_none() && Monotonic.now() < until {
        // What the ring had no room for may be the last one.
        ends.near.send(&frame(sent)).unwrap();
        sent += 1;
        round(&mut poller, &mut account);
        while let Some(number) = account.queue.pop_front() {
            gauge.took(1);
            last = last.or((number >= FLOOD).then_some(number));
            consumed.push(number);
        }
    }
    assert!(poller.queue_stats(queue).resumed > 0 && last.is_some(), "{:?}", poller.queue_stats(queue));
    assert!(consumed.windows(2).all(|pair| pair[0] < pair[1]), "in order, and none twice");
    // What is in the ring still, until everything has its place.
    let places = |poller: &mut Poller<D, Interrupts>, account: &Account, consumed: usize| {
        let drops = poller.drops(from).unwrap();
        consumed as u64 + account.refused + account.other + drops.total()
    };
    while places(&mut poller, &account, consumed.len()) < u64::from(sent) + account.other
        && Monotonic.now() < until
    {
        round(&mut poller, &mut account);
        gauge.took(account.queue.len() as u32);
        consumed.extend(account.queue.drain(..));
    }
    let (drops, whole) = (poller.drops(from).unwrap(), u64::from(sent));
    assert_eq!(consumed.len() as u64 + account.refused + drops.total(), whole, "{drops:?}");
    assert_eq!((drops.rule, drops.queue, drops.output), (0, 0, 0), "before any work was spent on it");
    assert!(drops.total() > 0, "the ring was full");
    assert_eq!(poller.drops(to).unwrap().total(), 0, "of others nothing");
}

#[test]
fn on_a_packet_ring() {
    network::with_network(|_| {
        let ends = Ends {
            near: FrameSender::on(&interfaces::interface("near")).unwrap(),
            far: FrameSender::on(&interfaces::interface("far")).unwrap(),
            heard: FrameReceiver::on(&interfaces::interface("near")).unwrap(),
        };
        let config = PacketConfig { promiscuous: true, slots: 64, ..PacketConfig::default() };
        let devices =
            ["in", "out"].map(|name| PacketDevice::open(&interfaces::interface(name), &config).unwrap());
        survives(devices, &ends);
    });
}

#[test]
fn on_xdp_rings() {
    xdp::with_cables("hung", |_| {
        let interface = interfaces::interface;
        let ends = Ends {
            near: FrameSender::on(&interface("a0")).unwrap(),
            far: FrameSender::on(&interface("b0")).unwrap(),
            heard: FrameReceiver::on(&interface("a0")).unwrap(),
        };
        let devices = XdpDevice::on_all(&["a1", "b1"].map(interface), 64).unwrap();
        survives(<[XdpDevice; 2]>::try_from(devices).unwrap(), &ends);
    });
}

/// The ethertype for experiments.
const KIND: [u8; 2] = [0x88, 0xb5];
/// Frames that the queue has room for, and of a turn.
const ROOM: u32 = 32;
const TURN: u32 = 8;
/// Frames for the one that hangs, and for somebody else, whose numbers begin with these.
const FLOOD: u32 = 3_200;
const OTHERS: u32 = 100;
const ASKED: u32 = 1 << 24;
