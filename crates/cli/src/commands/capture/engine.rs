//! The loop of `capture`: [`CaptureLoop`].
//!
//! ```text
//!   due? ─▶ poller: a round ─▶ write the batch ─▶ count what was dropped, four times a second ─┐
//!     ▲                                                                                        │
//!     └────────── until a signal, a time, a count, the interface's or the file's end ◀─────────┘
//! ```

use std::io;
use std::sync::PoisonError;
use std::time::Duration;

use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use softtimers::{Clock, Monotonic, Timestamp, Token};
use softtimers_measure::failure::Failure;
use softtimers_measure::interrupt::Interrupt;
use softtimers_measure::stats::Counter;
use softtimers_net::poller::{Device, FrameInfo, Packet, PacketDevice, Poller, QueueId};
use softtimers_poll::SourceId;

use super::args::Capture;
use super::batch::{Before, Written};
use super::batching::Batching;
use super::pcapng::Stamp;
use super::show::{CaptureReport, FeedbackCounts, InterfaceCounts};
use super::sink::Why;
use super::stage::Stage;
use super::stats::{CaptureStats, DropCounts};
use super::tap::{self, Layout};

/// A running capture.
#[derive(Debug)]
pub(crate) struct CaptureLoop {
    poller: Poller<PacketDevice, Batching>,
    /// The interfaces' names, and the layout of their rings.
    names: Vec<String>,
    layout: Layout,
    /// The interfaces, in the order of the file.
    sources: Vec<SourceId>,
    queue: Option<QueueId>,
    stage: Stage,
    intake: Intake,
    interrupt: Interrupt,
    start: Timestamp,
    until: Option<Timestamp>,
    before: Before,
    /// The drops of each device and of the stage at the last check.
    dropped: Vec<DropCounts>,
    /// Frames left in each ring at the end.
    stuck: Vec<u64>,
    /// The CPU time of the process at that check.
    cpu: Duration,
    counter: Counter<CaptureStats>,
}

/// The part of a frame that is kept.
#[derive(Clone, Copy, Debug)]
struct Intake {
    snap_length: usize,
}

