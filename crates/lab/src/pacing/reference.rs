//! What the paper and the independent model say of Tables VIII and IX.
//!
//! The tables' bodies are lost; `reference/pacing.csv` has what the text still tells of them, and the means
//! and deviations of a model that was written from the text alone, with the trigger states of
//! [`WebServer`](softtimers::WebServer).

use std::error::Error;
use std::str::FromStr;

/// A row of the tables: what is known of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Reference {
    /// `soft`, or `tick` for the hardware timer.
    pub method: String,
    /// In microseconds.
    pub target: u64,
    /// In microseconds; none of a hardware timer.
    pub burst: Option<u64>,
    /// The paper's mean gap, in microseconds.
    pub paper_mean: Option<f64>,
    /// The model's.
    pub model_mean: Option<f64>,
    /// The standard deviation of the model's gaps.
    pub model_stddev: Option<f64>,
}

/// All rows.
///
/// # Errors
/// None: a test reads the table that is built in.
pub fn read() -> Result<Vec<Reference>, Box<dyn Error>> {
    parse(TABLE)
}

/// Reads a table with that header; cells may be empty where nothing is known.
///
/// # Errors
/// The number of the line that cannot be read, and what is wrong with it.
pub fn parse(table: &str) -> Result<Vec<Reference>, Box<dyn Error>> {
    let mut lines = table.lines().zip(1..);
    if lines.next().is_none_or(|(header, _)| header != HEADER) {
        return Err(format!("line 1: the columns are {HEADER}").into());
    }
    lines.map(|(line, number)| row(line).map_err(|error| format!("line {number}: {error}").into())).collect()
}

fn row(line: &str) -> Result<Reference, String> {
    let cells: Vec<&str> = line.split(',').collect();
    let &[method, target, burst, paper_mean, model_mean, model_stddev] = cells.as_slice() else {
        return Err(format!("{} cells; 6 are needed", cells.len()));
    };
    Ok(Reference {
        method: method.to_owned(),
        target: number(target)?.ok_or("no target")?,
        burst: number(burst)?,
        paper_mean: number(paper_mean)?,
        model_mean: number(model_mean)?,
        model_stddev: number(model_stddev)?,
    })
}

fn number<T: FromStr>(cell: &str) -> Result<Option<T>, String> {
    match cell {
        "" => Ok(None),
        cell => cell.parse().map(Some).map_err(|_| format!("'{cell}' is no number of its column")),
    }
}

const TABLE: &str = include_str!("../../reference/pacing.csv");
const HEADER: &str = "method,target_us,burst_us,paper_mean_us,model_mean_us,model_stddev_us";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_cell_of_the_experiment() {
        let table = read().unwrap();
        assert_eq!(table.len(), 14);
        for target in [40, 60] {
            let soft: Vec<_> =
                table.iter().filter(|row| row.target == target && row.method == "soft").collect();
            let bursts: Vec<_> = soft.iter().filter_map(|row| row.burst).collect();
            assert_eq!(bursts, [12, 15, 20, 25, 30, 35]);
            assert!(soft.is_sorted_by_key(|row| row.model_mean));
        }
        let known = |row: &Reference| row.paper_mean.map(|mean| (row.target, row.burst, mean));
        let known: Vec<_> = table.iter().filter_map(known).collect();
        assert!(known.contains(&(40, Some(35), 65.9)) && known.contains(&(60, None, 63.6)), "{known:?}");
    }

    #[test]
    fn a_bad_line_is_named() {
        let error = |text: &str| parse(text).unwrap_err().to_string();
        assert!(error("a,b\n").starts_with("line 1: the columns are method"));
        assert_eq!(error(&format!("{HEADER}\nsoft,40,12,,,\nsoft,40\n")), "line 3: 2 cells; 6 are needed");
        assert_eq!(error(&format!("{HEADER}\nsoft,,12,,,\n")), "line 2: no target");
        assert_eq!(error(&format!("{HEADER}\nsoft,40,x,,,\n")), "line 2: 'x' is no number of its column");
    }
}
