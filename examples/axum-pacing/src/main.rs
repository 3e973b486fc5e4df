//! An axum server that paces each client: two clients send as many requests as they can over sixteen connections each,
//! and get 2,000 answers a second, one every 500 µs.

mod pacing;
mod peers;

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::get;
use example_harness::Spacing;
use example_harness::trial::{Done, Software, Trial};
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use rustix::time::{ClockId, clock_gettime};
use softtimers::{Clock, Monotonic};
use softtimers_tokio::Rate;
use softtimers_trials::result::Table;
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

const INTERVAL: Duration = Duration::from_micros(500);
const CLIENTS: u8 = 2;
const CONNECTIONS: usize = 16;
const FIGURES: [(&str, usize); 6] = [
    ("rate", 3),
    ("gap p50 µs", 0),
    ("gap p99 µs", 0),
    ("back to back %", 1),
    ("longest burst", 0),
    ("CPU µs a request", 2),
];

const SOFTWARE: Software = Software::new(
    "axum 0.8",
    "[tokio #6866](https://github.com/tokio-rs/tokio/issues/6866): paced by an interval of half a millisecond, requests leave in pairs",
    include_str!("pacing.rs"),
);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    Intervals,
    Governor,
    LeakyBucket,
    Layer,
}

impl By {
    const ALL: [By; 4] = [By::Intervals, By::Governor, By::LeakyBucket, By::Layer];

    fn name(self) -> &'static str {
        match self {
            By::Intervals => "tokio's interval",
            By::Governor => "governor",
            By::LeakyBucket => "leaky-bucket",
            By::Layer => "PaceLayer",
        }
    }
}

/// What the server runs on, and beside.
#[derive(Clone, Copy, Debug)]
struct Setting {
    workers: usize,
    /// Beside a process that never sleeps.
    hog: bool,
}

impl Setting {
    const PLAIN: Setting = Setting { workers: 1, hog: false };
    const OTHERS: [Setting; 3] = [
        Setting { workers: 2, hog: false },
        Setting { workers: 1, hog: true },
        Setting { workers: 2, hog: true },
    ];

    fn row(self, by: By) -> String {
        let name = by.name();
        match self {
            Setting { workers: 1, hog: false } => name.to_owned(),
            Setting { workers, hog: false } => format!("{workers} workers: {name}"),
            Setting { workers: 1, hog: true } => format!("beside a hog: {name}"),
            Setting { workers, hog: true } => format!("{workers} workers beside a hog: {name}"),
        }
    }

    fn runtime(self) -> std::io::Result<Runtime> {
        let mut builder =
            if self.workers == 1 { Builder::new_current_thread() } else { Builder::new_multi_thread() };
        builder.worker_threads(self.workers).enable_all().build()
    }
}

/// A process that never sleeps, until it is dropped.
struct Hog(Child);

impl Hog {
    fn start() -> std::io::Result<Self> {
        Ok(Hog(Command::new("sh").args(["-c", "while :; do :; done"]).spawn()?))
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The times at which each client's requests were let through.
type Seen = Arc<Mutex<[Spacing; CLIENTS as usize]>>;

async fn page(State(seen): State<Seen>, headers: HeaderMap) -> &'static str {
    let client = headers.get("client").and_then(|number| number.to_str().ok()?.parse::<usize>().ok());
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(spacing) = client.and_then(|number| seen.get_mut(number)) {
        spacing.packet(Monotonic.now());
    }
    "yes"
}

/// Asks for page after page over one connection.
async fn ask(server: SocketAddr, client: u8, end: Instant) -> Result<(), Box<dyn Error + Send + Sync>> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((IpAddr::V4(Ipv4Addr::new(127, 0, 0, 1 + client)), 0).into())?;
    let stream = socket.connect(server).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    while Instant::now() < end {
        sender.ready().await?;
        let request = Request::get("/").header("host", "server").header("client", client.to_string());
        sender.send_request(request.body(Empty::<Bytes>::new())?).await?.into_body().collect().await?;
    }
    Ok(())
}

