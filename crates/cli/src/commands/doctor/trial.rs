//! One paced stream by one method, between two processes of this program.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use softtimers::late::LateCause;
use softtimers_measure::child::Process;
use softtimers_measure::distribution::{Distribution, Quantile};
use softtimers_measure::failure::Failure;
use softtimers_measure::processor::Processor;
use softtimers_measure::units::show_duration;

use softtimers_load::send::LateReport;

/// The load of the sending loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Load {
    /// It serves a saturated echo server.
    #[default]
    Echo,
    /// The loop is idle.
    None,
}

impl Load {
    pub(super) fn adjective(self) -> &'static str {
        match self {
            Load::Echo => "busy",
            Load::None => "idle",
        }
    }
}

/// One method under one load. Gaps are the receiver's.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct Cell {
    /// The method, as `send --timer` names it.
    pub(crate) method: String,
    /// The load of the loop.
    pub(crate) busy: Load,
    /// The requests that a busy loop handles in a row.
    pub(crate) echo_batch: Option<usize>,
    /// The requested gap.
    pub(crate) target_gap_ns: u64,
    /// Why this trial was not run, so that it has no figures; `null` if it was run.
    pub(crate) not_made: Option<String>,
    /// The rate achieved, in departures a second.
    pub(crate) achieved_pps: f64,
    /// The achieved rate as a share of the requested one.
    pub(crate) achieved_share: f64,
    /// Gaps between arrivals, by the kernel's timestamps.
    pub(crate) gap_ns: Distribution,
    /// The same, point by point.
    pub(crate) gap_cdf: Vec<Quantile>,
    /// The share of those gaps shorter than half the target.
    pub(crate) back_to_back: Option<f64>,
    /// The most datagrams in a row joined by such gaps.
    pub(crate) longest_burst: Option<u64>,
    /// The same share by the sender's own counts.
    pub(crate) sender_back_to_back: Option<f64>,
    /// The longest burst by the sender's own counts.
    pub(crate) sender_longest_burst: Option<u64>,
    /// Datagrams sent and not received.
    pub(crate) lost: Option<u64>,
    /// Departure time minus scheduled time.
    pub(crate) late_ns: Distribution,
    /// The same, point by point.
    pub(crate) late_cdf: Vec<Quantile>,
    /// Departures more than a millisecond late, by cause.
    pub(crate) late: BTreeMap<String, LateReport>,
    /// Times between two checks for due datagrams; empty for a method without checks.
    pub(crate) trigger_interval_ns: Distribution,
    /// Handlers longer than a millisecond, where they are counted.
    pub(crate) long_handlers: Option<u64>,
    /// CPU time of the sending thread, and of a pacing thread if there is one, as a share of one CPU.
    pub(crate) cpu_share: f64,
    /// Requests answered a second.
    pub(crate) work_rate: Option<f64>,
    /// The requests as a share of those that the same loop answers without pacing.
    pub(crate) work_kept: Option<f64>,
    /// Consecutive gaps from the middle of the run, as they arrived.
    pub(crate) gap_strip_ns: Vec<u64>,
}

/// The keys of `send`'s report that are used here.
#[derive(Deserialize)]
struct Sent {
    achieved_pps: Option<f64>,
    back_to_back: Option<f64>,
    longest_burst: Option<u64>,
    late_ns: Distribution,
    #[serde(default)]
    late_cdf: Vec<Quantile>,
    late: BTreeMap<String, LateReport>,
    trigger_interval_ns: Distribution,
    long_handlers: Option<u64>,
    cpu_share: f64,
    work_rate: Option<f64>,
    fallbacks: Vec<String>,
}

/// The keys of `recv`'s report that are used here.
#[derive(Deserialize)]
struct Received {
    gap_ns: Distribution,
    back_to_back: Option<f64>,
    longest_burst: Option<u64>,
    lost: u64,
    #[serde(default)]
    gap_cdf: Vec<Quantile>,
    #[serde(default)]
    gap_strip_ns: Vec<u64>,
    fallbacks: Vec<String>,
}

impl Cell {
    /// Compares the work with `baseline`, the loop's work per second without pacing.
    pub(super) fn beside(mut self, baseline: f64) -> Self {
        self.work_kept = self.work_rate.filter(|_| baseline > 0.0).map(|rate| rate / baseline);
        self
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    pub(super) timer: &'static str,
    pub(super) load: Load,
    pub(super) interval: Duration,
    pub(super) duration: Duration,
    pub(super) echo_batch: usize,
}

impl Trial {
    /// Returns the loop's work per second without pacing.
    pub(super) fn baseline(&self, notes: &mut Notes) -> Result<f64, Failure> {
        // No datagram is sent, so any address that needs no receiver will do.
        let sent: Sent = self.send("127.0.0.1:9")?.finish()?;
        notes.take("off", sent.fallbacks);
        Ok(sent.work_rate.unwrap_or(0.0))
    }

