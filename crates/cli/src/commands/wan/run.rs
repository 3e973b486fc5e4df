//! A running path.

use std::io;
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use softtimers::Timestamp;
use softtimers::late::cpu_time;
use softtimers_measure::failure::Failure;
use softtimers_measure::interrupt::Interrupt;
use softtimers_wan::{Ended, PathConfig, Wan, Way};

use super::carrier::{Carrier, Ends};
use super::control::{Request, request};
use super::inside::Session;
use super::lateness::too_late;
use super::lines::{Lines, of_stream};
use super::picture::drawn;
use super::plan::WanPlan;
use super::record::Recorder;
use super::seconds::Seconds;
use super::show::{DirectionReport, Kind, WanConfig, WanReport};
use super::table::header;
use crate::control::{Control, DEAF, MOST_CONNECTIONS};
use crate::descriptors;
use crate::file::OutputFile;
use crate::run::output::{Object, Output, print, say};
use crate::run::privileges::paths::{Opens, directory_of};
use crate::run::privileges::{Confined, Needs, Rights};
use crate::run::progress::Progress;
use crate::run::quantity::setting;
use crate::run::screen::Screen;
use crate::run::{Command, Disturbance, Outcome, Run, carry_out};
use crate::user_command::pass_on;
use softtimers_run::field::Field;
use softtimers_run::page::Sheet;

/// The carrier, and the socket for changes of the path.
pub(crate) struct Emulator {
    plan: WanPlan,
    carrier: Carrier,
    /// The command behind the path.
    session: Option<Session>,
    summary: Option<OutputFile>,
    /// The page to write at the end, and the data to draw.
    page: Option<(OutputFile, Recorder)>,
    control: Option<Control>,
    /// When to accept connections again, after that has failed.
    deaf_until: Option<Timestamp>,
    start: Timestamp,
    /// The CPU time used before the run.
    used: Duration,
}

impl Command for Emulator {
    type Config = WanConfig;
    type Report = WanReport;
    const DISTURBED_BY: Disturbance = Disturbance::Anybody;
    const FIELDS: &'static [&'static [Field]] = super::fields::FIELDS;
    const RIGHTS: Rights = Rights::ToOpen;

    fn output(&self) -> &Output {
        &self.plan.output
    }

    fn config(&self) -> WanConfig {
        let duration_s = self.plan.duration.map(|duration| duration.as_secs_f64());
        let scenario = self.plan.scenario.as_ref().map(|file| file.name.clone());
        let config = WanConfig { duration_s, scenario, ..self.carrier.config(&self.plan.ends) };
        match &self.session {
            None => config,
            Some(session) => WanConfig {
                kind: Kind::Command,
                listen: session.command(),
                to: session.other_end().to_owned(),
                ..config
            },
        }
    }

    fn seed(&self) -> Option<u64> {
        Some(self.plan.seed)
    }

    fn header(&self) -> String {
        header(&self.config())
    }

    fn example(&self) -> WanReport {
        self.report()
    }

    /// Carries packets until the plan's end or a signal; with a command, until that has ended.
    fn run(&mut self, run: &Run<'_>) -> Result<Outcome<WanReport>, Failure> {
        if let Some(session) = self.session.take() {
            return self.run_command(session, run);
        }
        let interrupt = run.interrupt()?;
        self.carrier.watch(interrupt, SIGNAL).map_err(not_watched)?;
        self.take_control()?;
        run.drop_privileges(Needs::confined(Confined { opens: self.opens(), uses_bpf: false }))?;
        let lines = run.streams().then(Lines::start).transpose()?;
        let config = self.config();
        match config.kind {
            Kind::Interfaces => say(format_args!("relaying between {} and {}", config.listen, config.to)),
            Kind::Tcp => say(format_args!(
                "listening on {}, relaying to {}: streams, so delay and rate only",
                config.listen, config.to
            )),
            Kind::Udp | Kind::Command => {
                say(format_args!("listening on {}, relaying to {}", config.listen, config.to));
            }
        }
        self.play()?;
        run.announce(&self.header());
        let progress = Progress::start("relaying", self.plan.duration.filter(|_| lines.is_none()));
        let mut seconds = Seconds::default();
        self.carry(interrupt, lines.is_some(), |report| match &lines {
            None => Ok(true),
            Some(lines) if run.is_watched() => Ok(lines.hand_over(seconds.lines(report, &Screen::stdout()))),
            Some(lines) => {
                let object = run.so_far(&config, report).to_json()?;
                Ok(lines.hand_over(of_stream(object)))
            }
        })?;
        drop(progress);
        lines.map_or(Ok(()), Lines::finish)?;
        if run.is_watched() && !seconds.is_empty() {
            // Separates the report from the lines.
            print("\n")?;
        }
        Ok(self.outcome(None))
    }

    /// Prints the report; stdout belongs to the command, if there is one.
    fn print(&mut self, object: &Object<'_, WanReport, WanConfig>) -> Result<(), Failure> {
        let drawn = self.draw(object);
        if self.session.is_none() {
            return self.plan.output.finish(object).and(drawn);
        }
        let written = self.summary.take().map(|file| file.write(&(object.to_json_text()? + "\n")));
        self.plan.output.finish_aside(object).and(written.unwrap_or(Ok(()))).and(drawn)
    }
}

