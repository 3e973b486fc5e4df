//! The compared schemes: HIP, those that the paper compares it with, and others. [`Scheme`].

use std::time::Duration;

use softtimers_poll::HipConfig;
use softtimers_poll::readings::{Costs, Reading, Rounding};
use softtimers_poll::{
    AnyPolicy, BusyWait, ConstantPeriod, DelayBound, DelayBoundConfig, Hip, Interrupts, PolicySettings,
    Preset, SpinThenBlock, Watchdog,
};

use crate::engine::arrivals::Arrival;
use crate::engine::receiver::{ReceiveStats, Receiver, ReceiverEvent, Timing};
use crate::{Choice, RunError};

/// A way to notice packets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Scheme {
    /// An interrupt for each packet that arrives outside one.
    Interrupts,
    /// Polls by HIP's periods, never interrupts: the paper's "polling" (§6), not conventional polling.
    Polling,
    /// HIP on the ticks of a clock.
    Hip,
    /// HIP on soft timers: any period, at the first trigger state after it (§5).
    HipSoft,
    /// A poll each period by the clock's handler, which runs in any case (§1: conventional polling).
    Constant,
    /// Clocked interrupts: the same with a separate timer, each of whose interrupts costs V_I (§5).
    Clocked,
    /// A CPU that does nothing but poll (§6: conventional polling).
    BusyWait,
    /// A poll at each context switch, and an interrupt for a packet that no poll took in time (§5).
    Watchdog,
    /// Polls for a while after each packet, then an interrupt: busy-polling sockets.
    Spin,
    /// The policy that this library recommends: a bound on the delay.
    DelayBound,
    /// Another receive policy of the library, by its name, with `quota` and `t-max`.
    Other(&'static str),
}

impl Scheme {
    /// In the order of tables; the first three are the paper's columns.
    pub(super) const ALL: [Scheme; 10] = [
        Scheme::Interrupts,
        Scheme::Polling,
        Scheme::Hip,
        Scheme::HipSoft,
        Scheme::Constant,
        Scheme::Clocked,
        Scheme::BusyWait,
        Scheme::Watchdog,
        Scheme::Spin,
        Scheme::DelayBound,
    ];

    /// Returns the word for this scheme alone.
    pub(super) fn name(self) -> &'static str {
        let place = Scheme::ALL.iter().position(|scheme| *scheme == self);
        match (self, place) {
            (Scheme::Other(name), _) => name,
            (_, place) => WORDS[2 + place.unwrap_or(0)],
        }
    }
}

/// The schemes that a run compares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Schemes {
    /// The columns of Table 3.
    Table3,
    /// Those and all baselines.
    All,
    One(Scheme),
}

impl Schemes {
    /// Returns each of them, in the order of tables.
    pub(super) fn all(self) -> Vec<Scheme> {
        match self {
            Schemes::Table3 => Scheme::ALL[..3].to_vec(),
            Schemes::All => Scheme::ALL.to_vec(),
            Schemes::One(scheme) => vec![scheme],
        }
    }
}

/// Both of several, each scheme alone, then all other receive policies of the library.
impl Choice for Schemes {
    const WORDS: &'static [&'static str] = &with_others::<{ WORDS.len() + others() }>();
    const VALUES: &'static [Self] = &values(with_others::<{ WORDS.len() + others() }>());
}

const fn values<const N: usize>(words: [&'static str; N]) -> [Schemes; N] {
    let mut all = [Schemes::All; N];
    let mut at = 0;
    while at < N {
        all[at] = match at {
            0 => Schemes::Table3,
            1 => Schemes::All,
            _ if at < WORDS.len() => Schemes::One(Scheme::ALL[at - 2]),
            _ => Schemes::One(Scheme::Other(words[at])),
        };
        at += 1;
    }
    all
}

const WORDS: [&str; 12] = [
    "table-3",
    "all",
    "interrupts",
    "polling",
    "hip",
    "hip-soft",
    "constant",
    "clocked",
    "busy-wait",
    "watchdog",
    "spin",
    "delay-bound",
];

/// The number of other receive policies in the library.
const fn others() -> usize {
    let (mut count, mut at) = (0, 0);
    while at < AnyPolicy::ALL.len() {
        count += !is_word(AnyPolicy::ALL[at].0) as usize;
        at += 1;
    }
    count
}

const fn with_others<const N: usize>() -> [&'static str; N] {
    let mut all = [""; N];
    let (mut count, mut at) = (0, 0);
    while count < WORDS.len() {
        all[count] = WORDS[count];
        count += 1;
    }
    while at < AnyPolicy::ALL.len() {
        if !is_word(AnyPolicy::ALL[at].0) {
            all[count] = AnyPolicy::ALL[at].0;
            count += 1;
        }
        at += 1;
    }
    all
}

const fn is_word(name: &str) -> bool {
    let mut at = 0;
    while at < WORDS.len() {
        let (word, name) = (WORDS[at].as_bytes(), name.as_bytes());
        let mut same = 0;
        while same < word.len() && same < name.len() && word[same] == name[same] {
            same += 1;
        }
        if same == word.len() && same == name.len() {
            return true;
        }
        at += 1;
    }
    false
}

/// The settings of all schemes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Settings {
    /// The parameters of HIP.
    pub(crate) hip: HipConfig,
    /// Whether a look takes a packet that arrives as it ends.
    pub(crate) takes_at_end: bool,
    /// The packets that the device holds; any number if none.
    pub(crate) room: Option<usize>,
    /// The shortest period of HIP on soft timers.
    pub(crate) soft_shortest: Duration,
    /// When a period takes effect there: a soft event can be moved at any time, while the clock's counter
    /// must run out first.
    pub(crate) soft_reading: Reading,
    /// The costs of looking.
    pub(crate) costs: Costs,
    /// The period of constant polling and of clocked interrupts.
    pub(crate) period: Duration,
    /// The longest time that the watchdog lets a packet wait.
    pub(crate) watchdog: Duration,
    /// The mean time between the watchdog's polls.
    pub(crate) passing: Duration,
    /// The time that a spinning receiver polls after a packet.
    pub(crate) spin: Duration,
    /// Target number of packets in each poll of [`Scheme::DelayBound`].
    pub(crate) quota: u32,
}

