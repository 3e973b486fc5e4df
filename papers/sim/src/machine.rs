//! Your own machine: [`MachineSpec`], whose costs, wire, rings, queues and priorities are [`KEYS`], each with
//! a value and the values allowed.
//!
//! ```text
//!   alpha-3000 ─┐
//!   pentium-ii ─┼─▶ MachineSpec ── set("router", "ring", …) ──▶ parameters(livelock) ──▶ a run, or a sweep
//!   nothing ────┘                  every key of a section
//! ```
//!
//! An experiment uses the sections that it is about: the router of the livelock paper, its tcpdump, HIP's
//! device, the polling server. Every key of these must have a value, so that you do not simulate a mixture of
//! two machines by accident.

mod hardware;
mod keys;

use std::fmt;

use crate::constants::LIST;
use crate::experiment::{Experiment, RunError};
use crate::parameter::Parameters;
use crate::recording::Sha256;
use crate::setting::Setting;

pub(crate) use hardware::{Hardware, Priorities};
pub use keys::{KEYS, Key};

/// The names of [`MachineSpec::preset`].
pub const PRESETS: &[&str] = &["alpha-3000", "pentium-ii"];

/// A machine, possibly described only in part.
///
/// ```
/// use softtimers_sim::machine::MachineSpec;
/// use softtimers_sim::{Setting, experiments};
///
/// let mut machine = MachineSpec::preset("alpha-3000").expect("it is in the list");
/// machine.set("router", "ring", &Setting::Count(128))?;
/// let livelock = experiments::find("livelock").expect("it is in the list");
/// assert_eq!(machine.parameters(livelock)?.count("ring"), 128);
/// // It does not describe HIP's device.
/// let hip = experiments::find("hip").expect("it is in the list");
/// assert!(machine.parameters(hip).is_err());
/// # Ok::<(), softtimers_sim::RunError>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct MachineSpec {
    hardware: Hardware,
    /// By the index of the key.
    given: Vec<bool>,
    origin: Option<Origin>,
}

/// The source of a machine's description, for results.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Origin {
    /// The name of the file or of the preset.
    pub name: String,
    /// The SHA-256 of the file, or of the preset's printed form.
    pub sha256: Sha256,
}

impl Default for MachineSpec {
    fn default() -> Self {
        MachineSpec::new()
    }
}

impl MachineSpec {
    /// Creates a machine without any values.
    pub fn new() -> Self {
        MachineSpec { hardware: Hardware::default(), given: vec![false; KEYS.len()], origin: None }
    }

