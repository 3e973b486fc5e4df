//! Tables VI and VII: the cost of pacing for a saturated server, by softtimers at every trigger state and at the same
//! mean interval, by a one-shot timer's signal that its handler arms again, and by a periodic one.
//!
//! The events do nothing. The paper's handler sends packets that the server would have sent anyway, on a network that
//! is not full, so that only the timer's cost shows; here an additional datagram would be most of the cost for any
//! method.

use std::time::Duration;

use softtimers::{PaceConfig, Rate, Strategy};
use softtimers_load::turns::Contender;
use softtimers_trials::bar::Bar;
use softtimers_trials::result::Table;

use super::Quick;
use crate::bench::Done;
use softtimers_contest::events::{Contests, PLAIN};
use softtimers_contest::turns::{TURN, engine};

/// The paper's 10 and 20 µs, and two at which today's signals keep up, so that the means match.
const INTERVALS: [u64; 4] = [10, 20, 50, 100];
/// Sending at every trigger state does not depend on the interval, so it is shown once.
const EVERY_TRIGGER_AT: u64 = 20;

const CONTENDERS: usize = 6;
const EVERY_TRIGGER: usize = 2;
const SOFT: usize = 3;
const ONE_SHOT: usize = 4;
const PERIODIC: usize = 5;
/// The contenders with events, by name, each with the same contender without.
const EVENTS: [(usize, &str, usize); 4] = [
    (EVERY_TRIGGER, "soft, every trigger state", 1),
    (SOFT, "soft", 1),
    (ONE_SHOT, "one-shot signal", PLAIN),
    (PERIODIC, "periodic signal", PLAIN),
];
const PAPER: &str = "The paper: a periodic timer (8253) at 20 µs cost 28% (Apache) and 36% (Flash) of the throughput, 22% of it base; a \
    one-shot one (APIC) at a comparable interval 13% and 22%; soft timers at every trigger state 2% and 6%.";

/// The busy echo server, with null events and without, in turns of 10 ms; the base is measured in a loop that only
/// computes.
pub(super) fn run(quick: &Quick) -> Done<Vec<Table>> {
    let time = TURN * CONTENDERS as u32 * if *quick { 8 } else { 100 };
    let mut tables = Vec::new();
    for interval in INTERVALS {
        let rate = Rate::every(Duration::from_micros(interval))?;
        let Some(both) = Contests::both(rate, contenders(rate), time)? else { break };
        tables.push(told(interval, &both));
    }
    if let Some(last) = tables.last_mut() {
        last.note(PAPER);
    }
    Ok(tables)
}

fn told(interval: u64, both: &Contests<CONTENDERS>) -> Table {
    let columns = [("asked for, µs", 0), ("by", 0), ("mean interval µs", 1)];
    let mut table = both.table(&format!("{interval} µs"), &columns);
    let (mut totals, mut kept) = ([None; CONTENDERS], [None; CONTENDERS]);
    for (who, name, without) in EVENTS {
        if who == EVERY_TRIGGER && interval != EVERY_TRIGGER_AT {
            continue;
        }
        let cost = both.cost(who, without);
        totals[who] = cost.total.map(|total| total.median);
        kept[who] = cost.lost.map(|lost| 1.0 - lost.median);
        let mean = both.server.over(|round| Some(1e6 / round[who].event_rate));
        table.rows.push(cost.row([(interval as f64).into(), name.into(), mean.into()]));
    }
    bars(interval, &totals, &kept).into_iter().for_each(|bar| table.bar(bar));
    table
}

