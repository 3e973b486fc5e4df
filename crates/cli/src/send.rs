//! `send`: paced UDP from a loop that may be busy with other work.
//!
//! Every `--timer` drives the same flow: one rate clock, one socket, one account of what
//! left when. With `--flows` there are several clocks, and what is due leaves in batches. They differ only in
//! who notices that a datagram is due:
//!
//! ```text
//!   --timer    the due time is noticed                          a sleep is bounded by
//!   soft       after every handler, and in the middle of        epoll_pwait2, to the deadline
//!              answering more than 8 requests, by SoftTimers
//!   loop       after every handler, by a heap and a clock       epoll_pwait2, to the next due time
//!   pwait2     when the wait returns                            epoll_pwait2, to the next due time
//!   ms         when the wait returns                            the same, rounded up to whole ms
//!   timerfd    when its descriptor is reported ready            the descriptor
//!   signal     wherever its signal interrupts the loop          the signal
//!   tick       wherever a periodic signal interrupts        the signal
//!   thread     when a second thread wakes up                    clock_nanosleep, to the due time
//!   spin       after every handler, by a heap and a clock       – it never sleeps
//!   kernel     by the kernel's queue; the loop hands over ahead epoll_pwait2, to the next hand-over
//!   off        never: a plain epoll loop does only the work     –
//! ```
//!
//! `soft` is softtimers; `loop` is what five lines achieve without it on one flow; the others are
//! what programs do today. Each is at its best: absolute times, 1 ns of timer slack, the same rule
//! for catching up; a signal's handler sends where it interrupts, for one that only sets a flag is
//! noticed no sooner than a clock is read. (`tick` is the exception: the paper's hardware timer, which makes up
//! nothing.) To wake early by what a wake-up takes is softtimers' own:
//! `soft` and `signal` do, the others aim at the due time itself, as programs do.
//!
//! `off` is the loop that people would have without pacing, so work is kept or lost against that one:
//! softtimers' own cost at each trigger state counts, as do the clock readings of `loop`.

mod beside;
mod computation;
mod flow;
mod flows;
pub mod generate;
mod header;
mod kernel;
mod looks;
mod order;
mod outlet;
mod own_loop;
mod polled;
mod report;
mod second;
mod session;
mod soft;
mod tally;
mod triggers;
mod turns;
mod watch;
mod work;
mod work_loop;

use std::time::Duration;

use serde::Serialize;
use softtimers::{Monotonic, Tsc};

use crate::args::{ClockName, Timer};
use crate::class::Class;
use crate::failure::Failure;
use crate::handshake::Permit;
use crate::machine::{Machine, Neighbours};
use crate::output::{Report, Run};
use crate::plan::SendPlan;
use crate::progress::Progress;
use crate::stream::Stream;
use crate::usage::Usage;

pub use flows::ShareReport;
pub use polled::PolledReport;
pub use report::{LateReport, SendReport, SocketReport};
use session::Session;
pub use triggers::Triggers;
pub use turns::{Contender, Share, Turns, take_turns};

/// What became of a run.
#[derive(Debug)]
pub struct Outcome {
    /// What happened, up to where the run broke off if it did.
    pub report: SendReport,
    /// How late the last datagram was against its place; `None` if there was none.
    pub skew: Option<Duration>,
    /// What did not work as asked and what was done instead, one sentence each.
    pub fallbacks: Vec<String>,
    /// What broke it off.
    pub broke_off: Option<Failure>,
}

/// Carries out `send` and prints its report, also that of a run that breaks off.
///
/// # Errors
/// A usage failure if the destination does not agree or the socket cannot be made; a failed
/// assertion; or what broke the run off.
pub fn run(plan: &SendPlan) -> Result<(), Failure> {
    present(plan, &plan.config(), &[], |report, _| report)
}

/// Carries out a plan and prints what `tell` makes of its findings, and of how late the last datagram was.
/// `notes` say what is not as asked already.
///
/// # Errors
/// As [`run`].
pub fn present<R: Report, C: Serialize>(
    plan: &SendPlan,
    config: &C,
    notes: &[String],
    tell: impl Fn(SendReport, Option<Duration>) -> R,
) -> Result<(), Failure> {
    let machine = Machine::read();
    let example = tell(SendReport::default(), None);
    let blank = Run {
        machine: &machine,
        seed: plan.seed(),
        config,
        fallbacks: &[],
        inconclusive: None,
        report: &example,
    };
    plan.output.check_keys(&blank)?;

    let neighbours = Neighbours::watch();
    let Outcome { report, skew, fallbacks, broke_off } = measure(plan)?;
    let interference = neighbours.so_far();
    let printed = plan.output.finish(&Run {
        machine: &machine.during(interference),
        seed: plan.seed(),
        config,
        fallbacks: &[notes, &fallbacks].concat(),
        inconclusive: interference.inconclusive(),
        report: &tell(report, skew),
    });
    match (broke_off, printed) {
        // Such as that stdout cannot be written to.
        (Some(failure), Err(same)) if failure == same => Err(failure),
        (Some(failure), Err(also)) => Err(Failure::check(format_args!("{failure}; {also}"))),
        (Some(failure), Ok(())) => Err(failure),
        (None, printed) => printed,
    }
}

/// Carries out `send` and returns what happened.
///
/// # Errors
/// What keeps the run from starting. What breaks it off later is part of the [`Outcome`].
pub fn measure(plan: &SendPlan) -> Result<Outcome, Failure> {
    // Refused, if it is, before anybody is asked for permission.
    let tsc = (plan.clock == ClockName::Tsc)
        .then(Tsc::new)
        .transpose()
        .map_err(|refusal| Failure::not_possible(format_args!("--clock tsc: {refusal}")))?;
    let class = Class::current();
    if plan.timer == Timer::Spin && !class.may_spin() {
        return Err(Failure::not_possible(format_args!("--timer spin: {class}, so it must not spin")));
    }
    if plan.timer == Timer::Kernel {
        kernel::check(plan)?;
    }
    let socket = session::connect(plan.destination)?;
    // Without a timer nothing is sent: no question, no goodbye.
    let sends = plan.timer != Timer::Off;
    let permit = if sends { Permit::obtain(plan, &socket)? } else { Permit::Insisted };
    let progress = Progress::start("sending", plan.expected());
    let mut session = Session::begin(plan, socket, &permit)?;
    let before = Usage::now();
    let driven = match &tsc {
        Some(clock) => session.drive(plan.timer, plan, clock),
        None => session.drive(plan.timer, plan, &Monotonic),
    };
    let usage = Usage::now().since(&before).and(&session.beside);
    drop(progress);
    let watched = session.unwatch(plan.destination);
    if sends {
        session.say_goodbye();
    }
    session.fallbacks.extend(session.work.stop());
    session.fallbacks.extend(session.flow.fallback());
    session.flow.settle();
    // After the goodbye, which is not to wait for a reader.
    let streamed = session.stream.take().map_or(Ok(()), Stream::finish);
    let disagreement = tsc.and_then(|clock| clock.disagreement());
    session
        .fallbacks
        .extend(disagreement.map(|found| format!("{found}; CLOCK_MONOTONIC was read from then on")));
    Ok(Outcome {
        report: SendReport::new(plan, &session, &usage),
        skew: session.flow.tally().skew(),
        fallbacks: session.fallbacks,
        broke_off: driven
            .map_err(|error| Failure::broke_off(format_args!("sending to {}", plan.destination), &error))
            .and(watched)
            .and(streamed)
            .err(),
    })
}
