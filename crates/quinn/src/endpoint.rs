//! One call for most people: [`client`] and [`server`].

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use quinn::congestion::CubicConfig;
use quinn::{ClientConfig, Endpoint, EndpointConfig, ServerConfig, TransportConfig};

use crate::{SmoothController, SmoothRuntime};

/// quinn's default transport configuration, with CUBIC under a [`SmoothController`]. Change it as you like.
pub fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport.congestion_controller_factory(Arc::new(SmoothController::<CubicConfig>::default()));
    transport
}

/// An endpoint for outgoing connections that send evenly, on any free port.
///
/// They have the configuration `config`, but for the transport, which is [`transport()`]: quinn doesn't let
/// anybody read the one that is set. To choose it, see [`SmoothRuntime::client`].
///
/// # Errors
/// What the system says of the socket; and if it is not called in a tokio runtime.
pub fn client(config: ClientConfig) -> io::Result<Endpoint> {
    SmoothRuntime::default().client(config, transport())
}

/// An endpoint that accepts connections at `addr` and sends evenly.
///
/// They have the configuration `config`, but for the transport, which is [`transport()`]. To choose it, see
/// [`SmoothRuntime::server`].
///
/// # Errors
/// As for [`client`].
pub fn server(config: ServerConfig, addr: SocketAddr) -> io::Result<Endpoint> {
    SmoothRuntime::default().server(config, transport(), addr)
}

impl SmoothRuntime {
    /// As [`client`], on this runtime and with this transport configuration, whose congestion controller
    /// should be a [`SmoothController`]: begin with [`transport()`].
    ///
    /// # Errors
    /// As for [`client`].
    pub fn client(&self, mut config: ClientConfig, transport: TransportConfig) -> io::Result<Endpoint> {
        config.transport_config(Arc::new(transport));
        // A host without IPv6 has no such address.
        let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))
            .or_else(|_| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))?;
        let mut endpoint = self.endpoint(None, socket)?;
        endpoint.set_default_client_config(config);
        Ok(endpoint)
    }

    /// As [`server`], on this runtime and with this transport configuration: see
    /// [`client`](Self::client).
    ///
    /// # Errors
    /// As for [`client`].
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
