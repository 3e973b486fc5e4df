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
use softtimers_measure::bar::Bar;
use softtimers_measure::paired::Paired;
use softtimers_measure::result::Table;

use super::trial::{Offer, Rig};
use crate::command::Killed;

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

    /// The peaks of ours and of it, in turn.
    fn compare(&self, rig: &Rig) -> Result<Table> {
        let Peer { driver, name, command } = self;
        let paired = Paired::new(rig.rounds(7)).beside_others();
        let measured = paired.contest(&[()], &mut [OURS, *name], |(), who, round| {
            let forwarder = match *who {
                OURS => rig.forward(&format!("--driver {driver} --mode hybrid"))?,
                _ => rig.forward_by(command)?,
            };
            let peak = peak(rig, forwarder)?;
            ensure!(peak > 0.0, "{who} forwards nothing");
            round.put(who, PEAK, peak / 1e3);
            anyhow::Ok(())
        })?;
        let mut table = Table::of(&format!("{driver}, beside {name}"), &measured, [OURS, name], &[(PEAK, 0)]);
        table.note(format!("{name}: `{command}`"));
        let figure = format!("forward, {driver}, hybrid: peak, against that of {name}, in pairs");
        table.bar(Bar::at_least(figure, 0.95, measured.ratio(PEAK, OURS, name)));
        Ok(table)
    }
}

const OURS: &str = "forward, hybrid";
const PEAK: &str = "peak kpps";

/// Compares with the example and with each that is named.
///
/// # Errors
/// If one does not begin or forwards nothing, or the generator ends badly.
pub(super) fn compare(rig: &Rig) -> Result<Vec<Table>> {
    let bridge = Peer { driver: "packet", name: "the example bridge", command: rig.bridge() };
    std::iter::once(&bridge).chain(&rig.arguments.peers).map(|peer| peer.compare(rig)).collect()
}

/// The most that it forwards.
fn peak(rig: &Rig, forwarder: Killed) -> Result<f64> {
    let mut most = 0.0_f64;
    for rate in RATES {
        most = most.max(rig.load(&Offer::steady(rate, 400))?.1);
    }
    // A peer prints no object.
    let _ = forwarder.ended();
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
