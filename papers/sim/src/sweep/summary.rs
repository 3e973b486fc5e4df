//! Joins the rows of several seeds into one, with means and their precision: [`summed`].

use crate::experiment::RunError;
use crate::table::{Cells, Column, Mean, Row, Value};

/// Joins the rows of several seeds, in the order of the seeds: rows with the same index.
///
/// # Errors
/// If the seeds have different numbers of rows.
pub(super) fn summed(columns: &[Column], seeds: &[Vec<Row>]) -> Result<Vec<Row>, RunError> {
    let rows = seeds.first().map_or(0, Vec::len);
    if let Some(other) = seeds.iter().find(|found| found.len() != rows) {
        return Err(RunError::new(format_args!(
            "seeds: one has {rows} rows and another {}, which have no mean; run them one by one, with --sweep seed=",
            other.len()
        )));
    }
    let cell = |row: usize, (at, column): (usize, &Column)| {
        let values: Vec<&Value> = seeds.iter().map(|found| &found[row][at]).collect();
        joined(column, &values)
    };
    Ok((0..rows).map(|row| columns.iter().enumerate().map(|column| cell(row, column)).collect()).collect())
}

/// Returns whether every row has the required precision in the columns that vary.
pub(super) fn is_certain(columns: &[Column], rows: &[Row], wanted: &super::Precision) -> bool {
    let Some(at) = columns.iter().position(|column| column.name == wanted.column) else { return true };
    rows.iter().all(|row| match &row[at] {
        Value::Mean(Mean { mean, interval: Some(interval), .. }) => *interval <= wanted.share * mean.abs(),
        Value::Mean(_) => false,
        _ => true,
    })
}

fn joined(column: &Column, values: &[&Value]) -> Value {
    let first = values.first().map_or(Value::Missing, |value| (*value).clone());
    let same = values.iter().all(|value| **value == first);
    let numbers: Vec<f64> = values.iter().filter_map(|value| value.number()).collect();
    match first {
        _ if column.given && same => first,
        _ if column.cells == Cells::Words && same => first,
        _ if column.cells == Cells::Words => Value::Text(counted(values)),
        _ if column.greatest && numbers.len() < values.len() => Value::Missing,
        _ if column.greatest => numbers.into_iter().reduce(f64::max).into(),
        _ if numbers.is_empty() => first,
        _ => Value::Mean(Mean::from_numbers(&numbers)),
    }
}

/// `livelock 18, realisable 2`: the most frequent first.
fn counted(values: &[&Value]) -> String {
    let mut words: Vec<(String, usize)> = vec![];
    for value in values {
        let word = if let Value::Text(text) = value { text.as_str() } else { "-" };
        match words.iter_mut().find(|(known, _)| known == word) {
            Some((_, count)) => *count += 1,
            None => words.push((word.to_owned(), 1)),
        }
    }
    words.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    words.iter().map(|(word, count)| format!("{word} {count}")).collect::<Vec<_>>().join(", ")
}

impl Mean {
    /// The mean of at least one number, its deviation and its interval.
    ///
    /// ```
    /// use softtimers_sim::Mean;
    ///
    /// let mean = Mean::from_numbers(&[4.0, 5.0, 6.0]);
    /// assert_eq!((mean.mean, mean.deviation, mean.seeds), (5.0, Some(1.0), 3));
    /// assert!((mean.interval.unwrap() - 4.303 / 3f64.sqrt()).abs() < 1e-9);
    /// ```
    pub fn from_numbers(numbers: &[f64]) -> Self {
        // Computed from the differences to one of them, so that a large mean does not cost digits of the
        // spread.
        let count = numbers.len() as f64;
        let base = numbers.first().copied().unwrap_or(f64::NAN);
        let mean = base + numbers.iter().map(|number| number - base).sum::<f64>() / count;
        let squares: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
        let deviation = (numbers.len() > 1).then(|| (squares / (count - 1.0)).sqrt());
        let interval = deviation.map(|deviation| student(numbers.len() - 1) * deviation / count.sqrt());
        Mean { mean, deviation, interval, seeds: u32::try_from(numbers.len()).unwrap_or(u32::MAX) }
    }
}

