//! What can be set of a path, and what the values mean: the same on the command line and at the control
//! socket.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use softtimers_measure::units::{self, SendRate};
use softtimers_wan::{
    Bottleneck, DeliveryTrace, GilbertElliott, Jitter, Late, Limit, Loss, PathConfig, Probability, Spread,
};

use crate::file;
use crate::run::privileges::user::exceeds_caller;

/// One thing that can be set.
#[derive(Debug)]
pub(crate) struct Setting {
    /// Its flags: for both directions, for up, for down. The first is the word at the control socket.
    pub(crate) flags: [&'static str; 3],
    /// What its value is called.
    pub(crate) value: &'static str,
    /// What it does.
    pub(crate) help: &'static str,
    parse: fn(&str) -> Result<Change, String>,
}

macro_rules! flags {
    ($name:literal) => {
        [$name, concat!("up-", $name), concat!("down-", $name)]
    };
}

/// All of them, in the order of the help.
pub(crate) const SETTINGS: [Setting; 11] = [
    Setting { flags: flags!("delay"), value: "TIME", help: "How long a packet is under way", parse: delay },
    Setting {
        flags: flags!("jitter"),
        value: "TIME[:OPTION]",
        help: "How that varies: TIME less or more, all equally likely; :normal, :exponential, :reordering",
        parse: jitter,
    },
    Setting {
        flags: flags!("rate"),
        value: "RATE",
        help: "The bottleneck, in bits a second; or none",
        parse: rate,
    },
    Setting {
        flags: flags!("trace"),
        value: "FILE",
        help: "A recorded bottleneck instead: mahimahi's format, a line for each packet with its millisecond",
        parse: trace,
    },
    Setting {
        flags: flags!("queue"),
        value: "LIMIT",
        help: "What may wait for the bottleneck",
        parse: queue,
    },
    Setting {
        flags: flags!("mark"),
        value: "LIMIT",
        help: "Mark what waits beyond this (ECN): written into packets with --ifaces, else only counted",
        parse: mark,
    },
    Setting { flags: flags!("loss"), value: "LOSS", help: "What is lost behind the bottleneck", parse: loss },
    Setting {
        flags: flags!("reorder"),
        value: "SHARE:TIME",
        help: "Which share comes later by this, to be overtaken: 1%:5ms",
        parse: reorder,
    },
    Setting { flags: flags!("duplicate"), value: "SHARE", help: "Which share comes twice", parse: duplicate },
    Setting {
        flags: flags!("corrupt"),
        value: "SHARE",
        help: "In which share one bit is flipped",
        parse: corrupt,
    },
    Setting {
        flags: flags!("overhead"),
        value: "SIZE",
        help: "What a packet takes on the bottleneck beyond its payload [default: its IP and UDP or TCP headers; none with --ifaces]",
        parse: overhead,
    },
];

/// A new value of a setting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// The delay.
    Delay(Duration),
    /// Its variation.
    Jitter(Jitter),
    /// The bottleneck.
    Bottleneck(Bottleneck),
    /// The queue's limit.
    Queue(Limit),
    /// Its marks.
    Mark(Limit),
    /// The loss.
    Loss(Loss),
    /// Packets that come later; `None` for none.
    Late(Option<Late>),
    /// Packets that come twice.
    Duplicate(Probability),
    /// Packets that are damaged.
    Corrupt(Probability),
    /// Bytes beyond the payload.
    Overhead(u32),
}

impl Setting {
    /// The setting of this name.
    pub(crate) fn named(name: &str) -> Option<&'static Setting> {
        SETTINGS.iter().find(|setting| setting.flags[0] == name)
    }

    /// Understands a value.
    ///
    /// # Errors
    /// What is wrong with it, and what is allowed.
    pub(crate) fn change(&self, text: &str) -> Result<Change, String> {
        (self.parse)(text)
    }
}

