//! Many connections, each with Poisson arrivals of its own: together they are the Poisson process of the whole rate.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use example_harness::trial::Done;
use hdrhistogram::Histogram;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use softtimers_core::Random;
use softtimers_measure::usage::Usage;
use tokio::net::TcpStream;
use tokio::time::Instant;

const CONNECTIONS: u32 = 64;
/// For the connections to be made.
const SET_UP: Duration = Duration::from_millis(50);

/// Whose timers say when a request leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Timers {
    Tokio,
    Soft,
}

impl Timers {
    pub(crate) fn name(self) -> &'static str {
        if self == Timers::Tokio { "tokio" } else { "softtimers-tokio" }
    }

    async fn sleep_until(self, time: Instant) {
        match self {
            Timers::Tokio => tokio::time::sleep_until(time).await,
            Timers::Soft => softtimers_tokio::sleep_until(time).await,
        }
    }
}

/// What the client saw, from the time that each request should have left.
pub(crate) struct Seen {
    /// Until it left, in nanoseconds.
    pub(crate) late: Histogram<u64>,
    /// Until the answer was there.
    pub(crate) answered: Histogram<u64>,
    /// The client's.
    pub(crate) cpu: Duration,
}

/// The times at which a connection's requests should leave.
fn places(start: Instant, time: Duration, mean: Duration, number: u32) -> impl Iterator<Item = Instant> {
    let mut random = Random::stream(1999, number.into());
    let mut place = start;
    std::iter::repeat_with(move || {
        let gap = mean.as_secs_f64() * -(1.0 - random.next_u64() as f64 / u64::MAX as f64).max(1e-12).ln();
        place += Duration::from_secs_f64(gap);
        place
    })
    .take_while(move |place| *place < start + time)
}

async fn visit(
    server: SocketAddr,
    timers: Timers,
    places: impl Iterator<Item = Instant>,
    seen: Arc<Mutex<Seen>>,
) -> Done {
    let stream = TcpStream::connect(server).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::task::spawn_local(connection);
    for place in places {
        timers.sleep_until(place).await;
        sender.ready().await?;
        let late = place.elapsed();
        let request = Request::get("/").header("host", "server").body(Empty::<Bytes>::new())?;
        sender.send_request(request).await?.into_body().collect().await?;
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.late.record(late.as_nanos() as u64)?;
        seen.answered.record(place.elapsed().as_nanos() as u64)?;
    }
    Ok(())
}

/// Loads the server for a time at a rate, from one thread.
pub(crate) fn load(server: SocketAddr, timers: Timers, rate: u32, time: Duration) -> Done<Seen> {
    let histogram = || Histogram::new(3);
    let seen = Arc::new(Mutex::new(Seen { late: histogram()?, answered: histogram()?, cpu: Duration::ZERO }));
    let mean = Duration::from_secs(1) * CONNECTIONS / rate;
    let before = Usage::now();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let start = Instant::now() + SET_UP;
        let visits: Vec<_> = (0..CONNECTIONS)
            .map(|number| visit(server, timers, places(start, time, mean, number), seen.clone()))
            .map(tokio::task::spawn_local)
            .collect();
        for visit in visits {
            visit.await??;
        }
        Done::Ok(())
    })?;
    drop(runtime);
    let seen =
        Arc::into_inner(seen).ok_or("a visit goes on")?.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(Seen { cpu: Usage::now().since(&before).cpu, ..seen })
}
