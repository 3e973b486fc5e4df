//! After fork(2): a child has the pending timers, and a kernel timer of its own to wake up for them.
#![cfg(target_os = "linux")]

use std::os::fd::{AsFd, AsRawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, WaitOptions, waitpid};
use softtimers::Timers;

/// Calls `child` in a forked process, and returns its exit code; 101 if it panics.
fn forked(child: impl FnOnce() -> i32) -> Option<i32> {
    // SAFETY: the child has this thread alone. It takes no lock that another thread may hold, and ends with `_exit`.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let code = catch_unwind(AssertUnwindSafe(child)).unwrap_or(101);
        // SAFETY: it ends the process.
        unsafe { libc::_exit(code) };
    }
    let (_, status) = waitpid(Pid::from_raw(pid), WaitOptions::empty()).unwrap().unwrap();
    status.exit_status()
}

fn is_readable(source: &impl AsFd) -> bool {
    poll(&mut [PollFd::new(source, PollFlags::IN)], Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() > 0
}

#[test]
fn a_child_does_not_wake_its_parent() {
    let mut timers = Timers::new().unwrap();
    timers.after(Duration::from_secs(600), "late");
    let number = timers.as_raw_fd();
    let code = forked(|| {
        timers.after(Duration::from_millis(1), "soon");
        let same = timers.as_raw_fd() == number;
        poll(&mut [PollFd::new(&timers, PollFlags::IN)], None).unwrap();
        let due = timers.next_due().map(|due| due.event);
        timers.after(Duration::ZERO, "now");
        i32::from(!(same && due == Some("soon") && is_readable(&timers) && timers.len() == 2))
    });
    assert_eq!(code, Some(0));
    assert!(!is_readable(&timers), "the parent's timer is as it was");
    // The descriptor that the parent has watched since before is the child's as well.
    timers.after(Duration::ZERO, "here");
    let code = forked(|| {
        let waited = timers.wait().unwrap().map(|due| due.event);
        i32::from(
            !(waited == Some("here") && timers.wait_readable(&timers_that_are_due()).unwrap().is_none()),
        )
    });
    assert_eq!(code, Some(0));
    assert!(is_readable(&timers), "the child has not taken the parent's expiry");
    assert_eq!(timers.next_due().map(|due| due.event), Some("here"));
}

fn timers_that_are_due() -> Timers<()> {
    let mut timers = Timers::new().unwrap();
    timers.after(Duration::ZERO, ());
    timers
}
