//! Two interfaces on either side of a [`Wan`](crate::Wan): [`Frames`].

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::rc::Rc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use softtimers::{Idle, Interest, LoopConfig, Slack, Timestamp, Token};
use softtimers_net::packet::{Frame, FrameBatch, Heard, Interface, LoopProbe, Offload, Unit};

use super::beside::is_beside;
use super::claimed::{Claimed, Side};
use super::mark::{flow, is_capable, mark};
use super::only::Only;
use super::problem::Problem;
use crate::relay::{BATCH, Edge, EdgeStats, Event, Live, Packet, Ready};
use crate::{Aqm, Delivery, Relay, Traits, WanBuilder, Way};

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
    /// The time by which the first segment of a frame that the kernel had joined may be late, so that those behind it
    /// leave with it, as one frame again. That saves both kernels most of their work. Zero sends each when it is due.
    pub coalesce: Duration,
    /// The packets that take the path; with `None` all do. The others leave at once by the other interface, and the path
    /// does not count them.
    pub only: Option<Only>,
}

impl BridgeConfig {
    /// Joins interfaces that this machine does not use itself, for all packets.
    pub fn between(interfaces: [String; 2]) -> Self {
        BridgeConfig { interfaces, take: false, own: false, coalesce: Self::COALESCE, only: None }
    }

    /// The default of [`coalesce`](Self::coalesce): four segments at 1 Gbit/s leave as one frame, at 100 Mbit/s none do.
    pub const COALESCE: Duration = Duration::from_micros(40);
}

/// Counters of a bridge, besides those of its path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct BridgeStats {
    /// Frames that the kernel had merged, and that were segmented.
    pub joined: u64,
    /// Frames that the kernel had merged, and that passed so, since the path treats no packet individually.
    pub whole: u64,
    /// Segments of merged frames that left together with others of the same frame.
    pub together: u64,
    /// Frames that [`BridgeConfig::only`] let pass beside the path.
    pub beside: u64,
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

/// Two interfaces.
#[derive(Debug)]
struct Frames {
    /// Two, until they are closed.
    sides: Vec<Side>,
    closing: Vec<JoinHandle<()>>,
    incoming: FrameBatch,
    probe: LoopProbe,
    /// Whether a probe is due; none is while no frame is carried.
    probe_is_due: bool,
    came_back: bool,
    own: bool,
    coalesce: Duration,
    only: Option<Only>,
    /// The segments that leave next in each direction, as one frame.
    run: [Option<Run>; 2],
    /// Room for a frame to be sent.
    part: Vec<u8>,
    spare: Spare,
    /// Whether frames are carried; before, only loops are detected.
    carries: bool,
    stats: BridgeStats,
}

/// Consecutive segments of a joined frame.
#[derive(Debug)]
struct Run {
    unit: Rc<Unit>,
    segments: Range<u16>,
    marked: bool,
}

impl Run {
    /// Says whether this segment continues it.
    fn is_followed_by(&self, unit: &Rc<Unit>, segment: u16, marked: bool) -> bool {
        Rc::ptr_eq(&self.unit, unit) && self.segments.end == segment && self.marked == marked
    }
}

/// The memory of long frames that were sent, for others: joined frames are so long that new memory for each costs page
/// faults. A short frame takes no more than its length, since the path bounds what it holds by lengths.
#[derive(Debug, Default)]
struct Spare(Vec<Vec<u8>>);

impl Spare {
    fn copy(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut room = if bytes.len() < LONG { Vec::new() } else { self.0.pop().unwrap_or_default() };
        room.clear();
        room.reserve_exact(bytes.len());
        room.extend_from_slice(bytes);
        room
    }

    fn keep(&mut self, room: Vec<u8>) {
        if room.capacity() >= LONG && self.0.len() < BATCH {
            self.0.push(room);
        }
    }
}

impl Relay {
    /// Joins two interfaces by a path: see the [module](crate::interfaces). It checks both, and sends a probe out of each
    /// to detect a loop, which takes a tenth of a second.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use softtimers_wan::interfaces::BridgeConfig;
    /// use softtimers_wan::{PathConfig, Relay, Wan};
    ///
    /// let path = Wan::builder().both(PathConfig::default().delay(Duration::from_millis(10)));
    /// let interfaces = ["veth-a".to_owned(), "veth-b".to_owned()];
    /// let mut bridge = Relay::bridge(&BridgeConfig::between(interfaces), path)?;
    /// bridge.run(Some(bridge.now() + Duration::from_secs(60)))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Cost
    /// A system call for each frame sent, one for each batch received, and none while nothing is held and nothing comes. 8
    /// MiB of address space for received frames, used as far as frames are long.
    ///
    /// # Errors
    /// [`Problem`].
    pub fn bridge(config: &BridgeConfig, path: WanBuilder) -> Result<Self, Problem> {
        Relay::between(Claimed::new(config)?, path)
    }

