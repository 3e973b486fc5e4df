//! The API over HTTP: [`Api`]. A web page reaches loopback, too, so whatever may come from one is refused.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue, ORIGIN};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
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
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let registry = Arc::clone(&registry);
                tokio::spawn(async move {
                    connection(stream, registry).await;
                    drop(place);
                });
            }
            // Out of descriptors: one may be free later.
            Err(_) => sleep(PAUSE).await,
        }
    }
}

/// One request, and its answer.
async fn connection(stream: TcpStream, registry: Arc<Mutex<Registry>>) {
    let service = service_fn(move |request| {
        let registry = Arc::clone(&registry);
        async move { Ok::<_, Infallible>(response(respond(request, &registry).await)) }
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

async fn respond(request: Request<Incoming>, registry: &Mutex<Registry>) -> Answer {
    let refused = |status: u16, words: &str| (status, Some(json!({ "error": words, "status": status })));
    if request.headers().contains_key(ORIGIN) {
        return refused(403, "a request with an Origin header is a web page's, and refused");
    }
    let mut hosts = request.headers().get_all(HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok());
    if !host.is_some_and(is_loopback) || hosts.next().is_some() {
        return refused(403, "the Host is not loopback: only localhost, 127.0.0.0/8 and [::1] are answered");
    }
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let Ok(body) = Limited::new(request.into_body(), LONGEST_BODY).collect().await else {
        return refused(413, "the body is cut off, or longer than 256 KiB");
    };
    let body = body.to_bytes().to_vec();
    // Nobody else waits for a name, and the end of the run does not.
    let asked = spawn_blocking(move || Asked::look_up(method.to_string(), &path, body));
    let Ok(Ok(asked)) = timeout(LONGEST_LOOKUP, asked).await else {
        return refused(504, "to look up a name took longer than 10 s");
    };
    let mut registry = registry.lock().unwrap_or_else(PoisonError::into_inner);
    answer(&mut registry, asked)
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

/// What a peer may take to ask.
const PATIENCE: Duration = Duration::from_secs(2);
/// What a connection may take in all.
const LONGEST: Duration = Duration::from_secs(30);
/// What the names in a request may take.
const LONGEST_LOOKUP: Duration = Duration::from_secs(10);
/// After a connection could not be taken.
const PAUSE: Duration = Duration::from_millis(100);
/// At once; others wait.
const MOST_CONNECTIONS: usize = 64;
const LONGEST_HEAD: usize = 16_384;
/// Of all proxies and toxics that may be, a good part.
const LONGEST_BODY: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

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
}
