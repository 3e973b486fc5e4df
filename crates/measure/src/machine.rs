//! The machine a report was made on, and who else used it meanwhile.
//!
//! Microseconds mean nothing without the kernel, CPU and clock they were measured with. And on
//! a shared machine a figure may be the neighbours' and not ours: [`BackgroundLoad`] compares the
//! kernel's own accounts at both ends of a run, so that a benchmark can say "inconclusive".
//!
//! ```text
//!   /proc/stat      all CPUs:        programs  │ interrupts │ idle │ steal
//!   /proc/PID/stat  ours:            └ a part ┘ the rest is other programs'
//! ```
//!
//! "Ours" are all processes of this program: a receiver beside a sender is part of the experiment.
//! Time in interrupts is nobody's: most of it is spent on our own packets.

use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::ticks::Ticks;

/// The `machine` object of every report. What the system does not tell is empty or `null`.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Machine {
    /// The release of the kernel.
    pub kernel: String,
    /// The model of the CPU.
    pub cpu: String,
    /// CPUs this process may run on.
    pub cores: usize,
    /// The kernel's current clock source: `tsc`, `kvm-clock`, `arch_sys_counter`, …
    pub clocksource: String,
    /// Whether the machine is virtual.
    pub virtualised: bool,
    /// The share of all CPUs' time that the host took away during the run.
    pub steal_share: Option<f64>,
    /// The share of all CPUs' time that other programs used during the run.
    pub others_share: Option<f64>,
}

impl Machine {
    /// Reads the description. The shares are empty until [`Machine::during`] fills them in.
    ///
    /// # Cost
    /// Some file reads: a millisecond.
    pub fn read() -> Self {
        let cpuinfo = read("/proc/cpuinfo");
        let clocksource = read("/sys/devices/system/clocksource/clocksource0/current_clocksource");
        Machine {
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            cpu: cpu_model(&cpuinfo).unwrap_or(std::env::consts::ARCH).to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            clocksource: clocksource.trim().to_owned(),
            virtualised: has_hypervisor_flag(&cpuinfo)
                || HYPERVISOR_SIGNS.iter().any(|sign| Path::new(sign).exists()),
            steal_share: None,
            others_share: None,
        }
    }

    /// The same machine with what else went on during a run.
    pub fn during(self, interference: Interference) -> Self {
        Machine { steal_share: interference.steal_share, others_share: interference.others_share, ..self }
    }

    /// Returns one line for people.
    pub fn line(&self) -> String {
        let steal =
            self.steal_share.map_or_else(String::new, |share| format!(", steal {:.1}%", share * 100.0));
        self.place() + &steal
    }

    /// Returns the part of that line that does not change during a run.
    pub fn place(&self) -> String {
        let virtualised = if self.virtualised { ", virtual machine" } else { "" };
        let Machine { kernel, cpu, cores, clocksource, .. } = self;
        format!("Linux {kernel}, {cores} x {cpu}{virtualised}, clock {clocksource}")
    }

    /// One line of what else went on during a run, where it was watched.
    pub fn interference(&self) -> Option<String> {
        let named = [("the host", self.steal_share), ("other programs", self.others_share)];
        let known = named.into_iter().filter_map(|(who, share)| Some((who, share?)));
        let shown: Vec<String> = known.map(|(who, share)| format!("{who} {:.1}%", share * 100.0)).collect();
        (!shown.is_empty()).then(|| format!("CPU taken meanwhile: {}", shown.join(", ")))
    }
}

/// Watches other users of the CPUs from its creation on.
///
/// ```
/// use softtimers_measure::machine::BackgroundLoad;
///
/// let background = BackgroundLoad::watch();
/// // … the run …
/// let interference = background.so_far();
/// assert!(interference.steal_share.is_none_or(|share| (0.0..=1.0).contains(&share)));
/// ```
#[derive(Debug)]
pub struct BackgroundLoad {
    of_host: bool,
    start: Option<Sample>,
}

impl BackgroundLoad {
    /// Starts watching the machine.
    pub fn watch() -> Self {
        BackgroundLoad { of_host: false, start: Sample::take() }
    }

    /// Starts watching only what the host of this virtual machine takes: where other programs are part of the run, and for
    /// those who ask in the middle of one and are not to disturb it.
    pub fn of_host() -> Self {
        BackgroundLoad { of_host: true, start: Sample::new(None) }
    }

    /// Returns the interference since.
    ///
    /// # Cost
    /// A file read for each process of the machine, some milliseconds; one, of the host. The accounts advance in ticks of 1 to
    /// 10 ms, so watch for a second or more.
    pub fn so_far(&self) -> Interference {
        let end = if self.of_host { Sample::new(None) } else { Sample::take() };
        self.start.zip(end).map_or_else(Interference::default, |(start, end)| start.until(end))
    }
}

/// Shares of all CPUs' time that went neither to us nor to idling.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Interference {
    /// Taken by the host of this virtual machine.
    pub steal_share: Option<f64>,
    /// Used by other programs.
    pub others_share: Option<f64>,
}

impl Interference {
    /// Why figures measured meanwhile prove nothing, if so: a share above 5%.
    pub fn inconclusive(&self) -> Option<String> {
        let above = |share: Option<f64>| share.filter(|&share| share > MOST_INTERFERENCE);
        let percent = |share: f64| format!("{:.1}%", share * 100.0);
        match (above(self.steal_share), above(self.others_share)) {
            (Some(share), _) => Some(format!("the host took {} of the CPU time", percent(share))),
            (_, Some(share)) => Some(format!("other programs used {} of the CPU time", percent(share))),
            _ => None,
        }
    }
}

/// Both accounts at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sample {
    all: Ticks,
    own: Option<u64>,
}

