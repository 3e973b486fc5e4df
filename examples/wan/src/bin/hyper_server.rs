//! A hyper server behind a path in virtual time: an hour of requests in a moment, reproducibly.
//!
//! The clock is tokio's, paused: it jumps to the next event. hyper does not notice.

use std::convert::Infallible;
use std::error::Error;
use std::time::Duration;

use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Bytes;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use softtimers_wan::Way;
use softtimers_wan::tokio::Path;
use tokio::time::{Instant, sleep};
use wan_examples::{Line, lines};

/// A client's view of an hour.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Seen {
    requests: usize,
    fastest: Duration,
    slowest: Duration,
    resent: u64,
}

/// Requests `bytes` every ten seconds for a time, over one connection.
async fn visit(line: Line, bytes: usize, duration: Duration) -> Result<Seen, Box<dyn Error>> {
    let path = Path::new(line.path)?;
    let (client, server) = path.stream();
    let page = Bytes::from(vec![b'x'; bytes]);
    let service = service_fn(move |_| {
        let page = page.clone();
        async move { Ok::<_, Infallible>(Response::new(Full::new(page))) }
    });
    tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(server), service));
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(client)).await?;
    tokio::spawn(connection);

    let start = Instant::now();
    let mut times = Vec::new();
    while start.elapsed() < duration {
        let asked = Instant::now();
        let request = Request::get("/").header("host", "server").body(Empty::<Bytes>::new())?;
        let body = sender.send_request(request).await?.into_body().collect().await?.to_bytes();
        assert_eq!(body.len(), bytes);
        times.push(asked.elapsed());
        sleep(Duration::from_secs(10)).await;
    }
    times.sort();
    let (fastest, slowest) = (times[0], times[times.len() - 1]);
    Ok(Seen { requests: times.len(), fastest, slowest, resent: path.resent(Way::Down) })
}

/// Runs on a clock that jumps.
fn paused<F: Future>(work: F) -> Result<F::Output, Box<dyn Error>> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    Ok(runtime.enable_time().start_paused(true).build()?.block_on(work))
}

fn main() -> Result<(), Box<dyn Error>> {
    for line in lines()? {
        let hour = Duration::from_secs(3_600);
        let seen = paused(visit(line.clone(), 100_000, hour))??;
        let Seen { requests, fastest, slowest, resent } = seen;
        println!(
            "{:32} {requests} requests in {fastest:?} to {slowest:?}, {resent} segments sent again",
            line.name
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No request is answered sooner than the path allows, none is lost, and an hour gives the same result twice.
    #[test]
    fn an_hour_of_requests() {
        for line in lines().unwrap() {
            let trip = Duration::from_micros(100_000 * 8 * 1_000_000 / line.rate_bps);
            let hour = Duration::from_secs(3_600);
            let first = paused(visit(line.clone(), 100_000, hour)).unwrap().unwrap();
            assert!(first.fastest > trip && first.requests > 300, "{first:?}");
            assert_eq!(first, paused(visit(line, 100_000, hour)).unwrap().unwrap());
        }
    }
}
