//! A video's frames as datagrams beside a transfer, on its connection and on another: how many come too late to be shown.
//!
//! ```text
//!   every 33 ms   ▮▮▮▮▮▮ 30 datagrams   ┐                ┌ in time: before the next frame is due
//!   always        ▁▁▁▁▁▁▁▁▁▁ a stream   ┴─▶ the path ─▶  ┴ late, or never
//! ```

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use quinn::{Connection, Endpoint, EndpointConfig, SendDatagramError, ServerConfig, TokioRuntime};
use softtimers::{Clock, Monotonic, Timestamp};
use softtimers_lab::bench::Done;
use softtimers_measure::estimate::quantile;
use softtimers_measure::processor::Processor;
use softtimers_trials::bar::Bar;
use softtimers_trials::paired::Paired;
use softtimers_trials::result::{Cell, Table};

use crate::path::{Line, Path};
use crate::plan::Plan;
use crate::run::{Failure, GOODPUT, Kind, configs, connect, current_thread, send, socket};

const DATAGRAMS_LATE: &str = "datagrams late %";
const FIGURES: [(&str, usize); 4] =
    [(DATAGRAMS_LATE, 2), ("frames late %", 1), ("delay p99 ms", 1), (GOODPUT, 1)];
const BOTH: [Kind; 2] = [Kind::Stock, Kind::Even];

/// Measures over three queues.
pub(crate) fn media(plan: &Plan) -> Done<Vec<Table>> {
    let heads = [("path", 0), ("stream", 0), ("quinn", 0)];
    let columns: Vec<(&str, usize)> = heads.into_iter().chain(FIGURES).collect();
    let mut table = Table::new("media", &columns);
    // Five seconds for a transfer of ten megabytes.
    let frames = 15 * plan.megabytes;
    for packets in [20, 100, 500] {
        let line = Line { packets, ..Line::SHORT };
        for (stream, connections) in [("on its connection", 1), ("on another", 2)] {
            let name = |kind: Kind| format!("{line}, {stream}, {}", kind.name());
            let measured = Paired::new(plan.rounds).contest(&[()], &mut BOTH.to_vec(), |(), kind, round| {
                let figures = watched(*kind, line, connections, frames)?;
                let row = name(*kind);
                FIGURES.iter().zip(figures).for_each(|((column, _), figure)| round.put(&row, column, figure));
                Ok::<_, Failure>(())
            });
            let measured = measured.map_err(|error| -> Box<dyn std::error::Error> { error })?;
            let rows = BOTH.map(name);
            let measured = plan.with_earlier(&mut table, &rows, &FIGURES.map(|(name, _)| name), measured);
            for kind in BOTH {
                let mut row: Vec<Cell> = vec![line.to_string().into(), stream.into(), kind.name().into()];
                row.extend(
                    FIGURES.iter().map(|(column, _)| Cell::from(measured.estimate(&name(kind), column))),
                );
                table.rows.push(row);
            }
            let of = |figure| measured.ratio(figure, &name(Kind::Even), &name(Kind::Stock));
            let title = name(Kind::Even);
            let late = format!("{title}: late datagrams against stock's");
            table.bar_of(&measured, Bar::at_most(late, 1.0, of(DATAGRAMS_LATE)));
            let goodput = format!("{title}: goodput of the stream against stock's");
            table.bar_of(&measured, Bar::at_least(goodput, 1.0, of(GOODPUT)));
        }
    }
    Ok(vec![table])
}