    /// As [`bridge`](Self::bridge), between interfaces claimed earlier, which needs no privilege any more.
    ///
    /// # Errors
    /// [`Problem`].
    pub fn between(claimed: Claimed, path: WanBuilder) -> Result<Self, Problem> {
        let Claimed { sides, own, coalesce, only } = claimed;
        let events = LoopConfig { idle: Idle::hybrid(), ..LoopConfig::default() };
        let mut live = Live::new(events, path).map_err(|error| match error.downcast() {
            Ok(path) => Problem::Path(path),
            Err(error) => Problem::System(error),
        })?;
        for (token, side) in sides.iter().enumerate() {
            live.events.register(&side.receiver, Token(token as u64), Interest::Readable)?;
        }
        let mut edge = Frames {
            sides: sides.into(),
            closing: Vec::new(),
            incoming: FrameBatch::new(BATCH),
            probe: LoopProbe::new(),
            probe_is_due: false,
            came_back: false,
            own,
            coalesce,
            only,
            run: [None, None],
            part: Vec::new(),
            spare: Spare::default(),
            carries: own,
            stats: BridgeStats::default(),
        };
        if !own {
            // Until it carries frames, it only detects loops.
            edge.send_probes(&live);
            let until = live.now() + FIRST_LOOK;
            live.carry(&mut edge, Some(until), &mut |_| {})?;
            // A process kept from its CPU until now has seen the time pass, but has not read the frames that came.
            (0..2).for_each(|side| edge.take(&mut live, side));
            edge.settle(&mut live)?;
            edge.carries = true;
        }
        Ok(Relay { live, edge: Box::new(edge) })
    }
}

impl Edge for Frames {
    fn stats(&self) -> EdgeStats {
        EdgeStats::Interfaces(self.stats)
    }

    fn ready(&mut self, live: &mut Live, ready: Ready) {
        self.take(live, ready.token as usize);
    }

    fn due(&mut self, live: &mut Live, _: Event) {
        self.probe_is_due = false;
        self.send_probes(live);
    }

    fn may_wait(&self, live: &Live, way: Way) -> Duration {
        let direction = live.wan.direction(way);
        let path = direction.path();
        let (Some((Packet::Segment(unit, index), gap)), true, None) =
            (direction.next_packet(), path.jitter.size.is_zero(), path.slots)
        else {
            return Duration::ZERO;
        };
        let behind = u32::from(unit.segments() - 1 - index);
        let reached = self.coalesce.as_nanos().checked_div(gap.as_nanos()).unwrap_or_default();
        gap * behind.min(u32::try_from(reached).unwrap_or(u32::MAX))
    }

    /// Sends a frame, or collects a segment.
    fn send(&mut self, _: &mut Live, _: Timestamp, way: Way, delivery: Delivery<Packet>) {
        let Delivery { marked, copy, flipped, .. } = delivery;
        let is_plain = !self.coalesce.is_zero() && !copy && flipped.is_none();
        match (&delivery.packet, &self.run[to(way)]) {
            (Packet::Segment(unit, index), Some(run))
                if is_plain && run.is_followed_by(unit, *index, marked) =>
            {
                return self.run[to(way)].iter_mut().for_each(|run| run.segments.end += 1);
            }
            _ => self.send_run(way),
        }
        if let (Packet::Segment(unit, index), true) = (&delivery.packet, is_plain) {
            self.run[to(way)] = Some(Run { unit: Rc::clone(unit), segments: *index..index + 1, marked });
            return;
        }
        let Packet::Frame(mut frame, offload) = self.alone(delivery).damaged() else { return };
        self.stats.marks_written += u64::from(marked && mark(&mut frame));
        self.send_frame(way, &frame, offload);
        self.spare.keep(frame);
    }

    fn settle(&mut self, _: &mut Live) -> io::Result<()> {
        [Way::Up, Way::Down].into_iter().for_each(|way| self.send_run(way));
        if self.came_back { Err(io::Error::other(Problem::Loop)) } else { Ok(()) }
    }

