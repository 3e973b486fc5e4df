//! `softtimers wan`: a network path between two addresses, without root; with privileges, between two interfaces.
//!
//! The path is that of [`softtimers_wan`]; here are the flags, the control socket and the summary.
//!
//! ```text
//!   clients ──▶ --listen ─▶ [ queue ▐ rate ▌ loss, delay ] ─▶ --to
//!                       ◀─ [ delay, loss ▌ rate ▐ queue ] ◀─
//!                 --control: set up delay 50ms │ SIGTERM: the summary
//! ```

pub mod carrier;
pub mod control;
mod lines;
pub mod report;
pub mod self_test;
pub mod setting;

use std::io;
use std::time::Duration;

use serde::Serialize;
use softtimers::Timestamp;
use softtimers::late::cpu_time;
use softtimers_wan::live::Ended;
use softtimers_wan::{PathConfig, Wan, Way};

use crate::output::{Run, say};
use crate::plan::WanPlan;
use crate::progress::Progress;
use carrier::{Carrier, Ends};
use control::{Control, MOST_CONNECTIONS, Request};
use lines::Lines;
use report::{DirectionReport, WanReport};
use softtimers_measure::failure::Failure;
use softtimers_measure::interrupt::Interrupt;
use softtimers_measure::machine::{Machine, Neighbours};

/// Carries packets until the plan's end or a signal, then prints and checks the report.
///
/// # Errors
/// A usage failure if an address or the control socket cannot be used, or an assertion names no key; a check
/// failure if an assertion does not hold or the system fails meanwhile.
pub fn run(plan: &WanPlan) -> Result<(), Failure> {
    let machine = Machine::read();
    let path = Wan::builder().up(plan.up.clone()).down(plan.down.clone()).seed(plan.seed);
    let mut session = Session::new(plan, Carrier::start(&plan.ends, path)?)?;
    let config = WanConfig {
        duration_s: plan.duration.map(|duration| duration.as_secs_f64()),
        ..session.carrier.config(&plan.ends)
    };
    let neighbours = Neighbours::watch();
    let lines = plan.output.stream.then(Lines::start);
    let seed = Some(plan.seed);
    let example = session.report();
    let kind = Run {
        machine: &machine,
        seed: None,
        config: &config,
        fallbacks: &[],
        inconclusive: None,
        report: &example,
    };
    plan.output.check_keys(&kind)?;
    match config.kind {
        "interfaces" => say(format_args!("relaying between {} and {}", config.listen, config.to)),
        "tcp" => say(format_args!(
            "listening on {}, relaying to {}: streams, so delay and rate only",
            config.listen, config.to
        )),
        _ => say(format_args!("listening on {}, relaying to {}", config.listen, config.to)),
    }
    let progress = Progress::start("relaying", plan.duration);
    session.run(plan, |report| {
        let Some(lines) = &lines else { return Ok(true) };
        let run =
            Run { machine: &machine, seed, config: &config, fallbacks: &[], inconclusive: None, report };
        run.to_json().map(|report| lines.hand_over(report))
    })?;
    drop(progress);
    lines.map_or(Ok(()), Lines::finish)?;
    let interference = neighbours.so_far();
    plan.output.finish(&Run {
        machine: &machine.clone().during(interference),
        seed,
        config: &config,
        fallbacks: &[],
        inconclusive: interference.inconclusive(),
        report: &session.report(),
    })
}

/// The `config` object of `wan`; what is set of the path stands with what was measured.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct WanConfig {
    /// `udp`, `tcp` or `interfaces`.
    pub kind: &'static str,
    /// The address that was bound, with the port in use; the first interface.
    pub listen: String,
    /// Where packets go; the second interface.
    pub to: String,
    /// The most clients at once.
    pub clients: u32,
    /// When a silent client is forgotten; `null` where there are none.
    pub client_timeout_s: Option<f64>,
    /// Networks whose clients are answered with all, beside loopback; of datagrams.
    pub trust: Vec<String>,
    /// Answers a second to all others of a prefix; `null` unless it is of datagrams.
    pub answers_per_prefix_pps: Option<f64>,
    /// The longest run; `null` for no bound.
    pub duration_s: Option<f64>,
}

/// What carries, and who may interrupt it.
struct Session {
    ends: Ends,
    carrier: Carrier,
    interrupt: Interrupt,
    control: Option<Control>,
    /// When who wants to connect is listened to again, after that has failed.
    deaf_until: Option<Timestamp>,
    start: Timestamp,
}

