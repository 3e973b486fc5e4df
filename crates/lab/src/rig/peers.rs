//! Other programs that forward, in pairs with `softtimers forward`: the library's example `bridge`, and with
//! `--peer DRIVER=COMMAND` the reader's own.
//!
//! A peak says little without that of another program on the same driver, and from another half minute it says nothing on a
//! machine whose speed drifts: the highest of seven figures, each measured once, was 1.11 of the bridge's in one run and 0.90 in the
//! next. So both take the same loads in turns; and whoever has a forwarder (a sketch in C, the one in use today) names it:
//!
//! ```text
//!   round   forward: 1 M/s, 2.5 M/s    COMMAND: 1 M/s, 2.5 M/s  ─▶  peak ÷ peak   ┐
//!   round   COMMAND …                  forward …                ─▶  …             ┴▶ median
//! ```
//!
//! The command forwards from `r0` to `out` in the router, on processor 1, until SIGTERM.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::Effort;
use super::trial::{Forwarder, Offer, Rig};
use crate::measure::figures::Bar;
use crate::measure::trials::median;

/// More than either can do, and not so much more that the peak is passed.
const RATES: [f64; 2] = [1e6, 2.5e6];

/// A program, and the driver that it takes frames by.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Peer {
    driver: &'static str,
    name: &'static str,
    command: String,
}

impl Peer {
    /// # Errors
    /// If it is not `packet=COMMAND` or `xdp=COMMAND`.
    pub(super) fn of(words: &str) -> Result<Self> {
        let (driver, command) = words.split_once('=').unwrap_or((words, ""));
        let driver = ["packet", "xdp"].into_iter().find(|known| *known == driver);
        ensure!(
            driver.is_some() && !command.trim().is_empty(),
            "--peer `{words}`: packet=COMMAND or xdp=COMMAND is wanted, a program that forwards from r0 to out"
        );
        Ok(Peer { driver: driver.unwrap_or_default(), name: "the peer", command: command.trim().to_owned() })
    }

    /// The ratio of peaks, ours to its, of each round.
    ///
    /// # Errors
    /// If either does not begin, or the generator ends badly.
    fn rounds(&self, rig: &Rig, effort: Effort) -> Result<Vec<[f64; 2]>> {
        let ours = || rig.forward(&format!("--driver {} --mode hybrid", self.driver));
        let its = || rig.forward_by(&self.command);
        (0..if effort.quick { 3 } else { 7 })
            .map(|round| {
                // Whoever is first finds the machine as the other has left it.
                Ok(if round % 2 == 0 {
                    let own = peak(rig, ours()?)?;
                    [own, peak(rig, its()?)?]
                } else {
                    let its = peak(rig, its()?)?;
                    [peak(rig, ours()?)?, its]
                })
            })
            .collect()
    }
}

/// Compares with each that is named, and has a bar and the figures of each.
///
/// # Errors
/// If one does not begin or forwards nothing, or the generator ends badly.
pub(super) fn compare(rig: &Rig, effort: Effort, bars: &mut Vec<Bar>) -> Result<Vec<Value>> {
    let mut figures = Vec::new();
    let bridge = Peer { driver: "packet", name: "the example bridge", command: rig.bridge() };
    for peer in std::iter::once(&bridge).chain(&rig.peers) {
        let Peer { driver, name, command } = peer;
        let rounds = peer.rounds(rig, effort)?;
        ensure!(rounds.iter().all(|peaks| peaks[1] > 0.0), "{name}, `{command}`, forwards nothing");
        let peaks: Vec<_> =
            rounds.iter().map(|[own, its]| format!("{:.0} / {:.0}", own / 1e3, its / 1e3)).collect();
        println!("\n{driver}: peaks of forward / {name}, kpps: {}", peaks.join(", "));
        let figure = format!("forward, {driver}, hybrid: peak, against that of {name}, in pairs");
        bars.push(Bar::at_least(figure, 0.95, median(&rounds, |[own, its]| Some(own / its))));
        figures.push(json!({ "contender": name, "driver": driver, "command": command, "peaks": rounds }));
    }
    Ok(figures)
}

/// The most that it forwards.
fn peak(rig: &Rig, forwarder: Forwarder) -> Result<f64> {
    let mut most = 0.0_f64;
    for rate in RATES {
        most = most.max(rig.load(&Offer::steady(rate, 400))?.1);
    }
    forwarder.end()?;
    Ok(most)
}

#[cfg(test)]
mod tests {
    use super::Peer;

    #[test]
    fn a_peer_has_a_driver_and_a_command() {
        let peer = Peer::of("xdp=./sketch -m xsk -o a=b").unwrap();
        assert_eq!((peer.driver, peer.command.as_str()), ("xdp", "./sketch -m xsk -o a=b"));
        for bad in ["", "xdp", "xdp=", "packet= ", "udp=./sketch", "./sketch"] {
            let error = Peer::of(bad).unwrap_err().to_string();
            assert!(error.contains(&format!("`{bad}`")) && error.contains("packet=COMMAND"), "{error}");
        }
    }
}
