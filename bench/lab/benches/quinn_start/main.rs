//! Tables X and XI of the soft timers paper with quinn: `cargo bench --manifest-path bench/Cargo.toml --bench quinn_start
//! [-- --packets 100000]`, up to this number of packets. See [`softtimers_lab::start`].
#![forbid(unsafe_code)]

use std::error::Error;
use std::process::ExitCode;

use softtimers_lab::bench::{self, Done, Section};
use softtimers_lab::start::{Path, Way, restart, time};
use softtimers_trials::result::{Cell, Table};

const SIZES: [u64; 6] = [5, 10, 100, 1_000, 10_000, 100_000];

const COLUMNS: [(&str, usize); 7] = [
    ("packets", 0),
    ("slow start, 2", 3),
    ("quinn, 10", 0),
    ("known", 0),
    ("from 50%", 0),
    ("from 10%", 0),
    ("from 10%, after idle", 0),
];

const SECTIONS: [Section<u64>; 1] = [("quinn", measure)];

fn main() -> ExitCode {
    bench::main("quinn_start", &SECTIONS, |asked| {
        Ok(if asked.quick { 100 } else { asked.number("packets").into() })
    })
}

/// Measures transfers in virtual time, on an existing connection and with its set-up.
fn measure(most: &u64) -> Done<Vec<Table>> {
    let mut tables = Vec::new();
    for mbit in [50, 100] {
        for set_up in [false, true] {
            let title = if set_up { "with connection set-up" } else { "on a connection that is there" };
            let mut table = Table::new(&format!("{mbit} Mbit/s, 100 ms, {title}"), &COLUMNS);
            for packets in SIZES.into_iter().filter(|packets| packets <= most) {
                table.rows.push(row(Path { mbit }, packets, set_up)?);
            }
            tables.push(table);
        }
    }
    Ok(tables)
}

fn row(path: Path, packets: u64, set_up: bool) -> Result<Vec<Cell>, Box<dyn Error>> {
    let known = [100, 50, 10].map(|percent| Way::Known { percent });
    let two = time(path, Way::TwoPackets, packets, set_up)?.as_secs_f64();
    let mut cells = vec![Cell::from(packets as f64), two.into()];
    let against = |seconds: f64| Cell::from(format!("{seconds:.3} ({:.0}%)", 100.0 * (1.0 - seconds / two)));
    for way in [Way::Default].into_iter().chain(known) {
        cells.push(against(time(path, way, packets, set_up)?.as_secs_f64()));
    }
    cells.push(if set_up {
        Cell::Nothing(())
    } else {
        against(restart(path, Way::Known { percent: 10 }, packets)?.as_secs_f64())
    });
    Ok(cells)
}
