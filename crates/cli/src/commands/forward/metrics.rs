//! `--metrics`: the counters as text for Prometheus, over HTTP.
//!
//! A thread of its own [serves HTTP](crate::http), so that no HTTP client can delay packets.
//! It asks the forwarder to update its counts, which happens between two rounds, and formats the text itself. Nothing
//! is counted twice, and no work is done without requests.
//!
//! ```text
//!   scrapers ══ GET /metrics ═▶ thread ── asks, a byte in a pipe ─▶ forwarder, between two rounds
//!            ◀═ text ══════════        ◀── counted ────────────────
//! ```
//!
//! Scrapers that wait at the same time get the same text, so the forwarder is asked a
//! bounded number of times a second, however many there are.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use crate::exposition::CONTENT_TYPE as TEXT;
use crate::http::{Answer, Answers, Limits, Server, Stage};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use softtimers::{Clock, Monotonic, Timestamp};
use tokio::sync::{Mutex, oneshot};
use tokio::time::{sleep, timeout};

/// Listens for requests for metrics.
#[derive(Debug)]
pub(crate) struct Metrics(Server);

/// Formats the text of the counts.
pub(crate) type Text = Box<dyn FnOnce() -> String + Send>;

/// CountsRequests for it; a forwarder that has ended drops the sender.
type Ask = Box<dyn Fn(oneshot::Sender<Text>) + Send + Sync>;

impl Metrics {
    /// Listens; connections wait until [`serve`](Self::serve).
    ///
    /// # Errors
    /// The system's error for the address.
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        Server::bind(address, LIMITS).map(Metrics)
    }

    /// Returns the address in use.
    pub(crate) fn address(&self) -> SocketAddr {
        self.0.address()
    }

    /// Answers requests from now on, with the texts that `ask` gets.
    ///
    /// # Errors
    /// If the system has no descriptor or no thread left, or refuses to wait.
    pub(crate) fn serve(self, ask: impl Fn(oneshot::Sender<Text>) + Send + Sync + 'static) -> io::Result<()> {
        self.0.serve("metrics", Source { ask: Box::new(ask), latest: Mutex::new(None) })
    }
}

/// The source of texts.
struct Source {
    ask: Ask,
    /// The time of the last question to the forwarder, and its answer.
    latest: Mutex<Option<(Timestamp, Option<Bytes>)>>,
}

impl Source {
    /// Returns counts that are newer than this call; `None` if the forwarder does not answer.
    async fn text(&self) -> Option<Bytes> {
        let came = Monotonic.now();
        let mut latest = self.latest.lock().await;
        if let Some((asked, text)) = &*latest {
            // A request that waited for another one's question shares its answer.
            if *asked >= came {
                return text.clone();
            }
            sleep((*asked + BETWEEN).saturating_duration_since(came)).await;
        }
        let asked = Monotonic.now();
        let (reply, answer) = oneshot::channel();
        (self.ask)(reply);
        let made = timeout(ANSWER_TIME_LIMIT, answer).await.ok().and_then(Result::ok);
        let text = made.map(|made| Bytes::from(made()));
        *latest = Some((asked, text.clone()));
        text
    }
}

impl Answers for Source {
    async fn answer(&self, request: Request<Incoming>, stage: &Stage) -> Answer {
        stage.has_asked();
        respond(&request, self).await
    }
}

async fn respond(request: &Request<Incoming>, source: &Source) -> Answer {
    if !matches!(request.uri().path(), "/" | "/metrics") {
        return plain(StatusCode::NOT_FOUND, "only /metrics is here\n");
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refusal = plain(StatusCode::METHOD_NOT_ALLOWED, "GET only\n");
        refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refusal;
    }
    match source.text().await {
        Some(text) => with_type(Response::new(Full::new(text)), TEXT),
        None => plain(StatusCode::SERVICE_UNAVAILABLE, "the forwarder does not come to answer\n"),
    }
}

fn plain(status: StatusCode, words: &'static str) -> Answer {
    let mut response = Response::new(Full::new(Bytes::from_static(words.as_bytes())));
    *response.status_mut() = status;
    with_type(response, "text/plain; charset=utf-8")
}

fn with_type(mut response: Answer, kind: &'static str) -> Answer {
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// The longest time for the forwarder's answer.
const ANSWER_TIME_LIMIT: Duration = Duration::from_secs(2);
/// The minimum time between two questions to the forwarder.
const BETWEEN: Duration = Duration::from_millis(20);
/// A connection may last for Prometheus's default time-out in all; a head as long as hyper's minimum is more than any scraper
/// sends.
const LIMITS: Limits = Limits {
    connections: 128,
    head_bytes: 8_192,
    asking: Duration::from_secs(2),
    answering: Duration::from_secs(5),
    taking: Duration::from_secs(5),
    blocking_threads: 1,
};
