//! A client of an HTTP service that allows 500 requests a second without bursts: evenly spaced, not 500 at
//! each full second.
//!
//! `cargo run --release -p softtimers-tokio --example rate_limited_http`

use std::net::SocketAddr;
use std::{error::Error, io, time::Duration};

use softtimers_tokio::{CatchUp, Instant, PaceConfig, Pacer, Rate, spawn, timeout};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const REQUESTS: u32 = 200;

/// Answers one short request on each connection.
async fn serve(listener: TcpListener) -> io::Result<()> {
    loop {
        let (mut stream, _) = listener.accept().await?;
        spawn(async move {
            let asked = stream.read(&mut [0; 1_500]).await?;
            assert!(asked > 0);
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok").await
        });
    }
}

async fn get(server: SocketAddr) -> io::Result<bool> {
    let mut stream = TcpStream::connect(server).await?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok"))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let server = listener.local_addr()?;
    spawn(serve(listener));

    // It is a strict limit: missed requests are not made up.
    let limit = PaceConfig { catch_up: CatchUp::NONE, ..PaceConfig::new(Rate::per_second(500)?) };
    let mut pacer = Pacer::new(limit)?;
    let (start, mut answers) = (Instant::now(), Vec::new());
    for _ in 0..REQUESTS {
        pacer.ready().await;
        answers.push(spawn(timeout(Duration::from_secs(30), get(server))));
        pacer.departed();
    }
    for answer in answers {
        assert!(answer.await???);
    }
    println!("{REQUESTS} requests in {:?}", start.elapsed());
    Ok(())
}

#[test]
fn runs() -> Result<(), Box<dyn Error>> {
    main()
}
