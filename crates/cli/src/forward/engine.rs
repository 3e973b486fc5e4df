//! The loop of `forward`, whatever is forwarded: [`Engine`], two devices under a poller, and what is due beside.
//!
//! ```text
//!   due? ─▶ poller: a round ─▶ other rules? ─▶ asked for metrics? ─▶ count ─┐
//!     ▲         └ each packet ─▶ Handler                                    │
//!     └────────── until the end, a signal ◀─────────────────────────────────┘
//! ```
//!
//! Which devices, and what becomes of a packet, is a [`Handler`]'s: the relay of datagrams has one, and the forwarder
//! between interfaces.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use softtimers::late::cpu_time;
use softtimers::poll::{CpuLimitConfig, SourceConfig, SourceId};
use softtimers::{Clock, Monotonic, Timestamp, Token};
use softtimers_net::poller::{Device, Drops, Outputs, Packet, Poller};

use super::crew::{Board, Crew, Share};
use super::metrics::Metrics;
use super::mode::Looks;
use super::report::{Counts, DropCounts, Findings, ForwardReport};
use super::rule_file::Purpose;
use super::rulebook::{Follower, RuleWatch, Rulebook};
use super::rules::Filter;
use super::second::Second;
use super::volume::EndCounts;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::plan::{Between, ForwardPlan};
use crate::stream::Counter;
use crate::stream::passage::Counted as _;

/// A device that keeps an account of what it carries.
pub trait Counted: Device {
    /// What was received.
    fn received(&self) -> u64;

    /// What has left of that, on either side.
    fn sent(&self) -> u64;

    /// The same with bytes, and what was lost on its way out.
    fn carried(&self) -> EndCounts;

    /// Adds how long each that has left since the last call was here, in nanoseconds.
    fn take_latencies(&mut self, latencies: &mut Vec<u64>);

    /// Asks for what takes system calls.
    fn ask(&mut self);

    /// Sends what waits; what cannot leave now is dropped.
    fn flush(&mut self);
}

/// What becomes of packets.
pub trait Handler {
    /// What they come from and go to.
    type Side: Counted + std::os::fd::AsFd;

    /// What is going on, for messages.
    const DOING: &'static str;

    /// Queues a packet where it belongs, or drops and counts it.
    fn handle(
        &mut self,
        packet: Packet<'_, <Self::Side as Device>::Address>,
        outputs: &mut Outputs<'_, Self::Side>,
    );

    /// The rules that it goes by.
    fn filter(&self) -> Option<&Filter>;

    /// The same, to go on with others.
    fn filter_mut(&mut self) -> Option<&mut Filter>;

    /// Does what is due; says when more is.
    fn fire(&mut self, now: Timestamp, poller: &mut Poller<Self::Side, Looks>) -> Option<Timestamp>;

    /// What was lost at outputs of what had never come in.
    fn lost_answers(&self) -> u64 {
        0
    }

    /// What it has to tell beside.
    fn findings(&self, sides: [&Self::Side; 2]) -> Findings;
}

/// When a turn is to end although its quota does not say so: without a quota it would not otherwise.
#[derive(Clone, Debug)]
pub struct Ends {
    /// A signal.
    pub interrupt: Rc<Interrupt>,
    /// The end of the run.
    pub at: Option<Timestamp>,
    /// Packets that come in at the first device.
    pub count: Option<u64>,
}

/// What forwards, while it does.
#[derive(Debug)]
pub struct Engine<H: Handler> {
    poller: Poller<H::Side, Looks>,
    /// What becomes of packets.
    pub handler: H,
    sides: [SourceId; 2],
    /// Keeps the rules as their file is, if it is not one of the others.
    pub rules: Option<RuleWatch>,
    follower: Option<Follower>,
    /// Where the metrics are asked for.
    pub metrics: Option<Metrics>,
    ends: Ends,
    start: Timestamp,
    /// Processor time of this thread when it began.
    cpu_before: Duration,
    total: Second,
    /// What the rings of each side have dropped.
    rings: [u64; 2],
    counter: Option<Counter<Second>>,
    /// Other pollers beside this one.
    pub crew: Crew,
    /// Where it tells what it has done, if it is one of them.
    pub board: Option<Board>,
    /// Emptied each time they are counted.
    latencies: Vec<u64>,
    /// When it was last asked for what takes system calls.
    asked: Timestamp,
}

