//! The usual entry points: [`client_with_transport`] and [`server_with_transport`].
//!
//! The transport of a quinn configuration cannot be read, so it cannot be changed, only replaced. Therefore
//! the transport is a separate argument here, and only its congestion controller is set.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use quinn::{ClientConfig, Endpoint, EndpointConfig, ServerConfig, TransportConfig};

use crate::{SmoothController, SmoothRuntime};

/// Returns the transport configuration with an [`EvenCubic`](crate::EvenCubic) under a [`SmoothController`]
/// as its congestion controller. Nothing else in it changes.
pub fn with_even_controller(mut transport: TransportConfig) -> TransportConfig {
    transport.congestion_controller_factory(Arc::new(SmoothController::default()));
    transport
}

/// Makes an endpoint for outgoing connections that send evenly, on any free port.
///
/// They have the configuration `config`, except that its transport is replaced by `transport` [with the even
/// controller](with_even_controller). For another controller, see [`SmoothRuntime::client`].
///
/// ```no_run
/// # use std::time::Duration;
/// # use quinn::TransportConfig;
/// # async fn run(config: quinn::ClientConfig) -> std::io::Result<()> {
/// let mut transport = TransportConfig::default();
/// transport.keep_alive_interval(Some(Duration::from_secs(5))); // stays
/// let endpoint = softtimers_quinn::client_with_transport(config, transport)?;
/// # drop(endpoint);
/// # Ok(()) }
/// # let _ = run;
/// ```
///
/// # Errors
/// The system's error for the socket, or a call outside of a tokio runtime.
pub fn client_with_transport(config: ClientConfig, transport: TransportConfig) -> io::Result<Endpoint> {
    SmoothRuntime::default().client(config, with_even_controller(transport))
}

/// Makes an endpoint that accepts connections at `addr` and sends evenly.
///
/// They have the configuration `config`, except that its transport is replaced by `transport` [with the even
/// controller](with_even_controller). For another controller, see [`SmoothRuntime::server`].
///
/// # Errors
/// As for [`client_with_transport`].
pub fn server_with_transport(
    config: ServerConfig,
    transport: TransportConfig,
    addr: SocketAddr,
) -> io::Result<Endpoint> {
    SmoothRuntime::default().server(config, with_even_controller(transport), addr)
}

impl SmoothRuntime {
    /// As [`client_with_transport`], on this runtime and with this transport as it is. Its congestion
    /// controller should be a [`SmoothController`]; otherwise quinn's pacer decides when packets leave.
    ///
    /// # Errors
    /// As for [`client_with_transport`].
    pub fn client(&self, mut config: ClientConfig, transport: TransportConfig) -> io::Result<Endpoint> {
        config.transport_config(Arc::new(transport));
        // A host without IPv6 has no such address.
        let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))
            .or_else(|_| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))?;
        let mut endpoint = self.endpoint(None, socket)?;
        endpoint.set_default_client_config(config);
        Ok(endpoint)
    }

    /// As [`server_with_transport`], on this runtime and with this transport as it is: see [`client`](Self::client).
    ///
    /// # Errors
    /// As for [`client_with_transport`].
    pub fn server(
        &self,
        mut config: ServerConfig,
        transport: TransportConfig,
        addr: SocketAddr,
    ) -> io::Result<Endpoint> {
        config.transport_config(Arc::new(transport));
        self.endpoint(Some(config), UdpSocket::bind(addr)?)
    }

    fn endpoint(&self, server: Option<ServerConfig>, socket: UdpSocket) -> io::Result<Endpoint> {
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(io::Error::other("no tokio runtime: call this within one"));
        }
        Endpoint::new(EndpointConfig::default(), server, socket, Arc::new(self.clone()))
    }
}