impl CaptureLoop {
    /// Creates a capture from open interfaces to a stage.
    ///
    /// # Errors
    /// A check failure if the system has no descriptors left.
    pub(crate) fn new(
        plan: &Capture,
        devices: Vec<PacketDevice>,
        stage: Stage,
        before: Before,
        interrupt: Interrupt,
        counter: Counter<CaptureStats>,
    ) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::broke_off("setting up the capture", &error);
        let mut poller = Poller::new().map_err(failed)?;
        let layout = Layout::for_plan(plan);
        let sources = devices.into_iter().map(|device| poller.add(device, layout.turns(plan)));
        let sources = sources.collect::<io::Result<Vec<_>>>();
        let sources = sources.map_err(failed)?;
        poller.watch(&interrupt, SIGNAL).map_err(failed)?;
        let queue = match stage.feedback() {
            Some((gauge, config)) => Some(poller.attach_queue(gauge, config, &sources).map_err(failed)?),
            None => None,
        };
        Ok(CaptureLoop {
            poller,
            names: plan.interfaces.clone(),
            layout,
            queue,
            stage,
            intake: Intake { snap_length: usize::MAX },
            interrupt,
            start: Monotonic.now(),
            until: None,
            before,
            dropped: vec![DropCounts::default(); sources.len()],
            stuck: vec![0; sources.len()],
            sources,
            cpu: cpu_time(),
            counter,
        })
    }

    /// Limits the bytes kept of each frame.
    pub(crate) fn cut_to(&mut self, bytes: u32) {
        self.intake.snap_length = bytes as usize;
    }

    /// Captures until this time, a signal, or until the stage is complete, and ends the file. Returns a failure besides
    /// the findings.
    pub(crate) fn run(mut self, until: Option<Timestamp>) -> (CaptureReport, Result<(), Failure>) {
        self.until = until;
        let (ended, trouble) = match self.capture() {
            Ok(ended) => (ended, Ok(())),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NODEV) => (
                "interface",
                Err(Failure::check(format_args!("capturing{}: the interface is gone", self.on_gone()))),
            ),
            Err(error) => ("system", Err(Failure::broke_off("capturing", &error))),
        };
        self.drain();
        self.ask();
        self.report(ended, trouble)
    }

    fn capture(&mut self) -> io::Result<&'static str> {
        let mut ask_at = self.start + ASK;
        loop {
            let now = Monotonic.now();
            if self.stage.is_complete() {
                return Ok("count");
            }
            if self.until.is_some_and(|until| until <= now) {
                return Ok("duration");
            }
            // Checked last: the writer ends the run as a signal does.
            if self.interrupt.arrived() {
                return Ok("signal");
            }
            if ask_at <= now {
                self.ask();
                ask_at = now + ASK;
                if self.sources.iter().any(|&source| self.poller.device(source).is_gone()) {
                    return Err(Errno::NODEV.into());
                }
            }
            let until = self.until.map_or(ask_at, |until| until.min(ask_at));
            let Self { poller, stage, intake, .. } = self;
            let round = poller.wait(Some(until), |packet, outputs| {
                intake.take(packet, outputs.from(), stage);
            });
            self.stage.flush();
            round?;
        }
    }

    /// Receives the frames that came before the end, which is the same time for all interfaces.
    fn drain(&mut self) {
        let Self { poller, layout, stage, intake, sources, stuck, .. } = self;
        let waits = sources.iter().map(|&source| tap::close(poller.device(source), *layout)).max();
        let until = Monotonic.now() + waits.unwrap_or_default();
        for (&source, stuck) in sources.iter().zip(stuck) {
            let take = |packet: Packet<'_, FrameInfo>| intake.take(packet, source, stage);
            *stuck = tap::drain(poller.device_mut(source), until, take);
        }
        stage.flush();
    }

    /// Returns which interface is gone, as words after `capturing`.
    fn on_gone(&self) -> String {
        let mut taps = self.sources.iter().zip(&self.names);
        let gone = taps.find(|&(&source, _)| self.poller.device(source).is_gone());
        gone.map_or_else(String::new, |(_, name)| format!(" on {name}"))
    }

    /// Reads the counts that take system calls.
    fn ask(&mut self) {
        let Self { poller, stage, sources, dropped, stuck, .. } = self;
        let mut news = DropCounts::default();
        for (place, &source) in sources.iter().enumerate() {
            // A device without this count stays without it.
            let (interface, ring) = match poller.device_mut(source).drops() {
                Ok(drops) => (drops.interface, drops.ring),
                Err(_) => (dropped[place].interface, dropped[place].ring),
            };
            let ring = ring + std::mem::take(&mut stuck[place]);
            let now = DropCounts { interface, ring, queue: stage.dropped(place), output: 0 };
            news += &now.since(&std::mem::replace(&mut dropped[place], now));
        }
        self.before.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&self.dropped);
        self.counter.count(|stats| stats.counts.dropped += &news);
        count_cpu(&mut self.counter, &mut self.cpu);
    }

    fn report(
        mut self,
        ended: &'static str,
        trouble: Result<(), Failure>,
    ) -> (CaptureReport, Result<(), Failure>) {
        let span = Monotonic.now().saturating_duration_since(self.start);
        let wakeups = self.poller.stats().sleeps;
        let feedback = self.queue.map(|queue| {
            let stats = self.poller.queue_stats(queue);
            FeedbackCounts { shut: stats.shut, timed_out: stats.timed_out }
        });
        let taps: Vec<_> = self.sources.iter().map(|&source| self.poller.device(source)).collect();
        let outages: Vec<u64> = taps.iter().map(|tap| tap.outages()).collect();
        let renewals = taps.iter().map(|tap| tap.renewals()).sum();
        let Written { counter, passed, files: [files, removed], broken } = match self.stage.finish() {
            Ok(written) => written,
            Err(failure) => return (CaptureReport::default(), Err(failure)),
        };
        self.counter.join(counter);
        count_cpu(&mut self.counter, &mut self.cpu);
        let total = self.counter.total();
        let shares = self.dropped.iter().zip(passed).zip(&outages);
        let interfaces = shares.map(|((dropped, passed), &outages)| InterfaceCounts {
            captured: passed.captured,
            dropped: DropCounts { output: passed.lost, ..*dropped },
            outages,
        });
        let report = CaptureReport {
            interfaces: interfaces.collect(),
            counts: total.counts,
            delay_ns: total.stay.distribution(),
            cpu_share: total.cpu_share(span),
            span_s: span.as_secs_f64(),
            files,
            removed,
            wakeups,
            feedback,
            outages: outages.iter().sum(),
            renewals,
            ended: if matches!(broken, Some(Why::Gone | Why::Failed(_))) { "output" } else { ended },
        };
        let trouble = match broken {
            Some(Why::Failed(why) | Why::Stalled(why) | Why::Full(why)) => Err(why),
            Some(Why::Gone) | None => trouble,
        };
        (report, trouble)
    }
}

impl Intake {
    fn take(&mut self, packet: Packet<'_, FrameInfo>, from: SourceId, stage: &mut Stage) {
        let FrameInfo { length, received, kind, .. } = packet.from;
        let (time, length) = (received.unwrap_or_default(), length.max(packet.bytes.len() as u32));
        let stamp = Stamp { time, length, interface: from.index() as u32, kind };
        let kept = packet.bytes.len().min(self.snap_length);
        stage.take(&stamp, packet.arrived.unwrap_or(Timestamp::ZERO), &packet.bytes[..kept]);
    }
}

/// Counts the CPU time of this process since `before`.
fn count_cpu(counter: &mut Counter<CaptureStats>, before: &mut Duration) {
    let now = cpu_time();
    let used = now.saturating_sub(std::mem::replace(before, now));
    counter.count(|stats| stats.cpu += used);
}

/// Returns the CPU time of this process, all threads.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// The period in which drops are read.
const ASK: Duration = Duration::from_millis(250);
const SIGNAL: Token = Token(0);
