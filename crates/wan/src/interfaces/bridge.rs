//! [`Bridge`]: two interfaces on either side of a [`Wan`](crate::Wan), and the loop between them.

use std::io::ErrorKind;
use std::time::Duration;

use softtimers::{Idle, LoopConfig, Slack, Timestamp};
use softtimers_net::packet::{FrameBatch, Heard, LoopProbe, Offload};

use super::claimed::{Claimed, Side};
use super::mark::{flow, is_capable, mark};
use super::problem::Problem;
use crate::live::{Ended, Live, Next, controls};
use crate::{Aqm, PathConfig, PathError, Scenario, Traits, WanBuilder, Way};

/// The settings of a bridge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BridgeConfig {
    /// The names of both interfaces. From the first to the second is [`Way::Up`].
    pub interfaces: [String; 2],
    /// Take interfaces even if this machine uses them itself.
    pub take: bool,
    /// Whether both belong to a network that this process created. No other host is there, so no probes for loops are
    /// sent, and ARP bypasses the path, since it is not traffic of the path's users.
    pub own: bool,
}

/// Counters of a bridge, besides those of its path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct BridgeStats {
    /// Frames that the kernel had merged, and that were segmented.
    pub joined: u64,
    /// Frames that the kernel had merged, and that passed so, since the path treats no packet individually.
    pub whole: u64,
    /// Frames that could not be converted to their form on the wire, and were dropped.
    pub unsplit: u64,
    /// Dropped frames longer than the other interface sends.
    pub too_long: u64,
    /// Marks written into packets; for transports without ECN, only the path counts them.
    pub marks_written: u64,
    /// Frames that the kernel had no buffer for when they were sent.
    pub send_full: u64,
    /// Frames that could not be sent for another reason: an interface was switched off.
    pub send_failed: u64,
    /// Frames that the kernel dropped because the bridge did not read in time.
    pub recv_drops: u64,
}

/// Joins two interfaces by a path. See the [module documentation](super).
///
/// ```no_run
/// use std::time::Duration;
/// use softtimers_wan::interfaces::{Bridge, BridgeConfig};
/// use softtimers_wan::{PathConfig, Wan};
///
/// let path = Wan::builder().both(PathConfig::default().delay(Duration::from_millis(10)));
/// let interfaces = ["veth-a".to_owned(), "veth-b".to_owned()];
/// let mut bridge = Bridge::new(&BridgeConfig { interfaces, take: false, own: false }, path)?;
/// bridge.run(Some(bridge.now() + Duration::from_secs(60)))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Cost
/// A system call for each frame sent, one for each batch received, and none while nothing is held and nothing comes. 8
/// MiB of address space for received frames, used as far as frames are long.
#[derive(Debug)]
pub struct Bridge {
    sides: [Side; 2],
    live: Live<Carry, Event>,
    incoming: FrameBatch,
    probe: LoopProbe,
    /// Whether a probe is due; none is while no frame is carried.
    probe_is_due: bool,
    came_back: bool,
    own: bool,
    /// Whether a scenario is active, which may begin to treat packets individually at any moment.
    follows: bool,
    stats: BridgeStats,
}

/// A frame on the path, with the offloads left to its interface.
#[derive(Clone, Debug)]
struct Carry {
    bytes: Box<[u8]>,
    offload: Offload,
}

impl AsMut<[u8]> for Carry {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    Probe,
}

controls!(Bridge);

impl Bridge {
    /// Checks both interfaces and sends a probe out of each to detect a loop, which takes a tenth of a second.
    ///
    /// # Errors
    /// [`Problem`].
    pub fn new(config: &BridgeConfig, path: WanBuilder) -> Result<Self, Problem> {
        Bridge::between(Claimed::new(config)?, path)
    }

