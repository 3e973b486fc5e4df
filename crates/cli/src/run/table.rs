//! A report for people: [`Table`], a name and a value a row.

use std::time::Duration;

use softtimers_measure::distribution::Distribution;
use softtimers_measure::units::show_duration;

/// Rows of a name and a value, printed in two columns.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Table {
    rows: Vec<(String, String)>,
}

impl Table {
    /// Adds a row.
    pub(crate) fn row(&mut self, name: &str, value: impl ToString) {
        self.rows.push((name.to_owned(), value.to_string()));
    }

    /// Adds the rows of another table.
    pub(crate) fn append(&mut self, mut other: Table) {
        self.rows.append(&mut other.rows);
    }

    /// Adds a share as a percentage, or a dash for what was not measured.
    pub(crate) fn share(&mut self, name: &str, share: Option<f64>) {
        self.row(name, share.map_or_else(|| "-".to_owned(), |share| format!("{:.2}%", share * 100.0)));
    }

    /// Adds a number, or a dash for what was not measured.
    pub(crate) fn number(&mut self, name: &str, number: Option<u64>) {
        self.row(name, number.map_or_else(|| "-".to_owned(), |number| number.to_string()));
    }

    /// Adds a text, broken between words into lines of 100 columns with the name's.
    pub(crate) fn text(&mut self, name: &str, text: &str) {
        let names = self.rows.iter().map(|(name, _)| name.chars().count());
        let width = WIDEST.saturating_sub(names.chain([name.chars().count()]).max().unwrap_or(0) + 2);
        let mut line = String::new();
        let mut name = name;
        for word in text.split_whitespace() {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
                self.row(std::mem::take(&mut name), std::mem::take(&mut line));
            }
            line += if line.is_empty() { "" } else { " " };
            line += word;
        }
        self.row(name, line);
    }

    /// Adds a distribution of nanoseconds, to a thousandth of the unit that each is shown in: five times of any length
    /// have room on a line.
    pub(crate) fn distribution(&mut self, name: &str, distribution: &Distribution) {
        let parts = [
            ("min", distribution.min),
            ("p50", distribution.p50),
            ("p99", distribution.p99),
            ("p99.9", distribution.p999),
            ("max", distribution.max),
        ];
        let show = |(label, value): (&str, Option<u64>)| {
            let nanos = value?;
            let digit =
                [1_000_000_000, 1_000_000].into_iter().find(|&unit| nanos >= unit).unwrap_or(1_000) / 1_000;
            let rounded = nanos.saturating_add(digit / 2) / digit * digit;
            Some(format!("{label} {}", show_duration(Duration::from_nanos(rounded))))
        };
        let shown: Vec<String> = parts.into_iter().filter_map(show).collect();
        self.row(name, if shown.is_empty() { "-".to_owned() } else { shown.join("  ") });
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let width = self.rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        self.rows.iter().try_for_each(|(name, value)| writeln!(f, "{name:width$}  {value}"))
    }
}

/// What a terminal of two pages side by side shows.
const WIDEST: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_in_a_column() {
        let mut table = Table::default();
        table.row("sent", 25_000);
        table.share("back to back", Some(0.004));
        assert_eq!(table.to_string(), "sent          25000\nback to back  0.40%\n");
    }

    #[test]
    fn long_texts_are_broken_between_words() {
        let mut table = Table::default();
        table.text("verdict", &"word ".repeat(30));
        table.text("none", "");
        let lines: Vec<String> = table.to_string().lines().map(str::to_owned).collect();
        assert_eq!(lines[0], format!("verdict  {}", ["word"; 18].join(" ")));
        assert_eq!(lines[1], format!("         {}", ["word"; 12].join(" ")));
        assert_eq!(lines.len(), 3);
    }

    #[test]
    fn distributions_fit_on_a_line() {
        let mut table = Table::default();
        let some = Distribution {
            min: Some(900),
            p50: Some(40_000),
            max: Some(2_500_000),
            ..Distribution::default()
        };
        table.distribution("gap", &some);
        table.distribution("late", &Distribution::default());
        assert_eq!(table.to_string(), "gap   min 900ns  p50 40us  max 2.5ms\nlate  -\n");
        let long = [43_902, 999_999, 9_732_095, 214_844_556, 31_247_759_108].map(Some);
        let [min, p50, p99, p999, max] = long;
        let mut table = Table::default();
        table.distribution("late", &Distribution { min, p50, p99, p999, max, ..Distribution::default() });
        let shown = "min 43.902us  p50 999.999us  p99 9.732ms  p99.9 214.845ms  max 31.248s";
        assert_eq!(table.to_string(), format!("late  {shown}\n"));
    }
}
