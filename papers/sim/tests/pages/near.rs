//! How many of the router's published values the model is near to, and how many their own neighbours are.
//!
//! A published value is one trial, and trials scatter: two of the paper at 3,010 and 3,030 packets/s differ by
//! a third. The neighbours show how near a smooth curve comes at all.

use std::collections::BTreeMap;

use super::residuals::words;
use super::{known, of, rows, value, word};

/// A published value, and the model's.
struct Point {
    at: f64,
    paper: f64,
    ours: f64,
}

/// Counts the values within 5 and within 10%, of the model and of the neighbours.
pub(super) fn in_words() -> String {
    let mut series: BTreeMap<(&str, String), Vec<Point>> = BTreeMap::new();
    for figure in ["6-1", "6-3", "6-4", "6-5", "6-6", "7-1"] {
        for row in rows("livelock-figures", &[word("figure", figure)], 1, 1) {
            let cell = |name| of("livelock-figures", &row, name);
            let either =
                |rate, share| known(cell(rate)).or_else(|| known(cell(share))).expect("a rate or a share");
            let (paper, ours) = (either("paper_pps", "paper_user_share"), either("output_pps", "user_share"));
            let name = words("livelock-figures", &row, "series");
            series.entry((figure, name)).or_default().push(Point {
                at: value(cell("input_pps")),
                paper,
                ours,
            });
        }
    }
    let (mut all, mut model, mut neighbours) = (0, [0; 2], [0; 2]);
    for points in series.values() {
        for (number, point) in points.iter().enumerate().filter(|(_, point)| point.paper.abs() > 1e-9) {
            all += 1;
            for (counts, found) in [(&mut model, point.ours), (&mut neighbours, beside(points, number))] {
                for (count, share) in counts.iter_mut().zip([0.05, 0.1]) {
                    *count += u32::from((found - point.paper).abs() <= share * point.paper);
                }
            }
        }
    }
    let ([near, near_tenth], [beside, beside_tenth]) = (model, neighbours);
    format!(
        "Of the {all} published values above zero the model is within 5% of {near} and within 10% of {near_tenth}. Trials scatter: a line \
         through the\nfour nearest points of the same series is within 5% of {beside} and within 10% of {beside_tenth}."
    )
}

/// The value of a least-squares line through the four nearest points, at that of `number`.
fn beside(points: &[Point], number: usize) -> f64 {
    let here = points[number].at;
    let mut others: Vec<&Point> =
        points.iter().enumerate().filter(|(at, _)| *at != number).map(|(_, point)| point).collect();
    others.sort_by(|one, other| (one.at - here).abs().total_cmp(&(other.at - here).abs()));
    others.truncate(4);
    let mean =
        |of: &dyn Fn(&Point) -> f64| others.iter().map(|point| of(point)).sum::<f64>() / others.len() as f64;
    let (x, y) = (mean(&|point| point.at), mean(&|point| point.paper));
    let square = mean(&|point| (point.at - x) * (point.at - x));
    let product = mean(&|point| (point.at - x) * (point.paper - y));
    y + product / square * (here - x)
}
