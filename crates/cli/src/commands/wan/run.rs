//! A running path.

use std::io;
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use softtimers::Timestamp;
use softtimers::late::cpu_time;
use softtimers_measure::failure::Failure;
use softtimers_measure::interrupt::Interrupt;
use softtimers_wan::{Ended, Relay, Wan, Way};

use super::ends::{Ends, carry, reports, short_slices};
use super::inside::Session;
use super::lateness::too_late;
use super::lines::{Lines, of_stream};
use super::live::LiveScreen;
use super::picture::drawn;
use super::plan::WanPlan;
use super::record::Recorder;
use super::seconds::Seconds;
use super::show::{DirectionReport, Kind, WanConfig, WanReport};
use super::table::header;
use crate::control::Control;
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
use softtimers_run::page::Sheet;

/// The relay, and the socket for changes of the path.
pub(crate) struct Emulator {
    pub(super) plan: WanPlan,
    pub(super) relay: Relay,
    /// The command behind the path.
    session: Option<Session>,
    summary: Option<OutputFile>,
    /// The page to write at the end.
    page: Option<OutputFile>,
    /// The data to draw there, and on the screen.
    pub(super) recorder: Option<Recorder>,
    pub(super) recent: Option<Recorder>,
    pub(super) screen: Option<LiveScreen>,
    pub(super) control: Option<Control>,
    /// When to accept connections again, after that has failed.
    pub(super) deaf_until: Option<Timestamp>,
    start: Timestamp,
    /// The CPU time used before the run.
    used: Duration,
}

impl Command for Emulator {
    type Config = WanConfig;
    type Report = WanReport;
    const DISTURBED_BY: Disturbance = Disturbance::Anybody;
    const FIELDS: &'static str = include_str!("fields.txt");
    const RIGHTS: Rights = Rights::ToOpen;

    fn watches_others(&self) -> bool {
        self.session.is_none()
    }

    fn output(&self) -> &Output {
        &self.plan.output
    }

    fn config(&self) -> WanConfig {
        let duration_s = self.plan.duration.map(|duration| duration.as_secs_f64());
        let scenario = self.plan.scenario.as_ref().map(|file| file.name.clone());
        let config = WanConfig { duration_s, scenario, ..self.plan.ends.config(&self.relay) };
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
        self.relay.watch(interrupt, SIGNAL).map_err(not_watched)?;
        self.take_control()?;
        let is_drawn = run.is_watched() && LiveScreen::is_possible();
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
        run.announce(&self.header());
        if is_drawn {
            self.screen = LiveScreen::take(self.header(), Screen::stdout().width, config.scenario.is_some());
        }
        if self.screen.is_some() {
            self.relay.watch(&io::stdin(), KEYS).map_err(not_watched)?;
        }
        self.play()?;
        let progress = Progress::start("relaying", self.plan.duration.filter(|_| lines.is_none()));
        let _slices = short_slices();
        let mut seconds = Seconds::default();
        let every = if self.screen.is_some() { FRAME } else { SECOND };
        self.carry(interrupt, lines.as_ref().map(|_| every), |emulator| {
            let Some(lines) = &lines else { return Ok(true) };
            Ok(lines.hand_over(match (&emulator.screen, &emulator.recent) {
                (Some(screen), Some(recorder)) => screen.frame(recorder.spans()),
                _ if run.is_watched() => seconds.lines(&emulator.report(), &Screen::stdout()),
                _ => of_stream(run.so_far(&config, &emulator.report()).to_json()?),
            }))
        })?;
        drop(progress);
        lines.map_or(Ok(()), Lines::finish)?;
        self.screen = None;
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
    /// Begins the recording, and the scenario, if there is one.
    fn play(&mut self) -> Result<(), Failure> {
        let now = self.relay.now();
        self.recorder = self.page.is_some().then(|| Recorder::new(now));
        self.recent = self.screen.is_some().then(|| Recorder::recent(now));
        let Some(file) = &self.plan.scenario else { return Ok(()) };
        self.relay
            .play(&file.scenario)
            .map_err(|error| Failure::usage(format_args!("--{}: {error}", file.flag)))
    }

    /// Writes the page of `--report`.
    fn draw(&mut self, object: &Object<'_, WanReport, WanConfig>) -> Result<(), Failure> {
        let Some((file, recorder)) = self.page.take().zip(self.recorder.take()) else { return Ok(()) };
        let spans = recorder.finish(&self.relay, self.relay.now());
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
        let interrupt =
            Interrupt::listen_each().map_err(|error| Failure::broke_off("listening for signals", &error))?;
        self.relay.watch(&interrupt, SIGNAL).map_err(not_watched)?;
        self.take_control()?;
        if !session.has_peer() && !self.plan.inside.as_ref().is_some_and(|inside| inside.host_loopback) {
            explain_localhost(&session.command());
        }
        let session = self.session.insert(session);
        // The command keeps what this process gives up afterwards.
        session.start(&interrupt)?;
        if let Some(ended) = session.descriptor() {
            self.relay.watch(&ended, COMMAND).map_err(not_watched)?;
        }
        if let Some(gateway) = session.gateway() {
            self.relay.watch(&gateway, GATEWAY).map_err(not_watched)?;
        }
        run.drop_privileges(Needs::confined(Confined { opens: self.opens(), uses_bpf: false }))?;
        let _slices = short_slices();
        (self.start, self.used) = (self.relay.now(), cpu_time());
        self.play()?;
        let broke_off = self.carry_command(&interrupt).err();
        self.relay.close();
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
        for way in [Way::Up, Way::Down].into_iter().filter(|&way| self.relay.counters(way).delivered > 0) {
            let path = self.relay.path(way);
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
            let until = self.next_look();
            let ended = carry(&mut self.relay, until)?;
            let now = self.relay.now();
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
                ended => _ = self.tend(ended, now),
            }
        }
        Ok(())
    }

