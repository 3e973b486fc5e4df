//! [`KeyedPacer`]: a pace for each key.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

use softtimers_core::{PaceConfig, PaceError, RateClock};

use super::SharedPacer;

/// A [`SharedPacer`] for each key, such as a client's address, made when the key is first seen.
///
/// Keys that strangers choose take no memory for good: the pacer of a key that nobody waits with, and that is as a new one
/// would be, is forgotten.
///
/// ```
/// use std::net::IpAddr;
/// use softtimers_tokio::{KeyedPacer, PaceConfig, Rate};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let clients = KeyedPacer::new(PaceConfig::new(Rate::pps(2_000)))?;
/// let client: IpAddr = "192.0.2.1".parse()?;
/// clients.pacer(client).ready().await;
/// assert!(clients.pacer(client).try_ready().is_err()); // one each 500 µs
/// assert!(clients.pacer("192.0.2.2".parse()?).try_ready().is_ok()); // another client has its own
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
///
/// # Cost
/// A lock and a look-up in a hash table; O(1) amortised for what is forgotten.
#[derive(Debug)]
pub struct KeyedPacer<K> {
    config: PaceConfig,
    burst: u32,
    pacers: Mutex<Pacers<K>>,
}

#[derive(Debug)]
struct Pacers<K> {
    by_key: HashMap<K, SharedPacer>,
    /// The number of them at which those that are as new are looked for.
    sweep_at: usize,
}

impl<K: Eq + Hash> KeyedPacer<K> {
    /// Makes one whose keys each have this pace.
    ///
    /// # Errors
    /// As [`RateClock::new`].
    pub fn new(config: PaceConfig) -> Result<Self, PaceError> {
        RateClock::new(config)?;
        let pacers = Pacers { by_key: HashMap::new(), sweep_at: FEWEST_SWEPT };
        Ok(KeyedPacer { config, burst: 1, pacers: Mutex::new(pacers) })
    }

    /// Lets up to `calls` of each key leave at once, as [`SharedPacer::with_burst`].
    #[must_use]
    pub fn with_burst(mut self, calls: u32) -> Self {
        self.burst = calls;
        self
    }

    /// Returns the pacer of this key.
    pub fn pacer(&self, key: K) -> SharedPacer {
        let mut pacers = self.pacers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pacer) = pacers.by_key.get(&key) {
            return pacer.clone();
        }
        if pacers.by_key.len() >= pacers.sweep_at {
            pacers.by_key.retain(|_, pacer| !pacer.is_as_new());
            pacers.sweep_at = FEWEST_SWEPT.max(pacers.by_key.len() * 2);
        }
        let pacer = SharedPacer::new(self.config).expect("this pace was valid when it was set");
        let pacer = pacer.with_burst(self.burst);
        pacers.by_key.insert(key, pacer.clone());
        pacer
    }

    /// Returns the number of keys whose pacers are kept.
    pub fn len(&self) -> usize {
        self.pacers.lock().unwrap_or_else(PoisonError::into_inner).by_key.len()
    }

    /// Returns whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Below this many nothing is looked for.
const FEWEST_SWEPT: usize = 64;
