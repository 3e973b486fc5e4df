//! The settings shared by both ends of the connection.

/// An error ends the run without being handled.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The longest packet, without UDP's and IP's headers.
pub(crate) const PACKET: usize = 1_350;

/// The one stream: the client asks on it, the server answers.
pub(crate) const STREAM: u64 = 0;

/// The client's request.
pub(crate) const REQUEST: &[u8] = b"all of it, please";

/// Returns the byte at this offset of the answer.
pub(crate) fn byte_at(place: u64) -> u8 {
    (place % 251) as u8
}

/// Parameters of the connection, and time-outs of the example.
pub(crate) mod limits {
    use std::time::Duration;

    use super::PACKET;

    /// No transfer takes a third of this.
    pub(crate) const GIVE_UP: Duration = Duration::from_secs(5);

    /// Returns the configuration that client and server share: flow control without effect, so that only congestion
    /// control matters.
    pub(crate) fn config() -> quiche::Result<quiche::Config> {
        let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION)?;
        config.set_application_protos(&[b"softtimers-example"])?;
        config.set_max_idle_timeout(GIVE_UP.as_millis() as u64);
        config.set_max_recv_udp_payload_size(PACKET);
        config.set_max_send_udp_payload_size(PACKET);
        config.set_initial_max_data(100_000_000);
        config.set_initial_max_stream_data_bidi_local(100_000_000);
        config.set_initial_max_stream_data_bidi_remote(100_000_000);
        config.set_initial_max_streams_bidi(1);
        Ok(config)
    }
}
