//! [`Poller`]: a receive loop that is stable under overload.
//!
//! An event loop that drains a ready source completely livelocks like the kernels of 1997: under a flood its
//! timers do not fire, its other sockets wait, and packets are dropped at a later queue, when most of the
//! work has been done. A poller takes a quota from each source in turn, processes each packet to completion
//! before it takes the next, and leaves the excess where dropping costs nothing: in the ring, or in the
//! socket's receive buffer.
//!
//! ```text
//!   devices ─▶ quota each, in turn ─▶ your handler ─▶ outputs, bounded
//!      ▲                                   └─▶ a queue of yours ─▶ the next stage
//!      └──── shut ◀── full (feedback), or the share of the CPU is used up
//!
//!   when all are empty: wait(until) arms their wake-ups, looks once more, and sleeps
//! ```
//!
//! A policy decides when to poll a device, and when to enable its wake-up: [`DelayBound`] by default, or any
//! other of [`softtimers_poll`]. One call does a round, so timers fire between rounds however many packets
//! come:
//!
//! ```
//! use std::time::Duration;
//! use softtimers_poll::{DelayBound, DelayBoundConfig, SourceConfig};
//! use softtimers::{Clock, Config, Monotonic, Slack, SoftTimers, TriggerState};
//! use softtimers_net::poller::{Poller, UdpDevice};
//! use softtimers_net::udp::UdpSocket;
//!
//! let socket = UdpSocket::bind("127.0.0.1:0")?;
//! let address = socket.local_addr()?;
//! let client = UdpSocket::bind("127.0.0.1:0")?;
//! client.send_to(b"hello", address)?;
//!
//! let mut poller = Poller::new()?;
//! poller.add(UdpDevice::new(socket)?, SourceConfig::new(DelayBound::new(DelayBoundConfig::default())))?;
//! let mut timers = SoftTimers::new(Config::default());
//! timers.schedule(Monotonic.now(), Duration::from_millis(20), Slack::EXACT, "20 ms");
//!
//! let mut seen = Vec::new();
//! loop {
//!     let turn = timers.trigger(TriggerState::HandlerExit, Monotonic.now());
//!     while let Some(fired) = timers.next(&turn) {
//!         seen.push(fired.event.to_owned());
//!     }
//!     if seen.len() == 2 {
//!         break;
//!     }
//!     // If there is nothing to do, sleep until a packet or the next timer; then a round.
//!     poller.wait(timers.poll_at(), |packet, outputs| {
//!         seen.push(String::from_utf8_lossy(packet.bytes).into_owned());
//!         let back = outputs.from();
//!         outputs.send(back, packet.bytes, Some(packet.from)); // echo
//!     })?;
//! }
//! seen.sort();
//! assert_eq!(seen, ["20 ms", "hello"]);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Several threads have a poller each. With fewer pollers than CPUs, some CPUs are left for the consumers
//! under any load (livelock §8.2.1).
//!
//! # Two stages
//!
//! If packets must wait for another thread, or for a stage that blocks, put a queue between. Count it with a
//! [`Gauge`] and attach that: input stops at the high-water mark and resumes at the low one, or after a
//! time-out ([`Poller::attach_queue`]).

mod cpu;
mod device;
mod devices;
#[cfg(feature = "packet")]
mod frame;
mod gauge;
mod host;
mod outputs;
#[cfg(feature = "packet")]
mod packet;
mod queues;
mod round;
mod udp;
mod watchdog;
#[cfg(feature = "xdp")]
pub(crate) mod xdp;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use softtimers_core::Timestamp;
use softtimers_poll::{
    CpuLimitConfig, DelayBound, FeedbackConfig, FeedbackStats, GateId, Input, Policy, Quota, Rounds,
    SourceConfig, SourceId, SourceStats, StageLog,
};

pub use device::{Device, Drops, Left, Packet, Received, Sent, Transmit};
pub use devices::Devices;
#[cfg(feature = "packet")]
pub use frame::{FrameInfo, FrameKind};
pub use gauge::Gauge;
pub use host::{Host, Linux, Woken};
pub use outputs::Outputs;
#[cfg(feature = "packet")]
pub use packet::{Blocks, PacketConfig, PacketDevice, PacketOutput};
pub use udp::{UdpDevice, UdpOutput};
#[cfg(feature = "xdp")]
pub use xdp::{XdpDevice, XdpOutput};

use cpu::Cpu;
use devices::Installed;
use queues::Queue;
use softtimers::Token;
use watchdog::Watchdog;

