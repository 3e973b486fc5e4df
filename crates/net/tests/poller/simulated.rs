//! A simulated device and machine, on which time passes only with work: for deterministic tests of policies
//! and handlers.
//!
//! ```text
//!   arrivals ─▶ ring, bounded ─▶ poll_rx ─▶ handler ─▶ output queue, bounded ─▶ descriptors ─▶ wire
//!               │ dropped: interface        each step moves the clock by its cost
//! ```
//!
//! Packets enter the ring as the clock passes their times, whatever the poller does meanwhile. The wake-up is
//! an edge: it comes only for a packet that arrives while it is enabled, so a poller that does not check
//! again after arming loses packets here.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use softtimers::{Clock, ManualClock, Timestamp};
use softtimers_poll::SourceId;

use softtimers_net::poller::{Device, Devices, Drops, Host, Left, Packet, Received, Sent, Transmit, Woken};

/// The costs of a poller's steps, by which each moves the clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Costs {
    /// A turn of receiving, whatever it finds; at least a nanosecond.
    pub(crate) receive_turn: Duration,
    /// Each received packet, without the handler.
    pub(crate) packet: Duration,
    /// A turn of transmitting; at least a nanosecond.
    pub(crate) transmit_turn: Duration,
    /// Enabling or disabling a wake-up.
    pub(crate) arm: Duration,
    /// The cost of being woken up.
    pub(crate) wake_up: Duration,
    /// The cost of a sleep that times out: the part that the thread is charged with, and the part that it is
    /// not, the timer's interrupt, which comes while the other program runs.
    pub(crate) timer: [Duration; 2],
}

impl Default for Costs {
    /// Returns costs similar to those of a UDP socket on Linux.
    fn default() -> Self {
        Costs {
            receive_turn: Duration::from_nanos(300),
            packet: Duration::from_nanos(1_000),
            transmit_turn: Duration::from_nanos(300),
            arm: Duration::from_nanos(200),
            wake_up: Duration::from_micros(10),
            timer: [Duration::ZERO; 2],
        }
    }
}

/// A device whose packets arrive at times given beforehand. Each carries its number in eight bytes.
pub(crate) struct SimulatedDevice {
    clock: Rc<ManualClock>,
    costs: Costs,
    arrivals: Box<dyn Iterator<Item = Timestamp>>,
    next: Option<Timestamp>,
    ring: VecDeque<(Timestamp, u64)>,
    room: usize,
    armed: bool,
    woken: bool,
    arrived: u64,
    dropped: u64,
    turns_while_armed: u64,
    most_taken: usize,
    output: SimulatedOutput,
}

/// An output with a bounded queue before it and a few descriptors, each busy while its packet is on the wire and
/// until it is reclaimed.
#[derive(Debug)]
pub(crate) struct SimulatedOutput {
    queue: VecDeque<Vec<u8>>,
    room: usize,
    /// When each packet that was handed to the device has left, the earliest first.
    busy: VecDeque<Timestamp>,
    descriptors: usize,
    wire: Duration,
    sent: u64,
}

impl SimulatedDevice {
    /// Makes a device whose packets arrive at `arrivals`, in order, with a ring of 256, an output queue of
    /// 256 and 8 descriptors, and no time on the wire.
    pub(crate) fn new(
        clock: &Rc<ManualClock>,
        costs: Costs,
        arrivals: impl IntoIterator<Item = Timestamp> + 'static,
    ) -> Self {
        let mut arrivals: Box<dyn Iterator<Item = Timestamp>> = Box::new(arrivals.into_iter());
        let next = arrivals.next();
        let output = SimulatedOutput {
            queue: VecDeque::new(),
            room: 256,
            busy: VecDeque::new(),
            descriptors: 8,
            wire: Duration::ZERO,
            sent: 0,
        };
        SimulatedDevice {
            clock: Rc::clone(clock),
            costs,
            arrivals,
            next,
            ring: VecDeque::new(),
            room: 256,
            armed: false,
            woken: false,
            arrived: 0,
            dropped: 0,
            turns_while_armed: 0,
            most_taken: 0,
            output,
        }
    }

    /// Sets the room in the ring, in packets.
    #[must_use]
    pub(crate) fn with_ring(self, room: usize) -> Self {
        SimulatedDevice { room, ..self }
    }

