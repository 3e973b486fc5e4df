//! Four ports, polled by one event: the paper's four interfaces with a client on each.

use softtimers_bench::rounds::{Round, Section, in_turn};
use softtimers_bench::server::client::Load;

use super::contender::Contender;
use super::load::Tool;
use super::{Effort, Found};

const CONTENDERS: [Contender; 3] = [Contender::Epoll, Contender::Polled(1), Contender::Polled(15)];
/// Clients at each port.
const CROWDS: [(&str, [usize; 4]); 2] =
    [("16 clients each", [16; 4]), ("48, 8, 8, 8 clients", [48, 8, 8, 8])];

pub(crate) fn measure(effort: Effort) -> Found {
    let work = effort.load.map_or(WORK, |load| load.1);
    let [here, there] = effort.processors;
    let section = Section::of(effort.rounds, |number| {
        let mut round = Round::default();
        for (crowd, clients) in CROWDS {
            for turn in in_turn(number, CONTENDERS.len()) {
                let contender = CONTENDERS[turn];
                let running = contender.start(here, 4, (clients.iter().sum(), work))?;
                let kept = there.keep()?;
                let clients = running.addresses.iter().copied().zip(clients).collect();
                let answered = Load { clients, keep_alive: true, time: effort.trial }.run()?;
                drop(kept);
                running.end()?;
                let row = format!("{}, {crowd}", contender.name());
                round.put(&row, "kreq/s", answered.rate() / 1e3);
                let all = answered.answers.iter().sum::<u64>().max(1) as f64;
                let shares = answered.answers.iter().map(|&one| one as f64 / all);
                round.put(&row, LEAST, shares.clone().fold(1.0, f64::min));
                round.put(&row, "largest share", shares.fold(0.0, f64::max));
                round.put(&row, "errors", answered.errors as f64);
            }
        }
        Ok(round)
    })?;
    let rows: Vec<String> = CROWDS
        .iter()
        .flat_map(|(crowd, _)| CONTENDERS.map(|contender| format!("{}, {crowd}", contender.name())))
        .collect();
    let mut section = section.shown(&rows, &[("kreq/s", 1), (LEAST, 3), ("largest share", 3), ("errors", 0)]);
    section.notes.push(format!("- {work} µs of work an answer; load by {}", Tool::Own));
    for row in rows.iter().filter(|row| row.ends_with("each")) {
        let least = section.median(row, LEAST);
        section.bar(
            &format!("server, four ports, {row}: smallest share"),
            least,
            "at least 0.22",
            least >= 0.22,
        );
    }
    Ok(section)
}

/// With it the server is the slower side, as the table finds; `--work` sets it.
const WORK: u64 = 10;
const LEAST: &str = "smallest share";
