//! `send`: paced UDP from a loop that may be busy with other work.
//!
//! Every `--timer` drives the same flow: one rate clock, one socket, one account of what
//! left when. They differ only in who notices that a datagram is due:
//!
//! ```text
//!   --timer    the due time is noticed                          a sleep is bounded by
//!   soft       after every handler, by SoftTimers               epoll_pwait2, to the deadline
//!   loop       after every handler, by a heap and a clock       epoll_pwait2, to the next due time
//!   pwait2     when the wait returns                            epoll_pwait2, to the next due time
//!   ms         when the wait returns                            the same, rounded up to whole ms
//!   timerfd    when its descriptor is reported ready            the descriptor
//!   off        never: only the work is done, as a baseline      –
//! ```
//!
//! `soft` is softtimers; `loop` is what five lines achieve without it on one flow; the others are
//! what programs do today. Each is at its best: absolute times, 1 ns of timer slack, the same rule
//! for catching up.

mod account;
mod flow;
mod own_loop;
mod report;
mod soft;
mod work;

use std::io;
use std::net::SocketAddr;

use softtimers::epoll::Waiting;
use softtimers::{Clock, Monotonic, Timestamp, UdpSocket};

use crate::args::Timer;
use crate::failure::Failure;
use crate::handshake::Permit;
use crate::interrupt::Interrupt;
use crate::machine::{Machine, Neighbours};
use crate::output::Run;
use crate::plan::SendPlan;
use crate::progress::Progress;
use crate::wire::Datagram;

use account::Usage;
use flow::Flow;
pub use report::{LateReport, SendReport, SocketReport};
use work::Workload;

/// What an engine drives: the flow, the work beside it, and when to stop.
struct Session {
    flow: Flow,
    work: Workload,
    interrupt: Interrupt,
    end: Timestamp,
    /// What did not work as asked and what was done instead.
    fallbacks: Vec<String>,
}

impl Session {
    fn over(&self, now: Timestamp) -> bool {
        now >= self.end || self.flow.finished() || self.interrupt.arrived()
    }

    /// Tells how the engine had to wait, if not as it would have liked to.
    fn waited(&mut self, waiting: Waiting) {
        if waiting == Waiting::Ppoll {
            self.fallbacks
                .push("epoll_pwait2 is refused here; waits use ppoll, one more system call each".to_owned());
        }
    }
}

/// What became of a run.
#[derive(Debug)]
pub struct Outcome {
    /// What happened, up to where the run broke off if it did.
    pub report: SendReport,
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
    let machine = Machine::read();
    let config = plan.config();
    let example = SendReport::default();
    let blank = Run {
        machine: &machine,
        seed: plan.seed(),
        config: &config,
        fallbacks: &[],
        inconclusive: None,
        report: &example,
    };
    plan.output.check_keys(&blank)?;

    let neighbours = Neighbours::watch();
    let Outcome { report, fallbacks, broke_off } = measure(plan)?;
    let interference = neighbours.so_far();
    let printed = plan.output.finish(&Run {
        machine: &machine.during(interference),
        seed: plan.seed(),
        config: &config,
        fallbacks: &fallbacks,
        inconclusive: interference.inconclusive(),
        report: &report,
    });
    match (broke_off, printed) {
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
    // Without a timer nothing is sent: no question, no goodbye.
    let permit = (plan.timer != Timer::Off).then(|| Permit::obtain(plan)).transpose()?;
    let socket = connect(plan.destination)?;
    let interrupt =
        Interrupt::listen().map_err(|error| Failure::broke_off("listening for signals", &error))?;
    let progress = Progress::start("sending", plan.end);
    let work = Workload::start(plan.work, plan.cpu)
        .map_err(|error| Failure::broke_off("starting the work", &error))?;
    if let Some(processor) = plan.cpu {
        processor.keep().map_err(|error| Failure::broke_off("keeping to a processor", &error))?;
    }

    let start = Monotonic.now();
    let mut session = Session {
        flow: Flow::new(plan, socket, start)?,
        work,
        interrupt,
        end: plan.end.duration.map_or(Timestamp::MAX, |duration| start + duration),
        fallbacks: Vec::new(),
    };
    let before = Usage::now();
    let driven = match plan.timer {
        Timer::Soft => soft::run(&mut session, plan.slack),
        Timer::Off => soft::idle(&mut session),
        timer => own_loop::run(&mut session, timer),
    };
    let usage = Usage::now().since(&before);
    drop(progress);
    if let Some(permit) = permit {
        say_goodbye(&mut session, permit);
    }
    session.fallbacks.extend(session.work.stop());
    Ok(Outcome {
        report: SendReport::new(plan, &session, &usage),
        fallbacks: session.fallbacks,
        broke_off: driven
            .err()
            .map(|error| Failure::broke_off(format_args!("sending to {}", plan.destination), &error)),
    })
}

fn say_goodbye(session: &mut Session, permit: Permit) {
    let bye = Datagram::Bye { flow: 0, sent: session.flow.sent(), token: permit.token() };
    if !session.flow.say_goodbye(&bye) {
        session.fallbacks.push("no goodbye could be sent; a receiver does not know of the end".to_owned());
    }
}

/// A socket of any free port, connected so that the kernel looks the route up once.
fn connect(destination: SocketAddr) -> Result<UdpSocket, Failure> {
    let local: SocketAddr =
        if destination.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let open = || -> io::Result<UdpSocket> {
        let socket = UdpSocket::bind(local)?;
        socket.connect(destination)?;
        socket.set_nonblocking(true)?;
        // Without it the kernel reports a datagram that a full device queue dropped as sent.
        socket.report_queue_drops(true)?;
        Ok(socket)
    };
    open().map_err(|error| Failure::usage(format_args!("address {destination}: {error}")))
}
