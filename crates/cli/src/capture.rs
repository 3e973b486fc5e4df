//! `softtimers capture`: frames of an interface, into a file of pcapng, no later than asked for.
//!
//! A monitor is the receiver of which least is heard when it fails: it loses frames, and its file looks whole. So
//! what is lost is counted at each place, told at the end, and written into the file; and the work on a frame is as little as
//! can be, where it is least wanted: the kernel's filter keeps what is asked for, as much as is asked for, in a ring
//! that is looked at once in a while.
//!
//! ```text
//!   interface ─▶ filter, snap length ─▶ ring ─▶ a look each --max-delay / 2 ─▶ a batch ─▶ file
//!      └ dropped    (the kernel's)       └ dropped            [ queue └ dropped ]    └ dropped
//! ```
//!
//! - [`engine`]: the loop; [`looks`]: when it looks; [`stage`]: who writes; [`outlet`] and [`sink`]: batches and files;
//! - [`pipe`]: who may stop reading; [`pcapng`]: what is in them; [`filter`]: what is kept; [`privileges`]: what is given up; [`report`]: what it tells.

pub mod engine;
pub mod filter;
pub mod looks;
pub mod outlet;
pub mod pcapng;
pub mod pipe;
pub mod privileges;
pub mod report;
pub mod sink;
pub mod stage;

use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use softtimers::packet::{Filter, Interface};
use softtimers::poller::{PacketConfig, PacketDevice};
use softtimers::{Clock, Monotonic, Slice};

use crate::output::{Report, Run, say};
use crate::plan::CapturePlan;
use crate::progress::Progress;
use crate::stream::Stream;
use engine::Engine;
use outlet::{Before, Outlet};
use pipe::Patience;
use report::{CaptureReport, FeedbackCounts, Second};
use sink::{Rotate, Sink};
use softtimers_measure::failure::Failure;
use softtimers_measure::interrupt::Interrupt;
use softtimers_measure::machine::{Interference, Machine, Neighbours};
use stage::Stage;

/// Captures until the plan's end or a signal, then prints and checks the report.
///
/// # Errors
/// A usage failure if the interface or the file cannot be opened, the kernel refuses the filter, or an assertion names no key;
/// not-possible without the privileges; a check failure if the file cannot be written to its end, the interface goes away, or an
/// assertion does not hold.
pub fn run(plan: &CapturePlan) -> Result<(), Failure> {
    let listening = |error: io::Error| Failure::broke_off("listening for signals", &error);
    let interrupt = Interrupt::listen().map_err(listening)?;
    let (machine, config) = (Machine::read(), CaptureConfig::of(plan));
    check_keys(plan, &machine, &config)?;
    sink::check_rotation(&plan.sink, plan.user)?;
    let device = open(plan)?;
    let until = plan.end.duration.map(|duration| Monotonic.now() + duration);
    let patience = Patience::new(interrupt.share().map_err(listening)?, until);
    let sink = open_and_drop(plan, patience)?;
    let shown = sink.shown();

    let neighbours = Neighbours::watch();
    let ender = interrupt.ender().map_err(listening)?;
    let stream = plan
        .output
        .stream
        .then(|| Stream::start("softtimers.capture.stream/1", None, Second::default(), ender));
    let counter = stream.as_ref().map(Stream::counter);
    let before = Before::default();
    let ender = interrupt.ender().map_err(listening)?;
    let mut outlet = Outlet::new(sink, Before::clone(&before), ender, counter.clone());
    outlet.begin(plan.end.count);
    let stage = Stage::new(outlet, plan.queue)?;
    let (_slice, fallbacks) = hold_slice(plan.max_delay);
    // The rest of the bound is for the wake-up and for writing.
    let mut engine = Engine::new(device, plan.max_delay / 2, stage, before, interrupt)?;
    engine.cut_to(plan.snap_length);
    counter.into_iter().for_each(|counter| engine.count_in(counter));
    say(format_args!("capturing on {} to {shown}", plan.interface));
    let progress = Progress::start("capturing", plan.end.duration);
    let (report, captured) = engine.run(until);
    drop(progress);

    let streamed = stream.map_or(Ok(()), Stream::finish);
    let interference = neighbours.so_far();
    let told = tell(
        plan,
        &Run {
            machine: &machine.during(interference),
            seed: None,
            config: &config,
            fallbacks: &fallbacks,
            // What sends is most often another program on this machine: only the host's share disturbs.
            inconclusive: Interference { others_share: None, ..interference }.inconclusive(),
            report: &report,
        },
    );
    captured.and(streamed).and(told)
}

/// Refuses assertions on keys that the report will not have.
fn check_keys(plan: &CapturePlan, machine: &Machine, config: &CaptureConfig) -> Result<(), Failure> {
    let report = &CaptureReport {
        cpu_share: Some(0.0),
        feedback: plan.queue.map(|_| FeedbackCounts::default()),
        ..CaptureReport::default()
    };
    plan.output.check_keys(&Run { machine, seed: None, config, fallbacks: &[], inconclusive: None, report })
}

/// Opens the file, and gives all privileges up: from then on nothing is opened but the files of `--rotate`.
fn open_and_drop(plan: &CapturePlan, patience: Patience) -> Result<Sink, Failure> {
    let open = || Sink::open(plan.sink.clone(), head(plan), patience);
    if plan.sink.rotate.is_some() {
        // All by the same user: who may not open the later ones may not open the first.
        privileges::drop_to(plan.user)?;
        sink::check_directory(&plan.sink)?;
        return open();
    }
    let sink = open()?;
    privileges::drop_to(plan.user)?;
    Ok(sink)
}

