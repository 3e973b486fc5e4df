//! `send`: paced UDP from a loop that may be busy with other work.
//!
//! Every [engine](crate::engines) drives the same flow: one rate clock, one socket, one account of what
//! left when. With several flows there are several clocks, and what is due leaves in batches.
//!
//! ```text
//!   prepare   clock, class, way, consent      a signal ends the process
//!   send      session ─▶ engine ─▶ goodbye    a signal ends the run, with its report
//! ```

mod report;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use softtimers::Tsc;
use softtimers_core::Idle;
use softtimers_measure::failure::Failure;
use softtimers_measure::interrupt::Interrupt;
use softtimers_measure::stats::Counter;
use softtimers_measure::usage::Usage;
use softtimers_net::UdpSocket;

use crate::engines::ReadBy;
use crate::handshake::{self, Permit};
use crate::plan::SendPlan;
use crate::session::{Habits, Session, Surroundings};

pub use crate::session::{
    Calls, CatchUpReport, CatchUps, LateReport, Notify, SendFigures, SendStats, SendTrace, ShareReport,
    Triggers,
};
pub use report::{PolledReport, SendReport, SocketReport};

/// The outcome of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The report, up to where the run broke off if it did.
    pub report: SendReport,
    /// The lateness of the last datagram against its scheduled time; `None` if there was none.
    pub skew: Option<Duration>,
    /// The fallbacks: each says in a sentence what did not work as asked, and what was done instead.
    pub fallbacks: Vec<String>,
    /// What left when, if the plan asked for it.
    pub trace: Option<Box<SendTrace>>,
    /// The failure that broke the run off.
    pub broke_off: Option<Failure>,
}

/// A run that may begin.
#[derive(Debug)]
pub struct Prepared<'a> {
    plan: &'a SendPlan,
    tsc: Option<Tsc>,
    socket: UdpSocket,
    permit: Permit,
}

/// Carries a plan out until its end or a signal.
///
/// # Errors
/// What keeps the run from starting. What breaks it off later is part of the [`Outcome`].
pub fn measure(plan: &SendPlan) -> Result<Outcome, Failure> {
    let prepared = prepare(plan)?;
    let interrupt =
        Interrupt::listen().map_err(|error| Failure::broke_off("listening for signals", &error))?;
    prepared.send(interrupt, Counter::new(stats(plan)), |_| {})
}

/// Returns the statistics of a run of this plan, with nothing counted.
pub fn stats(plan: &SendPlan) -> SendStats {
    SendStats::new(plan.traffic.pace.rate.interval(), plan.traffic.flows)
}

/// Sees whether the run may begin: whether this machine can do it, and whether the receiver agrees.
///
/// # Errors
/// A check failure if the destination has to agree and does not, a usage failure if the socket cannot be made; not-possible
/// if this machine cannot.
pub fn prepare(plan: &SendPlan) -> Result<Prepared<'_>, Failure> {
    // Refused, if it is, before anybody is asked for permission.
    let tsc = plan
        .tsc
        .then(Tsc::new)
        .transpose()
        .map_err(|refusal| Failure::not_possible(format_args!("--clock tsc: {refusal}")))?;
    plan.timer.check(plan.destination)?;
    let socket = connect(plan.destination)?;
    let permit = permit(plan, &socket)?;
    Ok(Prepared { plan, tsc, socket, permit })
}

