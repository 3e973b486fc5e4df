//! Tables X and XI of the soft timers paper with quinn: `cargo bench -p softtimers-bench --bench quinn_start
//! [-- PACKETS]`, up to so many packets, 100,000 if nothing is said. See [`softtimers_bench::start`]. The kernel's TCP
//! beside it, where namespaces may be made, in real time and up to 10,000 packets.

mod tcp;

use std::error::Error;
use std::process::ExitCode;

use softtimers_bench::start::{Path, Way, restart, time};
use softtimers_bench::turns;

/// Of the kernel's TCP.
const CONTROLS: [&str; 2] = ["cubic", "bbr"];
const MOST_REAL: u64 = 10_000;
const SIZES: [u64; 6] = [5, 10, 100, 1_000, 10_000, 100_000];

fn main() -> ExitCode {
    turns::main("quinn_start", tables)
}

fn tables(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let most = arguments.first().map(|word| word.parse::<u64>()).transpose()?.unwrap_or(u64::MAX);
    println!(
        "Seconds until the last byte, in virtual time; in brackets how much less than from two packets."
    );
    for mbit in [50, 100] {
        for set_up in [false, true] {
            let title = if set_up { "with connection set-up" } else { "on a connection that is there" };
            println!("\n{mbit} Mbit/s, 100 ms, {title}:\n");
            println!(
                "| packets | slow start, 2 | quinn, 10 | known | from 50% | from 10% | from 10%, after idle |"
            );
            println!("|---|---|---|---|---|---|---|");
            for packets in SIZES.into_iter().filter(|&packets| packets <= most) {
                println!("| {packets} | {} |", row(Path { mbit }, packets, set_up)?.join(" | "));
            }
        }
    }
    println!(
        "\nThe kernel's TCP over the same path in real time, seconds, without connection set-up / with:\n"
    );
    let sizes: Vec<u64> = SIZES.into_iter().filter(|&packets| packets <= most.min(MOST_REAL)).collect();
    match kernel(&sizes) {
        Ok(lines) => lines.iter().for_each(|line| println!("{line}")),
        Err(reason) => println!("not possible here: {reason}"),
    }
    Ok(())
}

fn kernel(sizes: &[u64]) -> Result<Vec<String>, Box<dyn Error + Send + Sync>> {
    let heads: Vec<String> = sizes.iter().map(|packets| format!("{packets} packets")).collect();
    let mut lines = vec![format!("| Mbit/s | control | {} |", heads.join(" | "))];
    lines.push(format!("|---|---|{}", "---|".repeat(sizes.len())));
    for mbit in [50, 100] {
        for control in CONTROLS {
            let cells = match tcp::times(Path { mbit }, control, sizes) {
                Ok(times) => {
                    times.iter().map(|[without, with]| format!("{without:.3} / {with:.3}")).collect()
                }
                // A kernel may lack one of them.
                Err(reason) if !lines[2..].is_empty() => vec![format!("{reason}")],
                Err(reason) => return Err(reason),
            };
            lines.push(format!("| {mbit} | {control} | {} |", cells.join(" | ")));
        }
    }
    Ok(lines)
}

fn row(path: Path, packets: u64, set_up: bool) -> Result<Vec<String>, Box<dyn Error>> {
    let known = [100, 50, 10].map(|percent| Way::Known { percent });
    let two = time(path, Way::TwoPackets, packets, set_up)?.as_secs_f64();
    let mut cells = vec![format!("{two:.3}")];
    let mut against =
        |seconds: f64| cells.push(format!("{seconds:.3} ({:.0}%)", 100.0 * (1.0 - seconds / two)));
    for way in [Way::Default].into_iter().chain(known) {
        against(time(path, way, packets, set_up)?.as_secs_f64());
    }
    if set_up {
        cells.push("–".into());
    } else {
        against(restart(path, Way::Known { percent: 10 }, packets)?.as_secs_f64());
    }
    Ok(cells)
}