    /// Sends the stream and returns the findings of both ends.
    pub(super) fn run(&self, notes: &mut Notes) -> Result<Cell, Failure> {
        let (receiver, address) = self.receive()?.announced("listening on ")?;
        let sent: Sent = self.send(&address)?.finish()?;
        let received: Received = receiver.finish()?;
        Ok(self.cell(sent, received, notes))
    }

    fn cell(&self, sent: Sent, received: Received, notes: &mut Notes) -> Cell {
        notes.take(self.timer, sent.fallbacks);
        notes.take("receiver", received.fallbacks);
        let achieved_pps = sent.achieved_pps.unwrap_or(0.0);
        Cell {
            achieved_pps,
            achieved_share: achieved_pps * self.interval.as_secs_f64(),
            gap_ns: received.gap_ns,
            gap_cdf: received.gap_cdf,
            back_to_back: received.back_to_back,
            longest_burst: received.longest_burst,
            sender_back_to_back: sent.back_to_back,
            sender_longest_burst: sent.longest_burst,
            lost: Some(received.lost),
            late_ns: sent.late_ns,
            late_cdf: sent.late_cdf,
            late: sent.late,
            trigger_interval_ns: sent.trigger_interval_ns,
            long_handlers: sent.long_handlers,
            cpu_share: sent.cpu_share,
            work_rate: sent.work_rate,
            gap_strip_ns: received.gap_strip_ns,
            ..self.blank()
        }
    }

    /// Returns the cell of this trial before it runs.
    pub(super) fn blank(&self) -> Cell {
        Cell {
            method: self.timer.to_owned(),
            busy: self.load,
            echo_batch: (self.load == Load::Echo).then_some(self.echo_batch),
            target_gap_ns: u64::try_from(self.interval.as_nanos()).unwrap_or(u64::MAX),
            late: LateCause::ALL.map(|cause| (cause.name().to_owned(), LateReport::default())).into(),
            ..Cell::default()
        }
    }

    /// Returns the cell of this trial if it does not run. Figures are absent, or `null` in JSON, and no assertion about
    /// them holds.
    pub(super) fn not_made(&self, why: String) -> Cell {
        let none = f64::NAN;
        Cell {
            not_made: Some(why),
            achieved_pps: none,
            achieved_share: none,
            cpu_share: none,
            late: BTreeMap::new(),
            ..self.blank()
        }
    }

    fn send(&self, address: &str) -> Result<Process, Failure> {
        let mut words = vec!["send".to_owned(), address.to_owned(), "--json".to_owned()];
        let mut flag = |flag: &str, value: String| words.extend([flag.to_owned(), value]);
        flag("--timer", self.timer.to_owned());
        flag("--interval", show_duration(self.interval));
        flag("--duration", show_duration(self.duration));
        if self.load == Load::Echo {
            flag("--busy", "echo".to_owned());
            flag("--echo-batch", self.echo_batch.to_string());
        }
        if let Some([here, _]) = Processor::two() {
            flag("--cpu", here.to_string());
        }
        Process::start(self.part("send"), &words)
    }

    fn receive(&self) -> Result<Process, Failure> {
        let mut words = ["recv", "127.0.0.1:0", "--once", "--json"].map(str::to_owned).to_vec();
        // If the sender never comes, the receiver must end by itself.
        words.extend(["--duration".to_owned(), show_duration(self.duration + RECEIVER_MARGIN)]);
        words.extend(["--strip-after".to_owned(), show_duration(self.duration / 2)]);
        // The receiver must not disturb the sender on its CPU.
        if let Some([_, there]) = Processor::two() {
            words.extend(["--cpu".to_owned(), there.to_string()]);
        }
        Process::start(self.part("recv"), &words)
    }

    /// Names a process of this trial, for messages.
    fn part(&self, command: &str) -> String {
        format!("the trial of {}, {}: {command}", self.timer, self.load.adjective())
    }
}

/// The fallbacks of all trials, each once, with the methods that used it.
#[derive(Debug, Default)]
pub(super) struct Notes(Vec<(String, Vec<String>)>);

impl Notes {
    pub(super) fn take(&mut self, who: &str, fallbacks: Vec<String>) {
        for fallback in fallbacks {
            match self.0.iter_mut().find(|(known, _)| *known == fallback) {
                Some((_, names)) if names.iter().any(|name| name == who) => {}
                Some((_, names)) => names.push(who.to_owned()),
                None => self.0.push((fallback, vec![who.to_owned()])),
            }
        }
    }

