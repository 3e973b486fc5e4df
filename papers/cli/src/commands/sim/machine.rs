//! `--machine`: a preset by name, a description in TOML, the output of `doctor --json`, or `here` for that in
//! `here.json`.
//!
//! ```toml
//! based-on = "alpha-3000"   # the machine for keys that are not set below
//!
//! [router]
//! ring = 128
//!
//! [router.polled]
//! receive = "12us"
//! ```

use std::io::Read as _;
use std::path::Path;

use serde_json::Value;
use softtimers_measure::failure::Failure;
use softtimers_sim::machine::{Key, MachineSpec, PRESETS};
use softtimers_sim::{Experiment, Hashed, Parameters};
use toml::de::{DeTable, DeValue};

use super::setting;
use softtimers_run::file;
use softtimers_run::privileges::user::exceeds_caller;

/// Reads the machine named on the command line.
///
/// # Errors
/// A message that names the line, and what is allowed.
pub(super) fn read(name: &str) -> Result<MachineSpec, String> {
    if let Some(mut preset) = MachineSpec::preset(name) {
        let text = preset.to_string();
        preset.described_in(name, Hashed::new(text.as_bytes()).finish().0);
        return Ok(preset);
    }
    let path = if name == HERE { MEASURED } else { name };
    let opened = file::open(Path::new(path)).map_err(|error| {
        if name == HERE {
            return format!(
                "{MEASURED}: {error}; 'softtimers doctor --json > {MEASURED}' measures this machine"
            );
        }
        let presets = PRESETS.join(", ");
        format!("{error}; a file, or one of {presets}, {HERE}; 'doctor --json > {MEASURED}' measures {HERE}")
    });
    let mut file = Hashed::new(opened?);
    let mut bytes = vec![];
    (&mut file).take(MOST_BYTES).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 == MOST_BYTES {
        return Err(format!("{MOST_BYTES} bytes or more; a machine takes less"));
    }
    let text = String::from_utf8(bytes).map_err(|_| "not a text in UTF-8".to_owned())?;
    let mut spec = parse(&text).map_err(|problem| {
        // The message may quote the line.
        if !exceeds_caller() {
            return problem;
        }
        format!("{}: no machine", problem.split(':').next().unwrap_or_default())
    })?;
    let (sha256, rest) = file.finish();
    rest.map_err(|error| error.to_string())?;
    spec.described_in(path, sha256);
    Ok(spec)
}

/// Reads a machine, and returns an experiment's defaults on it.
///
/// # Errors
/// As [`read`]; for a measured machine, names the unmeasured values that the experiment needs.
pub(super) fn parameters(name: &str, experiment: &Experiment) -> Result<Parameters, String> {
    let spec = read(name)?;
    spec.parameters(experiment).map_err(|error| {
        let sections: Vec<&str> = spec.given().map(|(key, _)| key.section).collect();
        let unmeasured = ["router", "server"].iter().any(|section| error.to_string().contains(section));
        let more = if unmeasured && !sections.is_empty() && sections.iter().all(|section| *section == "hip") {
            "; 'doctor' measures a socket, for hip, and no router and no server"
        } else {
            ""
        };
        format!("{error}{more}")
    })
}

/// Parses the text of a file.
///
/// # Errors
/// As [`read`].
pub(crate) fn parse(text: &str) -> Result<MachineSpec, String> {
    if text.trim_start().starts_with('{') { measured(text) } else { described(text) }
}

/// Prints the machine of this name as a file that describes it.
///
/// # Errors
/// A usage failure, as [`read`].
pub(super) fn print(name: &str) -> Result<String, Failure> {
    let spec = read(name).map_err(|problem| Failure::usage(format_args!("machine '{name}': {problem}")))?;
    Ok(spec.to_string())
}

/// A problem, and its offset in bytes.
type Problem = (usize, String);

fn described(text: &str) -> Result<MachineSpec, String> {
    let line = |at: usize| {
        let before = text.get(..at.min(text.len())).unwrap_or(text);
        let ends = before.bytes().filter(|&byte| byte == b'\n').count();
        (ends + 1).min(text.lines().count().max(1))
    };
    let named = |(at, problem): Problem| format!("line {}: {}", line(at), one_line(&problem));
    let table = DeTable::parse(text)
        .map_err(|error| named((error.span().map_or(0, |span| span.start), error.message().to_owned())))?;
    let table = table.get_ref();
    let mut spec = match table.get("based-on") {
        None => MachineSpec::new(),
        Some(name) => name.get_ref().as_str().and_then(MachineSpec::preset).ok_or_else(|| {
            named((name.span().start, format!("based-on: one of {}, in quotes", PRESETS.join(", "))))
        })?,
    };
    section(&mut spec, "", table).map_err(named)?;
    Ok(spec)
}

/// Sets the keys of a section and of its subsections.
fn section(spec: &mut MachineSpec, name: &str, table: &DeTable<'_>) -> Result<(), Problem> {
    for (key, value) in table {
        let (at, word) = (key.span().start, &**key.get_ref());
        if let DeValue::Table(below) = value.get_ref() {
            let path = if name.is_empty() { word.to_owned() } else { format!("{name}.{word}") };
            section(spec, &path, below)?;
        } else if !(name.is_empty() && word == "based-on") {
            let known = Key::find(name, word).map_err(|error| (at, error.to_string()))?;
            let wrong = |why: &str| (at, format!("{name}.{word}: {why}"));
            let text = match value.get_ref() {
                DeValue::String(text) => text.to_string(),
                DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_owned(),
                DeValue::Float(number) => number.as_str().to_owned(),
                _ => return Err(wrong(&known.kind.to_string())),
            };
            let setting = setting::parse(known.kind, &text).map_err(|why| {
                let allowed = known.kind.to_string();
                let more = if why.contains(&allowed) { String::new() } else { format!("; {allowed}") };
                (at, format!("{name}.{word} '{text}': {why}{more}"))
            })?;
            spec.set(name, word, &setting).map_err(|error| (at, error.to_string()))?;
        }
    }
    Ok(())
}