/// Drives devices by policies: see the [module](self).
///
/// # Cost
/// A round reads the clock once for each action, and the thread's CPU time once if there is a
/// [limit](Poller::limit_cpu) on it. Allocates nothing after set-up, except in devices.
#[derive(Debug)]
pub struct Poller<D: Device, P = DelayBound, H = Linux> {
    rounds: Rounds<P>,
    devices: Devices<D>,
    queues: Vec<Queue>,
    cpu: Option<Cpu>,
    watchdog: Watchdog,
    host: H,
    woken: Woken,
    /// Whether other descriptors are watched, too.
    watching: bool,
    stages: Option<StageLog>,
    stats: PollerStats,
}

/// Counters of a poller, beside those of its sources.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PollerStats {
    /// Rounds, each one visit to every device that had work.
    pub rounds: u64,
    /// Waits that were allowed to sleep.
    pub sleeps: u64,
    /// Packets that left by any device.
    pub sent: u64,
    /// Turns of transmitting that ended because the output was full.
    pub blocked: u64,
}

/// Names an attached queue; dead after that is detached.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct QueueId(GateId);

impl<D: Device + AsFd, P: Policy> Poller<D, P> {
    /// Makes a poller without devices, for the calling thread, whose timer slack is 1 ns as long as the
    /// poller lives.
    ///
    /// # Errors
    /// If the kernel refuses another descriptor.
    pub fn new() -> io::Result<Self> {
        Ok(Poller::on(Linux::new()?))
    }

    /// Watches another descriptor for being readable: an unmodified source, beside the devices. [`ready`]
    /// returns the ready ones, level-triggered, after each [`wait`] and [`poll`].
    ///
    /// # Errors
    /// `InvalidInput` for a token of 2³² or more; `AlreadyExists` if it is watched.
    ///
    /// [`ready`]: Poller::ready
    /// [`wait`]: Poller::wait
    /// [`poll`]: Poller::poll
    pub fn watch(&mut self, source: &impl AsFd, token: Token) -> io::Result<()> {
        self.host.watch(source.as_fd(), token)?;
        self.watching = true;
        Ok(())
    }

    /// Stops watching a descriptor.
    ///
    /// # Errors
    /// `NotFound` if it is not watched.
    pub fn unwatch(&mut self, source: &impl AsFd) -> io::Result<()> {
        self.host.unwatch(source.as_fd())
    }
}

impl<D: Device, P: Policy, H: Host<D>> Poller<D, P, H> {
    /// Makes a poller without devices on `host`.
    pub fn on(host: H) -> Self {
        Poller {
            rounds: Rounds::new(),
            devices: Devices::new(),
            queues: Vec::new(),
            cpu: None,
            watchdog: Watchdog::default(),
            host,
            woken: Woken::default(),
            watching: false,
            stages: None,
            stats: PollerStats::default(),
        }
    }

    /// Adds a device with its policy and quota.
    ///
    /// # Errors
    /// If it cannot be watched.
    pub fn add(&mut self, mut device: D, config: SourceConfig<P>) -> io::Result<SourceId> {
        let id = self.rounds.add(config);
        if let Err(error) = self.host.add(id, &mut device) {
            self.rounds.remove(id);
            return Err(error);
        }
        self.watchdog.add(&device, self.host.now());
        self.devices.insert(id, device);
        if let Some(cpu) = &self.cpu {
            self.rounds.attach(cpu.gate, id);
        }
        Ok(id)
    }

    /// Removes a device and gives it back, its wake-up disabled, with the packets it still has.
    /// `None` if it was removed before.
    ///
    /// Its id is dead afterwards and never reused: packets for it are dropped and counted
    /// ([`Outputs::send`]), and a wake-up under way is ignored. Queues and gates lose the source. Its
    /// counters are lost; read them before.
    pub fn remove(&mut self, source: SourceId) -> Option<D> {
        let Installed { mut device, .. } = self.devices.remove(source)?;
        self.host.remove(source, &mut device);
        self.rounds.remove(source);
        Some(device)
    }

    /// Makes input of `sources` follow this queue: shut at its high-water mark, open at the low one or after
    /// a time-out.
    ///
    /// # Errors
    /// If the gauge cannot be watched, for example because it is attached already.
    pub fn attach_queue(
        &mut self,
        gauge: &Gauge,
        config: FeedbackConfig,
        sources: &[SourceId],
    ) -> io::Result<QueueId> {
        self.host.add_queue(gauge)?;
        let gate = self.add_gate(sources);
        self.queues.push(Queue::new(gauge.clone(), config, gate));
        Ok(QueueId(gate))
    }

