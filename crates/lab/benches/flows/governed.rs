//! One tokio task a flow, each with a limiter of the crate `governor`: wait until it permits one more, and send.
//!
//! A limiter says how soon the next packet may leave, not when it should have: what one is late, all after it are. Its timers
//! are those of `futures-timer`, with a thread of their own.

use std::cell::RefCell;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result};
use governor::{Quota, RateLimiter};
use softtimers::{Clock, Monotonic};
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep_until};

use crate::Load;
use crate::lanes::Lanes;

pub(crate) fn run(load: &Load, lanes: Lanes) -> Result<Lanes> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tasks = LocalSet::new();
    let bytes = load.bytes as usize;
    let (from, start) = (Instant::now() + SET_UP, Monotonic.now() + SET_UP);
    let end = start + load.time;
    let lanes = Rc::new(RefCell::new(lanes));
    tasks.block_on(&runtime, async {
        // A second descriptor of the same socket: tokio's own.
        let socket = std::net::UdpSocket::from(lanes.borrow().socket.as_fd().try_clone_to_owned()?);
        let socket = Rc::new(tokio::net::UdpSocket::from_std(socket)?);
        let flows = (0..load.flows).map(|flow| {
            let (lanes, socket) = (Rc::clone(&lanes), Rc::clone(&socket));
            let (interval, offset) = (load.interval(flow), load.offset(flow));
            tokio::task::spawn_local(async move {
                let limiter = RateLimiter::direct(Quota::with_period(interval).context("an interval")?);
                let (mut place, mut packet) = (start + offset, vec![0; bytes]);
                sleep_until(from + offset).await;
                while Monotonic.now() < end {
                    limiter.until_ready().await;
                    lanes.borrow_mut().number(flow, place, &mut packet);
                    socket.send(&packet).await?;
                    place += interval;
                }
                anyhow::Ok(())
            })
        });
        for flow in flows.collect::<Vec<_>>() {
            flow.await??;
        }
        anyhow::Ok(())
    })?;
    drop(tasks);
    Rc::into_inner(lanes).map(RefCell::into_inner).ok_or_else(|| anyhow::anyhow!("a task is left"))
}

/// As for the descriptors.
const SET_UP: Duration = Duration::from_millis(50);
