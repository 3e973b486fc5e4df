//! The main loop of every forwarder: [`Engine`], two devices under a poller, and the work that is due besides.
//!
//! ```text
//!   due? ─▶ poller: a round ─▶ other rules? ─▶ asked to count? ─▶ count ─┐
//!     ▲         └ each packet ─▶ Handler                                 │
//!     └────────── until the end, a signal ◀──────────────────────────────┘
//! ```
//!
//! A [`Handler`] brings the devices and decides about each packet: one for the relay of datagrams, one for the
//! forwarder between interfaces.

use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use softtimers::late::cpu_time;
use softtimers::{Clock, Monotonic, Percent, Timestamp, Token};
use softtimers_measure::failure::Failure;
use softtimers_measure::interrupt::Interrupt;
use softtimers_net::poller::{Device, Outputs, Packet, Poller};
use softtimers_poll::{AnyPolicy, Quota, SourceConfig, SourceId};

use crate::forwarder::asks::CountsRequests;
use crate::forwarder::notify::Notify;
use crate::forwarder::plan::{Controls, Plan};
use crate::forwarder::rules::{Filter, Follower, Rulebook};
use crate::forwarder::stats::{Account, PollingStats, Stats};
use softtimers_load::mode::PollingPlan;

/// A device that counts what it carries.
pub(crate) trait Counted: Device + AsFd {
    /// The number of packets that have come in there.
    fn received(&self) -> u64;

    /// Adds the work done since the last call to the stats of this `end`.
    fn count(&mut self, end: usize, stats: &mut Stats);

    /// Requests the counts that take system calls, for the next call of `count`.
    ///
    /// # Errors
    /// If the device is gone.
    fn ask(&mut self) -> io::Result<()>;

    /// Sends what waits, and drops what cannot leave now.
    fn flush(&mut self);
}

/// The decisions about packets.
pub(crate) trait Handler {
    /// The devices that packets come from and go to.
    type Side: Counted;

    /// The activity, for messages.
    const DOING: &'static str;

    /// The most that a turn takes from each side.
    fn quota(looking: &PollingPlan) -> Quota;

    /// Queues a packet where it belongs, or drops and counts it.
    fn handle(
        &mut self,
        packet: Packet<'_, <Self::Side as Device>::Address>,
        outputs: &mut Outputs<'_, Self::Side>,
    );

    /// The rules in force.
    fn filter(&mut self) -> Option<&mut Filter>;

    /// Does the work that is due, and returns when more is.
    fn fire(&mut self, now: Timestamp, poller: &mut Poller<Self::Side, AnyPolicy>) -> Option<Timestamp>;

    /// Adds the work done since the last call.
    fn count(&mut self, stats: &mut Stats);
}

/// Conditions that end a turn before its quota does; without a quota nothing else would end it.
#[derive(Clone, Debug)]
pub(crate) struct RunEnd {
    interrupt: Rc<Interrupt>,
    /// The end of the run.
    at: Option<Timestamp>,
    /// Packets received at the first device.
    count: Option<u64>,
}

/// A forwarder of one poller, while it runs.
#[derive(Debug)]
pub(crate) struct Engine<H: Handler> {
    poller: Poller<H::Side, AnyPolicy>,
    handler: H,
    sides: [SourceId; 2],
    follower: Option<Follower>,
    until: RunEnd,
    first: Option<First>,
    /// A warning to give once, if it applies: the CPU limit makes packets wait for longer than they should.
    delays: Option<Delays>,
    /// The time of the last request for counts that take system calls.
    asked: Timestamp,
    /// The counts of the poller and of the kernel at that time.
    polling: PollingStats,
    cpu: Duration,
}

/// A CPU share that may be too small, and whom to warn.
#[derive(Debug)]
struct Delays {
    share: Percent,
    longest: Duration,
    notify: Notify,
}