impl Session {
    fn new(plan: &WanPlan, mut carrier: Carrier) -> Result<Self, Failure> {
        let broke_off = |error: io::Error| Failure::broke_off("watching for changes", &error);
        let interrupt = Interrupt::listen().map_err(broke_off)?;
        carrier.watch(&interrupt, SIGNAL).map_err(broke_off)?;
        let control = plan.control.as_deref().map(|path| {
            Control::bind(path)
                .map_err(|error| Failure::usage(format_args!("--control {}: {error}", path.display())))
        });
        let control = control.transpose()?;
        if let Some(control) = &control {
            carrier.watch(control, CONTROL).map_err(broke_off)?;
        }
        let start = carrier.now();
        Ok(Session { ends: plan.ends.clone(), carrier, interrupt, control, deaf_until: None, start })
    }

    /// Runs until the end, a signal, or until `each_second` says that nobody reads any more.
    fn run(
        &mut self,
        plan: &WanPlan,
        each_second: impl Fn(&WanReport) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let end = plan.duration.map(|duration| self.start + duration);
        let mut next_line = plan.output.stream.then(|| self.start + SECOND);
        loop {
            let until = [end, next_line, self.deaf_until].into_iter().flatten().min();
            let ended = self.carrier.run(until)?;
            let now = self.carrier.now();
            match ended {
                Ended::Time => {}
                Ended::Watched(SIGNAL) => return Ok(()),
                Ended::Watched(CONTROL) => self.accept(now),
                Ended::Watched(number) => self.serve((number - FIRST_CONNECTION) as usize),
            }
            if self.interrupt.arrived() || end.is_some_and(|end| now >= end) {
                return Ok(());
            }
            if self.deaf_until.is_some_and(|until| now >= until) {
                self.listen_again(now);
            }
            if let Some(line) = next_line.filter(|&line| now >= line) {
                if !each_second(&self.report())? {
                    return Ok(());
                }
                // A second that was missed is not made up for.
                next_line = Some((line + SECOND).max(now));
            }
        }
    }

    /// Somebody wants to connect. Without a descriptor for that they stay, and would be reported for ever.
    fn accept(&mut self, now: Timestamp) {
        let Some(control) = &mut self.control else { return };
        match control.accept() {
            Ok(None) => {}
            Ok(Some((number, stream))) => {
                if self.carrier.watch(&stream, FIRST_CONNECTION + number as u32).is_err() {
                    control.close(number);
                }
            }
            Err(_) => {
                let deaf = self.carrier.unwatch(control).is_ok();
                self.deaf_until = deaf.then(|| now + DEAF);
            }
        }
    }

    fn listen_again(&mut self, now: Timestamp) {
        let Some(control) = &self.control else { return };
        let heard = self.carrier.watch(control, CONTROL).is_ok();
        self.deaf_until = (!heard).then(|| now + DEAF);
    }

    fn serve(&mut self, number: usize) {
        let Some(mut control) = self.control.take() else { return };
        control.serve(number.min(MOST_CONNECTIONS), |request| match request {
            Err(problem) => format!("error: {problem}"),
            Ok(Request::Show) => serde_json::to_string(&self.report()).unwrap_or_default(),
            Ok(Request::Set(way, changes)) => {
                let ways = [Way::Up, Way::Down].into_iter().filter(|&each| way.is_none_or(|way| way == each));
                let paths: Vec<(Way, PathConfig)> = ways
                    .map(|way| {
                        let mut path = self.carrier.path(way).clone();
                        changes.iter().for_each(|change| change.apply(&mut path));
                        (way, path)
                    })
                    .collect();
                // Both or none.
                if let Some(error) = paths.iter().find_map(|(_, path)| self.ends.check(path).err()) {
                    return format!("error: {error}");
                }
                match paths.into_iter().try_for_each(|(way, path)| self.carrier.set(way, path)) {
                    Ok(()) => "ok".into(),
                    Err(error) => format!("error: {error}"),
                }
            }
        });
        self.control = Some(control);
    }

    fn report(&self) -> WanReport {
        let direction = |way| {
            DirectionReport::of(
                self.carrier.path(way),
                &self.carrier.counters(way),
                self.carrier.measured(way),
            )
        };
        let span = self.carrier.now().saturating_duration_since(self.start).as_secs_f64();
        WanReport {
            up: direction(Way::Up),
            down: direction(Way::Down),
            clients: self.carrier.clients(),
            interfaces: self.carrier.interfaces(),
            span_s: span,
            cpu_share: (span > 0.0).then(|| cpu_time().as_secs_f64() / span),
            wakeups: self.carrier.loop_stats().waits,
        }
    }
}

const SECOND: Duration = Duration::from_secs(1);
/// Without a descriptor for another connection: one may be free later.
const DEAF: Duration = Duration::from_millis(100);
/// What the relay's watched descriptors are called.
const SIGNAL: u32 = 0;
const CONTROL: u32 = 1;
const FIRST_CONNECTION: u32 = 2;