/// What both kinds of run need before they have their devices.
#[derive(Debug)]
pub struct Basis {
    /// When to end.
    pub ends: Ends,
    /// The rules, if there are any.
    pub filter: Option<Filter>,
    follower: Option<Follower>,
    rules: Option<RuleWatch>,
    metrics: Option<Metrics>,
    start: Timestamp,
}

impl Basis {
    /// Reads the rules, and listens for who asks for the metrics.
    ///
    /// # Errors
    /// A usage failure if the rules are wrong, or an address cannot be used.
    pub fn of(plan: &ForwardPlan, interrupt: Interrupt) -> Result<Self, Failure> {
        let purpose = match &plan.between {
            Between::Interfaces(between) => Purpose { pollers: between.pollers, frames: true },
            Between::Addresses(_) => Purpose { pollers: 1, frames: false },
        };
        let rules = plan.rules.as_deref().map(|path| RuleWatch::open(path, purpose)).transpose();
        let rules = rules.map_err(|problem| Failure::usage(format_args!("--rules {problem}")))?;
        let metrics = plan.metrics.map(|address| {
            let problem = |error: io::Error| Failure::usage(format_args!("--metrics {address}: {error}"));
            Metrics::start(address).map_err(problem)
        });
        let metrics = metrics.transpose()?;
        let basis = Basis::another(plan, interrupt, rules.as_ref().map(|rules| &**rules.book()))?;
        Ok(Basis { rules, metrics, ..basis })
    }

    /// Of another poller, by the same rules; nobody asks it for metrics.
    ///
    /// # Errors
    /// A check failure if the system has no descriptors left.
    pub fn another(
        plan: &ForwardPlan,
        interrupt: Interrupt,
        book: Option<&Rulebook>,
    ) -> Result<Self, Failure> {
        let followed = book.map(Rulebook::follow).transpose();
        let (follower, filter) =
            followed.map_err(|error| Failure::broke_off("following the rules", &error))?.unzip();
        let start = Monotonic.now();
        let ends = Ends {
            interrupt: Rc::new(interrupt),
            at: plan.end.duration.map(|duration| start + duration),
            count: plan.end.count,
        };
        Ok(Basis { ends, filter, follower, rules: None, metrics: None, start })
    }
}

impl<H: Handler> Engine<H> {
    /// Between these two, the first of which is what counts.
    ///
    /// # Errors
    /// What the system says.
    pub fn new(plan: &ForwardPlan, basis: Basis, handler: H, sides: [H::Side; 2]) -> io::Result<Self> {
        let Basis { ends, follower, rules, metrics, start, .. } = basis;
        let mut poller = Poller::new()?;
        for side in sides {
            poller.add(side, SourceConfig::new(plan.looking.policy()).with_quota(plan.looking.quota()))?;
        }
        poller.limit_cpu(plan.cpu_limit.map(CpuLimitConfig::new));
        poller.watch(&*ends.interrupt, SIGNAL)?;
        if let Some(metrics) = &metrics {
            poller.watch(metrics, METRICS)?;
        }
        if let Some(follower) = &follower {
            poller.watch(follower, RULES)?;
        }
        Ok(Engine {
            poller,
            handler,
            sides: [0, 1].map(SourceId::from_index),
            rules,
            follower,
            metrics,
            ends,
            start,
            cpu_before: cpu_time(),
            total: Second::default(),
            rings: [0; 2],
            counter: None,
            crew: Crew::default(),
            board: None,
            latencies: Vec::new(),
            asked: start,
        })
    }

    /// Counts into this account, too, from now on.
    pub fn count_in(&mut self, counter: Counter<Second>) {
        self.counter = Some(counter);
    }

    /// Forwards until its end or a signal.
    ///
    /// # Errors
    /// If the system fails meanwhile, here or for another poller; what was done until then is counted.
    pub fn run(&mut self) -> Result<(), Failure> {
        let carried = self.carry();
        for side in self.sides {
            self.poller.device_mut(side).flush();
        }
        let counted = self.count_all();
        if counted.is_err() {
            // A side that is gone says so once, and after that what it did.
            let _ = self.count_all();
        }
        let own = carried.and(counted).map_err(|error| Failure::broke_off(H::DOING, &error));
        own.and(self.crew.end())
    }

