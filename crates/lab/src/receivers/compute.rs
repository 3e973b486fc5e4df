//! `compute`: what a computation keeps of its rate beside packets that it looks for at its own trigger states, and
//! beside packets that a thread is woken up for.
//!
//! ```text
//!   alone    compute ▸ clock ▸ compute ▸ clock …
//!   polled   compute ▸ clock ▸ compute ▸ clock, due: poll ▸ compute …
//!   woken    compute ▸ clock ▸ comp│ switch ▸ receive ▸ switch │ute ▸ clock …
//! ```
//!
//! Its rate is that by the processor time of the process, so that what other programs take does not count; the woken
//! thread's time and its switches do.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::setpriority_process;
use softtimers_net::poller::{Device, FrameInfo};
use softtimers::{Clock, Monotonic, Timestamp};
use softtimers_forward::overload::Filter;
use softtimers_forward::Mode;

use super::turns::{Heard, Ways, with_poller};
use crate::cpu;

/// By itself, polling at its trigger states by two policies, and beside a thread that is woken up.
pub(crate) struct Computation;

impl Ways for Computation {
    const NAMES: [&'static str; 4] = ["alone", "poll", "hybrid", "wake-up"];

    fn turn<D: Device<Address = FrameInfo> + AsFd>(
        way: usize,
        device: D,
        heard: &mut Heard,
    ) -> io::Result<D> {
        match way {
            0 => {
                heard.rates.push(work(TURN, || Ok(None))?);
                Ok(device)
            }
            1 => polled(device, Mode::POLL, heard),
            2 => polled(device, Mode::HYBRID, heard),
            _ => woken(device, heard),
        }
    }
}

/// Computes for so long; after each piece of work it passes a trigger state, and `look` is called when it is due. Pieces
/// of work a second of the process.
fn work(time: Duration, mut look: impl FnMut() -> io::Result<Option<Timestamp>>) -> io::Result<f64> {
    let filter = Filter::new(PIECE);
    let (until, before) = (Monotonic.now() + time, cpu::of_process());
    let (mut pieces, mut due) = (0u64, look()?);
    loop {
        std::hint::black_box(filter.accepts(([127, 0, 0, 1], 9).into(), &[1; 64]));
        pieces += 1;
        let now = Monotonic.now();
        if now >= until {
            let seconds = (cpu::of_process() - before).as_secs_f64();
            return Ok(pieces as f64 / seconds);
        }
        if due.is_some_and(|due| now >= due) {
            due = look()?;
        }
    }
}

fn polled<D: Device<Address = FrameInfo> + AsFd>(device: D, mode: Mode, heard: &mut Heard) -> io::Result<D> {
    with_poller(device, mode, |poller, source| {
        let rate = work(TURN, || {
            let next = poller.poll(|packet, _| heard.note(&packet))?;
            // Whose wake-ups are enabled is asked a little later all the same: this loop never sleeps.
            Ok(next.filter(|_| !poller.is_armed(source)).or_else(|| Some(Monotonic.now() + LOOK)))
        })?;
        heard.rates.push(rate);
        Ok(())
    })
}

fn woken<D: Device<Address = FrameInfo> + AsFd>(device: D, heard: &mut Heard) -> io::Result<D> {
    let over = AtomicBool::new(false);
    with_poller(device, Mode::INTERRUPT, |poller, _| {
        thread::scope(|scope| {
            // The computation gives way, as a program does to an interrupt; a thread of its own, since nice values of
            // unprivileged threads only grow.
            let computation = scope.spawn(|| {
                let niced = setpriority_process(None, 19);
                let rate = work(TURN, || Ok(None));
                over.store(true, Ordering::Relaxed);
                niced?;
                rate
            });
            while !over.load(Ordering::Relaxed) {
                poller.wait(Some(Monotonic.now() + WAIT), |packet, _| heard.note(&packet))?;
            }
            let rate = computation.join().map_err(|_| io::Error::other("the computation panicked"))??;
            heard.rates.push(rate);
            Ok(())
        })
    })
}

const TURN: Duration = Duration::from_millis(50);
/// Rules: about a microsecond's worth.
const PIECE: usize = 1_000;
const LOOK: Duration = Duration::from_micros(50);
const WAIT: Duration = Duration::from_millis(20);
