//! Formats numbers for cells and ticks.

/// Returns a number with its significant digits, for a cell; a dash for none.
pub fn digits(value: Option<f64>) -> String {
    let Some(value) = value.filter(|value| value.is_finite() && value.abs() < LARGEST) else {
        return "–".to_owned();
    };
    let size = value.abs();
    let places = match size {
        _ if size == 0.0 || size >= 1_000.0 => 0,
        _ if size < 1e-12 => return format!("{value:.2e}"),
        _ => (2 - size.log10().floor() as i32).max(0) as usize,
    };
    let shown = format!("{value:.places$}");
    let shown = if shown.contains('.') { shown.trim_end_matches('0').trim_end_matches('.') } else { &shown };
    shown.to_owned()
}

/// Returns a share as a percentage.
pub fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "–".to_owned(), |share| format!("{}%", digits(Some(share * 100.0))))
}

/// A larger number is a mistake, and floating-point arithmetic with it could overflow.
pub const LARGEST: f64 = 1e18;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_mean_something() {
        let shown = [Some(0.0), Some(0.012_345), Some(3.456_7), Some(12_345.6), None].map(digits);
        assert_eq!(shown, ["0", "0.0123", "3.46", "12346", "–"]);
    }
}