    /// Returns a preset machine by name: see [`PRESETS`].
    ///
    /// `alpha-3000` is the router of the livelock paper, and tcpdump on it. `pentium-ii` has the costs of the soft timers paper for HIP's
    /// device and the server; its router is the Alpha's with every step scaled so that an interrupt takes the
    /// 4.45 µs of that paper, on 100 Mbit/s, because there is no published trace of one.
    pub fn preset(name: &str) -> Option<Self> {
        let (hardware, sections): (_, &[&str]) = match name {
            "alpha-3000" => (Hardware::default(), &["router", "tcpdump"]),
            "pentium-ii" => (Hardware::pentium_ii(), &["router", "hip", "server"]),
            _ => return None,
        };
        let given = KEYS.iter().map(|key| sections.iter().any(|section| key.is_of(section))).collect();
        Some(MachineSpec { hardware, given, origin: None })
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// If there is no such key, or the value is not allowed; says what is.
    pub fn set(&mut self, section: &str, name: &str, setting: &Setting) -> Result<(), RunError> {
        let place = Key::place(section, name)?;
        let key = &KEYS[place];
        if !key.kind.holds(setting) {
            return Err(RunError::new(format_args!("{section}.{name} {setting}: {} is allowed", key.kind)));
        }
        (key.set)(&mut self.hardware, setting);
        self.given[place] = true;
        Ok(())
    }

    /// Sets the source of the machine's description.
    pub fn described_in(&mut self, name: impl Into<String>, sha256: Sha256) {
        self.origin = Some(Origin { name: name.into(), sha256 });
    }

    /// Returns the keys that have a value, with their values.
    pub fn given(&self) -> impl Iterator<Item = (&'static Key, Setting)> + '_ {
        let given = KEYS.iter().zip(&self.given).filter(|(_, given)| **given);
        given.map(|(key, _)| (key, (key.get)(&self.hardware)))
    }

    /// Returns the defaults of an experiment on this machine.
    ///
    /// # Errors
    /// If the experiment takes no machine, a key of its sections has no value, or values cannot be combined.
    pub fn parameters(&self, experiment: &Experiment) -> Result<Parameters, RunError> {
        let sections = sections(experiment.name);
        if sections.is_empty() {
            let name = experiment.name;
            return Err(RunError::new(format_args!(
                "machine: {name} has none to be set; the livelock experiments, hip and polling have"
            )));
        }
        for (key, given) in KEYS.iter().zip(&self.given) {
            if !given && sections.iter().any(|section| key.is_of(section)) {
                let Key { section, name, .. } = key;
                return Err(RunError::new(format_args!(
                    "machine: {section}.{name} is missing, which {} needs; give it, or based-on = one of {}",
                    experiment.name,
                    presets_of(section).join(", ")
                )));
            }
        }
        self.hardware.check()?;
        let mut parameters = Parameters::of_hardware(experiment.parameters, self.hardware);
        // They have the same flags.
        let name = if experiment.name == "livelock-mlfrr" { "livelock" } else { experiment.name };
        for constant in LIST {
            for (_, flag) in constant.flags.iter().filter(|(of, _)| *of == name) {
                if let Some(setting) = (constant.setting)(&self.hardware.constants) {
                    parameters = parameters.with(flag, setting);
                }
            }
        }
        if experiment.name == "hip" {
            parameters = parameters.with("ring", Setting::Limit(self.hardware.hip_ring.map(u64::from)));
        }
        Ok(parameters.described(self.origin.clone()))
    }
}

/// Formats it as TOML that describes the same machine.
impl fmt::Display for MachineSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut section = "";
        for (key, setting) in self.given() {
            if key.section != section {
                let before = if section.is_empty() { "" } else { "\n" };
                section = key.section;
                writeln!(f, "{before}[{section}]")?;
            }
            let value = match setting {
                Setting::Count(_) | Setting::Limit(Some(_)) => setting.to_string(),
                _ => format!("\"{setting}\""),
            };
            writeln!(f, "{} = {value}  # {}; {}", key.name, key.about, key.kind)?;
        }
        Ok(())
    }
}

/// Returns the sections that an experiment uses.
fn sections(experiment: &str) -> &'static [&'static str] {
    match experiment {
        "livelock" | "livelock-mlfrr" | "livelock-figures" | "livelock-fit" | "livelock-burst" => &["router"],
        "livelock-monitor" => &["router", "tcpdump"],
        "hip" => &["hip"],
        "polling" => &["server"],
        _ => &[],
    }
}

