//! The relay at work: [`Relay`], two [sides](super::side) under a poller, with what is due beside.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use softtimers::late::cpu_time;
use softtimers::poll::{CpuLimitConfig, SourceConfig};
use softtimers::poller::{Drops, Poller};
use softtimers::udp::UdpSocket;
use softtimers::{Clock, Monotonic, Slack, Timestamp, Token, TriggerState};
use softtimers_wan::live::is_same_socket;
use softtimers_wan::udp::prepare;

use super::metrics::Metrics;
use super::mode::Looks;
use super::report::{ClientCounts, Counts, DropCounts, ForwardReport, RulesReport, WayCounts};
use super::rule_file::RuleFile;
use super::screen::Screen;
use super::second::Second;
use super::side::{Ends, Side};
use super::table::{Event, Table};
use crate::address::bind_failure;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::say;
use crate::plan::ForwardPlan;
use crate::stream::Counter;

/// A relay that runs.
#[derive(Debug)]
pub struct Relay {
    poller: Poller<Side, Looks>,
    screen: Screen,
    file: Option<RuleFile>,
    /// Where the metrics are asked for.
    pub metrics: Option<Metrics>,
    ends: Ends,
    start: Timestamp,
    /// Processor time of this thread when it began.
    cpu_before: Duration,
    total: Second,
    counter: Option<Counter<Second>>,
    /// Emptied each time they are counted.
    latencies: Vec<u64>,
    /// When it was last asked for what takes system calls.
    asked: Timestamp,
}

impl Relay {
    /// Listens.
    ///
    /// # Errors
    /// A usage failure if the address cannot be had, the rules are wrong or --to is the relay itself.
    pub fn bind(plan: &ForwardPlan, interrupt: Interrupt) -> Result<Self, Failure> {
        let rules = plan.rules.as_deref().map(RuleFile::open).transpose();
        let rules = rules.map_err(|problem| Failure::usage(format_args!("--rules {problem}")))?;
        let (file, rules) = rules.unzip();
        let config = plan.relay;
        let socket = UdpSocket::bind(config.listen).map_err(|error| bind_failure(config.listen, &error))?;
        let broke_off = |error: io::Error| Failure::broke_off("setting up the relay", &error);
        let local = socket.local_addr().map_err(broke_off)?;
        if is_same_socket(config.upstream, local) {
            return Err(Failure::usage(format_args!("--to {}: is the relay itself", config.upstream)));
        }
        prepare(&socket, &config).map_err(broke_off)?;
        let metrics = plan.metrics.map(|address| {
            let problem = |error: io::Error| Failure::usage(format_args!("--metrics {address}: {error}"));
            Metrics::start(address).map_err(problem)
        });
        let metrics = metrics.transpose()?;
        let start = Monotonic.now();
        let ends = Ends {
            interrupt: Rc::new(interrupt),
            at: plan.end.duration.map(|duration| start + duration),
            count: plan.end.count,
        };
        let mut table = Table::new(config).map_err(broke_off)?;
        if file.is_some() {
            table.timers.schedule(start, RuleFile::LOOK, LOOK_SLACK, Event::Rules);
        }
        let table = Rc::new(RefCell::new(table));
        let poller = poller(plan, socket, &table, &ends, metrics.as_ref()).map_err(broke_off)?;
        let sides = [0, 1].map(softtimers::poll::SourceId::from_index);
        let upstream = config.upstream;
        let screen = Screen { table, rules, local, upstream, sides, rejected: 0, misdirected: 0 };
        Ok(Relay {
            poller,
            screen,
            file,
            metrics,
            ends,
            start,
            cpu_before: cpu_time(),
            total: Second::default(),
            counter: None,
            latencies: Vec::new(),
            asked: start,
        })
    }

    /// Where clients send to.
    pub fn local_addr(&self) -> SocketAddr {
        self.screen.local
    }

    /// Counts into this account, too, from now on.
    pub fn count_in(&mut self, counter: Counter<Second>) {
        self.counter = Some(counter);
    }

    /// Relays until its end or a signal.
    ///
    /// # Errors
    /// If the system fails meanwhile.
    pub fn run(&mut self) -> Result<(), Failure> {
        let broke_off = |error: io::Error| Failure::broke_off("relaying", &error);
        let [clients, upstream] = self.screen.sides;
        while !self.ends.are_reached(self.poller.device(clients).received()) {
            let timers = self.fire();
            let until = [timers, self.ends.at].into_iter().flatten().min();
            let screen = &mut self.screen;
            self.poller.wait(until, |packet, outputs| screen.handle(&packet, outputs)).map_err(broke_off)?;
            if self.poller.ready().contains(&METRICS) {
                self.answer().map_err(broke_off)?;
            }
            self.count().map_err(broke_off)?;
        }
        for side in [clients, upstream] {
            self.poller.device_mut(side).flush();
        }
        self.count_all().map_err(broke_off)
    }

