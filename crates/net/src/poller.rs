//! Receive that survives overload: [`Poller`].
//!
//! An event loop that answers readiness with "take all there is" livelocks like the kernels of 1997: under a
//! flood its timers do not fire, its other sockets wait, and what it took in is dropped at a queue further on,
//! when most of the work has been done. A poller takes a quota from each source in turn, carries each packet as
//! far as it goes before it takes the next, and leaves what it cannot handle where dropping costs nothing: in the
//! ring, or in the socket's receive buffer.
//!
//! ```text
//!   devices ─▶ quota each, in turn ─▶ your handler ─▶ outputs, bounded
//!      ▲                                   └─▶ a queue of yours ─▶ the next stage
//!      └──── shut ◀── full (feedback), or the share of the CPU is used up
//!
//!   when all are empty: wait(until) arms their wake-ups, looks once more, and sleeps
//! ```
//!
//! When a device is looked at, and whether its wake-up is enabled, is a policy's decision:
//! [`DelayBound`] unless you say otherwise, and any other of [`softtimers_poll`]. One call does a round, so
//! timers fire between rounds however many packets come:
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
//! Several threads have a poller each. Fewer than there are CPUs leave some to the consumers, whatever
//! comes in (livelock §8.2.1).
//!
//! # Two stages
//!
//! Where a packet must wait for another thread, or for a stage that blocks, a queue lies between. Count it with a
//! [`Gauge`] and attach that: input stops at the high-water mark and goes on at the low one, or after a time-out
//! ([`Poller::attach_queue`]).

mod cpu;
mod device;
mod devices;
#[cfg(feature = "packet")]
mod frame;
mod gauge;
mod host;
mod outputs;
#[cfg(feature = "packet")]
pub mod packet;
mod queues;
mod round;
pub mod simulated;
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
pub use packet::{NoOutput, PackedConfig, PackedDevice, PacketConfig, PacketDevice, PacketOutput, Spread};
pub use udp::{UdpDevice, UdpOutput};
#[cfg(feature = "xdp")]
pub use xdp::{XdpConfig, XdpDevice, XdpOutput};

use cpu::Cpu;
use devices::Place;
use queues::Queue;
use softtimers::Token;
use watchdog::Watchdog;

/// Drives devices by policies: see the [module](self).
///
/// # Cost
/// A round reads the clock once for each action, and the thread's CPU time once if there is a
/// [limit](Poller::limit_cpu) on it. Nothing is allocated after set-up, except by devices.
#[derive(Debug)]
pub struct Poller<D: Device, P = DelayBound, H = Linux> {
    rounds: Rounds<P>,
    devices: Devices<D>,
    queues: Vec<Queue>,
    cpu: Option<Cpu>,
    watchdog: Watchdog,
    host: H,
    woken: Woken,
    /// Other descriptors are watched, too.
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
    /// Turns of transmitting that the output cut short.
    pub blocked: u64,
}

/// Names an attached queue. Once that was detached it names nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct QueueId(GateId);

impl<D: Device + AsFd, P: Policy> Poller<D, P> {
    /// Without devices, for the thread that makes it: its timer slack is 1 ns as long as the poller lives.
    ///
    /// # Errors
    /// If the kernel refuses another descriptor.
    pub fn new() -> io::Result<Self> {
        Ok(Poller::on(Linux::new()?))
    }

    /// Watches another descriptor for being readable: an unmodified source, beside the devices. [`ready`] tells
    /// what was found, level-triggered, after each [`wait`] and [`poll`].
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
    /// Without devices, on this machine.
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

    /// Removes a device and gives it back, its wake-up disabled and its input open, with the packets it still has.
    /// `None` if it was removed before.
    ///
    /// Its name names nothing from now on, whatever is added: packets for it are dropped and counted
    /// ([`Outputs::send`]), a wake-up that was on its way is nobody's. Queues and gates lose a source. Its counters
    /// go with it; ask for them before.
    pub fn remove(&mut self, source: SourceId) -> Option<D> {
        let Place { mut device, open, .. } = self.devices.remove(source)?;
        self.host.remove(source, &mut device);
        self.rounds.remove(source);
        if !open {
            device.inhibit(false);
        }
        Some(device)
    }

    /// Input of `sources` follows this queue: shut at its high-water mark, open at the low one or after a
    /// time-out.
    ///
    /// # Errors
    /// If the gauge cannot be watched, as when it is attached already.
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

    /// Input does not follow this queue any more, and its gauge may be attached again. `false` if it was detached
    /// before.
    pub fn detach_queue(&mut self, queue: QueueId) -> bool {
        let Some(at) = self.queues.iter().position(|other| other.gate == queue.0) else { return false };
        let queue = self.queues.remove(at);
        self.host.remove_queue(&queue.gauge);
        self.rounds.remove_gate(queue.gate)
    }

    /// A reason of yours for which input of `sources` may be shut: [`set_gate`](Poller::set_gate). Sources that were
    /// removed are left out.
    pub fn add_gate(&mut self, sources: &[SourceId]) -> GateId {
        let gate = self.rounds.add_gate();
        for &source in sources {
            self.rounds.attach(gate, source);
        }
        gate
    }

    /// Removes a gate of yours; what it shut is open, if nothing else shuts it. `false` if it was removed before.
    pub fn remove_gate(&mut self, gate: GateId) -> bool {
        self.rounds.remove_gate(gate)
    }

    /// Opens or shuts it.
    pub fn set_gate(&mut self, gate: GateId, input: Input) {
        self.rounds.set(gate, input);
    }