impl Emulator {
    /// Listens to the control socket, if requested.
    fn take_control(&mut self) -> Result<(), Failure> {
        let Some(path) = self.plan.control.as_deref() else { return Ok(()) };
        let refused = |error| Failure::usage(format_args!("--control {}: {error}", path.display()));
        let control = Control::bind(path).map_err(refused)?;
        self.carrier.watch(&control, CONTROL).map_err(not_watched)?;
        self.control = Some(control);
        Ok(())
    }

    /// Begins the recording, and the scenario, if there is one.
    fn play(&mut self) -> Result<(), Failure> {
        let now = self.carrier.now();
        self.page.iter_mut().for_each(|(_, recorder)| *recorder = Recorder::new(now));
        let Some(file) = &self.plan.scenario else { return Ok(()) };
        self.carrier
            .play(&file.scenario)
            .map_err(|error| Failure::usage(format_args!("--{}: {error}", file.flag)))
    }

    /// Returns when something is due besides carrying.
    fn next_look(&self) -> Option<Timestamp> {
        let recorder = self.page.as_ref().map(|(_, recorder)| recorder.next());
        recorder.into_iter().chain(self.deaf_until).min()
    }

    /// Writes the page of `--report`.
    fn draw(&mut self, object: &Object<'_, WanReport, WanConfig>) -> Result<(), Failure> {
        let Some((file, recorder)) = self.page.take() else { return Ok(()) };
        let spans = recorder.finish(&self.carrier, self.carrier.now());
        let mut drawn = drawn(object.report, &spans, object.config.scenario.as_deref());
        let inconclusive = object.inconclusive.iter().map(|why| format!("Inconclusive: {why}."));
        drawn.notes.extend(object.fallbacks.iter().cloned().chain(inconclusive));
        let facts = [
            ("Machine", Some(object.machine.place())),
            ("Seed", object.seed.map(|seed| seed.to_string())),
            ("Scenario", object.config.scenario.clone()),
            ("Ran for", Some(setting(Duration::from_secs_f64(object.report.span_s)))),
        ];
        let facts = facts.into_iter().filter_map(|(name, fact)| Some((name, fact?))).collect();
        let sheet = Sheet { title: "softtimers wan", verdict: header(object.config), facts, drawn };
        file.write(&sheet.html())
    }

    /// Runs the command, and carries its traffic.
    fn run_command(&mut self, session: Session, run: &Run<'_>) -> Result<Outcome<WanReport>, Failure> {
        // The other program on this machine is the one under test.
        run.unwatch();
        let interrupt =
            Interrupt::listen_each().map_err(|error| Failure::broke_off("listening for signals", &error))?;
        self.carrier.watch(&interrupt, SIGNAL).map_err(not_watched)?;
        self.take_control()?;
        if !session.has_peer() && !self.plan.inside.as_ref().is_some_and(|inside| inside.host_loopback) {
            explain_localhost(&session.command());
        }
        let session = self.session.insert(session);
        // The command keeps what this process gives up afterwards.
        session.start(&interrupt)?;
        if let Some(ended) = session.descriptor() {
            self.carrier.watch(&ended, COMMAND).map_err(not_watched)?;
        }
        if let Some(gateway) = session.gateway() {
            self.carrier.watch(&gateway, GATEWAY).map_err(not_watched)?;
        }
        run.drop_privileges(Needs::confined(Confined { opens: self.opens(), uses_bpf: false }))?;
        (self.start, self.used) = (self.carrier.now(), cpu_time());
        self.play()?;
        let broke_off = self.carry_command(&interrupt).err();
        if let Some(session) = &mut self.session {
            session.end();
        }
        Ok(self.outcome(broke_off))
    }

