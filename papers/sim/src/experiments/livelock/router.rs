//! The router under test: two Ethernets, one CPU, one of the paper's kernels.
//!
//! ```text
//!   interrupt-driven: ring ─▶ driver at SPLIMP ─▶ ipintrq ─▶ IP, a thread ─▶ output queue ─▶ transmitter
//!   polled:           ring ─▶ the polling thread, driver and IP in one ────▶ output queue ─▶ transmitter
//!   with screend:                                       IP ─▶ queue ─▶ process ─▶ the rest of IP ─▶ …
//! ```
//!
//! This file has what all kernels share: the machine, the devices, the process behind the queue. The kernels'
//! reactions to interrupts are in [`interrupts`] and [`polled`].

mod counters;
mod interrupts;
mod polled;

use std::time::Duration;

use softtimers_core::{Timestamp, Trace};

use super::config::{Config, Consumer, Kernel, TransmitPriority};
use super::costs::Costs;
use super::generator::Generator;
use crate::Engine;
use crate::engine::device::{Ring, Transmitter};
use crate::engine::processor::{Attempt, Cooling, Dispatched, Level, Processor, TaskConfig, TaskId};
use counters::Counters;
use interrupts::Interrupts;
use polled::Polled;

use crate::machine::Priorities;
use crate::{Steps, Streams, mser_5};
pub(super) use counters::RouterStats;

/// A packet, with its time of arrival.
pub(super) type Packet = Timestamp;

/// An event of the router.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RouterEvent {
    /// A piece of work is done.
    Work(Attempt),
    /// A packet has arrived.
    Arrival,
    /// The transmitter has sent one.
    WireDone,
    /// The clock ticks.
    Tick,
    /// System processes want to run.
    Background,
    /// The polling thread's next poll is due.
    Look,
    /// A window of the automatic quota is over.
    Window,
}

/// The whole machine: the router, its devices and its clock.
#[derive(Debug)]
pub(crate) struct Router {
    config: Config,
    costs: Costs,
    engine: Engine<RouterEvent>,
    cpu: Processor,
    tasks: Tasks,
    ring: Ring<Packet>,
    output: Transmitter<Packet>,
    queue: Ring<Packet>,
    /// The current step of the process behind the queue.
    process: Option<ProcessStep>,
    /// The state of the kernels that do not poll.
    interrupts: Interrupts,
    /// The state of those that do.
    polled: Polled,
    counters: Counters,
    generator: Generator,
}

/// The outcome of a trial.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Trial {
    /// Packets a second that left.
    pub(crate) output: f64,
    /// The share of the CPU that the computing process had.
    pub(crate) user: f64,
}

/// Packets delivered over time.
#[derive(Debug, Default)]
struct Watched {
    /// In each [`OBSERVATION`].
    delivered: Vec<f64>,
    /// The count at the end of the last one.
    before: u64,
}

/// The tasks that compete for the CPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tasks {
    clock: TaskId,
    receive: TaskId,
    transmit: TaskId,
    /// IP's thread, or the polling one.
    network: TaskId,
    process: TaskId,
    background: TaskId,
    user: TaskId,
}

#[derive(Clone, Copy, Debug)]
enum ProcessStep {
    Packet(Packet),
    Output(Packet),
    Finish,
}

impl Router {
    /// Creates an idle router, with the first packet on its way.
    pub(crate) fn new(config: Config, streams: Streams) -> Self {
        Router::with_costs(config, config.costs(), streams)
    }

    /// Creates a router on a machine with other costs.
    pub(crate) fn with_costs(config: Config, costs: Costs, streams: Streams) -> Self {
        let generator = Generator::new(config.rate, config.spacing, &config.machine, streams.of("arrivals"));
        Router::fed_by(generator, config, costs)
    }

    /// Creates a router with the packets of a recording, from its first to its last, which the wire may have delayed.
    pub(crate) fn of_recording(config: Config, recording: &Trace) -> Self {
        let generator = Generator::of_recording(recording, &config.machine);
        let config = Config { warm_up: Duration::ZERO, duration: generator.recorded(), ..config };
        Router::fed_by(generator, config, config.costs())
    }

