//! A sweep as lines of comma-separated values: parts of it are written so, and put together again by [`Merge`].
//!
//! ```text
//!   sweep,point,quota,kernel,offered_pps,output_pps
//!   5f0c…,17/240,8,polled,8000,5127.5
//!   │     └── which of how many points, so that a missing one is noticed
//!   └── the same for the same experiment, parameters, seed and version
//! ```

mod merge;

use std::fmt::Write as _;

use crate::sweep::{PointRows, Sweep};

pub use merge::{Merge, MergeError};

/// The first two columns of every sweep.
const HEAD: &str = "sweep,point,";

/// Returns the first line: the names of the columns.
pub fn header(sweep: &Sweep) -> String {
    let axes = sweep.axes_beside_columns().map(|(_, name)| name.to_owned());
    let columns = sweep.experiment().columns.iter().map(|column| column.name.to_owned());
    format!("{HEAD}{}\n", axes.chain(columns).collect::<Vec<_>>().join(","))
}

/// Returns the lines of one point.
pub fn lines(sweep: &Sweep, found: &PointRows) -> String {
    let mut lines = String::new();
    for row in &found.rows {
        let _ = write!(lines, "{:016x},{}/{}", sweep.fingerprint(), found.point + 1, sweep.points());
        for (index, _) in sweep.axes_beside_columns() {
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
