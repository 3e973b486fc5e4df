//! The vocabulary of every table: each quantity has one format.
//!
//! ```text
//!   rates    48.0 Mbit/s  5.00 kpps  12.3 k/s      three significant digits, an SI prefix, a space before the unit
//!   times    4.10 µs  191 ns                       the same
//!   volumes  1.20 MB
//!   shares   0.05%  37.0%  100%
//!   counts   50000, and 26/50000 (0.05%) of a whole
//! ```
//!
//! Readers compare figures of different commands and runs, so all are rounded and named by the same rules. A missing
//! measurement is a dash.

use std::time::Duration;

/// A time to show: whole nanoseconds of a counter, or a mean.
pub trait Nanos {
    /// Returns it as nanoseconds.
    fn nanos(self) -> f64;
}

impl Nanos for u64 {
    fn nanos(self) -> f64 {
        self as f64
    }
}

impl Nanos for f64 {
    fn nanos(self) -> f64 {
        self
    }
}

impl Nanos for Duration {
    fn nanos(self) -> f64 {
        self.as_nanos() as f64
    }
}

/// Returns `value` with three significant digits and the SI prefix of `unit` that leaves it below 1,000.
pub fn si(value: f64, unit: &str) -> String {
    scaled(value, &["", "k", "M", "G", "T"], unit)
}

/// Returns a rate of bits: `48.0 Mbit/s`.
pub fn bits(per_second: f64) -> String {
    si(per_second, "bit/s")
}

/// Returns a rate of packets: `5.00 kpps`.
pub fn packets(per_second: f64) -> String {
    si(per_second, "pps")
}

/// Returns the rate of anything else: `12.3 k/s`.
pub fn per_second(rate: f64) -> String {
    si(rate, "/s")
}

/// Returns a volume: `998 B`, `1.20 MB`.
pub fn bytes(count: u64) -> String {
    if count < 1_000 { format!("{count} B") } else { si(count as f64, "B") }
}

/// Returns a time: `191 ns`, `4.10 µs`, `31.2 s`.
pub fn time(time: impl Nanos) -> String {
    let nanos = time.nanos();
    // Counters of nanoseconds have no fraction to show.
    if nanos < 1_000.0 && nanos.fract() == 0.0 {
        return format!("{nanos:.0} ns");
    }
    scaled(nanos, &["n", "µ", "m", ""], "s")
}

/// Returns a configured time without meaningless fractions: `10 s` and `1.5 ms`.
pub fn setting(duration: Duration) -> String {
    let (number, unit) = match duration.as_nanos() {
        0..1_000 => (duration.as_nanos() as f64, "ns"),
        1_000..1_000_000 => (duration.as_nanos() as f64 / 1e3, "µs"),
        1_000_000..1_000_000_000 => (duration.as_secs_f64() * 1e3, "ms"),
        _ => (duration.as_secs_f64(), "s"),
    };
    format!("{} {unit}", (number * 1e3).round() / 1e3)
}

/// Returns a share as a percentage: `0.05%`, `37.0%`, `100%`.
pub fn share(share: f64) -> String {
    let percent = share * 100.0;
    match percent.abs() {
        0.0 => "0%".to_owned(),
        99.95.. => format!("{percent:.0}%"),
        9.995.. => format!("{percent:.1}%"),
        0.005.. => format!("{percent:.2}%"),
        ..1e-7 => "<0.0000001%".to_owned(),
        // One in a million is a finding, not zero.
        tiny => format!("{percent:.*}%", (-tiny.log10().floor()) as usize),
    }
}

/// Returns a count with its share of a whole: `26/50000 (0.05%)`.
pub fn part(count: u64, whole: u64) -> String {
    if whole == 0 {
        count.to_string()
    } else {
        format!("{count}/{whole} ({})", share(count as f64 / whole as f64))
    }
}

/// Returns the end of a run as the end of a list: `, for 10 s, 1000 datagrams at most`; empty without an end.
pub fn end(duration_s: Option<f64>, count: Option<u64>, one: &str) -> String {
    let time = duration_s.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let time = time.map_or_else(String::new, |time| format!(", for {}", setting(time)));
    let count = count.map_or_else(String::new, |count| format!(", {} at most", number(count, one)));
    time + &count
}

/// Returns the measurement as `show` formats it, or a dash.
pub fn or_dash<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), show)
}

/// Returns names with their counts, if not zero: `backup 675  idle 323`.
pub fn counts<N: AsRef<str>>(named: impl IntoIterator<Item = (N, u64)>) -> String {
    let some = named.into_iter().filter(|&(_, count)| count > 0);
    let shown: Vec<String> =
        some.map(|(name, count)| format!("{} {count}", name.as_ref().replace('_', " "))).collect();
    if shown.is_empty() { "-".to_owned() } else { shown.join("  ") }
}

/// Returns `count` and the noun, in the plural unless it is one.
pub fn number(count: u64, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}

fn scaled(value: f64, prefixes: &[&str], unit: &str) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    let steps = (value.abs().log10() / 3.0).floor().clamp(0.0, (prefixes.len() - 1) as f64) as usize;
    let shown = three_digits(value / 1_000f64.powi(steps as i32));
    match (shown.as_str(), prefixes.get(steps + 1)) {
        // Rounded up to the next prefix.
        ("1000", Some(next)) => format!("1.00 {next}{unit}"),
        _ => format!("{shown} {}{unit}", prefixes[steps]),
    }
}

/// Returns three significant digits of a number that is not tiny.
fn three_digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        99.95.. => format!("{value:.0}"),
        9.995.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_are_shown_whatever_the_size() {
        let rates = [0.0, 0.5, 9.996, 99.96, 998.0, 999.6, 5_000.0, 48e6, 9_580_680.0, 1.5e12, 4e15];
        assert_eq!(
            rates.map(bits),
            [
                "0 bit/s",
                "0.50 bit/s",
                "10.0 bit/s",
                "100 bit/s",
                "998 bit/s",
                "1.00 kbit/s",
                "5.00 kbit/s",
                "48.0 Mbit/s",
                "9.58 Mbit/s",
                "1.50 Tbit/s",
                "4000 Tbit/s"
            ]
        );
        let times = [0, 5, 191, 4_096, 999_999, 2_703_331, 31_247_759_108, 3_600_000_000_000];
        let shown = ["0 ns", "5 ns", "191 ns", "4.10 µs", "1.00 ms", "2.70 ms", "31.2 s", "3600 s"];
        assert_eq!(times.map(|nanos: u64| time(nanos)), shown);
        assert_eq!((time(27.41), time(f64::NAN)), ("27.4 ns".to_owned(), "-".to_owned()));
    }

    #[test]
    fn shares_keep_what_is_rare() {
        let shares = [0.0, 1e-7, 0.000_04, 0.000_52, 0.004, 0.37, 0.999_4, 1.0, 9.5];
        let shown = ["0%", "0.00001%", "0.004%", "0.05%", "0.40%", "37.0%", "99.9%", "100%", "950%"];
        assert_eq!(shares.map(share), shown);
        assert_eq!((part(26, 50_000), part(0, 0)), ("26/50000 (0.05%)".to_owned(), "0".to_owned()));
    }

    #[test]
    fn settings_are_shown_as_they_were_typed() {
        let settings = [Duration::from_secs(10), Duration::from_micros(1_500), Duration::from_nanos(40_500)];
        assert_eq!(settings.map(setting), ["10 s", "1.5 ms", "40.5 µs"]);
    }
}