impl Change {
    /// Changes a path.
    pub(crate) fn apply(&self, path: &mut PathConfig) {
        match self {
            Change::Delay(delay) => path.delay = *delay,
            Change::Jitter(jitter) => path.jitter = *jitter,
            Change::Bottleneck(bottleneck) => path.bottleneck = bottleneck.clone(),
            Change::Queue(limit) => path.queue.limit = *limit,
            Change::Mark(limit) => path.queue.mark = Some(*limit),
            Change::Loss(loss) => path.loss = *loss,
            Change::Late(late) => path.late = *late,
            Change::Duplicate(share) => path.duplicate = *share,
            Change::Corrupt(share) => path.corrupt = *share,
            Change::Overhead(bytes) => path.overhead = *bytes,
        }
    }
}

fn delay(text: &str) -> Result<Change, String> {
    units::duration(text).map(Change::Delay).map_err(|error| error.to_string())
}

fn jitter(text: &str) -> Result<Change, String> {
    let mut parts = text.split(':');
    let size = units::duration(parts.next().unwrap_or("")).map_err(|error| error.to_string())?;
    let mut jitter = Jitter::uniform(size);
    for option in parts {
        jitter = match option {
            "normal" => jitter.spread(Spread::Normal),
            "exponential" => jitter.spread(Spread::Exponential),
            "reordering" => jitter.reordering(),
            _ => return Err(format!("no option {option:?}; there are normal, exponential, reordering")),
        };
    }
    Ok(Change::Jitter(jitter))
}

fn rate(text: &str) -> Result<Change, String> {
    if text == "none" {
        return Ok(Change::Bottleneck(Bottleneck::NONE));
    }
    match units::rate(text).map_err(|error| error.to_string())? {
        SendRate::BitsPerSecond(bits) => {
            Bottleneck::bits_per_second(bits).map(Change::Bottleneck).map_err(|error| error.to_string())
        }
        SendRate::PacketsPerSecond(_) => Err("a bottleneck has bits a second, such as 10Mbit".into()),
    }
}

fn trace(path: &str) -> Result<Change, String> {
    let mut text = Vec::new();
    let file = file::open(Path::new(path)).map_err(|error| error.to_string())?;
    let read = file.take(MOST_OF_A_TRACE + 1).read_to_end(&mut text).map_err(|error| error.to_string())?;
    if read as u64 > MOST_OF_A_TRACE {
        return Err(format!("longer than {MOST_OF_A_TRACE} bytes"));
    }
    let trace = DeliveryTrace::parse(&text).map_err(|error| {
        // It may quote the line.
        if exceeds_caller() { format!("line {}: {TRACE_LINES}", error.line()) } else { error.to_string() }
    })?;
    Ok(Change::Bottleneck(Bottleneck::trace(trace)))
}

fn queue(text: &str) -> Result<Change, String> {
    limit(text).map(Change::Queue)
}

fn mark(text: &str) -> Result<Change, String> {
    limit(text).map(Change::Mark)
}

fn limit(text: &str) -> Result<Limit, String> {
    let allowed = || "a limit is 20packets, 64KiB or 50ms".to_owned();
    if let Some(packets) = text.strip_suffix("packets") {
        return packets.parse().map(Limit::Packets).map_err(|_| allowed());
    }
    let time = units::duration(text).map(Limit::Time);
    time.or_else(|_| units::bytes(text).map(Limit::Bytes)).map_err(|_| allowed())
}

fn loss(text: &str) -> Result<Change, String> {
    let Some(burst) = text.strip_prefix("gilbert:") else {
        return share(text).map(|share| Change::Loss(Loss::Random(share)));
    };
    let values: Vec<Probability> = burst.split(',').map(share).collect::<Result<_, _>>()?;
    let (to_bad, to_good, rest) = match values[..] {
        [to_bad, to_good, ref rest @ ..] if rest.len() <= 2 => (to_bad, to_good, rest),
        _ => return Err("gilbert:TO_BAD,TO_GOOD[,LOSS_BAD[,LOSS_GOOD]], such as gilbert:0.2%,30%".into()),
    };
    let mut bursts = GilbertElliott::bursts(to_bad, to_good);
    if let Some(&bad) = rest.first() {
        bursts.loss_bad = bad;
    }
    if let Some(&good) = rest.get(1) {
        bursts.loss_good = good;
    }
    Ok(Change::Loss(Loss::GilbertElliott(bursts)))
}