    /// Detaches a queue: input no longer follows it, and its gauge may be attached again. Returns `false` if
    /// it was detached before.
    pub fn detach_queue(&mut self, queue: QueueId) -> bool {
        let Some(at) = self.queues.iter().position(|other| other.gate == queue.0) else { return false };
        let queue = self.queues.remove(at);
        self.host.remove_queue(&queue.gauge);
        self.rounds.remove_gate(queue.gate)
    }

    /// Adds a gate, your own reason to shut input of `sources`: [`set_gate`](Poller::set_gate). Ignores
    /// sources that were removed.
    pub fn add_gate(&mut self, sources: &[SourceId]) -> GateId {
        let gate = self.rounds.add_gate();
        for &source in sources {
            self.rounds.attach(gate, source);
        }
        gate
    }

    /// Removes a gate; its sources are open, unless something else shuts them. Returns `false` if it was
    /// removed before.
    pub fn remove_gate(&mut self, gate: GateId) -> bool {
        self.rounds.remove_gate(gate)
    }

    /// Opens or shuts a gate.
    pub fn set_gate(&mut self, gate: GateId, input: Input) {
        self.rounds.set(gate, input);
    }

    /// Limits input of all devices to this share of each period; `None`: no limit.
    ///
    /// Each [`wait`](Poller::wait) is charged with all CPU time of the thread since the previous one:
    /// sleeping and waking up cost more than most turns. A loop that sleeps elsewhere is charged only with
    /// the time in [`poll`](Poller::poll).
    ///
    /// Once the share is used up and no other program needs a CPU, withholding it is pointless: before it
    /// sleeps, the poller asks its [host](Host::is_idle), and resets the account if the CPU is idle (livelock
    /// §7: the idle loop clears the total and resumes input). So on an idle machine packets may use a whole
    /// CPU, whatever the limit.
    pub fn limit_cpu(&mut self, limit: Option<CpuLimitConfig>) {
        if let Some(cpu) = self.cpu.take() {
            self.rounds.remove_gate(cpu.gate);
        }
        let Some(limit) = limit else { return };
        let all: Vec<_> = self.rounds.sources().collect();
        // It may have to be measured, which must not be charged.
        self.host.timer_cost();
        self.cpu = Some(Cpu::new(limit, self.add_gate(&all), self.host.cpu_time()));
    }

    /// Notes that this thread's CPU has no other work: resets the limit's account (livelock §7). The poller
    /// detects this itself where it [can](Poller::limit_cpu); call it if you know more, for example if this
    /// thread has a CPU of its own.
    pub fn processor_idle(&mut self) {
        if let Some(cpu) = &mut self.cpu {
            cpu.idle(&mut self.rounds);
        }
    }

    /// Sets a device's quota from its next turn on.
    pub fn set_quota(&mut self, source: SourceId, quota: Quota) {
        self.rounds.set_quota(source, quota);
    }

    /// Sleeps if there is no work: until a wake-up, until a policy's next poll, or `until`, your next timer.
    /// Then does a round. While there is work it does not sleep; a device's [watchdog](Device::watchdog) ends
    /// a sleep, too.
    ///
    /// # Errors
    /// The device's error, or the system's. The round's work before it is done; call again.
    pub fn wait(
        &mut self,
        until: Option<Timestamp>,
        mut handler: impl FnMut(Packet<'_, D::Address>, &mut Outputs<'_, D>),
    ) -> io::Result<()> {
        self.woken.others.clear();
        if until.is_none_or(|until| until > self.host.now()) {
            self.lift_cpu_limit_if_idle();
        }
        let until = self.rest(&mut handler)?.into_iter().chain(until).min();
        self.look(until)?;
        self.round(&mut handler)
    }

    /// Checks for wake-ups without sleeping, and does a round: for a trigger state of a program with other
    /// work. Returns when to poll again if no wake-up comes, as the due time of a soft timer.
    ///
    /// # Errors
    /// As [`wait`](Poller::wait).
    pub fn poll(
        &mut self,
        mut handler: impl FnMut(Packet<'_, D::Address>, &mut Outputs<'_, D>),
    ) -> io::Result<Option<Timestamp>> {
        self.woken.others.clear();
        if let Some(cpu) = &mut self.cpu {
            cpu.forget(&self.host);
        }
        self.look(Some(Timestamp::ZERO))?;
        self.round(&mut handler)?;
        Ok(self.poll_at(self.host.now()))
    }