    fn carry(&mut self) -> io::Result<()> {
        while !self.ends.are_reached(self.poller.device(self.sides[0]).received()) {
            let due = self.handler.fire(Monotonic.now(), &mut self.poller);
            let until = [due, self.ends.at].into_iter().flatten().min();
            let handler = &mut self.handler;
            self.poller.wait(until, |packet, outputs| handler.handle(packet, outputs))?;
            if self.poller.ready().contains(&RULES) {
                let followed = self.follower.as_ref().zip(self.handler.filter_mut());
                followed.into_iter().for_each(|(follower, filter)| follower.take_up(filter));
            }
            if self.poller.ready().contains(&METRICS) {
                self.answer()?;
            }
            self.count()?;
        }
        Ok(())
    }

    /// The findings so far, of all pollers.
    pub fn report(&mut self) -> ForwardReport {
        self.all().report(self.span(), self.refused())
    }

    fn span(&self) -> Duration {
        Monotonic.now().saturating_duration_since(self.start)
    }

    fn refused(&self) -> u64 {
        self.rules.as_ref().map_or(0, |rules| rules.book().refused())
    }

    /// What all pollers have done.
    fn all(&self) -> Share {
        let mut share = self.share();
        self.crew.add_to(&mut share);
        share
    }

    /// Its own.
    fn share(&self) -> Share {
        let mut findings = self.handler.findings(self.sides.map(|side| self.poller.device(side)));
        findings.ends.iter_mut().zip(self.rings).for_each(|(end, ring)| end.dropped.ring = ring);
        Share {
            total: self.total.clone(),
            findings,
            cpu_limited: self.poller.cpu_inhibited(),
            rules: self.handler.filter().map(|filter| filter.tally().clone()),
        }
    }

    /// Answers who asks for metrics. What they are is taken here, and put into words there: that takes milliseconds where
    /// there are thousands of rules.
    fn answer(&mut self) -> io::Result<()> {
        self.count_all()?;
        let Some(metrics) = &self.metrics else { return Ok(()) };
        let (share, span, refused) = (self.all(), self.span(), self.refused());
        metrics.answer(|| {
            let share = share.clone();
            Box::new(move || {
                let cpu = share.total.cpu;
                share.report(span, refused).exposition(cpu)
            })
        });
        Ok(())
    }

    /// Counts what was done since the last time, in the total and in the account of the interval.
    fn count(&mut self) -> io::Result<()> {
        let now = Monotonic.now();
        let mut cpu = self.total.cpu;
        let asks = now.saturating_duration_since(self.asked) >= ASK;
        if asks {
            self.asked = now;
            cpu = cpu_time().saturating_sub(self.cpu_before);
            self.sides.iter().for_each(|&side| self.poller.device_mut(side).ask());
        }
        let counts = self.counts()?;
        let new = counts.since(&self.total.counts);
        let used = cpu.saturating_sub(self.total.cpu);
        (self.total.counts, self.total.cpu) = (counts, cpu);
        for side in self.sides {
            self.poller.device_mut(side).take_latencies(&mut self.latencies);
        }
        self.latencies.iter().for_each(|&latency| self.total.stay.record(latency));
        if let Some(counter) = &self.counter {
            counter.count(|second| {
                second.counts = second.counts.plus(&new);
                second.cpu += used;
                self.latencies.iter().for_each(|&latency| second.stay.record(latency));
            });
        }
        self.latencies.clear();
        if let Some(board) = self.board.as_ref().filter(|_| asks) {
            board.tell(self.share());
        }
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
        for (at, side) in self.sides.into_iter().enumerate() {
            let own = self.poller.drops(side)?;
            self.rings[at] = own.ring + own.interface;
            drops = drops.plus(&own);
            let (stats, device) = (self.poller.source_stats(side), self.poller.device(side));
            counts.came += device.received();
            counts.out += device.sent();
            counts.polls += stats.looks;
            counts.empty_polls += stats.empty_looks;
            counts.mode_switches += self.poller.policy(side).switches();
        }
        drops.output -= self.handler.lost_answers();
        counts.dropped = DropCounts::from(drops);
        counts.came += counts.dropped.ring;
        Ok(counts)
    }
}

impl Ends {
    /// Whether the run is to end, after so many packets.
    pub fn are_reached(&self, received: u64) -> bool {
        self.interrupt.arrived()
            || self.count.is_some_and(|count| received >= count)
            || self.at.is_some_and(|at| Monotonic.now() >= at)
    }
}

const SIGNAL: Token = Token(0);
const METRICS: Token = Token(1);
const RULES: Token = Token(2);
/// How often is asked for what takes system calls: the processor time, and the drops of each socket.
const ASK: Duration = Duration::from_millis(250);
