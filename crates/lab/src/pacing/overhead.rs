//! Tables VI and VII: what pacing costs a saturated server, by softtimers at every trigger state and at the
//! same mean interval, by a one-shot timer's signal that its handler arms anew, and by a periodic one.
//!
//! The events do nothing. The paper's handler sends what the server would have sent anyway, on a network
//! that is not full, so that nothing but the timer's cost shows; here a datagram of its own would be the
//! greater part of the cost, whoever sends it.

use std::error::Error;
use std::time::Duration;

use softtimers::{PaceConfig, Rate, Strategy};
use softtimers_cli::args::Timer;
use softtimers_cli::send::{Contender, Share};

use super::record::{Check, Estimate, Record};
use super::{Found, say};
use crate::events::{cost, lost};
use crate::turns::{self, Contest, TURN, quartiles};

/// The paper's 10 and 20 µs, and two at which a signal of today keeps up, so that the means match.
const INTERVALS: [u64; 4] = [10, 20, 50, 100];
/// Every trigger state is one of softtimers' own intervals, whatever is asked for: it is shown once.
const EVERY_TRIGGER_AT: u64 = 20;
/// A server's and a loop's that computes, for each interval.
pub(super) const CONTESTS: u32 = 2 * INTERVALS.len() as u32;

const CONTENDERS: usize = 6;
const PLAIN: usize = 0;
const SOFT: usize = 3;
const ONE_SHOT: usize = 4;
const PERIODIC: usize = 5;
/// Who has events, by what name, and who is the same without.
const EVENTS: [(usize, &str, usize); 4] = [
    (2, "soft, every trigger state", 1),
    (SOFT, "soft", 1),
    (ONE_SHOT, "one-shot signal", PLAIN),
    (PERIODIC, "periodic signal", PLAIN),
];

pub(super) fn time(quick: bool) -> Duration {
    TURN * CONTENDERS as u32 * if quick { 8 } else { 100 }
}

pub(super) fn run(quick: bool, found: &mut Found) -> Result<(), Box<dyn Error>> {
    say(format_args!("{HEADING}"))?;
    for interval in INTERVALS {
        let flags = |work| format!("--interval {interval}us {work}");
        let contest = |work| turns::contest(&flags(work), contenders(interval)?, TURN, time(quick));
        let server = contest("--busy echo --echo-batch 4")?;
        let mut is_disturbed = found.note(server.interrupted, server.disturbed.as_ref());
        if server.interrupted {
            break;
        }
        let compute = contest("--busy compute")?;
        is_disturbed |= found.note(compute.interrupted, compute.disturbed.as_ref());
        let (mut totals, mut kept) = ([None; CONTENDERS], [None; CONTENDERS]);
        for (who, name, without) in EVENTS {
            if who == 2 && interval != EVERY_TRIGGER_AT {
                continue;
            }
            let figures = Figures::of(&server, &compute, who, without);
            totals[who] = figures.total.value;
            kept[who] = figures.lost.value.map(|lost| 1.0 - lost);
            say(format_args!("{}", figures.row(interval, name)))?;
            figures.records(interval, name).into_iter().for_each(|record| found.record(record));
        }
        for check in checks(interval, &totals, &kept) {
            found.check(check, is_disturbed);
        }
        if compute.interrupted {
            break;
        }
    }
    say(format_args!("\n{PAPER}\n"))?;
    Ok(())
}

/// A soft event costs less than a signal; and where no signal keeps up, the work that is left is in the
/// paper's order. (One that keeps its interval is cheaper if it is not armed anew.)
fn checks(interval: u64, totals: &[Option<f64>], kept: &[Option<f64>]) -> Vec<Check> {
    let ratio = |of: &[Option<f64>], who: usize, to: usize| of[who].zip(of[to]).map(|(who, to)| who / to);
    let check = |figure: &str, bound, ratio| Check::at_most(format!("{interval} µs: {figure}"), bound, ratio);
    let mut checks = vec![
        check("cost of a soft event, against a one-shot signal's", 0.5, ratio(totals, SOFT, ONE_SHOT)),
        check("cost of a soft event, against a periodic signal's", 0.5, ratio(totals, SOFT, PERIODIC)),
    ];
    if interval == EVERY_TRIGGER_AT {
        let (one_shot, periodic) = (ratio(kept, ONE_SHOT, SOFT), ratio(kept, PERIODIC, ONE_SHOT));
        checks.push(check("work kept beside a one-shot signal, against beside softtimers", 1.0, one_shot));
        checks.push(check(
            "work kept beside a periodic signal, against beside a one-shot one",
            1.0,
            periodic,
        ));
    }
    checks
}

fn contenders(interval: u64) -> Result<[Contender; CONTENDERS], Box<dyn Error>> {
    let rate = Rate::every(Duration::from_micros(interval))?;
    let every_trigger = PaceConfig { strategy: Strategy::EveryTrigger, ..PaceConfig::new(rate) };
    Ok([
        Contender::Nobody,
        Contender::NobodySoft,
        Contender::PacedNullEvents(Timer::Soft, every_trigger),
        Contender::NullEvents(Timer::Soft),
        Contender::NullEvents(Timer::Signal),
        Contender::NullSignals,
    ])
}

