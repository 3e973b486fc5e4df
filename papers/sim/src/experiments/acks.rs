//! **Three answers to big ACKs** (soft timers A.3): a receiver that stops reading for a while acknowledges a
//! whole window at once, and a self-clocked sender then sends a whole window at once.
//!
//! Cutting the window and capping the burst keep the queue short but drain the pipe; pacing keeps the queue
//! short and the pipe full. The path and its receiver are [`path`](crate::engine::path)'s, the pacing sender
//! is [`AckPacer`].

use std::ops::RangeInclusive;
use std::time::Duration;

use softtimers_core::{AckPacer, Timestamp};

use super::slow_link::{MBIT, capacity};
use crate::choice::choices;
use crate::engine::path::ack_receiver::AckReceiver;
use crate::engine::path::{Answer, Path};
use crate::{Column, Experiment, Need, Parameter, Parameters, Row, RunError, Steps, Streams};

/// Throughput and queue, by the sender's answer to a big ACK.
pub(crate) static ACKS: Experiment = Experiment {
    name: "pacing-acks",
    about: "Big ACKs: self-clocked, paced, at most four packets each, window cut (soft timers, appendix A.3)",
    details: "A sender with a fixed window over one slow link; the pipe is full at the start. In each \
              --period the receiver's application stops reading for --away. If that is longer than the round \
              trip, one ACK releases the whole window. Nothing is lost: the longest queue is the buffer that \
              a router would need.",
    parameters: &[
        Parameter::choice_or::<ToBigAck>("answer", "The sender's answer to a big ACK", "paced"),
        Parameter::time(
            "away",
            "How long the application does not read",
            Duration::ZERO..=Duration::from_secs(10),
            Duration::from_millis(15),
        ),
        Parameter::time(
            "period",
            "How often it stops reading",
            Duration::from_millis(1)..=Duration::from_secs(60),
            Duration::from_millis(200),
        ),
        Parameter::count("maxburst", "Packets for each ACK, of --answer maxburst", 1..=10_000, 4)
            .needs(MAXBURST),
        Parameter::time("burst", "Shortest gap of --answer paced", COST, Duration::from_micros(12))
            .needs(PACED),
        Parameter::count("window", "Packets that may be in flight", 2..=100_000, 100),
        Parameter::count("mbit", "Rate of the slow link, in Mbit/s of packets of 1,500 bytes", MBIT, 100)
            .in_unit("per_s"),
        Parameter::time(
            "rtt",
            "Round-trip time",
            Duration::ZERO..=Duration::from_secs(10),
            Duration::from_millis(10),
        ),
        Parameter::time(
            "protocol",
            "Cost of a packet in the receiver's kernel, before the application reads it",
            COST,
            PAPERS.protocol,
        ),
        Parameter::time("read", "Cost of a packet in the receiver's application", COST, PAPERS.read),
        Parameter::time(
            "duration",
            "Simulated time",
            Duration::from_millis(10)..=Duration::from_secs(1_000),
            Duration::from_secs(4),
        ),
    ],
    columns: &[
        Column::words("answer", "the sender's answer to a big ACK"),
        Column::share("of_link", "acknowledged data, as a share of the link's capacity"),
        Column::new("longest_queue", "longest queue for the link, in packets"),
        Column::new("acks", "ACKs received"),
        Column::new("big_acks", "ACKs for more than three packets"),
        Column::new("packets_per_ack", "mean packets acknowledged by an ACK").digits(1),
    ],
    sweep: &[("answer", "self-clocked,paced,maxburst,window-cut")],
    check,
    run,
};

const PAPERS: crate::constants::Acks = crate::constants::Machine::PAPERS.acks;
const COST: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(1);

const MAXBURST: Need =
    Need { with: "answer maxburst", met: |parameters| answer(parameters) == ToBigAck::MaxBurst };
const PACED: Need = Need { with: "answer paced", met: |parameters| answer(parameters) == ToBigAck::Paced };

choices! {
    /// The sender's answer to a big ACK.
    enum ToBigAck {
        /// The whole window at once.
        SelfClocked = "self-clocked",
        /// One packet after another.
        Paced = "paced",
        /// At most a few packets for each ACK.
        MaxBurst = "maxburst",
        /// A smaller window.
        WindowCut = "window-cut",
    }
}

fn answer(parameters: &Parameters) -> ToBigAck {
    parameters.choice("answer")
}

fn check(parameters: &Parameters) -> Result<(), RunError> {
    let (away, period) = (parameters.time("away"), parameters.time("period"));
    if away >= period {
        return Err(RunError::new(format_args!("away {away:?}: less than the period, {period:?}")));
    }
    capacity(parameters).map(drop)
}

fn run(parameters: &Parameters, _: Streams, steps: &Steps) -> Result<Vec<Row>, RunError> {
    let answer = match answer(parameters) {
        ToBigAck::SelfClocked => Answer::SelfClocked,
        ToBigAck::MaxBurst => Answer::MaxBurst(parameters.count("maxburst")),
        ToBigAck::WindowCut => Answer::CutWindow,
        ToBigAck::Paced => Answer::Paced(AckPacer::new().with_burst_interval(parameters.time("burst"))),
    };
    let (away, period) = (parameters.time("away"), parameters.time("period"));
    check(parameters)?;
    let link = capacity(parameters)?.interval();
    let receiver = AckReceiver {
        away: (period, away),
        ..AckReceiver::new(
            parameters.time("protocol"),
            parameters.time("read"),
            parameters.machine().path.delayed_acks,
        )
    };
    let path = Path {
        access_link: parameters.machine().path.access_link,
        answer,
        window: parameters.count("window"),
        link,
        delay: parameters.time("rtt") / 2,
        receiver,
    };
    // Not at the moment at which the application stops reading.
    let (start, duration) = (Timestamp::ZERO + period / 2, parameters.time("duration"));
    let found = path.run(start, start + duration, steps);
    let carried = found.acknowledged as f64 * link.as_secs_f64() / duration.as_secs_f64();
    Ok(vec![vec![
        parameters.word("answer").into(),
        carried.into(),
        found.longest_queue.into(),
        found.acks.into(),
        found.big_acks.into(),
        (found.acknowledged as f64 / found.acks.max(1) as f64).into(),
    ]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Setting, Value};

    #[test]
    fn pacing_alone_keeps_the_pipe_full_and_the_queue_short() {
        let find = |answer| {
            let parameters = Parameters::new(ACKS.parameters).with("answer", Setting::Choice(answer));
            match run(&parameters, Streams::new(1), &Steps::unwatched()).unwrap().remove(0)[..] {
                [_, Value::Real(of_link), Value::Count(queue), ..] => (of_link, queue),
                ref other => panic!("{other:?}"),
            }
        };
        let [clocked, paced, capped, cut] = ["self-clocked", "paced", "maxburst", "window-cut"].map(find);
        assert!(paced.0 >= clocked.0 * 0.99 && capped.0 <= paced.0 * 0.9 && cut.0 <= paced.0 * 0.9);
        assert!(clocked.1 >= 80 && paced.1 <= 20 && capped.1 < clocked.1 && cut.1 < clocked.1);
    }

    #[test]
    fn a_receiver_that_never_reads_is_refused() {
        let parameters =
            Parameters::new(ACKS.parameters).with("away", Setting::Time(Duration::from_millis(200)));
        let error = run(&parameters, Streams::new(1), &Steps::unwatched()).unwrap_err().to_string();
        assert_eq!(error, "away 200ms: less than the period, 200ms");
    }
}
