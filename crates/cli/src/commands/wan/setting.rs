//! The settings of a path and the parsing of their values, shared by the command line and the control socket.

mod delays;
mod link;

use std::io::Read;
use std::ops::RangeInclusive;
use std::path::Path;

use softtimers_measure::units;
use softtimers_wan::{
    Ahead, Change, FourStates, GilbertElliott, Incidence, Late, Loss, Probability, Reorder, Slots,
};

use crate::file;
use delays::jitter;
use link::{aqm, limit, rate, trace};

/// A setting.
#[derive(Debug)]
pub(crate) struct Setting {
    /// Its flags: for both directions, for up, for down. The first is the name at the control socket.
    pub(crate) flags: [&'static str; 3],
    /// The name of its value in help.
    pub(crate) value: &'static str,
    /// The text for help.
    pub(crate) help: &'static str,
    parse: fn(&str) -> Result<Change, String>,
}

/// A row: the change that it makes, its flag, value and help, and the parser of a value.
macro_rules! settings {
    ($($change:expr, $flag:literal, $value:literal, $help:literal, $parse:path;)*) => {
        /// All settings, in the order of the help.
        pub(crate) const SETTINGS: &[Setting] = &[$(Setting {
            flags: [$flag, concat!("up-", $flag), concat!("down-", $flag)],
            value: $value,
            help: $help,
            parse: |text| $parse(text).map($change).map_err(|error| error.to_string()),
        },)*];
    };
}

settings! {
    Change::Delay, "delay", "TIME", "Delay each way", units::duration;
    Change::Jitter, "jitter", "TIME[:OPTION]", "Vary the delay: 2ms, 2ms:normal, 2ms:corr=25%", jitter;
    Change::Bottleneck, "rate", "RATE", "Bottleneck in bits a second: 10Mbit; or none", rate;
    Change::Bottleneck, "trace", "FILE", "Recorded bottleneck instead of --rate, in mahimahi's format", trace;
    Change::Burst, "burst", "SIZE", "Let SIZE through at once after a pause (token bucket): 64KiB", size;
    Change::Queue, "queue", "LIMIT", "Queue at the bottleneck: 20packets, 64KiB, 50ms", limit;
    |mark| Change::Mark(Some(mark)), "mark", "LIMIT", "Mark packets that wait beyond this (ECN), of -- CMD and --ifaces; else only count them", limit;
    Change::Aqm, "aqm", "NAME[:OPTION]", "Managed queue: codel, fq_codel, pie, with ecn to mark; or droptail", aqm;
    Change::Loss, "loss", "LOSS", "Loss each way: 1%, or bursts gilbert:0.2%,30%", loss;
    Change::Reorder, "reorder", "SHARE:TIME", "Delay a share of packets by TIME more: 1%:5ms", reorder;
    Change::Duplicate, "duplicate", "SHARE", "Deliver a share of packets twice: 0.1%, 0.1%:corr=25%", incidence;
    Change::Corrupt, "corrupt", "SHARE", "Flip a bit in a share of packets: 0.1%, 0.1%:corr=25%", incidence;
    Change::Slots, "slot", "TIME[-TIME][:OPTION]", "Let packets gather, and leave together some time later, as on Wi-Fi: 1ms-10ms", slots;
    Change::Overhead, "overhead", "SIZE", "Bytes of headers that each packet adds on the bottleneck [default: IP and UDP or TCP; none with -- CMD and --ifaces]", size;
}

impl Setting {
    /// Returns the setting of this name.
    pub(crate) fn named(name: &str) -> Option<&'static Setting> {
        SETTINGS.iter().find(|setting| setting.flags[0] == name)
    }

    /// Parses a value.
    ///
    /// # Errors
    /// A message that names the fault, and what is allowed.
    pub(crate) fn change(&self, text: &str) -> Result<Change, String> {
        (self.parse)(text)
    }
}

