//! `--metrics`: the counters as text for Prometheus, over HTTP.
//!
//! A thread of its own serves HTTP, with hyper on a single-threaded runtime, so that no HTTP client can delay packets.
//! It asks the forwarder to update its counts, which happens between two rounds, and formats the text itself. Nothing
//! is counted twice, and no work is done without requests.
//!
//! ```text
//!   scrapers ══ GET /metrics ═▶ thread ── asks, a byte in a pipe ─▶ forwarder, between two rounds
//!            ◀═ text ══════════        ◀── counted ────────────────
//! ```
//!
//! Connections are served at once, each for a bounded time. When there is no room for more, a connection that has not
//! sent a request in its first moment gives way to a new one, and so does one that does not read its answer; one whose
//! answer is pending never does. Scrapers that wait at the same time get the same text, so the forwarder is asked a
//! bounded number of times a second, however many there are.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::{Mutex as Lock, PoisonError};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollTimeout};
use softtimers::{Clock, Monotonic, Timestamp};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, oneshot};
use tokio::task::{AbortHandle, yield_now};
use tokio::time::{sleep, timeout};

/// Listens for requests for metrics.
#[derive(Debug)]
pub(crate) struct Metrics {
    listener: std::net::TcpListener,
    address: SocketAddr,
}

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
        let listener = std::net::TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        Ok(Metrics { listener, address })
    }

    /// Returns the address in use.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers requests from now on, with the texts that `ask` gets.
    ///
    /// # Errors
    /// If the system has no descriptor or no thread left, or refuses to wait.
    pub(crate) fn serve(self, ask: impl Fn(oneshot::Sender<Text>) + Send + Sync + 'static) -> io::Result<()> {
        let source = Arc::new(Source { ask: Box::new(ask), latest: Mutex::new(None) });
        try_to_wait()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _inside = runtime.enter();
            TcpListener::from_std(self.listener)?
        };
        let serve = move || runtime.block_on(serve(listener, source));
        std::thread::Builder::new().name("metrics".to_owned()).spawn(serve)?;
        Ok(())
    }
}

/// Tries a wait, since the runtime would panic later where it is refused.
fn try_to_wait() -> io::Result<()> {
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    epoll.wait(&mut [EpollEvent::empty()], EpollTimeout::ZERO)?;
    Ok(())
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
        let made = timeout(REQUEST_TIME_LIMIT, answer).await.ok().and_then(Result::ok);
        let text = made.map(|made| Bytes::from(made()));
        *latest = Some((asked, text.clone()));
        text
    }
}

async fn serve(listener: TcpListener, source: Arc<Source>) {
    let mut open = VecDeque::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                if !made_room(&mut open).await {
                    // All others have pending answers, so this one is closed.
                    continue;
                }
                let stage = Arc::new(Stage::asks());
                let served = tokio::spawn(connection(stream, Arc::clone(&source), Arc::clone(&stage)));
                open.push_back(Open { task: served.abort_handle(), stage });
                // Gives connections the time to send their requests before the next one is accepted.
                yield_now().await;
            }
            // Out of descriptors: one may become free.
            Err(_) => sleep(PAUSE).await,
        }
    }
}

/// A connection in progress.
#[derive(Debug)]
struct Open {
    task: AbortHandle,
    stage: Arc<Stage>,
}

/// Until when a connection is safe from being closed: to send its request, or to read. `None` while its answer is
/// pending.
#[derive(Debug)]
struct Stage(Lock<Option<Timestamp>>);

impl Stage {
    fn asks() -> Self {
        Stage(Lock::new(Some(Monotonic.now() + TO_ASK)))
    }

    fn has_asked(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn reads(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Monotonic.now() + TO_READ);
    }

