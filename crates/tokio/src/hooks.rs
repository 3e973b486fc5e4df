//! Trigger states where a runtime's threads park and unpark.

use softtimers_core::TriggerState;
use tokio::runtime::Builder;

use crate::driver::trigger;

/// Makes the parking and unparking of the runtime's threads trigger states: timers that came due while the
/// last task ran fire before the thread sleeps, and those that came due while it slept fire before anything
/// else is polled.
///
/// It uses both of tokio's hooks. A program that needs them itself calls [`trigger`] with
/// [`TriggerState::Idle`] from them instead.
///
/// ```
/// use softtimers_tokio::trigger_at_park;
/// use tokio::runtime::Builder;
///
/// let mut builder = Builder::new_multi_thread();
/// let runtime = trigger_at_park(&mut builder).worker_threads(2).enable_all().build()?;
/// runtime.block_on(async { /* … */ });
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn trigger_at_park(builder: &mut Builder) -> &mut Builder {
    let check = || {
        trigger(TriggerState::Idle);
    };
    builder.on_thread_park(check).on_thread_unpark(check)
}

/// Makes the end of each poll of each task a trigger state, wrapped or not. Only with tokio's unstable hooks:
/// `RUSTFLAGS="--cfg tokio_unstable"`.
#[cfg(tokio_unstable)]
pub fn trigger_at_polls(builder: &mut Builder) -> &mut Builder {
    builder.on_after_task_poll(|_| {
        trigger(TriggerState::HandlerExit);
    })
}