/// Holds a short slice until it is dropped; what is to be told where the kernel grants none.
fn hold_slice(max_delay: Duration) -> (Option<Slice>, Vec<String>) {
    match Slice::hold(slice(max_delay)) {
        Ok(held) => (Some(held), vec![]),
        Err(why) => (None, vec![format!("{why}: a wake-up waits until the slice of a computation is over")]),
    }
}

/// The slice that is asked of the scheduler. A program that computes on the same processor goes on until its own is
/// over, some 3 ms, unless who wakes up has a shorter one: with that the first frame after a look would be late.
fn slice(max_delay: Duration) -> Duration {
    (max_delay / 4).clamp(*Slice::ALLOWED.start(), LONGEST_SLICE)
}

/// To stdout, unless the frames go there.
fn tell(plan: &CapturePlan, run: &Run<'_, CaptureReport, CaptureConfig>) -> Result<(), Failure> {
    if plan.sink.path == Path::new("-") {
        say(format_args!("{}", run.report.table().to_string().trim_end()));
        run.fallbacks.iter().for_each(|fallback| say(format_args!("note: {fallback}")));
        return Ok(());
    }
    plan.output.finish(run)
}

fn open(plan: &CapturePlan) -> Result<PacketDevice, Failure> {
    let name = &plan.interface;
    let interface = Interface::to_listen(name).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::InvalidInput => {
            Failure::usage(format_args!("capture {name}: {error}"))
        }
        _ => Failure::check(format_args!("capture {name}: {error}")),
    })?;
    let frame = (plan.snap_length as usize).min(interface.mtu() as usize + HEADERS);
    // Longer ones are rare, or of the loopback interface, and cost a system call each.
    let frame =
        if frame > LONGEST_FRAME { PacketConfig::default().max_frame } else { frame.max(LEAST_FRAME) };
    let slot = (frame + SLOT_HEADERS).next_power_of_two();
    let config = PacketConfig {
        slots: (plan.ring as usize / slot).clamp(2, MOST_SLOTS),
        max_frame: frame,
        output: 1,
        promiscuous: plan.promiscuous,
        // Those of the loopback interface are seen when they come in.
        outgoing: !interface.is_loopback(),
        ..PacketConfig::default()
    };
    let filter = plan.filter.clone().unwrap_or_else(|| Filter::everything(plan.snap_length));
    let opened = PacketDevice::filtered(&interface, &config, &filter.cut_to(plan.snap_length));
    opened.map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => {
            Failure::not_possible(format_args!("capture {name}: {error}; CAP_NET_RAW is needed"))
        }
        ErrorKind::InvalidInput if plan.filter.is_some() => {
            Failure::usage(format_args!("capture {name}: the kernel refuses the filter"))
        }
        _ => Failure::check(format_args!("capture {name}: {error}")),
    })
}

fn head(plan: &CapturePlan) -> Vec<u8> {
    let mut head = Vec::new();
    let filter = plan.expression.as_deref();
    pcapng::begin(
        &mut head,
        &pcapng::Interface { name: &plan.interface, snap_length: plan.snap_length, filter },
    );
    head
}

/// The `config` object of `capture`.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct CaptureConfig {
    interface: String,
    file: String,
    max_delay_ns: u64,
    snaplen: u32,
    filter: Option<String>,
    promiscuous: bool,
    ring_bytes: u64,
    queue: Option<u32>,
    rotate_bytes: Option<u64>,
    rotate_s: Option<f64>,
    /// Whom it became; `null`: it stayed who it was.
    user: Option<u32>,
    duration_s: Option<f64>,
    count: Option<u64>,
}

impl CaptureConfig {
    fn of(plan: &CapturePlan) -> Self {
        let (rotate_bytes, rotate_s) = match plan.sink.rotate {
            None => (None, None),
            Some(Rotate::Bytes(bytes)) => (Some(bytes), None),
            Some(Rotate::Time(time)) => (None, Some(time.as_secs_f64())),
        };
        CaptureConfig {
            interface: plan.interface.clone(),
            file: plan.sink.path.display().to_string(),
            max_delay_ns: u64::try_from(plan.max_delay.as_nanos()).unwrap_or(u64::MAX),
            snaplen: plan.snap_length,
            filter: plan.expression.clone(),
            promiscuous: plan.promiscuous,
            ring_bytes: plan.ring,
            queue: plan.queue,
            rotate_bytes,
            rotate_s,
            user: plan.user.map(|user| user.uid),
            duration_s: plan.end.duration.map(|duration| duration.as_secs_f64()),
            count: plan.end.count,
        }
    }
}

/// Long enough for all that a look finds, and shorter than what programs have by default.
const LONGEST_SLICE: Duration = Duration::from_millis(1);
/// Ethernet's header and two tags.
const HEADERS: usize = 22;
/// What a slot of the ring has before a frame.
const SLOT_HEADERS: usize = 96;
/// What slots can be for.
const LEAST_FRAME: usize = 64;
const LONGEST_FRAME: usize = 9_100;
const MOST_SLOTS: usize = 65_536;
