//! Recordings that nothing was fitted to, and a server that never idles.

use std::fmt::Write as _;

use softtimers_core::{Timestamp, TraceBuilder};
use softtimers_sim::{Row, Setting, Value};

use super::{SEEDS, mean, number, of, rows, thousands, value, word};

/// HIP beside its parts on each recording of the repository.
pub(super) fn recorded() -> Vec<(&'static str, Vec<Row>)> {
    let files = [
        ("a page and a download, 5.6 ms", include_str!("../../traces/pcappp_browse_rx.csv")),
        ("browsing over TLS, 36.6 ms", include_str!("../../traces/pcappp_tls_rx.csv")),
    ];
    let simulated = |(name, file): (&'static str, &str)| {
        let mut trace = TraceBuilder::default();
        for line in file.lines() {
            let number = |field: Option<&str>| field.and_then(|field| field.parse().ok());
            let mut fields = line.split(',');
            // The first line has names.
            if let (Some(micros), Some(length)) = (number(fields.next()), number(fields.next())) {
                trace.push(Timestamp::from_micros(micros), u16::try_from(length).expect("a packet's length"));
            }
        }
        let trace = trace.finish().expect("a recording");
        (name, rows("hip", &[("trace", Setting::Trace(Some(trace.into())))], 1, 1))
    };
    files.into_iter().map(simulated).collect()
}

pub(super) fn recordings() -> String {
    let mut table =
        "| | interrupts | polling | HIP | polling: delay | HIP: delay | interrupts, % of packets |\n\
                     |---|---|---|---|---|---|---|"
            .to_owned();
    for (name, found) in recorded() {
        let [interrupts, polling, hip] = &found[..] else { panic!("three schemes: {found:?}") };
        let overhead = |row: &Row| format!("{:.2}", number(row, "overhead_us"));
        let delay = |row: &Row| thousands(number(row, "delay_us"), 0);
        let cells = [
            overhead(interrupts),
            overhead(polling),
            overhead(hip),
            delay(polling),
            delay(hip),
            format!("{:.0}", 100.0 * number(hip, "interrupts") / number(hip, "packets")),
        ];
        let _ = write!(table, "\n| {name} | {} |", cells.join(" | "));
    }
    table
}

/// The gain of polls at trigger states on a saturated server, and their cost in time.
pub(super) fn server() -> String {
    let mut table =
        "| requests a second | interrupts | quota 1 | 2 | 5 | 10 | 15 |\n|---|---|---|---|---|---|---|"
            .to_owned();
    let mut delays = vec![];
    for (shown, server, protocol) in [
        ("Apache, HTTP", "apache", "http"),
        ("Apache, P-HTTP", "apache", "p-http"),
        ("Flash, HTTP", "flash", "http"),
        ("Flash, P-HTTP", "flash", "p-http"),
    ] {
        let _ = write!(table, "\n| {shown}");
        for quota in [1, 2, 5, 10, 15] {
            let found = served(server, protocol, quota);
            // Interrupts stand beside the smallest quota.
            if let [interrupts, _] = &found[..] {
                let _ = write!(table, " | {}", mean(polling(interrupts, "requests_per_s"), 1.0, 0));
            }
            let row = found.last().expect("a row");
            let _ = write!(table, " | +{}%", mean(polling(row, "gain"), 0.01, 1));
            if quota == 1 || quota == 15 {
                delays.push(thousands(value(polling(row, "delay_us")), 0));
            }
        }
        table += " |";
    }
    let _ = write!(
        table,
        "\n\nMost of the gain is that of no interrupts; aggregation adds the rest, and delay: {} µs on average with a quota of one, {} with \
         fifteen\n(Apache, HTTP).",
        delays[0], delays[1]
    );
    table
}

/// A server that polls, interrupts beside it where the quota is 1.
fn served(server: &'static str, protocol: &'static str, quota: u64) -> Vec<Row> {
    let flags = [
        word("server", server),
        word("protocol", protocol),
        ("quota", Setting::Count(quota)),
        ("packets", Setting::Count(2_000)),
    ];
    rows("polling", &flags, 1, SEEDS)
}

/// The least gain of the table and the greatest.
pub(super) fn gains() -> [String; 2] {
    [("apache", "http", 1), ("flash", "p-http", 15)].map(|(server, protocol, quota)| {
        let found = served(server, protocol, quota);
        format!("{:.1}", 100.0 * value(polling(found.last().expect("a row"), "gain")))
    })
}

/// The cell of a row of `softtimers sim polling`.
fn polling<'a>(row: &'a Row, name: &str) -> &'a Value {
    of("polling", row, name)
}