impl Settings {
    /// The paper's settings: Table 2, and §5 for the other schemes.
    pub(crate) const PAPER: Settings = Settings {
        hip: HipConfig::preset(Preset::Paper),
        takes_at_end: false,
        room: None,
        soft_shortest: Duration::from_micros(100),
        soft_reading: Reading::Event,
        costs: Costs::HIP,
        period: Duration::from_millis(1),
        watchdog: Duration::from_micros(50),
        passing: Duration::from_micros(50),
        spin: Duration::from_micros(50),
        quota: 1,
    };

    /// Returns whether the parameters of Table 2 have the values of Table 2, so that Table 3 has figures to
    /// compare with. A parameter that the paper leaves open has no value there.
    pub(crate) fn are_of_table_2(&self) -> bool {
        let table_2 = |hip: HipConfig| {
            let HipConfig { shortest, longest, alpha, beta, gamma, phi, unsuccessful, .. } = hip;
            ([shortest, longest], [alpha, beta, gamma, phi], unsuccessful)
        };
        (table_2(self.hip), self.costs, self.room)
            == (table_2(Settings::PAPER.hip), Settings::PAPER.costs, Settings::PAPER.room)
    }

    /// Checks a scheme's settings: if it polls without a pause, a poll must take some time.
    pub(super) fn check(&self, scheme: Scheme) -> Result<(), RunError> {
        let may_not_pause = matches!(scheme, Scheme::BusyWait | Scheme::Spin | Scheme::Other(_));
        if may_not_pause && self.costs.poll.is_zero() {
            let scheme = scheme.name();
            return Err(RunError::new(format_args!(
                "poll 0ns: {scheme} would poll for ever without time passing; above zero is possible"
            )));
        }
        match scheme {
            Scheme::Other(name) => AnyPolicy::new(name, self.of_others()).map(drop).map_err(RunError::new),
            _ => Ok(()),
        }
    }

    fn of_others(&self) -> PolicySettings {
        PolicySettings { quota: Some(self.quota), time: Some(self.hip.longest), when_idle: None }
    }

    /// Receives all of `arrivals` in one way.
    ///
    /// `seed` only determines random trigger states. `watch` sees all events except the empty polls of
    /// [`Scheme::BusyWait`] and [`Scheme::Watchdog`], which are counted but not simulated.
    pub(crate) fn run(
        &self,
        scheme: Scheme,
        arrivals: impl Iterator<Item = Arrival>,
        seed: u64,
        watch: impl FnMut(softtimers_core::Timestamp, ReceiverEvent),
    ) -> ReceiveStats {
        let policy = self.policy(scheme);
        let costs = match scheme {
            Scheme::Clocked => Costs { poll: self.costs.interrupt + self.costs.poll, ..self.costs },
            _ => self.costs,
        };
        let timing = match scheme {
            Scheme::HipSoft => Timing::soft(seed),
            Scheme::BusyWait => Timing::Always,
            Scheme::Watchdog => Timing::passing(self.passing, seed),
            _ => Timing::Clock,
        };
        let receiver = Receiver::new(policy, costs, timing, arrivals);
        receiver.takes_at_end(self.takes_at_end).with_room(self.room).run(watch).0
    }

    fn policy(&self, scheme: Scheme) -> AnyPolicy {
        match scheme {
            Scheme::Interrupts => Interrupts.into(),
            Scheme::Polling => Hip::new(self.hip.polling_only()).into(),
            Scheme::Hip => Hip::new(self.hip).into(),
            Scheme::HipSoft => {
                let shortest = self.soft_shortest.min(self.hip.longest);
                let reading = self.soft_reading;
                Hip::new(HipConfig { shortest, reading, rounding: Rounding::None, ..self.hip }).into()
            }
            Scheme::Constant | Scheme::Clocked => ConstantPeriod::new(self.period).into(),
            Scheme::BusyWait => BusyWait.into(),
            Scheme::Watchdog => Watchdog::new(self.watchdog).into(),
            Scheme::Spin => SpinThenBlock::new(self.spin).into(),
            Scheme::DelayBound => {
                let bound = DelayBoundConfig::preset(Preset::Measured, self.hip.longest);
                DelayBound::new(DelayBoundConfig { quota: self.quota, ..bound }).into()
            }
            Scheme::Other(name) => AnyPolicy::new(name, self.of_others()).expect("it was checked"),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings::PAPER
    }
}
