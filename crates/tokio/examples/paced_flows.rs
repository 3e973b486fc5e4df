//! A media server's output: a hundred flows on one UDP socket, each at its own rate, one of which is slowed
//! down at run time.
//!
//! ```text
//!   cargo run --release -p softtimers-tokio --example paced_flows
//! ```
#![forbid(unsafe_code)]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use softtimers_tokio::paced_sender::FlowConfig;
use softtimers_tokio::paced_sender::PacedSender;
use softtimers_tokio::{PaceConfig, Rate, sleep};
use tokio::net::UdpSocket;

const FLOWS: u64 = 100;
const TIME: Duration = Duration::from_millis(300);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let receiver = UdpSocket::bind("127.0.0.1:0").await?;
    let to = receiver.local_addr()?;
    let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").await?);
    let sender = PacedSender::new(&socket)?;

    let mut flows = Vec::new();
    for number in 0..FLOWS {
        let flow = sender
            .add(to, FlowConfig::new(PaceConfig::new(Rate::every(Duration::from_millis(2 + number % 8))?)))?;
        flows.push(flow);
        let sender = sender.clone();
        tokio::spawn(async move {
            // Sends each datagram at its time; an error ends only this flow.
            while sender.send_to(&flow, &[number as u8; 200]).await.is_ok() {}
        });
    }
    sleep(TIME / 2).await;
    sender.set_rate(&flows[0], Rate::pps(50))?; // its receiver has complained
    sleep(TIME / 2).await;

    let stats = sender.stats();
    sender.close();
    println!(
        "{} datagrams of {FLOWS} flows by {} system calls, {} failed",
        stats.sent, stats.calls, stats.failed
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_runs() {
        super::main().unwrap();
    }
}