    /// Sets the output queue's `room` in packets, its `descriptors`, and each packet's time on the `wire`.
    #[must_use]
    pub(crate) fn with_output(mut self, room: usize, descriptors: usize, wire: Duration) -> Self {
        (self.output.room, self.output.descriptors, self.output.wire) = (room, descriptors, wire);
        self
    }

    /// Returns the number of packets that arrived, including dropped ones.
    pub(crate) fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Packets in the ring.
    pub(crate) fn waiting(&self) -> usize {
        self.ring.len()
    }

    /// Packets that left by the output.
    pub(crate) fn sent(&self) -> u64 {
        self.output.sent
    }

    /// Packets that wait to leave.
    pub(crate) fn queued(&self) -> usize {
        self.output.queue.len()
    }

    /// Returns whether the device's wake-up is enabled.
    pub(crate) fn is_armed(&self) -> bool {
        self.armed
    }

    /// Turns of receiving while its wake-up was enabled: a poller disables it first.
    pub(crate) fn turns_while_armed(&self) -> u64 {
        self.turns_while_armed
    }

    /// Returns the most packets taken in one turn.
    pub(crate) fn most_taken(&self) -> usize {
        self.most_taken
    }

    /// Returns when the next packet arrives.
    pub(crate) fn next_arrival(&self) -> Option<Timestamp> {
        self.next
    }

    /// Puts the packets that have arrived by now into the ring.
    fn catch_up(&mut self) {
        while let Some(at) = self.next.filter(|&at| at <= self.clock.now()) {
            self.next = self.arrivals.next();
            self.arrived += 1;
            if self.ring.len() < self.room {
                self.ring.push_back((at, self.arrived - 1));
            } else {
                self.dropped += 1;
            }
            self.woken |= std::mem::take(&mut self.armed);
        }
    }

    fn spend(&mut self, time: Duration) {
        self.clock.advance(time);
        self.catch_up();
    }
}

impl Device for SimulatedDevice {
    type Address = ();
    type Transmitter = SimulatedOutput;

    fn poll_rx(
        &mut self,
        quota: usize,
        mut sink: impl FnMut(Packet<'_, ()>, &mut SimulatedOutput),
    ) -> io::Result<Received> {
        self.turns_while_armed += u64::from(self.armed);
        self.spend(self.costs.receive_turn.max(LEAST_COST));
        let mut done = 0;
        while done < quota {
            let Some((at, number)) = self.ring.pop_front() else { break };
            self.spend(self.costs.packet);
            let bytes = &mut number.to_be_bytes();
            sink(Packet { bytes, from: (), arrived: Some(at), truncated: false }, &mut self.output);
            self.catch_up();
            done += 1;
        }
        self.most_taken = self.most_taken.max(done);
        Ok(Received { done, more: !self.ring.is_empty() })
    }

    fn poll_tx(&mut self, quota: usize) -> io::Result<Sent> {
        self.spend(self.costs.transmit_turn.max(LEAST_COST));
        let now = self.clock.now();
        let SimulatedOutput { queue, busy, descriptors, wire, sent, .. } = &mut self.output;
        // Reclaims first: only then is there room.
        while busy.front().is_some_and(|&left| left <= now) {
            busy.pop_front();
        }
        let mut done = 0;
        while done < quota && busy.len() < *descriptors && queue.pop_front().is_some() {
            let begins = busy.back().map_or(now, |&last| last.max(now));
            busy.push_back(begins + *wire);
            (done, *sent) = (done + 1, *sent + 1);
        }
        let left = match (queue.is_empty(), busy.len() < *descriptors) {
            (true, _) => Left::Nothing,
            (false, true) => Left::More,
            (false, false) => Left::Blocked,
        };
        Ok(Sent { done, left })
    }

    fn transmitter(&mut self) -> &mut SimulatedOutput {
        &mut self.output
    }

    fn arm(&mut self) -> io::Result<bool> {
        Ok(self.ring.is_empty())
    }

    fn drops(&mut self) -> io::Result<Drops> {
        Ok(Drops { interface: self.dropped, ..Drops::default() })
    }
}

impl Transmit for SimulatedOutput {
    type Address = ();

