//! One tokio task a flow, on tokio's runtime of one thread: an interval, and a send of its own.
//!
//! That is how a program on tokio would be written. Its timers count milliseconds: the rates are right, for an
//! interval keeps an absolute schedule, but all flows that are due in a millisecond leave at its end.

use std::cell::RefCell;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use softtimers::{Clock, Monotonic, Timestamp};
use tokio::task::LocalSet;
use tokio::time::{Instant, interval_at};

use crate::Load;
use crate::lanes::Lanes;

pub(crate) fn run(load: &Load, lanes: Lanes) -> Result<Lanes> {
    spawn(load, lanes, async |mut flow: Flow| {
        let mut ticks = interval_at(flow.first, flow.interval);
        while flow.place < flow.end {
            ticks.tick().await;
            flow.send().await?;
        }
        Ok(())
    })
}

/// The flow of one task.
pub(crate) struct Flow {
    lanes: Rc<RefCell<Lanes>>,
    socket: Rc<tokio::net::UdpSocket>,
    number: u32,
    packet: Vec<u8>,
    /// The place of its next packet.
    place: Timestamp,
    pub(crate) interval: Duration,
    /// The first place, by tokio's clock.
    pub(crate) first: Instant,
    pub(crate) end: Timestamp,
}

impl Flow {
    pub(crate) async fn send(&mut self) -> Result<()> {
        self.lanes.borrow_mut().number(self.number, self.place, &mut self.packet);
        self.socket.send(&self.packet).await?;
        self.place += self.interval;
        Ok(())
    }
}

/// Runs a task for each flow, on a runtime of one thread.
pub(crate) fn spawn(
    load: &Load,
    lanes: Lanes,
    task: impl AsyncFn(Flow) -> Result<()> + Copy + 'static,
) -> Result<Lanes> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tasks = LocalSet::new();
    let (from, start) = (Instant::now() + SET_UP, Monotonic.now() + SET_UP);
    let lanes = Rc::new(RefCell::new(lanes));
    tasks.block_on(&runtime, async {
        // A second descriptor of the same socket: tokio's own.
        let socket = std::net::UdpSocket::from(lanes.borrow().socket.as_fd().try_clone_to_owned()?);
        let socket = Rc::new(tokio::net::UdpSocket::from_std(socket)?);
        let flows = (0..load.flows).map(|number| {
            let (lanes, socket) = (Rc::clone(&lanes), Rc::clone(&socket));
            let (interval, offset) = (load.interval(number), load.offset(number));
            let packet = vec![0; load.bytes as usize];
            let (place, first, end) = (start + offset, from + offset, start + load.time);
            let flow = Flow { lanes, socket, number, packet, place, interval, first, end };
            tokio::task::spawn_local(async move { task(flow).await })
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
