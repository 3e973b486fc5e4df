//! What every `--timer` drives: the flow, the work beside it, and when to stop.

use std::io;
use std::net::SocketAddr;

use softtimers::epoll::Waiting;
use softtimers::{Clock, HeldBack, LoopClock, LoopStats, Monotonic, Polling, Slice, Timestamp, TriggerState};
use softtimers_linux::signal_timer::Ticks;
use softtimers_net::UdpSocket;

use crate::args::Timer;
use crate::distribution::Distribution;
use crate::failure::Failure;
use crate::handshake::Permit;
use crate::interrupt::Interrupt;
use crate::plan::SendPlan;
use crate::processor::{Kept, Processor, Processors};
use crate::stream::Stream;
use crate::units::show_duration;

use super::flow::Flow;
use super::second::Second;
use super::triggers::Triggers;
use super::watch::{self, Watch};
use super::work::Workload;
use super::work_loop::{self, Descriptors};
use super::{beside, own_loop, soft};
use crate::usage::Usage;

/// A run in progress, on the thread that began it.
pub(super) struct Session {
    pub(super) flow: Flow,
    pub(super) work: Workload,
    pub(super) interrupt: Interrupt,
    pub(super) end: Timestamp,
    /// What the idle policy polled away, if there was one.
    pub(super) polled: Option<Polling>,
    /// Where a thread beside the loop may run, whatever the loop is kept on.
    pub(super) anywhere: Processors,
    /// What such a thread has used.
    pub(super) beside: Usage,
    /// Times between two looks for due datagrams, of a timer that looks.
    pub(super) trigger_intervals: Distribution,
    /// Whose trigger states the loop is to do without.
    pub(super) disabled: Option<TriggerState>,
    /// Whether the intervals without each source are wanted, too.
    pub(super) without_each: bool,
    /// What softtimers has seen of its trigger states.
    pub(super) triggers: Option<Box<Triggers>>,
    /// What the loop's handlers took, if it is softtimers' loop.
    pub(super) handlers: Option<LoopStats>,
    /// What did not work as asked and what was done instead.
    pub(super) fallbacks: Vec<String>,
    /// Sees whether the receiver that has agreed is still there.
    pub(super) watch: Option<Watch>,
    /// A line a second, if asked for.
    pub(super) stream: Option<Stream<Second>>,
    /// What this thread is asked to be; it is let go as it was.
    _kept: Option<Kept>,
    _slice: Option<Slice>,
}

impl Session {
    /// Begins a run that sends to the other end of a socket as it is permitted to.
    pub(super) fn begin(plan: &SendPlan, socket: UdpSocket, permit: &Permit) -> Result<Self, Failure> {
        // Without it the kernel reports a datagram that a full device queue dropped as sent.
        let opened = socket.set_nonblocking(true).and_then(|()| socket.report_queue_drops(true));
        opened.map_err(|error| Failure::usage(format_args!("address {}: {error}", plan.destination)))?;
        let interrupt =
            Interrupt::listen().map_err(|error| Failure::broke_off("listening for signals", &error))?;
        // While this thread may run anywhere, for the other one inherits that.
        let stream = plan
            .output
            .stream
            .then(|| stream(plan, &interrupt))
            .transpose()
            .map_err(|error| Failure::broke_off("beginning the stream", &error))?;
        // From here on it is kept up, also while the work's clients start.
        let watch = permit
            .agreement()
            .map(|agreement| Watch::start(agreement, &socket, interrupt.ender()?))
            .transpose()
            .map_err(|error| Failure::broke_off("watching the receiver", &error))?;
        let work = Workload::start(plan.work, plan.cpu, &interrupt)
            .map_err(|error| Failure::broke_off("starting the work", &error))?;
        let anywhere =
            Processors::allowed().map_err(|error| Failure::broke_off("asking for the processors", &error))?;
        let kept = plan
            .cpu
            .map(Processor::keep)
            .transpose()
            .map_err(|error| Failure::broke_off("keeping to a processor", &error))?;
        // After the work's processes have been started, which would inherit it.
        let slice = plan.sched_slice.map(Slice::hold).transpose();
        let no_slice = slice.as_ref().err().map(|error| format!("no --sched-slice: {error}"));
        let start = Monotonic.now();
        let mut flow = Flow::new(plan, socket, permit.agreement(), start)?;
        if let Some(stream) = &stream {
            flow.count_in(stream.counter());
        }
        Ok(Session {
            flow,
            work,
            interrupt,
            end: plan.end.duration.map_or(Timestamp::MAX, |duration| start + duration),
            polled: None,
            anywhere,
            beside: Usage::default(),
            trigger_intervals: Distribution::default(),
            disabled: plan.disabled_source,
            without_each: false,
            triggers: None,
            handlers: None,
            fallbacks: unheard(permit).into_iter().chain(no_slice).collect(),
            watch,
            stream,
            _kept: kept,
            _slice: slice.unwrap_or_default(),
        })
    }