/// Returns the 97.5th percentile of Student's t with `freedom` degrees of freedom, to a thousandth.
fn student(freedom: usize) -> f64 {
    match freedom.checked_sub(1).and_then(|at| STUDENT.get(at)) {
        Some(quantile) => *quantile,
        // Cornish and Fisher's expansion by the normal quantile.
        None => {
            let (z, n) = (1.959_963_985, freedom as f64);
            let (z3, z5, z7) = (z * z * z, z * z * z * z * z, z * z * z * z * z * z * z);
            z + (z3 + z) / (4.0 * n)
                + (5.0 * z5 + 16.0 * z3 + 3.0 * z) / (96.0 * n * n)
                + (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * z) / (384.0 * n * n * n)
        }
    }
}

/// For one degree of freedom to ten.
const STUDENT: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_has_the_interval_of_students_t() {
        let mean = Mean::from_numbers(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!((mean.mean, mean.seeds), (3.0, 5));
        assert!((mean.deviation.unwrap() - 2.5_f64.sqrt()).abs() < 1e-12);
        assert!((mean.interval.unwrap() - 2.776 * (2.5_f64 / 5.0).sqrt()).abs() < 1e-9);
        assert_eq!(Mean::from_numbers(&[7.0]), Mean { mean: 7.0, deviation: None, interval: None, seeds: 1 });
        // A spread far below the mean keeps its digits.
        let large = Mean::from_numbers(&[1e15, 1e15 + 2.0]);
        assert_eq!((large.mean, large.deviation.map(f64::round)), (1e15 + 1.0, Some(1.0)));
    }

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (freedom, quantile) in
            [(1, 12.706), (10, 2.228), (11, 2.201), (19, 2.093), (30, 2.042), (120, 1.980)]
        {
            assert!((student(freedom) - quantile).abs() < 1e-3, "{freedom}: {}", student(freedom));
        }
    }

    /// With a known true mean, 95 in a hundred intervals contain it.
    #[test]
    fn intervals_hold_the_mean_as_often_as_they_say() {
        let mut random = softtimers_core::Random::stream(7, 7);
        let mut normal = || (0..12).map(|_| random.below(1 << 32) as f64 / (1u64 << 32) as f64).sum::<f64>();
        for seeds in [3, 20] {
            let holds = (0..4_000).filter(|_| {
                let numbers: Vec<f64> = (0..seeds).map(|_| normal()).collect();
                let found = Mean::from_numbers(&numbers);
                (found.mean - 6.0).abs() <= found.interval.unwrap()
            });
            let share = holds.count() as f64 / 4_000.0;
            assert!((0.935..0.965).contains(&share), "{seeds}: {share}");
        }
    }

    #[test]
    fn words_that_differ_are_counted_and_what_is_given_stays() {
        let columns =
            [Column::words("behaviour", ""), Column::new("rate", "").given(), Column::new("left", "")];
        let row = |word: &str, left: Option<f64>| vec![vec![word.into(), 5u64.into(), left.into()]];
        let found = summed(&columns, &[row("a", Some(1.0)), row("b", None), row("b", Some(2.0))]).unwrap();
        assert_eq!(found[0][0], "b 2, a 1".into());
        assert_eq!(found[0][1], Value::Count(5));
        assert_eq!(
            found[0][2],
            Value::Mean(Mean::from_numbers(&[1.0, 2.0])),
            "a seed without a value is left out"
        );
        let words = [vec![vec![Value::Missing]], vec![vec!["a".into()]]];
        assert_eq!(summed(&columns[..1], &words).unwrap()[0][0], "- 1, a 1".into());
        let greatest = [Column::new("settled", "").greatest()];
        let of = |seeds: &[Option<f64>]| {
            let rows: Vec<_> = seeds.iter().map(|seed| vec![vec![(*seed).into()]]).collect();
            summed(&greatest, &rows).unwrap().swap_remove(0).swap_remove(0)
        };
        assert_eq!(of(&[Some(1.0), Some(9.0), Some(0.0)]), Value::Real(9.0));
        assert_eq!(of(&[Some(1.0), None]), Value::Missing);
        let refused = summed(&columns, &[row("a", None), vec![]]).unwrap_err();
        assert!(refused.to_string().contains("one has 1 rows and another 0"), "{refused}");
    }
}
