//! A fast server, on a thread of its own, whose connections' time-outs are soft timers.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::thread;

use example_harness::trial::Done;
use http_body_util::Full;
use hyper::Response;
use hyper::body::Bytes;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use softtimers_tokio::HyperTimer;

/// Starts it, and returns its address. It ends with the program.
pub(crate) fn start() -> Done<SocketAddr> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    thread::spawn(move || {
        let served: std::io::Result<()> = runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            loop {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                let answer =
                    |_| async { Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"yes")))) };
                let mut http = Builder::new();
                http.timer(HyperTimer::new());
                tokio::spawn(http.serve_connection(TokioIo::new(stream), service_fn(answer)));
            }
        });
        served.expect("a server that goes on listening");
    });
    Ok(address)
}