fn reorder(text: &str) -> Result<Change, String> {
    let (which, by) = text.split_once(':').ok_or("a share and by how much later, such as 1%:5ms")?;
    let by = units::duration(by).map_err(|error| error.to_string())?;
    let share = share(which)?;
    Ok(Change::Late((share != Probability::NEVER).then_some(Late { share, by })))
}

fn duplicate(text: &str) -> Result<Change, String> {
    share(text).map(Change::Duplicate)
}

fn corrupt(text: &str) -> Result<Change, String> {
    share(text).map(Change::Corrupt)
}

fn overhead(text: &str) -> Result<Change, String> {
    let bytes = units::bytes(text).map_err(|error| error.to_string())?;
    let bytes = u32::try_from(bytes).map_err(|_| format!("{bytes} bytes are more than any header"))?;
    Ok(Change::Overhead(bytes))
}

fn share(text: &str) -> Result<Probability, String> {
    let parts = units::share(text).map_err(|error| error.to_string())?;
    Probability::per_billion(parts).map_err(|error| error.to_string())
}

const TRACE_LINES: &str =
    "each is a whole number of milliseconds, not below the one before, the last above zero";
/// A day of one packet a millisecond has less than a gigabyte; recordings have minutes.
const MOST_OF_A_TRACE: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn change(name: &str, value: &str) -> Result<Change, String> {
        Setting::named(name).unwrap().change(value)
    }

    #[test]
    fn values_of_the_help_are_understood() {
        assert_eq!(change("delay", "50ms"), Ok(Change::Delay(Duration::from_millis(50))));
        assert_eq!(change("queue", "20packets"), Ok(Change::Queue(Limit::Packets(20))));
        assert_eq!(change("queue", "64KiB"), Ok(Change::Queue(Limit::Bytes(65_536))));
        assert_eq!(change("mark", "5ms"), Ok(Change::Mark(Limit::Time(Duration::from_millis(5)))));
        assert_eq!(change("rate", "none"), Ok(Change::Bottleneck(Bottleneck::NONE)));
        let one_percent = Probability::per_million(10_000).unwrap();
        assert_eq!(change("loss", "1%"), Ok(Change::Loss(Loss::Random(one_percent))));
        let late = Late { share: one_percent, by: Duration::from_millis(5) };
        assert_eq!(change("reorder", "1%:5ms"), Ok(Change::Late(Some(late))));
        let Ok(Change::Loss(Loss::GilbertElliott(bursts))) = change("loss", "gilbert:0.2%,30%,90%") else {
            panic!("no bursts");
        };
        assert_eq!(bursts.loss_bad, Probability::per_million(900_000).unwrap());
        let Ok(Change::Jitter(jitter)) = change("jitter", "2ms:normal:reordering") else {
            panic!("no jitter")
        };
        assert!(jitter.reorders && jitter.spread == Spread::Normal);
    }

    #[test]
    fn mistakes_are_named() {
        for (name, value) in [
            ("delay", "50"),
            ("queue", "20"),
            ("rate", "10kpps"),
            ("rate", "0Mbit"),
            ("loss", "101%"),
            ("loss", "gilbert:1%"),
            ("loss", "gilbert:1%,2%,3%,4%,5%"),
            ("reorder", "1%"),
            ("jitter", "1ms:often"),
            ("overhead", "5000000000B"),
            ("trace", "/nowhere/at/all"),
        ] {
            assert!(change(name, value).is_err(), "{name} {value}");
        }
    }

    #[test]
    fn a_change_touches_nothing_else() {
        let mut path = PathConfig::default().delay(Duration::from_millis(7));
        change("loss", "2%").unwrap().apply(&mut path);
        assert_eq!(path.delay, Duration::from_millis(7));
        assert_ne!(path.loss, Loss::None);
    }
}
