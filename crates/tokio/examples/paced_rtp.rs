//! Sends RTP-like packets evenly: a video frame is 40 packets, spread over its 8 ms instead of sent at once.
//!
//! `cargo run --release -p softtimers-tokio --example paced_rtp`

use std::{error::Error, time::Duration};

use softtimers_tokio::{Instant, PacedUdpSocket, Pacer, spawn};
use tokio::net::UdpSocket;

const FRAMES: u32 = 30;
const PACKETS: u32 = 40;
const GAP: Duration = Duration::from_micros(200);

/// The first bytes of RFC 3550: version, marker and payload type, sequence number, time stamp, source.
fn header(sequence: u16, frame: u32, last: bool) -> [u8; 12] {
    let mut header = [0x80, if last { 0xe0 } else { 0x60 }, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    header[2..4].copy_from_slice(&sequence.to_be_bytes());
    header[4..8].copy_from_slice(&(frame * 720).to_be_bytes()); // 90 kHz, 8 ms
    header
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let receiver = UdpSocket::bind("127.0.0.1:0").await?;
    let socket = UdpSocket::bind("127.0.0.1:0").await?;
    socket.connect(receiver.local_addr()?).await?;
    let arrivals = spawn(async move {
        let (mut buffer, mut times) = ([0; 1_500], Vec::new());
        while times.len() < (FRAMES * PACKETS) as usize {
            receiver.recv(&mut buffer).await?;
            times.push(Instant::now());
        }
        Ok::<_, std::io::Error>(times)
    });

    let mut paced = PacedUdpSocket::new(socket, Pacer::every(GAP)?);
    for packet in 0..FRAMES * PACKETS {
        let mut datagram = [0; 1_200];
        let (frame, number) = (packet / PACKETS, packet % PACKETS);
        datagram[..12].copy_from_slice(&header(packet as u16, frame, number + 1 == PACKETS));
        paced.send(&datagram).await?;
    }

    let times = tokio::time::timeout(Duration::from_secs(30), arrivals).await???;
    let mut gaps: Vec<Duration> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort();
    let short = gaps.partition_point(|gap| *gap < GAP / 2);
    println!("{} gaps, {:?} in the median, {short} back to back", gaps.len(), gaps[gaps.len() / 2]);
    Ok(())
}

#[test]
fn runs() -> Result<(), Box<dyn Error>> {
    main()
}
