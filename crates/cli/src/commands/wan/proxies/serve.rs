//! The API over HTTP: [`Api`]. Web pages can reach loopback, too, so requests that may come from one are refused.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::exposition::CONTENT_TYPE as TEXT;
use crate::http::{self, Answers, Limits, Server, Stage};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderValue, ORIGIN};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::json;
use softtimers::{Clock, Monotonic};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use super::answer::{Answer, Asked, TOO_LONG, answer};
use super::exposition::exposition;
use super::registry::Registry;

/// The listener of the API.
#[derive(Debug)]
pub(crate) struct Api(Server);

impl Api {
    /// Listens; connections wait until [`serve`](Self::serve).
    ///
    /// # Errors
    /// The system's error for the address.
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        Server::bind(address, LIMITS).map(Api)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.address()
    }

    /// Answers requests from now on.
    ///
    /// # Errors
    /// If the system has no descriptor or no thread left, or refuses to wait.
    pub(crate) fn serve(self, registry: Arc<Mutex<Registry>>) -> io::Result<()> {
        self.0.serve("api", Desk::new(registry))
    }
}

/// Everything needed to answer requests.
#[derive(Debug)]
struct Desk {
    registry: Arc<Mutex<Registry>>,
    /// The time-out for a request's body.
    patience: Duration,
    /// Permits to begin a lookup. A lookup whose client is gone still goes on.
    lookups: Arc<Semaphore>,
}

