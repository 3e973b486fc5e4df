//! `softtimers forward`: packets from one side to another, so that overload is survived.
//!
//! A flood makes most forwarders of user space do nothing but receive. This one is driven by a
//! [`Poller`](softtimers_net::poller::Poller): a quota each way, each packet carried as far as it goes before the next one
//! is taken, and what is too much left in the ring or the receive buffer, where it costs nothing.
//!
//! ```text
//!   clients ─▶ --udp ─▶ [ rules ▸ clients ] ─▶ a socket for each client ─▶ --to          without root
//!           ◀───────── [ 3 × what it sent; answers a prefix ] ◀──────────
//!
//!   A ◀═▶ ring ─▶ [ cable, or router ▸ rules ] ─▶ output ◀═▶ B                           two interfaces
//! ```
//!
//! - [`engine`]: the loop; [`crew`]: several of them; [`mode`]: when it looks;
//! - [`rules`]: which packets it takes; [`rule_file`] and [`rulebook`]: that they may change meanwhile;
//! - [`relay`], [`side`], [`screen`], [`table`]: datagrams between sockets;
//! - [`interfaces`]: frames between interfaces; [`frames`]: what becomes of each;
//! - [`report`], [`second`], [`exposition`] and [`metrics`]: what it tells; [`volume`]: packets and bytes;
//! - [`wake`]: how threads beside reach one that sleeps.

pub mod crew;
pub mod engine;
pub mod exposition;
pub mod frames;
pub mod interfaces;
pub mod metrics;
pub mod mode;
pub mod relay;
pub mod report;
pub mod rule_file;
pub mod rulebook;
pub mod rules;
pub mod screen;
pub mod second;
pub mod side;
pub mod table;
pub mod volume;
pub mod wake;

use serde::Serialize;

use crate::failure::Failure;
use crate::interrupt::{Ender, Interrupt};
use crate::machine::{Interference, Machine, Neighbours};
use crate::output::{Run, say};
use crate::plan::{Between, ForwardPlan};
use crate::progress::Progress;
use crate::stream::{Counter, Stream};
use engine::{Engine, Handler};
use metrics::Metrics;
use mode::Mode;
use report::{ForwardReport, RulesReport};
use rulebook::RuleWatch;
use second::Second;

/// Forwards until the plan's end or a signal, then prints and checks the report.
///
/// # Errors
/// A usage failure if an address or an interface cannot be used, the rules are wrong, or an assertion names no key;
/// not-possible without the privileges; a check failure if an assertion does not hold or the system fails meanwhile.
pub fn run(plan: &ForwardPlan) -> Result<(), Failure> {
    let interrupt =
        Interrupt::listen().map_err(|error| Failure::broke_off("listening for signals", &error))?;
    match &plan.between {
        Between::Addresses(config) => {
            let ender = ender(&interrupt)?;
            let engine = relay::bind(plan, config.clone(), interrupt)?;
            let listen = relay::local_addr(&engine).to_string();
            let words = format!("listening on {listen}, relaying to {}", config.upstream);
            let config = ForwardConfig {
                driver: "udp",
                listen,
                to: config.upstream.to_string(),
                clients: Some(config.clients.most),
                client_timeout_s: Some(config.clients.idle.as_secs_f64()),
                trust: config.clients.trust.iter().map(ToString::to_string).collect(),
                answers_per_prefix_pps: Some(config.clients.answers_per_prefix.packets_per_second()),
                ..ForwardConfig::of(plan, engine.metrics.as_ref())
            };
            carry(plan, engine, &config, &words, ender, |_, _| Ok(()))
        }
        Between::Interfaces(between) => interfaces::run(plan, between, interrupt),
    }
}

fn ender(interrupt: &Interrupt) -> Result<Ender, Failure> {
    interrupt.ender().map_err(|error| Failure::broke_off("listening for signals", &error))
}

