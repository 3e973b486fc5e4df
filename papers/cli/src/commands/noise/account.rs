//! The kernel's counters for a computing thread: interrupts of its CPU, waits for it, and time taken by the host.
//!
//! ```text
//!   /proc/interrupts             counts by line and CPU            handlers that ran in a phase
//!   /proc/thread-self/schedstat  ns ready but not running          another thread ran
//!   /proc/stat, the CPU's        hundredths of a second of steal   the host ran something else
//! ```
//!
//! The counters are read between two phases, never during one. An interrupt during the reading counts for the phase
//! after it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use softtimers_measure::ticks::Ticks;

/// The counters of one thread on one CPU.
#[derive(Debug)]
pub(super) struct Accounts {
    interrupts: Option<File>,
    schedstat: Option<File>,
    stat: Option<File>,
    processor: usize,
    text: Vec<u8>,
    lines: Vec<Line>,
    before: Totals,
}

/// A line of `/proc/interrupts`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Line {
    /// The interrupt's number, or the kernel's abbreviation.
    pub(super) name: String,
    /// The purpose of the interrupt.
    pub(super) what: String,
    count: u64,
}

/// The events between two readings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Passed {
    /// Time ready while others ran.
    pub(super) waited: Duration,
    /// How often the thread was scheduled on its CPU.
    pub(super) switches: u64,
    /// Time taken by the host.
    pub(super) stolen: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    waited: u64,
    switches: u64,
    stolen: u64,
}

impl Accounts {
    /// Opens the counters of the calling thread, which stays on this CPU.
    pub(super) fn open(processor: usize) -> Self {
        let open = |path| File::open(path).ok();
        let mut accounts = Accounts {
            interrupts: open("/proc/interrupts"),
            schedstat: open("/proc/thread-self/schedstat"),
            stat: open("/proc/stat"),
            processor,
            text: vec![0; 64 << 10],
            lines: vec![],
            before: Totals::default(),
        };
        accounts.read(|_, _| ());
        accounts
    }

    /// Names the counters that the machine lacks, one sentence each.
    pub(super) fn missing(&self) -> Vec<String> {
        let files = [
            (self.interrupts.is_some(), "no /proc/interrupts; interrupts are not counted"),
            (self.schedstat.is_some(), "no schedstat in /proc; waits for the CPU are not counted"),
            (self.stat.is_some(), "no /proc/stat; time taken by the host is not counted"),
        ];
        files.into_iter().filter(|(there, _)| !there).map(|(_, note)| note.to_owned()).collect()
    }

    /// Returns the lines that `read` refers to by index.
    pub(super) fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Returns the events since the last call; passes each line with new interrupts and their number to `interrupted`.
    pub(super) fn read(&mut self, mut interrupted: impl FnMut(usize, u64)) -> Passed {
        let mut now = self.before;
        if let Some([_, waited, switches]) = self.schedstat.as_ref().and_then(|file| schedstat(file).ok()) {
            (now.waited, now.switches) = (waited, switches);
        }
        if let Some(length) = fill(self.stat.as_ref(), &mut self.text) {
            let stat = Ticks::parse(&String::from_utf8_lossy(&self.text[..length]), Some(self.processor));
            now.stolen = stat.map_or(now.stolen, |ticks| ticks.steal);
        }
        if let Some(length) = fill(self.interrupts.as_ref(), &mut self.text) {
            let text = String::from_utf8_lossy(&self.text[..length]);
            count(&text, self.processor, &mut self.lines, &mut interrupted);
        }
        let before = std::mem::replace(&mut self.before, now);
        Passed {
            waited: Duration::from_nanos(now.waited.saturating_sub(before.waited)),
            switches: now.switches.saturating_sub(before.switches),
            stolen: Duration::from_millis(10 * now.stolen.saturating_sub(before.stolen)),
        }
    }
}

