#!/bin/sh
# crossbeam's ticks drift: 5,000 of 200 us take a quarter longer than a second.
#
# Expected: messages at regular intervals: each is late by its own wake-up, and lateness does not add up.
# Found:    a receiver that waits sets the next tick one interval after the moment at which its wait for this one ended or the
#           earlier tick, whichever is later, so each wake-up's lateness moves all later ticks.
# Of:       crossbeam-channel 0.5.15, Linux 6.18.44. Needs cargo.
# Method:   1,000 ticks of 1 ms and 5,000 of 200 us; beside them sleeps until absolute times, with the same wake-ups.
#
# Seen:     1000 ticks of 1000 us: 104% of their time; by absolute times 100%
#           5000 ticks of 200 us: 125% of their time; by absolute times 100%
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
command -v cargo > "$dir/found" || { echo "skipped: cargo is missing"; exit 77; }
cd "$dir"
mkdir src
cat > Cargo.toml <<'TOML'
[package]
name = "ticks"
version = "0.0.0"
edition = "2021"

[dependencies]
crossbeam-channel = "=0.5.15"

[workspace]
TOML
cat > src/main.rs <<'RS'
use std::time::{Duration, Instant};

fn main() {
    let mut same = true;
    for (count, micros) in [(1_000u32, 1_000), (5_000, 200)] {
        let interval = Duration::from_micros(micros);
        let percent = |begin: Instant| 100.0 * begin.elapsed().as_secs_f64() / (interval * count).as_secs_f64();

        let begin = Instant::now();
        let ticks = crossbeam_channel::tick(interval);
        for _ in 0..count {
            ticks.recv().unwrap();
        }
        let ticked = percent(begin);

        let begin = Instant::now();
        for number in 1..=count {
            std::thread::sleep((begin + interval * number).saturating_duration_since(Instant::now()));
        }
        let absolute = percent(begin);
        println!("{count} ticks of {micros} us: {ticked:.0}% of their time; by absolute times {absolute:.0}%");
        same &= micros > 200 || ticked > absolute + 5.0;
    }
    if !same {
        println!("changed");
        std::process::exit(1);
    }
}
RS
cargo --version
CARGO_TARGET_DIR="$dir/target" cargo build --quiet > log 2>&1 ||
    { echo "skipped: the crates cannot be built: $(tail -n 1 log)"; exit 77; }
target/debug/ticks
