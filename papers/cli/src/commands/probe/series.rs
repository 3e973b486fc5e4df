//! `--series`: a page of HTML with the medians of windows of 1 and 10 ms over time, as figure 3 of soft timers has them.

use std::path::PathBuf;
use std::time::Duration;

use softtimers_bpf::Sample;
use softtimers_measure::failure::Failure;
use softtimers_run::file::OutputFile;
use softtimers_run::page::Sheet;
use softtimers_run::page::axis::{Axis, Scale};
use softtimers_run::page::figure::{Drawn, Figure, Mark, Series};

/// The file that is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SeriesPlan {
    pub(super) path: PathBuf,
    /// Whether an existing file is replaced.
    pub(super) force: bool,
}

/// An open file, and a figure of each CPU so far.
#[derive(Debug)]
pub(super) struct SeriesPage {
    file: OutputFile,
    drawn: Drawn,
}

impl SeriesPage {
    /// Creates the file. To be called before privileges are dropped.
    ///
    /// # Errors
    /// A usage failure if the file exists and may not be replaced, or cannot be written.
    pub(super) fn open(plan: &SeriesPlan) -> Result<Self, Failure> {
        let file = OutputFile::create(&plan.path, "--series", plan.force)?;
        Ok(SeriesPage { file, drawn: Drawn::default() })
    }

    /// Adds the figures of a CPU.
    pub(super) fn add(&mut self, cpu: u32, samples: &[Sample]) {
        for figure in figures(cpu, samples) {
            self.drawn.figure(figure);
        }
    }

    /// Writes the page.
    ///
    /// # Errors
    /// A check failure, as for a full disk.
    pub(super) fn write(self, elapsed: Duration) -> Result<(), Failure> {
        let verdict = "Medians of the intervals between trigger states, by windows (soft timers, figure 3)";
        let facts = vec![("Ran for", format!("{:.1} s", elapsed.as_secs_f64()))];
        let sheet =
            Sheet { title: "softtimers probe", verdict: verdict.to_owned(), facts, drawn: self.drawn };
        self.file.write(&sheet.html())
    }
}

/// Draws a CPU, a figure for each four seconds: a dot for each window of 1 ms, a line through those of 10 ms. Windows
/// without an interval have neither.
fn figures(cpu: u32, samples: &[Sample]) -> Vec<Figure> {
    let points = |length_ns: u64| {
        let point = |(end, median): (u64, u32)| (end as f64 / 1e9, f64::from(median) / 1e3);
        Sample::medians(samples, length_ns).into_iter().map(point).collect::<Vec<_>>()
    };
    let (short, long) = (points(1_000_000), points(10_000_000));
    let last = short.last().map_or(0.0, |point| point.0);
    let spans = (0..).map(|span| f64::from(span) * SPAN_S).take_while(|&from| from < last);
    let drawn = spans.map(|from| {
        let within = |points: &[(f64, f64)]| {
            let of_it = points.iter().copied().filter(|point| point.0 > from && point.0 <= from + SPAN_S);
            of_it.collect::<Vec<_>>()
        };
        let (x, y) = (Axis::new("time", "s", Scale::Linear), Axis::new("median interval", "µs", Scale::Log));
        let text = "The median interval between two trigger states in each window, over time.";
        Figure::new(format!("CPU {cpu}, from {from} s"), text, x, y).with([
            Series::of(Mark::Points, 0, "windows of 1 ms", within(&short)),
            Series::line(1, "windows of 10 ms", within(&long)),
        ])
    });
    drawn.collect()
}

/// As many windows of 1 ms as a figure has room for.
const SPAN_S: f64 = 4.0;

#[cfg(test)]
mod tests {
    use softtimers_bpf::Source;

    use super::*;

    #[test]
    fn each_window_with_an_interval_has_a_point_at_its_end() {
        let call = |gap_ns| Sample { gap_ns, ended_by: Some(Source::Syscall) };
        let idle = Sample { gap_ns: 3_000_000, ended_by: None };
        let samples = [call(400_000), call(600_000), idle, call(20_000), call(30_000), call(40_000)];
        let drawn = figures(2, &samples);
        assert_eq!(drawn.len(), 1);
        assert_eq!(drawn[0].series[0].points, [(0.001, 400.0), (0.005, 30.0)]);
        assert_eq!(drawn[0].series[1].points, [(0.01, 40.0)]);
        assert!(figures(0, &[idle]).is_empty());
        let long: Vec<Sample> = (0..9_000).map(|_| call(1_000_000)).collect();
        let lengths =
            figures(0, &long).iter().map(|figure| figure.series[0].points.len()).collect::<Vec<_>>();
        assert_eq!(lengths, [4_000, 4_000, 1_000]);
    }
}