    /// The findings so far.
    pub fn report(&self) -> ForwardReport {
        let span = Monotonic.now().saturating_duration_since(self.start);
        let [clients, upstream] = self.screen.sides.map(|side| self.poller.device(side));
        let refusals = clients.refusals() + upstream.refusals();
        let stats = self.screen.table.borrow().clients.stats();
        let rules = self.file.as_ref().zip(self.screen.rules.as_ref());
        ForwardReport {
            counts: self.total.counts,
            packets_per_poll: self.total.counts.packets_per_poll(),
            latency_ns: self.total.latency.distribution(),
            cpu_share: self.total.cpu_share(span),
            cpu_limited: self.poller.cpu_inhibited(),
            span_s: span.as_secs_f64(),
            up: WayCounts { received: clients.received(), sent: upstream.sent() },
            down: WayCounts { received: upstream.received(), sent: clients.sent() },
            clients: ClientCounts::of(&stats, self.screen.misdirected, refusals),
            rules: rules.map(|(file, rules)| {
                RulesReport::of(rules, self.screen.rejected, file.reloaded, file.refused)
            }),
        }
    }

    /// Does what is due; says when more is.
    fn fire(&mut self) -> Option<Timestamp> {
        let now = Monotonic.now();
        let turn = self.screen.table.borrow_mut().timers.trigger(TriggerState::HandlerExit, now);
        loop {
            let mut table = self.screen.table.borrow_mut();
            match table.timers.next(&turn).map(|fired| fired.event) {
                None => return table.timers.poll_at(),
                Some(Event::Silent(client)) => table.expire(now, client),
                Some(Event::Rules) => {
                    table.timers.schedule(now, RuleFile::LOOK, LOOK_SLACK, Event::Rules);
                    drop(table);
                    self.reload();
                }
            }
        }
    }

    fn reload(&mut self) {
        match self.file.as_mut().and_then(RuleFile::look) {
            None => {}
            Some(Ok(mut rules)) => {
                self.screen.rules.iter().for_each(|old| rules.succeed(old));
                say(format_args!("rules reloaded: {} of them", rules.entries().len()));
                self.screen.rules = Some(rules);
            }
            Some(Err(problem)) => {
                say(format_args!("{}; the old rules stay", crate::failure::one_line(&problem)));
            }
        }
    }

    fn answer(&mut self) -> io::Result<()> {
        self.count_all()?;
        let report = self.report();
        let cpu = self.total.cpu;
        self.metrics.iter().for_each(|metrics| metrics.answer(|| report.exposition(cpu)));
        Ok(())
    }

    /// Counts what was done since the last time, in the total and in the account of the interval.
    fn count(&mut self) -> io::Result<()> {
        let now = Monotonic.now();
        let mut cpu = self.total.cpu;
        if now.saturating_duration_since(self.asked) >= ASK {
            self.asked = now;
            cpu = cpu_time().saturating_sub(self.cpu_before);
            self.screen.sides.iter().for_each(|&side| self.poller.device_mut(side).ask_ring());
        }
        let counts = self.counts()?;
        let new = counts.since(&self.total.counts);
        let used = cpu.saturating_sub(self.total.cpu);
        (self.total.counts, self.total.cpu) = (counts, cpu);
        for side in self.screen.sides {
            self.latencies.extend(self.poller.device_mut(side).take_latencies());
        }
        self.latencies.iter().for_each(|&latency| self.total.latency.record(latency));
        if let Some(counter) = &self.counter {
            counter.count(|second| {
                second.counts = second.counts.plus(&new);
                second.cpu += used;
                self.latencies.iter().for_each(|&latency| second.latency.record(latency));
            });
        }
        self.latencies.clear();
        Ok(())
    }

    /// Counts also what takes a system call.
    fn count_all(&mut self) -> io::Result<()> {
        self.asked = Timestamp::ZERO;
        self.count()
    }

    fn counts(&mut self) -> io::Result<Counts> {
        let mut counts = Counts { wakeups: self.poller.stats().sleeps, ..Counts::default() };
        let mut drops = Drops::default();
        for side in self.screen.sides {
            drops = drops.plus(&self.poller.drops(side)?);
            let (stats, device) = (self.poller.source_stats(side), self.poller.device(side));
            counts.came += device.received();
            counts.out += device.sent();
            counts.polls += stats.looks;
            counts.empty_polls += stats.empty_looks;
            counts.mode_switches += self.poller.policy(side).switches();
        }
        counts.dropped = DropCounts::from(drops);
        counts.came += counts.dropped.ring;
        Ok(counts)
    }
}

/// The poller with its two sides, clients first.
fn poller(
    plan: &ForwardPlan,
    socket: UdpSocket,
    table: &Rc<RefCell<Table>>,
    ends: &Ends,
    metrics: Option<&Metrics>,
) -> io::Result<Poller<Side, Looks>> {
    let mut poller = Poller::new()?;
    // Answers are not counted.
    let always = Ends { count: None, ..ends.clone() };
    for side in [Side::clients(socket, ends.clone())?, Side::upstream(table, always)?] {
        poller.add(side, SourceConfig::new(plan.looking.policy()).with_quota(plan.looking.quota()))?;
    }
    poller.limit_cpu(plan.cpu_limit.map(CpuLimitConfig::new));
    poller.watch(&*ends.interrupt, SIGNAL)?;
    metrics.map_or(Ok(()), |metrics| poller.watch(metrics, METRICS))?;
    Ok(poller)
}

const SIGNAL: Token = Token(0);
const METRICS: Token = Token(1);
/// It does not matter when exactly the rules are looked at.
const LOOK_SLACK: Slack = Slack::millis(100);
/// How often is asked for what takes system calls: the processor time, and the drops of each socket.
const ASK: Duration = Duration::from_millis(250);