/// What the rounds say of one contender.
struct Figures {
    /// The mean time between its events, in microseconds.
    interval: Estimate,
    /// The share of a plain loop's work that is not done.
    lost: Estimate,
    /// Nanoseconds for each event, on the server and where there is nothing in the caches to lose.
    total: Estimate,
    base: Estimate,
}

impl Figures {
    fn of(server: &Contest<CONTENDERS>, compute: &Contest<CONTENDERS>, who: usize, without: usize) -> Self {
        let over = |figure: &dyn Fn(&[Share; CONTENDERS]) -> f64| {
            Estimate::from(quartiles(server.rounds.iter().map(figure)))
        };
        Figures {
            interval: over(&|round| 1e6 / round[who].event_rate),
            lost: over(&|round| lost(round, who, PLAIN)),
            total: cost(&server.rounds, who, without).into(),
            base: cost(&compute.rounds, who, without).into(),
        }
    }

    /// What the server loses beyond the event itself.
    fn pollution(&self) -> Estimate {
        let beyond = self.total.value.zip(self.base.value).map(|(total, base)| total - base);
        Estimate { value: beyond, ..Estimate::default() }
    }

    fn row(&self, interval: u64, name: &str) -> String {
        format!(
            "| {interval} | {name} | {} | {}% | {} | {} | {} |",
            self.interval.show_range(1),
            self.lost.times(100.0).show(1),
            self.total.show_range(0),
            self.base.show(0),
            self.pollution().show(0),
        )
    }

    fn records(&self, interval: u64, name: &str) -> [Record; 5] {
        let record = |figure: &str, measured| Record {
            experiment: "overhead",
            load: "echo",
            method: name.to_owned(),
            target_us: Some(interval),
            figure: figure.to_owned(),
            measured,
            ..Record::default()
        };
        [
            record("mean_interval_us", self.interval),
            record("work_lost_share", self.lost),
            record("total_ns_per_event", self.total),
            Record { load: "compute", ..record("base_ns_per_event", self.base) },
            record("pollution_ns_per_event", self.pollution()),
        ]
    }
}

const HEADING: &str = "\
### Overhead of pacing a saturated server

The busy echo server, with null events and without, in turns of 10 ms; the base is that of a loop which only \
computes.

| asked for, µs | by | mean interval µs | server's work lost | in total, ns/event | base, ns/event | pollution, ns/event |
|---|---|---|---|---|---|---|";

const PAPER: &str = "\
The paper: a periodic timer (8253) at 20 µs cost 28% (Apache) and 36% (Flash) of the throughput, 22% of it base; a \
one-shot one (APIC) at a comparable interval 13% and 22%; soft timers at every trigger state 2% and 6%.";

#[cfg(test)]
mod tests {
    use super::*;

    fn contest(work: [f64; CONTENDERS]) -> Contest<CONTENDERS> {
        let events = [0.0, 0.0, 200_000.0, 50_000.0, 50_000.0, 40_000.0];
        let round = std::array::from_fn(|who| Share {
            work_rate: work[who],
            event_rate: events[who],
            ..Share::default()
        });
        Contest { rounds: vec![round], disturbed: None, interrupted: false }
    }

    #[test]
    fn pollution_is_what_the_server_loses_beyond_the_base() {
        let server = contest([1_000.0, 980.0, 960.0, 970.0, 300.0, 400.0]);
        let compute = contest([1_000.0, 990.0, 980.0, 985.0, 400.0, 500.0]);
        let signal = Figures::of(&server, &compute, PERIODIC, PLAIN);
        assert_eq!((signal.interval.value, signal.lost.value), (Some(25.0), Some(0.6)));
        // 60% of a second for 40,000 signals: 15 µs each; 12.5 µs of it base.
        let row = signal.row(20, "periodic signal");
        assert_eq!(
            row,
            "| 20 | periodic signal | 25.0 (25.0 to 25.0) | 60.0% | 15000 (15000 to 15000) | 12500 | 2500 |"
        );
        // softtimers' events are compared with its own loop: 10 of 980 for 50,000.
        let soft = Figures::of(&server, &compute, SOFT, 1);
        assert!((soft.total.value.unwrap() - 204.0).abs() < 0.1, "{:?}", soft.total);
        assert!(soft.total.value < signal.total.value);
        assert_eq!(soft.records(20, "soft")[3].load, "compute");
    }

    #[test]
    fn the_papers_order_is_checked_where_it_had_it() {
        let totals = [0.0, 0.0, 0.0, 200.0, 25_000.0, 20_000.0].map(Some);
        let kept = [1.0, 1.0, 1.0, 0.98, 0.44, 0.14].map(Some);
        for (interval, count) in [(10, 2), (20, 4)] {
            let checks = checks(interval, &totals, &kept);
            assert_eq!(checks.len(), count);
            assert!(checks.iter().all(|check| check.row().ends_with("| holds |")), "{checks:?}");
        }
        assert!(checks(50, &[None; CONTENDERS], &kept)[0].measured.is_none());
    }

    #[test]
    fn an_event_at_every_trigger_state_is_one_of_the_contenders() {
        for interval in INTERVALS {
            let all = contenders(interval).unwrap();
            assert!(
                matches!(all[2], Contender::PacedNullEvents(Timer::Soft, pace) if pace.strategy == Strategy::EveryTrigger)
            );
        }
        assert!(INTERVALS.contains(&EVERY_TRIGGER_AT));
    }
}
