//! AF_XDP as a device: frames in shared rings, before the kernel has made packets of them.
//!
//! ```text
//!   interface ─▶ program ─▶ receive ring ─▶ handler ─▶ output ─▶ send ring ─▶ interface
//!                              └ full: the kernel drops, and counts  └ full: dropped, counted
//! ```
//!
//! Devices that are made together share their frames' memory. The kernel copies each frame once in and once out, which
//! every driver can.
//!
//! # Effects and limits
//!
//! As long as it lives, it gets all received frames of the interface, and none reaches this machine's own
//! stack. It ends with the process, also if that is killed, without leftovers. It does not replace another
//! XDP program, but names it in the error.
//!
//! It needs `CAP_NET_RAW`, `CAP_NET_ADMIN` and `CAP_BPF`; for its memory, `CAP_IPC_LOCK` or enough of
//! `RLIMIT_MEMLOCK`.
//!
//! Between the two ends of a virtual cable (veth) the work of an interface is omitted: a sender's checksums
//! are not filled in, which this device detects, and its VLAN tags are not in the frame, which cannot be
//! detected. `ethtool -K PEER txvlan off` at the sender inserts them. The kernel does not let such a sender
//! join segments while the program is there, and takes no MTU of more than some 3,500 bytes at either end.
//!
//! Several threads can share the queues: [`XdpDevice::sharded`].
//!
//! Frames of more than 1,792 bytes, for an MTU of more, take chunks of a whole page, and then at most 3,840 bytes.
//!
//! ```no_run
//! use softtimers_poll::{DelayBound, DelayBoundConfig, SourceConfig, SourceId};
//! use softtimers_net::packet::Interface;
//! use softtimers_net::poller::{Poller, XdpDevice};
//!
//! let ports = [Interface::named("eth0")?, Interface::named("eth1")?];
//! let mut poller = Poller::new()?;
//! for device in XdpDevice::on_all(&ports, XdpDevice::ENTRIES)? {
//!     poller.add(device, SourceConfig::new(DelayBound::new(DelayBoundConfig::default())))?;
//! }
//! loop {
//!     poller.wait(None, |frame, outputs| {
//!         let other = SourceId::from_index(1 - outputs.from().index() as u32);
//!         outputs.send(other, frame.bytes, Some(frame.from));
//!     })?;
//! }
//! # #[allow(unreachable_code)]
//! # Ok::<(), std::io::Error>(())
//! ```

mod output;
mod redirect;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use softtimers::epoll::{Epoll, Waiting};
use softtimers_linux::ethtool::{self, Queues};
use softtimers_linux::packet;
use softtimers_linux::sockopt;
use softtimers_linux::xdp::ring::{Consumer, Descriptor, Producer};
use softtimers_linux::xdp::umem::{Borrower, Chunk, Umem};
use softtimers_linux::xdp::{self, XdpSocket};

use self::redirect::Redirect;
use super::device::{Device, Drops, Packet, Received, Sent};
use super::frame::FrameInfo;
use super::watchdog::PERIOD;
use crate::packet::{Interface, Offload};
use crate::rtnetlink;
use crate::trying::named;

pub use output::XdpOutput;

/// All queues of an interface, or a [share](XdpDevice::sharded) of them, for a [`Poller`](super::Poller).
#[derive(Debug)]
pub struct XdpDevice {
    umem: Arc<Umem>,
    queues: Vec<Queue>,
    /// The queue that the next turn begins with.
    next: usize,
    output: XdpOutput,
    redirect: Arc<Redirect>,
    invalid: u64,
    gone: bool,
    interface: u32,
    /// The interface's drops before, if this device reports them.
    dropped_before: Option<u64>,
    /// One descriptor for all of several queues.
    together: Option<Epoll>,
    _promiscuous: Option<OwnedFd>,
}

/// The receiving half of a queue's socket.
#[derive(Debug)]
struct Queue {
    socket: OwnedFd,
    ring: Borrower,
    received: Consumer<2>,
    fill: Producer<1>,
    /// Chunks that are in `fill`, with the kernel, or full.
    lent: usize,
    entries: usize,
    /// Free chunks between turns and shortly after frames.
    spare: Vec<Chunk>,
}

