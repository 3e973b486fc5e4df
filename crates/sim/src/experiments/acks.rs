//! **Three answers to big ACKs** (soft timers A.3): a receiver that looks away acknowledges a whole window at once, and
//! a self-clocked sender answers with a whole window at once.
//!
//! Cutting the window and capping the burst keep the queue short, and drain the pipe; spreading what an ACK releases
//! does neither. The path and its receiver are [`path`](crate::path)'s, the sender that spreads is [`AckPacer`].

use std::time::Duration;

use softtimers_core::{AckConfig, AckPacer, Rate, Timestamp};

use crate::experiment::{Experiment, Need, RunError};
use crate::parameter::{Kind, Parameter, Parameters, Setting};
use crate::path::receiver::Receiver;
use crate::path::{Answer, Path};
use crate::streams::Streams;
use crate::table::{Column, Row};
use crate::watch::Steps;

/// Throughput and queue, by what the sender does with a big ACK.
pub static ACKS: Experiment = Experiment {
    name: "pacing-acks",
    about: "Big ACKs: self-clocked, paced, at most four packets each, window cut (soft timers, appendix A.3)",
    details: "A sender with a fixed window over one slow link, begun with a full pipe. In each --period the receiver's \
              application looks away for --away; if that is longer than the round trip, one ACK empties the whole window. \
              Nothing is lost: the longest queue is what a router would have to hold.",
    parameters: &[
        Parameter {
            name: "answer",
            about: "What the sender does with a big ACK",
            kind: Kind::Choice(&["self-clocked", "paced", "maxburst", "window-cut"]),
            default: Setting::Choice("paced"),
        },
        Parameter {
            name: "away",
            about: "How long the application does not read",
            kind: Kind::Time { least: Duration::ZERO, most: Duration::from_secs(10) },
            default: Setting::Time(Duration::from_millis(15)),
        },
        Parameter {
            name: "period",
            about: "and how often",
            kind: Kind::Time { least: Duration::from_millis(1), most: Duration::from_secs(60) },
            default: Setting::Time(Duration::from_millis(200)),
        },
        Parameter {
            name: "maxburst",
            about: "Packets for each ACK, of --answer maxburst",
            kind: Kind::Count { least: 1, most: 10_000 },
            default: Setting::Count(4),
        },
        Parameter {
            name: "burst",
            about: "Shortest gap of --answer paced",
            kind: COST,
            default: Setting::Time(Duration::from_micros(12)),
        },
        Parameter {
            name: "window",
            about: "Packets that may be in flight",
            kind: Kind::Count { least: 2, most: 100_000 },
            default: Setting::Count(100),
        },
        Parameter {
            name: "mbit",
            about: "Of the slow link, in Mbit/s of packets of 1,500 bytes",
            kind: MBIT,
            default: Setting::Count(100),
        },
        Parameter {
            name: "rtt",
            about: "There and back",
            kind: Kind::Time { least: Duration::ZERO, most: Duration::from_secs(10) },
            default: Setting::Time(Duration::from_millis(10)),
        },
        Parameter {
            name: "protocol",
            about: "What a packet costs the receiver's kernel, before anybody reads",
            kind: COST,
            default: Setting::Time(PAPERS.protocol),
        },
        Parameter {
            name: "read",
            about: "and its application",
            kind: COST,
            default: Setting::Time(PAPERS.read),
        },
        Parameter {
            name: "duration",
            about: "Simulated time",
            kind: Kind::Time { least: Duration::from_millis(10), most: Duration::from_secs(1_000) },
            default: Setting::Time(Duration::from_secs(4)),
        },
    ],
    columns: &[
        Column::new("answer", "what the sender does with a big ACK"),
        Column::share("of_link", "share of the link that was acknowledged"),
        Column::new("longest_queue", "packets that waited for the link at most"),
        Column::new("acks", "ACKs that came"),
        Column::new("big_acks", "those for more than three packets"),
        Column::new("packets_per_ack", "packets that an ACK acknowledges").digits(1),
    ],
    sweep: &[("answer", "self-clocked,paced,maxburst,window-cut")],
    needs: NEEDS,
    check,
    run,
};

pub(crate) const MBIT: Kind = Kind::Count { least: 1, most: 100_000 };
const PAPERS: crate::constants::Acks = crate::Machine::PAPERS.acks;
const COST: Kind = Kind::Time { least: Duration::ZERO, most: Duration::from_secs(1) };

/// The link's rate, in packets.
pub(crate) fn capacity(parameters: &Parameters) -> Result<Rate, RunError> {
    Rate::of_bits(parameters.count("mbit") * 1_000_000, parameters.machine().path.segment)
        .map_err(RunError::new)
}

const NEEDS: &[Need] = &[
    Need {
        of: &["maxburst"],
        with: "answer maxburst",
        met: |parameters| parameters.choice("answer") == "maxburst",
    },
    Need { of: &["burst"], with: "answer paced", met: |parameters| parameters.choice("answer") == "paced" },
];

fn check(parameters: &Parameters) -> Result<(), RunError> {
    let (away, period) = (parameters.time("away"), parameters.time("period"));
    if away >= period {
        return Err(RunError::new(format_args!("away {away:?}: less than the period, {period:?}")));
    }
    capacity(parameters).map(drop)
}

fn run(parameters: &Parameters, _: Streams, steps: &Steps) -> Result<Vec<Row>, RunError> {
    let answer = match parameters.choice("answer") {
        "self-clocked" => Answer::SelfClocked,
        "maxburst" => Answer::MaxBurst(parameters.count("maxburst")),
        "window-cut" => Answer::CutWindow,
        _ => {
            let burst_interval = Some(parameters.time("burst"));
            Answer::Paced(AckPacer::new(AckConfig { burst_interval, ..AckConfig::default() }))
        }
    };
    let (away, period) = (parameters.time("away"), parameters.time("period"));
    check(parameters)?;
    let link = capacity(parameters)?.interval();
    let receiver = Receiver {
        away: (period, away),
        delayed_acks: parameters.machine().path.delayed_acks,
        ..Receiver::new(parameters.time("protocol"), parameters.time("read"))
    };
    let path = Path {
        access_link: parameters.machine().path.access_link,
        answer,
        window: parameters.count("window"),
        link,
        delay: parameters.time("rtt") / 2,
        receiver,
    };
    // Not at the moment at which the application looks away.
    let (start, duration) = (Timestamp::ZERO + period / 2, parameters.time("duration"));
    let found = path.run(start, start + duration, steps);
    let carried = found.acknowledged as f64 * link.as_secs_f64() / duration.as_secs_f64();
    Ok(vec![vec![
        parameters.choice("answer").into(),
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
    use crate::table::Value;

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
