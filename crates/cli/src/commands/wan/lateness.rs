//! Whether the emulation was what was set: `wan` knows how late it was itself, and says so when that is too much.

use super::show::DirectionReport;

/// Returns why the figures of a path are inconclusive: its packets left so late that the delay was not the one set.
/// A path without a delay promises none.
pub(super) fn too_late(name: &str, ways: [(&str, &DirectionReport); 2]) -> Option<String> {
    let worst = ways.into_iter().filter_map(|(way, report)| {
        let (late, set) = (report.measured.lateness_ns.p99?, report.set.delay_ns);
        (set > 0 && late > (set / SHARE).max(FLOOR_NS)).then_some((late, set, way))
    });
    let (late, set, way) = worst.max_by_key(|&(late, set, _)| late.saturating_mul(1_000) / set)?;
    let millis = |nanos: u64| nanos as f64 / 1e6;
    Some(format!(
        "{name}wan itself was {:.3} ms late (p99 {way}) on a delay of {:.3} ms; a tenth of it is allowed",
        millis(late),
        millis(set),
    ))
}

/// Up to this part of the delay that was set.
const SHARE: u64 = 10;
/// The lateness of an ordinary wake-up, which says nothing about the machine: shorter delays are for virtual time.
const FLOOR_NS: u64 = 250_000;

#[cfg(test)]
mod tests {
    use super::super::show::{MeasuredReport, SetReport};
    use super::*;

    fn report(delay_ns: u64, p99: Option<u64>) -> DirectionReport {
        let mut measured = MeasuredReport::default();
        measured.lateness_ns.p99 = p99;
        DirectionReport { set: SetReport { delay_ns, ..SetReport::default() }, measured }
    }

    #[test]
    fn a_tenth_of_the_delay_is_too_late() {
        let good = report(32_000_000, Some(3_200_000));
        let late = report(32_000_000, Some(25_000_000));
        assert_eq!(too_late("", [("up", &good), ("down", &good)]), None);
        let said = too_late("", [("up", &good), ("down", &late)]).unwrap();
        assert!(said.contains("25.000 ms late (p99 down) on a delay of 32.000 ms"), "{said}");
        // Nothing came, no delay was set, or it was a wake-up.
        for fine in [report(32_000_000, None), report(0, Some(25_000_000)), report(100_000, Some(200_000))] {
            assert_eq!(too_late("", [("up", &fine), ("down", &fine)]), None);
        }
    }
}
