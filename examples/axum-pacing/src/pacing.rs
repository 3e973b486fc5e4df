//! Each client has its own pace: its requests are let through one by one, however many it sends at a time.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::ready;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::serve::IncomingStream;
use governor::{DefaultKeyedRateLimiter, Quota};
use softtimers_tokio::{KeyedPacer, PaceConfig, PaceError, PaceLayer, Rate};
use tokio::net::TcpListener;
use tokio::time::{Interval, MissedTickBehavior, interval};
use tower::{Layer, Service, service_fn};

/// Serves `routes`, `rate` requests of each client: its connections share one pace.
pub(crate) async fn serve_paced(listener: TcpListener, routes: Router, rate: Rate) -> std::io::Result<()> {
    let invalid = |error: PaceError| std::io::Error::other(error);
    let clients = Arc::new(KeyedPacer::new(PaceConfig::new(rate)).map_err(invalid)?);
    serve_each(listener, move |client| PaceLayer::shared(clients.pacer(client)).layer(routes.clone())).await
}

/// Serves `routes` as a program without softtimers would: with a middleware in which a client's requests wait, in turn,
/// for the ticks of its interval.
pub(crate) async fn serve_by_intervals(
    listener: TcpListener,
    routes: Router,
    rate: Rate,
) -> std::io::Result<()> {
    let clients = Arc::new(Mutex::new(HashMap::<IpAddr, Arc<tokio::sync::Mutex<Interval>>>::new()));
    serve_each(listener, move |client| {
        let mut clients = clients.lock().unwrap_or_else(PoisonError::into_inner);
        let ticks = clients.entry(client).or_insert_with(|| ticks(rate)).clone();
        routes.clone().layer(from_fn_with_state(ticks, wait_for_tick))
    })
    .await
}

/// The same with governor's limiter, one cell of which may be used at once.
pub(crate) async fn serve_by_governor(
    listener: TcpListener,
    routes: Router,
    rate: Rate,
) -> std::io::Result<()> {
    let quota = Quota::with_period(rate.interval()).ok_or_else(|| std::io::Error::other("no interval"))?;
    let limiter = Arc::new(DefaultKeyedRateLimiter::keyed(quota.allow_burst(NonZeroU32::MIN)));
    serve_each(listener, move |client| {
        let state = (limiter.clone(), client);
        routes.clone().layer(from_fn_with_state(state, wait_for_cell))
    })
    .await
}

/// Serves each connection by the service that `routes_of` makes for its client.
async fn serve_each<S>(
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

fn ticks(rate: Rate) -> Arc<tokio::sync::Mutex<Interval>> {
    let mut ticks = interval(rate.interval());
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    Arc::new(tokio::sync::Mutex::new(ticks))
}

async fn wait_for_tick(
    State(ticks): State<Arc<tokio::sync::Mutex<Interval>>>,
    request: Request,
    next: Next,
) -> Response {
    ticks.lock().await.tick().await;
    next.run(request).await
}

async fn wait_for_cell(
    State((limiter, client)): State<(Arc<DefaultKeyedRateLimiter<IpAddr>>, IpAddr)>,
    request: Request,
    next: Next,
) -> Response {
    limiter.until_key_ready(&client).await;
    next.run(request).await
}
