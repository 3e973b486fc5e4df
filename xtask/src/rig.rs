//! `cargo xtask rig`: a router between two others, on this machine, loaded up to five times what it can do.
//!
//! Overload needs a sender that does more than the receiver can, and a network in which nothing else happens:
//!
//! ```text
//!   near: g0 ═══ r0 :middle: out ═══ s0 :far         three namespaces, two virtual cables
//!    ▲               ▲                    ▲
//!    send --driver   forward, or what is  nobody: frames are for a station that is not there
//!    xdp, on cpu 0   measured, on cpu 1
//! ```
//!
//! What a frame costs the kernel on its way to the ring is paid on the sender's processor; so what competes for the other
//! one is the forwarder's. It is the livelock paper's rig (§6.1): trials of 10,000 small packets, counted before and
//! after, and longer ones, which are steadier.
//!
//! It needs root, and says what it has skipped without. Whatever ends it, nothing stays behind: [`hosts`].

mod capture;
mod curve;
mod hosts;
mod plain;
mod plot;
mod shares;
mod trial;

use std::fs::OpenOptions;
use std::io::Write as _;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::measure::figures::Bar;
use crate::measure::print_bars;
use crate::report::Outcome;
use crate::workspace::Workspace;
use hosts::Hosts;
use trial::Rig;

/// How thoroughly.
#[derive(Clone, Copy, Debug)]
struct Effort {
    quick: bool,
}

/// What a section has found: its bars, and all its figures.
struct Found {
    bars: Vec<Bar>,
    figures: Value,
}

/// A section, by its name.
type Section = (&'static str, fn(&Rig, Effort) -> Result<Found>);

const SECTIONS: [Section; 8] = [
    ("stages", curve::stages),
    ("forward", plain::forward),
    ("compute", shares::compute),
    ("latency", shares::latency),
    ("sources", shares::sources),
    ("limit", shares::limit),
    ("bursts", shares::bursts),
    ("capture", capture::capture),
];

/// `cargo xtask rig [--quick] [--json FILE] [SECTION …]`.
///
/// # Errors
/// If something cannot be built, or a trial breaks off.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let (mut quick, mut file, mut wanted) = (false, None, Vec::new());
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--quick" => quick = true,
            "--json" => file = Some(words.next().context("--json FILE: a new file is wanted")?),
            name if SECTIONS.iter().any(|(section, _)| *section == name) => wanted.push(name),
            unknown => bail!(
                "`{unknown}`; usage: cargo xtask rig [--quick] [--json FILE] [SECTION …], of {}",
                SECTIONS.map(|(name, _)| name).join(", ")
            ),
        }
    }
    let workspace = Workspace::load()?;
    if let Some(reason) = hosts::missing() {
        println!("skipped: {reason}");
        return Ok(true);
    }
    // Before any work is done for it.
    let out =
        file.map(|file| OpenOptions::new().write(true).create_new(true).open(file).context(file.clone()));
    let out = out.transpose()?;
    let programs = trial::build(workspace.root())?;
    let hosts = match Hosts::lay()? {
        Ok(hosts) => hosts,
        Err(reason) => {
            println!("skipped: {reason}");
            return Ok(true);
        }
    };
    let rig = Rig::new(programs, hosts)?;
    println!("{}\n", rig.machine());
    let (mut bars, mut figures) = (Vec::new(), serde_json::Map::new());
    for (name, measure) in SECTIONS.iter().filter(|(name, _)| wanted.is_empty() || wanted.contains(name)) {
        let found = measure(&rig, Effort { quick })?;
        bars.extend(found.bars);
        figures.insert((*name).to_owned(), found.figures);
    }
    if let Some(mut out) = out {
        let whole = json!({ "schema": "softtimers.rig/1", "machine": rig.machine(), "figures": figures });
        writeln!(out, "{whole:#}")?;
    }
    print_bars(&bars);
    Ok(true)
}

/// For `cargo xtask full`: that all of it runs.
///
/// # Errors
/// As [`run`].
pub(crate) fn quick() -> Result<Outcome> {
    if let Some(reason) = hosts::missing() {
        return Ok(Outcome::skipped(reason));
    }
    run(&["--quick".to_owned()])?;
    Ok(Outcome::passed("see above"))
}
