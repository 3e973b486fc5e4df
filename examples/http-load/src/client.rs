//! Many connections, each with its own arrivals: together they are the Poisson process of the whole rate, or its
//! constant gaps.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use example_harness::trial::Done;
use hdrhistogram::Histogram;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use softtimers_measure::usage::Usage;
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::arrivals::{CONNECTIONS, Load};

/// The time to make the connections.
const SET_UP: Duration = Duration::from_millis(50);

/// The timers that decide when a request leaves.
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

/// Times measured by the client, from when each request should have left.
pub(crate) struct Seen {
    /// Until it left, in nanoseconds.
    pub(crate) late: Histogram<u64>,
    /// Until the answer had come.
    pub(crate) answered: Histogram<u64>,
    /// The client's CPU time.
    pub(crate) cpu: Duration,
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

/// Loads the server, from one thread.
pub(crate) fn load(server: SocketAddr, timers: Timers, load: Load) -> Done<Seen> {
    let histogram = || Histogram::new(3);
    let seen = Arc::new(Mutex::new(Seen { late: histogram()?, answered: histogram()?, cpu: Duration::ZERO }));
    let before = Usage::now();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let start = Instant::now() + SET_UP;
        let visits: Vec<_> = (0..CONNECTIONS)
            .map(|number| (load.places(number).map(move |place| start + place), seen.clone()))
            .map(|(places, seen)| visit(server, timers, places, seen))
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
