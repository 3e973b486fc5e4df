//! The state that all connections of a runtime share: [`Shared`].

use std::sync::atomic::{AtomicBool, Ordering};

use crate::counters::{Counters, Totals};
use crate::gate::GateConfig;

/// The state that all connections of a runtime share.
#[derive(Debug)]
pub(crate) struct Shared {
    config: GateConfig,
    enabled: AtomicBool,
    totals: Totals,
}

impl Shared {
    pub(crate) fn new(config: GateConfig) -> Self {
        Shared { config, enabled: AtomicBool::new(config.enabled), totals: Totals::default() }
    }

    pub(crate) fn config(&self) -> GateConfig {
        self.config
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled.load(Ordering::Relaxed)
    }

    pub(crate) fn set_enabled(&self, enabled: bool) {
        self.enabled.store(enabled, Ordering::Relaxed);
    }

    pub(crate) fn counters(&self) -> Counters {
        self.totals.read()
    }

    pub(crate) fn add(&self, counters: Counters) {
        if counters != Counters::default() {
            self.totals.add(counters);
        }
    }
}

impl Default for Shared {
    fn default() -> Self {
        Shared::new(GateConfig::default())
    }
}
