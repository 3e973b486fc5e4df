//! `latency`: how long packets of the generator wait, by a plain epoll loop and by policies, in turns on the same ring.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use softtimers::epoll::{Epoll, EventFlags, Events, Waiting};
use softtimers_net::poller::{Device, FrameInfo};
use softtimers::{Clock, Monotonic};
use softtimers_forward::Mode;

use super::turns::{Heard, QUOTA, Ways, with_poller};

/// A plain epoll loop, and three policies.
pub(crate) struct Waits;

impl Ways for Waits {
    const NAMES: [&'static str; 4] = ["epoll", "interrupt", "hybrid", "hip"];

    fn turn<D: Device<Address = FrameInfo> + AsFd>(
        way: usize,
        device: D,
        heard: &mut Heard,
    ) -> io::Result<D> {
        match way {
            0 => plain(device, heard),
            1 => polled(device, Mode::INTERRUPT, heard),
            2 => polled(device, Mode::HYBRID, heard),
            _ => polled(device, Mode::HIP, heard),
        }
    }
}

fn plain<D: Device<Address = FrameInfo> + AsFd>(mut device: D, heard: &mut Heard) -> io::Result<D> {
    let mut epoll = Epoll::new(Waiting::Pwait2)?;
    epoll.add(device.as_fd(), 0, EventFlags::IN)?;
    let mut events = Events::with_capacity(1);
    let until = Monotonic.now() + TURN;
    while Monotonic.now() < until {
        epoll.wait(&mut events, Some(LOOK))?;
        while device.poll_rx(QUOTA as usize, |packet, _| heard.note(&packet))?.more {}
    }
    epoll.delete(device.as_fd())?;
    Ok(device)
}

fn polled<D: Device<Address = FrameInfo> + AsFd>(device: D, mode: Mode, heard: &mut Heard) -> io::Result<D> {
    with_poller(device, mode, |poller, _| {
        let until = Monotonic.now() + TURN;
        while Monotonic.now() < until {
            poller.wait(Some(Monotonic.now() + LOOK), |packet, _| heard.note(&packet))?;
        }
        Ok(())
    })
}

const TURN: Duration = Duration::from_millis(250);
const LOOK: Duration = Duration::from_millis(20);
