//! A server of small answers over HTTP: one thread of its own, several clients at once, each within its time.
//!
//! ```text
//!   clients ══ request ═▶ a thread, with a runtime of one thread ── Answers::answer ─▶ the program
//!           ◀═ answer ══            ◀──────────────────────────────
//! ```
//!
//! A connection has one request. It is served at once, for a bounded time. When there is no room for more, a connection that
//! has not sent its request in its first moment gives way to a new one, and so does one that does not take its answer; one
//! whose answer is pending never does.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollTimeout};
use softtimers::{Clock, Monotonic, Timestamp};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, yield_now};
use tokio::time::{sleep, timeout};

/// An answer.
pub(crate) type Answer = Response<Full<Bytes>>;

/// What answers requests.
pub(crate) trait Answers: Send + Sync + 'static {
    /// Answers a request. It tells `stage` when the request has come, its body included: from then on its connection stays.
    fn answer(&self, request: Request<Incoming>, stage: &Stage) -> impl Future<Output = Answer> + Send;
}

/// The bounds of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Limits {
    /// The most connections at once; each has a descriptor and some kilobytes.
    pub(crate) connections: usize,
    /// The longest head of a request, at least 8 KiB.
    pub(crate) head_bytes: usize,
    /// The longest time for the head of a request.
    pub(crate) asking: Duration,
    /// The longest time from the connection to the answer.
    pub(crate) answering: Duration,
    /// The longest time for the client to take the answer.
    pub(crate) taking: Duration,
    /// The most threads for calls that block.
    pub(crate) blocking_threads: usize,
}

/// A listener for requests.
#[derive(Debug)]
pub(crate) struct Server {
    listener: std::net::TcpListener,
    address: SocketAddr,
    limits: Limits,
}

impl Server {
    /// Listens; connections wait until [`serve`](Self::serve).
    ///
    /// # Errors
    /// The system's error for the address.
    pub(crate) fn bind(address: SocketAddr, limits: Limits) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        Ok(Server { listener, address, limits })
    }

    /// Returns the address in use.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers requests from now on, in a thread of this name.
    ///
    /// # Errors
    /// If the system has no descriptor or no thread left, or refuses to wait.
    pub(crate) fn serve(self, thread: &str, answers: impl Answers) -> io::Result<()> {
        try_to_wait()?;
        let limits = self.limits;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(limits.blocking_threads)
            .build()?;
        let listener = {
            let _inside = runtime.enter();
            TcpListener::from_std(self.listener)?
        };
        let serve = move || runtime.block_on(serve(listener, limits, Arc::new(answers)));
        std::thread::Builder::new().name(thread.to_owned()).spawn(serve)?;
        Ok(())
    }
}

/// Tries a wait, since the runtime would panic later where it is refused.
fn try_to_wait() -> io::Result<()> {
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    epoll.wait(&mut [EpollEvent::empty()], EpollTimeout::ZERO)?;
    Ok(())
}

/// Accepts and answers connections for ever.
async fn serve<A: Answers>(listener: TcpListener, limits: Limits, answers: Arc<A>) {
    let mut open = VecDeque::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                if !made_room(&mut open, limits.connections).await {
                    // All others have pending answers, so this one is closed.
                    continue;
                }
                let stage = Arc::new(Stage::asks());
                let served = connection(stream, limits, Arc::clone(&answers), Arc::clone(&stage));
                open.push_back(Open { task: tokio::spawn(served).abort_handle(), stage });
                // Gives connections the time to send their requests before the next one is accepted.
                yield_now().await;
            }
            // Out of descriptors: one may become free.
            Err(_) => sleep(PAUSE).await,
        }
    }
}

/// A connection in progress.
#[derive(Debug)]
struct Open {
    task: AbortHandle,
    stage: Arc<Stage>,
}