/// Returns both clients' spacings, and the CPU time of the server and the clients.
fn serve(by: By, setting: Setting, time: Duration) -> Done<([Spacing; CLIENTS as usize], Duration)> {
    let seen: Seen = Arc::new(Mutex::new([(); CLIENTS as usize].map(|()| Spacing::new(INTERVAL))));
    let routes = Router::new().route("/", get(page)).with_state(seen.clone());
    let rate = Rate::every(INTERVAL)?;
    let _hog = setting.hog.then(Hog::start).transpose()?;
    let before = cpu_time();
    setting.runtime()?.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let server = listener.local_addr()?;
        match by {
            By::Intervals => tokio::spawn(peers::serve_by_intervals(listener, routes, rate)),
            By::Governor => tokio::spawn(peers::serve_by_governor(listener, routes, rate)),
            By::LeakyBucket => tokio::spawn(peers::serve_by_leaky_bucket(listener, routes, rate)),
            By::Layer => tokio::spawn(pacing::serve_paced(listener, routes, rate)),
        };
        let end = Instant::now() + time;
        let clients = (0..CLIENTS).flat_map(|client| (0..CONNECTIONS).map(move |_| ask(server, client, end)));
        for asked in clients.map(tokio::spawn).collect::<Vec<_>>() {
            asked.await?.map_err(|error| error.to_string())?;
        }
        Done::Ok(())
    })?;
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok((seen, cpu_time().saturating_sub(before)))
}

/// The CPU time of all threads of this process.
fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

fn run(trial: &Trial) -> Done<Vec<Table>> {
    // A short run is of the plain setting.
    let others = if trial.time.as_secs() > 0 { &Setting::OTHERS[..] } else { &[] };
    let settings = [&[Setting::PLAIN], others].concat();
    let measured = trial.contest(&settings, &mut { By::ALL }, |setting, by, round| {
        let ([mut all, other], cpu) = serve(*by, *setting, trial.time)?;
        all.join(other);
        let asked = f64::from(CLIENTS) * trial.time.as_secs_f64() / INTERVAL.as_secs_f64();
        let requests = all.gaps.len() as f64 + f64::from(CLIENTS);
        let gap = |share| all.gaps.quantile(share).unwrap_or(0) as f64 / 1e3;
        let figures = [
            requests / asked,
            gap(0.5),
            gap(0.99),
            all.back_to_back_percent(),
            all.longest_burst as f64,
            cpu.as_secs_f64() * 1e6 / requests,
        ];
        FIGURES
            .iter()
            .zip(figures)
            .for_each(|((name, _), figure)| round.put(&setting.row(*by), name, figure));
        Ok(())
    })?;
    let rows = |setting: &Setting| By::ALL.map(|by| setting.row(by));
    let table = Table::of("axum-pacing", &measured, rows(&Setting::PLAIN), &FIGURES);
    let beside = Table::of("axum-pacing-others", &measured, others.iter().flat_map(rows), &FIGURES);
    let both = [By::Intervals, By::Layer].map(|by| by.name().to_owned());
    let lines = [
        ("rate of what was asked for".to_owned(), FIGURES[0].0, both.clone()),
        ("requests back to back, %".to_owned(), FIGURES[3].0, both),
    ];
    Ok(vec![table, beside, SOFTWARE.summary(&measured, FIGURES[5].0, &lines)])
}

fn main() -> Done {
    let trial = Trial::asked()?;
    trial.show("axum-pacing", run(&trial)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No client gets more than its rate, however many connections it has.
    #[test]
    fn each_client_has_its_rate() {
        let time = Trial::short().time;
        let began = Instant::now();
        let (seen, _) = serve(By::Layer, Setting::PLAIN, time).unwrap();
        let most = began.elapsed().as_nanos() / INTERVAL.as_nanos() + 2;
        for spacing in seen {
            let requests = spacing.gaps.len() as u128 + 1;
            assert!(requests <= most, "{requests} of at most {most}");
        }
    }

    #[test]
    fn a_short_run_has_all() {
        let tables = run(&Trial::short()).unwrap();
        assert!(tables[0].markdown(&[], |_| true).unwrap().contains("governor"));
    }
}
