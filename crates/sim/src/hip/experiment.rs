//! `softtimers sim hip`: Tables 1 to 3, and every parameter of them.

use std::time::Duration;

use softtimers_core::pace::{OnOff, Pattern};
use softtimers_core::poll::hip::{Costs, Decides, Deviation, FirstMean, Grid, HipConfig, Mean, Reading, Rounding};
use softtimers_core::poll::{Factor, Preset};
use softtimers_core::Rate;

use crate::arrivals::{self, Arrival, SelfSimilar, SelfSimilarConfig};
use crate::experiment::{Experiment, RunError};
use crate::parameter::{Kind, Parameter, Parameters, Setting};
use crate::streams::Streams;
use crate::table::{Column, Row, Value};

use super::account::Account;
use super::paper::{PaperTrace, TRACES};
use super::scheme::{Scheme, Settings};
use super::traces;

/// Table 3, for any trace, with any of Table 2.
pub static HIP: Experiment = Experiment {
    name: "hip",
    about: "interrupts, polls, or both by the gaps between packets (Dovrolis, Thayer, Ramanathan 2001)",
    details: "One device and one processor. An interrupt takes V_I + V(B) and what arrives during it, a poll V_P + V(B); \
              a change between the two costs V_S. Delay is from a packet's arrival to the end of the look that takes \
              it, overhead the processor's time for each packet. Table 3 with the paper's figures beside it, unless \
              told otherwise; the traces stand for the paper's, which are lost: see hip-traces.",
    parameters: PARAMETERS,
    columns: COLUMNS,
    sweep: &[],
    run,
};

const PARAMETERS: &[Parameter] = &[
    Parameter { name: "trace", about: "packets of a recording, instead of synthetic ones", kind: Kind::Trace, default: Setting::Trace(None) },
    choice("synthetic", "which synthetic packets; table-1: the six traces of the paper", SYNTHETIC),
    choice("scheme", "how packets are noticed; table-3: interrupts, polling and hip; all: every one", SCHEMES),
    real("gamma", "polled is what has a coefficient of variation below this (eq. 3)", 2.0, 0.0, 1_000.0),
    real("phi", "periods are the mean gap and so many deviations (section 4)", 2.5, 0.0, 1_000.0),
    real("alpha", "weight of history in the mean gap (eq. 1)", 0.3, 0.0, 1.0),
    real("beta", "weight of history in the variance (eq. 2)", 0.3, 0.0, 1.0),
    time("t-min", "shortest period, of which all are multiples: the clock's (Table 2)", Duration::from_millis(1)),
    time("t-max", "longest period (Table 2)", Duration::from_millis(10)),
    count("unsuccessful", "P_U max: polls in vain before interrupts again (Table 2)", 10, 1, 1_000_000),
    choice("reading", "when a period takes effect: loaded at a poll (section 3), or at each arrival (section 6)", &["counter", "event"]),
    choice("rounding", "how a period becomes a multiple of the shortest; reading: down for counter, nearest for event", &["reading", "down", "nearest", "up", "none"]),
    choice("decides", "when eq. 4 is acted on", &["poll-end", "arrival"]),
    choice("grid", "what periods are counted from", &["clock", "relative"]),
    choice("mean", "the mean that eq. 2 compares with: after eq. 1 or before", &["updated", "previous"]),
    choice("deviation", "of the gaps: by the variance, or by the mean error of the prediction (section 4)", &["standard", "mean-error"]),
    choice("first-mean", "the mean gap after a reset, on which the paper is silent", &["longest", "shortest", "kept"]),
    choice("idle-gap", "whether the gap that a reset ends up in counts", &["counts", "skipped"]),
    choice("costs", "those below, or of the CM-5, of EARTH-MANNA (section 5), of a UDP socket on Linux", &["table-2", "cm5", "manna", "udp"]),
    time("interrupt", "V_I: an interrupt (Table 2)", Costs::HIP.interrupt),
    time("poll", "V_P: a poll (Table 2)", Costs::HIP.poll),
    time("transfer", "V(B) for 1500 bytes, to which it is proportional (Table 2)", Costs::HIP.transfer),
    time("switch", "V_S: enabling or disabling interrupts (Table 2)", Costs::HIP.switch),
    time("soft-t-min", "shortest period of hip-soft", Settings::PAPER.soft_shortest),
    time("period", "of constant and clocked; the paper names 250us to 2ms (section 5)", Settings::PAPER.period),
    time("watchdog", "how long the watchdog lets a packet wait (section 5)", Settings::PAPER.watchdog),
    time("passing", "mean time between polls under the watchdog (section 5)", Settings::PAPER.passing),
    time("spin", "how long spin polls after a packet", Settings::PAPER.spin),
    count("quota", "packets that delay-bound wants in a poll", 1, 1, 1_000_000),
    count("packets", "of constant, poisson, on-off and self-similar packets", 5_000, 1, 100_000_000),
    time("mean-gap", "between those", Duration::from_micros(2_500)),
    count("bytes", "of each of those", 900, 1, 65_535),
    time("on", "on-off: at four times the rate for this long, then off for three times as long", Duration::from_millis(50)),
    real("pareto", "exponent of the on and off times of self-similar: Hurst's H is (3 - this) / 2", 1.2, 1.05, 2.0),
];

