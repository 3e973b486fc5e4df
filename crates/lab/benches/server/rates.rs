//! Below saturation: what an answer's latency costs in CPU, by how the server looks for requests.
//!
//! Clients of our own, at a rate, so that all contenders answer the same number of requests.

use std::time::Duration;

use softtimers_lab::bench::Done;
use softtimers_lab::server::client::paced::Paced;
use softtimers_measure::paired::Round;
use softtimers_measure::result::Table;
use softtimers_measure::ticks::Ticks;

use super::Effort;
use super::contender::Contender;

const CONTENDERS: [Contender; 4] =
    [Contender::Epoll, Contender::Polled(1), Contender::Polled(5), Contender::Spin];
/// Requests a second.
const RATES: [(&str, u32); 3] = [("5,000/s", 5_000), ("20,000/s", 20_000), ("36,000/s", 36_000)];
const CONNECTIONS: usize = 16;

pub(crate) fn measure(effort: &Effort) -> Done<Vec<Table>> {
    let work = effort.load.map_or(0, |load| load.1);
    let name = |contender: Contender, rate: &str| format!("{rate}, {}", contender.name());
    let measured =
        effort.rounds.contest(&RATES, &mut CONTENDERS.clone(), |&(rate, pps), contender, round| {
            one(*contender, &name(*contender, rate), pps, work, effort, round)
        })?;
    let rows = RATES.iter().flat_map(|(rate, _)| CONTENDERS.map(|contender| name(contender, rate)));
    let columns = [(RATE, 1), (P50, 1), ("p99 µs", 1), (BUSY, 3), ("errors", 0)];
    let mut table = Table::of("rates", &measured, rows, &columns);
    table.note(format!("{CONNECTIONS} kept connections, {work} µs of work an answer"));
    Ok(vec![table])
}

/// One server at one rate.
fn one(contender: Contender, row: &str, pps: u32, work: u64, effort: &Effort, round: &mut Round) -> Done {
    let [here, there] = effort.processors;
    let running = contender.start(here, 1, (CONNECTIONS, work))?;
    let kept = there.keep()?;
    let before = Ticks::now(Some(here.number()));
    let load = Paced {
        address: running.addresses[0],
        connections: CONNECTIONS,
        interval: Duration::from_secs(1) / pps,
        time: effort.trial,
    };
    let answered = load.run()?;
    let after = Ticks::now(Some(here.number()));
    drop(kept);
    running.end()?;
    let busy = before.zip(after).and_then(|(before, after)| {
        let passed = after.since(before);
        passed.share(passed.all() - passed.idle)
    });
    let micros = |q| answered.latency.quantile(q).map(|nanos| nanos as f64 / 1e3);
    round.put(row, RATE, answered.rate() / 1e3);
    round.put(row, P50, micros(0.5));
    round.put(row, "p99 µs", micros(0.99));
    round.put(row, BUSY, busy);
    round.put(row, "errors", answered.errors as f64);
    Ok(())
}

const RATE: &str = "kreq/s";
const P50: &str = "p50 µs";
const BUSY: &str = "busy";
