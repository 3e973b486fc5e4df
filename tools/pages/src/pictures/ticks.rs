//! The picture of papers/docs/noise.md: what a computation keeps beside timers at a rate, by ticks and by smart timers.

use softtimers_trials::result::{Cell, Table};

use super::chart::{Chart, Line, Mark};
use super::{Files, column, table};

const DATA: &str = "noise";

/// Draws the throughput that a computation retains, by the rate of the timers on its CPU.
pub(super) fn draw(files: &Files) -> Result<String, String> {
    let [tick, smart] = points(table(files, DATA, "rates")?)?;
    let line =
        |name: &str, colour, points| Line { name: name.to_owned(), colour, mark: Mark::Joined, points };
    Chart {
        title: "Throughput that a computation retains by the rate of timers on its CPU: a tick takes up to half, smart timers take nothing",
        up: "throughput retained, %",
        across: "timer rate, kHz",
        lines: vec![line("smart timers", "one", smart), line("a tick", "two", tick)],
    }
    .draw()
}

/// What is kept beside a tick, and beside smart timers: `72.0 / 99.9%` at `10 kHz`.
fn points(table: &Table) -> Result<[Vec<(f64, f64)>; 2], String> {
    let (rates, kept) = (column(table, "rate")?, column(table, "work kept")?);
    let mut both = [Vec::new(), Vec::new()];
    for row in &table.rows {
        let (Some(Cell::Text(rate)), Some(Cell::Text(kept))) = (row.get(rates), row.get(kept)) else {
            return Err(format!("{DATA}: a row has a rate and what is kept"));
        };
        let khz = khz(rate).ok_or_else(|| format!("{DATA}: `{rate}` is no rate"))?;
        let shares = kept.strip_suffix('%').and_then(|kept| kept.split_once(" / "));
        let shares = shares.and_then(|(tick, smart)| Some([tick.parse().ok()?, smart.parse().ok()?]));
        let shares: [f64; 2] = shares.ok_or_else(|| format!("{DATA}: `{kept}` is not TICK / SMART%"))?;
        both.iter_mut().zip(shares).for_each(|(points, share)| points.push((khz, share)));
    }
    Ok(both)
}

fn khz(rate: &str) -> Option<f64> {
    let (number, unit) = rate.split_once(' ')?;
    let number: f64 = number.parse().ok()?;
    match unit {
        "Hz" => Some(number / 1e3),
        "kHz" => Some(number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rate: &str, kept: &str) -> Table {
        let mut table = Table::new("rates", &[("rate", 0), ("work kept", 0)]);
        table.row([Cell::Text("100 Hz".into()), Cell::Text("99.6 / 99.5%".into())]);
        table.row([Cell::Text(rate.into()), Cell::Text(kept.into())]);
        table
    }

    #[test]
    fn both_methods_have_a_point_at_each_rate() {
        let both = points(&table("10 kHz", "72.0 / 99.9%")).unwrap();
        assert_eq!(both, [vec![(0.1, 99.6), (10.0, 72.0)], vec![(0.1, 99.5), (10.0, 99.9)]]);
    }

    #[test]
    fn words_are_refused() {
        assert!(points(&table("often", "72.0 / 99.9%")).unwrap_err().contains("`often` is no rate"));
        assert!(points(&table("1 kHz", "72.0%")).unwrap_err().contains("is not TICK / SMART%"));
    }
}
