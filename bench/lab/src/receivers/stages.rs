//! `stages`: a forwarder with a cost per packet, in one stage or in two on the same CPU.
//!
//! ```text
//!   completion   A ─▶ ring ─▶ rules ─▶ B
//!   feedback     A ─▶ ring ─▶ queue ─▶ rules ─▶ B         input stops while the queue is full
//!   naive        A ─▶ ring ─▶ queue ─▶ rules ─▶ B         everything available is received first
//! ```
//!
//! The second stage is a thread with a nice value of 19: the first one goes first whenever it wants to, as interrupts
//! do. It sends one packet per system call, by a packet socket, like the second stage of the livelock paper (§6.2).

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use clap::ValueEnum;
use rustix::process::setpriority_process;
use serde_json::{Value, json};
use softtimers::{Clock, Monotonic, Timestamp};
use softtimers_load::mode::Mode;
use softtimers_load::overload::{Busy, Filter, Queue, ROOM, Window};
use softtimers_measure::distribution::Recorder;
use softtimers_measure::units;
use softtimers_net::packet::{FrameSender, Interface};
use softtimers_net::poller::{Device, FrameInfo, Poller};
use softtimers_poll::{AnyPolicy, FeedbackConfig, Preset, SourceConfig, SourceId, Stage, StageLog};

use super::{How, PATIENCE, SETTLED, With, datagram, looking, open};

#[derive(clap::Args, Debug, Clone)]
pub struct Arguments {
    from: String,
    to: String,
    #[command(flatten)]
    how: How,
    #[arg(long, value_enum, default_value_t = Kind::Completion)]
    kind: Kind,
    #[arg(long, default_value_t)]
    mode: Mode,
    #[arg(long, default_value_t = 64)]
    quota: u32,
    /// The measured time, from the first packet on
    #[arg(long, value_parser = units::positive_duration)]
    window: Duration,
    /// Packets per burst: the first of each is measured
    #[arg(long, default_value_t = 1)]
    burst: u64,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Completion,
    Feedback,
    Naive,
}

pub(crate) fn run(arguments: &Arguments) -> io::Result<Value> {
    let _kept = arguments.how.keep()?;
    open(&arguments.how, &[&arguments.from, &arguments.to], Stages(arguments))
}

struct Stages<'a>(&'a Arguments);

impl With for Stages<'_> {
    fn with<D: Device<Address = FrameInfo> + AsFd>(self, devices: Vec<D>) -> io::Result<Value> {
        let arguments = self.0;
        let window = Window::new(arguments.window);
        let filter = Filter::new(arguments.how.rules);
        let queue = (arguments.kind != Kind::Completion).then(Queue::new).transpose()?;
        let out = FrameSender::on(&Interface::named(&arguments.to)?)?;
        let first = First { arguments, window: &window, filter: &filter, queue: queue.as_ref() };
        thread::scope(|scope| {
            let second = queue.as_ref().map(|queue| {
                let (window, filter) = (&window, &filter);
                scope.spawn(move || second(queue, filter, window, &out, arguments.burst))
            });
            let ended = first.run(devices);
            window.over.store(true, Ordering::Relaxed);
            queue.iter().for_each(Queue::close);
            let panicked = |_| io::Error::other("a thread panicked");
            let second = second.map(|thread| thread.join().map_err(panicked)?).transpose();
            let (mut found, own) = ended?;
            let first_used = own.used;
            let done = second?.unwrap_or(own);
            found["delivered"] = json!(window.delivered.load(Ordering::Relaxed));
            found["delivered_pps"] =
                json!(window.in_time.load(Ordering::Relaxed) as f64 / window.length().as_secs_f64());
            found["latency_ns"] = json!(done.latency.distribution());
            found["first_ns"] = json!(done.first.distribution());
            found["dropped"]["rule"] = json!(done.rejected);
            found["dropped"]["failed"] = json!(done.failed);
            let share = |used: Duration| used.as_secs_f64() / window.length().as_secs_f64();
            let second = if queue.is_some() { done.used } else { Duration::ZERO };
            found["cpu_share"] = json!(share(first_used + second));
            Ok(found)
        })
    }
}