impl Sample {
    fn take() -> Option<Self> {
        let (own_name, own) = name_and_ticks(&read("/proc/self/stat"))?;
        let own_id = std::process::id().to_string();
        // The receiver and the load beside a sender run the same program and belong to the same run.
        let others = fs::read_dir("/proc").ok()?.flatten().filter_map(|entry| {
            let id = entry.file_name().into_string().ok()?;
            let candidate = id != own_id && id.bytes().all(|byte| byte.is_ascii_digit());
            let (name, ticks) = candidate.then(|| name_and_ticks(&read(&format!("/proc/{id}/stat"))))??;
            (name == own_name).then_some(ticks)
        });
        Sample::new(Some(own + others.sum::<u64>()))
    }

    fn new(own: Option<u64>) -> Option<Self> {
        Ticks::now(None).map(|all| Sample { all, own })
    }

    fn until(self, end: Sample) -> Interference {
        let passed = end.all.since(self.all);
        let own = end.own.zip(self.own).map(|(end, start)| end.saturating_sub(start));
        Interference {
            steal_share: passed.share(passed.steal),
            others_share: own.and_then(|own| passed.share(passed.programs.saturating_sub(own))),
        }
    }
}

/// A program's name, and the ticks that it and its children that have been waited for have used.
fn name_and_ticks(stat: &str) -> Option<(String, u64)> {
    // The name stands in parentheses and may contain anything, parentheses too.
    let (name, fields) = stat.rsplit_once(')')?;
    let (_, name) = name.split_once('(')?;
    let ticks = fields.split_whitespace().skip(FIELDS_BEFORE_UTIME).take(4).map(str::parse);
    let ticks: Vec<u64> = ticks.collect::<Result<_, _>>().ok()?;
    (ticks.len() == 4).then(|| (name.to_owned(), ticks.iter().sum()))
}

fn cpu_model(cpuinfo: &str) -> Option<&str> {
    // x86 calls it "model name"; other architectures "Model", "cpu" or nothing.
    ["model name", "Model", "cpu model", "cpu"].into_iter().find_map(|name| {
        let values = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        values
            .filter(|(key, _)| key.trim() == name)
            .map(|(_, value)| value.trim())
            .find(|value| !value.is_empty())
    })
}

fn has_hypervisor_flag(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().find_map(|line| line.strip_prefix("flags"));
    flags.is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The files by which guests without the x86 flag show that they are guests.
const HYPERVISOR_SIGNS: [&str; 2] = ["/sys/hypervisor/type", "/proc/device-tree/hypervisor/compatible"];

/// `state` is the first field after the name, `utime` the twelfth; `stime`, `cutime`, `cstime` follow.
const FIELDS_BEFORE_UTIME: usize = 11;

/// Above this share of somebody else's work, pairs of runs differ by more than the effects we look for.
const MOST_INTERFERENCE: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "7 (a) b) R 1 7 7 0 -1 4194560 90 0 0 0 30 20 5 5 20 0 1 0 100 0";

    #[test]
    fn this_machine_describes_itself() {
        let machine = Machine::read();
        assert!(!machine.kernel.is_empty() && !machine.cpu.is_empty() && machine.cores > 0);
        assert!(machine.line().contains(&machine.kernel));
        let keys = serde_json::to_value(&machine).unwrap();
        for key in ["kernel", "cpu", "cores", "clocksource", "virtualised", "steal_share"] {
            assert!(keys.get(key).is_some(), "{key}");
        }
    }

    #[test]
    fn our_own_and_idle_time_are_no_interference() {
        assert_eq!(name_and_ticks(OWN).unwrap(), ("a) b".to_owned(), 60));
        let all = Ticks { programs: 150, idle: 1_010, interrupts: 10, steal: 0 };
        let start = Sample { all, own: Some(60) };
        let all = Ticks { programs: 650, idle: 1_390, interrupts: 30, steal: 100 };
        let end = Sample { all, own: Some(510) };
        let interference = start.until(end);
        assert_eq!(interference, Interference { steal_share: Some(0.1), others_share: Some(0.05) });
        assert_eq!(interference.inconclusive().unwrap(), "the host took 10.0% of the CPU time");
    }

    #[test]
    fn busy_neighbours_make_a_run_inconclusive() {
        let shares = |steal, others| Interference { steal_share: Some(steal), others_share: Some(others) };
        assert_eq!(shares(0.01, 0.05).inconclusive(), None);
        let busy = shares(0.0, 0.2).inconclusive().unwrap();
        assert_eq!(busy, "other programs used 20.0% of the CPU time");
    }

    #[test]
    fn unreadable_accounts_say_nothing() {
        assert_eq!(name_and_ticks("7 (x) R 1 2"), None);
        let now = Sample::take().unwrap();
        assert_eq!(now.until(now), Interference::default());
        assert_eq!(Interference::default().inconclusive(), None);
        assert_eq!(BackgroundLoad::of_host().so_far().others_share, None);
    }

    #[test]
    fn other_architectures_name_their_processor_differently() {
        assert_eq!(cpu_model("processor\t: 0\nmodel name\t: Xeon\nflags\t: fpu hypervisor\n"), Some("Xeon"));
        assert_eq!(
            cpu_model("processor\t: 0\nBogoMIPS\t: 50\n\nModel\t\t: Raspberry Pi\n"),
            Some("Raspberry Pi")
        );
        assert_eq!(cpu_model(""), None);
        assert!(has_hypervisor_flag("model name\t: Xeon\nflags\t\t: fpu hypervisor sse\n"));
        assert!(!has_hypervisor_flag("flags\t\t: fpu hypervisors\n"));
    }
}
