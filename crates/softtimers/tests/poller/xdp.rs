//! AF_XDP between two virtual cables in a namespace of its own. Needs root and `ip`; says so where it has not got
//! them.
//!
//! ```text
//!   a0 ══ a1 ─▶ devices ─▶ b1 ══ b0
//! ```

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use softtimers::packet::{FrameBatch, FrameReceiver, FrameSender, Interface};
use softtimers::poll::{Interrupts, Quota, SourceConfig, SourceId};
use softtimers::poller::{Device, Outputs, Packet, Poller, Transmit, XdpConfig, XdpDevice};
use softtimers::{Clock, Monotonic, Timestamp};

#[path = "../../src/skipped.rs"]
mod skipped;

/// Cables in a namespace that is named after this process and the test, and is deleted at the end.
struct Cables(String);

impl Cables {
    fn lay(test: &str) -> Result<Self, String> {
        let cables = Cables(format!("softtimers-xdp-{}-{test}", std::process::id()));
        ip(&["netns", "add", &cables.0])?;
        for (one, other) in [("a0", "a1"), ("b0", "b1")] {
            cables.ip(&["link", "add", one, "type", "veth", "peer", "name", other])?;
            for end in [one, other] {
                // Without addresses of IPv6 nothing is sent that the test has not sent.
                cables.ip(&["link", "set", end, "addrgenmode", "none", "up"])?;
            }
        }
        Ok(cables)
    }

    fn ip(&self, words: &[&str]) -> Result<(), String> {
        ip(&[&["-n", &self.0], words].concat())
    }

    fn enter(&self) {
        let namespace = File::open(format!("/run/netns/{}", self.0)).unwrap();
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
    }
}

impl Drop for Cables {
    fn drop(&mut self) {
        let _ = ip(&["netns", "del", &self.0]);
    }
}

fn ip(words: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(words).output().map_err(|error| format!("ip: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("ip {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
}

/// Runs a test on a thread in the namespace, whose name is that of the test.
fn with_cables(test: &str, body: impl FnOnce(&Cables) + Send) {
    let cables = match Cables::lay(test) {
        Ok(cables) => cables,
        Err(reason) => return skipped::skipped(&format!("no virtual cables: {reason}")),
    };
    let probed = thread::scope(|scope| {
        let inside = scope.spawn(|| {
            cables.enter();
            let tried = XdpDevice::on(&interface("a1"), XdpConfig { entries: 64, ..XdpConfig::default() });
            match tried.map(drop) {
                Err(error)
                    if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::Unsupported) =>
                {
                    return Err(error.to_string());
                }
                Err(error) => panic!("{error}"),
                Ok(()) => body(&cables),
            }
            Ok(())
        });
        inside.join()
    });
    match probed {
        Ok(Ok(())) => {}
        Ok(Err(reason)) => skipped::skipped(&reason),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn interface(name: &str) -> Interface {
    Interface::named(name).unwrap()
}

/// A device on a1 and one on b1.
fn devices(config: XdpConfig) -> io::Result<Vec<XdpDevice>> {
    XdpDevice::on_all(&[interface("a1"), interface("b1")], config)
}

/// No wait is longer than this, whatever is lost.
const PATIENCE: Duration = Duration::from_secs(20);

fn deadline() -> Timestamp {
    Monotonic.now() + PATIENCE
}

/// A frame of an ethertype for experiments, all different.
fn frame(number: u32, length: usize) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([0x88, 0xb5]);
    frame.extend(number.to_be_bytes());
    frame.extend((0..length.saturating_sub(18)).map(|at| (at as u32 * 7 + number) as u8));
    frame
}

/// Two devices, each passing on to the other.
fn forwarder(config: XdpConfig, quota: u32) -> Poller<XdpDevice, Interrupts> {
    let mut poller = Poller::new().unwrap();
    for device in devices(config).unwrap() {
        poller.add(device, SourceConfig::new(Interrupts).with_quota(Quota::new(quota, quota))).unwrap();
    }
    poller
}

fn across(packet: Packet<'_, softtimers::poller::FrameInfo>, outputs: &mut Outputs<'_, XdpDevice>) -> bool {
    let other = SourceId::from_index(1 - outputs.from().index() as u32);
    outputs.pass(other, packet.bytes, Some(packet.from))
}

/// What arrives at one end until nothing more is expected, while the poller forwards.
fn arrivals(
    poller: &mut Poller<XdpDevice, Interrupts>,
    receiver: &FrameReceiver,
    mut enough: impl FnMut(&[Vec<u8>]) -> bool,
) -> Vec<Vec<u8>> {
    let (mut frames, mut batch, until) = (Vec::new(), FrameBatch::new(64), deadline());
    while !enough(&frames) && Monotonic.now() < until {
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

/// Every byte, in order, of every length, both ways, and nothing is copied on the way.
#[test]
fn frames_cross_unchanged() {
    with_cables("cross", |_| {
        let mut poller = forwarder(XdpConfig { entries: 256, ..XdpConfig::default() }, 16);
        for (from, to) in [("a0", "b0"), ("b0", "a0")] {
            let sender = FrameSender::on(&interface(from)).unwrap();
            let receiver = FrameReceiver::on(&interface(to)).unwrap();
            let sent: Vec<_> = (0..1_000).map(|n| frame(n, 18 + n as usize * 13 % 1_497)).collect();
            let mut arrived = Vec::new();
            for burst in sent.chunks(32) {
                burst.iter().for_each(|frame| sender.send(frame).unwrap());
                arrived.extend(arrivals(&mut poller, &receiver, |frames| frames.len() >= burst.len()));
            }
            assert_eq!(arrived.len(), sent.len());
            assert!(arrived == sent, "{from} to {to}");
        }
        for index in 0..2 {
            let source = SourceId::from_index(index);
            assert_eq!(poller.drops(source).unwrap().total(), 0);
            assert_eq!(poller.device_mut(source).transmitter().copied(), 0);
        }
        assert_eq!(poller.stats().sent, 2_000);
    });
}
