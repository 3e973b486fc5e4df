//! The API over HTTP: [`Api`]. A web page reaches loopback, too, so whatever may come from one is refused.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderValue, ORIGIN};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{sleep, timeout};

use super::answer::{Answer, Asked, answer};
use super::registry::Registry;

/// Where the API is asked.
#[derive(Debug)]
pub(crate) struct Api {
    listener: std::net::TcpListener,
    address: SocketAddr,
}

impl Api {
    /// Listens; who connects waits until [`serve`](Self::serve).
    ///
    /// # Errors
    /// What the system says of the address.
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        Ok(Api { listener, address })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers from now on.
    ///
    /// # Errors
    /// If the system has no descriptor or no thread left.
    pub(crate) fn serve(self, registry: Arc<Mutex<Registry>>) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(MOST_CONNECTIONS)
            .build()?;
        let listener = {
            let _inside = runtime.enter();
            TcpListener::from_std(self.listener)?
        };
        std::thread::Builder::new()
            .name("api".to_owned())
            .spawn(move || runtime.block_on(serve(listener, registry)))?;
        Ok(())
    }
}

async fn serve(listener: TcpListener, registry: Arc<Mutex<Registry>>) {
    let mut visitors: Vec<Visitor> = Vec::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors: one may be free later.
            sleep(PAUSE).await;
            continue;
        };
        if !make_room(&mut visitors) {
            continue;
        }
        let (registry, has_asked) = (Arc::clone(&registry), Arc::new(AtomicBool::new(false)));
        let connection = connection(stream, registry, Arc::clone(&has_asked));
        visitors.push(Visitor { has_asked, task: tokio::spawn(connection) });
    }
}

/// Somebody who is connected.
#[derive(Debug)]
struct Visitor {
    /// The whole request is there.
    has_asked: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

/// Makes room for one more: who has said least for longest goes, so nobody holds a place by saying nothing. False if all have
/// asked and wait for an answer.
fn make_room(visitors: &mut Vec<Visitor>) -> bool {
    visitors.retain(|visitor| !visitor.task.is_finished());
    if visitors.len() < MOST_CONNECTIONS {
        return true;
    }
    let slow = visitors.iter().position(|visitor| !visitor.has_asked.load(Ordering::Relaxed));
    slow.map(|at| visitors.remove(at).task.abort()).is_some()
}

/// One request, and its answer.
async fn connection(stream: TcpStream, registry: Arc<Mutex<Registry>>, has_asked: Arc<AtomicBool>) {
    let service = service_fn(move |request| {
        let (registry, has_asked) = (Arc::clone(&registry), Arc::clone(&has_asked));
        async move { Ok::<_, Infallible>(response(respond(request, &registry, &has_asked).await)) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_buf_size(LONGEST_HEAD)
        .keep_alive(false)
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service);
    // What a peer does wrong is its own affair.
    let _ = timeout(LONGEST, served).await;
}

async fn respond(request: Request<Incoming>, registry: &Mutex<Registry>, has_asked: &AtomicBool) -> Answer {
    if let Some(words) = stranger(request.headers()) {
        return refused(403, words);
    }
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let body = match timeout(PATIENCE, Limited::new(request.into_body(), LONGEST_BODY).collect()).await {
        Err(_) => return refused(408, "the body took longer than 2 s"),
        Ok(Err(_)) => return refused(413, "the body is cut off, or longer than 256 KiB"),
        Ok(Ok(body)) => body.to_bytes().to_vec(),
    };
    has_asked.store(true, Ordering::Relaxed);
    // Nobody else waits for a name, and the end of the run does not.
    let asked = spawn_blocking(move || Asked::look_up(method.to_string(), &path, body));
    answered(registry, asked, LONGEST_LOOKUP).await
}

/// Why a request is not answered: it may be a web page's.
fn stranger(headers: &HeaderMap) -> Option<&'static str> {
    if headers.contains_key(ORIGIN) {
        return Some("a request with an Origin header is a web page's, and refused");
    }
    // Browsers send it with each request; `none` is that of the address that somebody has typed.
    if headers.get_all(SITE).iter().any(|site| site != "none") {
        return Some("a request with Sec-Fetch-Site is a web page's, and refused");
    }
    let mut hosts = headers.get_all(HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok());
    if !host.is_some_and(is_loopback) || hosts.next().is_some() {
        return Some("the Host is not loopback: only localhost, 127.0.0.0/8 and [::1] are answered");
    }
    None
}

/// The answer, once the names of the request have been looked up.
async fn answered(registry: &Mutex<Registry>, asked: JoinHandle<Asked>, most: Duration) -> Answer {
    let Ok(Ok(asked)) = timeout(most, asked).await else {
        return refused(504, "to look up a name took longer than 10 s");
    };
    let mut registry = registry.lock().unwrap_or_else(PoisonError::into_inner);
    answer(&mut registry, asked)
}

fn refused(status: u16, words: &str) -> Answer {
    (status, Some(json!({ "error": words, "status": status })))
}

fn response((status, json): Answer) -> Response<Full<Bytes>> {
    let text = json.map(|json| json.to_string() + "\n").unwrap_or_default();
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Says whether a Host is this machine's loopback, by name or number.
fn is_loopback(host: &str) -> bool {
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let name = match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) && !name.ends_with(':') => name,
        _ => host,
    };
    let number = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost")
        || number.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

/// A browser says by it where a request is from.
const SITE: &str = "sec-fetch-site";
/// What a peer may take for the head of what it asks, and then for the body.
const PATIENCE: Duration = Duration::from_secs(2);
/// What a connection may take in all.
const LONGEST: Duration = Duration::from_secs(30);
/// What the names in a request may take.
const LONGEST_LOOKUP: Duration = Duration::from_secs(10);
/// After a connection could not be taken.
const PAUSE: Duration = Duration::from_millis(100);
/// At once.
const MOST_CONNECTIONS: usize = 64;
const LONGEST_HEAD: usize = 16_384;
/// Of all proxies and toxics that may be, a good part.
const LONGEST_BODY: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::super::registry::Defaults;
    use super::*;
    use crate::args::ClientArgs;
    use softtimers_wan::udp::ClientLimits;

    #[test]
    fn only_loopback_is_loopback() {
        for host in ["localhost", "LOCALHOST:8474", "127.0.0.1", "127.8.0.1:80", "[::1]:8474", "[::1]"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example:80",
            "192.0.2.1",
            "[::]",
            "0.0.0.0",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn a_name_that_takes_too_long_is_a_504() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(slow_name());
    }

    async fn slow_name() {
        let defaults = Defaults {
            paths: Default::default(),
            overheads: [None; 2],
            public: false,
            clients: ClientArgs {
                trust: vec![],
                clients: 1,
                client_timeout: Duration::from_secs(1),
                answers_per_prefix: ClientLimits::default().answers_per_prefix,
            },
            seed: 1,
        };
        let registry = Mutex::new(Registry::new(defaults));
        let version = || Asked::look_up("GET".to_owned(), "/version", vec![]);
        let (found, name) = std::sync::mpsc::channel::<()>();
        let asked = spawn_blocking(move || {
            let _ = name.recv();
            version()
        });
        let (status, said) = answered(&registry, asked, Duration::from_millis(1)).await;
        assert!(status == 504 && said.unwrap()["error"].as_str().unwrap().contains("look up"));
        drop(found);
        let asked = spawn_blocking(version);
        assert_eq!(answered(&registry, asked, LONGEST_LOOKUP).await.0, 200);
    }
}
