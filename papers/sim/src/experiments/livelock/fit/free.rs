//! The free constants of the router: [`FREE`]. No text gives them, so they are fitted to the published
//! points.

use std::time::Duration;

use super::least_squares::Variable;
use crate::constants::Livelock;
use crate::experiments::livelock::config::{Config, Consumer, Kernel};

/// A constant that is fitted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Free {
    /// Its name in the list of constants.
    pub(super) name: &'static str,
    /// The start of the search: a plausible value chosen without the figures.
    pub(super) variable: Variable,
    pub(super) get: fn(&Livelock) -> f64,
    pub(super) set: fn(&mut Livelock, f64),
    /// Returns whether it affects a run.
    pub(super) moves: fn(&Config) -> bool,
}

const fn variable(begin: f64, least: f64, most: f64, step: f64) -> Variable {
    Variable { begin, least, most, step }
}

/// Half of a traced time is instrumentation; the unmodified kernel is the modified one; nothing is cold.
pub(super) const FREE: &[Free] = &[
    Free {
        name: "trace",
        variable: variable(600.0, 200.0, 1_000.0, 15.0),
        get: |router| router.trace as f64,
        set: |router, to| router.trace = to.round() as u64,
        moves: |_| true,
    },
    Free {
        name: "handlers",
        variable: variable(600.0, 100.0, 1_000.0, 20.0),
        get: |router| router.handlers as f64,
        set: |router, to| router.handlers = to.round() as u64,
        moves: |config| !config.kernel.polls(),
    },
    Free {
        name: "unmodified",
        variable: variable(100.0, 40.0, 160.0, 4.0),
        get: |router| router.unmodified.into(),
        set: |router, to| router.unmodified = to.round() as u32,
        moves: |config| config.kernel == Kernel::Unmodified,
    },
    Free {
        name: "unmodified_handlers",
        variable: variable(100.0, 40.0, 200.0, 4.0),
        get: |router| router.unmodified_handlers.into(),
        set: |router, to| router.unmodified_handlers = to.round() as u32,
        moves: |config| config.kernel == Kernel::Unmodified,
    },
    Free {
        name: "user",
        variable: variable(3.0, 0.0, 100.0, 2.0),
        get: |router| micros(router.user),
        set: |router, to| router.user = of_micros(to),
        moves: |config| config.user || config.consumer == Consumer::Screend,
    },
    Free {
        name: "queue",
        variable: variable(25.0, 0.0, 200.0, 3.0),
        get: |router| micros(router.queue),
        set: |router, to| router.queue = of_micros(to),
        moves: |config| config.consumer == Consumer::Screend,
    },
    Free {
        name: "screend",
        variable: variable(25.0, 0.0, 300.0, 3.0),
        get: |router| micros(router.screend),
        set: |router, to| router.screend = of_micros(to),
        moves: |config| config.consumer == Consumer::Screend,
    },
    Free {
        name: "cooling",
        variable: variable(250.0, 0.0, 2_000.0, 40.0),
        get: |router| router.cooling as f64,
        set: |router, to| router.cooling = to.round() as u64,
        moves: |config| config.consumer == Consumer::Screend,
    },
    Free {
        name: "cold",
        variable: variable(150.0, 0.0, 500.0, 8.0),
        get: |router| micros(router.cold),
        set: |router, to| router.cold = of_micros(to),
        moves: |config| config.consumer == Consumer::Screend,
    },
];

fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

/// To a tenth of a microsecond.
fn of_micros(micros: f64) -> Duration {
    Duration::from_nanos((micros * 10.0).round() as u64 * 100)
}

/// The router with these values of the free constants.
pub(super) fn router(of: &Livelock, values: &[f64]) -> Livelock {
    let mut router = *of;
    for (free, value) in FREE.iter().zip(values) {
        (free.set)(&mut router, *value);
    }
    router
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constants::{LIST, Machine, Origin};

    #[test]
    fn each_is_in_the_list_as_fitted_and_within_its_bounds() {
        for Free { name, variable, get, set, .. } in FREE {
            let constant =
                LIST.iter().find(|one| one.section == "livelock" && one.name == *name).expect(name);
            assert!(matches!(constant.origin, Origin::Fitted(..)), "{name}");
            let mut router = Machine::PAPERS.livelock;
            let value = get(&router);
            assert!((variable.least..=variable.most).contains(&value), "{name} {value}");
            set(&mut router, value);
            assert_eq!(router, Machine::PAPERS.livelock, "{name}: what is kept can be set");
        }
    }
}
