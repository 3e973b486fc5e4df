//! Each client has its own pace: its requests are let through one by one, however many it sends at a time.

use std::convert::Infallible;
use std::future::ready;
use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use axum::serve::IncomingStream;
use softtimers_tokio::{KeyedPacer, PaceConfig, PaceLayer, Rate};
use tokio::net::TcpListener;
use tower::{Layer, Service, service_fn};

/// Serves `routes`, `rate` requests of each client: its connections share one pace.
pub(crate) async fn serve_paced(listener: TcpListener, routes: Router, rate: Rate) -> std::io::Result<()> {
    let clients = Arc::new(KeyedPacer::new(PaceConfig::new(rate)).map_err(std::io::Error::other)?);
    serve_each(listener, move |client| PaceLayer::shared(clients.pacer(client)).layer(routes.clone())).await
}

/// Serves each connection by the service that `routes_of` makes for its client.
pub(crate) async fn serve_each<S>(
    listener: TcpListener,
    routes_of: impl Fn(IpAddr) -> S + Clone + Send + 'static,
) -> std::io::Result<()>
where
    S: Service<Request, Response = Response, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    axum::serve(
        listener,
        service_fn(move |stream: IncomingStream<'_, TcpListener>| {
            ready(Ok::<_, Infallible>(routes_of(stream.remote_addr().ip())))
        }),
    )
    .await
}
