//! The papers' own checks, on the runs that docs/data keeps: what a test may not assert of the machine that runs it, it
//! asserts of the file that a page shows.

use softtimers_trials::command::root;
use softtimers_trials::result::Results;

/// A table of a file, as people read its cells.
struct Kept {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Kept {
    fn read(file: &str, key: &str) -> Self {
        let path = root().join("docs/data").join(file).with_extension("json");
        let results = Results::parse(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let table = results.table(key).unwrap_or_else(|| panic!("{} has no table {key}", path.display()));
        let text = table.markdown(&[], |_| true).unwrap();
        let rows = text.lines().skip(2).map(|row| {
            let cells = row.trim_start_matches("| ").trim_end_matches(" |").split(" | ");
            cells.map(str::to_owned).collect()
        });
        Kept { columns: table.columns.clone(), rows: rows.collect() }
    }

    /// The number that a cell of a column begins with, in the only row that begins with these cells.
    fn number(&self, row: &[&str], column: &str) -> f64 {
        let at = self.columns.iter().position(|name| name == column).unwrap();
        let mut found =
            self.rows.iter().filter(|cells| cells.iter().zip(row).all(|(cell, want)| cell == want));
        let (Some(row), None) = (found.next(), found.next()) else { panic!("{row:?} is not one row") };
        let word = row[at].split_whitespace().next().unwrap().trim_end_matches('%').replace(',', "");
        word.parse().unwrap_or_else(|_| panic!("{} is no number", row[at]))
    }
}

/// Soft timers, Tables VI and VII: the order that holds in both kept runs, and that which the paper has the other way round.
#[test]
fn soft_timers_cost_a_server_least_at_every_interval() {
    for file in ["pacing", "pacing-overhead"] {
        let kept = Kept::read(file, "overhead");
        for interval in ["20", "50", "100"] {
            let lost = |by: &str| kept.number(&[interval, by], "server's work lost");
            let [soft, one_shot, periodic] = ["soft", "one-shot signal", "periodic signal"].map(lost);
            assert!(soft < 6.0, "{file}: {soft}% each {interval} µs, where the paper has at most 6");
            assert!(10.0 * soft < one_shot.min(periodic), "{file}: {soft}, {one_shot}, {periodic}");
            // Reversed: one of its signals has the cost of setting the timer, too.
            assert!(interval == "20" || one_shot > periodic, "{file}: {one_shot} and {periodic}");
        }
    }
}

const WORKLOADS: [&str; 7] = [
    "ST-Apache",
    "ST-Apache-compute",
    "ST-Flash",
    "ST-real-audio",
    "ST-nfs",
    "ST-nfs, spin-idle",
    "ST-kernel-build",
];

/// Soft timers, Table IV: the paper's bounds for the worst of its workloads.
#[test]
fn every_workload_has_two_million_intervals_within_the_papers_bounds() {
    let kept = Kept::read("kernel-workloads", "workloads");
    for workload in WORKLOADS {
        let of = |column| kept.number(&[workload], column);
        assert!(of("samples") >= 2_000_000.0, "{workload}: {} samples", of("samples"));
        assert!(of("mean") <= 31.6 && of("median") <= of("mean"), "{workload}: {} µs", of("mean"));
        assert!(of("> 100") < 6.0 && of("> 150") <= of("> 100"), "{workload}: {}%", of("> 100"));
    }
}

/// Soft timers §5.2: a computing process in the background changes little.
#[test]
fn a_computing_process_moves_the_median_by_less_than_a_tenth() {
    let kept = Kept::read("kernel-workloads", "workloads");
    let [alone, beside] = ["ST-Apache", "ST-Apache-compute"].map(|of| kept.number(&[of], "median"));
    assert!((beside / alone - 1.0).abs() < 0.1, "{alone} and {beside} µs");
}

/// Soft timers, figure 3: medians of longer windows lie closer together.
#[test]
fn medians_of_ten_milliseconds_spread_less_than_those_of_one() {
    let kept = Kept::read("kernel-workloads", "over time");
    let [short, long] = ["1 ms", "10 ms"].map(|window| kept.number(&[window], "between their quartiles"));
    assert!(long < short, "{long} and {short} µs");
}

/// Soft timers, Table XII: at saturation polls gain from a quota of two on, over kept connections the more the higher the
/// quota, up to ten. With a connection for each request the server is too often idle to be polled for long.
#[test]
fn a_saturated_server_that_polls_its_interface_gains_with_the_quota() {
    for table in ["napi-kept", "napi-kept-work", "napi-closed"] {
        let kept = Kept::read("server-napi", table);
        let gain = |quota: u32| kept.number(&[&format!("NAPI polled, quota {quota}")], "against epoll");
        let gains = [1, 2, 5, 10].map(gain);
        assert!(gains[1..].iter().all(|&gain| gain > 1.0), "{table}: {gains:?}");
        assert!(table == "napi-closed" || gains[1..].is_sorted(), "{table}: {gains:?}");
    }
}
