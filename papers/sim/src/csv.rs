//! A sweep as lines of comma-separated values: its parts are written in this form, and [`Merge`] joins them
//! again.
//!
//! ```text
//!   sweep,point,row,build,seed,rate_pps,kernel,quota,offered_pps,output_pps
//!   5f0c…,17/240,1/1,9a2b…,1,8000,polled,8,8000,5127.5
//!   │     │      │   └── SHA-256 of the program; of a recording a column of its own follows the seed
//!   │     │      └── which of how many rows of the point, so that one that was cut off is noticed
//!   │     └── which of how many points, so that a missing one is noticed
//!   └── the same for the same experiment, parameters, seeds, version and build
//! ```
//!
//! Numbers are written with all digits. A column that is a mean of several seeds is followed by the standard
//! deviation of one run, `_sd`, half the length of the mean's 95% confidence interval, `_ci95`, and the
//! number of seeds that had a value, `_n`.

mod finished;
mod merge;

use std::fmt::Write as _;

use crate::parameter::Parameters;
use crate::recording::Sha256;
use crate::setting::Setting;
use crate::sweep::{PointRows, Sweep};
use crate::table::Value;

pub use finished::finished;
pub use merge::{Merge, MergeError};

/// The first columns of every sweep.
const HEAD: &str = "sweep,point,row,";

/// Returns the first line: the names of the columns.
pub fn header(sweep: &Sweep) -> String {
    let mut names = vec!["build".to_owned()];
    if !is_swept(sweep, "seed") {
        names.push("seed".to_owned());
    }
    if sweep.runs().seeds.get() > 1 {
        names.push("seeds".to_owned());
    }
    names.extend(inputs(sweep, 0).into_iter().map(|(name, _)| name));
    names.extend(sweep.axes_beside_columns().map(|(_, name)| sweep.key(name)));
    for column in sweep.experiment().columns {
        names.push(column.key().into_owned());
        if sweep.has_means(column) {
            names.extend(["sd", "ci95", "n"].map(|of| format!("{}_{of}", column.name)));
        }
    }
    if sweep.runs().skips {
        names.push("reason".to_owned());
    }
    format!("{HEAD}{}\n", names.join(","))
}

/// Returns the lines of one point.
pub fn lines(sweep: &Sweep, found: &PointRows) -> String {
    let runs = sweep.runs();
    let at = sweep.at(found.point);
    let point = format!("{:016x},{}/{}", sweep.fingerprint(), found.point + 1, sweep.points());
    let mut first = String::new();
    if let Some(build) = runs.build {
        let _ = write!(first, "{build}");
    }
    if !is_swept(sweep, "seed") {
        let _ = write!(first, ",{}", runs.seed);
    }
    if runs.seeds.get() > 1 {
        let _ = write!(first, ",{}", found.seeds);
    }
    for (_, sha256) in inputs(sweep, found.point) {
        first.push(',');
        if let Some(sha256) = sha256 {
            let _ = write!(first, "{sha256}");
        }
    }
    for (index, _) in sweep.axes_beside_columns() {
        let _ = write!(first, ",{}", field(&at[index].1.value().data().to_string()));
    }
    let mut lines = String::new();
    for (row, number) in found.rows.iter().zip(1..) {
        let _ = write!(lines, "{point},{number}/{},{first}", found.rows.len());
        for (value, column) in row.iter().zip(sweep.experiment().columns) {
            let _ = write!(lines, ",{}", field(&column.data(value).to_string()));
            if sweep.has_means(column) {
                let mean = if let Value::Mean(mean) = value { Some(mean) } else { None };
                for number in [mean.and_then(|mean| mean.deviation), mean.and_then(|mean| mean.interval)] {
                    let _ = write!(lines, ",{}", Value::from(number).data());
                }
                let _ = write!(lines, ",{}", mean.map_or(0, |mean| mean.seeds));
            }
        }
        if runs.skips {
            let _ = write!(lines, ",{}", field(found.skipped.as_deref().unwrap_or_default()));
        }
        lines.push('\n');
    }
    lines
}

/// Returns the columns of the inputs, each with the SHA-256 that it has at a point: of the machine, and of recordings, of which a point may
/// have none.
pub fn inputs(sweep: &Sweep, point: usize) -> Vec<(String, Option<Sha256>)> {
    let at = sweep.at(point);
    let of_recording = |name: &str| {
        let swept = sweep.axes().iter().zip(&at).find(|(axis, _)| axis.name == name);
        match swept.map(|(_, (_, setting))| setting).or_else(|| setting(sweep.base(), name)) {
            Some(Setting::Trace(Some(recording))) => Some(recording.sha256),
            _ => None,
        }
    };
    let machine = sweep.base().machine_origin();
    let machine = machine.map(|machine| ("machine_sha256".to_owned(), Some(machine.sha256)));
    let recordings = recordings(sweep).map(|name| (format!("{name}_sha256"), of_recording(name)));
    machine.into_iter().chain(recordings).collect()
}

/// The parameters that are a recording at some point.
fn recordings(sweep: &Sweep) -> impl Iterator<Item = &'static str> + '_ {
    let is_recording = |setting: &Setting| matches!(setting, Setting::Trace(Some(_)));
    let swept = move |name| {
        let axis = sweep.axes().iter().find(|axis| axis.name == name);
        axis.map(|axis| axis.values.iter().any(|(_, setting)| is_recording(setting)))
    };
    let names = sweep.base().iter();
    names
        .filter(move |(name, setting)| swept(*name).unwrap_or_else(|| is_recording(setting)))
        .map(|(name, _)| name)
}

fn is_swept(sweep: &Sweep, name: &str) -> bool {
    sweep.axes().iter().any(|axis| axis.name == name)
}

fn setting<'a>(parameters: &'a Parameters, name: &str) -> Option<&'a Setting> {
    parameters.iter().find(|(known, _)| *known == name).map(|(_, setting)| setting)
}

/// RFC 4180: quoted where necessary.
fn field(text: &str) -> String {
    let plain = !text.contains([',', '"', '\n', '\r']);
    if plain { text.to_owned() } else { format!("\"{}\"", text.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        assert_eq!(field("unmodified"), "unmodified");
        assert_eq!(field("unmodified, no screend"), "\"unmodified, no screend\"");
        assert_eq!(field("a\"b"), "\"a\"\"b\"");
    }
}