impl Desk {
    fn new(registry: Arc<Mutex<Registry>>) -> Self {
        let lookups = Arc::new(Semaphore::new(MOST_LOOKUPS));
        Desk { registry, patience: REQUEST_PATIENCE, lookups }
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Answers for Desk {
    async fn answer(&self, request: Request<Incoming>, stage: &Stage) -> http::Answer {
        let (is_read, is_metrics) = (request.method() == Method::GET, request.uri().path() == "/metrics");
        if !is_metrics || stranger(request.headers()).is_some() {
            return response(respond(request, self, stage).await);
        }
        stage.has_asked();
        if !is_read {
            return response(refused(405, "this method is not allowed here"));
        }
        let mut response = Response::new(Full::new(exposition(&self.registry().report()).into()));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(TEXT));
        response
    }
}

async fn respond(request: Request<Incoming>, desk: &Desk, stage: &Stage) -> Answer {
    if let Some(words) = stranger(request.headers()) {
        return refused(403, words);
    }
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let body = match timeout(desk.patience, Limited::new(request.into_body(), LONGEST_BODY).collect()).await {
        Err(_) => return refused(408, "the body took longer than 2 s"),
        Ok(Err(_)) => return refused(413, "the body is cut off, or longer than 256 KiB"),
        Ok(Ok(body)) => body.to_bytes().to_vec(),
    };
    stage.has_asked();
    let asked = Asked::read(method.to_string(), &path, body);
    let until = Monotonic.now() + LONGEST_LOOKUP;
    if !asked.has_names() {
        return answer(&mut desk.registry(), asked.look_up(until));
    }
    let Ok(lookup) = Arc::clone(&desk.lookups).try_acquire_owned() else {
        return refused(503, "names are being looked up for others; try again later");
    };
    // No other request waits for a name, and the end of the run does not.
    let asked = spawn_blocking(move || {
        let _until_it_is_over = lookup;
        asked.look_up(until)
    });
    answered(desk, asked, LONGEST_LOOKUP).await
}

/// Returns why a request is refused, if it may come from a web page.
fn stranger(headers: &HeaderMap) -> Option<&'static str> {
    if headers.contains_key(ORIGIN) {
        return Some("a request with an Origin header is a web page's, and refused");
    }
    // Browsers send it with each request; `none` means an address typed by the user.
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

/// Returns the answer, once the names of the request have been looked up.
async fn answered(desk: &Desk, asked: JoinHandle<Asked>, most: Duration) -> Answer {
    let Ok(Ok(asked)) = timeout(most, asked).await else {
        return refused(504, TOO_LONG);
    };
    answer(&mut desk.registry(), asked)
}

fn refused(status: u16, words: &str) -> Answer {
    (status, Some(json!({ "error": words, "status": status })))
}

fn response((status, json): Answer) -> http::Answer {
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

/// The header by which a browser says where a request comes from.
const SITE: &str = "sec-fetch-site";
/// See [`Desk`].
const REQUEST_PATIENCE: Duration = Duration::from_secs(2);
/// The time-out for the names of a request.
const LONGEST_LOOKUP: Duration = Duration::from_secs(10);
/// The most lookups at once: fewer, so that there is always a place for requests without names.
const MOST_LOOKUPS: usize = 32;
const LIMITS: Limits = Limits {
    connections: 64,
    head_bytes: 16_384,
    asking: REQUEST_PATIENCE,
    // The head, the body and the names.
    answering: Duration::from_secs(14),
    taking: REQUEST_PATIENCE,
    blocking_threads: MOST_LOOKUPS,
};
/// Room for many of the proxies and toxics that are allowed.
const LONGEST_BODY: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::super::fields::ProxyFields;
    use super::super::registry::Defaults;
    use super::*;
    use std::io::{Read, Write};

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

    fn desk() -> Desk {
        let clients = ClientArgs {
            trust: vec![],
            clients: 1,
            client_timeout: Duration::from_secs(1),
            answers_per_prefix: ClientLimits::default().answers_per_prefix,
        };
        let (paths, overheads) = (Default::default(), [None; 2]);
        let registry = Registry::new(Defaults {
            paths,
            overheads,
            public: false,
            coalesce: Duration::ZERO,
            clients,
            seed: 1,
        });
        // Practically no time-outs, so that only places matter.
        Desk { patience: Duration::from_secs(3_600), ..Desk::new(Arc::new(Mutex::new(registry))) }
    }

    /// Serves to the end of the tests while a client asks at its address.
    fn ask<T>(desk: Desk, taking: Duration, client: impl FnOnce(SocketAddr) -> T) -> T {
        // Practically no time-outs, so that only places matter.
        let long = Duration::from_secs(3_600);
        let limits = Limits { asking: long, answering: 3 * long, taking, ..LIMITS };
        let server = Server::bind(SocketAddr::from(([127, 0, 0, 1], 0)), limits).unwrap();
        let address = server.address();
        server.serve("api", desk).unwrap();
        client(address)
    }

    /// The answer to a request.
    fn said(address: SocketAddr, request: &str) -> String {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut said = String::new();
        let read = stream.read_to_string(&mut said);
        read.map_or_else(|error| error.to_string(), |_| said)
    }

    const VERSION: &str = "GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n";

    async fn slow_name() {
        let desk = desk();
        let version = || Asked::read("GET".to_owned(), "/version", vec![]);
        let (found, name) = std::sync::mpsc::channel::<()>();
        let asked = spawn_blocking(move || {
            let _ = name.recv();
            version()
        });
        let (status, said) = answered(&desk, asked, Duration::from_millis(1)).await;
        assert!(status == 504 && said.unwrap()["error"].as_str().unwrap().contains("look up"));
        drop(found);
        let asked = spawn_blocking(version);
        assert_eq!(answered(&desk, asked, LONGEST_LOOKUP).await.0, 200);
    }

    /// More clients than places begin a request, and have an hour to finish it: another client is answered only if one
    /// of them loses its place.
    #[test]
    fn who_asks_slowly_holds_up_nobody() {
        let said = ask(desk(), REQUEST_PATIENCE, |address| {
            let slow = |number: usize| {
                let mut stream = std::net::TcpStream::connect(address).unwrap();
                let begun: &[u8] = match number % 2 {
                    0 => b"POST /reset HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{",
                    _ => b"GET /proxies HTTP/1.1\r\nHost: loc",
                };
                stream.write_all(begun).unwrap();
                stream
            };
            let held: Vec<_> = (0..LIMITS.connections + 36).map(slow).collect();
            (said(address, VERSION), held).0
        });
        assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
    }

    /// With the maximum number of lookups pending, requests without names are answered, and those with names are told
    /// to retry.
    #[test]
    fn names_that_are_never_found_hold_up_nobody_without_one() {
        let desk = desk();
        let all = Arc::clone(&desk.lookups).try_acquire_many_owned(MOST_LOOKUPS as u32).unwrap();
        let said = ask(desk, REQUEST_PATIENCE, |address| {
            let body = r#"{"name":"a","upstream":"localhost:9"}"#;
            let named = format!(
                "POST /proxies HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            [said(address, &named), said(address, VERSION)]
        });
        drop(all);
        assert!(said[0].starts_with("HTTP/1.1 503 ") && said[1].starts_with("HTTP/1.1 200 "), "{said:?}");
    }

    /// An answer of 20 MB, more than the kernel buffers, is not read: it is abandoned at once here, and the place is
    /// free.
    #[test]
    fn who_does_not_take_the_answer_is_left() {
        let desk = desk();
        for number in 0..80 {
            let fields = ProxyFields {
                name: Some(number.to_string()),
                upstream: Some("127.0.0.1:9".to_owned()),
                enabled: Some(false),
                path: Some(vec![format!("up delay 1ms{}", " ".repeat(250_000))]),
                ..ProxyFields::default()
            };
            desk.registry().create(&fields.look_up(), None).unwrap();
        }
        let (length, came) = ask(desk, Duration::ZERO, |address| {
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            stream.write_all(VERSION.replace("version", "proxies").as_bytes()).unwrap();
            // It is being written, and no longer once the same thread has answered another.
            assert_eq!(stream.peek(&mut [0]).unwrap(), 1);
            assert!(said(address, VERSION).starts_with("HTTP/1.1 200 "));
            let mut said = Vec::new();
            let _ = stream.read_to_end(&mut said);
            let head = String::from_utf8_lossy(&said[..1_000]).to_ascii_lowercase();
            let length = head.split("content-length: ").nth(1).unwrap().lines().next().unwrap();
            (length.parse::<usize>().unwrap(), said.len())
        });
        assert!(length > 20_000_000 && came < length, "{came} of {length}");
    }
}