    /// As [`new`](Self::new), between interfaces claimed earlier, which needs no privilege any more.
    ///
    /// # Errors
    /// [`Problem`].
    pub fn between(claimed: Claimed, path: WanBuilder) -> Result<Self, Problem> {
        let Claimed { sides, own } = claimed;
        let events = LoopConfig { idle: Idle::hybrid(), ..LoopConfig::default() };
        let live = Live::new(events, path).map_err(|error| match error.downcast() {
            Ok(path) => Problem::Path(path),
            Err(error) => Problem::System(error),
        })?;
        for (token, side) in sides.iter().enumerate() {
            live.events.register(
                &side.receiver,
                softtimers::Token(token as u64),
                softtimers::Interest::Readable,
            )?;
        }
        let mut bridge = Bridge {
            sides,
            live,
            incoming: FrameBatch::new(BATCH),
            probe: LoopProbe::new(),
            probe_is_due: false,
            came_back: false,
            own,
            follows: false,
            stats: BridgeStats::default(),
        };
        if own {
            return Ok(bridge);
        }
        bridge.send_probes();
        let until = bridge.now() + FIRST_LOOK;
        bridge.carry(Some(until), false)?;
        // A process kept from its CPU until now has seen the time pass, but has not read the frames that came.
        (0..2).for_each(|side| bridge.take(side, false));
        if bridge.came_back { Err(Problem::Loop) } else { Ok(bridge) }
    }

    /// Carries frames until this time, or without end, or until a [watched](Self::watch) descriptor is readable.
    ///
    /// # Errors
    /// [`Problem::Loop`], and errors of a broken system; errors about a single frame are counted.
    pub fn run(&mut self, until: Option<Timestamp>) -> Result<Ended, Problem> {
        self.carry(until, true)
    }

    /// Changes the path in one direction from now on: see [`Direction::set`](crate::Direction::set).
    ///
    /// # Errors
    /// [`PathError`], as [`PathConfig::check`]; then nothing changes.
    pub fn set(&mut self, way: Way, path: PathConfig) -> Result<(), PathError> {
        self.live.wan.set(self.live.now(), way, path)
    }

    /// Changes the path by a scenario that begins now: see [`Wan::play`](crate::Wan::play).
    ///
    /// # Errors
    /// [`PathError`], as [`PathConfig::check`], of any path that the scenario leads to; then nothing changes.
    pub fn play(&mut self, scenario: &Scenario) -> Result<(), PathError> {
        self.live.wan.play(self.live.now(), scenario)?;
        self.follows = true;
        Ok(())
    }

    /// Returns the counters besides those of the path.
    pub fn stats(&self) -> BridgeStats {
        self.stats
    }

    /// Carries frames; without `all` it only detects loops.
    fn carry(&mut self, until: Option<Timestamp>, all: bool) -> Result<Ended, Problem> {
        let stop = until.map(|until| self.live.stop_at(until));
        let ended = loop {
            if self.came_back {
                break Err(Problem::Loop);
            }
            match self.live.next(None) {
                Ok(Next::Ended(ended)) => break Ok(ended),
                Ok(Next::Ready { token, .. }) => self.take(token as usize, all),
                Ok(Next::Due(Event::Probe)) => {
                    self.probe_is_due = false;
                    self.send_probes();
                }
                Ok(Next::Path) => {}
                Err(error) => break Err(Problem::System(error)),
            }
            self.deliver();
        };
        stop.map(|stop| self.live.timers.cancel(stop));
        ended
    }

    /// Receives a batch from one side. More frames are reported again.
    fn take(&mut self, side: usize, all: bool) {
        let Bridge { sides, live, incoming, probe, came_back, stats, own, follows, .. } = self;
        let [a, b] = sides;
        let (from, to) = if side == 0 { (a, b) } else { (b, a) };
        if let Err(error) = from.receiver.recv_batch(incoming) {
            // A frame that Linux could not describe is lost; an interface that is down has none.
            stats.unsplit += u64::from(error.kind() == ErrorKind::InvalidInput);
            return;
        }
        let now = live.events.now();
        stats.recv_drops += u64::from(incoming.drops().wrapping_sub(from.drops_seen));
        from.drops_seen = incoming.drops();
        let way = if side == 0 { Way::Up } else { Way::Down };
        let looks_at_packets = *follows || live.wan.direction(way).path().looks_at_packets();
        for frame in &*incoming {
            match probe.hear(frame.bytes, side, now) {
                None => {}
                Some(Heard::Repeated) => continue,
                Some(Heard::Across) => {
                    *came_back = true;
                    return;
                }
            }
            if !all {
                continue;
            }
            if *own && is_beside(frame.bytes) {
                // ARP asks again if it does not arrive.
                let _ = to.sender.send(frame.bytes);
                continue;
            }
            let received = frame.received.unwrap_or(now).min(now);
            if !looks_at_packets && frame.is_sendable(&to.interface) {
                stats.whole += u64::from(frame.offload.segments.is_some());
                let carry = Carry { bytes: frame.bytes.into(), offload: frame.offload };
                let _ = live.wan.offer(received, way, frame.bytes.len() as u32, carry);
                continue;
            }
            let mut pieces = 0u64;
            let outcome = frame.on_the_wire(&mut |bytes| {
                pieces += 1;
                // The path counts its drops.
                let is_fair = matches!(live.wan.direction(way).path().aqm, Aqm::FqCodel(_));
                let traits =
                    Traits { capable: is_capable(bytes), flow: if is_fair { flow(bytes) } else { 0 } };
                let carry = Carry { bytes: bytes.into(), offload: Offload::default() };
                let _ = live.wan.offer_of(received, way, bytes.len() as u32, traits, carry);
            });
            stats.unsplit += u64::from(outcome.is_err());
            stats.joined += u64::from(pieces > 1);
        }
        if all && !self.own {
            self.probe_soon();
        }
    }