    pub(super) fn sentences(self) -> Vec<String> {
        self.0.into_iter().map(|(fallback, names)| format!("{}: {fallback}", names.join(", "))).collect()
    }
}

/// Time in addition to the stream: the echo clients take up to 3 s to start.
const RECEIVER_MARGIN: Duration = Duration::from_secs(20);

/// softtimers, what any program can write into a loop, the waits' own time-outs, and methods that run beside the loop.
pub(super) const METHODS: [&str; 8] = ["soft", "loop", "spin", "pwait2", "timerfd", "ms", "signal", "thread"];
/// The methods that decide for the other batches: softtimers, and what costs a program least.
pub(super) const DECISIVE: [&str; 3] = ["soft", "loop", "pwait2"];
/// The batches for which there is an answer: requests that a busy program handles between two waits.
pub(super) const BATCHES: [usize; 4] = [1, 4, 16, 64];
/// 25,000 packets/s: one flow of full-sized packets at 300 Mbit/s.
pub(super) const INTERVAL: Duration = Duration::from_micros(40);

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A cell's figures are exactly those that the two commands report.
    #[test]
    fn a_cell_says_what_send_and_recv_say() {
        let gaps = |p50: u64| {
            json!({"count": 9, "min": 1, "p1": 1, "p50": p50, "p90": 2, "p99": 3, "p999": 4, "max": 5,
                   "mean": 2.0, "stddev": null})
        };
        let sent = json!({
            "achieved_pps": 24_500.0, "gap_ns": gaps(7), "back_to_back": 0.5, "longest_burst": 3,
            "late_ns": gaps(8), "late": {"steal": {"count": 2, "longest_ns": 9}}, "cpu_share": 0.25,
            "trigger_interval_ns": gaps(6), "long_handlers": 1, "work_rate": 900.0, "fallbacks": ["a"],
        });
        let received = json!({
            "gap_ns": gaps(10), "back_to_back": 0.01, "longest_burst": 2, "lost": 4,
            "gap_strip_ns": [39, 41], "fallbacks": [],
        });
        let trial = Trial {
            timer: "timerfd",
            load: Load::Echo,
            interval: Duration::from_micros(40),
            duration: Duration::from_secs(1),
            echo_batch: 4,
        };
        let mut notes = Notes::default();
        let (sent, received) =
            (serde_json::from_value(sent).unwrap(), serde_json::from_value(received).unwrap());
        let cell = trial.cell(sent, received, &mut notes).beside(1_000.0);
        assert!((cell.achieved_share - 0.98).abs() < 1e-12, "{}", cell.achieved_share);
        assert_eq!((cell.method.as_str(), cell.target_gap_ns), ("timerfd", 40_000));
        // Gaps come from the receiver, lateness from the sender.
        assert_eq!((cell.gap_ns.p50, cell.back_to_back, cell.longest_burst), (Some(10), Some(0.01), Some(2)));
        assert_eq!((cell.late_ns.p50, cell.sender_back_to_back, cell.lost), (Some(8), Some(0.5), Some(4)));
        assert_eq!(cell.late["steal"], LateReport { count: 2, longest_ns: 9 });
        assert_eq!((cell.trigger_interval_ns.p50, cell.long_handlers), (Some(6), Some(1)));
        assert_eq!(
            (cell.work_kept, cell.cpu_share, &cell.gap_strip_ns[..]),
            (Some(0.9), 0.25, &[39, 41][..])
        );
        assert_eq!(notes.sentences(), ["timerfd: a"]);
        assert_eq!(trial.blank().beside(0.0).work_kept, None);
        // No figure of a trial that did not run can be asserted.
        let not_made = serde_json::to_value(trial.not_made("interrupted".to_owned())).unwrap();
        let numbers = |value: &serde_json::Value| {
            value.as_f64().is_some_and(|figure| ![4.0, 40_000.0].contains(&figure))
        };
        assert!(!not_made.as_object().unwrap().values().any(numbers), "{not_made}");
        assert_eq!((&not_made["late"], &not_made["gap_ns"]["p50"]), (&json!({}), &json!(null)));
    }

    #[test]
    fn a_fallback_is_told_once_with_all_who_took_it() {
        let mut notes = Notes::default();
        let refused = || vec!["epoll_pwait2 is refused here".to_owned()];
        notes.take("pwait2", refused());
        notes.take("receiver", vec!["a small buffer".to_owned()]);
        notes.take("ms", refused());
        notes.take("pwait2", refused());
        assert_eq!(
            notes.sentences(),
            ["pwait2, ms: epoll_pwait2 is refused here", "receiver: a small buffer"]
        );
    }
}
