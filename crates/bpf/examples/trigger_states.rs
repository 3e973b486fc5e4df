//! Counts how often this kernel passes trigger states: `cargo run -p softtimers-bpf --example trigger_states -- 5` (seconds; as root).

use std::time::Duration;

use softtimers_bpf::{Error, Probe, ProbeConfig, Source};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds = std::env::args().nth(1).map_or(Ok(1), |text| text.parse())?;
    let probe = match Probe::start(&ProbeConfig::default()) {
        Err(why @ (Error::Privilege { .. } | Error::NoBtf(_) | Error::TooOld { .. })) => {
            println!("not possible here: {why}");
            return Ok(());
        }
        started => started?,
    };
    for (tracepoint, how) in probe.tracepoints() {
        if let Err(why) = how {
            eprintln!("{tracepoint}: {why}");
        }
    }
    let before = probe.intervals()?;
    #[expect(clippy::disallowed_methods, reason = "the kernel counts in the meantime")]
    std::thread::sleep(Duration::from_secs(seconds));
    for processor in probe.intervals()?.since(&before).processors {
        let busy = processor.busy();
        let Some(mean) = busy.mean_ns() else { continue };
        let median = busy.histogram().quantile(0.5).unwrap_or(0);
        println!("cpu {}: {} intervals, mean {mean:.0} ns, median {median} ns", processor.cpu, busy.count);
        for source in Source::ALL {
            println!("  {source:16} {}", processor.ended_by(source).count);
        }
        println!(
            "  {:16} {}; samples {}",
            "(idle)",
            processor.idle.count,
            probe.samples(processor.cpu)?.len()
        );
    }
    Ok(())
}
