//! A flow joins another that has had the link for some seconds: how soon the two have the same, and what the first keeps.

use std::time::Duration;

use softtimers_lab::bench::Done;
use softtimers_trials::bar::Bar;
use softtimers_trials::paired::Paired;
use softtimers_trials::result::{Cell, Table};

use crate::flows::{Meeting, Met, Sender, meet};
use crate::met::{CUBIC, EVEN, STOCK, between};
use crate::path::Line;
use crate::plan::Plan;
use crate::run::{DROPS, Failure};

const FAIR: &str = "fair after, round trips";
const FIRST_KEEPS: &str = "the first keeps";
const FIGURES: [(&str, usize); 3] = [(FAIR, 0), (FIRST_KEEPS, 2), (DROPS, 2)];

/// The one that is there, and the one that joins.
const JOINED: [[Sender; 2]; 4] = [[EVEN, EVEN], [STOCK, EVEN], [CUBIC, EVEN], [STOCK, STOCK]];

/// Measures four seconds after four seconds.
pub(crate) fn joins(plan: &Plan) -> Done<Vec<Table>> {
    let between = between()?;
    let heads = [("path", 0), ("first", 0), ("joins", 0)];
    let columns: Vec<(&str, usize)> = heads.into_iter().chain(FIGURES).collect();
    let mut table = Table::new("joins", &columns);
    let apart = Duration::from_millis(400 * plan.megabytes);
    let meeting = Meeting { apart, ..Meeting::of(2 * apart) };
    for packets in [20, 100, 500] {
        let line = Line { packets, ..Line::SHORT };
        for senders in JOINED {
            let [first, second] = senders.map(Sender::name);
            let name = format!("{line}, {first}, {second} joins");
            let measured = Paired::new(plan.rounds).rounds(|_, round| {
                let met = meet(between, line, &senders, meeting)?;
                let figures = [Some(met.fair_after(line, meeting)), met.first_keeps(apart), Some(met.drops)];
                FIGURES
                    .iter()
                    .zip(figures)
                    .for_each(|((column, _), figure)| round.put(&name, column, figure));
                Ok::<_, Failure>(())
            });
            let measured = measured.map_err(|error| -> Box<dyn std::error::Error> { error })?;
            let rows = [name.clone()];
            let measured = plan.with_earlier(&mut table, &rows, &FIGURES.map(|(name, _)| name), measured);
            let figure = |figure| measured.estimate(&name, figure);
            let mut row: Vec<Cell> = vec![line.to_string().into(), first.into(), second.into()];
            row.extend(FIGURES.iter().map(|(column, _)| Cell::from(figure(column))));
            table.rows.push(row);
            if senders[1] == EVEN {
                table.bar_of(&measured, Bar::at_most(format!("{name}: {FAIR}"), 20.0, figure(FAIR)));
            }
        }
    }
    table.note(format!(
        "Fair: from then on each has at least {FAIR_SHARE} of half the link over {OVER} round trips. Where that does not come, all round trips count."
    ));
    Ok(vec![table])
}

impl Met {
    /// Returns the round trips from the beginning of the second flow until both have their share.
    fn fair_after(&self, line: Line, Meeting { apart, most, .. }: Meeting) -> f64 {
        let round_trip = Duration::from_millis(line.millis);
        let rounds = (most - apart).div_duration_f64(round_trip) as u32;
        let is_fair = |round: &u32| {
            let from = apart + round_trip * *round;
            let rates = self.rates_between(from, from + round_trip * OVER);
            let half = rates.iter().sum::<f64>() / 2.0;
            rates.iter().all(|&rate| rate >= half * FAIR_SHARE)
        };
        (0..rounds.saturating_sub(OVER)).find(is_fair).unwrap_or(rounds).into()
    }

    /// Returns the first flow's part of its fair share in the second after the other one has joined.
    fn first_keeps(&self, apart: Duration) -> Option<f64> {
        let rates = self.rates_between(apart, apart + Duration::from_secs(1));
        Some(rates.first()? * 2.0 / rates.iter().sum::<f64>())
    }
}

/// The part of half the link that each has, when it counts as fair; and over how many round trips.
const FAIR_SHARE: f64 = 0.8;
const OVER: u32 = 10;