const SYNTHETIC: &[&str] = &[
    "table-1", "t-high-1", "t-high-2", "t-med-1", "t-med-2", "t-low-1", "t-low-2", "constant", "poisson", "on-off",
    "self-similar",
];

const SCHEMES: &[&str] = &[
    "table-3", "all", "interrupts", "polling", "hip", "hip-soft", "constant", "clocked", "busy-wait", "watchdog",
    "spin", "delay-bound",
];

const COLUMNS: &[Column] = &[
    Column::new("trace", "whose packets"),
    Column::new("scheme", "how they are noticed"),
    Column::new("packets", "packets received"),
    Column::new("overhead_us", "Avg-Overhead: processor time for a packet").digits(2),
    Column::new("paper_overhead_us", "what Table 3 says").digits(1),
    Column::new("delay_us", "Avg-Delay: from arrival to the end of the look").digits(1),
    Column::new("paper_delay_us", "what Table 3 says").digits(1),
    Column::new("longest_delay_us", "the longest delay of any packet").digits(1),
    Column::new("interrupts", "Total # of Interrupts"),
    Column::new("paper_interrupts", "what Table 3 says"),
    Column::new("packets_per_interrupt", "Avg. Packets per Interrupt").digits(2),
    Column::new("polls", "Total # of Polls"),
    Column::new("paper_polls", "what Table 3 says"),
    Column::new("unsuccessful", "Total # of Unsucc. Polls"),
    Column::new("paper_unsuccessful", "what Table 3 says"),
    Column::new("packets_per_poll", "Avg. Packets per Poll, over all polls").digits(2),
    Column::new("paper_packets_per_poll", "what Table 3 says").digits(1),
    Column::new("switches", "changes between interrupts and polls"),
    Column::new("most_pps", "packets a second at which the overhead is a whole processor: section 2's R").digits(0),
];

const fn choice(name: &'static str, about: &'static str, words: &'static [&'static str]) -> Parameter {
    Parameter { name, about, kind: Kind::Choice(words), default: Setting::Choice(words[0]) }
}

const fn real(name: &'static str, about: &'static str, default: f64, least: f64, most: f64) -> Parameter {
    Parameter { name, about, kind: Kind::Real { least, most }, default: Setting::Real(default) }
}

const fn count(name: &'static str, about: &'static str, default: u64, least: u64, most: u64) -> Parameter {
    Parameter { name, about, kind: Kind::Count { least, most }, default: Setting::Count(default) }
}