    /// Says that the way outside has ended, once.
    fn lose_gateway(&mut self) -> Result<(), Failure> {
        let Some(session) = &mut self.session else { return Ok(()) };
        if let Some(gateway) = session.gateway() {
            self.relay.unwatch(&gateway).map_err(not_watched)?;
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
        let relay = plan.ends.open(path)?;
        let start = relay.now();
        Ok(Emulator {
            plan,
            relay,
            session,
            summary,
            page,
            recorder: None,
            recent: None,
            screen: None,
            control: None,
            deaf_until: None,
            start,
            used: cpu_time(),
        })
    }

    /// Runs until the end, a signal or a key, or until what is called `every` such time says that the reader is gone.
    fn carry(
        &mut self,
        interrupt: &Interrupt,
        every: Option<Duration>,
        mut each: impl FnMut(&Self) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let end = self.plan.duration.map(|duration| self.start + duration);
        let mut next_line = every.map(|every| (self.start + every, every));
        loop {
            let line = next_line.map(|(line, _)| line);
            let until = [end, line, self.next_look()].into_iter().flatten().min();
            let ended = carry(&mut self.relay, until)?;
            let now = self.relay.now();
            if ended == Ended::Watched(SIGNAL) || interrupt.arrived() || end.is_some_and(|end| now >= end) {
                return Ok(());
            }
            if self.tend(ended, now) {
                return Ok(());
            }
            if let Some((line, every)) = next_line.filter(|&(line, _)| now >= line) {
                if !each(self)? {
                    return Ok(());
                }
                // A missed one is not made up.
                next_line = Some(((line + every).max(now), every));
            }
        }
    }

    pub(super) fn report(&self) -> WanReport {
        let direction = |way| {
            DirectionReport::from_counts(
                &self.relay.path(way),
                &self.relay.counters(way),
                self.relay.measured(way),
            )
        };
        let mut late = self.relay.measured(Way::Up).lateness_ns().clone();
        late.merge(self.relay.measured(Way::Down).lateness_ns());
        let span = self.relay.now().saturating_duration_since(self.start).as_secs_f64();
        let (clients, interfaces) = reports(&self.relay);
        WanReport {
            up: direction(Way::Up),
            down: direction(Way::Down),
            clients,
            interfaces,
            adds_p50_ns: late.quantile(0.5),
            span_s: span,
            cpu_share: (span > 0.0).then(|| cpu_time().saturating_sub(self.used).as_secs_f64() / span),
            wakeups: self.relay.loop_stats().waits,
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

pub(super) fn not_watched(error: io::Error) -> Failure {
    Failure::broke_off("watching for changes", &error)
}

const SECOND: Duration = Duration::from_secs(1);
const FRAME: Duration = Duration::from_millis(200);
/// The tokens of the relay's watched descriptors.
const SIGNAL: u32 = 0;
pub(super) const CONTROL: u32 = 1;
const COMMAND: u32 = 2;
const GATEWAY: u32 = 3;
pub(super) const KEYS: u32 = 4;
pub(super) const FIRST_CONNECTION: u32 = 5;
