//! The subject: a loop that calls str0m at its requested times, and sends each receiver its packets one by one.
//!
//! ```text
//!   a frame, 30 packets ─▶ 50 × Writer::write ─▶ poll_output ─▶ a flow each at 5 Mbit/s, in turns ─▶ send_to
//! ```

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use example_harness::Alarm;
use example_harness::trial::Done;
use softtimers::queue::{DepartureQueue, FlowConfig, FlowId, Popped, QueueConfig};
use softtimers::{
    Config, EventLoop, Happening, Interest, LoopConfig, PaceConfig, SoftTimers, Timestamp, Token,
};
use str0m::Input;

use crate::peers::{Client, Video, instant, is_rtp, read, received, send};

/// Two and a half times the video's rate, like libwebrtc's pacing: a frame takes 40% of its interval.
pub(crate) const RATE: u64 = 5_000_000;
/// The slack of departures, so that those to several receivers share a wake-up.
const SLACK: Duration = Duration::from_micros(200);
/// The precision of str0m's own time-outs, which are tens of milliseconds.
const COARSE: Duration = Duration::from_millis(1);

#[derive(Clone, Copy, Debug)]
enum Wake {
    /// str0m wants to be called for this client.
    Call(usize),
    Frame,
    Departure,
}

/// Calls each client at its requested time, and spreads each receiver's media.
pub(crate) fn run(socket: &UdpSocket, clients: &mut [Client], video: &mut Video<'_>) -> Done {
    socket.set_nonblocking(true)?;
    let mut events = EventLoop::new(LoopConfig::default())?;
    events.register(socket, Token(0), Interest::Readable)?;
    let mut timers = SoftTimers::new(Config::default());
    let mut out = Out::new(socket, clients.len())?;
    let (mut frame, mut departure) = (Alarm::exact(Wake::Frame), Alarm::exact(Wake::Departure));
    let mut calls: Vec<_> = (0..clients.len()).map(|at| Alarm::within(Wake::Call(at), COARSE)).collect();
    calls.iter_mut().for_each(|call| call.set(&mut timers, events.now(), Some(events.now())));
    let mut buffer = vec![0; 2_000];
    while !video.is_over(clients)? {
        let now = events.now();
        frame.set(&mut timers, now, Some(video.next()));
        departure.set(&mut timers, now, out.queue.poll_at());
        let happening = events.next(&mut timers)?;
        let now = events.now();
        let changed = match happening {
            Happening::Ready { .. } => {
                let Some((from, packet)) = read(socket, &mut buffer)? else { continue };
                let input = received(socket, from, packet)?;
                let Some(at) = clients.iter().position(|client| client.rtc.accepts(&input)) else { continue };
                clients[at].rtc.handle_input(input)?;
                at..at + 1
            }
            Happening::Due(fired) => match fired.event {
                Wake::Call(at) => {
                    clients[at].rtc.handle_input(Input::Timeout(instant(now)?))?;
                    at..at + 1
                }
                Wake::Frame => match video.due(now) {
                    Some(frame) => {
                        clients.iter_mut().try_for_each(|client| client.write(now, &frame))?;
                        0..clients.len()
                    }
                    None => continue,
                },
                Wake::Departure => 0..0,
            },
        };
        for at in changed {
            let timeout = clients[at].drain(|packet, to| out.take(now, at, packet, to))?;
            calls[at].set(&mut timers, now, Some(timeout));
        }
        out.depart(events.now())?;
    }
    Ok(())
}

/// Sends by the socket: media at its time, everything else at once.
struct Out<'a> {
    socket: &'a UdpSocket,
    queue: DepartureQueue<(Vec<u8>, SocketAddr)>,
    flows: Vec<FlowId>,
    /// The offset between receivers, so that their packets interleave.
    stagger: Duration,
}

impl<'a> Out<'a> {
    fn new(socket: &'a UdpSocket, receivers: usize) -> Done<Self> {
        let mut queue = DepartureQueue::new(QueueConfig { slack: SLACK, ..QueueConfig::default() });
        let flow = FlowConfig::new(PaceConfig::bits_per_second(RATE)?);
        let flows = (0..receivers).map(|_| queue.add_flow(flow)).collect::<Result<_, _>>()?;
        let packet = Duration::from_nanos(crate::peers::PACKET * 8 * 1_000_000_000 / RATE);
        Ok(Out { socket, queue, flows, stagger: packet / receivers as u32 })
    }

    fn take(&mut self, now: Timestamp, at: usize, packet: Vec<u8>, to: SocketAddr) -> Done {
        if !is_rtp(&packet) {
            return send(self.socket, &packet, to);
        }
        // A refused packet is lost, like one at a full socket: its receiver asks for it again.
        let ready = now + self.stagger * at as u32;
        let _ = self.queue.enqueue_at(now, self.flows[at], ready, packet.len() as u32, (packet, to));
        Ok(())
    }

    fn depart(&mut self, now: Timestamp) -> Done {
        let turn = self.queue.turn(now);
        while let Some(popped) = self.queue.pop_due(&turn) {
            if let Popped::Departure(departure) = popped {
                let (packet, to) = departure.token;
                send(self.socket, &packet, to)?;
            }
        }
        Ok(())
    }
}