/// Converts `doctor`'s measurements to HIP's device, a socket of this machine: its interrupt is a wake-up, and a poll
/// or a change of what is watched is a system call.
fn measured(text: &str) -> Result<MachineSpec, String> {
    let object: Value = serde_json::from_str(text)
        .map_err(|error| format!("line {}: {}", error.line(), one_line(&error.to_string())))?;
    if object["schema"].as_str() != Some(DOCTOR) {
        return Err(format!("schema: {DOCTOR} is read, from 'softtimers doctor --json'"));
    }
    let mut spec = MachineSpec::new();
    for (name, key) in [("interrupt", "wakeup_cpu_ns"), ("poll", "syscall_ns"), ("switch", "syscall_ns")] {
        let known = Key::find("hip", name).map_err(|error| error.to_string())?;
        let nanos = object["costs"][key].as_f64().filter(|nanos| *nanos >= 0.0 && *nanos < 1e18);
        let text = nanos.map(|nanos| format!("{nanos:.0}ns"));
        let text = text.ok_or_else(|| format!("costs.{key}: {} is expected, in nanoseconds", known.kind))?;
        let setting =
            setting::parse(known.kind, &text).map_err(|why| format!("costs.{key} {text}: {why}"))?;
        spec.set("hip", name, &setting).map_err(|error| error.to_string())?;
    }
    // Values that doctor does not measure are those of the virtual machine on which HIP's preset for UDP was measured.
    for (name, text) in [("transfer", "1us"), ("ring", "none")] {
        let known = Key::find("hip", name).map_err(|error| error.to_string())?;
        spec.set("hip", name, &setting::parse(known.kind, text)?).map_err(|error| error.to_string())?;
    }
    Ok(spec)
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], "; ")
}

/// The name of this machine, and its file in the working directory.
const HERE: &str = "here";
const MEASURED: &str = "here.json";
const DOCTOR: &str = "softtimers.doctor/1";
/// A hundred times the size of a complete machine.
const MOST_BYTES: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_as_the_same_machine() {
        for name in PRESETS {
            let text = print(name).unwrap();
            let (read, preset) = (parse(&text).unwrap(), MachineSpec::preset(name).unwrap());
            assert!(
                read.given()
                    .map(|(key, to)| (key.section, key.name, to))
                    .eq(preset.given().map(|(key, to)| (key.section, key.name, to)))
            );
            assert_eq!(read.to_string(), text);
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, message) in [
            ("[router]\nrang = 1", "line 2: router.rang: no such key; there are wire, ring, "),
            ("[routr]\nring = 1", "line 2: no section routr; there are router, router.polled, "),
            ("ring = 1", "line 1: ring: no such key outside of a section; sections are router, "),
            ("[[router]]\nring = 1", "line 1: router: no such key outside of a section"),
            ("[router]\nring = -1", "line 2: router.ring '-1': a whole number from 1 to 65536"),
            ("[router]\nring = 0", "line 2: router.ring '0': a whole number from 1 to 65536"),
            ("[router]\nring = nan", "line 2: router.ring 'nan': a whole number"),
            ("[router]\nring = 1e30", "a whole number from 1 to 65536"),
            ("[router]\nring = 0x10", "router.ring: a whole number"),
            ("[router]\nring = true", "router.ring: a whole number"),
            ("[router]\nwire = 5", "a time from 1ns to 1s"),
            ("[router]\nwire = \"-1us\"", "router.wire '-1us': "),
            ("[router]\nwire = \"0ns\"", "a time from 1ns to 1s"),
            ("[router]\nwire = \"2s\"", "router.wire '2s': a time from 1ns to 1s"),
            ("[router]\nwire = nan", "router.wire 'nan': "),
            ("[hip]\nring = \"some\"", "or none"),
            ("based-on = \"vax\"", "line 1: based-on: one of alpha-3000, pentium-ii"),
            ("[router\n", "line 1: "),
            ("[router]\nring = 1\nring = 2", "line 3: "),
            ("{\"schema\": \"softtimers.sim/4\"}", "schema: softtimers.doctor/1 is read"),
            ("{\"schema\": \"softtimers.doctor/1\"}", "costs.wakeup_cpu_ns: a time"),
            (
                "{\"schema\": \"softtimers.doctor/1\", \"costs\": {\"wakeup_cpu_ns\": 2e10}}",
                "costs.wakeup_cpu_ns 20000000000ns: a time from 0ns to 1s",
            ),
            ("{", "line 1: "),
        ] {
            let refused = parse(text).expect_err(text);
            assert!(refused.contains(message) && !refused.contains('\n'), "{text}: {refused}");
        }
    }

    #[test]
    fn a_socket_of_this_machine_is_hips_device() {
        let text =
            r#"{"schema": "softtimers.doctor/1", "costs": {"wakeup_cpu_ns": 9400.4, "syscall_ns": 166}}"#;
        let printed = parse(text).unwrap().to_string();
        for line in ["interrupt = \"9400ns\"", "poll = \"166ns\"", "switch = \"166ns\"", "ring = \"none\""] {
            assert!(printed.contains(line), "{printed}");
        }
    }
}
