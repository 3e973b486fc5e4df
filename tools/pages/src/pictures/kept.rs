//! The picture of the README: what a loop keeps of 25,000 packets/s, by how many requests it handles in a row, from
//! docs/data/send.json, which its table and its verdict are of, too.
//!
//! ```text
//!   16 requests in a row
//!   soft     ▇▇▇▇▇▇▇├──▇▇┤  99.7% · 5.0%     the bar: the median; the line: the quartiles
//!   loop     ▇▇├▇▇┤         51.6% · 0.0%
//! ```

use softtimers_trials::result::{Cell, Table};

use super::svg::Svg;
use super::{Files, column, number, table};

/// The file of the README's picture, table and verdict.
pub(crate) const DATA: &str = "send";
const BATCHES: [u32; 4] = [1, 4, 16, 64];
/// The engines that are drawn, the first one in the colour of softtimers.
const ENGINES: [&str; 3] = ["soft", "loop", "timerfd"];
pub(super) const RATE: f64 = 25_000.0;
const LEFT: f64 = 12.0;
const RIGHT: f64 = 468.0;
/// Where bars begin, and how long one of the whole rate is.
const BARS: f64 = 84.0;
const WHOLE: f64 = 260.0;
const ROW: f64 = 20.0;

/// Draws a panel for each number of requests in a row.
pub(super) fn draw(files: &Files) -> Result<String, String> {
    let panels = BATCHES.map(|batch| Ok((batch, bars(table(files, DATA, &format!("kept-{batch}"))?)?)));
    drawn(&panels.into_iter().collect::<Result<Vec<_>, String>>()?)
}

/// Returns the share of the rate that an engine keeps in a loop of so many requests in a row: the median.
pub(super) fn share(files: &Files, batch: u32, engine: &str) -> Result<f64, String> {
    Ok(bar(table(files, DATA, &format!("kept-{batch}"))?, engine)?.0)
}

/// The median of an engine's share of the rate, its quartiles, and the share of gaps back to back.
type Bar = (f64, [f64; 2], f64);

fn drawn(panels: &[(u32, Vec<Bar>)]) -> Result<String, String> {
    let bottom = panels.iter().map(|(_, bars)| 34.0 + ROW * bars.len() as f64).sum::<f64>() + 24.0;
    let place = |share: f64| BARS + WHOLE * share.clamp(0.0, 1.05);
    let title = "The share of 25,000 packets/s that loops keep, and how much of it back to back, by requests in a row";
    let mut svg = Svg::new(bottom + 28.0, title);
    svg.text(LEFT, 20.0, "", "25,000 packets/s from a busy echo server");
    svg.text(RIGHT, 40.0, "small end", "of the rate · back to back");
    for (share, words) in [(0.0, "0"), (0.5, "50%"), (1.0, "100%")] {
        svg.path("grid", &format!("M{:.1},50V{bottom:.0}", place(share)));
        svg.text(place(share), bottom + 16.0, "small middle", words);
    }
    let mut top = 20.0;
    for (batch, bars) in panels {
        let many = if *batch == 1 { "" } else { "s" };
        svg.text(LEFT, top + 24.0, "head", &format!("{batch} request{many} in a row"));
        for ((share, [low, high], together), (name, row)) in bars.iter().zip(ENGINES.into_iter().zip(0..)) {
            let y = top + 44.0 + ROW * f64::from(row);
            let colour = if name == ENGINES[0] { "one" } else { "other" };
            svg.text(LEFT, y, "small", name);
            svg.bar(colour, (BARS, y), place(*share) - BARS);
            svg.path(
                "grid",
                &format!("M{:.1},{:.1}h{:.1}", place(*low), y - 5.0, place(*high) - place(*low)),
            );
            let percent = |share: f64| format!("{:.1}%", share * 100.0);
            svg.text(RIGHT, y, "small end", &format!("{} · {}", percent(*share), percent(*together)));
        }
        top += 34.0 + ROW * bars.len() as f64;
    }
    Ok(svg.end())
}

/// The engines' rows of a table, in the order in which they are drawn.
fn bars(table: &Table) -> Result<Vec<Bar>, String> {
    ENGINES.into_iter().map(|name| bar(table, name)).collect()
}

fn bar(table: &Table, name: &str) -> Result<Bar, String> {
    let [engine, rate, together] = ["engine", "packets/s", "back to back"].map(|name| column(table, name));
    let (engine, rate, together) = (engine?, rate?, together?);
    let is_its =
        |row: &&Vec<Cell>| matches!(&row[engine], Cell::Text(text) if text.trim_matches('`') == name);
    let row =
        table.rows.iter().find(is_its).ok_or_else(|| format!("`{}` has no row of {name}", table.key))?;
    let Cell::Estimate(packets) = &row[rate] else {
        return Err(format!("{name}: no rate of several rounds"));
    };
    let together = number(&row[together]).ok_or_else(|| format!("{name}: no share back to back"))?;
    Ok((packets.median / RATE, packets.quartiles.map(|value| value / RATE), together))
}

#[cfg(test)]
mod tests {
    use super::*;
    use softtimers_measure::estimate::Estimate;

    fn table(engines: &[&str]) -> Table {
        let mut table = Table::new("kept-16", &[("engine", 0), ("packets/s", 1), ("back to back", 3)]);
        for engine in engines {
            let rate = Estimate::from_values([12_500.0, 25_000.0, 25_000.0]);
            table.row([format!("`{engine}`").into(), rate.into(), 0.05.into()]);
        }
        table
    }

    #[test]
    fn bars_have_the_median_and_the_spread_of_their_engine() {
        let bars = bars(&table(&ENGINES)).unwrap();
        assert_eq!(bars.len(), 3);
        let svg = drawn(&[(16, bars)]).unwrap();
        assert!(svg.contains(">100.0% · 5.0%<") && svg.contains(">16 requests in a row<"), "{svg}");
        // From the lower quartile, half the rate, to the upper one.
        assert!(svg.contains("M214.0,59.0h130.0"), "{svg}");
    }

    #[test]
    fn an_engine_without_a_row_is_named() {
        assert_eq!(bars(&table(&["soft"])).unwrap_err(), "`kept-16` has no row of loop");
    }
}