/// Runs an engine to its end; `words` say between what. Whoever else is to forward begins in `join`, when nothing that was
/// asked for can be wrong any more, and counts where it says.
fn carry<H: Handler>(
    plan: &ForwardPlan,
    mut engine: Engine<H>,
    config: &ForwardConfig,
    words: &str,
    ender: Ender,
    join: impl FnOnce(&mut Engine<H>, Option<Counter<Second>>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let machine = Machine::read();
    let example = example(plan, engine.report());
    let kind =
        Run { machine: &machine, seed: None, config, fallbacks: &[], inconclusive: None, report: &example };
    plan.output.check_keys(&kind)?;
    let neighbours = Neighbours::watch();
    let blank = Second::default();
    let stream = plan.output.stream.then(|| Stream::start("softtimers.forward.stream/1", None, blank, ender));
    stream.iter().for_each(|stream| engine.count_in(stream.counter()));
    join(&mut engine, stream.as_ref().map(Stream::counter))?;
    engine.rules.as_mut().map_or(Ok(()), RuleWatch::begin)?;
    say(format_args!("{words}"));
    if let Some(metrics) = &config.metrics {
        say(format_args!("metrics on http://{metrics}/metrics"));
    }
    let progress = Progress::start(H::DOING, plan.end.duration);
    let carried = engine.run();
    drop(progress);
    let streamed = stream.map_or(Ok(()), Stream::finish);
    let interference = neighbours.so_far();
    // Also of a run that broke off.
    let told = plan.output.finish(&Run {
        machine: &machine.clone().during(interference),
        seed: None,
        config,
        fallbacks: &[],
        // Both ends are most often programs on this machine: only the host's share disturbs.
        inconclusive: Interference { others_share: None, ..interference }.inconclusive(),
        report: &engine.report(),
    });
    carried.and(streamed).and(told)
}

/// The `config` object of `forward`.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct ForwardConfig {
    /// What drives it: `udp`, `packet` or `xdp`.
    pub driver: &'static str,
    /// The address that was bound, with the port in use; the first interface.
    pub listen: String,
    /// Where packets go; the second interface.
    pub to: String,
    /// Threads that forward.
    pub pollers: u32,
    /// Whether it routes; `null` of addresses.
    pub routed: Option<bool>,
    /// When it looks.
    pub mode: Mode,
    /// Packets a turn, each way; `null` without a quota.
    pub quota: Option<u32>,
    /// Packets wanted in a poll; `null` where none is steered by it.
    pub aggregate: Option<u32>,
    /// The longest wait for a poll; `null` without polls.
    pub max_delay_ns: Option<u64>,
    /// The share of a processor that it may use; `null` for all of it.
    pub cpu_limit: Option<f64>,
    /// The most clients at once; `null` of interfaces.
    pub clients: Option<u32>,
    /// When a silent client is forgotten; `null` of interfaces.
    pub client_timeout_s: Option<f64>,
    /// Networks whose clients are answered with all, beside loopback.
    pub trust: Vec<String>,
    /// Answers a second to all others of a prefix; `null` of interfaces.
    pub answers_per_prefix_pps: Option<f64>,
    /// The file of rules.
    pub rules: Option<String>,
    /// Where the metrics are, with the port in use.
    pub metrics: Option<String>,
    /// The longest run; `null` for no bound.
    pub duration_s: Option<f64>,
    /// The most packets that come in at the first side; `null` for no bound.
    pub count: Option<u64>,
}

impl ForwardConfig {
    /// What is the same for both kinds.
    fn of(plan: &ForwardPlan, metrics: Option<&Metrics>) -> Self {
        let looking = &plan.looking;
        ForwardConfig {
            pollers: 1,
            mode: looking.mode,
            quota: (looking.mode != Mode::Naive).then_some(looking.quota),
            aggregate: looking.mode.aggregates().then_some(looking.aggregate),
            max_delay_ns: looking.max_delay.and_then(|delay| u64::try_from(delay.as_nanos()).ok()),
            cpu_limit: plan.cpu_limit.map(|share| f64::from(share.get()) / 100.0),
            rules: plan.rules.as_ref().map(|path| path.display().to_string()),
            metrics: metrics.map(|metrics| metrics.address().to_string()),
            duration_s: plan.end.duration.map(|duration| duration.as_secs_f64()),
            count: plan.end.count,
            ..ForwardConfig::default()
        }
    }
}

/// A report with all keys that this run's will have.
fn example(plan: &ForwardPlan, report: ForwardReport) -> ForwardReport {
    let rules = plan.rules.is_some().then(RulesReport::default);
    ForwardReport { packets_per_poll: Some(1.0), cpu_share: Some(0.0), rules, ..report }
}
