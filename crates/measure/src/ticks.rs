//! CPU time by kind, by the kernel's account: [`Ticks`].
//!
//! A figure that was measured while somebody else had the CPU proves nothing, and a server that waited is not
//! saturated. The kernel knows both, without anybody's help:
//!
//! ```text
//!   /proc/stat   cpu3  user nice system │ idle iowait │ irq softirq │ steal │ guest guest_nice
//!                      └── programs ──┘   └─ idle ──┘   interrupts    the    in user and nice
//!                                                                     host   already
//! ```

use std::fs;

/// The account of one CPU, or of all together, at one moment or since another. In ticks of a hundredth of a second, as
/// the kernel tells programs, whatever its own tick.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ticks {
    /// In programs, and in the kernel on their behalf.
    pub programs: u64,
    /// In nothing, or waiting for a disk.
    pub idle: u64,
    /// In handlers of interrupts, and what they leave to be done.
    pub interrupts: u64,
    /// Taken by the host of this virtual machine.
    pub steal: u64,
}

impl Ticks {
    /// Until now, of this CPU or of all; `None` where the kernel does not say.
    ///
    /// # Cost
    /// One file read: microseconds, and some more for each CPU there is.
    pub fn now(processor: Option<usize>) -> Option<Self> {
        Ticks::parse(&fs::read_to_string("/proc/stat").ok()?, processor)
    }

    /// Reads the ticks of this CPU or of all from `/proc/stat`; `None` if it has none, or is something else.
    ///
    /// ```
    /// use softtimers_measure::ticks::Ticks;
    ///
    /// let stat = "cpu  9 0 1 85 5 1 2 3 0 0\ncpu0 4 0 1 40 5 1 1 1 0 0\n";
    /// assert_eq!(Ticks::parse(stat, None).unwrap().all(), 106);
    /// assert_eq!(Ticks::parse(stat, Some(0)), Some(Ticks { programs: 5, idle: 45, interrupts: 2, steal: 1 }));
    /// assert_eq!(Ticks::parse(stat, Some(1)), None);
    /// ```
    pub fn parse(stat: &str, processor: Option<usize>) -> Option<Self> {
        let name = processor.map_or("cpu ".to_owned(), |number| format!("cpu{number} "));
        let line = stat.lines().find_map(|line| line.strip_prefix(&name))?;
        let ticks: Vec<u64> =
            line.split_whitespace().take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
        let &[user, nice, system, idle, iowait, irq, softirq, steal] = &ticks[..] else { return None };
        Some(Ticks { programs: user + nice + system, idle: idle + iowait, interrupts: irq + softirq, steal })
    }

    /// Returns the ticks spent since. The kernel's accounts of waiting and of steal may go back a little.
    #[must_use]
    pub fn since(self, earlier: Ticks) -> Ticks {
        Ticks {
            programs: self.programs.saturating_sub(earlier.programs),
            idle: self.idle.saturating_sub(earlier.idle),
            interrupts: self.interrupts.saturating_sub(earlier.interrupts),
            steal: self.steal.saturating_sub(earlier.steal),
        }
    }

    /// Returns the sum of all ticks, whatever they were spent on.
    pub fn all(self) -> u64 {
        self.programs + self.idle + self.interrupts + self.steal
    }

    /// The share of all that `ticks` of them are; `None` where there are none.
    pub fn share(self, ticks: u64) -> Option<f64> {
        (self.all() > 0).then(|| (ticks as f64 / self.all() as f64).min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_told_apart_and_nonsense_is_nothing() {
        let stat = "cpu  1 1 1 1 1 1 1 90 0 0\ncpu1 1 1 1 1 1 1 1 7 0 0\ncpu11 0 0 0 0 0 0 0 9\n";
        let steal = |processor| Ticks::parse(stat, processor).map(|ticks| ticks.steal);
        assert_eq!([None, Some(1), Some(11)].map(steal), [Some(90), Some(7), Some(9)]);
        for nonsense in ["", "cpu  1 2 3", "cpu  1 2 3 4 5 6 7 x", "intr 1"] {
            assert_eq!(Ticks::parse(nonsense, None), None, "{nonsense}");
        }
    }

    #[test]
    fn shares_are_of_what_passed() {
        let ticks = |programs, idle| Ticks { programs, idle, ..Ticks::default() };
        let passed = ticks(150, 100).since(ticks(120, 110));
        assert_eq!((passed, passed.share(passed.programs)), (ticks(30, 0), Some(1.0)));
        assert_eq!(passed.since(passed).share(0), None);
        let now = Ticks::now(None).unwrap();
        assert!(now.all() > 0 && now.share(now.steal).is_some());
    }
}
