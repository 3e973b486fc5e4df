//! `noise --rates`: the cost of waking N times a second, next to a computation and on an idle CPU (Tsafrir, Etsion,
//! Feitelson 2005, §2.1 and §2.3, figure 4), and the cost of smart timers with the same lateness.
//!
//! ```text
//!   one CPU          │ alone │ tick  │ smart │ smart │ tick  │ alone │ …    turns, one round forwards, one backwards
//!   computation      ▓▓▓▓▓▓▓▓▓▓·▓▓·▓▓▓▓▓▓▓▓·▓▓▓▓▓▓▓▓▓·▓▓▓·▓▓·▓▓▓▓▓▓▓▓▓▓▓
//!   waker                      │  │        │         │   │  │
//! ```
//!
//! The waker is a thread on the computation's CPU. It serves the same application by two methods: by a periodic tick,
//! where a timer is late by up to a tick and by half of one at the median, and at deadlines half a tick after the
//! requested time. So both have the same median lateness, and the deadlines a lower maximum; they differ in how often
//! the thread wakes. Work is compared within a round, since a machine drifts more between two rounds.

mod power;
mod show;
mod waker;

use std::io;
use std::num::NonZeroU32;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use softtimers::{Clock, Monotonic, Slice, Timestamp};
use softtimers_measure::class::Class;
use softtimers_measure::distribution::Recorder;
use softtimers_measure::failure::Failure;
use softtimers_measure::interrupt::Interrupt;

use super::args::Rates;
use super::work::Work;

use power::Counters;
use show::{Idle, RateCost, RatesReport, Rounds};
use softtimers_run::output::Output;
use softtimers_run::privileges::{Needs, Rights};
use softtimers_run::progress::Progress;
use softtimers_run::{Command, Disturbance, Outcome, Run};
use waker::{Application, Served, Wakes};

impl Rates {
    /// Returns the length of a turn at this rate.
    fn turn(&self, hz: NonZeroU32) -> Duration {
        self.turn.max(waker::period(hz) * TICKS_IN_A_TURN)
    }

    /// Returns the length of a stretch without a computation, at this rate.
    fn stretch(&self, hz: NonZeroU32) -> Duration {
        (self.turn * self.rounds).clamp(self.turn(hz), IDLE.max(self.turn(hz)))
    }
}

impl Command for Rates {
    type Config = Rates;
    type Report = RatesReport;
    const DISTURBED_BY: Disturbance = Disturbance::Anybody;
    const FIELDS: &'static str = include_str!("fields.txt");
    const RIGHTS: Rights = Rights::ToOpen;

    fn output(&self) -> &Output {
        &self.setup.output
    }

    fn config(&self) -> Rates {
        self.clone()
    }

    fn seed(&self) -> Option<u64> {
        Some(self.setup.seed)
    }

    fn header(&self) -> String {
        show::header(self)
    }

    fn example(&self) -> RatesReport {
        RatesReport::example(self)
    }

    fn run(&mut self, run: &Run<'_>) -> Result<Outcome<RatesReport>, Failure> {
        let class = Class::current();
        if !class.may_spin() {
            return Err(Failure::not_possible(format_args!("{class}, so it must not spin")));
        }
        let counters = Counters::find(Path::new("/"), self.setup.cpu);
        run.drop_privileges(Needs::default())?;
        let interrupt = run.interrupt()?;
        run.announce(&self.header());
        let done = Arc::new(AtomicUsize::new(0));
        let steps = 1 + self.rates.len() * (3 * self.rounds as usize + 2);
        let _progress = Progress::counted("measuring", steps, &done);
        let refused = |error| Failure::broke_off(format_args!("keeping to CPU {}", self.setup.cpu), &error);
        let _kept = self.setup.processor.keep().map_err(refused)?;
        let bench = Bench {
            work: Work::calibrated(PIECE).0,
            application: Application::new(self.timers, self.setup.seed),
            counters,
            done,
            interrupt,
        };
        let report = bench.measure(self).map_err(|error| Failure::broke_off("waking", &error))?;
        let (measured, all) = (report.rates.len(), self.rates.len());
        let ended = (measured < all).then(|| format!("ended by a signal after {measured} of {all} rates"));
        Ok(Outcome { fallbacks: bench.missing(), inconclusive: ended, ..Outcome::of(report) })
    }
}

/// The threads that take turns on the CPU.
struct Bench<'a> {
    work: Work,
    application: Application,
    counters: Counters,
    done: Arc<AtomicUsize>,
    interrupt: &'a Interrupt,
}

/// The work next to the waker.
#[derive(Clone, Copy, Debug)]
enum Beside {
    Computation,
    Nothing,
}

