//! What `probe-feature` is asked for.

use clap::Args;
use softtimers_net::kernel::Feature;

/// `softtimers probe-feature`.
#[derive(Args, Debug, Clone)]
pub struct ProbeFeatureArgs {
    /// The feature, by its name in `doctor`'s report
    #[arg(value_name = "NAME", value_parser = feature)]
    pub feature: Feature,
}

fn feature(name: &str) -> Result<Feature, String> {
    Feature::named(name).ok_or_else(|| {
        let names = Feature::ALL.map(Feature::name).join(", ");
        format!("the features are {names}")
    })
}