/// A soft event costs less than a signal; and where no signal keeps up, the throughput retained is in the paper's
/// order. (A periodic signal that keeps up is cheaper, since it is not armed again.)
fn bars(interval: u64, totals: &[Option<f64>], kept: &[Option<f64>]) -> Vec<Bar> {
    let ratio = |of: &[Option<f64>], who: usize, to: usize| of[who].zip(of[to]).map(|(who, to)| who / to);
    let bar = |figure: &str, bound, ratio: Option<f64>| {
        Bar::at_most(format!("{interval} µs: {figure}"), bound, ratio)
    };
    let mut bars = vec![
        bar("cost of a soft event, against a one-shot signal's", 0.5, ratio(totals, SOFT, ONE_SHOT)),
        bar("cost of a soft event, against a periodic signal's", 0.5, ratio(totals, SOFT, PERIODIC)),
    ];
    if interval == EVERY_TRIGGER_AT {
        let (one_shot, periodic) = (ratio(kept, ONE_SHOT, SOFT), ratio(kept, PERIODIC, ONE_SHOT));
        bars.push(bar("work kept beside a one-shot signal, against beside softtimers", 1.0, one_shot));
        bars.push(bar("work kept beside a periodic signal, against beside a one-shot one", 1.0, periodic));
    }
    bars
}

fn contenders(rate: Rate) -> [Contender; CONTENDERS] {
    let every_trigger = PaceConfig { strategy: Strategy::EveryTrigger, ..PaceConfig::new(rate) };
    [
        Contender::Nobody,
        Contender::NobodySoft,
        Contender::PacedNullEvents(engine("soft"), every_trigger),
        Contender::NullEvents(engine("soft")),
        Contender::NullEvents(engine("signal")),
        Contender::NullSignals,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use softtimers_contest::turns::Contest;
    use softtimers_load::send::SendStats;
    use softtimers_load::turns::Share;
    use softtimers_trials::bar::Verdict;

    fn contest(work: [f64; CONTENDERS]) -> Contest<CONTENDERS> {
        let events = [0.0, 0.0, 200_000.0, 50_000.0, 50_000.0, 40_000.0];
        let round = std::array::from_fn(|who| Share {
            work_rate: work[who],
            event_rate: events[who],
            ..Share::default()
        });
        Contest {
            rounds: vec![round],
            stats: std::array::from_fn(|_| SendStats::new(Duration::ZERO, 1)),
            disturbed: None,
            interrupted: false,
        }
    }

    #[test]
    fn pollution_is_what_the_server_loses_beyond_the_base() {
        let server = contest([1_000.0, 980.0, 960.0, 970.0, 300.0, 400.0]);
        let compute = contest([1_000.0, 990.0, 980.0, 985.0, 400.0, 500.0]);
        // 60% of a second for 40,000 signals: 15 µs each; 12.5 µs of it base.
        let both = Contests { server, compute };
        let shown = told(20, &both).to_string();
        let row = "| 20 | periodic signal | 25.0 | 60.0 | 15000 | 12500 | 2500 |";
        assert!(shown.lines().any(|line| line == row), "{shown}");
        // softtimers' events are compared with its own loop: 10 of 980 for 50,000.
        let soft = both.cost(SOFT, 1).total.unwrap();
        assert!((soft.median - 204.0).abs() < 0.1, "{soft:?}");
    }

    #[test]
    fn the_papers_order_is_checked_where_it_had_it() {
        let totals = [0.0, 0.0, 0.0, 200.0, 25_000.0, 20_000.0].map(Some);
        let kept = [1.0, 1.0, 1.0, 0.98, 0.44, 0.14].map(Some);
        for (interval, count) in [(10, 2), (20, 4)] {
            let bars = bars(interval, &totals, &kept);
            assert_eq!(bars.len(), count);
            assert!(bars.iter().all(|bar| bar.verdict() == Verdict::Met), "{bars:?}");
        }
        assert!(bars(50, &[None; CONTENDERS], &kept)[0].measured.is_none());
    }

    #[test]
    fn an_event_at_every_trigger_state_is_one_of_the_contenders() {
        for interval in INTERVALS {
            let all = contenders(Rate::every(Duration::from_micros(interval)).unwrap());
            assert!(
                matches!(all[EVERY_TRIGGER], Contender::PacedNullEvents(timer, pace) if timer == engine("soft") && pace.strategy == Strategy::EveryTrigger)
            );
        }
        assert!(INTERVALS.contains(&EVERY_TRIGGER_AT));
    }
}
