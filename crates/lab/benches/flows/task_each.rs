//! One tokio task a flow, on tokio's runtime of one thread: an interval, and a send of its own.
//!
//! That is how a program on tokio would be written. Its timers count milliseconds: the rates are right, for an
//! interval keeps an absolute schedule, but all flows that are due in a millisecond leave at its end.

use std::cell::RefCell;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use softtimers::{Clock, Monotonic};
use tokio::task::LocalSet;
use tokio::time::{Instant, interval_at};

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
                let mut ticks = interval_at(from + offset, interval);
                let (mut place, mut packet) = (start + offset, vec![0; bytes]);
                while place < end {
                    ticks.tick().await;
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
