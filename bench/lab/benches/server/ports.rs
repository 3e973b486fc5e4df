//! Four ports, polled by one event: the paper's four interfaces with a client on each.

use softtimers_lab::bench::Done;
use softtimers_lab::server::client::Load;
use softtimers_trials::bar::Bar;
use softtimers_trials::result::Table;

use super::Effort;
use super::contender::{Contender, RATE};

const CONTENDERS: [Contender; 3] = [Contender::Epoll, Contender::Polled(1), Contender::Polled(15)];
/// Clients at each port.
const CROWDS: [(&str, [usize; 4]); 2] =
    [("16 clients each", [16; 4]), ("48, 8, 8, 8 clients", [48, 8, 8, 8])];

pub(crate) fn measure(effort: &Effort) -> Done<Vec<Table>> {
    let name = |contender: Contender, crowd: &str| format!("{}, {crowd}", contender.name());
    let mut contenders = CONTENDERS;
    let measured =
        effort.rounds.contest(&CROWDS, &mut contenders, |(crowd, clients), contender, round| {
            let (row, load) = (name(*contender, crowd), (clients.iter().sum(), WORK));
            let (answered, _) = contender.trial(effort, 4, load, (round, &row), |addresses| {
                let clients = addresses.iter().copied().zip(*clients).collect();
                Load { clients, keep_alive: true, interval: None, time: effort.trial }.run()
            })?;
            let all = answered.answers.iter().sum::<u64>().max(1) as f64;
            let shares = answered.answers.iter().map(|&one| one as f64 / all);
            round.put(&row, LEAST, shares.clone().fold(1.0, f64::min));
            round.put(&row, "largest share", shares.fold(0.0, f64::max));
            Done::Ok(())
        })?;
    let rows: Vec<String> =
        CROWDS.iter().flat_map(|(crowd, _)| CONTENDERS.map(|contender| name(contender, crowd))).collect();
    let columns = [(RATE, 1), (LEAST, 3), ("largest share", 3), ("errors", 0)];
    let mut table = Table::of("ports", &measured, &rows, &columns);
    table.note(format!("{WORK} µs of work an answer"));
    for row in rows.iter().filter(|row| row.ends_with("each")) {
        let least = measured.estimate(row, LEAST);
        table.bar(Bar::at_least(format!("server, four ports, {row}: smallest share"), 0.22, least));
    }
    Ok(vec![table])
}

/// With this work the server is the slower side, as the table shows.
const WORK: u64 = 10;
const LEAST: &str = "smallest share";