/// Reads as much of a file as there is room for.
fn fill(file: Option<&File>, text: &mut [u8]) -> Option<usize> {
    let mut length = 0;
    while length < text.len() {
        match file?.read_at(&mut text[length..], length as u64) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    Some(length)
}

fn schedstat(file: &File) -> io::Result<[u64; 3]> {
    let mut text = [0; 96];
    let length = file.read_at(&mut text, 0)?;
    let text = str::from_utf8(&text[..length]).map_err(io::Error::other)?;
    let numbers: Vec<u64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    numbers.try_into().map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Parses lines of a name, a count for each CPU, and a description. Lines for the whole machine have one count.
fn count(text: &str, processor: usize, lines: &mut Vec<Line>, interrupted: &mut impl FnMut(usize, u64)) {
    let mut rows = text.lines();
    let Some(header) = rows.next() else { return };
    let processors = header.split_whitespace().count();
    let wanted = format!("CPU{processor}");
    let Some(column) = header.split_whitespace().position(|name| name == wanted) else { return };
    // Lines keep their order, so each search begins after the last match.
    let mut next = 0;
    for row in rows {
        let Some((name, rest)) = row.split_once(':') else { continue };
        let name = name.trim();
        let mut words = rest.split_whitespace();
        let Some(count) = words.nth(column).and_then(|word| word.parse::<u64>().ok()) else { continue };
        let from = next.min(lines.len());
        let known = lines[from..].iter().position(|line| line.name == name).map(|further| from + further);
        // Lines of a device that appears during the measurement come last, wherever they are in the file.
        let Some(place) = known.or_else(|| lines.iter().position(|line| line.name == name)) else {
            let what: Vec<&str> = words.skip(processors - column - 1).collect();
            lines.push(Line { name: name.to_owned(), what: what.join(" "), count });
            next = lines.len();
            continue;
        };
        let new = count.saturating_sub(lines[place].count);
        lines[place].count = count;
        next = place + 1;
        if new > 0 {
            interrupted(place, new);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "\
           CPU0       CPU2
  1:          5          7  IO-APIC   1-edge  keyboard
LOC:        100        200  Local timer interrupts
ERR:          3
RES:          1          2  Rescheduling interrupts
";

    #[test]
    fn new_interrupts_of_the_processor_are_told_by_line() {
        let mut lines = vec![];
        count(BEFORE, 2, &mut lines, &mut |_, _| panic!("all are old"));
        let after =
            BEFORE.replace("200", "203").replace("100", "900").replace("ERR:          3\n", "  9: 1 1 new\n");
        let mut seen = vec![];
        count(&after, 2, &mut lines, &mut |place, new| seen.push((place, new)));
        count(&after.replace("          2  Re", "          6  Re"), 2, &mut lines, &mut |place, new| {
            seen.push((place, new));
        });
        let seen: Vec<_> = seen.into_iter().map(|(place, new)| (lines[place].what.as_str(), new)).collect();
        assert_eq!(seen, [("Local timer interrupts", 3), ("Rescheduling interrupts", 4)]);
        assert_eq!((lines[0].name.as_str(), lines[0].what.as_str()), ("1", "IO-APIC 1-edge keyboard"));
        count("", 2, &mut lines, &mut |_, _| panic!("nothing is there"));
        count(BEFORE, 1, &mut lines, &mut |_, _| panic!("it is not online"));
    }

    #[test]
    fn a_processor_that_works_is_interrupted() {
        let mut accounts = Accounts::open(rustix::thread::sched_getcpu());
        assert!(!accounts.lines().is_empty() || accounts.interrupts.is_none());
        // A tenth of a second has timer ticks on any CPU.
        super::super::work::Work::calibrated(Duration::from_millis(1));
        let mut new = 0;
        let passed = accounts.read(|_, count| new += count);
        assert!(new > 0 || passed.switches > 0 || accounts.interrupts.is_none(), "{passed:?}");
    }
}