/// Work that only the first of several pollers does: it keeps the counts shared by all, and answers the program's
/// questions.
#[derive(Debug)]
struct First {
    book: Option<Arc<Rulebook>>,
    /// Refused rule changes counted so far.
    refused: u64,
    /// The time up to which the run time is counted.
    counted: Timestamp,
    asks: Option<CountsRequests>,
}

/// The parts that both kinds of forwarder need before they have their devices.
#[derive(Debug)]
pub(crate) struct EngineParts {
    /// The end of the run.
    pub(crate) until: RunEnd,
    /// The rules, if there are any.
    pub(crate) filter: Option<Filter>,
    follower: Option<Follower>,
    first: Option<First>,
}

impl EngineParts {
    /// Creates it for the first poller, or the only one.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub(crate) fn first(plan: &Plan, controls: Controls) -> io::Result<Self> {
        let Controls { interrupt, asks } = controls;
        let first = First { book: plan.rules.clone(), refused: 0, counted: Monotonic.now(), asks };
        Ok(EngineParts { first: Some(first), ..EngineParts::another(plan, interrupt)? })
    }

    /// Creates it for another poller with the same rules.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub(crate) fn another(plan: &Plan, interrupt: Interrupt) -> io::Result<Self> {
        let (follower, filter) = plan.rules.as_deref().map(Rulebook::follow).transpose()?.unzip();
        let until = RunEnd {
            interrupt: Rc::new(interrupt),
            at: plan.duration.map(|duration| Monotonic.now() + duration),
            count: plan.count,
        };
        Ok(EngineParts { until, filter, follower, first: None })
    }
}

