//! The paper's and the independent model's figures of Tables VIII and IX.
//!
//! The tables' bodies are lost; `reference/pacing.json` has the values that the text still gives, and the means and
//! deviations of a model written from the text alone, with the trigger states of [`WebServer`](softtimers::WebServer).

use serde::Deserialize;

/// A row of the tables, as far as it is known.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct Reference {
    /// `soft`, or `tick` for the hardware timer.
    pub method: String,
    /// The target interval in microseconds.
    pub target: u64,
    /// The burst interval in microseconds; `None` for a hardware timer.
    pub burst: Option<u64>,
    /// The paper's mean gap, in microseconds.
    pub paper_mean: Option<f64>,
    /// The mean in the model.
    pub model_mean: Option<f64>,
    /// The standard deviation of the model's gaps.
    pub model_stddev: Option<f64>,
}

/// Reads all rows.
///
/// # Errors
/// None: a test reads the built-in table.
pub fn read() -> serde_json::Result<Vec<Reference>> {
    serde_json::from_str(include_str!("../../reference/pacing.json"))
}

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
}