    /// Sends at most a batch of the frames that have arrived; the others are due after the next poll of the sources.
    fn deliver(&mut self) {
        for _ in 0..BATCH {
            let Some((way, delivery)) = self.live.wan.pop_due(self.live.now()) else { return };
            let to = &self.sides[if way == Way::Up { 1 } else { 0 }];
            let marked = delivery.marked;
            let Carry { bytes: mut frame, offload } = delivery.damaged();
            self.stats.marks_written += u64::from(marked && mark(&mut frame));
            let Err(error) = to.sender.send_offloaded(&frame, offload) else { continue };
            let stats = &mut self.stats;
            let long = frame.len() > to.interface.mtu() as usize + ETHERNET && offload.segments.is_none();
            match error.kind() {
                ErrorKind::WouldBlock => stats.send_full += 1,
                _ if error.raw_os_error() == Some(NO_BUFFERS) => stats.send_full += 1,
                _ if long => stats.too_long += 1,
                _ => stats.send_failed += 1,
            }
        }
    }

    fn probe_soon(&mut self) {
        if !self.probe_is_due {
            self.probe_is_due = true;
            let at = self.live.now() + BETWEEN_PROBES;
            self.live.schedule(at, Slack::within(BETWEEN_PROBES / 8), Event::Probe);
        }
    }

    fn send_probes(&mut self) {
        let probes = self.probe.send(self.live.now());
        for (side, probe) in self.sides.iter().zip(probes) {
            // An interface that is down sends nothing, and so is in no loop.
            let _ = side.sender.send(&probe);
        }
    }
}

/// Says whether a frame bypasses the path: ARP as the kernel sends it, not as a program may forge it.
fn is_beside(frame: &[u8]) -> bool {
    frame.len() <= SHORTEST && frame.get(12..14) == Some(&ARP)
}

/// Frames per batch, so that each side gets its turn.
const BATCH: usize = 64;
/// A loop of switches shows within microseconds; one of tunnels or other bridges is found later.
const FIRST_LOOK: Duration = Duration::from_millis(100);
const BETWEEN_PROBES: Duration = Duration::from_secs(1);
/// Addresses, ethertype and one tag, which an interface sends in addition to its MTU.
const ETHERNET: usize = 18;
/// The ethertype of ARP.
const ARP: [u8; 2] = [8, 6];
/// The shortest frame on a wire, without its check sequence; ARP is shorter.
const SHORTEST: usize = 60;
/// `ENOBUFS`, which std has no kind for.
const NO_BUFFERS: i32 = rustix::io::Errno::NOBUFS.raw_os_error();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_arp_alone_passes_beside_the_path() {
        let frame = |ethertype: [u8; 2], bytes: usize| {
            let mut frame = vec![0; bytes];
            frame[12..14].copy_from_slice(&ethertype);
            frame
        };
        assert!(is_beside(&frame(ARP, 42)) && is_beside(&frame(ARP, 60)));
        assert!(!is_beside(&frame(ARP, 61)) && !is_beside(&frame(ARP, 1_514)));
        assert!(!is_beside(&frame([8, 0], 42)) && !is_beside(&[8, 6]));
    }
}
