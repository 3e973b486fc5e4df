//! **Network polling on soft timers**: a saturated server that takes packets by interrupts, or by polls at
//! trigger states that aim to find a given number of packets each (Aron and Druschel, *Soft timers*, §4.2 and
//! §5.8).
//!
//! ```text
//!   interrupts   ▓▓↑▓▓▓↑↑▓▓▓▓▓↑▓▓↑▓▓▓▓↑     each costs V_I, what it throws out of the cache, and a shift of locality
//!   quota 1      ▓'▓▓'▓•▓'▓▓•▓'▓▓•▓'▓▓•     a soft event: one shift of locality each, at a point that has one anyway
//!   quota 5      ▓'▓▓'▓▓'▓▓'▓▓'▓▓'▓▓••••    one for five packets
//! ```
//!
//! Table XII's figures are lost. The text says that polling gains 3 to 25%, more for the faster server, and
//! that a quota of one shows the cost of interrupts, larger quotas the additional effect of aggregation. The
//! costs are the paper's where it gives them (§5.1, §5.8); the CPU time of a request was chosen to give gains
//! in that range.
//!
//! The server is a closed system: it answers as many requests as the CPU has time for, and packets arrive at
//! the rate of the answers. The overhead of a packet depends on that rate, so the rate is found by a few
//! runs, each at the rate that the previous one left time for.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use softtimers_core::Pattern;
use softtimers_core::{Rate, RateError, Timestamp, Trace};
use softtimers_poll::readings::Costs;
use softtimers_poll::{Aggregation, AggregationConfig, AnyPolicy, Interrupts, Preset};

use crate::choice::choices;
use crate::engine::arrivals;
use crate::engine::arrivals::Arrival;
use crate::engine::receiver::{ReceiveStats, Receiver, Settling, Timing};
use crate::{Column, Experiment, Need, Parameter, Parameters, Row, RunError, Setting, Steps, Streams, Value};

/// The gain of polls over interrupts, by the target number of packets in each poll.
pub(crate) static POLLING: Experiment = Experiment {
    name: "polling",
    about: "A saturated server that polls on soft timers, by the aggregation quota (soft timers, section 5.8)",
    details: "Requests per second of a server whose CPU is saturated, with an interrupt for each packet, and \
              with polls at trigger states that aim to find a given number of packets each (core's \
              Aggregation, on SoftTimers). Packets arrive at random, at the rate of the answers. The paper's \
              text gives gains of 3 to 25% for Table XII, more for the faster server; the CPU time of a \
              request was chosen to give gains in that range.",
    parameters: &[
        Parameter::choice::<Design>("server", "apache: a process for each connection; flash: one loop"),
        Parameter::choice::<Protocol>("protocol", "http: a connection for each request; p-http: many on one"),
        Parameter::count("quota", "target number of packets in each poll (section 4.2)", 1..=1_000, 5),
        Parameter::time(
            "interrupt",
            "an interrupt with an empty handler (section 5.1)",
            COST,
            PAPERS.interrupt,
        ),
        Parameter::time("poll", "reading the status of the interfaces", COST, PAPERS.poll),
        Parameter::time(
            "shift",
            "coming to packet processing with a cold cache, for each interrupt or poll that finds any",
            COST,
            PAPERS.shift,
        ),
        Parameter::time("longest", "the longest poll interval", TIME, Duration::from_millis(1)),
        Parameter::count("packets", "packets in each run", 100..=100_000_000, 20_000)
            .needs(Need { with: "no trace", met: |parameters| parameters.trace("trace").is_none() }),
        Parameter::trace(
            "trace",
            "use the gaps of a recording, all scaled by the same factor so that packets arrive at the rate of the answers",
        ),
    ],
    columns: &[
        Column::words("server", "the server's design"),
        Column::words("protocol", "connections"),
        Column::new("quota", "target number of packets in each poll; 0: interrupts").given(),
        Column::new("requests_per_s", "requests answered in a second").digits(0),
        Column::new("gain", "gain over interrupts, as a share").digits(3),
        Column::new("per_look", "packets found by each interrupt or poll").digits(2),
        Column::new("looks_per_s", "interrupts or polls in a second").digits(0),
        Column::new("overhead_us", "CPU time for a packet").digits(2),
        Column::new("delay_us", "from arrival to the end of the interrupt or poll").digits(1),
        Column::new("longest_delay_us", "the longest delay of any packet").digits(1),
        Column::new("settled_packets", "first packet of steady delays (MSER-5), within 5,000").greatest(),
    ],
    sweep: &[("server", "apache,flash"), ("protocol", "http,p-http"), ("quota", "1,2,5,10,15")],
    check,
    run,
};

const PAPERS: crate::constants::Polling = crate::constants::Machine::PAPERS.polling;
const COST: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(1);
const TIME: RangeInclusive<Duration> = Duration::from_nanos(1)..=Duration::from_secs(1);