    /// Input of all devices may have so much of each period; `None`: all of it.
    ///
    /// [`wait`](Poller::wait) is charged with all that the thread does, from one to the next: sleeping and waking up cost
    /// more than most turns. A loop that sleeps elsewhere is charged with what [`poll`](Poller::poll) does.
    ///
    /// When they have had it, and nothing else wants a CPU, it would be withheld in vain: the poller asks its
    /// [host](Host::is_idle) before it sleeps, and what was counted is forgotten (livelock §7: the idle loop clears the
    /// total and goes on). So on an idle machine packets may have all of a CPU, whatever the limit.
    pub fn limit_cpu(&mut self, limit: Option<CpuLimitConfig>) {
        if let Some(cpu) = self.cpu.take() {
            self.rounds.remove_gate(cpu.gate);
        }
        let Some(limit) = limit else { return };
        let all: Vec<_> = self.rounds.sources().collect();
        // It may have to be measured, which nobody is to be charged with.
        self.host.timer_cost();
        self.cpu = Some(Cpu::new(limit, self.add_gate(&all), self.host.cpu_time()));
    }

    /// The CPU that this thread runs on has nothing else to do: what the limit has counted is forgotten
    /// (livelock §7). The poller finds this by itself where it [can](Poller::limit_cpu); tell it if you know more, as
    /// when this thread has a CPU of its own.
    pub fn processor_idle(&mut self) {
        if let Some(cpu) = &mut self.cpu {
            cpu.idle(&mut self.rounds);
        }
    }

    /// Sets a device's quota from its next turn on.
    pub fn set_quota(&mut self, source: SourceId, quota: Quota) {
        self.rounds.set_quota(source, quota);
    }

    /// Sleeps if there is nothing to do: until a wake-up, until a policy wants to look, or `until`, your next timer.
    /// Then does a round. While there is work it does not sleep; devices that need [looking after](Device::watchdog) end a
    /// sleep, too.
    ///
    /// # Errors
    /// The device's error, or the system's. The round's work until then is done; call again.
    pub fn wait(
        &mut self,
        until: Option<Timestamp>,
        mut handler: impl FnMut(Packet<'_, D::Address>, &mut Outputs<'_, D>),
    ) -> io::Result<()> {
        self.woken.others.clear();
        if until.is_none_or(|until| until > self.host.now()) {
            self.withhold_nothing_in_vain();
        }
        let until = self.rest(&mut handler)?.into_iter().chain(until).min();
        self.look(until)?;
        self.round(&mut handler)
    }

    /// Looks at wake-ups without sleeping, and does a round: for a trigger state of a program that has other
    /// things to do. Returns when to look again if no wake-up comes: a soft timer's due time.
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

    /// A loop of yours is about to sleep: policies may want wake-ups for that. Returns when to [`poll`](Poller::poll)
    /// if none comes; a time that has passed: at once. Without this call policies take the CPU to be saturated,
    /// and keep polling.
    ///
    /// # Errors
    /// As [`wait`](Poller::wait), which does this by itself.
    pub fn idle(
        &mut self,
        mut handler: impl FnMut(Packet<'_, D::Address>, &mut Outputs<'_, D>),
    ) -> io::Result<Option<Timestamp>> {
        self.withhold_nothing_in_vain();
        self.rest(&mut handler)
    }

    /// Logs the stages of packets from now on, the latest `events` of them; zero: not any more. See
    /// [`stages`](Poller::stages).
    pub fn log_stages(&mut self, events: usize) {
        self.stages = (events > 0).then(|| StageLog::new(events));
    }

    /// The log, if there is one: [`StageLog::write_chrome`] makes a file for a trace viewer of it.
    pub fn stages(&self) -> Option<&StageLog> {
        self.stages.as_ref()
    }

    /// The other descriptors that the last wait found ready.
    pub fn ready(&self) -> &[Token] {
        &self.woken.others
    }

    /// The devices: those that have not been removed.
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

    /// The device, to be changed; its wake-up and its packets are the poller's.
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

    /// Returns whether a device's wake-up is enabled: then nobody polls it.
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

    /// Returns the CPU time that was charged since there is a [limit](Poller::limit_cpu); zero without one, since nobody
    /// counts then. It is the time that the kernel charges to this thread, so without waits for the CPU, and with
    /// interrupts that came meanwhile, those included by which it was woken up.
    pub fn cpu_used(&self) -> Duration {
        self.cpu.as_ref().map_or(Duration::ZERO, Cpu::used)
    }

    /// Returns how often the CPU limit shut input.
    pub fn cpu_inhibited(&self) -> u64 {
        self.cpu.as_ref().map_or(0, |cpu| cpu.limit().inhibited())
    }

    /// Returns how often that was for longer than packets were to wait.
    pub fn cpu_exceeded(&self) -> u64 {
        self.cpu.as_ref().map_or(0, |cpu| cpu.limit().exceeded())
    }

    /// Returns the drops of a device's packets, by stage. `queue` is for you to add: a queue of yours is not known.
    ///
    /// # Errors
    /// If the system does not say; `NotFound` if the device was removed.
    pub fn drops(&mut self, source: SourceId) -> io::Result<Drops> {
        let place = self.devices.place(source).ok_or(io::ErrorKind::NotFound)?;
        let own = Drops { rule: place.tally.by_rule, output: place.tally.refused, ..Drops::default() };
        Ok(place.device.drops()?.plus(&own))
    }
}

/// A descriptor that is readable when a device's wake-up has come: to be watched by a loop of yours, which then
/// calls [`Poller::poll`], and [`Poller::idle`] before it sleeps.
impl<D: Device + AsFd, P: Policy> AsFd for Poller<D, P> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.host.as_fd()
    }
}

const REMOVED: &str = "the device was removed";
