//! A device with a ring that the kernel has jammed, on an interface of our own.

use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use softtimers::Clock;
use softtimers::Monotonic;
use softtimers_linux::packet::OFFLOAD_HEADER;
use softtimers_linux::tap::tap;
use softtimers_poll::{DelayBound, DelayBoundConfig, SourceConfig};

use super::PacketDevice;
use crate::packet::Interface;
use crate::poller::{Device, PacketConfig, Poller};
use crate::rtnetlink;
use crate::skipped::skipped;

/// An interface `tap` in a network of its own, up.
struct Tap {
    end: OwnedFd,
    interface: Interface,
}

impl Tap {
    fn up() -> Result<Self, String> {
        rtnetlink::enter_empty_network()?;
        let end = tap("tap").map_err(|error| format!("/dev/net/tun: {error}"))?;
        let interface = Interface::named("tap").map_err(|error| error.to_string())?;
        rtnetlink::set_up(interface.index())?;
        Ok(Tap { end, interface })
    }

    fn device(&self) -> PacketDevice {
        let config = PacketConfig { slots: 64, promiscuous: true, ..PacketConfig::default() };
        PacketDevice::open(&self.interface, &config).unwrap()
    }

    fn send(&self, frame: &[u8]) {
        assert_eq!(rustix::io::write(&self.end, frame).unwrap(), frame.len());
    }

    fn send_plain(&self, number: usize) {
        let frame = [&[0; OFFLOAD_HEADER][..], &ETHERNET, &[0x88, 0xb5], &[0; 46]].concat();
        (0..number).for_each(|_| self.send(&frame));
    }

    /// UDP, to be fragmented (UFO): the ring's header cannot describe it.
    fn send_indescribable(&self) {
        let mut header = [1, 3, 0, 0, 0, 0, 0, 0, 0, 0];
        for (at, half) in [(2, 42u16), (4, 1_000), (6, 34), (8, 6)] {
            header[at..at + 2].copy_from_slice(&half.to_ne_bytes());
        }
        let packet =
            [0x45, 0, 11, 212, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 1, 0, 2, 11, 192, 0, 0];
        self.send(&[&header[..], &ETHERNET, &[0x08, 0], &packet, &[0; 3_000]].concat());
    }
}

const ETHERNET: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];

/// Runs it in a thread, whose network it leaves as it was.
fn with_tap(test: fn(Tap)) {
    if let Err(why) = thread::spawn(move || Tap::up().map(test)).join().unwrap() {
        skipped(&why);
    }
}

/// The kernel never releases the slot of such a frame. The device recovers.
#[test]
#[cfg_attr(miri, ignore)]
fn a_ring_that_the_kernel_has_jammed_is_made_anew() {
    with_tap(|tap| {
        let mut device = tap.device();
        let take = |device: &mut PacketDevice| {
            let mut taken = 0;
            while device.poll_rx(8, |_, _| taken += 1).unwrap().more {}
            taken
        };
        tap.send_plain(1);
        assert_eq!(take(&mut device), 1);
        assert_eq!(device.drops().unwrap().total(), 0);

        tap.send_indescribable();
        tap.send_plain(5);
        let jammed = take(&mut device) == 0;
        let lost = device.drops().unwrap().ring;
        assert_eq!(lost, if jammed { 6 } else { 1 });
        assert_eq!(device.waiting().unwrap(), 0);
        tap.send_plain(100);
        assert_eq!(take(&mut device), 64, "it carries on");
        assert_eq!(device.drops().unwrap().ring, lost + 36);
        assert_eq!(device.drops().unwrap().ring, lost + 36);
        // A ring that overflowed does not count as stopped.
        assert_eq!(device.renewals(), u64::from(jammed));
    });
}

/// A sleeping poller recovers by itself, without a call of `drops`.
#[test]
#[cfg_attr(miri, ignore)]
fn a_poller_that_sleeps_beside_a_jammed_ring_finds_it() {
    with_tap(|tap| {
        let mut poller: Poller<PacketDevice> = Poller::new().unwrap();
        let policy = DelayBound::new(DelayBoundConfig::default());
        let source = poller.add(tap.device(), SourceConfig::new(policy)).unwrap();
        // Returns whether a frame comes within some waits, one of which may end for another reason.
        let mut comes = |send: &dyn Fn()| {
            (0..10).any(|_| {
                send();
                let mut taken = 0;
                poller.wait(Some(Monotonic.now() + Duration::from_secs(5)), |_, _| taken += 1).unwrap();
                taken > 0
            })
        };
        tap.send_plain(1);
        assert!(comes(&|| ()), "it begins");
        tap.send_indescribable();
        // Causes no wake-up while the ring is jammed; then the watchdog does.
        assert!(comes(&|| tap.send_plain(1)), "it carries on");
        let lost = poller.drops(source).unwrap().ring;
        // A kernel that does not jam loses only that frame, and the ring is not rebuilt.
        assert_eq!(poller.device(source).renewals(), u64::from(lost > 1), "{lost} lost");
    });
}
