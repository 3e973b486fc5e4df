//! Four ports, polled by one event: the paper's four interfaces with a client on each.

use softtimers_lab::bench::Done;
use softtimers_lab::server::client::Load;
use softtimers_measure::bar::Bar;
use softtimers_measure::result::Table;

use super::Effort;
use super::contender::Contender;
use super::load::Tool;

const CONTENDERS: [Contender; 3] = [Contender::Epoll, Contender::Polled(1), Contender::Polled(15)];
/// Clients at each port.
const CROWDS: [(&str, [usize; 4]); 2] =
    [("16 clients each", [16; 4]), ("48, 8, 8, 8 clients", [48, 8, 8, 8])];

pub(crate) fn measure(effort: &Effort) -> Done<Vec<Table>> {
    let work = effort.load.map_or(WORK, |load| load.1);
    let [here, there] = effort.processors;
    let name = |contender: Contender, crowd: &str| format!("{}, {crowd}", contender.name());
    let measured =
        effort.rounds.contest(&CROWDS, &mut CONTENDERS.clone(), |(crowd, clients), contender, round| {
            let running = contender.start(here, 4, (clients.iter().sum(), work))?;
            let kept = there.keep()?;
            let clients = running.addresses.iter().copied().zip(*clients).collect();
            let answered = Load { clients, keep_alive: true, time: effort.trial }.run()?;
            drop(kept);
            running.end()?;
            let row = name(*contender, crowd);
            round.put(&row, "kreq/s", answered.rate() / 1e3);
            let all = answered.answers.iter().sum::<u64>().max(1) as f64;
            let shares = answered.answers.iter().map(|&one| one as f64 / all);
            round.put(&row, LEAST, shares.clone().fold(1.0, f64::min));
            round.put(&row, "largest share", shares.fold(0.0, f64::max));
            round.put(&row, "errors", answered.errors as f64);
            Done::Ok(())
        })?;
    let rows: Vec<String> =
        CROWDS.iter().flat_map(|(crowd, _)| CONTENDERS.map(|contender| name(contender, crowd))).collect();
    let columns = [("kreq/s", 1), (LEAST, 3), ("largest share", 3), ("errors", 0)];
    let mut table = Table::of("ports", &measured, &rows, &columns);
    table.note(format!("{work} µs of work an answer; load by {}", Tool::Own));
    for row in rows.iter().filter(|row| row.ends_with("each")) {
        let least = measured.estimate(row, LEAST);
        table.bar(Bar::at_least(format!("server, four ports, {row}: smallest share"), 0.22, least));
    }
    Ok(vec![table])
}

/// With it the server is the slower side, as the table finds; `--work` sets it.
const WORK: u64 = 10;
const LEAST: &str = "smallest share";
