//! One tokio task a flow, each with a limiter of the crate `governor`: wait until it permits one more, and send.
//!
//! A limiter says how soon the next packet may leave, not when it should have: when one is late, all later ones are.
//! Its timers are those of `futures-timer`, with a thread of their own.

use anyhow::{Context, Result};
use governor::{Quota, RateLimiter};
use softtimers::{Clock, Monotonic};
use tokio::time::sleep_until;

use crate::Load;
use crate::lanes::Lanes;
use crate::task_each::{self, Flow};

pub(crate) fn run(load: &Load, lanes: Lanes) -> Result<Lanes> {
    task_each::spawn(
        load,
        lanes,
        |_| Ok(()),
        async |mut flow: Flow, ()| {
            let limiter = RateLimiter::direct(Quota::with_period(flow.interval).context("an interval")?);
            sleep_until(flow.first).await;
            while Monotonic.now() < flow.end {
                limiter.until_ready().await;
                flow.send().await?;
            }
            Ok(())
        },
    )
}
