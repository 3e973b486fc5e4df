//! A capture, from opening the interfaces to a complete file.

use std::path::Path;
use std::time::Duration;

use softtimers::{Clock, Monotonic, Slice};
use softtimers_measure::failure::Failure;
use softtimers_measure::stats::Counter;

use super::args::Capture;
use super::batch::{BatchWriter, Before};
use super::engine::CaptureLoop;
use super::pcapng;
use super::pipe::Patience;
use super::show::{CaptureConfig, CaptureReport, FeedbackCounts, header};
use super::sink::{self, Sink};
use super::stage::Stage;
use super::stats::{CaptureStats, DropCounts};
use super::tap::{self, Layout};

use crate::run::output::{Object, Output, say};
use crate::run::privileges::paths::{Opens, directory_of};
use crate::run::privileges::{Confined, Needs, Rights};
use crate::run::screen::Screen;
use crate::run::{Command, Disturbance, Outcome, Run};

impl Command for Capture {
    type Config = CaptureConfig;
    type Report = CaptureReport;
    // The sender is most often another program on this machine.
    const DISTURBED_BY: Disturbance = Disturbance::Host;
    const FIELDS: &'static str = include_str!("fields.txt");
    const RIGHTS: Rights = Rights::ToOpen;

    fn output(&self) -> &Output {
        &self.output
    }

    fn config(&self) -> CaptureConfig {
        CaptureConfig::from_plan(self)
    }

    fn header(&self) -> String {
        header(&CaptureConfig::from_plan(self))
    }

    fn example(&self) -> CaptureReport {
        CaptureReport {
            cpu_share: Some(0.0),
            feedback: self.queue.map(|_| FeedbackCounts::default()),
            ..CaptureReport::default()
        }
    }

    /// Captures until the plan's end or a signal.
    fn run(&mut self, run: &Run<'_>) -> Result<Outcome<CaptureReport>, Failure> {
        // From here on signals end it, so that open files are completed.
        let patient = run.own_interrupt()?;
        sink::check_rotation(&self.sink, self.user)?;
        let (taps, refused) = tap::open_all(self, Layout::for_plan(self))?;
        let until = self.end.duration.map(|duration| Monotonic.now() + duration);
        let sink = open_and_drop(self, run, Patience::new(patient, until))?;
        let shown = sink.destination();

        run.watch();
        // Where frames go to stdout, nothing else may.
        let counter = if self.writes_to_stdout() {
            Counter::new(CaptureStats::default())
        } else {
            run.announce(&self.header());
            run.counter(CaptureStats::default())?
        };
        let before = Before::new(vec![DropCounts::default(); taps.len()].into());
        let interrupt = run.own_interrupt()?;
        let stop =
            interrupt.stop_handle().map_err(|error| Failure::broke_off("listening for signals", &error))?;
        let mut writer = BatchWriter::new(sink, Before::clone(&before), stop, counter.another());
        writer.begin(self.end.count);
        let stage = Stage::new(writer, self.queue)?;
        let (_slice, mut fallbacks) = hold_slice(self.max_delay);
        fallbacks.extend(refused);
        let mut engine = CaptureLoop::new(self, taps, stage, before, interrupt, counter)?;
        engine.cut_to(self.snap_length);
        say(format_args!("capturing on {} to {shown}", self.interfaces.join(", ")));
        let _progress = (!self.writes_to_stdout()).then(|| run.begin(self, "capturing", self.end.duration));
        let (report, captured) = engine.run(until);
        Ok(Outcome { fallbacks, broke_off: captured.err(), ..Outcome::of(report) })
    }

    /// Prints the report to stdout, unless the frames go there.
    fn print(&mut self, object: &Object<'_, CaptureReport, CaptureConfig>) -> Result<(), Failure> {
        if self.writes_to_stdout() {
            say(format_args!("{}", object.to_text(&Screen::PIPE).trim_end()));
            return Ok(());
        }
        self.output.finish(object)
    }
}

impl Capture {
    fn writes_to_stdout(&self) -> bool {
        self.sink.path == Path::new("-")
    }
}

/// Opens the file, and drops all privileges: from then on nothing is opened but the files of `--rotate`.
fn open_and_drop(plan: &Capture, run: &Run<'_>, patience: Patience) -> Result<Sink, Failure> {
    let open = || Sink::open(plan.sink.clone(), head(plan), patience);
    let needs = |opens| {
        let confined = Confined { opens, uses_bpf: false };
        Needs { user: plan.user, ..Needs::confined(confined) }
    };
    if plan.sink.rotate.is_some() {
        // All by the same user: one who may not open the later ones may not open the first.
        run.drop_privileges(needs(Opens {
            writes: Some(directory_of(&plan.sink.path).to_owned()),
            ..Opens::default()
        }))?;
        sink::check_directory(&plan.sink)?;
        return open();
    }
    let sink = open()?;
    run.drop_privileges(needs(Opens::default()))?;
    Ok(sink)
}

/// Holds a short slice until it is dropped; also returns a note if the kernel grants none.
fn hold_slice(max_delay: Duration) -> (Option<Slice>, Vec<String>) {
    match Slice::hold(slice(max_delay)) {
        Ok(held) => (Some(held), vec![]),
        Err(why) => (None, vec![format!("{why}: a wake-up waits until the slice of a computation is over")]),
    }
}

/// Returns the slice to request from the scheduler. A computing program on the same CPU goes on until its own slice of
/// some 3 ms is over, unless the thread that wakes up has a shorter one: otherwise the first frame after a check would
/// be late.
fn slice(max_delay: Duration) -> Duration {
    (max_delay / 4).clamp(*Slice::ALLOWED.start(), LONGEST_SLICE)
}

fn head(plan: &Capture) -> Vec<u8> {
    let mut head = Vec::new();
    let filter = plan.expression.as_deref();
    let described = |name| pcapng::Interface { name, snap_length: plan.snap_length, filter };
    pcapng::begin(&mut head, plan.interfaces.iter().map(String::as_str).map(described));
    head
}

/// Long enough to handle one check, and shorter than the default slice of programs.
const LONGEST_SLICE: Duration = Duration::from_millis(1);
