//! The schemes and packets for which each parameter has an effect.

use softtimers_poll::readings::{Reading, Rounding};

use super::parameters::CostsOf;
use super::scheme::{Scheme, Schemes};
use super::source::{Arriving, Synthetic};
use crate::{Need, Parameters};

pub(super) const BY_PERIODS: Need = Need {
    with: "scheme table-3, all, polling, hip or hip-soft",
    met: |parameters| is_scheme(parameters, &[Scheme::Polling, Scheme::Hip, Scheme::HipSoft]),
};
pub(super) const ON_TICKS: Need = Need {
    with: "scheme table-3, all, polling or hip",
    met: |parameters| is_scheme(parameters, &[Scheme::Polling, Scheme::Hip]),
};
pub(super) const LONGEST_PERIOD: Need = Need {
    with: "scheme table-3, all, polling, hip, hip-soft, delay-bound or another policy of the library",
    met: |parameters| {
        is_scheme(parameters, &[Scheme::Polling, Scheme::Hip, Scheme::HipSoft, Scheme::DelayBound])
            || is_other(parameters)
    },
};
pub(super) const POLLING: Need = Need {
    with: "scheme table-3, all or polling",
    met: |parameters| is_scheme(parameters, &[Scheme::Polling]),
};
pub(super) const LATE: Need = Need {
    with: "HIP's periods in the event reading",
    met: |parameters| {
        let moved = |name: &str, schemes: &[Scheme]| {
            parameters.choice::<Reading>(name) == Reading::Event && is_scheme(parameters, schemes)
        };
        moved("reading", &[Scheme::Polling, Scheme::Hip]) || moved("soft-reading", &[Scheme::HipSoft])
    },
};
pub(super) const UNROUNDED: Need = Need {
    with: "rounding none",
    met: |parameters| {
        (ON_TICKS.met)(parameters)
            && parameters.choice::<Option<Rounding>>("rounding") == Some(Rounding::None)
    },
};
pub(super) const HYBRID: Need = Need {
    with: "scheme table-3, all, hip or hip-soft",
    met: |parameters| is_scheme(parameters, &[Scheme::Hip, Scheme::HipSoft]),
};
pub(super) const HIP_SOFT: Need =
    Need { with: "scheme hip-soft or all", met: |parameters| is_scheme(parameters, &[Scheme::HipSoft]) };
pub(super) const PERIODIC: Need = Need {
    with: "scheme constant, clocked or all",
    met: |parameters| is_scheme(parameters, &[Scheme::Constant, Scheme::Clocked]),
};
pub(super) const WATCHDOG: Need =
    Need { with: "scheme watchdog or all", met: |parameters| is_scheme(parameters, &[Scheme::Watchdog]) };
pub(super) const SPIN: Need =
    Need { with: "scheme spin or all", met: |parameters| is_scheme(parameters, &[Scheme::Spin]) };
pub(super) const QUOTA: Need = Need {
    with: "scheme delay-bound, all or another policy of the library",
    met: |parameters| is_scheme(parameters, &[Scheme::DelayBound]) || is_other(parameters),
};
pub(super) const TABLE_2: Need = Need {
    with: "costs table-2",
    met: |parameters| parameters.choice::<CostsOf>("costs") == CostsOf::Table2,
};
pub(super) const SYNTHETIC: Need = Need { with: "no trace", met: is_synthetic };
pub(super) const PAPERS_TRACES: Need = Need {
    with: "the paper's traces",
    met: |parameters| is_synthetic(parameters) && arriving(parameters).is_none(),
};
pub(super) const PATTERN: Need = Need {
    with: "synthetic constant, poisson, on-off or self-similar",
    met: |parameters| is_synthetic(parameters) && arriving(parameters).is_some(),
};
pub(super) const ON_OFF: Need = Need {
    with: "synthetic on-off",
    met: |parameters| is_synthetic(parameters) && arriving(parameters) == Some(Arriving::OnOff),
};
pub(super) const SELF_SIMILAR: Need = Need {
    with: "synthetic self-similar",
    met: |parameters| is_synthetic(parameters) && arriving(parameters) == Some(Arriving::SelfSimilar),
};

/// One of these is among the schemes that are compared.
fn is_scheme(parameters: &Parameters, schemes: &[Scheme]) -> bool {
    parameters.choice::<Schemes>("scheme").all().iter().any(|scheme| schemes.contains(scheme))
}

/// A policy of the library that is not one of HIP's baselines.
fn is_other(parameters: &Parameters) -> bool {
    matches!(parameters.choice("scheme"), Schemes::One(Scheme::Other(_)))
}

fn is_synthetic(parameters: &Parameters) -> bool {
    parameters.trace("trace").is_none()
}

fn arriving(parameters: &Parameters) -> Option<Arriving> {
    match parameters.choice("synthetic") {
        Synthetic::Arriving(by) => Some(by),
        Synthetic::Table1 | Synthetic::Paper(_) => None,
    }
}