    /// Runs one trial of the paper (§6.1): `packets` arrive at an idle router, and those that leave until it
    /// is idle again are counted, divided by the time in which the packets arrived. Packets waiting in queues
    /// at the end are included: under livelock they are almost all of the output.
    pub(crate) fn trial(config: Config, packets: u64, streams: Streams) -> Trial {
        let generator = Generator::new(config.rate, config.spacing, &config.machine, streams.of("arrivals"));
        let costs = config.costs();
        let mut router = Router::fed_by(generator.limited(packets), config, costs);
        let last = Timestamp::ZERO + Duration::from_secs(packets / config.rate.max(1) + 2);
        while router.counters.arrived < packets
            && let Some(event) = router.engine.next(last)
        {
            router.happens(event);
            router.dispatch();
        }
        let end = router.engine.now();
        let seconds = end.saturating_duration_since(Timestamp::ZERO).as_secs_f64().max(f64::MIN_POSITIVE);
        let user = router.cpu.worked(router.tasks.user, end).as_secs_f64();
        router.run_until(end + DRAINED);
        Trial { output: router.counters.delivered() as f64 / seconds, user: user / seconds }
    }

    fn fed_by(generator: Generator, config: Config, costs: Costs) -> Self {
        let mut cpu = Processor::new();
        let tasks = Tasks::add(&mut cpu, &config, &costs);
        let machine = &config.machine;
        let mut router = Router {
            engine: Engine::new(),
            cpu,
            tasks,
            ring: Ring::new(config.ring),
            output: Transmitter::new(machine.ifq, machine.descriptors, machine.wire, config.eager),
            queue: Ring::new(config.queue),
            process: None,
            interrupts: Interrupts::new(machine.ifq),
            polled: Polled::new(&config),
            counters: Counters::new(),
            generator,
            config,
            costs,
        };
        router.begin();
        router
    }

    /// Runs a warm-up and then the measurement, and returns the results.
    #[cfg(test)]
    pub(crate) fn run(self) -> RouterStats {
        self.run_in(&Steps::unwatched(), 0, 1)
    }

    /// Does the same as one of a point's runs: after `before` of `runs`.
    pub(super) fn run_in(mut self, steps: &Steps, before: u64, runs: u64) -> RouterStats {
        let begin = Timestamp::ZERO + self.config.warm_up;
        let mut watched = Watched::default();
        // The first packets of a recording are counted too.
        if begin > Timestamp::ZERO {
            self.run_watched(begin, &mut watched);
        }
        self.counting_begins();
        watched.before = 0;
        let slices = (self.config.duration.as_nanos() / SLICE.as_nanos()) as u64 + 1;
        for slice in 1..=slices {
            if !steps.go_on(before * slices + slice - 1, runs * slices) {
                break;
            }
            let end = SLICE.saturating_mul(slice as u32).min(self.config.duration);
            self.run_watched(begin + end, &mut watched);
        }
        let settled = mser_5(&watched.delivered).map(|observations| OBSERVATION * observations as u32);
        RouterStats { settled: settled.filter(|_| begin > Timestamp::ZERO), ..self.into_stats() }
    }

    /// Runs until `end`, and records the deliveries in short intervals of about the first second.
    fn run_watched(&mut self, end: Timestamp, watched: &mut Watched) {
        while watched.delivered.len() < OBSERVATIONS && self.engine.now() + OBSERVATION <= end {
            self.run_until(Timestamp::ZERO + OBSERVATION * (watched.delivered.len() as u32 + 1));
            let delivered = self.counters.delivered();
            watched.delivered.push((delivered - watched.before) as f64);
            watched.before = delivered;
        }
        self.run_until(end);
    }

    pub(crate) fn run_until(&mut self, end: Timestamp) {
        while let Some(event) = self.engine.next(end) {
            self.happens(event);
            self.dispatch();
        }
    }

    /// Runs with only these packets; returns when each one not dropped was delivered, in order, within a
    /// second.
    pub(crate) fn burst(mut self, arrivals: &[Timestamp]) -> Vec<Timestamp> {
        for &at in arrivals {
            self.engine.at(at, RouterEvent::Arrival);
        }
        self.counters.times = Some(Vec::with_capacity(arrivals.len()));
        self.run_until(Timestamp::ZERO + Duration::from_secs(1));
        self.counters.times.unwrap_or_default()
    }

