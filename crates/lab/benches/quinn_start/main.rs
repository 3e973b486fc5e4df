//! Tables X and XI of the soft timers paper with quinn: `cargo bench -p softtimers-lab --bench quinn_start
//! [-- --packets 100000]`, up to so many packets. See [`softtimers_lab::start`]. The kernel's TCP
//! beside it, where namespaces may be made, in real time and up to 10,000 packets.
#![forbid(unsafe_code)]

mod tcp;

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;
use softtimers_lab::bench::{self, Asked, Done, Section};
use softtimers_lab::start::{Path, Way, restart, time};
use softtimers_measure::result::{Cell, Table};

/// Of the kernel's TCP.
const CONTROLS: [&str; 2] = ["cubic", "bbr"];
const MOST_REAL: u64 = 10_000;
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

#[derive(Parser, Debug)]
#[command(about = "a transfer by slow start, and at the known capacity", disable_version_flag = true)]
struct Arguments {
    #[command(flatten)]
    asked: Asked,
    /// The longest transfer
    #[arg(long, default_value_t = 100_000)]
    packets: u64,
}

const SECTIONS: [Section<u64>; 2] = [("quinn", virtual_time), ("tcp", real_time)];

fn main() -> ExitCode {
    bench::main("quinn_start", |given| {
        let Arguments { asked, packets } = bench::parse("quinn_start", given, &SECTIONS);
        let line = "; seconds until the last byte; in brackets how much less than from two packets";
        asked.run("quinn_start", line, &SECTIONS, &if asked.quick { packets.min(100) } else { packets })
    })
}

/// Transfers in virtual time, on a connection that is there and with its set-up.
fn virtual_time(most: &u64) -> Done<Vec<Table>> {
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

/// The kernel's TCP over the same path; a kernel may lack one of its controls.
fn real_time(most: &u64) -> Done<Vec<Table>> {
    let sizes: Vec<u64> = SIZES.into_iter().filter(|packets| packets <= most.min(&MOST_REAL)).collect();
    let heads =
        sizes.iter().flat_map(|packets| [format!("{packets} packets"), format!("{packets}, with set-up")]);
    let heads: Vec<String> = heads.collect();
    let columns = heads.iter().map(|head| (head.as_str(), 3));
    let mut table =
        Table::new("tcp", &[("Mbit/s", 0), ("control", 0)].into_iter().chain(columns).collect::<Vec<_>>());
    for mbit in [50, 100] {
        for control in CONTROLS {
            match tcp::times(Path { mbit }, control, &sizes) {
                Ok(times) => {
                    let names = [Cell::from(mbit as f64), control.into()];
                    table
                        .rows
                        .push(names.into_iter().chain(times.into_iter().flatten().map(Cell::from)).collect());
                }
                Err(reason) => table.note(format!("{mbit} Mbit/s, {control}: not possible here: {reason}")),
            }
        }
    }
    Ok(vec![table])
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