    /// The kernel takes milliseconds to close a packet socket: both at once.
    fn close(&mut self) {
        let closing = self.sides.drain(..).map(|side| thread::Builder::new().spawn(move || drop(side)));
        self.closing.extend(closing.flatten());
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        self.close();
        self.closing.drain(..).for_each(|closing| _ = closing.join());
    }
}

impl Frames {
    /// Receives a batch from one side. More frames are reported again.
    fn take(&mut self, live: &mut Live, side: usize) {
        let Frames { sides, incoming, probe, came_back, stats, spare, own, carries, only, .. } = self;
        let [a, b] = &mut sides[..] else { return };
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
        for frame in incoming.iter() {
            match probe.hear(frame.bytes, side, now) {
                None => {}
                Some(Heard::Repeated) => continue,
                Some(Heard::Across) => {
                    *came_back = true;
                    return;
                }
            }
            if !*carries {
                continue;
            }
            if *own && is_beside(frame.bytes) {
                // ARP asks again if it does not arrive.
                let _ = to.sender.send(frame.bytes);
                continue;
            }
            if only.as_ref().is_some_and(|only| !only.takes(frame.bytes)) {
                stats.beside += 1;
                pass(stats, &frame, to);
                continue;
            }
            let received = frame.received.unwrap_or(now).min(now);
            offer(live, stats, spare, way, received, &frame, &to.interface);
        }
        if self.carries && !self.own {
            self.probe_soon(live);
        }
    }

    /// Makes a segment a frame of its own; with its checksum, if it is to be damaged.
    fn alone(&mut self, delivery: Delivery<Packet>) -> Delivery<Packet> {
        let (mut frame, mut offload) = match &delivery.packet {
            Packet::Segment(unit, index) => {
                let offload = unit.part(*index..index + 1, &mut self.part);
                (self.spare.copy(&self.part), offload)
            }
            _ => return delivery,
        };
        if delivery.flipped.is_some() {
            // The place is one of the frame, so this does not fail.
            let _ = offload.complete_checksum(&mut frame);
        }
        Delivery { packet: Packet::Frame(frame, offload), ..delivery }
    }

    /// Sends the segments collected for a direction.
    fn send_run(&mut self, way: Way) {
        let Some(Run { unit, segments, marked }) = self.run[to(way)].take() else { return };
        let mut frame = std::mem::take(&mut self.part);
        let number = segments.len() as u64;
        let offload = unit.part(segments, &mut frame);
        self.stats.together += if number > 1 { number } else { 0 };
        self.stats.marks_written += if marked && mark(&mut frame) { number } else { 0 };
        self.send_frame(way, &frame, offload);
        self.part = frame;
        Rc::into_inner(unit).into_iter().for_each(|unit| self.spare.keep(unit.into_bytes()));
    }

    fn send_frame(&mut self, way: Way, frame: &[u8], offload: Offload) {
        let Some(side) = self.sides.get(to(way)) else { return };
        send(&mut self.stats, side, frame, offload);
    }

    fn probe_soon(&mut self, live: &mut Live) {
        if !self.probe_is_due {
            self.probe_is_due = true;
            let at = live.now() + BETWEEN_PROBES;
            live.schedule(at, Slack::within(BETWEEN_PROBES / 8), Event::Probe);
        }
    }

    fn send_probes(&mut self, live: &Live) {
        let probes = self.probe.send(live.now());
        for (side, probe) in self.sides.iter().zip(probes) {
            // An interface that is down sends nothing, and so is in no loop.
            let _ = side.sender.send(&probe);
        }
    }
}

/// Sends a frame by a side, and counts a failure.
fn send(stats: &mut BridgeStats, side: &Side, frame: &[u8], offload: Offload) {
    let Err(error) = side.sender.send_offloaded(frame, offload) else { return };
    let long = frame.len() > side.interface.mtu() as usize + ETHERNET && offload.segments.is_none();
    match error.kind() {
        ErrorKind::WouldBlock => stats.send_full += 1,
        _ if error.raw_os_error() == Some(NO_BUFFERS) => stats.send_full += 1,
        _ if long => stats.too_long += 1,
        _ => stats.send_failed += 1,
    }
}

/// Passes a frame beside the path.
fn pass(stats: &mut BridgeStats, frame: &Frame<'_>, side: &Side) {
    if frame.is_sendable(&side.interface) {
        return send(stats, side, frame.bytes, frame.offload);
    }
    let outcome = frame.on_the_wire(&mut |bytes| send(stats, side, bytes, Offload::default()));
    stats.unsplit += u64::from(outcome.is_err());
}