    /// Changes the offered load, from the next packet on.
    #[cfg(test)]
    pub(crate) fn set_rate(&mut self, rate: u64) {
        self.generator.set_rate(rate);
    }

    fn begin(&mut self) {
        self.engine.after(self.config.machine.ticks, RouterEvent::Tick);
        self.engine.after(self.config.machine.background_period, RouterEvent::Background);
        if self.config.auto_quota {
            self.engine.after(polled::WINDOW, RouterEvent::Window);
        }
        self.schedule_arrival();
        if self.config.user {
            self.cpu.give(self.tasks.user, Duration::MAX);
        }
        if self.config.kernel.polls() {
            self.wake_polling();
        }
        self.dispatch();
    }

    fn happens(&mut self, event: RouterEvent) {
        match event {
            RouterEvent::Work(attempt) => {
                if let Some(task) = self.cpu.finished(self.engine.now(), attempt) {
                    self.finished(task);
                }
            }
            RouterEvent::Arrival => self.arrived(),
            RouterEvent::WireDone => self.wire_done(),
            RouterEvent::Tick => {
                self.engine.after(self.config.machine.ticks, RouterEvent::Tick);
                self.observe_progress();
                if self.cpu.is_idle(self.tasks.clock) {
                    self.cpu.give(self.tasks.clock, self.costs.tick);
                }
            }
            RouterEvent::Background => {
                self.engine.after(self.config.machine.background_period, RouterEvent::Background);
                if self.cpu.is_idle(self.tasks.background) {
                    self.cpu.give(self.tasks.background, self.config.machine.background);
                }
            }
            RouterEvent::Look => self.polling_looks(),
            RouterEvent::Window => self.window_ends(),
        }
    }

    fn finished(&mut self, task: TaskId) {
        let (tasks, polls) = (self.tasks, self.config.kernel.polls());
        if task == tasks.receive {
            if polls { self.polling_wanted() } else { self.receive_goes_on() }
        } else if task == tasks.transmit {
            if polls { self.transmit_wanted() } else { self.transmit_goes_on() }
        } else if task == tasks.network {
            if polls { self.polling_goes_on() } else { self.network_goes_on() }
        } else if task == tasks.process {
            self.process_goes_on();
        }
    }

    fn dispatch(&mut self) {
        match self.cpu.dispatch(self.engine.now()) {
            Dispatched::Runs(time, attempt) => self.engine.only_at(time, RouterEvent::Work(attempt)),
            Dispatched::Idle if self.config.kernel.polls() => {
                self.polling_idles();
                if let Dispatched::Runs(time, attempt) = self.cpu.dispatch(self.engine.now()) {
                    self.engine.only_at(time, RouterEvent::Work(attempt));
                }
            }
            Dispatched::Idle | Dispatched::Unchanged | Dispatched::Endless => {}
        }
    }

    fn schedule_arrival(&mut self) {
        if let Some(at) = self.generator.next() {
            self.engine.at(at, RouterEvent::Arrival);
        }
    }

    fn arrived(&mut self) {
        self.schedule_arrival();
        self.counters.arrived += 1;
        self.ring.push(self.engine.now());
        if self.config.kernel.polls() { self.receive_interrupt() } else { self.receive_raised() }
    }

    fn wire_done(&mut self) {
        let now = self.engine.now();
        let (packet, next) = self.output.wire_done(now);
        if let Some(arrived) = packet {
            self.delivered(arrived);
        }
        if let Some(next) = next {
            self.engine.at(next, RouterEvent::WireDone);
        }
        if self.config.kernel.polls() { self.transmit_interrupt() } else { self.transmit_raised() }
    }

    /// Hands a packet to the transmitter.
    pub(super) fn transmit(&mut self, packet: Packet) {
        if let Some(done) = self.output.output(self.engine.now(), packet) {
            self.engine.at(done, RouterEvent::WireDone);
        }
    }