/// Runs once; returns the figures of [`FIGURES`].
fn watched(kind: Kind, line: Line, connections: u64, frames: u64) -> Result<[f64; 4], Failure> {
    let of = |number| Processor::new(number).ok();
    let (near, far) = Processor::two().map_or((None, None), |[far, near]| (of(near), of(far)));
    let (client, server) = configs()?;
    let bulk = Arc::new(AtomicU64::new(0));
    let (say, hear) = mpsc::channel();
    thread::scope(|scope| {
        let received = &bulk;
        let viewer = scope.spawn(move || {
            let _kept = far.map(Processor::keep).transpose()?;
            current_thread()?.block_on(view(server, connections, received, say))
        });
        let path = Path::start(line, hear.recv_timeout(Duration::from_secs(5))?, far)?;
        let address = path.address;
        let camera = scope.spawn(move || {
            let _kept = near.map(Processor::keep).transpose()?;
            current_thread()?.block_on(async {
                let (endpoint, open) =
                    connect(kind, Ipv4Addr::LOCALHOST, client, address, connections).await?;
                let film = film(&open, frames, received).await;
                open.iter().for_each(|connection| connection.close(0u32.into(), b""));
                let _ = tokio::time::timeout(Duration::from_secs(1), endpoint.wait_idle()).await;
                film
            })
        });
        let camera = camera.join().map_err(|_| "the camera has panicked");
        let delays = viewer.join().map_err(|_| "the viewer has panicked")?;
        path.finish()?;
        let goodput = camera??;
        let mut delays = delays?;
        let in_time = |delay: &u64| *delay <= FRAME.as_micros() as u64;
        let timely = delays.iter().filter(|(_, delay)| in_time(delay)).count() as u64;
        let whole = (0..frames).filter(|frame| {
            delays.iter().filter(|(of, delay)| of == frame && in_time(delay)).count() as u64
                == PACKETS_OF_FRAME
        });
        let late = |timely: u64, all: u64| 100.0 * (1.0 - timely as f64 / all as f64);
        let figures = [late(timely, frames * PACKETS_OF_FRAME), late(whole.count() as u64, frames)];
        delays.sort_unstable_by_key(|(_, delay)| *delay);
        let delays: Vec<u64> = delays.into_iter().map(|(_, delay)| delay).collect();
        let worst = quantile(&delays, 0.99).unwrap_or(0) as f64 / 1e3;
        Ok([figures[0], figures[1], worst, goodput])
    })
}

/// Sends the frames on the first connection, beside a stream on the last; returns the stream's Mbit/s.
async fn film(open: &[Connection], frames: u64, received: &AtomicU64) -> Result<f64, Failure> {
    let [camera, ..] = open else { return Err("no connection".into()) };
    let stream = open.last().unwrap_or(camera).clone();
    let bulk = tokio::spawn(send(stream, u64::MAX));
    // Past slow start.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let (began, before) = (Monotonic.now(), received.load(Ordering::Relaxed));
    let mut clock = softtimers_tokio::interval(FRAME);
    for frame in 0..frames {
        let _ = clock.tick().await;
        let due = began + FRAME * frame as u32;
        for _ in 0..PACKETS_OF_FRAME {
            let mut datagram = vec![0x55; DATAGRAM];
            datagram[..8].copy_from_slice(&frame.to_be_bytes());
            datagram[8..16].copy_from_slice(&due.as_nanos().to_be_bytes());
            match camera.send_datagram(datagram.into()) {
                // quinn discards the oldest where its buffer is full.
                Ok(()) | Err(SendDatagramError::TooLarge) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    let took = Monotonic.now().saturating_duration_since(began);
    let bytes = received.load(Ordering::Relaxed) - before;
    tokio::time::sleep(4 * FRAME).await;
    bulk.abort();
    Ok(bytes as f64 * 8e-6 / took.as_secs_f64())
}

/// Receives until the connections are gone; returns the frame and the delay in microseconds of each datagram.
async fn view(
    config: ServerConfig,
    connections: u64,
    received: &Arc<AtomicU64>,
    bound: mpsc::Sender<std::net::SocketAddr>,
) -> Result<Vec<(u64, u64)>, Failure> {
    let at = socket(Ipv4Addr::LOCALHOST)?;
    let endpoint = Endpoint::new(EndpointConfig::default(), Some(config), at, Arc::new(TokioRuntime))?;
    bound.send(endpoint.local_addr()?)?;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..connections {
        let connection = endpoint.accept().await.ok_or("the endpoint is closed")?.await?;
        let (received, streaming) = (Arc::clone(received), connection.clone());
        tokio::spawn(async move {
            let Ok(mut stream) = streaming.accept_uni().await else { return };
            while let Ok(Some(chunk)) = stream.read_chunk(1 << 20, true).await {
                received.fetch_add(chunk.bytes.len() as u64, Ordering::Relaxed);
            }
        });
        tasks.spawn(async move {
            let mut delays = vec![];
            while let Ok(datagram) = connection.read_datagram().await {
                let word = |at: usize| datagram.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
                let Some((frame, due)) = word(0).zip(word(8)) else { continue };
                let due = Timestamp::from_nanos(u64::from_be_bytes(due));
                let delay = Monotonic.now().saturating_duration_since(due).as_micros() as u64;
                delays.push((u64::from_be_bytes(frame), delay));
            }
            delays
        });
    }
    Ok(tasks.join_all().await.concat())
}

/// 30 frames a second of 30 packets: 8 Mbit/s.
const FRAME: Duration = Duration::from_micros(33_333);
const PACKETS_OF_FRAME: u64 = 30;
const DATAGRAM: usize = 1_100;