    /// Returns the findings, and what they do not show.
    fn outcome(&self, broke_off: Option<Failure>) -> Outcome<WanReport> {
        let report = self.report();
        let inconclusive = too_late("", [("up", &report.up), ("down", &report.down)]);
        let strict = inconclusive.as_ref().filter(|_| self.plan.strict);
        let broke_off = broke_off.or(strict.map(|why| Failure::check(format_args!("--strict: {why}"))));
        let fallbacks = self.jitter_not_shown(report.span_s);
        Outcome { broke_off, inconclusive, fallbacks, ..Outcome::of(report) }
    }

    /// Says which settings of jitter this run could not show: delays below zero, and those in order of a short run.
    fn jitter_not_shown(&self, span_s: f64) -> Vec<String> {
        let mut notes: Vec<String> = Vec::new();
        for way in [Way::Up, Way::Down].into_iter().filter(|&way| self.carrier.counters(way).delivered > 0) {
            let path = self.carrier.path(way);
            let cut = path.jitter.share_cut(path.delay).as_f64();
            if cut > 0.001 {
                notes.push(format!(
                    "{way}: the jitter is wider than the delay: {:.1}% of the delays would be below zero and are zero",
                    cut * 100.0
                ));
            }
            let settles = path.jitter.settles_within();
            if settles.as_secs_f64() * 10.0 > span_s {
                notes.push(format!(
                    "{way}: delays in order change as slowly as they differ, so these show their distribution in a run of \
                     {} and more; this one was shorter (--jitter …:reordering has no such bound)",
                    setting(settles * 10)
                ));
            }
        }
        notes
    }

    /// Carries until the command has ended. Signals are passed to it.
    fn carry_command(&mut self, interrupt: &Interrupt) -> Result<(), Failure> {
        while self.ended().is_none() {
            let ended = self.carrier.run(self.next_look())?;
            let now = self.carrier.now();
            let Some(session) = &self.session else { return Ok(()) };
            match ended {
                Ended::Watched(COMMAND) => {}
                Ended::Watched(GATEWAY) => self.lose_gateway()?,
                Ended::Watched(SIGNAL) => {
                    // It is readable, so this does not block.
                    if interrupt.wait(interrupt).is_ok_and(|signal| signal) {
                        session.hand_on(interrupt.exit_code() - 128);
                    }
                }
                ended => self.tend(ended, now),
            }
        }
        Ok(())
    }

    /// Says that the way outside has ended, once.
    fn lose_gateway(&mut self) -> Result<(), Failure> {
        let Some(session) = &mut self.session else { return Ok(()) };
        if let Some(gateway) = session.gateway() {
            self.carrier.unwatch(&gateway).map_err(not_watched)?;
        }
        say(format_args!(
            "softtimers: {} has ended, so CMD reaches nothing outside any more: {}",
            session.other_end(),
            session.gateway_ended()
        ));
        Ok(())
    }

