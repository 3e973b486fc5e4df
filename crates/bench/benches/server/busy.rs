//! How busy a processor is, by the kernel's account: whatever runs there, in programs, in the kernel, and in interrupts.

use std::fs;

/// A processor's account at one moment, in the kernel's ticks of 1 to 10 ms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Account {
    all: u64,
    idle: u64,
}

impl Account {
    /// Of this processor, now; `None` where the kernel does not say.
    pub(crate) fn of(processor: usize) -> Option<Self> {
        Account::parse(&fs::read_to_string("/proc/stat").ok()?, processor)
    }

    fn parse(text: &str, processor: usize) -> Option<Self> {
        let name = format!("cpu{processor} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&name))?;
        // Guest time, the ninth and tenth number, is part of the first two.
        let ticks: Vec<u64> =
            line.split_whitespace().take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
        let (Some(idle), Some(waiting)) = (ticks.get(3), ticks.get(4)) else { return None };
        Some(Account { all: ticks.iter().sum(), idle: idle + waiting })
    }

    /// The share of the time since that it was not idle.
    pub(crate) fn busy_until(self, end: Account) -> Option<f64> {
        let all = end.all.checked_sub(self.all).filter(|&all| all > 0)?;
        Some(1.0 - end.idle.saturating_sub(self.idle) as f64 / all as f64)
    }
}
