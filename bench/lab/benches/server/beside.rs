//! A computation on the CPU of a server that is flooded with five times as many datagrams as it can handle: what is left of its
//! half, by interrupts and by polls (livelock §5.1, §7).
//!
//! ```text
//!   flood ═══ cable ─▶ queue ─▶ server: 150,000 steps a datagram ┐ one CPU
//!                               computation: steps              ┘
//! ```
//!
//! The scheduler gives each of the two half of the CPU; interrupts take theirs from both. Steps are counted rather than CPU
//! time, since the kernel charges an interrupt to whomever it interrupts.

use std::hint::black_box;
use std::io::{self, Read};
use std::net::{SocketAddr, UdpSocket};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use softtimers::{Clock, Monotonic, Token};
use softtimers_lab::bench::Done;
use softtimers_lab::server::cable::{Cable, Receiving, SERVERS};
use softtimers_net::napi::{BACKUP, NapiDevice};
use softtimers_net::poller::{Poller, UdpDevice};
use softtimers_poll::{Aggregation, AggregationConfig, Interrupts, Policy, SourceConfig};
use softtimers_trials::bar::Bar;
use softtimers_trials::command::{Killed, announced, pause};
use softtimers_trials::paired::Round;
use softtimers_trials::result::Table;

use super::Effort;

pub(crate) fn measure(effort: &Effort, cable: &Cable) -> Done<Table> {
    let capacity = trial(effort, cable, POLLED, (f64::INFINITY, false))?.handled;
    let rate = 5.0 * capacity;
    let measured =
        effort.rounds.contest(&[()], &mut [INTERRUPTED, POLLED], |(), server, round: &mut Round| {
            let alone = computation_alone(effort, cable)?;
            let trial = trial(effort, cable, server, (rate, true))?;
            let name = NAMES[usize::from(*server == POLLED)];
            round.put(name, KEPT, trial.steps / (0.5 * alone));
            round.put(name, "handled kpps", trial.handled / 1e3);
            round.put(name, "offered kpps", trial.offered / 1e3);
            Done::Ok(())
        })?;
    let columns = [(KEPT, 2), ("handled kpps", 1), ("offered kpps", 1)];
    let mut table = Table::of("napi-beside", &measured, NAMES, &columns);
    table.note(format!("{:.1} kpps is what the polled server handles alone", capacity / 1e3));
    table.bar(Bar::at_least(
        "server, napi-beside: what the computation keeps",
        0.95,
        measured.estimate(NAMES[1], KEPT),
    ));
    Ok(table)
}

/// Rates a second.
struct Trial {
    offered: f64,
    handled: f64,
    steps: f64,
}

fn trial(effort: &Effort, cable: &Cable, server: &str, (rate, beside): (f64, bool)) -> Done<Trial> {
    let [here, there] = effort.processors;
    cable.receive(Receiving::Interrupts, here)?;
    let kept = here.keep()?;
    let (serving, address) = start(cable, &[server, &format!("{}:0", SERVERS[0])])?;
    let computing = beside.then(|| start(cable, &["computing"])).transpose()?;
    drop(kept);
    let address: SocketAddr = address.parse()?;
    let flood = || -> io::Result<f64> {
        cable.enter()?;
        let _kept = there.keep()?;
        flood(address, rate, effort.trial)
    };
    let offered = thread::scope(|scope| scope.spawn(flood).join()).map_err(|_| "the flood broke off")??;
    let steps = computing.map_or(Ok(0.0), |(computing, _)| rate_of(computing))?;
    Ok(Trial { offered, handled: rate_of(serving)?, steps })
}

fn computation_alone(effort: &Effort, cable: &Cable) -> Done<f64> {
    let kept = effort.processors[0].keep()?;
    let (computing, _) = start(cable, &["computing"])?;
    drop(kept);
    pause(effort.trial);
    rate_of(computing)
}

fn start(cable: &Cable, words: &[&str]) -> Done<(Killed, String)> {
    let parent = std::process::id().to_string();
    let words = [&["--with-parent", &*parent], words].concat();
    let mut command = cable.command(&std::env::current_exe()?, &words);
    Ok(announced(command.stdin(Stdio::piped()), "begins ")?)
}

/// Ends it, and returns what it has done a second.
fn rate_of(child: Killed) -> Done<f64> {
    Ok(String::from_utf8(child.output()?.0)?.trim().parse()?)
}

/// Sends at this rate; returns the one that was reached.
fn flood(to: SocketAddr, rate: f64, time: Duration) -> io::Result<f64> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect(to)?;
    let (begin, mut sent) = (Monotonic.now(), 0.0);
    loop {
        let passed = Monotonic.now().saturating_duration_since(begin);
        if passed >= time {
            return Ok(sent / passed.as_secs_f64());
        }
        if sent < rate * passed.as_secs_f64() {
            // One that finds a queue full is lost, as on a wire.
            let _ = socket.send(&[0; 64]);
            sent += 1.0;
        }
    }
}

/// One of the two processes: until stdin ends, and then it tells what it has done a second.
pub(crate) fn child(words: &[&str]) -> Option<Done> {
    match *words {
        ["computing"] => Some(compute()),
        [kind @ (INTERRUPTED | POLLED), address] => Some(serve(kind == POLLED, address)),
        _ => None,
    }
}

fn compute() -> Done {
    static OVER: AtomicBool = AtomicBool::new(false);
    eprintln!("begins to compute");
    thread::spawn(|| {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        OVER.store(true, Ordering::Relaxed);
    });
    let (begin, mut done) = (Monotonic.now(), 0.0);
    while !OVER.load(Ordering::Relaxed) {
        work();
        done += 1.0;
    }
    print_rate(done, begin);
    Ok(())
}

fn serve(polled: bool, address: &str) -> Done {
    let socket = UdpSocket::bind(address)?;
    let address = socket.local_addr()?;
    let device = UdpDevice::new(socket.into())?;
    let config = AggregationConfig::default();
    let (device, policy): (_, Box<dyn Policy>) = match polled {
        true => (NapiDevice::new(device, BACKUP), Box::new(Aggregation::new(config))),
        false => (NapiDevice::by_interrupts(device), Box::new(Interrupts)),
    };
    let mut poller = Poller::new()?;
    poller.add(device, SourceConfig::new(policy))?;
    poller.watch(&io::stdin(), Token(1))?;
    eprintln!("begins {address}");
    let (begin, mut done) = (Monotonic.now(), 0.0);
    while poller.ready().is_empty() {
        poller.wait(None, |_, _| {
            work();
            done += 1.0;
        })?;
    }
    print_rate(done, begin);
    Ok(())
}

fn print_rate(done: f64, since: softtimers::Timestamp) {
    println!("{}", done / Monotonic.now().saturating_duration_since(since).as_secs_f64());
}

fn work() {
    (0..STEPS).for_each(|step| _ = black_box(step));
}

/// Tens of microseconds: so many that one CPU can offer five times what another one handles.
const STEPS: u32 = 150_000;
const INTERRUPTED: &str = "flooded-interrupts";
const POLLED: &str = "flooded-napi";
const NAMES: [&str; 2] = ["interrupts", "NAPI polled, quota 5"];
const KEPT: &str = "computation keeps";
