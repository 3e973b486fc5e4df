//! The power of an idle CPU: energy, where the machine counts it, and its sleep states.
//!
//! ```text
//!   /sys/class/powercap/intel-rapl:N/energy_uj                     microjoules of a package, wraps around at a limit
//!   /sys/devices/system/cpu/cpuN/cpuidle/stateM/{name,time,usage}  microseconds in a state, and entries into it
//! ```
//!
//! Both are below a root that tests choose. On most machines only root may read energy counters, since they reveal one
//! program's secrets to another (CVE-2020-8694). So they are opened once, before root's privileges are dropped.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// The counters of this machine.
#[derive(Debug)]
pub(super) struct Counters {
    /// The energy counters, or why there are none.
    packages: Result<Vec<Package>, String>,
    states: Vec<(String, PathBuf)>,
}

#[derive(Debug)]
struct Package {
    directory: PathBuf,
    microjoules: File,
    /// The count at which it wraps around.
    limit: u64,
}

/// The counters' values at one time.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    microjoules: Option<Vec<u64>>,
    /// The time in each state, and its entries.
    states: Vec<[u64; 2]>,
}

/// A sleep state of the CPU.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct SleepState {
    /// The kernel's name for it.
    pub(crate) name: String,
    /// The share of time spent in it.
    pub(crate) share: f64,
    /// Times it was entered.
    pub(crate) entries_per_s: f64,
}

impl Counters {
    /// Finds the counters under `root`, for this CPU.
    pub(super) fn find(root: &Path, processor: usize) -> Self {
        let states = root.join(format!("sys/devices/system/cpu/cpu{processor}/cpuidle"));
        Counters { packages: packages(&root.join("sys/class/powercap")), states: sleep_states(&states) }
    }

    /// Returns the packages whose energy is counted, or why none is.
    pub(super) fn energy(&self) -> Result<Vec<String>, &str> {
        let packages = self.packages.as_ref().map_err(String::as_str)?;
        Ok(packages.iter().map(|package| text(&package.directory.join("name")).unwrap_or_default()).collect())
    }

    pub(super) fn has_states(&self) -> bool {
        !self.states.is_empty()
    }

    pub(super) fn read(&self) -> Reading {
        let packages = self.packages.as_ref().ok();
        let microjoules = packages.and_then(|all| all.iter().map(Package::microjoules).collect());
        let count = |state: &Path, file| number(&state.join(file)).unwrap_or(0);
        let states = self.states.iter().map(|(_, state)| [count(state, "time"), count(state, "usage")]);
        Reading { microjoules, states: states.collect() }
    }

    /// Returns the joules of all packages between two readings.
    pub(super) fn joules(&self, before: &Reading, after: &Reading) -> Option<f64> {
        let packages = self.packages.as_ref().ok()?;
        let pairs = before.microjoules.as_ref()?.iter().zip(after.microjoules.as_ref()?);
        let used = packages.iter().zip(pairs).map(|(Package { limit, .. }, (&before, &after))| {
            if after >= before { after - before } else { limit.saturating_sub(before) + after }
        });
        Some(used.sum::<u64>() as f64 / 1e6)
    }

    /// Returns the states in which the CPU slept between two readings, `seconds` apart.
    pub(super) fn slept(&self, before: &Reading, after: &Reading, seconds: f64) -> Vec<SleepState> {
        let pairs = before.states.iter().zip(&after.states);
        let state = |(name, (before, after)): (&String, (&[u64; 2], &[u64; 2]))| {
            let [micros, entries] = [0, 1].map(|which| after[which].saturating_sub(before[which]) as f64);
            // A stay is counted when it ends, so it can be longer than the time between the readings.
            let share = (micros / 1e6 / seconds).min(1.0);
            SleepState { name: name.clone(), share, entries_per_s: entries / seconds }
        };
        self.states.iter().map(|(name, _)| name).zip(pairs).map(state).collect()
    }
}

impl Package {
    fn microjoules(&self) -> Option<u64> {
        let mut digits = [0; LONGEST_NUMBER];
        let length = self.microjoules.read_at(&mut digits, 0).ok()?;
        str::from_utf8(&digits[..length]).ok()?.trim().parse().ok()
    }
}

