//! The values of the link: its rate or its recording, and its queue.

use std::path::Path;

use softtimers_measure::units::{self, SendRate};
use softtimers_wan::{Aqm, Bottleneck, DeliveryTrace, FqCodelConfig, Limit, PieConfig};

use super::{read, within};
use crate::run::privileges::user::exceeds_caller;

pub(super) fn rate(text: &str) -> Result<Bottleneck, String> {
    if text == "none" {
        return Ok(Bottleneck::NONE);
    }
    let rate = units::rate(text).map_err(|error| match error.to_string() {
        said if said.contains("pps") => {
            "not a rate of a bottleneck; bits a second are, in bit, kbit, Mbit or Gbit, such as 10Mbit or 1.5Gbit, or none"
                .to_owned()
                + &elsewhere(text)
        }
        said => said,
    });
    match rate? {
        SendRate::BitsPerSecond(bits) => Bottleneck::bits_per_second(bits).map_err(|error| error.to_string()),
        SendRate::PacketsPerSecond(_) => Err("a bottleneck has bits a second, such as 10Mbit".into()),
    }
}

/// Returns what a rate would be here that is spelled as iperf3 or tc has it; empty for any other.
fn elsewhere(text: &str) -> String {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
    let (number, unit) = text.split_at(digits);
    let Ok(value) = number.parse::<f64>() else { return String::new() };
    let unit = unit.to_ascii_lowercase();
    let named = [("k", "kbit"), ("m", "Mbit"), ("g", "Gbit")];
    let Some((short, ours)) = named.into_iter().find(|(short, _)| unit.starts_with(short)) else {
        return String::new();
    };
    match unit.strip_prefix(short) {
        Some("") => format!("; iperf3's {text} is {number}{ours}"),
        Some("bps") => {
            format!(
                "; {text} is {number}{ours} if it means bits, and in tc, which means bytes, {}{ours}",
                value * 8.0
            )
        }
        _ => String::new(),
    }
}

pub(super) fn trace(path: &str) -> Result<Bottleneck, String> {
    let text = read(Path::new(path), MOST_OF_A_TRACE)?;
    let trace = DeliveryTrace::parse(&text).map_err(|error| {
        // The message may quote the line.
        if exceeds_caller() { format!("line {}: {TRACE_LINES}", error.line()) } else { error.to_string() }
    })?;
    Ok(Bottleneck::trace(trace))
}

pub(super) fn limit(text: &str) -> Result<Limit, String> {
    let allowed = || "a limit is 20packets, 64KiB or 50ms".to_owned();
    if let Some(packets) = text.strip_suffix("packets") {
        return packets.parse().map(Limit::Packets).map_err(|_| allowed());
    }
    let time = units::duration(text).map(Limit::Time);
    time.or_else(|_| units::bytes(text).map(Limit::Bytes)).map_err(|_| allowed())
}

pub(super) fn aqm(text: &str) -> Result<Aqm, String> {
    let (name, options) = text.split_once(':').map_or((text, None), |(name, options)| (name, Some(options)));
    let is_fair = name == "fq_codel";
    let (mut fair, mut pie) = (FqCodelConfig::default(), PieConfig::default());
    for option in options.into_iter().flat_map(|options| options.split(':')) {
        let time = |text| units::positive_duration(text).map_err(|error| format!("{option}: {error}"));
        match option.split_once('=') {
            None if option == "ecn" => (fair.codel.ecn, pie.ecn) = (true, true),
            None => {
                let target = units::duration(option).map_err(|error| error.to_string())?;
                (fair.codel.target, pie.target) = (target, target);
            }
            Some(("interval", value)) if is_fair || name == "codel" => fair.codel.interval = time(value)?,
            Some(("flows", value)) if is_fair => fair.flows = within(option, value, 1..=65_536)?,
            // With a short one a packet takes many turns.
            Some(("quantum", value)) if is_fair => fair.quantum = within(option, value, 256..=1_048_576)?,
            Some(_) => {
                return Err(format!(
                    "no option {option:?} of {name}; there are TARGET and ecn, of codel and fq_codel interval=TIME, of fq_codel flows=N and quantum=BYTES"
                ));
            }
        }
    }
    match name {
        "codel" => Ok(Aqm::Codel(fair.codel)),
        "fq_codel" => Ok(Aqm::FqCodel(fair)),
        "pie" => Ok(Aqm::Pie(pie)),
        "droptail" if options.is_none() => Ok(Aqm::DropTail),
        _ => Err(format!(
            "no managed queue {text:?}; there are codel, fq_codel and pie, each with :TARGET and :ecn, and droptail"
        )),
    }
}

const TRACE_LINES: &str =
    "each is a whole number of milliseconds, not below the one before, the last above zero";
/// A day of one packet a millisecond has less than a gigabyte; recordings have minutes.
const MOST_OF_A_TRACE: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_iperf3_and_tc_are_named() {
        for (text, part) in [
            ("1M", "iperf3's 1M is 1Mbit"),
            ("2.5g", "iperf3's 2.5g is 2.5Gbit"),
            ("20Mbps", "20Mbps is 20Mbit if it means bits, and in tc, which means bytes, 160Mbit"),
            ("20", "in bit, kbit, Mbit or Gbit"),
            ("100pps", "bits a second"),
        ] {
            let said = rate(text).unwrap_err();
            assert!(said.contains(part), "{text}: {said}");
        }
        assert!(rate("20Mbit").is_ok() && !rate("20x").unwrap_err().contains("iperf3"));
    }
}