    /// Notes that your own loop is about to sleep: policies may enable wake-ups. Returns when to
    /// [`poll`](Poller::poll) if none comes; a passed time means at once. Without this call policies assume
    /// that the CPU is saturated, and keep polling.
    ///
    /// # Errors
    /// As [`wait`](Poller::wait), which does this by itself.
    pub fn idle(
        &mut self,
        mut handler: impl FnMut(Packet<'_, D::Address>, &mut Outputs<'_, D>),
    ) -> io::Result<Option<Timestamp>> {
        self.lift_cpu_limit_if_idle();
        self.rest(&mut handler)
    }

    /// Logs the stages of packets from now on, the latest `events` of them; zero turns that off. See
    /// [`stages`](Poller::stages).
    pub fn log_stages(&mut self, events: usize) {
        self.stages = (events > 0).then(|| StageLog::new(events));
    }

    /// Returns the log, if there is one: [`StageLog::write_chrome`] writes it for a trace viewer.
    pub fn stages(&self) -> Option<&StageLog> {
        self.stages.as_ref()
    }

    /// Returns the other descriptors that the last wait found ready.
    pub fn ready(&self) -> &[Token] {
        &self.woken.others
    }

    /// Returns the devices that have not been removed.
    pub fn devices(&self) -> &Devices<D> {
        &self.devices
    }

    /// Returns a device.
    ///
    /// # Panics
    /// If it was removed; [`devices`](Poller::devices) does not.
    #[track_caller]
    pub fn device(&self, source: SourceId) -> &D {
        self.devices.get(source).expect(REMOVED)
    }

    /// Returns a device, to change it; its wake-up and its packets belong to the poller.
    ///
    /// # Panics
    /// If it was removed.
    #[track_caller]
    pub fn device_mut(&mut self, source: SourceId) -> &mut D {
        self.devices.get_mut(source).expect(REMOVED)
    }

    /// Returns a device's policy.
    ///
    /// # Panics
    /// If it was removed.
    #[track_caller]
    pub fn policy(&self, source: SourceId) -> &P {
        self.rounds.policy(source)
    }

    /// Returns whether a device's wake-up is enabled: then it is not polled.
    pub fn is_armed(&self, source: SourceId) -> bool {
        self.rounds.is_armed(source)
    }

    /// The machine that this poller runs on.
    pub fn host(&self) -> &H {
        &self.host
    }

    /// Counters since the beginning.
    pub fn stats(&self) -> PollerStats {
        self.stats
    }

    /// Counters of a device's input.
    ///
    /// # Panics
    /// If it was removed.
    #[track_caller]
    pub fn source_stats(&self, source: SourceId) -> SourceStats {
        self.rounds.stats(source)
    }

    /// Counters of a queue's feedback.
    ///
    /// # Panics
    /// If it was detached.
    #[track_caller]
    pub fn queue_stats(&self, queue: QueueId) -> FeedbackStats {
        self.queues.iter().find(|other| other.gate == queue.0).expect("the queue was detached").stats()
    }

    /// Returns the CPU time charged since the [limit](Poller::limit_cpu) was set; zero without one, because
    /// it is not counted then. It is the time that the kernel charges to this thread, excluding waits for the
    /// CPU, and including interrupts that came meanwhile, also those that woke it.
    pub fn cpu_used(&self) -> Duration {
        self.cpu.as_ref().map_or(Duration::ZERO, Cpu::used)
    }

    /// Returns how often the CPU limit shut input.
    pub fn cpu_inhibited(&self) -> u64 {
        self.cpu.as_ref().map_or(0, |cpu| cpu.limit().inhibited())
    }

    /// Returns how often that was for longer than the limit's `stretch`.
    pub fn cpu_exceeded(&self) -> u64 {
        self.cpu.as_ref().map_or(0, |cpu| cpu.limit().exceeded())
    }

    /// Returns the drops of a device's packets, by stage. Add `queue` yourself: the poller does not know your
    /// queues.
    ///
    /// # Errors
    /// If the system does not report them; `NotFound` if the device was removed.
    pub fn drops(&mut self, source: SourceId) -> io::Result<Drops> {
        let place = self.devices.place(source).ok_or(io::ErrorKind::NotFound)?;
        let own = Drops { rule: place.tally.by_rule, output: place.tally.refused, ..Drops::default() };
        Ok(place.device.drops()?.plus(&own))
    }
}

/// A descriptor that is readable when a device's wake-up has come: your own loop watches it, calls
/// [`Poller::poll`] then, and [`Poller::idle`] before it sleeps.
impl<D: Device + AsFd, P: Policy> AsFd for Poller<D, P> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.host.as_fd()
    }
}

const REMOVED: &str = "the device was removed";
