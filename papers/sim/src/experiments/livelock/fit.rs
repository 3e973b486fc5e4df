//! `livelock-fit`: the free constants of the router, fitted to all published points at once, and the error of
//! that fit for a figure that was left out.
//!
//! A constant chosen for one figure makes that figure agree, which proves nothing. Here all constants are
//! chosen together, by least squares over the points of all figures, each as a share of its series' peak. A
//! figure that is left out takes no part in the choice, so its error is the one that matters: it is the
//! model's error for a figure that is not published yet.
//!
//! ```text
//!   figures.csv ─▶ series ──▶ residuals ◀── Router::trial, 417 of them ◀── router(free constants)
//!                  without one     └──────▶ least_squares ─────────────────────────┘
//! ```

mod free;
mod least_squares;
mod series;

use super::figures::{PACKETS, Point};
use super::router::Router;
use crate::constants::Livelock;
use crate::experiment::ALWAYS;
use crate::machine::Hardware;
use crate::{Column, Experiment, Need, Parameter, Parameters, Row, RunError, Steps, Streams, Value};
use free::{FREE, router};
use least_squares::{Minimum, Residuals, Variable, minimise};
use series::{Distance, Series, series};

/// The fit, with the distance of each series.
pub(crate) static FIT: Experiment = Experiment {
    name: "livelock-fit",
    about: "The router's free constants, fitted jointly to all published points, and the error of a figure left out",
    details: "Least squares over the points of figures 2, 5, 6, 7, 9 and 10, each as a share of its series' \
              peak; a series that appears in two figures counts once. With --leave-out a figure takes no \
              part in the fit, so its error is that of a prediction. The search starts from values chosen \
              without the figures. With --iterations 0 nothing is fitted: the result is the distance of the \
              present machine. A fit takes minutes.",
    parameters: &[
        Parameter::name_of("leave-out", "The figure to leave out of the fit", series::FIGURES).needs(FITTED),
        Parameter::count("iterations", "Most iterations; 0 leaves the constants as they are", 0..=100, 12),
        PACKETS,
    ],
    columns: &[
        Column::words("of", "constant, series; points that were fitted, or left-out"),
        Column::words("name", "which"),
        Column::words("figure", "the figure of a series, with 'left out' if it was"),
        Column::new("points", "points in the series"),
        Column::new("value", "value of the constant").digits(1),
        Column::new("error", "standard error of the value").digits(1),
        Column::share("bias", "mean difference of model and paper, as a share of the peak"),
        Column::share("rms", "root mean square of the differences, as a share of the peak"),
        Column::share("scatter", "that of the published points about a smooth curve, of the peak"),
    ],
    sweep: &[("leave-out", "none,2,5,6,7,9,10")],
    check: ALWAYS,
    run,
};

/// Without a fit, no figure can be left out.
const FITTED: Need =
    Need { with: "iterations above zero", met: |parameters| parameters.count("iterations") > 0 };

fn run(parameters: &Parameters, streams: Streams, steps: &Steps) -> Result<Vec<Row>, RunError> {
    let (left_out, iterations) = (parameters.word("leave-out"), parameters.count("iterations"));
    let hardware = *parameters.hardware();
    let all = series();
    let (fitted, rest): (Vec<&Series>, Vec<&Series>) = all.iter().partition(|one| one.figure != left_out);
    let trials =
        |of| Trials { hardware, of, packets: parameters.count("packets"), streams, steps, done: 0, most: 0 };
    let mut search = trials(fitted.clone());
    search.most = search.of_search(iterations);
    let kept: Vec<f64> = FREE.iter().map(|free| (free.get)(&hardware.constants.livelock)).collect();
    let found = if iterations == 0 {
        Some(Minimum { errors: vec![None; kept.len()], at: kept })
    } else {
        let variables: Vec<Variable> = FREE.iter().map(|free| free.variable).collect();
        minimise(&variables, iterations, &mut search)
    };
    // The sweep was stopped.
    let Some(found) = found else {
        return Ok(vec![row("constant", "", String::new(), [const { Value::Missing }; 6])]);
    };
    let machine = router(&hardware.constants.livelock, &found.at);
    let mut rows = vec![];
    for (free, error) in FREE.iter().zip(&found.errors) {
        let cells = [
            Value::Missing,
            (free.get)(&machine).into(),
            (*error).into(),
            Value::Missing,
            Value::Missing,
            Value::Missing,
        ];
        rows.push(row("constant", free.name, String::new(), cells));
    }
    for (of, wanted) in [("fitted", &fitted), ("left-out", &rest)] {
        let mut residuals = vec![];
        for one in wanted {
            let found = trials(vec![one]).residuals(&machine, None).unwrap_or_default();
            let figure =
                if of == "fitted" { one.figure.to_owned() } else { format!("{} left out", one.figure) };
            rows.push(distance_row("series", one.name, figure, &found, Some(one.scatter)));
            residuals.extend(found);
        }
        if !residuals.is_empty() {
            rows.push(distance_row(of, "all", String::new(), &residuals, None));
        }
    }
    Ok(rows)
}

fn distance_row(of: &str, name: &str, figure: String, residuals: &[f64], scatter: Option<f64>) -> Row {
    let Distance { points, bias, rms } = Distance::from_residuals(residuals);
    let cells =
        [(points as u64).into(), Value::Missing, Value::Missing, bias.into(), rms.into(), scatter.into()];
    row(of, name, figure, cells)
}

fn row(of: &str, name: &str, figure: String, cells: [Value; 6]) -> Row {
    let figure = if figure.is_empty() { Value::Missing } else { figure.into() };
    [of.into(), name.into(), figure].into_iter().chain(cells).collect()
}

