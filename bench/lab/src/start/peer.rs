//! One end of a connection in virtual time, with the gate before the path.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use quinn_proto::{
    Connection, ConnectionHandle, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig, ServerConfig,
    Transmit,
};
use softtimers_core::Timestamp;
use softtimers_quinn::gate::{Gate, GateConfig, Verdict};
use softtimers_wan::{Wan, Way};

use crate::bench::Done;

/// A datagram on the path.
pub(super) type Packet = (Vec<u8>, Option<EcnCodepoint>);

/// One end of the connection.
pub(super) struct Peer {
    pub(super) endpoint: Endpoint,
    pub(super) connections: HashMap<ConnectionHandle, Connection>,
    way: Way,
    far: SocketAddr,
    /// `None` for quinn unchanged.
    gate: Option<Gate>,
    buffer: Vec<u8>,
    /// A packet that was built and waits at the gate; its bytes are in the buffer.
    waits: Option<(Transmit, Timestamp)>,
}

impl Peer {
    pub(super) fn new(server: Option<ServerConfig>, way: Way, far: SocketAddr, gated: bool) -> Self {
        let mut config = EndpointConfig::default();
        config.rng_seed(Some([1 + way as u8; 32]));
        Peer {
            endpoint: Endpoint::new(Arc::new(config), server.map(Arc::new), false, None),
            connections: HashMap::new(),
            way,
            far,
            gate: gated.then(|| Gate::new(GateConfig::default())),
            buffer: Vec::new(),
            waits: None,
        }
    }

    pub(super) fn connection(&mut self) -> Option<&mut Connection> {
        self.connections.values_mut().next()
    }

    /// Receives a datagram.
    pub(super) fn take(&mut self, now: Instant, (bytes, ecn): Packet) -> Done {
        let mut answer = vec![];
        match self.endpoint.handle(now, self.far, None, ecn, bytes.as_slice().into(), &mut answer) {
            Some(DatagramEvent::NewConnection(incoming)) => {
                let accepted = self.endpoint.accept(incoming, now, &mut answer, None);
                let (handle, connection) = accepted.map_err(|error| error.cause)?;
                self.connections.insert(handle, connection);
            }
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(connection) = self.connections.get_mut(&handle) {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::Response(_)) | None => {}
        }
        Ok(())
    }

    /// Lets the connection work, and puts the datagrams that it may send on the path.
    pub(super) fn drive(&mut self, now: Timestamp, instant: Instant, wan: &mut Wan<Packet>) {
        let Peer { endpoint, connections, way, gate, buffer, waits, .. } = self;
        let Some((handle, connection)) = connections.iter_mut().next() else { return };
        if connection.poll_timeout().is_some_and(|at| at <= instant) {
            connection.handle_timeout(instant);
        }
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(answer) = endpoint.handle_event(*handle, event) {
                connection.handle_event(answer);
            }
        }
        loop {
            let transmit = match waits.take() {
                Some((transmit, _)) => transmit,
                None => {
                    buffer.clear();
                    let most = gate.as_mut().map_or(MOST_AT_ONCE, |gate| gate.begin(MOST_AT_ONCE));
                    let mut build = || connection.poll_transmit(instant, most, buffer);
                    let built = match gate {
                        Some(gate) => gate.drive(build),
                        None => build(),
                    };
                    let Some(transmit) = built else { return };
                    transmit
                }
            };
            let segment = transmit.segment_size.unwrap_or(transmit.size);
            let (packets, bytes) = (transmit.size.div_ceil(segment) as u32, transmit.size as u32);
            if let Some(gate) = gate {
                if let Verdict::Wait(until) = gate.offer(now, packets, bytes) {
                    *waits = Some((transmit, until));
                    return;
                }
                gate.departed(now, packets, bytes);
            }
            for packet in buffer[..transmit.size].chunks(segment) {
                wan.offer(now, *way, packet.len() as u32, (packet.to_vec(), transmit.ecn));
            }
        }
    }

    /// Returns when the next action is due, without a packet.
    pub(super) fn poll_timeout(&mut self, epoch: Instant) -> Option<Timestamp> {
        let timeout = self.connection().and_then(Connection::poll_timeout);
        let timeout = timeout.map(|at| Timestamp::ZERO + at.saturating_duration_since(epoch));
        let release = self.waits.as_ref().map(|(_, until)| *until);
        timeout.into_iter().chain(release).min()
    }
}

/// Packets in one transmit, as in quinn.
const MOST_AT_ONCE: usize = 10;
