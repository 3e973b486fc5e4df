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
//! A whole run takes a quarter of an hour. So each trial is told on stderr when it is over, the findings are in the file
//! after each section, and a section that breaks off does not take the others with it.
//!
//! `--peer DRIVER=COMMAND` puts a forwarder of your own beside ours: [`peers`].
//!
//! It needs root, and says what it has skipped without. Whatever ends it, nothing stays behind: [`hosts`].

mod capture;
mod curve;
mod hosts;
mod peers;
mod plain;
mod plot;
mod shares;
mod trial;
mod turns;

use std::fs::{File, OpenOptions};
use std::io::{Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::measure::figures::Bar;
use crate::measure::print_bars;
use crate::report::Outcome;
use crate::workspace::Workspace;
use hosts::Hosts;
use peers::Peer;
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
    ("compute", turns::compute),
    ("latency", turns::latency),
    ("sources", shares::sources),
    ("limit", shares::limit),
    ("bursts", shares::bursts),
    ("capture", capture::capture),
];

/// Of its sections.
pub(crate) fn names() -> Vec<&'static str> {
    SECTIONS.iter().map(|(name, _)| *name).collect()
}

/// `cargo xtask rig [--quick] [--json FILE] [--peer DRIVER=COMMAND …] [SECTION …]`. Whether all sections came to their end.
///
/// # Errors
/// If something cannot be built, or the findings cannot be written.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let Wanted { effort, file, peers, sections } = Wanted::of(arguments)?;
    let workspace = Workspace::load()?;
    if let Some(reason) = hosts::missing() {
        println!("skipped: {reason}");
        return Ok(true);
    }
    // Before any work is done for it.
    let mut findings = Findings::create(file, workspace.root())?;
    let programs = trial::build(workspace.root())?;
    let hosts = match Hosts::lay()? {
        Ok(hosts) => hosts,
        Err(reason) => {
            println!("skipped: {reason}");
            return Ok(true);
        }
    };
    let rig = Rig::new(programs, hosts, peers)?;
    println!("{}\n", rig.machine());
    findings.machine = rig.machine();
    let (mut bars, mut broken) = (Vec::new(), 0);
    for (name, measure) in sections {
        eprintln!("rig: {name}");
        match measure(&rig, effort) {
            Ok(found) => {
                bars.extend(found.bars);
                findings.add(name, found.figures)?;
            }
            Err(error) => {
                broken += 1;
                println!("\n**{name} broke off: {error:#}**\n");
                findings.add(name, json!({ "broke_off": format!("{error:#}") }))?;
            }
        }
    }
    print_bars(&bars);
    println!("\nall figures: {}", findings.path.display());
    Ok(broken == 0)
}

/// What is asked for.
struct Wanted<'a> {
    effort: Effort,
    file: Option<&'a Path>,
    peers: Vec<Peer>,
    sections: Vec<Section>,
}

impl<'a> Wanted<'a> {
    fn of(arguments: &'a [String]) -> Result<Self> {
        let (mut quick, mut file, mut peers, mut names) = (false, None, Vec::new(), Vec::new());
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--quick" => quick = true,
                "--json" => {
                    file = Some(Path::new(words.next().context("--json FILE: a new file is wanted")?));
                }
                "--peer" => peers.push(Peer::of(words.next().context("--peer DRIVER=COMMAND is wanted")?)?),
                name if SECTIONS.iter().any(|(section, _)| *section == name) => names.push(name),
                unknown => bail!("`{unknown}`; {}", crate::usage_of("rig")),
            }
        }
        let sections = SECTIONS.into_iter().filter(|(name, _)| names.is_empty() || names.contains(name));
        let sections: Vec<_> = sections.collect();
        ensure!(
            peers.is_empty() || sections.iter().any(|(name, _)| *name == "forward"),
            "--peer: the section `forward` compares with it, and is not asked for"
        );
        Ok(Wanted { effort: Effort { quick }, file, peers, sections })
    }
}

/// The file of all figures, whole after each section.
struct Findings {
    path: PathBuf,
    /// From the first section on.
    file: Option<File>,
    machine: String,
    figures: serde_json::Map<String, Value>,
}

impl Findings {
    /// A new file; one of its own under `target` if none is named.
    fn create(path: Option<&Path>, root: &Path) -> Result<Self> {
        let own = || {
            let target =
                std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
            #[expect(clippy::disallowed_methods, reason = "a name that no other run has had")]
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            target.join(format!("rig-{}.json", now.as_millis()))
        };
        let path = path.map_or_else(own, Path::to_path_buf);
        // Whether it can be written is known before a quarter of an hour has passed.
        ensure!(!path.exists(), "{}: it exists", path.display());
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        ensure!(folder.is_none_or(Path::is_dir), "{}: no such folder", path.display());
        Ok(Findings { path, file: None, machine: String::new(), figures: serde_json::Map::new() })
    }

    fn add(&mut self, section: &str, figures: Value) -> Result<()> {
        self.figures.insert(section.to_owned(), figures);
        let whole = json!({ "schema": "softtimers.rig/3", "machine": self.machine, "figures": self.figures });
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(
                OpenOptions::new()
                    .write(true)
                    .create_new(true)
                    .open(&self.path)
                    .with_context(|| self.path.display().to_string())?,
            ),
        };
        file.rewind()?;
        file.set_len(0)?;
        writeln!(file, "{whole:#}").with_context(|| self.path.display().to_string())
    }
}

/// A figure of nanoseconds in a table.
fn micros(nanos: &Value) -> String {
    nanos.as_f64().map_or("–".to_owned(), |nanos| format!("{:.1}", nanos / 1e3))
}

/// For `cargo xtask full`: that all of it runs.
///
/// # Errors
/// As [`run`].
pub(crate) fn quick() -> Result<Outcome> {
    if let Some(reason) = hosts::missing() {
        return Ok(Outcome::skipped(reason));
    }
    Ok(if run(&["--quick".to_owned()])? {
        Outcome::passed("see above")
    } else {
        Outcome::failed("a section of the rig broke off: see above")
    })
}
