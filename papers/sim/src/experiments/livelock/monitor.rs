//! `livelock-monitor`: tcpdump on a flooded network (§9), figure 15.
//!
//! A packet filter in the receiving thread puts packets into a queue of 32, and tcpdump takes them out. With
//! feedback, input is closed when fewer than eight more fit, and opened only by the time-out of a
//! millisecond.
//!
//! The paper loses packets at that queue with feedback, too. A turn that ends when input is closed leaves all loss to the
//! interface; one that runs on takes more than fits. The costs are fitted to turns that end, which figure 9 needs for
//! screend: it is flat without a quota.

use std::time::Duration;

use softtimers_poll::{FeedbackConfig, Quota};

use super::config::{Config, Consumer, Kernel};
use super::kernels::MOST_PPS;
use super::router::Router;
use crate::choice::choices;
use crate::constants::Monitor;
use crate::{Column, Experiment, Need, Parameter, Parameters, Row, RunError, Steps, Streams};

/// Packets captured by packets sent.
pub(crate) static MONITOR: Experiment = Experiment {
    name: "livelock-monitor",
    about: "tcpdump on a flooded network, with and without feedback (livelock paper, section 9)",
    details: "The cost of writing a packet to disk was chosen so that 7,700 of 9,000 packets/s are captured, \
              where the paper's run with feedback saturates. Its text gives no other numbers.",
    parameters: &[
        Parameter::per_second("rate", "Packets a second on the network", 0..=MOST_PPS, 9_000),
        Parameter::choice_or::<Written>("file", "What tcpdump writes to", "disk"),
        Parameter::choice_or::<bool>("feedback", "Close input when the queue is nearly full", "yes"),
        Parameter::count(
            "queue",
            "Room in the queue to tcpdump",
            1..=65_536,
            crate::constants::Machine::PAPERS.livelock.process_queue as u64,
        ),
        Parameter::count("room", "Close input when there is room for fewer packets than this", 1..=65_536, 8)
            .needs(FEEDBACK),
        Parameter::limit("quota", "Packets a turn", 1..=10_000, Some(10)),
        Parameter::choice::<Turn>("turn", "What a turn does when input is closed during it").needs(FEEDBACK),
        Parameter::time(
            "duration",
            "Simulated time that is measured",
            Duration::from_millis(10)..=Duration::from_secs(1_000),
            Duration::from_secs(2),
        ),
    ],
    columns: &[
        Column::words("file", "what tcpdump writes to"),
        Column::words("feedback", "whether feedback is on"),
        Column::new("sent_pps", "packets on the network, a second"),
        Column::new("captured_pps", "packets that tcpdump got, a second"),
        Column::share("interface_drops", "share dropped by the interface"),
        Column::share("filter_drops", "share dropped at the queue to tcpdump"),
    ],
    sweep: &[
        ("file", "null,disk"),
        ("feedback", "no,yes"),
        ("rate", "2000,4000,5000,6000,7000,8000,9000,10000,11000,12000"),
    ],
    check: |parameters| config(parameters).map(drop),
    run,
};

choices! {
    /// The file that tcpdump writes to.
    enum Written {
        /// The null device.
        Null = "null",
        /// A file on disk.
        Disk = "disk",
    }
}

choices! {
    /// What a turn does when input is closed during it.
    enum Turn {
        /// It ends.
        Ends = "ends",
        /// It takes its quota.
        RunsOn = "runs-on",
    }
}

const FEEDBACK: Need = Need { with: "feedback yes", met: |parameters| parameters.is_on("feedback") };

fn feedback(parameters: &Parameters) -> Result<Option<FeedbackConfig>, RunError> {
    let (queue, room) = (parameters.count_u32("queue"), parameters.count_u32("room"));
    let wanted = parameters.is_on("feedback");
    let refused = |_| RunError::new(format_args!("room {room}: a queue of {queue} has at most {queue}"));
    wanted.then(|| FeedbackConfig::monitor(queue, room)).transpose().map_err(refused)
}

fn config(parameters: &Parameters) -> Result<Config, RunError> {
    let quota = parameters.limit("quota").and_then(|quota| u32::try_from(quota).ok()).unwrap_or(u32::MAX);
    let Monitor { filter, disk, null } = parameters.machine().monitor;
    let write = match parameters.choice("file") {
        Written::Null => null,
        Written::Disk => disk,
    };
    let config = Config {
        consumer: Consumer::Monitor,
        quota: Quota::new(quota, quota),
        runs_on: parameters.choice::<Turn>("turn") == Turn::RunsOn,
        feedback: feedback(parameters)?,
        queue: parameters.count_u32("queue"),
        process: Some((filter, write)),
        duration: parameters.time("duration"),
        ..Config::new(Kernel::Polled, parameters.count("rate")).on(parameters.hardware())
    };
    config.checked()
}

fn run(parameters: &Parameters, streams: Streams, steps: &Steps) -> Result<Vec<Row>, RunError> {
    let config = config(parameters)?;
    let found = Router::new(config, streams).run_in(steps, 0, 1);
    let share = |count: u64| count as f64 / found.arrived.max(1) as f64;
    Ok(vec![vec![
        parameters.word("file").into(),
        parameters.word("feedback").into(),
        found.rate(found.arrived).into(),
        found.rate(found.delivered).into(),
        share(found.drops.ring).into(),
        share(found.drops.process).into(),
    ]])
}
