//! One tokio task per flow, on tokio's single-threaded runtime: an interval, and its own send.
//!
//! A program on tokio would be written like this. Its timers count milliseconds: the rates are right, since an interval
//! keeps an absolute schedule, but all flows due in a millisecond leave at its end.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use softtimers::{Clock, Monotonic, Timestamp};
use tokio::task::LocalSet;
use tokio::time::{Instant, interval_at};

use crate::Load;
use crate::lanes::Lanes;

pub(crate) fn run(load: &Load, lanes: Lanes) -> Result<Lanes> {
    spawn(
        load,
        lanes,
        |_| Ok(()),
        async |mut flow: Flow, ()| {
            let mut ticks = interval_at(flow.first, flow.interval);
            while flow.place < flow.end {
                ticks.tick().await;
                flow.send().await?;
            }
            Ok(())
        },
    )
}

/// The flow of one task.
pub(crate) struct Flow {
    lanes: Rc<RefCell<Lanes>>,
    socket: Arc<tokio::net::UdpSocket>,
    number: u32,
    packet: Vec<u8>,
    /// The scheduled time of its next packet.
    pub(crate) place: Timestamp,
    pub(crate) interval: Duration,
    /// The first scheduled time, by tokio's clock.
    pub(crate) first: Instant,
    pub(crate) end: Timestamp,
}

impl Flow {
    pub(crate) async fn send(&mut self) -> Result<()> {
        self.write();
        self.socket.send(&self.packet).await?;
        Ok(())
    }

    /// Returns the destination of all flows.
    pub(crate) fn to(&self) -> Result<SocketAddr> {
        Ok(self.socket.peer_addr()?)
    }

    /// Returns its next packet, and advances the schedule.
    pub(crate) fn write(&mut self) -> &[u8] {
        self.lanes.borrow_mut().number(self.number, self.place, &mut self.packet);
        self.place += self.interval;
        &self.packet
    }
}

/// Runs a task for each flow, on a single-threaded runtime. Each gets a clone of what `make` makes of the socket there.
pub(crate) fn spawn<T: Clone + 'static>(
    load: &Load,
    lanes: Lanes,
    make: impl FnOnce(&Arc<tokio::net::UdpSocket>) -> Result<T>,
    task: impl AsyncFn(Flow, T) -> Result<()> + Copy + 'static,
) -> Result<Lanes> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tasks = LocalSet::new();
    let (from, start) = (Instant::now() + SET_UP, Monotonic.now() + SET_UP);
    let lanes = Rc::new(RefCell::new(lanes));
    tasks.block_on(&runtime, async {
        // A second descriptor of the same socket: tokio's own.
        let socket = std::net::UdpSocket::from(lanes.borrow().socket.as_fd().try_clone_to_owned()?);
        let socket = Arc::new(tokio::net::UdpSocket::from_std(socket)?);
        let made = make(&socket)?;
        let flows = (0..load.flows).map(|number| {
            let (lanes, socket) = (Rc::clone(&lanes), Arc::clone(&socket));
            let (interval, offset) = (load.interval(number), load.offset(number));
            let packet = vec![0; load.bytes as usize];
            let (place, first, end) = (start + offset, from + offset, start + load.time);
            let flow = Flow { lanes, socket, number, packet, place, interval, first, end };
            let made = made.clone();
            tokio::task::spawn_local(async move { task(flow, made).await })
        });
        for flow in flows.collect::<Vec<_>>() {
            flow.await??;
        }
        anyhow::Ok(())
    })?;
    drop(tasks);
    Rc::into_inner(lanes).map(RefCell::into_inner).ok_or_else(|| anyhow::anyhow!("a task is left"))
}

/// The same time as for the descriptors.
const SET_UP: Duration = Duration::from_millis(50);
