//! quinn's runtime, with a gate for each connection: [`SmoothRuntime`].

use std::future::Future;
use std::io;
use std::net::UdpSocket;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime};

use crate::Counters;
use crate::current::Driven;
use crate::gate::GateConfig;
use crate::shared::Shared;
use crate::socket::SmoothSocket;
use crate::timer::Timer;

/// A quinn runtime on which connections send evenly, if their controllers are [`SmoothController`]s.
/// Otherwise it is tokio's, with finer timers.
///
/// A clone is the same runtime: keep one to read its [`counters`](Self::counters) or to switch it off.
///
/// ```no_run
/// use std::net::UdpSocket;
/// use std::sync::Arc;
/// use quinn::{Endpoint, EndpointConfig};
/// use softtimers_quinn::SmoothRuntime;
///
/// let runtime = SmoothRuntime::default();
/// let socket = UdpSocket::bind("[::]:0")?;
/// let endpoint = Endpoint::new(EndpointConfig::default(), None, socket, Arc::new(runtime.clone()))?;
/// // ... connect, send ...
/// # drop(endpoint);
/// println!("{:?}", runtime.counters());
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Cost
/// A gate and a timer for each connection, some 600 bytes; a clock check for each transmit; a wake-up for
/// each transmit that has to wait, unless an ACK comes first.
///
/// [`SmoothController`]: crate::SmoothController
#[derive(Clone, Debug, Default)]
pub struct SmoothRuntime {
    shared: Arc<Shared>,
}

impl SmoothRuntime {
    /// Makes a runtime whose gates have this configuration.
    pub fn new(config: GateConfig) -> Self {
        SmoothRuntime { shared: Arc::new(Shared::new(config)) }
    }

    /// Switches the gates of all connections off, or on again. A waiting transmit leaves when its connection
    /// is next polled, at the latest at its time.
    pub fn set_enabled(&self, enabled: bool) {
        self.shared.set_enabled(enabled);
    }

    /// Returns the counters of all its connections' gates.
    pub fn counters(&self) -> Counters {
        self.shared.counters()
    }
}

impl Runtime for SmoothRuntime {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        Box::pin(Timer::new(at))
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        // The end of each poll is a trigger state: due transmits of other connections leave then.
        softtimers_tokio::spawn(Driven::new(future, Arc::clone(&self.shared)));
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        Ok(Arc::new(SmoothSocket::around(TokioRuntime.wrap_udp_socket(socket)?)))
    }

    fn now(&self) -> Instant {
        TokioRuntime.now()
    }
}
