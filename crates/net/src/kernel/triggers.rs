//! The kernel's own trigger states (soft timers §3): the ends of exceptions and interrupts, and the
//! idle loop. A program sees the first by a counter; the others take programs in the kernel.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::param::page_size;
use softtimers_linux::mapping::Mapping;
use softtimers_linux::perf;
use softtimers_linux::wait::wait_readable;

use super::Outcome;
use super::pair::Pair;
use super::programs::Passes;
use crate::trying::Trying;

/// Touches fresh pages, and checks that as many faults are counted.
pub(super) fn page_fault_counter() -> Outcome {
    let counter =
        perf::page_faults().needing("CAP_PERFMON or kernel.perf_event_paranoid of 2 or less", "perf")?;
    let before = perf::count(counter.as_fd()).trying("reading a counter")?;
    touch_pages()?;
    let counted = perf::count(counter.as_fd()).trying("reading a counter")?.saturating_sub(before);
    if counted >= PAGES {
        Ok(format!("touching {PAGES} fresh pages counted {counted} faults"))
    } else {
        Err(format!("touching {PAGES} fresh pages counted only {counted} faults"))
    }
}

/// Touches fresh pages, and checks that a program runs at the end of each fault.
pub(super) fn traps() -> Outcome {
    let faults = Passes::count_at(c"page_fault_user")?;
    touch_pages()?;
    match faults.count()? {
        count if count >= PAGES => Ok(format!(
            "a program on page_fault_user ran {count} times while {PAGES} fresh pages were touched"
        )),
        count => Err(format!("a program on page_fault_user ran {count} times for {PAGES} fresh pages")),
    }
}

/// Sends on loopback, whose receive half is a soft interrupt, and checks that a program runs at its end.
pub(super) fn interrupts() -> Outcome {
    let soft = Passes::count_at(c"softirq_exit")?;
    let hard = Passes::count_at(c"irq_handler_exit")?;
    let pair = Pair::new()?;
    for _ in 0..DATAGRAMS {
        pair.sender.send(&[0]).trying("sending")?;
    }
    let arrived = pair.received(DATAGRAMS, Duration::from_millis(10))?.len();
    match (soft.count()?, hard.count()?) {
        (0, _) => Err(format!("a program on softirq_exit did not run while {arrived} datagrams arrived")),
        (soft, hard) => Ok(format!(
            "{DATAGRAMS} datagrams on loopback ran a program on softirq_exit {soft} times, one on \
             irq_handler_exit {hard} times"
        )),
    }
}

/// Sleeps, and checks that a program runs as a CPU goes idle and comes back.
pub(super) fn idle() -> Outcome {
    let idle = Passes::count_at(c"cpu_idle")?;
    let pair = Pair::new()?;
    for _ in 0..SLEEPS {
        wait_readable(pair.receiver.as_fd(), Some(SLEEP)).trying("waiting")?;
    }
    match idle.count()? {
        0 => Err(format!("a program on cpu_idle did not run in {SLEEPS} sleeps of 1 ms: no CPU was idle")),
        count => Ok(format!("a program on cpu_idle ran {count} times during {SLEEPS} sleeps of 1 ms")),
    }
}

fn touch_pages() -> Result<(), String> {
    let pages = Mapping::untouched(PAGES as usize * page_size()).trying("fresh pages")?;
    for page in 0..PAGES as usize {
        pages.copy_in(page * page_size(), &[1]);
    }
    Ok(())
}

const PAGES: u64 = 64;
const DATAGRAMS: usize = 32;
const SLEEPS: u32 = 10;
const SLEEP: Duration = Duration::from_millis(1);