impl<H: Handler> Engine<H> {
    /// Creates an engine between two sides; [`Plan::count`] counts packets received at the first.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn new(plan: &Plan, parts: EngineParts, handler: H, sides: [H::Side; 2]) -> io::Result<Self> {
        let EngineParts { until, follower, first, .. } = parts;
        let mut poller = Poller::new()?;
        for side in sides {
            poller.add(side, SourceConfig::new(plan.looking.policy()).with_quota(H::quota(&plan.looking)))?;
        }
        poller.limit_cpu(plan.cpu_limit.map(|share| plan.looking.limit(share)));
        let delays = plan.cpu_limit.filter(|_| first.is_some()).and_then(|share| {
            let longest = plan.looking.limit(share).stretch?;
            Some(Delays { share, longest, notify: plan.notify })
        });
        poller.watch(&*until.interrupt, SIGNAL)?;
        if let Some(asks) = first.as_ref().and_then(|first| first.asks.as_ref()) {
            poller.watch(asks, ASKED)?;
        }
        if let Some(follower) = &follower {
            poller.watch(follower, RULES)?;
        }
        Ok(Engine {
            poller,
            handler,
            sides: [0, 1].map(SourceId::from_index),
            follower,
            until,
            first,
            delays,
            asked: Monotonic.now(),
            polling: PollingStats::default(),
            cpu: cpu_time(),
        })
    }

    /// Forwards until the run ends or a signal comes.
    ///
    /// # Errors
    /// If the system fails meanwhile; the work done until then is counted.
    pub(crate) fn run(&mut self, account: &mut Account) -> Result<(), Failure> {
        let carried = self.carry(account);
        for side in self.sides {
            self.poller.device_mut(side).flush();
        }
        let counted = self.count_all(account);
        carried.and(counted).map_err(|error| Failure::broke_off(H::DOING, &error))
    }

    fn carry(&mut self, account: &mut Account) -> io::Result<()> {
        while !self.until.is_reached(self.poller.device(self.sides[0]).received()) {
            let due = self.handler.fire(Monotonic.now(), &mut self.poller);
            let until = [due, self.until.at].into_iter().flatten().min();
            let handler = &mut self.handler;
            self.poller.wait(until, |packet, outputs| handler.handle(packet, outputs))?;
            let ready = self.poller.ready();
            let (rules, asked) = (ready.contains(&RULES), ready.contains(&ASKED));
            if rules {
                let followed = self.follower.as_ref().zip(self.handler.filter());
                followed.into_iter().for_each(|(follower, filter)| follower.take_up(filter));
            }
            if asked {
                self.count_all(account)?;
                self.first.iter().filter_map(|first| first.asks.as_ref()).for_each(CountsRequests::answer);
            }
            self.count(account)?;
        }
        Ok(())
    }

    /// Counts the work done since the last call.
    fn count(&mut self, account: &mut Account) -> io::Result<()> {
        let now = Monotonic.now();
        let asks = now.saturating_duration_since(self.asked) >= ASK;
        let mut there = Ok(());
        if asks {
            self.asked = now;
            for side in self.sides {
                there = there.and(self.poller.device_mut(side).ask());
            }
        }
        account.count(asks, |stats| {
            for (end, side) in self.sides.into_iter().enumerate() {
                self.poller.device_mut(side).count(end, stats);
            }
            self.handler.count(stats);
            let polling = self.polling();
            stats.polling += &polling.since(&std::mem::replace(&mut self.polling, polling));
            if asks {
                self.count_rarely(now, stats);
            }
        });
        there
    }

    /// Counts everything, also what takes a system call.
    fn count_all(&mut self, account: &mut Account) -> io::Result<()> {
        self.asked = Timestamp::ZERO;
        self.count(account)
    }

    /// Counts what is too expensive to count each round.
    fn count_rarely(&mut self, now: Timestamp, stats: &mut Stats) {
        let cpu = cpu_time();
        stats.cpu += cpu.saturating_sub(std::mem::replace(&mut self.cpu, cpu));
        if let Some(filter) = self.handler.filter() {
            stats.rules.get_or_insert_default().count(filter.tally().take());
        }
        if let Some(delays) = self.delays.take_if(|_| self.poller.cpu_exceeded() > 0) {
            delays.tell();
        }
        let Some(first) = &mut self.first else { return };
        stats.span += now.saturating_duration_since(std::mem::replace(&mut first.counted, now));
        if let Some(book) = &first.book {
            let refused = book.refused();
            stats.rules.get_or_insert_default().refused +=
                refused - std::mem::replace(&mut first.refused, refused);
        }
    }

    /// The counts of the poller so far.
    fn polling(&self) -> PollingStats {
        let mut polling = PollingStats {
            wakeups: self.poller.stats().sleeps,
            cpu_limited: self.poller.cpu_inhibited(),
            cpu_limit_delayed: self.poller.cpu_exceeded(),
            ..PollingStats::default()
        };
        for side in self.sides {
            let stats = self.poller.source_stats(side);
            polling.polls += stats.looks;
            polling.empty_polls += stats.empty_looks;
            polling.mode_switches += self.poller.policy(side).switches();
        }
        polling
    }
}

impl Delays {
    fn tell(&self) {
        let (share, longest) = (self.share, self.longest.as_micros());
        (self.notify)(format_args!(
            "--cpu-limit {share}: too little to take all packets within {longest} us; they wait for longer"
        ));
    }
}

impl RunEnd {
    /// Returns the same end for a side whose packets do not count.
    pub(crate) fn uncounted(&self) -> Self {
        RunEnd { count: None, ..self.clone() }
    }

    /// Says whether the run is to end, after `received` packets.
    pub(crate) fn is_reached(&self, received: u64) -> bool {
        self.interrupt.arrived()
            || self.count.is_some_and(|count| received >= count)
            || self.at.is_some_and(|at| Monotonic.now() >= at)
    }
}

const SIGNAL: Token = Token(0);
const ASKED: Token = Token(1);
const RULES: Token = Token(2);
/// The period in which counts that take system calls are read: the CPU time, and the drops of each socket.
const ASK: Duration = Duration::from_millis(250);
