//! Lines of comma-separated values: what parts of a sweep are written as, and put together from.
//!
//! ```text
//!   sweep,point,quota,kernel,offered_pps,output_pps
//!   5f0c…,17/240,8,polled,8000,5127.5
//!   │     └── of so many, so that a missing one is noticed
//!   └── the same for the same experiment, parameters, seed and version
//! ```

use std::fmt::Write as _;

use softtimers_sim::sweep::PointRows;
use softtimers_sim::{Column, Sweep};

/// The names of the first two columns.
pub const HEAD: &str = "sweep,point,";

/// The axes that are no columns anyway: what is swept is to be seen.
pub fn shown_axes(sweep: &Sweep) -> impl Iterator<Item = (usize, &'static str)> + '_ {
    let columns = sweep.experiment().columns;
    let hidden = move |name: &str| columns.iter().any(|column: &Column| column.name == name);
    sweep
        .axes()
        .iter()
        .enumerate()
        .map(|(index, axis)| (index, axis.name))
        .filter(move |(_, name)| !hidden(name))
}

/// The first line.
pub fn header(sweep: &Sweep) -> String {
    let axes = shown_axes(sweep).map(|(_, name)| name.to_owned());
    let columns = sweep.experiment().columns.iter().map(|column| column.name.to_owned());
    format!("{HEAD}{}\n", axes.chain(columns).collect::<Vec<_>>().join(","))
}

/// The lines of a point.
pub fn lines(sweep: &Sweep, found: &PointRows) -> String {
    let mut lines = String::new();
    for row in &found.rows {
        let _ = write!(lines, "{:016x},{}/{}", sweep.fingerprint(), found.point + 1, sweep.points());
        for (index, _) in shown_axes(sweep) {
            let _ = write!(lines, ",{}", field(&found.at[index]));
        }
        for (value, column) in row.iter().zip(sweep.experiment().columns) {
            let _ = write!(lines, ",{}", field(&column.data(value).to_string()));
        }
        lines.push('\n');
    }
    lines
}

/// RFC 4180: in quotes where it must be.
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
