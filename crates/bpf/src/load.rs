//! Attaches an object's programs, tracepoint by tracepoint, and checks the kernel's support.
//!
//! A kernel may lack a tracepoint (another architecture, another version); the others are used. So attaching
//! reports a result for each tracepoint, and fails only if none could be attached. Privileges are not checked
//! in advance: the missing capability is looked up after a failure.

use std::fs;
use std::thread;

use aya::programs::tp_btf::BtfTracePointLink;
use aya::{Btf, BtfError};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::Error;
use crate::error::line;
use crate::object::{Object, Verified};

/// A tracepoint, and the reason if it could not be attached to.
pub(crate) type Attached = (&'static str, Result<(), String>);

/// Returns the kernel's description of its types, if it is new enough for the programs.
pub(crate) fn kernel_types(needed: (u32, u32)) -> Result<Btf, Error> {
    release_from(needed)?;
    Btf::from_sys_fs().map_err(|error| match error {
        BtfError::FileError { error, .. } => Error::NoBtf(error.to_string()),
        other => Error::NoBtf(line(&other)),
    })
}

/// Fails if the kernel is too old for the programs.
pub(crate) fn release_from(needed: (u32, u32)) -> Result<(), Error> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    if version(&release).is_some_and(|version| version < needed) {
        return Err(Error::TooOld { needed, release: release.trim().to_owned() });
    }
    Ok(())
}

/// Returns whether the kernel is PREEMPT_RT, where softirqs are interrupted by others.
pub(crate) fn is_realtime() -> bool {
    fs::read_to_string("/proc/sys/kernel/version").is_ok_and(|version| version.contains("PREEMPT_RT"))
}

/// The first two numbers of a release; `None` if it does not begin with such.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// The programs that are attached, and their tracepoints.
#[derive(Debug)]
pub(crate) struct AttachedAll {
    /// Each tracepoint tried.
    pub(crate) tried: Vec<Attached>,
    /// The verifier's figures.
    pub(crate) verified: Vec<Verified>,
    /// Detached when they are dropped.
    pub(crate) links: Vec<BtfTracePointLink>,
}

/// Loads and attaches `prefix` + tracepoint at each tracepoint.
///
/// # Errors
/// If none could be attached: the error of the first, which is the most informative.
pub(crate) fn attach_all(
    object: &mut Object,
    prefix: &str,
    tracepoints: impl IntoIterator<Item = &'static str>,
    types: &Btf,
) -> Result<AttachedAll, Error> {
    let mut all = AttachedAll { tried: vec![], verified: vec![], links: vec![] };
    let mut first = None;
    for tracepoint in tracepoints {
        let name = format!("{prefix}{tracepoint}");
        let one = object.load_at(&name, tracepoint, types);
        match one.and_then(|verified| Ok((verified, object.attach(&name)?))) {
            Ok((verified, link)) => {
                all.tried.push((tracepoint, Ok(())));
                all.verified.push(verified);
                all.links.push(link);
            }
            Err(error) => {
                all.tried.push((tracepoint, Err(error.to_string())));
                first.get_or_insert(error);
            }
        }
    }
    match first {
        Some(error) if all.links.is_empty() => Err(error),
        None if all.tried.is_empty() => Err(Error::NothingAttached),
        _ => Ok(all),
    }
}

/// Makes system calls on each of these CPUs, at which a program can set up the CPU, until `is_up` reports it;
/// skips a CPU that is offline or on which this process may not run.
pub(crate) fn call_on_each(
    processors: impl Iterator<Item = u32> + Send,
    mut is_up: impl FnMut(u32) -> Result<bool, Error> + Send,
) -> Result<(), Error> {
    let visit = || {
        for cpu in processors {
            // `set` would panic on a number beyond the set.
            if cpu as usize >= CpuSet::MAX_CPU {
                continue;
            }
            let mut there = CpuSet::new();
            there.set(cpu as usize);
            if sched_setaffinity(None, &there).is_err() {
                continue;
            }
            // The wheel may be in use at that moment, so try again.
            for _ in 0..ATTEMPTS {
                thread::yield_now();
                if is_up(cpu)? {
                    break;
                }
            }
        }
        Ok(())
    };
    // A separate thread, because this one must not change its CPU.
    thread::scope(|scope| {
        let visitor = thread::Builder::new().spawn_scoped(scope, visit)?;
        visitor.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The first Linux with programs at typed tracepoints and the capabilities for them; and with timers that
/// stay on their CPU.
pub(crate) const PROBE: (u32, u32) = (5, 8);
pub(crate) const TIMERS: (u32, u32) = (6, 7);
/// The program that sets CPUs up, in each object with timers.
pub(crate) const INIT: &str = "st_init_cpu";
/// System calls on a CPU until it is set up.
const ATTEMPTS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn releases_are_compared_by_their_first_two_numbers() {
        assert_eq!(version("6.18.44-fc-v669\n"), Some((6, 18)));
        assert_eq!(version("5.4-rc1"), Some((5, 4)));
        assert!(version("6.7").unwrap() >= TIMERS && version("6.10.1").unwrap() > TIMERS);
        assert_eq!((version(""), version("next")), (None, None));
    }

    #[test]
    fn a_tracepoint_that_is_missing_does_not_hinder_the_others() {
        let object = aya::include_bytes_aligned!("../object/probe.bpf.o");
        let loaded = kernel_types(PROBE)
            .and_then(|types| Ok((Object::load(&mut aya::EbpfLoader::new(), &[], object)?, types)));
        let (mut object, types) = match loaded {
            Ok(loaded) => loaded,
            Err(why) => {
                let name = std::thread::current().name().unwrap_or("?").to_owned();
                let line = format!("skipped: {name}: {why}\n");
                return std::io::stderr().write_all(line.as_bytes()).unwrap();
            }
        };
        let all = attach_all(&mut object, "on_", ["no_such_tracepoint", "sched_switch"], &types).unwrap();
        assert!(
            all.tried[0].1.as_ref().is_err_and(|why| why.contains("on_no_such_tracepoint")),
            "{:?}",
            all.tried
        );
        assert!(all.tried[1].1.is_ok() && all.links.len() == 1, "{:?}", all.tried);
        assert!(attach_all(&mut object, "on_", ["no_such_tracepoint"], &types).is_err());
    }
}