/// Returns the content of a file that has at most `most` bytes.
pub(super) fn read(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let mut text = Vec::new();
    let file = file::open(path).map_err(|error| error.to_string())?;
    let read = file.take(most + 1).read_to_end(&mut text).map_err(|error| error.to_string())?;
    if read as u64 > most { Err(format!("longer than {most} bytes")) } else { Ok(text) }
}

/// Parses a whole number of an option, within bounds.
fn within(option: &str, value: &str, bounds: RangeInclusive<u32>) -> Result<u32, String> {
    let number = value.parse().ok().filter(|number| bounds.contains(number));
    number.ok_or_else(|| {
        format!("{option}: a whole number from {} to {} is allowed", bounds.start(), bounds.end())
    })
}

fn slots(text: &str) -> Result<Option<Slots>, String> {
    if text == "none" {
        return Ok(None);
    }
    let time = |text| units::duration(text).map_err(|error| error.to_string());
    let mut parts = text.split(':');
    let gaps = parts.next().unwrap_or_default();
    let (least, most) = gaps.split_once('-').unwrap_or((gaps, gaps));
    let mut slots = Slots::every(time(least)?, time(most)?);
    for option in parts {
        match option.split_once('=') {
            Some(("packets", value)) => slots.packets = within(option, value, 1..=u32::MAX)?,
            Some(("bytes", value)) => {
                let bytes = units::bytes(value).map_err(|error| format!("{option}: {error}"))?;
                slots.bytes =
                    Some(bytes).filter(|&bytes| bytes > 0).ok_or("bytes=0: at least one byte is needed")?;
            }
            _ => {
                return Err(format!(
                    "no option {option:?}; there are packets=N and bytes=SIZE, as in 1ms-10ms:packets=42:bytes=64KiB"
                ));
            }
        }
    }
    if slots.packets == 0 && slots.bytes == 0 && slots.most.is_zero() {
        return Err("slots without a time between them; 1ms-10ms, or none".into());
    }
    Ok(Some(slots))
}