/// A packet between the stages, up to the length of the generator's.
struct Item {
    bytes: [u8; LONGEST],
    length: usize,
    arrived: Option<Timestamp>,
}

/// The results of a last stage.
#[derive(Default)]
struct Done {
    latency: Recorder,
    /// The delay of the first packets of bursts.
    first: Recorder,
    rejected: u64,
    failed: u64,
    /// The CPU time used within the window.
    used: Duration,
}

impl Done {
    /// Records the time since it arrived, or if that is not known, since it was due.
    fn record(&mut self, now: Timestamp, frame: &[u8], arrived: Option<Timestamp>, burst: u64) {
        let Some((sequence, due)) = datagram(frame) else { return };
        let latency = now.saturating_duration_since(arrived.unwrap_or(due));
        self.latency.record_duration(latency);
        if sequence % burst == 0 {
            self.first.record_duration(latency);
        }
    }
}

/// Runs the second stage, as a thread.
fn second(
    queue: &Queue<Item>,
    filter: &Filter,
    window: &Window,
    out: &FrameSender,
    burst: u64,
) -> io::Result<Done> {
    // For this thread only: on Linux each has its own.
    let niced = setpriority_process(None, 19);
    let (mut done, mut busy) = (Done::default(), Busy::default());
    while let Some(item) = queue.take() {
        let frame = &item.bytes[..item.length];
        let accepted = accepts(filter, frame);
        let sent = accepted && out.send(frame).is_ok();
        let now = Monotonic.now();
        done.rejected += u64::from(!accepted);
        done.failed += u64::from(accepted && !sent);
        if sent && window.deliver(now, 1) {
            done.record(now, frame, item.arrived, burst);
        }
        busy.look(window, now);
    }
    niced?;
    // The CPU time is the calling thread's.
    done.used = busy.used();
    Ok(done)
}

/// The first stage, and without a second one all of it.
struct First<'a> {
    arguments: &'a Arguments,
    window: &'a Window,
    filter: &'a Filter,
    queue: Option<&'a Queue<Item>>,
}

