//! A relay on a thread of its own, controlled by orders: [`Worker`].

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use softtimers_measure::failure::Failure;
use softtimers_wan::interfaces::Claimed;
use softtimers_wan::toxic::Dose;
use softtimers_wan::{Ended, PathConfig, Relay, WanBuilder, Way};

use super::super::ends::{Ends, carry, failure, short_slices};
use super::show::Carried;
use crate::run::output::say;

/// A running relay.
///
/// Dropping it ends it; afterwards nothing listens or relays.
#[derive(Debug)]
pub(crate) struct Worker {
    orders: Sender<(Order, Sender<Answer>)>,
    bell: UnixStream,
    thread: Option<JoinHandle<()>>,
}

/// An order to a relay.
#[derive(Debug)]
pub(crate) enum Order {
    /// Only report its traffic.
    Look,
    /// Set the toxics of one direction.
    Toxics(Way, Vec<Dose>),
    /// Set the path of one direction, which has been checked.
    Path(Way, Box<PathConfig>),
    /// End all connections, stop listening, and report the traffic.
    Stop,
}

/// The answer: its traffic so far.
type Answer = Carried;

impl Worker {
    /// Listens, or takes the claimed interfaces, and carries on a new thread; also returns the address in use.
    ///
    /// # Errors
    /// If it cannot listen there, or the system has no thread or descriptor left.
    pub(crate) fn start(
        name: &str,
        ends: Ends,
        claimed: Option<Claimed>,
        path: WanBuilder,
    ) -> Result<(Self, String), Failure> {
        let no_start = |error: io::Error| Failure::broke_off("starting a relay", &error);
        let (bell, rings) = UnixStream::pair().map_err(no_start)?;
        let quiet = [&bell, &rings].into_iter().try_for_each(|end| end.set_nonblocking(true));
        quiet.map_err(no_start)?;
        let ((orders, given), (tell, started)) = (channel(), channel());
        let thread = std::thread::Builder::new().name(name.chars().take(15).collect());
        let name = name.to_owned();
        // The relay's loop belongs to its thread.
        let thread = thread.spawn(move || {
            let taken = match claimed {
                Some(claimed) => {
                    Relay::between(claimed, path).map_err(|problem| failure("the interfaces", &problem))
                }
                None => ends.open(path),
            };
            let watched = taken.and_then(|mut relay| {
                relay.watch(&rings, 0).map_err(no_start)?;
                Ok((ends.config(&relay).listen, relay))
            });
            let (told, relay) = match watched {
                Ok((listen, relay)) => (Ok(listen), Some(relay)),
                Err(failure) => (Err(failure), None),
            };
            let _ = tell.send(told);
            let Some(Err(failure)) = relay.map(|relay| carry_out(relay, &rings, &given)) else { return };
            say(format_args!("softtimers: proxy {name:?} has ended: {failure}"));
        });
        let thread = Some(thread.map_err(no_start)?);
        let ended = |_| Failure::check("a relay has ended before it began");
        let listen = started.recv().map_err(ended)??;
        Ok((Worker { orders, bell, thread }, listen))
    }

    /// Gives an order, and waits until it is carried out; `None` if the relay has ended.
    pub(crate) fn tell(&self, order: Order) -> Option<Answer> {
        let (answer, answered) = channel();
        self.orders.send((order, answer)).ok()?;
        // If it is full, the bell rings already.
        let _ = (&self.bell).write(&[0]);
        answered.recv_timeout(ORDER_PATIENCE).ok()
    }

    /// Says whether it still relays: a system error may have ended it.
    pub(crate) fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Ends it, and returns its traffic.
    pub(crate) fn stop(self) -> Option<Answer> {
        self.tell(Order::Stop)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Closing the bell is an order, too, in case this one is not carried out in time.
        let _ = self.bell.shutdown(Shutdown::Both);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Carries, and carries out orders, until it is told to stop.
fn carry_out(
    mut relay: Relay,
    mut rings: &UnixStream,
    orders: &Receiver<(Order, Sender<Answer>)>,
) -> Result<(), Failure> {
    let _slices = short_slices();
    loop {
        match carry(&mut relay, None)? {
            Ended::Watched(_) => {}
            Ended::Time => continue,
        }
        // The bell always rings after an order was given.
        let is_over = matches!(rings.read(&mut [0; 64]), Ok(0));
        for (order, answer) in orders.try_iter() {
            match order {
                Order::Look => {}
                Order::Toxics(way, doses) => relay.set_toxics(way, doses),
                Order::Path(way, path) => {
                    // It has been checked.
                    let _ = relay.set(way, *path);
                }
                Order::Stop => {
                    let carried = Carried::from_relay(&relay);
                    drop(relay);
                    let _ = answer.send(carried);
                    return Ok(());
                }
            }
            let _ = answer.send(Carried::from_relay(&relay));
        }
        if is_over {
            return Ok(());
        }
    }
}

/// Orders take microseconds, unless the machine is stopped.
const ORDER_PATIENCE: Duration = Duration::from_secs(5);
