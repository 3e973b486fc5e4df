//! Which schemes and packets use which parameters.

use super::traces;
use crate::experiment::Need;
use crate::parameter::Parameters;

pub(super) const HIP: &[Need] = &[
    Need {
        of: &["alpha", "beta", "phi", "reading", "grid", "mean", "deviation", "first-mean"],
        with: "scheme table-3, all, polling, hip or hip-soft",
        met: |parameters| is_scheme(parameters, &["table-3", "polling", "hip", "hip-soft"]),
    },
    Need {
        of: &["t-min", "rounding"],
        with: "scheme table-3, all, polling or hip",
        met: |parameters| is_scheme(parameters, &["table-3", "polling", "hip"]),
    },
    Need {
        of: &["t-max"],
        with: "scheme table-3, all, polling, hip, hip-soft or delay-bound",
        met: |parameters| is_scheme(parameters, &["table-3", "polling", "hip", "hip-soft", "delay-bound"]),
    },
    Need {
        of: &["gamma", "unsuccessful", "decides", "idle-gap"],
        with: "scheme table-3, all, hip or hip-soft",
        met: |parameters| is_scheme(parameters, &["table-3", "hip", "hip-soft"]),
    },
    Need {
        of: &["soft-t-min", "soft-reading"],
        with: "scheme hip-soft or all",
        met: |parameters| is_scheme(parameters, &["hip-soft"]),
    },
    Need {
        of: &["period"],
        with: "scheme constant, clocked or all",
        met: |parameters| is_scheme(parameters, &["constant", "clocked"]),
    },
    Need {
        of: &["watchdog", "passing"],
        with: "scheme watchdog or all",
        met: |parameters| is_scheme(parameters, &["watchdog"]),
    },
    Need { of: &["spin"], with: "scheme spin or all", met: |parameters| is_scheme(parameters, &["spin"]) },
    Need {
        of: &["quota"],
        with: "scheme delay-bound or all",
        met: |parameters| is_scheme(parameters, &["delay-bound"]),
    },
    Need {
        of: &["interrupt", "poll", "transfer", "switch"],
        with: "costs table-2",
        met: |parameters| parameters.choice("costs") == "table-2",
    },
    Need { of: &["synthetic"], with: "no trace", met: is_synthetic },
    Need {
        of: &["fitted"],
        with: "the paper's traces",
        met: |parameters| is_synthetic(parameters) && !is_pattern(parameters),
    },
    Need {
        of: &["packets", "mean-gap", "bytes"],
        with: "synthetic constant, poisson, on-off or self-similar",
        met: |parameters| is_synthetic(parameters) && is_pattern(parameters),
    },
    Need {
        of: &["on"],
        with: "synthetic on-off",
        met: |parameters| is_synthetic(parameters) && parameters.choice("synthetic") == "on-off",
    },
    Need {
        of: &["pareto"],
        with: "synthetic self-similar",
        met: |parameters| is_synthetic(parameters) && parameters.choice("synthetic") == "self-similar",
    },
];

/// One of these, or all.
fn is_scheme(parameters: &Parameters, schemes: &[&str]) -> bool {
    let scheme = parameters.choice("scheme");
    scheme == "all" || schemes.contains(&scheme)
}

fn is_synthetic(parameters: &Parameters) -> bool {
    parameters.trace("trace").is_none()
}

fn is_pattern(parameters: &Parameters) -> bool {
    let name = parameters.choice("synthetic");
    name != "table-1" && traces::find(name).is_none()
}