impl Bench<'_> {
    fn measure(&self, plan: &Rates) -> io::Result<RatesReport> {
        let mut report = RatesReport { energy: self.counters.energy().ok(), ..RatesReport::default() };
        let longest = plan.rates.iter().map(|&hz| plan.stretch(hz)).max().unwrap_or(IDLE);
        report.idle = self.idle(Wakes::Never, longest, &mut Recorder::new())?;
        for &hz in &plan.rates {
            let Some(rate) = self.rate(hz, plan)? else { break };
            report.rates.push(rate);
        }
        Ok(report)
    }

    /// Measures both methods at this rate; `None` if a signal came first.
    fn rate(&self, hz: NonZeroU32, plan: &Rates) -> io::Result<Option<RateCost>> {
        let ways = [Wakes::Never, Wakes::Tick(hz), Wakes::Deadline(hz)];
        let mut rounds = ways.map(|_| Rounds::default());
        for round in 0..plan.rounds {
            for place in 0..ways.len() {
                let place = if round % 2 == 0 { place } else { ways.len() - 1 - place };
                let Rounds { pieces_per_s, served, lateness } = &mut rounds[place];
                let turn = self.turn(ways[place], Beside::Computation, plan.turn(hz), lateness)?;
                if self.interrupt.arrived() {
                    return Ok(None);
                }
                pieces_per_s.push(turn.pieces_per_s);
                served.push(turn.served);
            }
        }
        let [alone, mut tick, mut smart] = rounds;
        let idle = [(ways[1], &mut tick), (ways[2], &mut smart)]
            .map(|(way, rounds)| self.idle(way, plan.stretch(hz), &mut rounds.lateness));
        if self.interrupt.arrived() {
            return Ok(None);
        }
        let [tick_idle, smart_idle] = idle;
        let (tick, smart) = (tick.cost(&alone, tick_idle?), smart.cost(&alone, smart_idle?));
        let [late_at_most_ns, smart_slack_ns] =
            [waker::period(hz), waker::slack(hz)].map(|time| time.as_nanos() as u64);
        Ok(Some(RateCost { hz: hz.get(), late_at_most_ns, smart_slack_ns, tick, smart }))
    }

    /// Runs the waker on a CPU that this program leaves idle.
    fn idle(&self, wakes: Wakes, stretch: Duration, lateness: &mut Recorder) -> io::Result<Idle> {
        let before = self.counters.read();
        let begin = Monotonic.now();
        let turn = self.turn(wakes, Beside::Nothing, stretch, lateness)?;
        let after = self.counters.read();
        let seconds = Monotonic.now().saturating_duration_since(begin).as_secs_f64();
        Ok(Idle {
            wakeups_per_s: turn.served.per_second(turn.served.usage.wakeups),
            cpu_share: turn.served.cpu_share(),
            watts: self.counters.joules(&before, &after).map(|joules| joules / seconds),
            states: self.counters.slept(&before, &after, seconds),
        })
    }

    fn turn(
        &self,
        wakes: Wakes,
        beside: Beside,
        length: Duration,
        lateness: &mut Recorder,
    ) -> io::Result<TurnTaken> {
        let (ours, theirs) = UnixStream::pair()?;
        let begin = Barrier::new(2);
        let turn = thread::scope(|scope| {
            let waker = thread::Builder::new()
                .name("waker".to_owned())
                .spawn_scoped(scope, || waker::serve(wakes, &self.application, &begin, &theirs, lateness))?;
            begin.wait();
            let start = Monotonic.now();
            let pieces = match beside {
                Beside::Computation => self.compute_until(start + length),
                Beside::Nothing => self.sleep_until(start + length),
            };
            let took = Monotonic.now().saturating_duration_since(start);
            drop(ours);
            let served = waker.join().unwrap_or_else(|_| Err(io::Error::other("the waker panicked")))?;
            Ok(TurnTaken { pieces_per_s: pieces as f64 / took.as_secs_f64(), served })
        });
        self.done.fetch_add(1, Ordering::Relaxed);
        turn
    }

    fn compute_until(&self, end: Timestamp) -> u64 {
        let mut pieces = 0;
        while Monotonic.now() < end && !self.interrupt.arrived() {
            self.work.run();
            pieces += 1;
        }
        pieces
    }

    /// Sleeps until this time or a signal.
    fn sleep_until(&self, end: Timestamp) -> u64 {
        let left = Timespec::try_from(end.saturating_duration_since(Monotonic.now()));
        let _ = poll(&mut [PollFd::new(self.interrupt, PollFlags::IN)], left.ok().as_ref());
        0
    }

    /// Names the counters that the machine lacks, and other gaps in the figures, one sentence each.
    fn missing(&self) -> Vec<String> {
        let energy = self.counters.energy().err();
        let energy = energy.map(|why| format!("{why}; wake-ups, CPU and sleep states stand for energy"));
        let states = (!self.counters.has_states())
            .then(|| "no cpuidle here: the CPU's sleep states are not known".to_owned());
        let slice = Slice::hold(*Slice::ALLOWED.start()).err();
        let slice = slice.map(|why| format!("{why}: a wake-up waits until the computation's slice is over"));
        energy.into_iter().chain(states).chain(slice).collect()
    }
}

struct TurnTaken {
    pieces_per_s: f64,
    served: Served,
}

/// A turn's end cuts off a slack, so a turn needs this many ticks.
const TICKS_IN_A_TURN: u32 = 10;
/// Long enough to count wake-ups.
const IDLE: Duration = Duration::from_secs(1);
/// Short compared with any turn.
const PIECE: Duration = Duration::from_micros(10);