    /// The transmitter's interrupt was serviced.
    pub(super) fn restart_output(&mut self) {
        if let Some(done) = self.output.restart(self.engine.now()) {
            self.engine.at(done, RouterEvent::WireDone);
        }
    }

    /// A packet was queued for the process, or dropped because the queue was full.
    pub(super) fn queued(&mut self, packet: Packet) {
        self.queue.push(packet);
        if self.process.is_none() {
            self.next_of_queue();
        }
    }

    fn next_of_queue(&mut self) {
        let Some(packet) = self.queue.pop() else { return };
        self.process = Some(ProcessStep::Packet(packet));
        self.cpu.give(self.tasks.process, self.costs.process);
        if self.config.kernel.polls() {
            self.queue_drained();
        }
    }

    fn process_goes_on(&mut self) {
        let (next, work) = match self.process.take() {
            Some(ProcessStep::Packet(packet)) if self.config.consumer == Consumer::Screend => {
                (ProcessStep::Output(packet), self.costs.output)
            }
            Some(ProcessStep::Output(packet)) => {
                self.transmit(packet);
                (ProcessStep::Finish, self.costs.finish)
            }
            Some(ProcessStep::Packet(packet)) => {
                self.delivered(packet);
                return self.next_of_queue();
            }
            Some(ProcessStep::Finish) | None => return self.next_of_queue(),
        };
        self.process = Some(next);
        self.cpu.give(self.tasks.process, work);
    }

    /// The number of packets that the process has in hand.
    #[cfg(test)]
    pub(super) fn in_process(&self) -> u64 {
        u64::from(matches!(self.process, Some(ProcessStep::Packet(_) | ProcessStep::Output(_))))
    }
}

impl Tasks {
    fn add(cpu: &mut Processor, config: &Config, costs: &Costs) -> Self {
        let Priorities { clock, device, network, process, background, user } = config.priorities;
        // With a level between any two: for functions that a handler calls, and for a transmit interrupt that
        // waits.
        let level = |priority: u8| Level(2 * priority);
        let (in_handler, lower) = (Level(2 * device + 1), Level(2 * device - 1));
        let device = level(device);
        let thread = |priority, switch| TaskConfig::thread(level(priority), switch, costs.pollution);
        let network = match config.kernel {
            // The interrupt handler itself polls before it returns.
            Kernel::HighIpl => TaskConfig::interrupt(device),
            // A function called by the handler: it finishes before the handler continues.
            _ if config.to_completion => TaskConfig::interrupt(in_handler),
            _ => thread(network, switch_network(config, costs)),
        };
        let transmit = match config.transmit {
            TransmitPriority::Equal => device,
            TransmitPriority::Lower => lower,
            TransmitPriority::Higher => in_handler,
        };
        Tasks {
            clock: cpu.add(TaskConfig::interrupt(level(clock))),
            receive: cpu.add(TaskConfig::interrupt(device)),
            transmit: cpu.add(TaskConfig::interrupt(transmit)),
            network: cpu.add(network),
            process: cpu.add(TaskConfig {
                cooling: if config.consumer == Consumer::Screend {
                    costs.cooling
                } else {
                    Cooling::default()
                },
                ..thread(process, costs.switch)
            }),
            background: cpu.add(thread(background, Duration::ZERO)),
            // The cost of switching back to it is included in the costs of switching away.
            user: cpu.add(thread(user, costs.pollution)),
        }
    }
}

/// Switching to the network's thread. A process that ran before it has evicted some of its code.
fn switch_network(config: &Config, costs: &Costs) -> Duration {
    let after_process = config.user || config.consumer == Consumer::Screend;
    costs.switch_network + if after_process { costs.user } else { Duration::ZERO }
}

/// Events between two checks for a stopped sweep: milliseconds of CPU time.
const SLICE: Duration = Duration::from_secs(1);
/// Longer than all queues take to drain, at any cost that a machine can have.
const DRAINED: Duration = Duration::from_millis(200);
/// Packets are counted in intervals of this length to detect when a run is steady: some tens of packets under
/// overload.
const OBSERVATION: Duration = Duration::from_millis(4);
/// The warm-up and a second.
const OBSERVATIONS: usize = 300;