/// The presets that have a section.
fn presets_of(section: &str) -> Vec<&'static str> {
    let has = |name: &&str| {
        MachineSpec::preset(name).is_some_and(|spec| spec.given().any(|(key, _)| key.section == section))
    };
    PRESETS.iter().copied().filter(has).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Steps, Streams, Value, experiments};

    fn rows(experiment: &str, spec: Option<&MachineSpec>, set: &[(&str, Setting)]) -> Vec<Vec<Value>> {
        let experiment = experiments::find(experiment).unwrap();
        let parameters = match spec {
            Some(spec) => spec.parameters(experiment).unwrap(),
            None => Parameters::new(experiment.parameters),
        };
        let parameters = set.iter().fold(parameters, |all, (name, to)| all.with(name, to.clone()));
        (experiment.check)(&parameters).unwrap();
        (experiment.run)(&parameters, Streams::new(1), &Steps::unwatched()).unwrap()
    }

    const SHORT: [(&str, Setting); 1] = [("duration", Setting::Time(Duration::from_millis(50)))];

    /// True times instead of traced ones give the same machine, to the nanosecond.
    #[test]
    fn the_preset_of_the_papers_router_is_that_router() {
        let alpha = MachineSpec::preset("alpha-3000").unwrap();
        for kernel in ["unmodified", "no-polling", "polled"] {
            let set = [SHORT[0].clone(), ("kernel", Setting::Choice(kernel))];
            assert_eq!(rows("livelock", Some(&alpha), &set), rows("livelock", None, &set), "{kernel}");
        }
        assert_eq!(rows("livelock-monitor", Some(&alpha), &SHORT), rows("livelock-monitor", None, &SHORT));
    }

    /// An experiment and its settings.
    type Setup = (&'static str, Vec<(&'static str, Setting)>);

    /// Runs in which every key has an effect.
    fn setups() -> Vec<Setup> {
        let overload = |kernel, consumer, feedback| {
            vec![
                ("duration", Setting::Time(Duration::from_millis(300))),
                ("rate", Setting::Count(12_000)),
                ("kernel", Setting::Choice(kernel)),
                ("consumer", Setting::Choice(consumer)),
                ("feedback", Setting::Choice(feedback)),
                ("user", Setting::Choice("yes")),
            ]
        };
        let small = |kernel| {
            let mut set = overload(kernel, "kernel", "no");
            set[1].1 = Setting::Count(2_000);
            set
        };
        let hip = || vec![("synthetic", Setting::Choice("t-high-1"))];
        let server = |server, protocol| {
            vec![
                ("server", Setting::Choice(server)),
                ("protocol", Setting::Choice(protocol)),
                ("packets", Setting::Count(500)),
            ]
        };
        let monitor = |file| vec![SHORT[0].clone(), ("file", Setting::Choice(file))];
        vec![
            ("livelock", overload("polled", "screend", "yes")),
            ("livelock", overload("polled", "screend", "no")),
            (
                "livelock",
                [overload("polled", "kernel", "no"), vec![("quota", Setting::Limit(Some(20)))]].concat(),
            ),
            ("livelock", small("polled")),
            ("livelock", overload("unmodified", "kernel", "no")),
            ("livelock", overload("unmodified", "screend", "no")),
            ("livelock", small("unmodified")),
            ("livelock-monitor", monitor("disk")),
            ("livelock-monitor", monitor("null")),
            ("hip", hip()),
            ("polling", server("apache", "http")),
            ("polling", server("flash", "p-http")),
        ]
    }

    #[test]
    fn every_key_changes_something() {
        let all = setups();
        let mut complete = MachineSpec::preset("alpha-3000").unwrap();
        for (key, setting) in MachineSpec::preset("pentium-ii").unwrap().given() {
            if !key.section.starts_with("router") {
                complete.set(key.section, key.name, &setting).unwrap();
            }
        }
        let found = |spec: &MachineSpec, section: &str| {
            let of = all.iter().filter(|(name, _)| sections(name).iter().any(|one| section.starts_with(one)));
            of.map(|(name, set)| rows(name, Some(spec), set)).collect::<Vec<_>>()
        };
        let mut idle: Vec<(&str, &str)> = vec![];
        for key in KEYS {
            let mut other = complete.clone();
            let to = match (key.section, key.name, (key.get)(&complete.hardware)) {
                // Two exchanged priorities.
                ("router.priorities", "clock", _) => Setting::Count(9),
                ("router.priorities", "device", _) => Setting::Count(10),
                ("router.priorities", "network", _) => Setting::Count(1),
                ("router.priorities", _, _) => Setting::Count(5),
                (_, _, Setting::Limit(_)) => Setting::Limit(Some(3)),
                (_, _, Setting::Count(count)) => Setting::Count(count / 2),
                (_, _, Setting::Time(time)) => Setting::Time(time * 9 / 10),
                (_, _, other) => panic!("{other}"),
            };
            other.set(key.section, key.name, &to).unwrap();
            // The clock must be above all others, and the device above all except the clock.
            let is_above = key.section == "router.priorities" && ["clock", "device"].contains(&key.name);
            if !is_above && found(&other, key.section) == found(&complete, key.section) {
                idle.push((key.section, key.name));
            }
        }
        assert_eq!(idle, []);
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let mut alpha = MachineSpec::preset("alpha-3000").unwrap();
        let said = |refused: Result<(), RunError>| refused.unwrap_err().to_string();
        assert!(
            said(alpha.set("router", "rang", &Setting::Count(1)))
                .starts_with("router.rang: no such key; there are wire, ring")
        );
        assert!(
            said(alpha.set("roter", "ring", &Setting::Count(1)))
                .contains("no section roter; there are router, router.polled")
        );
        assert!(
            said(alpha.set("", "ring", &Setting::Count(1)))
                .starts_with("ring: no such key outside of a section; sections are router, router.polled")
        );
        assert_eq!(
            said(alpha.set("router", "ring", &Setting::Count(0))),
            "router.ring 0: a whole number from 1 to 65536 is allowed"
        );
        assert!(
            said(alpha.set("router", "wire", &Setting::Time(Duration::ZERO)))
                .contains("a time from 1ns to 1s")
        );
        assert!(said(alpha.set("router", "wire", &Setting::Count(3))).contains("router.wire 3: a time"));
        let find = |name| experiments::find(name).unwrap();
        let said = |spec: &MachineSpec, name| spec.parameters(find(name)).unwrap_err().to_string();
        assert_eq!(
            said(&alpha, "hip"),
            "machine: hip.interrupt is missing, which hip needs; give it, or based-on = one of pentium-ii"
        );
        assert!(said(&alpha, "callout").contains("callout has none to be set"));
        alpha.set("router.priorities", "network", &Setting::Count(9)).unwrap();
        assert!(said(&alpha, "livelock").contains("router.priorities.network 9: device 8 must be above it"));
    }

    #[test]
    fn packets_that_do_not_fit_on_the_wire_are_refused() {
        let livelock = experiments::find("livelock").unwrap();
        let at = |spec: &str, rate| {
            let parameters = MachineSpec::preset(spec).unwrap().parameters(livelock).unwrap();
            (livelock.check)(&parameters.with("rate", Setting::Count(rate)))
                .map_err(|error| error.to_string())
        };
        assert_eq!(at("pentium-ii", 100_000), Ok(()));
        assert!(at("alpha-3000", 100_000).unwrap_err().contains("from 0 to 14880"));
        let row = &rows("livelock", MachineSpec::preset("pentium-ii").as_ref(), &SHORT)[0];
        assert!(row[3].number().is_some_and(|pps| pps > 7_000.0), "{row:?}");
    }

    /// One megabit a second, which is too slow for the rate of the paper's table.
    #[test]
    fn a_rate_that_is_not_used_need_not_fit_on_the_wire_and_a_recording_must() {
        let mut slow = MachineSpec::preset("alpha-3000").unwrap();
        slow.set("router", "wire", &Setting::Time(Duration::from_micros(672))).unwrap();
        let check = |name, recording: Option<&[u64]>| {
            let experiment = experiments::find(name).unwrap();
            let mut parameters = slow.parameters(experiment).unwrap();
            if let Some(times) = recording {
                let mut packets = softtimers_core::TraceBuilder::default();
                times.iter().for_each(|&at| packets.push(softtimers_core::Timestamp::from_micros(at), 60));
                let recording = packets.finish().unwrap().into();
                parameters = parameters.with("trace", Setting::Trace(Some(recording)));
            }
            (experiment.check)(&parameters).map_err(|error| error.to_string())
        };
        assert_eq!(check("livelock-mlfrr", None), Ok(()));
        assert!(check("livelock", None).unwrap_err().contains("rate 8000: from 0 to 1488"));
        assert_eq!(check("livelock", Some(&[0, 10, 1_000, 2_016])), Ok(()));
        assert_eq!(check("livelock", Some(&[0, 10])), Ok(()));
        let refused = check("livelock", Some(&[0, 100, 200, 300, 400])).unwrap_err();
        assert_eq!(refused, "trace: 10000 packets a second come in it; at most 1488 fit on the wire");
    }
}