impl First<'_> {
    fn run<D: Device<Address = FrameInfo> + AsFd>(&self, devices: Vec<D>) -> io::Result<(Value, Done)> {
        let arguments = self.arguments;
        let mode = if arguments.kind == Kind::Naive { Mode::NAIVE } else { arguments.mode };
        let looking = looking(mode, arguments.quota);
        let mut poller: Poller<D, AnyPolicy> = Poller::new()?;
        let config = || SourceConfig::new(looking.policy()).with_quota(looking.ring_quota());
        let ports = devices.into_iter().map(|device| poller.add(device, config()));
        let ports = ports.collect::<io::Result<Vec<_>>>()?;
        let [from, to] = ports[..] else { return Err(io::Error::other("two interfaces are wanted")) };
        if let (Some(queue), Kind::Feedback) = (self.queue, arguments.kind) {
            let marks = FeedbackConfig::preset(Preset::Measured, ROOM).map_err(io::Error::other)?;
            poller.attach_queue(&queue.gauge, marks, &[from])?;
        }
        let (mut done, mut busy, mut waiting) = (Done::default(), Busy::default(), Vec::<Item>::new());
        let (mut received, mut refused, mut seen) = (0u64, 0u64, 0);
        // A wait returns when the burst is through: the log of turns says when each packet left.
        poller.log_stages(TURNS);
        let began = Monotonic.now();
        let mut last = (began, 0);
        while !self.is_over(began, last, Monotonic.now()) {
            poller.wait(Some(Monotonic.now() + LOOK), |packet, outputs| {
                if outputs.from() != from || datagram(packet.bytes).is_none() {
                    return;
                }
                received += 1;
                let item = || Item::new(packet.bytes, packet.arrived);
                match self.queue {
                    None if accepts(self.filter, packet.bytes) => {
                        waiting.push(item());
                        outputs.send(to, packet.bytes, Some(packet.from));
                    }
                    None => done.rejected += 1,
                    Some(queue) if queue.admits() => match arguments.kind {
                        Kind::Naive => queue.put([item()]),
                        _ => waiting.push(item()),
                    },
                    Some(_) => refused += 1,
                }
            })?;
            let now = Monotonic.now();
            if received > 0 {
                self.window.begin(now);
            }
            if received != last.1 {
                last = (now, received);
            }
            match self.queue {
                Some(queue) => queue.put(waiting.drain(..)),
                None => seen = self.account(seen, poller.stages(), &mut waiting, &mut done)?,
            }
            busy.look(self.window, now);
        }
        done.used = busy.used();
        if received == 0 {
            return Err(io::Error::other("no packet came"));
        }
        self.found(&mut poller, [from, to], received, refused).map(|found| (found, done))
    }

    /// Counts the packets that have left since the log had `seen` events, each as of the end of its turn; returns the
    /// log's current length.
    fn account(
        &self,
        seen: u64,
        log: Option<&StageLog>,
        waiting: &mut Vec<Item>,
        done: &mut Done,
    ) -> io::Result<u64> {
        let Some(log) = log else { return Ok(seen) };
        let skipped =
            seen.checked_sub(log.forgotten()).ok_or_else(|| io::Error::other("turns were forgotten"))?;
        let turns = log.iter().skip(skipped as usize).filter(|event| event.stage == Stage::Transmit);
        let mut leaving = waiting.drain(..);
        for turn in turns {
            let in_time = self.window.deliver(turn.end, u64::from(turn.packets));
            for item in leaving.by_ref().take(turn.packets as usize).filter(|_| in_time) {
                done.record(turn.end, &item.bytes[..item.length], item.arrived, self.arguments.burst);
            }
        }
        let left: Vec<_> = leaving.collect();
        *waiting = left;
        Ok(log.forgotten() + log.iter().len() as u64)
    }

    /// Says whether no more packets come, or none have come at all.
    fn is_over(&self, began: Timestamp, last: (Timestamp, u64), now: Timestamp) -> bool {
        let quiet = now.saturating_duration_since(last.0);
        let waits = self.queue.is_some_and(|queue| queue.gauge.depth() > 0);
        match last.1 {
            0 => now.saturating_duration_since(began) > PATIENCE,
            _ => self.window.is_on(now) == Some(false) && quiet > SETTLED && !waits,
        }
    }

    fn found<D: Device<Address = FrameInfo> + AsFd>(
        &self,
        poller: &mut Poller<D, AnyPolicy>,
        [from, to]: [SourceId; 2],
        received: u64,
        refused: u64,
    ) -> io::Result<Value> {
        let (drops, output) = (poller.drops(from)?, poller.drops(to)?.output);
        let stats = poller.source_stats(from);
        Ok(json!({
            "received": received,
            "wakeups": poller.stats().sleeps,
            "polls": stats.looks,
            "empty_polls": stats.empty_looks,
            "dropped": {
                "interface": drops.interface, "ring": drops.ring, "queue": refused, "output": output,
            },
        }))
    }
}

impl Item {
    fn new(frame: &[u8], arrived: Option<Timestamp>) -> Self {
        let length = frame.len().min(LONGEST);
        let mut bytes = [0; LONGEST];
        bytes[..length].copy_from_slice(&frame[..length]);
        Item { bytes, length, arrived }
    }
}

/// Applies the rules to the packet's source and content.
pub(crate) fn accepts(filter: &Filter, frame: &[u8]) -> bool {
    let from: [u8; 4] = frame[26..30].try_into().unwrap_or_default();
    filter.accepts(SocketAddr::from((from, 9)), &frame[super::HEADERS..])
}

/// Headers, and the generator's minimum payload, with some room.
const LONGEST: usize = 128;
/// The number of turns of one wait that are logged.
const TURNS: usize = 1 << 14;
/// Short enough to notice the end.
const LOOK: Duration = Duration::from_millis(10);