    /// Goes on until the end, by this timer.
    pub(super) fn drive(&mut self, timer: Timer, plan: &SendPlan, clock: &impl LoopClock) -> io::Result<()> {
        match timer {
            Timer::Soft => soft::run(self, clock, plan),
            Timer::Off => work_loop::run(self, Descriptors::Unseen),
            Timer::Signal => beside::signal(self, Ticks::OneShot),
            Timer::Tick => beside::signal(self, Ticks::Periodic),
            Timer::Thread => beside::thread(self),
            timer => own_loop::run(self, clock, timer),
        }
    }

    pub(super) fn over(&self, now: Timestamp) -> bool {
        now >= self.end || self.flow.finished() || self.interrupt.arrived()
    }

    /// Tells how the engine had to wait, if not as it would have liked to.
    pub(super) fn waited(&mut self, waiting: Waiting) {
        if waiting == Waiting::Ppoll {
            self.fallbacks
                .push("epoll_pwait2 is refused here; waits use ppoll, one more system call each".to_owned());
        }
    }

    /// Tells what the idle policy did, and if it could not do as it was asked to.
    pub(super) fn idled(&mut self, polled: Polling, held_back: Option<HeldBack>) {
        self.polled = Some(polled);
        if let Some(why) = held_back {
            self.fallbacks.push(format!("{why}; the loop slept instead where it could"));
        }
    }

    /// Ends the watch over the receiver, and says what it found.
    ///
    /// # Errors
    /// A check failure if the receiver has gone.
    pub(super) fn unwatch(&mut self, destination: SocketAddr) -> Result<(), Failure> {
        if !self.watch.take().is_some_and(Watch::finish) {
            return Ok(());
        }
        Err(Failure::check(format_args!(
            "the receiver at {destination} has not renewed its consent for {}: it has ended, or is out of reach",
            show_duration(watch::SILENCE)
        )))
    }

    pub(super) fn say_goodbye(&mut self) {
        if !self.flow.say_goodbye() {
            self.fallbacks.push("no goodbye could be sent; a receiver does not know of the end".to_owned());
        }
    }
}

fn stream(plan: &SendPlan, interrupt: &Interrupt) -> io::Result<Stream<Second>> {
    let schema = if plan.trace.is_some() { "softtimers.replay.stream/1" } else { "softtimers.send.stream/1" };
    let second = Second::new(plan.pace.rate.interval());
    Ok(Stream::start(schema, plan.seed(), second, interrupt.ender()?))
}

/// Nobody agreed, and the run goes on: a note for the report.
fn unheard(permit: &Permit) -> Option<String> {
    let Permit::Unheard(why) = permit else { return None };
    Some(format!("{why}; sent without an agreement, which a receiver counts only with --any"))
}

/// A socket of any free port, connected so that the kernel looks the route up once.
pub(super) fn connect(destination: SocketAddr) -> Result<UdpSocket, Failure> {
    let local: SocketAddr =
        if destination.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let open = || -> io::Result<UdpSocket> {
        let socket = UdpSocket::bind(local)?;
        socket.connect(destination)?;
        Ok(socket)
    };
    open().map_err(|error| Failure::usage(format_args!("address {destination}: {error}")))
}
