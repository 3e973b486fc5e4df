//! A web server as hyper's own examples have it: `/5000` is answered with 5,000 bytes.
//!
//! `bench/tcp/servers.py` runs it alone and under `softtimers pace`. It knows of neither.
#![forbid(unsafe_code)]

use std::convert::Infallible;
use std::error::Error;
use std::io;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

fn main() -> Result<(), Box<dyn Error>> {
    let port = std::env::args().nth(1).ok_or("its argument is a port")?.parse()?;
    // `servers.py` gives nginx as many processes.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    Ok(runtime.block_on(listen(port))?)
}

async fn listen(port: u16) -> io::Result<()> {
    let listener = TcpListener::bind(("0.0.0.0", port)).await?;
    loop {
        let (client, _) = listener.accept().await?;
        tokio::spawn(serve(client));
    }
}

/// Serves a client until it goes away, which is no concern of the others.
async fn serve(client: TcpStream) {
    if client.set_nodelay(true).is_ok() {
        let _ = http1::Builder::new().serve_connection(TokioIo::new(client), service_fn(answer)).await;
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let wanted = request.uri().path().strip_prefix('/').and_then(|name| name.parse().ok());
    Ok(if let Some(file) = wanted.and_then(|bytes: usize| FILE.get(..bytes)) {
        Response::new(Full::new(Bytes::from_static(file)))
    } else {
        let mut refused = Response::new(Full::default());
        *refused.status_mut() = StatusCode::NOT_FOUND;
        refused
    })
}

static FILE: [u8; 8_000_000] = [b'x'; 8_000_000];
