//! `cargo lab rig`: a router between two others, on this machine, loaded up to five times its capacity.
//!
//! Overload needs a sender with more capacity than the receiver, and a network without other traffic:
//!
//! ```text
//!   near: g0 ═══ r0 :middle: out ═══ s0 :far         three namespaces, two virtual cables
//!    ▲               ▲                    ▲
//!    cargo lab       forward, or another  nothing: frames are for a station that is not there
//!    generate, on 0  forwarder, on cpu 1
//! ```
//!
//! The sender's CPU does the kernel's work on a frame up to the ring; so only the forwarder's work competes for the
//! other one. It is the livelock paper's rig (§6.1): trials of 10,000 small packets, counted before and after, and
//! longer ones, which are steadier.
//!
//! A whole run takes a quarter of an hour. So each trial is reported on stderr when it is over, the findings are in the
//! file after each section, and a section that fails does not affect the others.
//!
//! `--peer DRIVER=COMMAND` adds a forwarder of your own to the comparison: `plain`.
//!
//! It needs root, and reports what it has skipped without. However it ends, nothing stays behind: `hosts`.

mod capture;
mod core;
mod curve;
pub mod hosts;
mod kept;
mod monitors;
mod plain;
mod relay;
mod routed;
mod shares;
pub(crate) mod trial;

use crate::bench::{Asked, Done, Section};
use hosts::Hosts;
use plain::Peer;
use softtimers_measure::failure::Failure;
use trial::Rig;

/// The arguments of `rig`.
#[derive(clap::Args, Clone, Debug)]
pub struct Arguments {
    #[command(flatten)]
    asked: Asked,
    /// How often each is measured; for `compute`, the number of turns
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// A forwarder of your own from r0 to out, for comparison: packet=COMMAND or xdp=COMMAND; may be repeated
    #[arg(long = "peer", value_name = "DRIVER=COMMAND", value_parser = Peer::from_words)]
    peers: Vec<Peer>,
}

/// The sections that can be requested separately.
pub const SECTIONS: [Section<Rig>; 11] = [
    ("stages", curve::stages),
    ("forward", plain::forward),
    ("compute", shares::compute),
    ("bursts", shares::bursts),
    ("capture", capture::capture),
    ("monitors", monitors::monitors),
    ("routed", routed::routed),
    ("routed-streams", routed::streams),
    ("routed-delays", routed::delays),
    ("kept", kept::kept),
    ("relay", relay::relay),
];

/// Runs the requested sections.
///
/// # Errors
/// If something cannot be built, or a section fails.
pub fn run(arguments: &Arguments) -> Done {
    let Arguments { asked, peers, .. } = arguments;
    if !peers.is_empty() && !asked.wants("forward") {
        return Err("--peer: the section `forward` compares with it, and is not asked for".into());
    }
    hosts::missing().map_or(Ok(()), |reason| Err(Failure::not_possible(reason)))?;
    let rig = Rig::new(trial::build()?, Hosts::lay()?, arguments.clone())?;
    asked.run("cargo lab rig", &SECTIONS, &rig)
}
