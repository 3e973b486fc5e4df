//! Below saturation: the CPU cost of an answer's latency, by how the server finds requests.
//!
//! Requests come at a given rate, so that all contenders answer the same number of them.

use std::time::Duration;

use softtimers_lab::bench::Done;
use softtimers_lab::server::client::Load;
use softtimers_trials::result::Table;

use super::Effort;
use super::contender::{BUSY, Contender, RATE};

const CONTENDERS: [Contender; 4] =
    [Contender::Epoll, Contender::Polled(1), Contender::Polled(5), Contender::Spin];
/// The rates in requests a second.
const RATES: [(&str, u32); 3] = [("5,000/s", 5_000), ("20,000/s", 20_000), ("36,000/s", 36_000)];
const CONNECTIONS: usize = 16;

pub(crate) fn measure(effort: &Effort) -> Done<Vec<Table>> {
    let name = |contender: Contender, rate: &str| format!("{rate}, {}", contender.name());
    let mut contenders = CONTENDERS;
    let measured = effort.rounds.contest(&RATES, &mut contenders, |&(rate, pps), contender, round| {
        let (row, interval) = (name(*contender, rate), Some(Duration::from_secs(1) / pps));
        let trial = contender.trial(effort, 1, (CONNECTIONS, 0), (round, &row), |addresses| {
            let clients = vec![(addresses[0], CONNECTIONS)];
            Load { clients, keep_alive: true, interval, time: effort.trial }.run()
        });
        trial.map(drop)
    })?;
    let rows = RATES.iter().flat_map(|(rate, _)| CONTENDERS.map(|contender| name(contender, rate)));
    let columns = [(RATE, 1), ("p50 µs", 1), ("p99 µs", 1), (BUSY, 3), ("errors", 0)];
    let mut table = Table::of("rates", &measured, rows, &columns);
    table.note(format!("{CONNECTIONS} kept connections"));
    Ok(vec![table])
}
