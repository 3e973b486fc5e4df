//! The schemes and packets for which each parameter has an effect.

use super::scheme::Scheme;
use super::traces;
use crate::{Need, Parameters};

pub(super) const BY_PERIODS: Need = Need {
    with: "scheme table-3, all, polling, hip or hip-soft",
    met: |parameters| is_scheme(parameters, &["table-3", "polling", "hip", "hip-soft"]),
};
pub(super) const ON_TICKS: Need = Need {
    with: "scheme table-3, all, polling or hip",
    met: |parameters| is_scheme(parameters, &["table-3", "polling", "hip"]),
};
pub(super) const LONGEST: Need = Need {
    with: "scheme table-3, all, polling, hip, hip-soft, delay-bound or another policy of the library",
    met: |parameters| {
        is_scheme(parameters, &["table-3", "polling", "hip", "hip-soft", "delay-bound"])
            || is_other(parameters)
    },
};
pub(super) const POLLING: Need = Need {
    with: "scheme table-3, all or polling",
    met: |parameters| is_scheme(parameters, &["table-3", "polling"]),
};
pub(super) const LATE: Need = Need {
    with: "HIP's periods in the event reading",
    met: |parameters| {
        let moved = |name: &str, schemes: &[&str]| {
            parameters.choice(name) == "event" && is_scheme(parameters, schemes)
        };
        moved("reading", &["table-3", "polling", "hip"]) || moved("soft-reading", &["hip-soft"])
    },
};
pub(super) const UNROUNDED: Need = Need {
    with: "rounding none",
    met: |parameters| (ON_TICKS.met)(parameters) && parameters.choice("rounding") == "none",
};
pub(super) const HYBRID: Need = Need {
    with: "scheme table-3, all, hip or hip-soft",
    met: |parameters| is_scheme(parameters, &["table-3", "hip", "hip-soft"]),
};
pub(super) const HIP_SOFT: Need =
    Need { with: "scheme hip-soft or all", met: |parameters| is_scheme(parameters, &["hip-soft"]) };
pub(super) const PERIODIC: Need = Need {
    with: "scheme constant, clocked or all",
    met: |parameters| is_scheme(parameters, &["constant", "clocked"]),
};
pub(super) const WATCHDOG: Need =
    Need { with: "scheme watchdog or all", met: |parameters| is_scheme(parameters, &["watchdog"]) };
pub(super) const SPIN: Need =
    Need { with: "scheme spin or all", met: |parameters| is_scheme(parameters, &["spin"]) };
pub(super) const QUOTA: Need = Need {
    with: "scheme delay-bound, all or another policy of the library",
    met: |parameters| is_scheme(parameters, &["delay-bound"]) || is_other(parameters),
};
pub(super) const TABLE_2: Need =
    Need { with: "costs table-2", met: |parameters| parameters.choice("costs") == "table-2" };
pub(super) const SYNTHETIC: Need = Need { with: "no trace", met: is_synthetic };
pub(super) const PAPERS_TRACES: Need = Need {
    with: "the paper's traces",
    met: |parameters| is_synthetic(parameters) && !is_pattern(parameters),
};
pub(super) const PATTERN: Need = Need {
    with: "synthetic constant, poisson, on-off or self-similar",
    met: |parameters| is_synthetic(parameters) && is_pattern(parameters),
};
pub(super) const ON_OFF: Need = Need {
    with: "synthetic on-off",
    met: |parameters| is_synthetic(parameters) && parameters.choice("synthetic") == "on-off",
};
pub(super) const SELF_SIMILAR: Need = Need {
    with: "synthetic self-similar",
    met: |parameters| is_synthetic(parameters) && parameters.choice("synthetic") == "self-similar",
};

/// One of these, or all.
fn is_scheme(parameters: &Parameters, schemes: &[&str]) -> bool {
    let scheme = parameters.choice("scheme");
    scheme == "all" || schemes.contains(&scheme)
}

/// A policy of the library that is not one of HIP's baselines.
fn is_other(parameters: &Parameters) -> bool {
    matches!(Scheme::of_word(parameters.choice("scheme"))[..], [Scheme::Other(_)])
}

fn is_synthetic(parameters: &Parameters) -> bool {
    parameters.trace("trace").is_none()
}

fn is_pattern(parameters: &Parameters) -> bool {
    let name = parameters.choice("synthetic");
    name != "table-1" && traces::find(name).is_none()
}
