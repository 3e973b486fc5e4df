//! One video to fifty WebRTC receivers, by the loop of str0m's example, and spread over time.
//!
//! A frame of 30 packets leaves at once, fifty times: a video forwarder sends trains of 1,500 packets, each receiver's
//! access link gets 30 at once, and drops some where its queue is shorter. str0m has a pacer for senders that estimate
//! bandwidth; without an estimate it releases everything, and with one up to 63 kB, which is more than the frame.
//!
//! The fifty calls are real, ICE, DTLS, SRTP and RTCP included, and so are their sockets on loopback, and the kernel's
//! receive times. The camera (bytes, at its times) is not, nor is the access link, which is computed from the receive
//! times.

mod fanout;
mod peers;
mod receivers;
mod usual;

use std::net::UdpSocket;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use example_harness::trial::{Done, Software, Trial};
use peers::{Client, INTERVAL, Video};
use receivers::Seen;
use softtimers_trials::result::Table;

const RECEIVERS: usize = 50;
const FIGURES: [(&str, usize); 8] = [
    ("longest train", 0),
    ("back to back %", 1),
    ("gap p50 µs", 0),
    ("PDV p99 at 10 Mbit/s, ms", 2),
    ("dropped there %", 1),
    ("frame p50 ms", 1),
    ("frame p99 ms", 1),
    ("CPU µs a packet", 2),
];
const SOFTWARE: Software = Software::new(
    "str0m 0.25",
    "[str0m #368](https://github.com/algesten/str0m/issues/368), [livekit #4724](https://github.com/livekit/livekit/issues/4724): a forwarder sends each frame at line rate, and short queues drop it",
    include_str!("fanout.rs"),
);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    Usual,
    Paced,
}

impl By {
    fn name(self) -> &'static str {
        if self == By::Usual { "str0m's example loop" } else { "a flow each, paced" }
    }

    fn run(self, socket: &UdpSocket, clients: &mut [Client], video: &mut Video<'_>) -> Done {
        match self {
            By::Usual => usual::run(socket, clients, video),
            By::Paced => fanout::run(socket, clients, video),
        }
    }
}

/// Runs this number of frames; returns the receivers' results, and the sender's CPU time.
fn fan_out(by: By, receivers: usize, frames: u32) -> Done<(Seen, Duration)> {
    let (socket, mut clients, receivers) = peers::introduced(receivers)?;
    let over = AtomicBool::new(false);
    let mut video = Video::new(frames, &over);
    thread::scope(|scope| {
        let watched =
            scope.spawn(|| receivers::watch(receivers, frames, &over).map_err(|error| error.to_string()));
        let sent = by.run(&socket, &mut clients, &mut video);
        let seen = watched.join().map_err(|_| "the receivers panicked")??;
        sent?;
        Ok((seen, video.cpu()))
    })
}

fn run(trial: &Trial, receivers: usize) -> Done<Vec<Table>> {
    let frames = trial.time.div_duration_f64(INTERVAL).ceil() as u32;
    let measured = trial.contest(&[()], &mut [By::Usual, By::Paced], |(), by, round| {
        let (seen, cpu) = fan_out(*by, receivers, frames)?;
        let at = |sorted: &example_harness::Sorted, share| sorted.quantile(share).unwrap_or(0) as f64;
        let packets = seen.packets.max(1) as f64;
        let figures = [
            seen.spacing.longest_burst as f64,
            seen.spacing.back_to_back_percent(),
            at(&seen.spacing.gaps, 0.5) / 1e3,
            at(&seen.waits, 0.99) / 1e6,
            100.0 * seen.dropped as f64 / packets,
            at(&seen.delays, 0.5) / 1e6,
            at(&seen.delays, 0.99) / 1e6,
            cpu.as_secs_f64() * 1e6 / packets,
        ];
        FIGURES.iter().zip(figures).for_each(|((name, _), figure)| round.put(by.name(), name, figure));
        Ok(())
    })?;
    let both = [By::Usual, By::Paced].map(|by| by.name().to_owned());
    let table = Table::of("webrtc-fanout", &measured, both.iter(), &FIGURES);
    let lines = [(0, "longest train to a receiver"), (4, "packets dropped by a link with a queue of 16, %")];
    let lines = lines.map(|(figure, said)| (said.to_owned(), FIGURES[figure].0, both.clone()));
    Ok(vec![table, SOFTWARE.summary(&measured, FIGURES[7].0, &lines)])
}

fn main() -> Done {
    let trial = Trial::asked()?;
    trial.show("webrtc-fanout", run(&trial, RECEIVERS)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_frame_reaches_every_receiver_and_packets_are_spread() {
        let [usual, paced] = [By::Usual, By::Paced].map(|by| fan_out(by, 5, 3).unwrap().0);
        for (seen, by) in [(&usual, By::Usual), (&paced, By::Paced)] {
            assert_eq!(seen.delays.len(), 15, "{by:?}");
            assert!(seen.packets >= 15 * 30, "{by:?}: {} packets", seen.packets);
        }
        let share = |seen: &Seen| seen.spacing.back_to_back_percent();
        assert!(share(&paced) < share(&usual), "{} and {}", share(&paced), share(&usual));
    }

    #[test]
    fn a_short_run_has_both() {
        let tables = run(&Trial::short(), 5).unwrap();
        let text = tables[0].markdown(&[], |_| true).unwrap();
        assert!([By::Usual, By::Paced].iter().all(|by| text.contains(by.name())), "{text}");
    }
}