choices! {
    /// The structure of a server.
    enum Design {
        /// A process for each connection.
        Apache = "apache",
        /// One loop.
        Flash = "flash",
    }
}

choices! {
    /// The use of connections.
    enum Protocol {
        /// One for each request.
        Http = "http",
        /// Many requests on one.
        PHttp = "p-http",
    }
}

/// A server, as far as packets concern it.
#[derive(Clone, Copy, Debug)]
struct Server {
    /// CPU time of a request without interrupts or polls.
    request: Duration,
    /// Packets received and transmissions completed for each request.
    packets: u64,
    /// Cost of an interrupt to the server beside its handler (§5.1).
    pollution: Duration,
}

impl Server {
    fn from_parameters(parameters: &Parameters) -> Self {
        let of = &parameters.machine().polling;
        let (request, pollution) = match parameters.choice("server") {
            Design::Flash => (of.flash_request, of.flash_pollution),
            Design::Apache => (of.apache_request, of.apache_pollution),
        };
        match parameters.choice("protocol") {
            // Neither set-up nor end of a connection: a request, five segments, the ACKs of every second one.
            Protocol::PHttp => Server { request: request / 2, packets: of.p_http_packets, pollution },
            Protocol::Http => Server { request, packets: of.http_packets, pollution },
        }
    }

    /// Returns the requests that the CPU has time for if each packet takes this long.
    fn requests_per_second(&self, overhead_us: f64) -> f64 {
        1e6 / (self.request.as_nanos() as f64 / 1e3 + self.packets as f64 * overhead_us)
    }
}

fn check(parameters: &Parameters) -> Result<(), RunError> {
    match parameters.trace("trace") {
        Some(recording) if recording.span().is_zero() => {
            Err(RunError::new("trace: all packets have the same time; gaps need at least two times"))
        }
        _ => Ok(()),
    }
}

fn run(parameters: &Parameters, streams: Streams, steps: &Steps) -> Result<Vec<Row>, RunError> {
    check(parameters)?;
    let server = Server::from_parameters(parameters);
    let interrupts = by_interrupts(&server, parameters, streams, steps)?;
    let base = interrupts.1;
    let quota = parameters.count_u32("quota");
    let polls = settle(&server, quota, parameters, streams, steps).map_err(RunError::new)?;
    // A recording has no warm-up that could be left out.
    let is_synthetic = parameters.trace("trace").is_none();
    let row = |quota: u32, (account, rate, settled): Found| -> Row {
        let looks = account.interrupts + account.polls;
        let per_look = account.packets() as f64 / looks.max(1) as f64;
        vec![
            parameters.word("server").into(),
            parameters.word("protocol").into(),
            quota.into(),
            rate.into(),
            (rate / base - 1.0).into(),
            per_look.into(),
            (looks as f64 / account.span.as_secs_f64().max(1e-9)).into(),
            account.overhead_us().into(),
            account.delay_us().into(),
            Value::Real(account.longest_delay.as_nanos() as f64 / 1e3),
            settled.filter(|_| is_synthetic).into(),
        ]
    };
    // The baseline appears once, beside the smallest quota.
    let baseline = (quota == 1).then(|| row(0, interrupts));
    Ok(baseline.into_iter().chain([row(quota, polls)]).collect())
}

/// What a run finds: the receiver's stats, the rate of answers, and the packet from which on it is steady.
type Found = (ReceiveStats, f64, Option<u64>);

/// The latest runs by interrupts, which are the same for each quota, by parameters and seed.
static BY_INTERRUPTS: Mutex<VecDeque<(Parameters, u64, Found)>> = Mutex::new(VecDeque::new());
/// More than the seeds of a point, which are run before those of the next quota.
const KEPT: usize = 256;

fn by_interrupts(
    server: &Server,
    parameters: &Parameters,
    streams: Streams,
    steps: &Steps,
) -> Result<Found, RunError> {
    let kept = || BY_INTERRUPTS.lock().unwrap_or_else(PoisonError::into_inner);
    // Neither concerns interrupts.
    let key = parameters.clone().with("quota", Setting::Count(0)).with("longest", Setting::Count(0));
    let is_it = |(known, seed, _): &&(Parameters, u64, Found)| *seed == streams.seed() && *known == key;
    if let Some((_, _, found)) = kept().iter().find(is_it) {
        return Ok(*found);
    }
    let found = settle(server, 0, parameters, streams, steps).map_err(RunError::new)?;
    // A run that was stopped is none, and a recording may be long.
    if steps.is_wanted() && parameters.trace("trace").is_none() {
        let mut kept = kept();
        kept.truncate(KEPT - 1);
        kept.push_front((key, streams.seed(), found));
    }
    Ok(found)
}

