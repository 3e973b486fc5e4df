//! One CPU, to keep a measured loop on and everything else off.
//!
//! A receiver or a load generator that the scheduler puts on the sender's CPU takes time from
//! the sender in the middle of an interval, which no real network does.

use std::io;
use std::marker::PhantomData;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

use crate::failure::Failure;

/// A CPU that this process may run on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Processor(usize);

impl Processor {
    /// CPU `number`, if this process may run there.
    ///
    /// # Errors
    /// A usage failure that names those it may run on.
    pub fn new(number: usize) -> Result<Self, Failure> {
        let allowed = allowed().map_err(|error| Failure::broke_off("asking for the processors", &error))?;
        if allowed.contains(&number) {
            return Ok(Processor(number));
        }
        let listed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
        Err(Failure::usage(format_args!("--cpu {number}: this process may run on {}", listed.join(", "))))
    }

    /// The one that the calling thread runs on at this moment.
    ///
    /// # Errors
    /// If it may not run there any more.
    pub fn current() -> io::Result<Self> {
        let number = sched_getcpu();
        let ours = allowed()?.contains(&number);
        if ours { Ok(Processor(number)) } else { Err(io::Error::other("moved off its processor")) }
    }

    /// Two different CPUs, where there are two.
    pub fn two() -> Option<[usize; 2]> {
        match allowed().ok()?[..] {
            [first, second, ..] => Some([first, second]),
            _ => None,
        }
    }

    /// Returns the number of the CPU.
    pub fn number(self) -> usize {
        self.0
    }

    /// Keeps the calling thread on this CPU until the guard is dropped, and for good what it
    /// starts meanwhile.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn keep(self) -> io::Result<Kept> {
        let before = sched_getaffinity(None)?;
        sched_setaffinity(None, &set([self.0]))?;
        Ok(Kept { before, _thread: PhantomData })
    }

    /// Keeps a process off this CPU, if there is another one.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn keep_off(self, process: u32) -> io::Result<()> {
        let others: Vec<usize> = allowed()?.into_iter().filter(|&number| number != self.0).collect();
        let process = i32::try_from(process).ok().and_then(Pid::from_raw);
        if others.is_empty() || process.is_none() {
            return Ok(());
        }
        Ok(sched_setaffinity(process, &set(others))?)
    }
}

/// A thread kept on one CPU. Dropping it lets the thread run wherever it might before.
#[derive(Debug)]
#[must_use = "dropping the guard lets the thread move again"]
pub struct Kept {
    before: CpuSet,
    /// Stays on the thread that it releases.
    _thread: PhantomData<*const ()>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        // Fails only if all of those CPUs have been taken away meanwhile.
        let _ = sched_setaffinity(None, &self.before);
    }
}

/// The CPUs that a thread may run on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Processors(Vec<usize>);

impl Processors {
    /// Those of the calling thread.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn allowed() -> io::Result<Self> {
        allowed().map(Processors)
    }

    /// Keeps the calling thread on these.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn keep(&self) -> io::Result<()> {
        Ok(sched_setaffinity(None, &set(self.0.iter().copied()))?)
    }
}

/// The CPUs that the calling thread may run on.
fn allowed() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&number| set.is_set(number)).collect())
}

fn set(numbers: impl IntoIterator<Item = usize>) -> CpuSet {
    let mut set = CpuSet::new();
    numbers.into_iter().for_each(|number| set.set(number));
    set
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stays_where_it_is_kept() {
        let [first, second] = Processor::two().unwrap_or_else(|| [allowed().unwrap()[0]; 2]);
        for number in [first, second] {
            let thread = std::thread::spawn(move || {
                let before = allowed().unwrap();
                let kept = Processor::new(number).unwrap().keep().unwrap();
                assert_eq!(allowed().unwrap(), [number]);
                drop(kept);
                assert_eq!(allowed().unwrap(), before);
            });
            thread.join().unwrap();
        }
        assert!(allowed().unwrap().contains(&first), "only that thread was kept");
    }

    #[test]
    fn a_processor_that_is_not_ours_is_refused() {
        let refused = Processor::new(CpuSet::MAX_CPU + 5).unwrap_err().to_string();
        assert!(refused.starts_with(&format!("--cpu {}: this process may run on ", CpuSet::MAX_CPU + 5)));
    }
}
