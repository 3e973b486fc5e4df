//! The thread's scheduler slice.

use std::io::ErrorKind;
use std::time::Duration;

use softtimers_linux::sched::{Slice, is_real_time};

use super::{Outcome, duration_text};
use crate::trying::Trying;

/// Requests a short slice, reads back the granted one, and restores the previous one.
pub(super) fn slice() -> Outcome {
    let before = match Slice::current() {
        Err(error) if error.kind() == ErrorKind::Unsupported && is_real_time().unwrap_or(false) => {
            return Err("this thread is of a real-time class, which has no slices".to_owned());
        }
        current => current.trying("sched_getattr")?,
    };
    let held = Slice::hold(SHORT).trying("sched_setattr")?;
    let granted = Slice::current().trying("sched_getattr")?;
    drop(held);
    let after = Slice::current().trying("sched_getattr")?;
    let course = format!(
        "a thread asked for {}, had {} then, {} after",
        duration_text(SHORT),
        duration_text(granted),
        duration_text(after)
    );
    if granted == SHORT && after == before {
        Ok(format!("{course}: granted and given back"))
    } else {
        Err(format!("{course}, and {} before", duration_text(before)))
    }
}

/// The least that the kernel grants.
const SHORT: Duration = Duration::from_micros(100);