    /// Returns how the command has ended, if there was one and it has.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.session.as_mut().and_then(Session::ended)
    }

    /// Serves the control socket.
    fn tend(&mut self, ended: Ended, now: Timestamp) {
        match ended {
            Ended::Watched(CONTROL) => self.accept(now),
            Ended::Watched(number @ FIRST_CONNECTION..) => self.serve((number - FIRST_CONNECTION) as usize),
            _ => {}
        }
        if let Some((_, recorder)) = &mut self.page {
            recorder.look(&self.carrier, now);
        }
        if self.deaf_until.is_some_and(|until| now >= until) {
            self.listen_again(now);
        }
    }

    /// Says which files it opens later: through the control socket a trace may be named, and its socket is removed at
    /// the end.
    fn opens(&self) -> Opens {
        let control = self.plan.control.as_deref();
        Opens {
            reads: control.map(|_| "/".into()).into_iter().collect(),
            removes: control.map(|path| directory_of(path).to_owned()),
            connects: matches!(self.plan.ends, Ends::Tcp(_)),
            ..Opens::default()
        }
    }

    /// Opens the ends of the path.
    ///
    /// # Errors
    /// A usage failure if one cannot be used; not-possible without the privileges.
    pub(crate) fn new(plan: WanPlan) -> Result<Self, Failure> {
        let create = |path: &Option<PathBuf>, flag| {
            path.as_deref().map(|path| OutputFile::create(path, flag, plan.force)).transpose()
        };
        let (summary, page) = (create(&plan.summary, "--summary")?, create(&plan.report, "--report")?);
        if plan.inside.is_none() {
            descriptors::raise();
        }
        let session = plan.inside.clone().map(Session::enter).transpose()?;
        let path = Wan::builder().up(plan.up.clone()).down(plan.down.clone()).seed(plan.seed);
        let carrier = Carrier::start(&plan.ends, path)?;
        let start = carrier.now();
        Ok(Emulator {
            plan,
            carrier,
            session,
            summary,
            page: page.map(|file| (file, Recorder::new(start))),
            control: None,
            deaf_until: None,
            start,
            used: cpu_time(),
        })
    }

    /// Runs until the end, a signal, or until `each_second` says that the reader is gone.
    fn carry(
        &mut self,
        interrupt: &Interrupt,
        streams: bool,
        mut each_second: impl FnMut(&WanReport) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let end = self.plan.duration.map(|duration| self.start + duration);
        let mut next_line = streams.then(|| self.start + SECOND);
        loop {
            let until = [end, next_line, self.next_look()].into_iter().flatten().min();
            let ended = self.carrier.run(until)?;
            let now = self.carrier.now();
            if ended == Ended::Watched(SIGNAL) || interrupt.arrived() || end.is_some_and(|end| now >= end) {
                return Ok(());
            }
            self.tend(ended, now);
            if let Some(line) = next_line.filter(|&line| now >= line) {
                if !each_second(&self.report())? {
                    return Ok(());
                }
                // A missed second is not made up.
                next_line = Some((line + SECOND).max(now));
            }
        }
    }

    /// Accepts a connection. Without a free descriptor it stays queued, and would be reported for ever.
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
        control.serve(number.min(MOST_CONNECTIONS), |line| match request(line) {
            Err(problem) => format!("error: {problem}"),
            Ok(Request::Show) => serde_json::to_string(&self.report()).unwrap_or_default(),
            Ok(Request::Set(way, changes)) => {
                let ways = [Way::Up, Way::Down].into_iter().filter(|&each| way.is_none_or(|way| way == each));
                let paths: Vec<(Way, PathConfig)> = ways
                    .map(|way| {
                        let mut path = self.carrier.path(way);
                        changes.iter().for_each(|change| change.apply(&mut path));
                        (way, path)
                    })
                    .collect();
                // Both or none.
                if let Some(error) = paths.iter().find_map(|(_, path)| self.plan.ends.check(path).err()) {
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
            DirectionReport::from_counts(
                &self.carrier.path(way),
                &self.carrier.counters(way),
                self.carrier.measured(way),
            )
        };
        let mut late = self.carrier.measured(Way::Up).lateness_ns().clone();
        late.merge(self.carrier.measured(Way::Down).lateness_ns());
        let span = self.carrier.now().saturating_duration_since(self.start).as_secs_f64();
        WanReport {
            up: direction(Way::Up),
            down: direction(Way::Down),
            clients: self.carrier.clients(),
            interfaces: self.carrier.interfaces(),
            adds_p50_ns: late.quantile(0.5),
            span_s: span,
            cpu_share: (span > 0.0).then(|| cpu_time().saturating_sub(self.used).as_secs_f64() / span),
            wakeups: self.carrier.loop_stats().waits,
        }
    }
}

/// Runs a command behind the path, and returns its exit code.
///
/// # Errors
/// If it could not be started, or the run broke off.
pub(crate) fn run_behind(plan: WanPlan) -> Result<ExitCode, Failure> {
    let mut emulator = Emulator::new(plan)?;
    let done = carry_out(&mut emulator);
    match emulator.ended() {
        Some(status) if !status.success() => {
            if let Err(failure) = done {
                say(format_args!("softtimers: {failure}"));
            }
            Ok(pass_on(status))
        }
        _ => done.map(|()| ExitCode::SUCCESS),
    }
}

/// A client of a server on this machine finds nothing behind the path, which looks like a fault of it.
fn explain_localhost(command: &str) {
    if ["localhost", "127.0.0.1", "[::1]"].iter().any(|name| command.contains(name)) {
        say(format_args!(
            "softtimers: -- CMD: its localhost is its own; --host-loopback reaches servers of this machine as 'host', and \
             --peer runs one at the other end"
        ));
    }
}

fn not_watched(error: io::Error) -> Failure {
    Failure::broke_off("watching for changes", &error)
}

const SECOND: Duration = Duration::from_secs(1);
/// The tokens of the relay's watched descriptors.
const SIGNAL: u32 = 0;
const CONTROL: u32 = 1;
const COMMAND: u32 = 2;
const GATEWAY: u32 = 3;
const FIRST_CONNECTION: u32 = 4;