/// Returns whole packages, since their parts would be counted twice.
fn packages(powercap: &Path) -> Result<Vec<Package>, String> {
    let none = |path: &Path, error: &io::Error| format!("no RAPL here: {}: {error}", path.display());
    let mut found = vec![];
    for entry in fs::read_dir(powercap).map_err(|error| none(powercap, &error))?.flatten() {
        let name = entry.file_name().into_string().unwrap_or_default();
        let package = name.strip_prefix("intel-rapl:").is_some_and(|rest| !rest.contains(':'));
        let zone = entry.path();
        // The counter of the whole platform, if there is one, includes the packages.
        if !package || !text(&zone.join("name")).is_ok_and(|name| name.starts_with("package")) {
            continue;
        }
        let counter = zone.join("energy_uj");
        let microjoules = File::open(&counter).map_err(|error| none(&counter, &error))?;
        let limit = number(&zone.join("max_energy_range_uj")).unwrap_or(u64::MAX);
        let package = Package { directory: zone, microjoules, limit };
        package.microjoules().ok_or_else(|| none(&counter, &io::ErrorKind::InvalidData.into()))?;
        found.push(package);
    }
    found.sort_unstable_by(|a, b| a.directory.cmp(&b.directory));
    let nothing = || format!("no RAPL here: no intel-rapl package in {}", powercap.display());
    if found.is_empty() { Err(nothing()) } else { Ok(found) }
}

/// Returns the states in order of their depth.
fn sleep_states(directory: &Path) -> Vec<(String, PathBuf)> {
    let states = (0..MOST_STATES).map(|number| directory.join(format!("state{number}")));
    states.map_while(|state| Some((text(&state.join("name")).ok()?, state))).collect()
}

fn number(path: &Path) -> io::Result<u64> {
    text(path)?.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "no number"))
}

fn text(path: &Path) -> io::Result<String> {
    Ok(fs::read_to_string(path)?.trim().to_owned())
}

/// The kernel's own limit (`CPUIDLE_STATE_MAX`).
pub(super) const MOST_STATES: usize = 10;
/// The longest number: 64 bits, and a newline.
const LONGEST_NUMBER: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, files: &[(&str, &str)]) {
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
    }

    #[test]
    fn packages_are_added_up_across_the_end_of_their_counters() {
        let root = std::env::temp_dir().join(format!("softtimers-power-{}", std::process::id()));
        let zone = |number: u32, file| format!("sys/class/powercap/intel-rapl:{number}/{file}");
        for (number, energy) in [(0, "900000"), (1, "100")] {
            let files = ["name", "energy_uj", "max_energy_range_uj"].map(|file| zone(number, file));
            let name = format!("package-{number}");
            write(&root, &[(&files[0], name.as_str()), (&files[1], energy), (&files[2], "1000000")]);
        }
        write(&root, &[("sys/class/powercap/intel-rapl:0:0/energy_uj", "5"), (&zone(2, "name"), "psys")]);
        let state = "sys/devices/system/cpu/cpu3/cpuidle/state0";
        write(&root, &[(&format!("{state}/name"), "C1"), (&format!("{state}/time"), "1000")]);
        write(&root, &[(&format!("{state}/usage"), "7")]);
        let counters = Counters::find(&root, 3);
        assert_eq!(counters.energy().unwrap(), ["package-0", "package-1"]);
        let before = counters.read();
        // The first wraps around: 100 mJ before, and the same after it.
        write(&root, &[(&zone(0, "energy_uj"), "100000"), (&zone(1, "energy_uj"), "300100")]);
        write(&root, &[(&format!("{state}/time"), "501000"), (&format!("{state}/usage"), "27")]);
        let after = counters.read();
        assert_eq!(counters.joules(&before, &after), Some(0.5));
        let slept = counters.slept(&before, &after, 2.0);
        assert_eq!(slept, [SleepState { name: "C1".to_owned(), share: 0.25, entries_per_s: 10.0 }]);
        // A counter that disappears during a run is not estimated.
        fs::write(root.join(zone(1, "energy_uj")), "").unwrap();
        assert_eq!(counters.joules(&before, &counters.read()), None);
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_machine_without_counters_says_why() {
        let nowhere = Counters::find(Path::new("/nowhere"), 0);
        let reading = nowhere.read();
        assert!(nowhere.energy().unwrap_err().contains("powercap: No such file"), "{nowhere:?}");
        assert!(nowhere.joules(&reading, &reading).is_none() && !nowhere.has_states());
        assert_eq!(nowhere.slept(&reading, &reading, 1.0), []);
    }
}
