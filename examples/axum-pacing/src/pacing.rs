//! Each client has its own schedule: its requests are let through one by one, however many it sends at a time.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::ready;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::serve::IncomingStream;
use softtimers_tokio::{PaceLayer, Paced, Rate};
use tokio::net::TcpListener;
use tokio::time::{Interval, MissedTickBehavior, interval};
use tower::{Layer, service_fn};

/// The paced routes of each client: its connections share one schedule.
#[derive(Clone)]
struct Clients(Arc<Mutex<HashMap<IpAddr, Paced<Router>>>>);

impl Clients {
    fn routes_of(&self, client: IpAddr, rate: Rate, routes: &Router) -> Paced<Router> {
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        clients.entry(client).or_insert_with(|| PaceLayer::new(rate).layer(routes.clone())).clone()
    }
}

/// Serves `routes`, `rate` requests of each client.
pub(crate) async fn serve_paced(listener: TcpListener, routes: Router, rate: Rate) -> std::io::Result<()> {
    let clients = Clients(Arc::default());
    axum::serve(
        listener,
        service_fn(move |stream: IncomingStream<'_, TcpListener>| {
            let paced = clients.routes_of(stream.remote_addr().ip(), rate, &routes);
            ready(Ok::<_, Infallible>(paced))
        }),
    )
    .await
}

/// Serves `routes` as a program without softtimers would: with a middleware in which a client's requests wait, in turn,
/// for the ticks of its interval.
pub(crate) async fn serve_by_intervals(
    listener: TcpListener,
    routes: Router,
    rate: Rate,
) -> std::io::Result<()> {
    let clients = Arc::new(Mutex::new(HashMap::<IpAddr, Arc<tokio::sync::Mutex<Interval>>>::new()));
    axum::serve(
        listener,
        service_fn(move |stream: IncomingStream<'_, TcpListener>| {
            let mut clients = clients.lock().unwrap_or_else(PoisonError::into_inner);
            let of_client =
                clients.entry(stream.remote_addr().ip()).or_insert_with(|| ticks(rate.interval()));
            let paced = routes.clone().layer(from_fn_with_state(of_client.clone(), wait));
            ready(Ok::<_, Infallible>(paced))
        }),
    )
    .await
}

fn ticks(period: Duration) -> Arc<tokio::sync::Mutex<Interval>> {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    Arc::new(tokio::sync::Mutex::new(ticks))
}

async fn wait(
    State(ticks): State<Arc<tokio::sync::Mutex<Interval>>>,
    request: Request,
    next: Next,
) -> Response {
    ticks.lock().await.tick().await;
    next.run(request).await
}
