//! The same as programs do it without softtimers: a middleware in which a client's requests wait for ticks of tokio's
//! interval, or for a limiter.

use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use governor::{DefaultKeyedRateLimiter, Quota};
use leaky_bucket::RateLimiter;
use softtimers_tokio::Rate;
use tokio::net::TcpListener;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::pacing::serve_each;

/// Serves `routes`: a client's requests wait, in turn, for the ticks of its interval.
pub(crate) async fn serve_by_intervals(
    listener: TcpListener,
    routes: Router,
    rate: Rate,
) -> std::io::Result<()> {
    let clients = PerClient::<tokio::sync::Mutex<Interval>>::default();
    serve_each(listener, move |client| {
        let ticks = clients.find(client, || {
            let mut ticks = interval(rate.interval());
            ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
            tokio::sync::Mutex::new(ticks)
        });
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

/// The same with leaky-bucket's limiter, which is fair in order, as ours is. It refuses intervals below a millisecond, so
/// as many tokens as fall due in one come together.
pub(crate) async fn serve_by_leaky_bucket(
    listener: TcpListener,
    routes: Router,
    rate: Rate,
) -> std::io::Result<()> {
    let interval = rate.interval().max(Duration::from_millis(1));
    let tokens = (interval.as_nanos() / rate.interval().as_nanos()) as usize;
    let clients = PerClient::<RateLimiter>::default();
    serve_each(listener, move |client| {
        let limiter = clients.find(client, || {
            RateLimiter::builder().initial(1).max(tokens).refill(tokens).interval(interval).build()
        });
        routes.clone().layer(from_fn_with_state(limiter, wait_for_token))
    })
    .await
}

/// Something for each client.
struct PerClient<T>(Arc<Mutex<HashMap<IpAddr, Arc<T>>>>);

impl<T> PerClient<T> {
    fn find(&self, client: IpAddr, make: impl FnOnce() -> T) -> Arc<T> {
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        clients.entry(client).or_insert_with(|| Arc::new(make())).clone()
    }
}

impl<T> Default for PerClient<T> {
    fn default() -> Self {
        PerClient(Arc::default())
    }
}

impl<T> Clone for PerClient<T> {
    fn clone(&self) -> Self {
        PerClient(self.0.clone())
    }
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

async fn wait_for_token(State(limiter): State<Arc<RateLimiter>>, request: Request, next: Next) -> Response {
    limiter.acquire_one().await;
    next.run(request).await
}