    fn until(&self) -> Option<Timestamp> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says whether there is room for one more, closing a connection that has not sent its request or read in time if
/// needed.
async fn made_room(open: &mut VecDeque<Open>) -> bool {
    loop {
        open.retain(|connection| !connection.task.is_finished());
        if open.len() < MOST_CONNECTIONS {
            return true;
        }
        let slow =
            open.iter().enumerate().filter_map(|(at, connection)| Some((connection.stage.until()?, at)));
        let Some((until, slowest)) = slow.min() else { return false };
        if until <= Monotonic.now() {
            open.remove(slowest).iter().for_each(|connection| connection.task.abort());
        } else {
            // It may still send its request, and any other may end.
            sleep(MOMENT).await;
        }
    }
}

/// Serves one request.
async fn connection(stream: TcpStream, source: Arc<Source>, stage: Arc<Stage>) {
    let answer = service_fn(move |request| {
        stage.has_asked();
        let (source, stage) = (Arc::clone(&source), Arc::clone(&stage));
        async move {
            let response = respond(&request, &source).await;
            stage.reads();
            Ok::<_, Infallible>(response)
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIME_LIMIT)
        .max_buf_size(LONGEST_HEAD)
        .keep_alive(false)
        // A client may close its direction after the request.
        .half_close(true)
        .serve_connection(TokioIo::new(stream), answer);
    // A client's errors are its own concern.
    let _ = timeout(CONNECTION_TIME_LIMIT, served).await;
}

async fn respond(request: &Request<Incoming>, source: &Source) -> Response<Full<Bytes>> {
    if !matches!(request.uri().path(), "/" | "/metrics") {
        return plain(StatusCode::NOT_FOUND, "only /metrics is here\n");
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refusal = plain(StatusCode::METHOD_NOT_ALLOWED, "GET only\n");
        refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refusal;
    }
    match source.text().await {
        Some(text) => with_type(Response::new(Full::new(text)), "text/plain; version=0.0.4; charset=utf-8"),
        None => plain(StatusCode::SERVICE_UNAVAILABLE, "the forwarder does not come to answer\n"),
    }
}

fn plain(status: StatusCode, words: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(words.as_bytes())));
    *response.status_mut() = status;
    with_type(response, "text/plain; charset=utf-8")
}

fn with_type(mut response: Response<Full<Bytes>>, kind: &'static str) -> Response<Full<Bytes>> {
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// The longest time for a client's request, and for the forwarder's answer.
const REQUEST_TIME_LIMIT: Duration = Duration::from_secs(2);
/// The longest time for a connection in all: Prometheus's default time-out.
const CONNECTION_TIME_LIMIT: Duration = Duration::from_secs(10);
/// The minimum time between two questions to the forwarder.
const BETWEEN: Duration = Duration::from_millis(20);
/// The pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);
/// The most connections at once; each has a descriptor and some kilobytes.
const MOST_CONNECTIONS: usize = 128;
/// Time for each connection to send its request even if there is no room: more than most round trips. With it, new
/// connections are accepted at a rate of at least 2,560 a second, unless all others have pending answers.
const TO_ASK: Duration = Duration::from_millis(50);
/// Time for each to read its answer if there is no room: by then its first bytes have left, and most answers
/// completely.
const TO_READ: Duration = Duration::from_millis(250);
/// The time between two checks for room.
const MOMENT: Duration = Duration::from_millis(1);
/// The longest head of a request: more than any scraper sends, and hyper's minimum.
const LONGEST_HEAD: usize = 8_192;

#[cfg(test)]
mod tests {
    use super::*;

    /// When there is no room: connections that used up their time to ask or to read give way, and those with pending
    /// answers stay.
    #[test]
    fn who_does_not_read_gives_way() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let open = |until| {
                let task = tokio::spawn(std::future::pending::<()>());
                Open { task: task.abort_handle(), stage: Arc::new(Stage(Lock::new(until))) }
            };
            let mut all: VecDeque<_> = (0..MOST_CONNECTIONS).map(|_| open(None)).collect();
            assert!(!made_room(&mut all).await, "all are being answered");
            for number in [MOST_CONNECTIONS - 1, 0] {
                all[number] = open(Some(Timestamp::ZERO));
                let slow = all[number].task.clone();
                assert!(made_room(&mut all).await);
                // The runtime has to run all those tasks first.
                for _ in 0..MOST_CONNECTIONS {
                    yield_now().await;
                }
                assert_eq!((slow.is_finished(), all.len()), (true, MOST_CONNECTIONS - 1));
                all.push_back(open(None));
            }
        });
    }
}
