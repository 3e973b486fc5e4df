//! [`SmoothSocket`]: a socket behind a gate.

use std::io::{self, ErrorKind, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncTimer, AsyncUdpSocket, UdpPoller};
use softtimers::{Clock, Monotonic, Timestamp};

use crate::current::with_gate;
use crate::gate::{Release, Verdict};
use crate::timer::Timer;

/// A socket that refuses transmits that may not leave yet, as if it were full.
#[derive(Debug)]
pub(crate) struct SmoothSocket {
    inner: Arc<dyn AsyncUdpSocket>,
}

impl SmoothSocket {
    pub(crate) fn around(inner: Arc<dyn AsyncUdpSocket>) -> Self {
        SmoothSocket { inner }
    }
}

impl AsyncUdpSocket for SmoothSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(SmoothPoller { inner: Arc::clone(&self.inner).create_io_poller(), timer: None })
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let (packets, bytes) = extent(transmit);
        let verdict = with_gate(|gate| {
            let now = Monotonic.now();
            (now, gate.offer(now, packets, bytes))
        });
        if let Some((_, Verdict::Wait(_))) = verdict {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.inner.try_send(transmit)?;
        if let Some((now, _)) = verdict {
            with_gate(|gate| gate.departed(now, packets, bytes));
        }
        Ok(())
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.inner.poll_recv(cx, bufs, meta)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    /// Called by the driver before it builds transmits.
    fn max_transmit_segments(&self) -> usize {
        let most = self.inner.max_transmit_segments();
        with_gate(|gate| gate.begin(most)).unwrap_or(most)
    }

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

/// Returns the number of packets and bytes of a transmit.
fn extent(transmit: &Transmit<'_>) -> (u32, u32) {
    let bytes = transmit.contents.len();
    let packets = transmit.segment_size.map_or(1, |segment| bytes.div_ceil(segment.max(1)));
    // No transmit is longer than 64 KiB.
    (packets as u32, bytes as u32)
}

/// Waits for the socket, and for the gate.
#[derive(Debug)]
struct SmoothPoller {
    inner: Pin<Box<dyn UdpPoller>>,
    /// The timer, and the time at which the kernel serves it. Made when first needed: an idle connection has none.
    timer: Option<(Timestamp, Timer)>,
}

impl UdpPoller for SmoothPoller {
    fn poll_writable(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let SmoothPoller { inner, timer } = self.get_mut();
        ready!(inner.as_mut().poll_writable(cx))?;
        let Some(Release { from, timer: [earliest, latest] }) = with_gate(|gate| gate.held()).flatten()
        else {
            return Poll::Ready(Ok(()));
        };
        if Monotonic.now() >= from {
            return Poll::Ready(Ok(()));
        }
        // A time beyond the range of `Instant` never comes.
        let Some(at) = Monotonic::instant_of(from) else { return Poll::Ready(Ok(())) };
        let (set, timer) = timer.get_or_insert_with(|| (latest, Timer::new(at)));
        // Setting the kernel's timer costs more than everything else here: one that is set for a time within the range stays.
        if !(earliest..=latest).contains(set) {
            *set = latest;
        }
        timer.wake_within(at, set.saturating_duration_since(from));
        Pin::new(timer).poll(cx).map(Ok)
    }
}