/// Puts a frame on the path: whole, if the path does not look at packets, else in the segments that the kernel had joined.
fn offer(
    live: &mut Live,
    stats: &mut BridgeStats,
    spare: &mut Spare,
    way: Way,
    received: Timestamp,
    frame: &Frame<'_>,
    out: &Interface,
) {
    // The path counts its drops.
    let looks_at_packets = live.follows || live.wan.direction(way).path().looks_at_packets();
    if !looks_at_packets && frame.is_sendable(out) {
        stats.whole += u64::from(frame.offload.segments.is_some());
        let packet = Packet::Frame(spare.copy(frame.bytes), frame.offload);
        let _ = live.wan.offer(received, way, frame.bytes.len() as u32, packet);
        return;
    }
    if let Some(unit) = Unit::new(frame, out, |bytes| spare.copy(bytes)).map(Rc::new) {
        stats.joined += 1;
        let traits = traits(live, way, unit.headers());
        for segment in 0..unit.segments() {
            let (length, packet) = (unit.length(segment) as u32, Packet::Segment(Rc::clone(&unit), segment));
            let _ = live.wan.offer_of(received, way, length, traits, packet);
        }
        return;
    }
    let mut pieces = 0u64;
    let outcome = frame.on_the_wire(&mut |bytes| {
        pieces += 1;
        let traits = traits(live, way, bytes);
        let packet = Packet::Frame(spare.copy(bytes), Offload::default());
        let _ = live.wan.offer_of(received, way, bytes.len() as u32, traits, packet);
    });
    stats.unsplit += u64::from(outcome.is_err());
    stats.joined += u64::from(pieces > 1);
}

/// Returns what a managed queue uses of a frame.
fn traits(live: &Live, way: Way, frame: &[u8]) -> Traits {
    let is_fair = matches!(live.wan.direction(way).path().aqm, Aqm::FqCodel(_));
    Traits { capable: is_capable(frame), flow: if is_fair { flow(frame) } else { 0 } }
}

/// Returns the index of the side to which a direction leads.
fn to(way: Way) -> usize {
    usize::from(way == Way::Up)
}

/// The length from which a frame may take the memory of another.
const LONG: usize = 16 << 10;
/// A loop of switches shows within microseconds; one of tunnels or other bridges is found later.
const FIRST_LOOK: Duration = Duration::from_millis(100);
const BETWEEN_PROBES: Duration = Duration::from_secs(1);
/// Addresses, ethertype and one tag, which an interface sends in addition to its MTU.
const ETHERNET: usize = 18;
/// `ENOBUFS`, which std has no kind for.
const NO_BUFFERS: i32 = rustix::io::Errno::NOBUFS.raw_os_error();

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::{PathConfig, Wan};

    #[test]
    fn short_frames_take_no_memory_of_long_ones() {
        let (mut spare, joined) = (Spare::default(), vec![0; 64 << 10]);
        let copy = spare.copy(&joined);
        spare.keep(copy);
        let short: Vec<Vec<u8>> = (0..BATCH).map(|_| spare.copy(&joined[..60])).collect();
        assert_eq!(short.iter().map(Vec::capacity).sum::<usize>(), BATCH * 60);
        short.into_iter().for_each(|room| spare.keep(room));
        let long = spare.copy(&joined[..LONG]);
        assert_eq!((long.len(), long.capacity()), (LONG, joined.len()));
    }

    #[test]
    fn a_closed_bridge_keeps_its_counters_and_waits_for_its_interfaces() {
        let path = Wan::builder().both(PathConfig::default());
        let live = Live::new(LoopConfig::default(), path).unwrap();
        let closed = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&closed);
        let closing = thread::spawn(move || {
            thread::park_timeout(Duration::from_millis(50));
            seen.store(true, Ordering::Relaxed);
        });
        let edge = Frames {
            sides: Vec::new(),
            closing: vec![closing],
            incoming: FrameBatch::new(BATCH),
            probe: LoopProbe::new(),
            probe_is_due: false,
            came_back: false,
            own: true,
            coalesce: Duration::ZERO,
            only: None,
            run: [None, None],
            part: Vec::new(),
            spare: Spare::default(),
            carries: true,
            stats: BridgeStats { joined: 3, ..BridgeStats::default() },
        };
        let mut relay = Relay { live, edge: Box::new(edge) };
        let before = relay.stats();
        relay.close();
        relay.run(Some(relay.now())).unwrap();
        assert_eq!((relay.stats(), relay.counters(Way::Up)), (before, crate::Counters::default()));
        drop(relay);
        assert!(closed.load(Ordering::Relaxed));
    }
}
