//! Sends camera frames as datagrams: the packets of each frame leave evenly, not all at once.
//!
//! `cargo run -p softtimers-quinn --example media [-- FRAMES]`

mod certificate;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use quinn::Connection;
use quinn::TransportConfig;
use softtimers_quinn::{KnownCapacity, SmoothController, SmoothRuntime};

type Failure = Box<dyn Error + Send + Sync>;

/// 30 frames a second, of 30 packets: 8.6 Mbit/s, and 12 for the gate, so that a frame has left before the next.
const FRAME: Duration = Duration::from_micros(33_333);
const PACKETS: u32 = 30;
const RATE: u64 = 12_000_000;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let frames: u32 = std::env::args().nth(1).map_or(Ok(60), |word| word.parse())?;
    let (client_config, server_config) = certificate::for_server("viewer")?;
    let server = softtimers_quinn::server_with_transport(
        server_config,
        TransportConfig::default(),
        ([127, 0, 0, 1], 0).into(),
    )?;
    let address = server.local_addr()?;
    let viewer = tokio::spawn(async move { view(server.accept().await.ok_or("closed")?.await?).await });

    let mut even = TransportConfig::default();
    let known = KnownCapacity::bits_per_second(RATE)?;
    even.congestion_controller_factory(Arc::new(SmoothController::new(known)));
    let runtime = SmoothRuntime::default();
    let camera = runtime.client(client_config, even)?;
    let connection = camera.connect(address, "viewer")?.await?;
    let mut clock = softtimers_tokio::interval(FRAME);
    for frame in 0..frames {
        clock.tick().await;
        for packet in 0..PACKETS {
            let mut datagram = vec![0x55; 1_100];
            datagram[..4].copy_from_slice(&(frame * PACKETS + packet).to_be_bytes());
            connection.send_datagram_wait(datagram.into()).await?;
        }
    }
    tokio::time::sleep(FRAME * 2).await;
    connection.close(0u32.into(), b"cut");
    let seen = viewer.await??;
    println!("{seen} of {} packets; the gate: {:?}", frames * PACKETS, runtime.counters());
    Ok(())
}

/// Counts packets until the connection is closed.
async fn view(connection: Connection) -> Result<u32, Failure> {
    let mut seen = 0;
    while connection.read_datagram().await.is_ok() {
        seen += 1;
    }
    Ok(seen)
}