/// From a nanosecond to a minute: nothing here is longer.
const fn time(name: &'static str, about: &'static str, default: Duration) -> Parameter {
    let kind = Kind::Time { least: Duration::from_nanos(1), most: Duration::from_secs(60) };
    Parameter { name, about, kind, default: Setting::Time(default) }
}

fn run(parameters: &Parameters, streams: Streams) -> Result<Vec<Row>, RunError> {
    let settings = settings(parameters)?;
    let schemes = match parameters.choice("scheme") {
        "table-3" => Scheme::TABLE_3.to_vec(),
        "all" => Scheme::ALL.to_vec(),
        name => Scheme::find(name).into_iter().collect(),
    };
    let mut rows = vec![];
    for source in sources(parameters, streams)? {
        for &scheme in &schemes {
            let account = settings.run(scheme, source.arrivals(), streams.seed(), |_, _| ());
            // The paper's figures are for the paper's parameters; beside others they are what these are compared with.
            rows.push(row(source.name, scheme, &account, source.paper));
        }
    }
    Ok(rows)
}

/// HIP's parameters and the others', or why they cannot be together.
fn settings(parameters: &Parameters) -> Result<Settings, RunError> {
    let (shortest, longest) = (parameters.time("t-min"), parameters.time("t-max"));
    if longest < shortest {
        return Err(RunError::new(format_args!("t-max {longest:?} is shorter than t-min {shortest:?}")));
    }
    let factor = |name| Factor::thousandths((parameters.real(name) * 1_000.0).round() as u32);
    let base = match parameters.choice("reading") {
        "event" => HipConfig::event(),
        _ => HipConfig::preset(Preset::Paper),
    };
    let hip = HipConfig {
        shortest,
        longest,
        alpha: factor("alpha"),
        beta: factor("beta"),
        gamma: factor("gamma"),
        phi: factor("phi"),
        unsuccessful: parameters.count_u32("unsuccessful"),
        rounding: match parameters.choice("rounding") {
            "down" => Rounding::Down,
            "nearest" => Rounding::Nearest,
            "up" => Rounding::Up,
            "none" => Rounding::None,
            _ => base.rounding,
        },
        decides: pick(parameters, "decides", "arrival", Decides::Arrival, Decides::PollEnd),
        grid: pick(parameters, "grid", "relative", Grid::Relative, Grid::Clock),
        mean: pick(parameters, "mean", "previous", Mean::Previous, Mean::Updated),
        deviation: pick(parameters, "deviation", "mean-error", Deviation::MeanError, Deviation::Standard),
        first_mean: match parameters.choice("first-mean") {
            "shortest" => FirstMean::Shortest,
            "kept" => FirstMean::Kept,
            _ => FirstMean::Longest,
        },
        idle_gap_counts: pick(parameters, "idle-gap", "skipped", false, true),
        ..base
    };
    Ok(Settings {
        hip,
        soft_shortest: parameters.time("soft-t-min"),
        costs: costs(parameters),
        period: parameters.time("period"),
        watchdog: parameters.time("watchdog"),
        passing: parameters.time("passing"),
        spin: parameters.time("spin"),
        quota: parameters.count_u32("quota"),
    })
}

fn pick<T>(parameters: &Parameters, name: &str, word: &str, if_so: T, if_not: T) -> T {
    if parameters.choice(name) == word { if_so } else { if_not }
}

fn costs(parameters: &Parameters) -> Costs {
    match parameters.choice("costs") {
        "cm5" => Costs::CM5,
        "manna" => Costs::MANNA,
        "udp" => Costs::UDP,
        _ => Costs {
            interrupt: parameters.time("interrupt"),
            poll: parameters.time("poll"),
            transfer: parameters.time("transfer"),
            switch: parameters.time("switch"),
        },
    }
}

/// Packets that every scheme meets alike.
struct Source {
    name: &'static str,
    packets: Vec<Arrival>,
    paper: Option<&'static PaperTrace>,
}

