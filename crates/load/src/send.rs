//! `send`: paced UDP from a loop that may be busy with other work.
//!
//! Every [engine](crate::engines) drives the same flow: one rate clock, one socket, one set of counts. With several
//! flows there are several clocks, and due datagrams leave in batches.
//!
//! ```text
//!   open      class, sockets                  with the rights that they take
//!   ask       consent                         a signal ends the process
//!   send      session ─▶ engine ─▶ goodbye    a signal ends the run, with its report
//! ```

mod report;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use softtimers_core::Idle;
use softtimers_measure::failure::Failure;
use softtimers_measure::interrupt::Interrupt;
use softtimers_measure::stats::Counter;
use softtimers_measure::usage::Usage;
use softtimers_net::udp::UdpSocket;

use crate::dscp::Dscp;
use crate::handshake::{self, Permit};
use crate::plan::SendPlan;
use crate::session::{Habits, Session, Surroundings};

pub use crate::session::{Calls, CatchUps, LateReport, Notify, SendFigures, SendStats, SendTrace, Triggers};
pub use report::{PolledReport, SendReport, SocketReport};

/// The outcome of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The report, up to the failure if there was one.
    pub report: SendReport,
    /// The lateness of the last datagram against its scheduled time; `None` if there was none.
    pub skew: Option<Duration>,
    /// The fallbacks: each is a sentence that says what did not work as requested, and what was done instead.
    pub fallbacks: Vec<String>,
    /// The log of departures, if the plan asked for it.
    pub trace: Option<Box<SendTrace>>,
    /// The failure that broke the run off.
    pub broke_off: Option<Failure>,
}

/// A run that is ready to send.
#[derive(Debug)]
pub struct Prepared<'a> {
    opened: Opened<'a>,
    permit: Permit,
}

/// A run with everything that needs privileges opened, which has not asked the receiver yet.
#[derive(Debug)]
pub struct Opened<'a> {
    plan: &'a SendPlan,
    pub(crate) socket: UdpSocket,
}

/// Carries out a plan until its end or a signal.
///
/// # Errors
/// A failure that keeps the run from starting. One that ends it later is part of the [`Outcome`].
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

/// Checks whether the run may begin: whether this machine can do it, and whether the receiver agrees.
///
/// # Errors
/// As [`open`] and [`Opened::ask`].
pub fn prepare(plan: &SendPlan) -> Result<Prepared<'_>, Failure> {
    open(plan)?.ask()
}

/// Opens everything the run needs; from then on it needs no privileges.
///
/// # Errors
/// A usage failure if a socket cannot be made, not-possible if this machine cannot do it.
pub fn open(plan: &SendPlan) -> Result<Opened<'_>, Failure> {
    // In full, so that no new setting is passed over in silence: it is used here, or named as another's.
    let &SendPlan {
        destination,
        dscp,
        timer,
        ref queue,
        // Of the session: see `begin`.
        traffic: _,
        slack: _,
        idle: _,
        sched_slice: _,
        work: _,
        program: _,
        disabled_source: _,
        cpu: _,
        trace: _,
        // Of the question to the receiver: see `permit`.
        no_handshake: _,
    } = plan;
    // The code that chose the timer has already tried it on this route, and a second try might give another answer.
    if queue.is_none() {
        timer.check(destination)?;
    }
    Ok(Opened { plan, socket: connect(destination, dscp)? })
}

impl<'a> Opened<'a> {
    /// Opens another run of the plan, from a port of its own; what this machine can do has been checked.
    ///
    /// # Errors
    /// A usage failure if a socket cannot be made.
    pub fn another(&self) -> Result<Self, Failure> {
        Ok(Opened { plan: self.plan, socket: connect(self.plan.destination, self.plan.dscp)? })
    }

    /// Asks the receiver for an agreement, if one is needed.
    ///
    /// # Errors
    /// A check failure if the destination has to agree and does not.
    pub fn ask(self) -> Result<Prepared<'a>, Failure> {
        let permit = permit(self.plan, &self.socket)?;
        Ok(Prepared { opened: self, permit })
    }
}

impl Prepared<'_> {
    /// Sends until the plan's end, or until `interrupt` reports a signal. `notify` gets urgent news for the user.
    ///
    /// # Errors
    /// A failure that keeps the run from starting. One that ends it later is part of the [`Outcome`].
    pub fn send(
        self,
        interrupt: Interrupt,
        counter: Counter<SendStats>,
        notify: Notify,
    ) -> Result<Outcome, Failure> {
        let Prepared { opened: Opened { plan, socket }, permit } = self;
        let mut session = begin(plan, (socket, &permit), interrupt, counter)?;
        tell_doubts(plan.destination, &permit, &mut session, notify);
        let before = Usage::now();
        let driven = plan.timer.drive(&mut session);
        let usage = Usage::now().since(&before).and(&session.beside);
        let watched = session.unwatch(plan.destination);
        let agreement = permit.agreement().filter(|_| watched.is_ok());
        let receiver = agreement.and_then(|agreement| session.ask_receipt(&agreement));
        let received = watched.and_then(|()| received_by_somebody(plan, &permit, &session));
        // A receiver that was not asked expects nothing but the datagrams.
        if plan.timer.sends() && !matches!(permit, Permit::Insisted) {
            session.say_goodbye();
        }
        session.fallbacks.extend(session.work.stop(&session.interrupt));
        session.fallbacks.extend(session.flow.fallback());
        session.flow.settle();
        let stats = session.flow.stats();
        Ok(Outcome {
            report: SendReport { receiver, ..SendReport::new((plan, &permit), &stats, &session, &usage) },
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

/// Warns at once that there may be no receiver: now, or when the first datagram is refused.
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

/// Checks at the end of a run that there is a receiver, if that was in doubt.
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

/// Gets the permit of a run. Without a timer no message is sent, not even a question or a goodbye.
pub(crate) fn permit(plan: &SendPlan, socket: &UdpSocket) -> Result<Permit, Failure> {
    if plan.no_handshake || !plan.timer.sends() {
        return Ok(Permit::Insisted);
    }
    Permit::obtain(plan.destination, &plan.traffic, socket)
}

/// Returns a connected socket on any free port, for which the kernel looks the route up only once. Its datagrams ask for
/// this class.
pub(crate) fn connect(destination: SocketAddr, dscp: Dscp) -> Result<UdpSocket, Failure> {
    let local: SocketAddr =
        if destination.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let open = || -> io::Result<UdpSocket> {
        let socket = UdpSocket::bind(local)?;
        // The route may depend on it.
        dscp.mark(&socket)?;
        socket.connect(destination)?;
        socket.set_nonblocking(true)?;
        // Otherwise the kernel reports a datagram as sent that a full device queue dropped.
        socket.report_queue_drops(true)?;
        Ok(socket)
    };
    open().map_err(|error| Failure::usage(format_args!("address {destination}: {error}")))
}