    fn queue(&mut self, bytes: &[u8], _: Option<()>) -> bool {
        let room = self.queue.len() < self.room;
        if room {
            self.queue.push_back(bytes.to_vec());
        }
        room
    }
}

impl fmt::Debug for SimulatedDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedDevice")
            .field("next", &self.next)
            .field("waiting", &self.ring.len())
            .field("armed", &self.armed)
            .field("arrived", &self.arrived)
            .field("dropped", &self.dropped)
            .field("output", &self.output)
            .finish_non_exhaustive()
    }
}

/// A machine with one CPU, whose time is a [`ManualClock`].
#[derive(Debug)]
pub(crate) struct Machine {
    clock: Rc<ManualClock>,
    costs: Costs,
    /// Time that it slept.
    slept: Duration,
    /// The time that interrupts took.
    interrupts: Duration,
    began: Timestamp,
    is_alone: bool,
}

impl Machine {
    /// Creates one with the usual costs.
    pub(crate) fn new(clock: &Rc<ManualClock>) -> Self {
        Machine::with_costs(clock, Costs::default())
    }

    /// A machine on this clock, with these costs.
    pub(crate) fn with_costs(clock: &Rc<ManualClock>, costs: Costs) -> Self {
        let (slept, interrupts) = (Duration::ZERO, Duration::ZERO);
        Machine { clock: Rc::clone(clock), costs, slept, interrupts, began: clock.now(), is_alone: false }
    }
}

impl Machine {
    /// Removes the other program: while the poller sleeps, the CPU is idle. Otherwise another program
    /// computes whenever the poller sleeps.
    #[must_use]
    pub(crate) fn alone(self) -> Self {
        Machine { is_alone: true, ..self }
    }

    /// Returns the time that the poller has slept, which was left to the other program.
    pub(crate) fn slept(&self) -> Duration {
        self.slept
    }
}

impl Host<SimulatedDevice> for Machine {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn cpu_time(&self) -> Duration {
        let others = self.slept + self.interrupts;
        self.clock.now().saturating_duration_since(self.began).saturating_sub(others)
    }

    fn timer_cost(&mut self) -> Duration {
        self.costs.timer[1]
    }

    fn add(&mut self, _: SourceId, _: &mut SimulatedDevice) -> io::Result<()> {
        Ok(())
    }

    fn arm(&mut self, _: SourceId, device: &mut SimulatedDevice) -> io::Result<bool> {
        // A packet that arrives while it is being enabled causes no wake-up.
        device.spend(self.costs.arm);
        device.armed = true;
        let empty = device.arm()?;
        device.armed &= empty;
        Ok(empty)
    }

    fn disarm(&mut self, _: SourceId, device: &mut SimulatedDevice) -> io::Result<()> {
        device.armed = false;
        device.spend(self.costs.arm);
        Ok(())
    }

    fn remove(&mut self, _: SourceId, device: &mut SimulatedDevice) {
        (device.armed, device.woken) = (false, false);
        device.spend(self.costs.arm);
    }

    fn is_idle(&mut self) -> bool {
        self.is_alone
    }

    /// Sleeping for ever without future packets returns at once, because it would never end.
    fn wait(
        &mut self,
        devices: &mut Devices<SimulatedDevice>,
        until: Option<Timestamp>,
        woken: &mut Woken,
    ) -> io::Result<()> {
        catch_up(devices);
        let before = self.clock.now();
        if !devices.iter().any(|(_, device)| device.woken) {
            let armed = devices.iter().filter(|(_, device)| device.armed);
            let arrival = armed.filter_map(|(_, device)| device.next).min();
            let wake = arrival.into_iter().chain(until).min();
            wake.into_iter().for_each(|wake| self.clock.advance_to(wake));
            self.slept += self.clock.now().saturating_duration_since(before);
            catch_up(devices);
        }
        for (source, device) in devices.iter_mut() {
            if std::mem::take(&mut device.woken) {
                woken.sources.push(source);
            }
        }
        let slept = self.clock.now() > before;
        let [known, hidden] = match woken.sources.is_empty() {
            false => [self.costs.wake_up, Duration::ZERO],
            true if slept => self.costs.timer,
            true => [Duration::ZERO; 2],
        };
        self.clock.advance(known + hidden);
        self.interrupts += hidden;
        catch_up(devices);
        Ok(())
    }
}

fn catch_up(devices: &mut Devices<SimulatedDevice>) {
    devices.iter_mut().for_each(|(_, device)| device.catch_up());
}

/// Every step takes some time, or a loop that waits for time to pass would not end.
const LEAST_COST: Duration = Duration::from_nanos(1);