impl XdpDevice {
    /// Frames in each ring, where nothing else is wanted.
    pub const ENTRIES: u32 = 2_048;

    /// Makes a device on one interface, as [`on_all`](Self::on_all).
    ///
    /// # Errors
    /// As there.
    pub fn on(interface: &Interface, entries: u32) -> io::Result<Self> {
        let mut devices = XdpDevice::on_all(std::slice::from_ref(interface), entries)?;
        devices.pop().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Makes a device on each of these interfaces. The devices get all received frames from now on.
    ///
    /// `entries` is the number of frames in each ring, a power of two from 64 to 32,768: the longest burst that is not
    /// lost. The memory of each device is twice as many chunks of 2 KiB and 128 more, pinned: with
    /// [`ENTRIES`](Self::ENTRIES) 8.25 MiB.
    ///
    /// # Errors
    /// `InvalidInput` for a number of entries that is not allowed, or an MTU that no frame's memory has room for;
    /// `PermissionDenied` without the privileges, which it names; `ResourceBusy` where another XDP program is
    /// attached, which it names, or another socket has a queue; `Unsupported` where the kernel cannot do it.
    pub fn on_all(interfaces: &[Interface], entries: u32) -> io::Result<Vec<Self>> {
        let ports: Vec<Port<'_>> = interfaces.iter().map(Port::open).collect::<io::Result<_>>()?;
        Self::open(&ports, entries)
    }

    /// As [`on_all`](Self::on_all), in `shares`: each has a device of each interface, to be driven by its own
    /// thread. An interface's queues are distributed over the shares; the interface decides which flows use which
    /// queue. The first share
    /// reports [`Drops::interface`].
    ///
    /// # Errors
    /// As there; also `InvalidInput` for no shares, or for more than an interface has queues of either way.
    pub fn sharded(interfaces: &[Interface], entries: u32, shares: usize) -> io::Result<Vec<Vec<Self>>> {
        let ports: Vec<Port<'_>> = interfaces.iter().map(Port::open).collect::<io::Result<_>>()?;
        let refused = |message: String| Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        // The kernel silently drops frames sent by a queue that does not exist.
        let few = |port: &&Port<'_>| (port.queues.min(port.send_queues) as usize) < shares;
        if let Some(Port { name, queues, send_queues, .. }) = ports.iter().find(few) {
            return refused(format!(
                "{name}: {shares} shares of {queues} queues that receive and {send_queues} that send; each wants one of \
                 both (ethtool -L {name} combined {shares}, or rx {shares} tx {shares})"
            ));
        }
        if shares == 0 {
            return refused("0 shares of an interface".to_owned());
        }
        Self::open_shares(&ports, entries, shares)
    }

    pub(crate) fn open(ports: &[Port<'_>], entries: u32) -> io::Result<Vec<Self>> {
        Ok(Self::open_shares(ports, entries, 1)?.pop().unwrap_or_default())
    }

    fn open_shares(ports: &[Port<'_>], entries: u32, shares: usize) -> io::Result<Vec<Vec<Self>>> {
        if !(entries.is_power_of_two() && (64..=32_768).contains(&entries)) {
            let message = format!("{entries} entries in a ring; powers of two from 64 to 32768 are allowed");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let queues: u32 = ports.iter().map(|port| port.queues).sum();
        // An output may have a ring's worth of chunks under way, and keep some spare ones.
        let outputs = (ports.len() * shares) as u32;
        let chunks = queues * entries + outputs * (entries + output::SPARE as u32);
        let umem = Arc::new(Umem::new(chunks, chunk_size(ports)?)?);
        let mut sockets = Sockets { umem, first: None, entries };
        let mut all: Vec<Vec<Self>> = (0..shares).map(|_| Vec::with_capacity(ports.len())).collect();
        for port in ports {
            let devices = Self::at(port, &mut sockets, shares)?;
            all.iter_mut().zip(devices).for_each(|(share, device)| share.push(device));
        }
        Ok(all)
    }

    /// Distributes its queues to the shares in turn.
    fn at(port: &Port<'_>, sockets: &mut Sockets, shares: usize) -> io::Result<Vec<Self>> {
        Redirect::check(port.index, port.name)?;
        let (mut queues, mut outputs) = (Vec::new(), Vec::new());
        for queue in 0..port.queues {
            if outputs.len() < shares {
                let (queue, output) = sockets.open_both(port, queue)?;
                queues.push(queue);
                outputs.push(output);
            } else {
                queues.push(sockets.open(port, queue)?.0);
            }
        }
        let listening: Vec<_> = queues.iter().map(|queue| queue.socket.as_fd()).collect();
        let redirect = Arc::new(Redirect::attach(port.index, port.name, &listening)?);
        let dropped_before = lost_before(port.index, &redirect)?;
        let mut dealt: Vec<Vec<Queue>> = (0..shares).map(|_| Vec::new()).collect();
        queues.into_iter().enumerate().for_each(|(number, queue)| dealt[number % shares].push(queue));
        let device = |(share, (queues, output)): (usize, (Vec<Queue>, XdpOutput))| {
            Ok(XdpDevice {
                umem: Arc::clone(&sockets.umem),
                together: together(&queues)?,
                queues,
                next: 0,
                output,
                redirect: Arc::clone(&redirect),
                invalid: 0,
                gone: false,
                interface: port.index,
                dropped_before: (share == 0).then_some(dropped_before),
                _promiscuous: port.promiscuous()?,
            })
        };
        dealt.into_iter().zip(outputs).enumerate().map(device).collect()
    }

    /// Returns the number of the interface's queues from which the device receives.
    pub fn queues(&self) -> usize {
        self.queues.len()
    }

    /// Returns the longest frame for which there is room; the kernel drops longer ones, which come if an MTU
    /// was raised later.
    pub fn longest(&self) -> usize {
        self.umem.chunk_size() - HEADROOM
    }

    /// Returns whether the interface was removed: the device is of no more use.
    pub fn is_gone(&self) -> bool {
        self.gone
    }

    /// Fails once if the interface was removed: the kernel reports it once, without a wake-up.
    fn check(&mut self) -> io::Result<()> {
        if sockopt::take_error(self.queues[0].socket.as_fd()).is_err() {
            self.gone = true;
            return Err(Errno::NODEV.into());
        }
        Ok(())
    }
}

impl Device for XdpDevice {
    type Address = FrameInfo;
    type Transmitter = XdpOutput;

    /// For frames of virtual cables, [`FrameInfo::offload`] reports a missing checksum. The arrival time is
    /// unknown.
    fn poll_rx(
        &mut self,
        quota: usize,
        mut sink: impl FnMut(Packet<'_, FrameInfo>, &mut XdpOutput),
    ) -> io::Result<Received> {
        let Self { umem, queues, next, output, invalid, .. } = self;
        let (mut done, all) = (0, queues.len());
        for _ in 0..all {
            let queue = &mut queues[*next];
            // The next turn uses another queue, even if this one is never empty.
            *next = (*next + 1) % all;
            let before = done;
            while done < quota {
                let Some(descriptor) = queue.received.pop() else { break };
                done += 1;
                if !queue.show(umem, descriptor.into(), |packet| sink(packet, output)) {
                    *invalid += 1;
                }
            }
            if done > before {
                queue.received.release();
                queue.refill(umem);
            }
            if done == quota {
                break;
            }
        }
        Ok(Received {
            done,
            more: done == quota && queues.iter_mut().any(|queue| !queue.received.is_empty()),
        })
    }

    fn poll_tx(&mut self, quota: usize) -> io::Result<Sent> {
        self.output.send(quota)
    }

    fn transmitter(&mut self) -> &mut XdpOutput {
        &mut self.output
    }

    /// Checks the rings once more, and whether the interface still exists.
    fn arm(&mut self) -> io::Result<bool> {
        for queue in &mut self.queues {
            queue.refill(&self.umem);
            if queue.fill.wants_wake_up() {
                xdp::wake_receiver(queue.socket.as_fd())?;
            }
            if !queue.received.is_empty() {
                return Ok(false);
            }
        }
        self.check()?;
        Ok(true)
    }

    /// A second: that often a poller wakes up for this device alone.
    fn watchdog_period(&self) -> Option<Duration> {
        (!self.gone).then_some(PERIOD)
    }

    /// # Errors
    /// `ENODEV` once, if the interface was removed and that was not reported yet: there is no wake-up for it.
    fn watchdog(&mut self) -> io::Result<()> {
        self.check()
    }

    /// # Errors
    /// `ENODEV` once, if the interface was removed and nothing else has told it.
    fn drops(&mut self) -> io::Result<Drops> {
        self.check()?;
        let interface = match self.dropped_before {
            Some(before) => {
                self.redirect.dropped() + lost_before(self.interface, &self.redirect)?.saturating_sub(before)
            }
            None => 0,
        };
        let mut ring = self.invalid;
        for queue in &self.queues {
            let counted = xdp::statistics(queue.socket.as_fd())?;
            // Frames without an empty chunk are included in the first.
            ring += counted.rx_dropped + counted.rx_ring_full.unwrap_or(0);
        }
        Ok(Drops { interface, ring, output: self.output.dropped(), ..Drops::default() })
    }
}

impl AsFd for XdpDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.together {
            Some(together) => together.as_fd(),
            None => self.queues[0].socket.as_fd(),
        }
    }
}

impl Queue {
    /// Shows a received frame; `false` if the kernel's descriptor is invalid.
    fn show(
        &mut self,
        umem: &Umem,
        descriptor: Descriptor,
        sink: impl FnOnce(Packet<'_, FrameInfo>),
    ) -> bool {
        let Some((chunk, offset)) = umem.returned(descriptor.address, &mut self.ring) else { return false };
        self.lent -= 1;
        // It is spare whatever the handler does.
        self.spare.push(chunk);
        let bytes =
            self.spare.last_mut().and_then(|chunk| umem.bytes(chunk, offset, descriptor.length as usize));
        let Some(bytes) = bytes else { return false };
        let from = FrameInfo::with_offload(Offload::found_in(bytes));
        sink(Packet { bytes, from, arrived: None, truncated: false });
        true
    }

    /// Offers the kernel as many chunks as it had before.
    fn refill(&mut self, umem: &Umem) {
        let wanted = self.entries - self.lent;
        if wanted == 0 {
            return;
        }
        if self.spare.len() < wanted {
            umem.take(wanted - self.spare.len(), &mut self.spare);
        }
        for chunk in self.spare.drain(..) {
            // There is room: at most as many are lent as the ring has entries.
            self.fill.push([umem.lend(chunk, &self.ring)]);
            self.lent += 1;
        }
        self.fill.publish();
    }
}

/// One descriptor for several queues.
fn together(queues: &[Queue]) -> io::Result<Option<Epoll>> {
    let [_, _, ..] = queues else { return Ok(None) };
    let together = Epoll::new(Waiting::Pwait2)?;
    queues.iter().try_for_each(|queue| together.add(queue.socket.as_fd(), 0, EventFlags::IN))?;
    Ok(Some(together))
}

/// The sockets that are opened one after the other, on one memory.
struct Sockets {
    umem: Arc<Umem>,
    /// The socket that the memory was registered with.
    first: Option<OwnedFd>,
    entries: u32,
}

impl Sockets {
    /// The socket of a share's first queue, which also sends.
    fn open_both(&mut self, port: &Port<'_>, queue: u32) -> io::Result<(Queue, XdpOutput)> {
        let (queue, to_send, completed) = self.open(port, queue)?;
        // On a kernel without this option, a wake-up sends fewer and there are more of them.
        let _ = xdp::set_send_budget(queue.socket.as_fd(), self.entries);
        let socket = queue.socket.try_clone()?;
        let room = self.entries as usize;
        Ok((queue, XdpOutput::new(Arc::clone(&self.umem), socket, to_send, completed, room)))
    }

    /// A socket on a queue, with chunks to be filled.
    fn open(&mut self, port: &Port<'_>, queue: u32) -> io::Result<(Queue, Producer<2>, Consumer<1>)> {
        let at = |what: &str| format!("{}: {what}", port.name);
        let socket = XdpSocket::new(self.entries)
            .map_err(|error| named(error, &at("an AF_XDP socket"), "CAP_NET_RAW"))?;
        if self.first.is_none() {
            let needs = "CAP_IPC_LOCK or a higher RLIMIT_MEMLOCK";
            socket
                .register(&self.umem)
                .map_err(|error| named(error, &at("registering memory for frames"), needs))?;
        }
        let bind = || match &self.first {
            Some(first) => socket.bind_sharing(first.as_fd(), port.index, queue),
            None => socket.bind_copying(port.index, queue),
        };
        when_free(bind).map_err(|error| {
            named(error, &at(&format!("an AF_XDP socket on queue {queue}")), "CAP_NET_RAW")
        })?;
        if self.first.is_none() {
            self.first = Some(socket.fd.try_clone()?);
        }
        let XdpSocket { fd, fill, received, to_send, completed } = socket;
        let entries = self.entries as usize;
        let spare = Vec::with_capacity(entries);
        let mut queue =
            Queue { socket: fd, ring: self.umem.borrower(), received, fill, lent: 0, entries, spare };
        queue.refill(&self.umem);
        Ok((queue, to_send, completed))
    }
}

/// The properties of an interface that matter here.
pub(crate) struct Port<'a> {
    pub(crate) name: &'a str,
    pub(crate) index: u32,
    pub(crate) mtu: u32,
    /// The number of queues that it receives by.
    pub(crate) queues: u32,
    pub(crate) send_queues: u32,
}

impl<'a> Port<'a> {
    fn open(interface: &'a Interface) -> io::Result<Self> {
        let any = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        let name = interface.name();
        let (queues, send_queues) = match ethtool::queues(any.as_fd(), name) {
            Ok(Queues { receive, send }) => (receive.max(1), send.max(1)),
            Err(error) if error.kind() == io::ErrorKind::Unsupported => (1, 1),
            Err(error) => return Err(named(error, &format!("{name}: its queues"), "CAP_NET_ADMIN")),
        };
        if queues > MOST_QUEUES {
            let message =
                format!("{name}: {queues} queues; at most {MOST_QUEUES} are allowed (ethtool -L sets them)");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let (index, mtu) = (interface.index(), interface.mtu());
        Ok(Port { name, index, mtu, queues, send_queues })
    }

    /// Makes a socket without frames that keeps the interface promiscuous as long as it lives.
    fn promiscuous(&self) -> io::Result<Option<OwnedFd>> {
        let socket = packet::frames(self.index, 0, |_| Ok(()))?;
        packet::hear_all(socket.as_fd(), self.index)?;
        Ok(Some(socket))
    }
}

/// Returns the interface's losses before the program saw the frames. A driver that runs the program includes
/// in its drops those of the program and the sockets (veth, virtio_net), which count them themselves.
fn lost_before(interface: u32, redirect: &Redirect) -> io::Result<u64> {
    let lost = if redirect.is_in_driver() { rtnetlink::missed } else { rtnetlink::dropped };
    Ok(lost(interface)?)
}

/// Room for the longest frame of them all.
fn chunk_size(ports: &[Port<'_>]) -> io::Result<usize> {
    for port in ports {
        if port.mtu as usize > CHUNK_SIZES[1] - HEADROOM - LINK_HEADER {
            let most = CHUNK_SIZES[1] - HEADROOM - LINK_HEADER;
            let message = format!("{}: an MTU of {}; at most {most} is allowed", port.name, port.mtu);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
    }
    let longest = ports.iter().map(|port| port.mtu as usize).max().unwrap_or(0) + LINK_HEADER + HEADROOM;
    Ok(if longest <= CHUNK_SIZES[0] { CHUNK_SIZES[0] } else { CHUNK_SIZES[1] })
}

/// Binds a socket to a queue, which the kernel releases from a closed socket only some milliseconds later,
/// without notice.
fn when_free(bind: impl Fn() -> io::Result<()>) -> io::Result<()> {
    for _ in 0..50 {
        match bind() {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
            outcome => return outcome,
        }
        #[expect(clippy::disallowed_methods, reason = "there is nothing to wait for")]
        std::thread::sleep(Duration::from_millis(10));
    }
    bind()
}

/// Two frames to a page, and one.
const CHUNK_SIZES: [usize; 2] = [2_048, 4_096];
/// The space that the kernel leaves before each frame (`XDP_PACKET_HEADROOM`).
const HEADROOM: usize = 256;
/// Ethernet's header with two tags.
const LINK_HEADER: usize = 22;
/// Each queue takes its share of memory.
const MOST_QUEUES: u32 = 64;
