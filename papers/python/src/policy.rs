//! [`receive`]: a receive policy on HIP's simulated machine, by name or as a Python object.
//!
//! The machine calls the policy like one in Rust. A Python object needs one method, `looked`; `arrived`,
//! `idle` and `next` are called if it has them. After an exception the machine takes each packet by an
//! interrupt, without calling Python, to the end of the packets; then the exception is raised.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use pyo3::prelude::*;
use softtimers::Timestamp;
use softtimers_measure::units;
use softtimers_poll::readings::Costs;
use softtimers_poll::{AnyPolicy, Look, Next, Policy, PolicySettings, WhenIdle};
use softtimers_sim::Received;

use crate::plan::wrong;
use crate::setting;

/// Packets, CPU time for each and mean delay in microseconds, the longest delay in nanoseconds, interrupts,
/// polls, empty polls, changes between the two.
type Found = (u64, f64, f64, u64, u64, u64, u64, u64);

/// A policy's name with its settings, or an object that is one.
#[derive(FromPyObject)]
pub(crate) enum Who<'py> {
    Named(String),
    Object(Bound<'py, PyAny>),
}

/// The machine: by name, or an interrupt, a poll, a packet's transfer and a switch between them, in nanoseconds.
#[derive(FromPyObject)]
pub(crate) enum Machine {
    Named(String),
    Costs([u64; 4]),
}

/// Receives ``packets``, each a time in whole nanoseconds and a length in bytes, under a policy.
#[pyfunction]
pub(crate) fn receive(
    py: Python<'_>,
    policy: Who<'_>,
    packets: &Bound<'_, PyAny>,
    machine: Machine,
) -> PyResult<Found> {
    let costs = costs(machine)?;
    let packets = setting::packets(packets)?;
    let received = match policy {
        Who::Named(name) => {
            let policy = named(&name).map_err(|why| wrong(format!("policy '{name}': {why}")))?;
            py.detach(|| softtimers_sim::receive(policy, costs, &packets))
        }
        Who::Object(object) => {
            let asked = Asked::new(&object)?;
            let received = softtimers_sim::receive(&asked, costs, &packets);
            if let Some(error) = asked.failed.take() {
                return Err(error);
            }
            received
        }
    };
    let Received { packets, overhead_us, delay_us, longest_delay, interrupts, polls, unsuccessful, switches } =
        received;
    let longest = u64::try_from(longest_delay.as_nanos()).unwrap_or(u64::MAX);
    Ok((packets, overhead_us, delay_us, longest, interrupts, polls, unsuccessful, switches))
}

/// Reads a name and its settings, as `delay-bound:time=500us,quota=5,idle=poll`.
fn named(text: &str) -> Result<AnyPolicy, String> {
    let (name, given) = text.split_once(':').map_or((text, None), |(name, given)| (name, Some(given)));
    let mut settings = PolicySettings::default();
    for setting in given.into_iter().flat_map(|given| given.split(',')) {
        let (setting, value) = setting.split_once('=').unwrap_or((setting, ""));
        let is_read = match setting {
            "quota" => value.parse().is_ok_and(|quota| settings.quota.replace(quota).is_none()),
            "time" => units::duration(value).is_ok_and(|time| settings.time.replace(time).is_none()),
            "idle" => match value {
                "wake-up" => settings.when_idle.replace(WhenIdle::WakeUp).is_none(),
                "poll" => settings.when_idle.replace(WhenIdle::KeepPolling).is_none(),
                _ => false,
            },
            _ => false,
        };
        if !is_read {
            return Err(
                "settings, each once: quota=PACKETS, time=TIME (200us), idle=wake-up or idle=poll".into()
            );
        }
    }
    let policy = AnyPolicy::new(name, settings).map_err(|error| error.to_string())?;
    let used = policy.settings();
    let is_unused = (settings.quota.is_some() && used.quota.is_none())
        || (settings.time.is_some() && used.time.is_none())
        || (settings.when_idle.is_some() && used.when_idle.is_none());
    if is_unused { Err(format!("{name} does not have all of these settings")) } else { Ok(policy) }
}

fn costs(machine: Machine) -> PyResult<Costs> {
    match machine {
        Machine::Named(name) if name == "hip" => Ok(Costs::HIP),
        Machine::Named(name) if name == "cm5" => Ok(Costs::CM5),
        Machine::Named(name) => Err(wrong(format!("machine '{name}': hip, cm5, or four costs"))),
        Machine::Costs([_, 0, ..]) => Err(wrong("a poll costs at least a nanosecond, so that time passes")),
        Machine::Costs(costs) => {
            let [interrupt, poll, transfer, switch] = costs.map(Duration::from_nanos);
            Ok(Costs { interrupt, poll, transfer, switch })
        }
    }
}

/// A Python object that is a policy.
struct Asked<'a, 'py> {
    object: &'a Bound<'py, PyAny>,
    /// Whether it has these methods.
    arrived: bool,
    idle: bool,
    next: bool,
    last: Cell<Next>,
    failed: RefCell<Option<PyErr>>,
}

impl<'a, 'py> Asked<'a, 'py> {
    fn new(object: &'a Bound<'py, PyAny>) -> PyResult<Self> {
        object.getattr("looked")?;
        let [arrived, idle, next] = ["arrived", "idle", "next"].map(|name| object.hasattr(name));
        let (arrived, idle, next) = (arrived?, idle?, next?);
        let (last, failed) = (Cell::new(Next::Armed), RefCell::new(None));
        Ok(Asked { object, arrived, idle, next, last, failed })
    }

    /// Returns its decision, or the last one if it returns none.
    fn decide(&self, ask: impl FnOnce(&Bound<'py, PyAny>) -> PyResult<Next>) -> Next {
        if self.failed.borrow().is_none() {
            match ask(self.object) {
                Ok(next) => self.last.set(next),
                Err(error) => {
                    self.last.set(Next::Armed);
                    self.failed.replace(Some(error));
                }
            }
        }
        self.last.get()
    }
}

impl Policy for &Asked<'_, '_> {
    fn arrived(&mut self, at: Timestamp) {
        if self.arrived {
            let last = self.last.get();
            self.decide(|object| object.call_method1("arrived", (at.as_nanos(),)).map(|_| last));
        }
    }

    fn looked(&mut self, look: &Look) -> Next {
        let Look { began, ended, found } = *look;
        let arguments = (began.as_nanos(), ended.as_nanos(), found);
        self.decide(|object| answer(&object.call_method1("looked", arguments)?))
    }

    fn idle(&mut self, now: Timestamp) -> Next {
        if self.idle {
            self.decide(|object| answer(&object.call_method1("idle", (now.as_nanos(),))?))
        } else {
            self.next()
        }
    }

    fn next(&self) -> Next {
        if self.next { self.decide(|object| answer(&object.call_method0("next")?)) } else { self.last.get() }
    }
}

/// `None`: by the next interrupt; or the time of a poll in nanoseconds.
fn answer(given: &Bound<'_, PyAny>) -> PyResult<Next> {
    if given.is_none() {
        Ok(Next::Armed)
    } else {
        match given.extract::<u64>()? {
            NOW => Ok(Next::Now),
            time => Ok(Next::At(Timestamp::from_nanos(time.min(NEVER)))),
        }
    }
}

const NOW: u64 = 0;
/// 292 years, so that additions to it do not overflow.
const NEVER: u64 = i64::MAX as u64;
