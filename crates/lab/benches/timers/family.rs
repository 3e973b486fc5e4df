//! Workloads and their sizes, by name: `W1/1000000`, `W4/64`, `stalls`.

use std::fmt;
use std::str::FromStr;

/// Which questions are asked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Family {
    W1,
    W1R,
    W2,
    W3,
    W4,
    W5,
    Stalls,
}

const NAMES: [(Family, &str); 7] = [
    (Family::W1, "W1"),
    (Family::W1R, "W1R"),
    (Family::W2, "W2"),
    (Family::W3, "W3"),
    (Family::W4, "W4"),
    (Family::W5, "W5"),
    (Family::Stalls, "stalls"),
];

/// A workload: which, and with how many timers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Workload {
    pub(crate) family: Family,
    pub(crate) timers: usize,
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(family, _)| *family == self.family).map_or("", |(_, name)| name);
        write!(f, "{name}/{}", self.timers)
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown =
            || format!("no workload {text:?}: it is one of W1, W1R, W2, W3, W4, W5, stalls, /TIMERS");
        let (name, timers) = text.split_once('/').ok_or_else(unknown)?;
        let (family, _) = NAMES.iter().find(|(_, known)| *known == name).ok_or_else(unknown)?;
        Ok(Workload { family: *family, timers: timers.parse().map_err(|_| unknown())? })
    }
}
