//! The picture of papers/docs/sim.md: receive livelock, the paper's points beside the simulator's lines.
//!
//! Every seed gives nearly the same line, and the first one always the same: so the picture is held against the simulator.

use softtimers_sim::{Parameters, Setting, Steps, Streams, Value, experiments};

use softtimers_pages::pictures::chart::{Chart, Line, Mark};

/// The series of the paper's figure 5, 6-3 in the conference version, and what they are called here.
const SERIES: [(&str, &str, &str); 3] = [
    ("polling quota=5", "polled, quota 5", "one"),
    ("unmodified", "unmodified", "two"),
    ("polling no quota", "polled, no quota", "three"),
];
const FIGURE: &str = "6-3";

/// Draws packets that leave a router by packets that arrive.
fn draw() -> Result<String, String> {
    let rows = rows()?;
    let mut lines = Vec::new();
    for (series, name, colour) in SERIES {
        let of = |output: fn(&Row) -> f64| -> Vec<(f64, f64)> {
            rows.iter().filter(|row| row.series == series).map(|row| (row.input, output(row))).collect()
        };
        let (model, paper) = (of(|row| row.model), of(|row| row.paper));
        lines.push(Line { name: name.to_owned(), colour, mark: Mark::Solid, points: model });
        lines.push(Line { name: String::new(), colour, mark: Mark::Dots, points: paper });
    }
    lines.push(Line {
        name: "dots: the paper".to_owned(),
        colour: "other",
        mark: Mark::Dots,
        points: vec![],
    });
    Chart {
        title: "Packets that leave a router by packets that arrive: a polled kernel with a quota stays at its best, the unmodified kernel \
                falls, and polled without a quota it delivers nothing",
        up: "leave, thousand packets/s",
        across: "arrive, thousand packets/s",
        lines,
    }
    .draw()
}

/// A point of a figure, in thousands of packets a second.
struct Row {
    series: String,
    input: f64,
    paper: f64,
    model: f64,
}

/// The figure's points by input.
fn rows() -> Result<Vec<Row>, String> {
    let experiment = experiments::find("livelock-figures").ok_or("there is no livelock-figures")?;
    let parameters = Parameters::new(experiment.parameters).with("figure", Setting::Choice(FIGURE));
    let rows = (experiment.run)(&parameters, Streams::new(1), &Steps::unwatched());
    let place = |name: &str| experiment.columns.iter().position(|column| column.name == name);
    let places = ["series", "input_pps", "paper_pps", "output_pps"].map(place);
    let [Some(series), Some(input), Some(paper), Some(model)] = places else {
        return Err("livelock-figures has other columns".to_owned());
    };
    let thousands = |value: &Value| if let Value::Real(value) = value { value / 1e3 } else { 0.0 };
    let row = |row: Vec<Value>| Row {
        series: row[series].data().to_string(),
        input: thousands(&row[input]),
        paper: thousands(&row[paper]),
        model: thousands(&row[model]),
    };
    let mut rows: Vec<Row> = rows.map_err(|error| error.to_string())?.into_iter().map(row).collect();
    rows.sort_by(|one, other| one.input.total_cmp(&other.input));
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// `cargo xtask papers` writes it.
    #[test]
    fn the_picture_is_what_the_simulator_gives() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/livelock.svg");
        if std::env::var_os("BLESS").is_some() {
            return fs::write(file, draw().unwrap()).expect("the picture can be written");
        }
        assert!(fs::read_to_string(file).unwrap() == draw().unwrap(), "cargo xtask papers");
    }

    #[test]
    fn each_series_has_the_papers_points_and_the_models() {
        let rows = rows().unwrap();
        for (series, ..) in SERIES {
            let of: Vec<&Row> = rows.iter().filter(|row| row.series == series).collect();
            assert_eq!(of.len(), 27, "{series}");
            assert!(of.iter().all(|row| row.input > 1.0 && row.paper > 0.0), "{series}");
        }
        // The livelock: with a quota the best rate stays, without one nothing leaves.
        let last = |series: &str| rows.iter().rfind(|row| row.series == series).unwrap().model;
        assert!(last("polling quota=5") > 5.0 && last("polling no quota") < 0.1);
    }
}