fn loss(text: &str) -> Result<Loss, String> {
    if let Some(states) = text.strip_prefix("state:") {
        return four_states(states);
    }
    let Some(burst) = text.strip_prefix("gilbert:") else {
        return match text.split_once(":corr=") {
            None => share(text).map(Loss::Random),
            Some((lost, correlation)) => Ok(Loss::correlated(share(lost)?, share(correlation)?)),
        };
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
    Ok(Loss::GilbertElliott(bursts))
}

/// Reads netem's `loss state`, whose first value alone is needed.
fn four_states(text: &str) -> Result<Loss, String> {
    let values: Vec<Probability> = text.split(',').map(share).collect::<Result<_, _>>()?;
    let (&[p13, ref rest @ ..], ..=5) = (values.as_slice(), values.len()) else {
        return Err(
            "state:P13[,P31[,P32[,P23[,P14]]]], as netem's, such as state:0.5%,30%,10%,60%,0.1%".into()
        );
    };
    let usual = FourStates::new(p13);
    let given = |at: usize, usual: Probability| rest.get(at).copied().unwrap_or(usual);
    let chain = FourStates {
        p31: given(0, usual.p31),
        p32: given(1, usual.p32),
        p23: given(2, usual.p23),
        p14: given(3, usual.p14),
        ..usual
    };
    chain.check().map_err(|error| error.to_string())?;
    Ok(Loss::FourStates(chain))
}

fn reorder(text: &str) -> Result<Option<Reorder>, String> {
    let (which, how) =
        text.split_once(':').ok_or("a share and by how much later, such as 1%:5ms, or 25%:gap=5")?;
    let share = share(which)?;
    let reorder = match how.strip_prefix("gap=") {
        Some(gap) => {
            let gap =
                gap.parse().map_err(|_| format!("gap={gap}: a number of packets, such as 25%:gap=5"))?;
            Reorder::Ahead(Ahead { share, gap })
        }
        None => Reorder::Late(Late { share, by: units::duration(how).map_err(|error| error.to_string())? }),
    };
    Ok((share != Probability::NEVER).then_some(reorder))
}

fn size(text: &str) -> Result<u32, String> {
    let bytes = units::bytes(text).map_err(|error| error.to_string())?;
    u32::try_from(bytes).map_err(|_| format!("{bytes} bytes are too many; at most {} are possible", u32::MAX))
}

fn incidence(text: &str) -> Result<Incidence, String> {
    match text.split_once(":corr=") {
        None => share(text).map(Incidence::from),
        Some((often, correlation)) => Ok(Incidence::from(share(often)?).correlated(share(correlation)?)),
    }
}

fn share(text: &str) -> Result<Probability, String> {
    let parts = units::share(text).map_err(|error| error.to_string())?;
    Probability::per_billion(parts).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use softtimers_wan::{
        Aqm, Bottleneck, CodelConfig, DelayTable, Jitter, Limit, PathConfig, PieConfig, Spread,
    };

    use super::*;

    fn change(name: &str, value: &str) -> Result<Change, String> {
        Setting::named(name).unwrap().change(value)
    }

    #[test]
    fn values_of_the_help_are_understood() {
        assert_eq!(change("delay", "50ms"), Ok(Change::Delay(Duration::from_millis(50))));
        assert_eq!(change("queue", "20packets"), Ok(Change::Queue(Limit::Packets(20))));
        assert_eq!(change("queue", "64KiB"), Ok(Change::Queue(Limit::Bytes(65_536))));
        assert_eq!(change("mark", "5ms"), Ok(Change::Mark(Some(Limit::Time(Duration::from_millis(5))))));
        assert_eq!(change("rate", "none"), Ok(Change::Bottleneck(Bottleneck::NONE)));
        let slow = PieConfig { target: Duration::from_millis(20), ecn: true, ..PieConfig::default() };
        assert_eq!(change("aqm", "pie:20ms:ecn"), Ok(Change::Aqm(Aqm::Pie(slow))));
        assert_eq!(change("aqm", "codel"), Ok(Change::Aqm(Aqm::Codel(CodelConfig::default()))));
        let one_percent = Probability::per_million(10_000).unwrap();
        assert_eq!(change("loss", "1%"), Ok(Change::Loss(Loss::Random(one_percent))));
        let late = Reorder::Late(Late { share: one_percent, by: Duration::from_millis(5) });
        assert_eq!(change("reorder", "1%:5ms"), Ok(Change::Reorder(Some(late))));
        let ahead = Reorder::Ahead(Ahead { share: one_percent, gap: 5 });
        assert_eq!(change("reorder", "1%:gap=5"), Ok(Change::Reorder(Some(ahead))));
        assert_eq!(change("reorder", "0%:gap=5"), Ok(Change::Reorder(None)));
        assert_eq!(change("burst", "64KiB"), Ok(Change::Burst(65_536)));
        let Ok(Change::Aqm(Aqm::FqCodel(fair))) = change("aqm", "fq_codel:10ms:ecn") else {
            panic!("no turns")
        };
        assert!(fair.codel.ecn && fair.codel.target == Duration::from_millis(10) && fair.flows == 1_024);
        let Ok(Change::Aqm(Aqm::FqCodel(fair))) =
            change("aqm", "fq_codel:interval=50ms:flows=64:quantum=300:2ms")
        else {
            panic!("no turns")
        };
        assert_eq!(
            (fair.codel.interval, fair.codel.target),
            (Duration::from_millis(50), Duration::from_millis(2))
        );
        assert_eq!((fair.flows, fair.quantum, fair.codel.ecn), (64, 300, false));
        let slow = CodelConfig { interval: Duration::from_secs(1), ecn: true, ..CodelConfig::default() };
        assert_eq!(change("aqm", "codel:ecn:interval=1s"), Ok(Change::Aqm(Aqm::Codel(slow))));
        let correlated = Loss::correlated(one_percent, one_percent);
        assert_eq!(change("loss", "1%:corr=1%"), Ok(Change::Loss(correlated)));
        let often = Incidence::from(one_percent);
        assert_eq!(change("duplicate", "1%"), Ok(Change::Duplicate(often)));
        assert_eq!(change("corrupt", "1%:corr=1%"), Ok(Change::Corrupt(often.correlated(one_percent))));
        let [one, ten] = [1, 10].map(Duration::from_millis);
        assert_eq!(change("slot", "1ms"), Ok(Change::Slots(Some(Slots::every(one, one)))));
        let full = Slots { packets: 42, bytes: 65_536, ..Slots::every(one, ten) };
        assert_eq!(change("slot", "1ms-10ms:packets=42:bytes=64KiB"), Ok(Change::Slots(Some(full))));
        assert_eq!(change("slot", "none"), Ok(Change::Slots(None)));
        let table = Spread::Table(DelayTable::pareto());
        let jitter = Jitter::uniform(Duration::from_millis(2)).spread(table).correlated(one_percent);
        assert_eq!(change("jitter", "2ms:pareto:corr=1%"), Ok(Change::Jitter(jitter)));
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
    fn the_four_states_are_in_netems_order() {
        let percent = |percent: u32| Probability::per_million(percent * 10_000).unwrap();
        let chain = |loss: &str| match change("loss", loss) {
            Ok(Change::Loss(Loss::FourStates(chain))) => chain,
            other => panic!("{other:?}"),
        };
        assert_eq!(chain("state:1%"), FourStates::new(percent(1)));
        let all = FourStates {
            p31: percent(30),
            p32: percent(10),
            p23: percent(60),
            p14: percent(2),
            p13: percent(1),
        };
        assert_eq!(chain("state:1%,30%,10%,60%,2%"), all);
        let refused = change("loss", "state:99%,30%,10%,60%,2%").unwrap_err().to_string();
        assert!(refused.contains("P13 and P14 are 0.99 and 0.02; together they are at most 1"), "{refused}");
    }

    #[test]
    fn mistakes_are_named() {
        for (name, value) in [
            ("delay", "50"),
            ("queue", "20"),
            ("rate", "10kpps"),
            ("rate", "fast"),
            ("aqm", "red"),
            ("aqm", "codel:soon"),
            ("aqm", "droptail:ecn"),
            ("aqm", "codel:flows=5"),
            ("aqm", "codel:interval=0ms"),
            ("aqm", "pie:interval=5ms"),
            ("aqm", "fq_codel:flows=0"),
            ("aqm", "fq_codel:quantum=255"),
            ("duplicate", "1%:corr=2"),
            ("corrupt", "1%:often"),
            ("slot", "0ms"),
            ("slot", "1ms-"),
            ("slot", "1ms:packets=0"),
            ("slot", "1ms:bytes=0B"),
            ("slot", "1ms:slots=1"),
            ("rate", "0Mbit"),
            ("loss", "101%"),
            ("loss", "gilbert:1%"),
            ("loss", "gilbert:1%,2%,3%,4%,5%"),
            ("loss", "state:"),
            ("loss", "state:1%,2%,3%,4%,5%,6%"),
            ("loss", "state:1%,60%,60%"),
            ("loss", "state:60%,1%,1%,1%,60%"),
            ("reorder", "1%"),
            ("reorder", "1%:gap=x"),
            ("loss", "1%:corr=2"),
            ("jitter", "1ms:corr=often"),
            ("jitter", "1ms:dist=/nowhere/at/all"),
            ("burst", "5GiB"),
            ("jitter", "1ms:often"),
            ("overhead", "5000000000B"),
            ("trace", "/nowhere/at/all"),
        ] {
            assert!(change(name, value).is_err(), "{name} {value}");
        }
        // A bottleneck has no packets a second, so no message suggests them.
        for wrong in ["fast", "10", "10furlongs"] {
            let said = change("rate", wrong).unwrap_err();
            assert!(said.contains("bits a second") && !said.contains("pps"), "{said}");
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