/// The trials of some series.
struct Trials<'a> {
    hardware: Hardware,
    of: Vec<&'a Series>,
    packets: u64,
    streams: Streams,
    steps: &'a Steps<'a>,
    done: u64,
    /// Most trials of the search.
    most: u64,
}

impl Trials<'_> {
    fn points(&self) -> impl Iterator<Item = (&Series, &Point)> {
        self.of.iter().flat_map(|series| series.points.iter().map(move |point| (*series, point)))
    }

    /// The differences of model and paper, as a share of the series' peak. Points that a free constant does
    /// not affect are copied.
    fn residuals(&self, machine: &Livelock, moved: Option<(usize, &[f64])>) -> Option<Vec<f64>> {
        let mut hardware = self.hardware;
        hardware.constants.livelock = *machine;
        let mut all = vec![];
        for (at, (series, point)) in self.points().enumerate() {
            let config = point.config().on(&hardware);
            if let Some((free, before)) = moved
                && !(FREE[free].moves)(&config)
            {
                all.push(before[at]);
                continue;
            }
            if !self.steps.go_on(self.done, self.most.max(1)) {
                return None;
            }
            let found = Router::trial(config, self.packets, self.streams);
            let ours = if config.user { 100.0 * found.user } else { found.output };
            all.push((ours - point.output) / series.peak);
        }
        Some(all)
    }

    /// Divides each residual by the deviation of its series, or multiplies it again.
    fn weighted(&self, residuals: &[f64], divided: bool) -> Vec<f64> {
        let weights = self.points().map(|(series, _)| series.deviation());
        let weigh =
            |(residual, weight): (&f64, f64)| if divided { residual / weight } else { residual * weight };
        residuals.iter().zip(weights).map(weigh).collect()
    }

    /// Approximate number of calls in a search: each iteration has a derivative for each constant, and one or
    /// two steps.
    fn of_search(&self, iterations: u64) -> u64 {
        iterations * (FREE.len() as u64 + 2) + 1
    }
}

impl Residuals for Trials<'_> {
    fn at(&mut self, at: &[f64], moved: Option<(usize, &[f64])>) -> Option<Vec<f64>> {
        let machine = router(&self.hardware.constants.livelock, at);
        let before = moved.map(|(free, before)| (free, self.weighted(before, false)));
        let found = self.residuals(&machine, before.as_ref().map(|(free, before)| (*free, &before[..])))?;
        self.done = (self.done + 1).min(self.most);
        Some(self.weighted(&found, true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Setting, Watch};

    fn fitted(steps: &Steps) -> Vec<Row> {
        let parameters = Parameters::new(FIT.parameters)
            .with("leave-out", Setting::Choice("10"))
            .with("iterations", Setting::Count(1))
            .with("packets", Setting::Count(100));
        run(&parameters, Streams::new(1), steps).unwrap()
    }

    fn words(row: &Row) -> Vec<String> {
        let word = |value: &Value| if let Value::Text(text) = value { text.clone() } else { String::new() };
        row[..3].iter().map(word).collect()
    }

    #[test]
    fn a_figure_that_is_left_out_is_beside_those_that_were_fitted() {
        let rows = fitted(&Steps::unwatched());
        let of = |word: &str| rows.iter().filter(|row| words(row)[0] == word).count();
        assert_eq!([of("constant"), of("series"), of("fitted"), of("left-out")], [FREE.len(), 18, 1, 1]);
        let left = rows.iter().filter(|row| words(row)[2] == "10 left out").count();
        assert_eq!(left, 4);
        assert_eq!(fitted(&Steps::unwatched()), rows, "the same seed, the same fit");
    }

    /// To find these constants takes minutes, and to find their errors seconds.
    #[test]
    fn the_kept_errors_of_figures_left_out_are_those_of_the_kept_constants() {
        let kept = include_str!("../../../tests/tables/livelock-fit.csv");
        let constants = |left_out: &str| -> Vec<f64> {
            let of_fit = kept.lines().map(|line| line.split(',').collect::<Vec<_>>());
            // Behind the sweep, its point and row, the build and the seed.
            let of_fit = of_fit.filter(|cells| cells[5] == left_out && cells[6] == "constant");
            FREE.iter()
                .zip(of_fit)
                .map(|(free, cells)| {
                    assert_eq!(cells[7], free.name);
                    cells[10].parse().unwrap()
                })
                .collect()
        };
        let parameters = Parameters::new(FIT.parameters);
        let (hardware, packets) = (*parameters.hardware(), parameters.count("packets"));
        let mut compared = 0;
        for one in series() {
            let machine = router(&hardware.constants.livelock, &constants(one.figure));
            let of = vec![&one];
            let steps = &Steps::unwatched();
            let trials = Trials { hardware, of, packets, streams: Streams::new(1), steps, done: 0, most: 0 };
            let found = trials.residuals(&machine, None).unwrap();
            let Distance { points, bias, rms } = Distance::from_residuals(&found);
            let wanted = format!("{} left out,{points},,,{bias},{rms},{}", one.figure, one.scatter);
            assert!(kept.contains(&wanted), "{}: {wanted}: softtimers sim livelock-fit --out FILE", one.name);
            compared += 1;
        }
        assert_eq!(compared, 18);
    }

    #[test]
    fn who_wants_it_no_more_waits_for_one_trial_at_most() {
        let watch = Watch::new();
        watch.stop();
        assert_eq!(fitted(&watch.steps()).len(), 1);
    }
}