impl Source {
    fn arrivals(&self) -> impl Iterator<Item = Arrival> + '_ {
        self.packets.iter().copied()
    }
}

fn sources(parameters: &Parameters, streams: Streams) -> Result<Vec<Source>, RunError> {
    if let Some(trace) = parameters.trace("trace") {
        return Ok(vec![Source { name: "trace", packets: arrivals::of_trace(trace).collect(), paper: None }]);
    }
    let name = parameters.choice("synthetic");
    if name == "table-1" {
        return (0..TRACES.len()).map(|index| of_paper(index, streams)).collect();
    }
    if let Some(index) = traces::find(name) {
        return Ok(vec![of_paper(index, streams)?]);
    }
    Ok(vec![Source { name, packets: pattern(name, parameters, streams)?, paper: None }])
}

fn of_paper(index: usize, streams: Streams) -> Result<Source, RunError> {
    let paper = &TRACES[index];
    let trace = traces::lan(paper, traces::FITTED[index]).trace(streams).map_err(RunError::new)?;
    Ok(Source { name: paper.name, packets: arrivals::of_trace(&trace).collect(), paper: Some(paper) })
}

fn pattern(name: &str, parameters: &Parameters, streams: Streams) -> Result<Vec<Arrival>, RunError> {
    let (gap, bytes) = (parameters.time("mean-gap"), parameters.count_u32("bytes"));
    let packets = usize::try_from(parameters.count("packets")).unwrap_or(usize::MAX);
    let rate = |gap| Rate::every(gap).map_err(RunError::new);
    let of = |rate, pattern| arrivals::of_pattern(rate, pattern, bytes).take(packets).collect();
    Ok(match name {
        "poisson" => of(rate(gap)?, Pattern::Poisson { seed: streams.of("arrivals").next_u64() }),
        "on-off" => {
            let on = parameters.time("on");
            of(rate(gap / 4)?, Pattern::OnOff(OnOff::new(on, on * 3).map_err(RunError::new)?))
        }
        "self-similar" => {
            let alpha = Factor::thousandths((parameters.real("pareto") * 1_000.0).round() as u32);
            let config = SelfSimilarConfig { alpha, ..SelfSimilarConfig::new(gap, bytes) };
            SelfSimilar::new(config, streams).take(packets).collect()
        }
        _ => of(rate(gap)?, Pattern::Constant),
    })
}

fn row(trace: &str, scheme: Scheme, account: &Account, paper: Option<&PaperTrace>) -> Row {
    let found = paper.map(|paper| &paper.found);
    let hip = found.filter(|_| scheme == Scheme::Hip);
    let (overhead, delay) = match scheme {
        Scheme::Interrupts => (found.map(|f| f.interrupts_overhead), found.map(|f| f.interrupts_overhead)),
        Scheme::Polling => (found.map(|f| f.polling_overhead), found.map(|f| f.polling_delay)),
        _ => (hip.map(|f| f.overhead), hip.map(|f| f.delay)),
    };
    let mean = |packets: f64, looks: u64| if looks == 0 { Value::Missing } else { packets.into() };
    vec![
        trace.into(),
        scheme.name().into(),
        account.packets().into(),
        account.overhead_us().into(),
        overhead.into(),
        account.delay_us().into(),
        delay.into(),
        (account.longest_delay.as_nanos() as f64 / 1_000.0).into(),
        account.interrupts.into(),
        hip.map(|f| f.interrupts).into(),
        mean(account.packets_per_interrupt(), account.interrupts),
        account.polls.into(),
        hip.map(|f| f.polls).into(),
        account.unsuccessful.into(),
        hip.map(|f| f.unsuccessful).into(),
        mean(account.packets_per_poll(), account.polls),
        hip.map(|f| f.packets_per_poll).into(),
        account.switches.into(),
        (1e6 / account.overhead_us().max(1e-6)).into(),
    ]
}