impl Prepared<'_> {
    /// Sends until the plan's end, or until `interrupt` tells of a signal. What people should hear at once, `notify` is told.
    ///
    /// # Errors
    /// What keeps the run from starting. What breaks it off later is part of the [`Outcome`].
    pub fn send(
        self,
        interrupt: Interrupt,
        counter: Counter<SendStats>,
        notify: Notify,
    ) -> Result<Outcome, Failure> {
        let Prepared { plan, tsc, socket, permit } = self;
        let mut session = begin(plan, (socket, &permit), interrupt, counter)?;
        tell_doubts(plan.destination, &permit, &mut session, notify);
        let before = Usage::now();
        let clock = tsc.as_ref().map_or(ReadBy::Monotonic, ReadBy::Tsc);
        let driven = plan.timer.drive(&mut session, clock);
        let usage = Usage::now().since(&before).and(&session.beside);
        let watched = session.unwatch(plan.destination);
        let received = watched.and_then(|()| received_by_somebody(plan, &permit, &session));
        if plan.timer.sends() {
            session.say_goodbye();
        }
        session.fallbacks.extend(session.work.stop());
        session.fallbacks.extend(session.flow.fallback());
        session.flow.settle();
        let disagreement = tsc.and_then(|clock| clock.disagreement());
        session
            .fallbacks
            .extend(disagreement.map(|found| format!("{found}; CLOCK_MONOTONIC was read from then on")));
        let stats = session.flow.stats();
        Ok(Outcome {
            report: SendReport::new((plan, &permit), &stats, &session, &usage),
            skew: stats.skew,
            trace: session.flow.take_trace(),
            fallbacks: session.fallbacks,
            broke_off: driven
                .map_err(|error| Failure::broke_off(format_args!("sending to {}", plan.destination), &error))
                .and(received)
                .err(),
        })
    }
}

/// Tells people at once why nobody may receive what is sent: now, or when the first datagram is refused.
fn tell_doubts(address: SocketAddr, permit: &Permit, session: &mut Session, notify: Notify) {
    if let Permit::Unheard { why, .. } = permit {
        notify(format_args!(
            "address {address}: {why}; sending all the same (--no-handshake for other programs)"
        ));
    }
    if !matches!(permit, Permit::Unheard { is_closed: true, .. }) {
        session.flow.tell_refusals(address, notify);
    }
}

/// Whether there is a receiver at the end of a run, where that has been in doubt.
///
/// # Errors
/// A check failure if there is none.
fn received_by_somebody(plan: &SendPlan, permit: &Permit, session: &Session) -> Result<(), Failure> {
    let refusals = session.flow.refusals();
    let in_doubt = match permit {
        Permit::Agreed(_) => refusals > 0,
        Permit::Unheard { .. } => true,
        Permit::Insisted => false,
    };
    if !in_doubt {
        return Ok(());
    }
    handshake::look(session.flow.socket()).map_err(|refusal| {
        let address = plan.destination;
        let told = match refusals {
            0 => String::new(),
            1 => "; one datagram was refused".to_owned(),
            many => format!("; {many} datagrams were refused"),
        };
        Failure::check(format_args!(
            "address {address}: {refusal}, also at the end{told}; for a program that never answers, type --no-handshake"
        ))
    })
}

/// Begins the session of a plan.
pub(crate) fn begin(
    plan: &SendPlan,
    (socket, permit): (UdpSocket, &Permit),
    interrupt: Interrupt,
    counter: Counter<SendStats>,
) -> Result<Session, Failure> {
    let habits = Habits {
        slack: plan.slack,
        idle: plan.idle.unwrap_or_else(Idle::park),
        disabled: plan.disabled_source,
        without_each: false,
    };
    let surroundings = Surroundings {
        work: plan.work,
        program: plan.program.as_deref(),
        cpu: plan.cpu,
        sched_slice: plan.sched_slice,
        trace: plan.trace,
    };
    let traffic = (&plan.traffic, plan.timer.handling());
    Session::begin(traffic, surroundings, habits, (socket, permit), (interrupt, counter))
}

/// Asks for the permit of a run. Without a timer nothing is sent: no question, no goodbye.
pub(crate) fn permit(plan: &SendPlan, socket: &UdpSocket) -> Result<Permit, Failure> {
    if plan.no_handshake || !plan.timer.sends() {
        return Ok(Permit::Insisted);
    }
    Permit::obtain(plan.destination, &plan.traffic, socket)
}

/// A socket of any free port, connected so that the kernel looks the route up once.
pub(crate) fn connect(destination: SocketAddr) -> Result<UdpSocket, Failure> {
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