/// How far a request has come.
#[derive(Debug)]
pub(crate) struct Stage(Mutex<Progress>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Progress {
    /// The connection is safe from being closed until then.
    Asks(Timestamp),
    /// Its answer is pending.
    HasAsked,
    /// The answer is ready; the connection is safe until then.
    Takes(Timestamp),
}

impl Stage {
    fn asks() -> Self {
        Stage(Mutex::new(Progress::Asks(Monotonic.now() + TO_ASK)))
    }

    /// Says that the request has come completely.
    pub(crate) fn has_asked(&self) {
        self.set(Progress::HasAsked);
    }

    fn takes(&self) {
        self.set(Progress::Takes(Monotonic.now() + TO_TAKE));
    }

    fn set(&self, progress: Progress) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = progress;
    }

    fn progress(&self) -> Progress {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns until when its connection is safe; `None` while the answer is pending.
    fn until(&self) -> Option<Timestamp> {
        match self.progress() {
            Progress::Asks(until) | Progress::Takes(until) => Some(until),
            Progress::HasAsked => None,
        }
    }
}

/// Says whether there is room for one more, closing a connection that has not sent its request or taken its answer in time
/// if needed.
async fn made_room(open: &mut VecDeque<Open>, most: usize) -> bool {
    loop {
        open.retain(|connection| !connection.task.is_finished());
        if open.len() < most {
            return true;
        }
        let slow =
            open.iter().enumerate().filter_map(|(at, connection)| Some((connection.stage.until()?, at)));
        let Some((until, slowest)) = slow.min() else { return false };
        if until <= Monotonic.now() {
            open.remove(slowest).iter().for_each(|connection| connection.task.abort());
        } else {
            // It may still send its request, and any other may end.
            sleep(MOMENT).await;
        }
    }
}

/// Serves one request.
async fn connection<A: Answers>(stream: TcpStream, limits: Limits, answers: Arc<A>, stage: Arc<Stage>) {
    let service = service_fn(|request| {
        let (answers, stage) = (Arc::clone(&answers), Arc::clone(&stage));
        async move {
            let answer = answers.answer(request, &stage).await;
            stage.takes();
            Ok::<_, Infallible>(answer)
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.asking)
        .max_buf_size(limits.head_bytes)
        .keep_alive(false)
        // A client may close its direction after the request.
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service);
    let mut served = pin!(served);
    // Ends when only writing is left: the same task answers, so that is seen at once.
    let answered = poll_fn(|context| {
        // A client's errors are its own concern.
        let is_over = served.as_mut().poll(context).is_ready();
        let is_answered = matches!(stage.progress(), Progress::Takes(_));
        if is_over || is_answered { Poll::Ready(is_over) } else { Poll::Pending }
    });
    if timeout(limits.answering, answered).await == Ok(false) {
        let _ = timeout(limits.taking, served).await;
    }
}

/// The pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);
/// Time for each connection to send its request even if there is no room: more than most round trips. With it and 128
/// connections, new ones are accepted at a rate of at least 2,560 a second, unless all others have pending answers.
const TO_ASK: Duration = Duration::from_millis(50);
/// Time for each to take its answer if there is no room: by then its first bytes have left, and most answers completely.
const TO_TAKE: Duration = Duration::from_millis(250);
/// The time between two checks for room.
const MOMENT: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    const MOST_CONNECTIONS: usize = 128;

    /// When there is no room: connections that used up their time to ask or to read give way, and those with pending
    /// answers stay.
    #[test]
    fn who_does_not_read_gives_way() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let open = |progress| {
                let task = tokio::spawn(std::future::pending::<()>());
                Open { task: task.abort_handle(), stage: Arc::new(Stage(Mutex::new(progress))) }
            };
            let mut all: VecDeque<_> = (0..MOST_CONNECTIONS).map(|_| open(Progress::HasAsked)).collect();
            assert!(!made_room(&mut all, MOST_CONNECTIONS).await, "all are being answered");
            for number in [MOST_CONNECTIONS - 1, 0] {
                all[number] = open(Progress::Asks(Timestamp::ZERO));
                let slow = all[number].task.clone();
                assert!(made_room(&mut all, MOST_CONNECTIONS).await);
                // The runtime has to run all those tasks first.
                for _ in 0..MOST_CONNECTIONS {
                    yield_now().await;
                }
                assert_eq!((slow.is_finished(), all.len()), (true, MOST_CONNECTIONS - 1));
                all.push_back(open(Progress::HasAsked));
            }
        });
    }
}