/// Finds the rate at which packets arrive at the rate of the answers that the CPU has time for; a quota of
/// zero means interrupts.
fn settle(
    server: &Server,
    quota: u32,
    parameters: &Parameters,
    streams: Streams,
    steps: &Steps,
) -> Result<Found, RateError> {
    let mut requests = server.requests_per_second(0.0);
    let (mut account, mut settling) = (ReceiveStats::default(), Settling::default());
    for _ in 0..ROUNDS {
        let gap = Duration::from_nanos((1e9 / (requests * server.packets as f64)) as u64);
        (account, settling) = receive(server, quota, gap, parameters, streams, steps)?;
        requests = server.requests_per_second(account.overhead_us());
    }
    Ok((account, requests, settling.settled()))
}

fn receive(
    server: &Server,
    quota: u32,
    gap: Duration,
    parameters: &Parameters,
    streams: Streams,
    steps: &Steps,
) -> Result<(ReceiveStats, Settling), RateError> {
    let packets: Box<dyn Iterator<Item = Arrival>> = match parameters.trace("trace") {
        Some(recording) => Box::new(stretched(recording, gap)),
        None => {
            let pattern = Pattern::Poisson { seed: streams.of("arrivals").next_u64() };
            let count = usize::try_from(parameters.count("packets")).unwrap_or(usize::MAX);
            Box::new(arrivals::of_pattern(Rate::every(gap)?, pattern, 0).take(count))
        }
    };
    let packets = packets.take_while(|_| steps.is_wanted());
    // Transfers are free; every interrupt or poll that finds a packet costs a shift of locality.
    let shift = parameters.time("shift");
    let costs = Costs {
        interrupt: parameters.time("interrupt") + server.pollution + shift,
        poll: parameters.time("poll") + shift,
        transfer: Duration::ZERO,
        switch: Duration::ZERO,
    };
    let policy: AnyPolicy = match quota {
        0 => Interrupts.into(),
        _ => {
            let wanted = AggregationConfig::preset(Preset::Paper);
            let longest = parameters.time("longest").max(wanted.shortest);
            Aggregation::new(AggregationConfig { quota, longest, ..wanted }).into()
        }
    };
    let mut settling = Settling::default();
    let receiver = Receiver::new(policy, costs, Timing::soft(streams.seed()), packets);
    let (account, _) = receiver.run(|at, event| settling.watch(at, event));
    Ok((account, settling))
}

/// The packets of a recording, with this mean gap.
fn stretched(recording: &Trace, gap: Duration) -> impl Iterator<Item = Arrival> + '_ {
    let gaps = recording.packets().saturating_sub(1) as u128;
    let (wanted, span) = (gap.as_nanos() * gaps, recording.span().as_nanos().max(1));
    recording.iter().map(move |(since, _)| {
        let at = since.as_nanos().saturating_mul(wanted) / span;
        Arrival { at: Timestamp::from_nanos(u64::try_from(at).unwrap_or(u64::MAX)), bytes: 0 }
    })
}

/// The overhead of a packet hardly depends on the rate; after this many the rate has settled to a thousandth.
const ROUNDS: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Setting;

    /// Request rate, gain, packets per look, delay.
    fn find(server: &'static str, protocol: &'static str, quota: u64) -> [f64; 4] {
        let parameters = Parameters::new(POLLING.parameters)
            .with("server", Setting::Choice(server))
            .with("protocol", Setting::Choice(protocol))
            .with("quota", Setting::Count(quota))
            .with("packets", Setting::Count(5_000));
        let rows = run(&parameters, Streams::new(1), &Steps::unwatched()).unwrap();
        let row = rows.last().unwrap();
        [3, 4, 5, 8].map(|column| match row[column] {
            Value::Real(number) => number,
            _ => f64::NAN,
        })
    }

    #[test]
    fn polls_gain_3_to_25_percent_and_more_the_more_they_find() {
        for (server, protocol) in
            [("apache", "http"), ("apache", "p-http"), ("flash", "http"), ("flash", "p-http")]
        {
            let found = [1, 2, 5, 10, 15].map(|quota| (quota, find(server, protocol, quota)));
            for (quota, [_, gain, per_look, _]) in found {
                assert!((0.03..0.25).contains(&gain), "{server} {protocol} {quota}: {gain}");
                let off = per_look / quota as f64 - 1.0;
                assert!(off.abs() < 0.2, "{server} {protocol} {quota}: {per_look} a poll");
            }
            // Avoiding interrupts gains most, aggregation adds more, at the cost of delay.
            assert!(found.is_sorted_by(|(_, less), (_, more)| less[1] < more[1] && less[3] < more[3]));
            assert!(found[0].1[1] > found[4].1[1] / 2.0, "most of it is the benefit of no interrupts");
        }
    }

    #[test]
    fn the_faster_server_gains_more_and_persistent_connections_are_faster_anyway() {
        let [apache, flash] = ["apache", "flash"].map(|server| find(server, "http", 5));
        assert!(flash[1] > apache[1] * 1.3, "{} {}", flash[1], apache[1]);
        assert!(find("flash", "p-http", 5)[0] > flash[0] * 1.5);
    }
}
