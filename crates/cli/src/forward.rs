//! `softtimers forward --udp`: a relay of datagrams that survives overload, without root.
//!
//! A flood makes most relays of user space do nothing but receive. This one is driven by a
//! [`Poller`](softtimers::poller::Poller): a quota each way, each datagram carried as far as it goes before the next one
//! is taken, and what is too much left in the receive buffer, where it costs nothing.
//!
//! ```text
//!   clients ─▶ --udp ─▶ [ rules ▸ clients ] ─▶ a socket for each client ─▶ --to
//!           ◀───────── [ no more than it sent, until it sent again ] ◀────
//! ```
//!
//! - [`relay`]: the loop; [`side`]: the sockets as devices; [`screen`]: where each datagram goes; [`table`]: clients;
//! - [`mode`]: when it looks; [`rules`] and [`rule_file`]: which datagrams it takes;
//! - [`report`], [`second`], [`exposition`] and [`metrics`]: what it tells.

pub mod exposition;
pub mod frames;
pub mod metrics;
pub mod mode;
pub mod relay;
pub mod report;
pub mod rule_file;
pub mod rules;
pub mod screen;
pub mod second;
pub mod side;
pub mod table;

use std::io;

use serde::Serialize;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::machine::{Interference, Machine, Neighbours};
use crate::output::{Run, say};
use crate::plan::ForwardPlan;
use crate::progress::Progress;
use crate::stream::Stream;
use mode::Mode;
use relay::Relay;
use report::{ForwardReport, RulesReport};
use second::Second;

/// Relays until the plan's end or a signal, then prints and checks the report.
///
/// # Errors
/// A usage failure if an address cannot be had, the rules are wrong, or an assertion names no key; a check failure if
/// an assertion does not hold or the system fails meanwhile.
pub fn run(plan: &ForwardPlan) -> Result<(), Failure> {
    let machine = Machine::read();
    let broke_off = |error: io::Error| Failure::broke_off("listening for signals", &error);
    let interrupt = Interrupt::listen().map_err(broke_off)?;
    let ender = interrupt.ender().map_err(broke_off)?;
    let mut relay = Relay::bind(plan, interrupt)?;
    let config = config(plan, &relay);
    let example = example(plan);
    let kind = Run {
        machine: &machine,
        seed: None,
        config: &config,
        fallbacks: &[],
        inconclusive: None,
        report: &example,
    };
    plan.output.check_keys(&kind)?;
    let neighbours = Neighbours::watch();
    let blank = Second::default();
    let stream = plan.output.stream.then(|| Stream::start("softtimers.forward.stream/1", None, blank, ender));
    stream.iter().for_each(|stream| relay.count_in(stream.counter()));
    say(format_args!("listening on {}, relaying to {}", config.listen, config.to));
    if let Some(metrics) = &config.metrics {
        say(format_args!("metrics on http://{metrics}/metrics"));
    }
    let progress = Progress::start("relaying", plan.end.duration);
    let relayed = relay.run();
    drop(progress);
    relayed.and(stream.map_or(Ok(()), Stream::finish))?;
    let interference = neighbours.so_far();
    plan.output.finish(&Run {
        machine: &machine.clone().during(interference),
        seed: None,
        config: &config,
        fallbacks: &[],
        // Both ends are most often programs on this machine: only the host's share disturbs.
        inconclusive: Interference { others_share: None, ..interference }.inconclusive(),
        report: &relay.report(),
    })
}

/// The `config` object of `forward`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ForwardConfig {
    /// What drives it: `udp`.
    pub driver: &'static str,
    /// The address that was bound, with the port in use.
    pub listen: String,
    /// Where datagrams go.
    pub to: String,
    /// When it looks.
    pub mode: Mode,
    /// Datagrams a turn, each way; `null` without a quota.
    pub quota: Option<u32>,
    /// Datagrams wanted in a poll; `null` where none is steered by it.
    pub aggregate: Option<u32>,
    /// The longest wait for a poll; `null` without polls.
    pub max_delay_ns: Option<u64>,
    /// The share of a processor that it may use; `null` for all of it.
    pub cpu_limit: Option<f64>,
    /// The most clients at once.
    pub clients: u32,
    /// When a silent client is forgotten.
    pub client_timeout_s: f64,
    /// The file of rules.
    pub rules: Option<String>,
    /// Where the metrics are, with the port in use.
    pub metrics: Option<String>,
    /// The longest run; `null` for no bound.
    pub duration_s: Option<f64>,
    /// The most datagrams of clients; `null` for no bound.
    pub count: Option<u64>,
}

fn config(plan: &ForwardPlan, relay: &Relay) -> ForwardConfig {
    let looking = &plan.looking;
    ForwardConfig {
        driver: "udp",
        listen: relay.local_addr().to_string(),
        to: plan.relay.upstream.to_string(),
        mode: looking.mode,
        quota: (looking.mode != Mode::Naive).then_some(looking.quota),
        aggregate: looking.mode.aggregates().then_some(looking.aggregate),
        max_delay_ns: looking.max_delay.and_then(|delay| u64::try_from(delay.as_nanos()).ok()),
        cpu_limit: plan.cpu_limit.map(|share| f64::from(share.get()) / 100.0),
        clients: plan.relay.clients.most,
        client_timeout_s: plan.relay.clients.idle.as_secs_f64(),
        rules: plan.rules.as_ref().map(|path| path.display().to_string()),
        metrics: relay.metrics.as_ref().map(|metrics| metrics.address().to_string()),
        duration_s: plan.end.duration.map(|duration| duration.as_secs_f64()),
        count: plan.end.count,
    }
}

/// A report with all keys that this run's will have.
fn example(plan: &ForwardPlan) -> ForwardReport {
    let rules = plan.rules.is_some().then(RulesReport::default);
    ForwardReport { packets_per_poll: Some(1.0), cpu_share: Some(0.0), rules, ..ForwardReport::default() }
}
