//! Cache misses while `probe` measures: [`Caches`].

use softtimers_linux::misses::{Cache, MissCounter};

use super::show::MissReport;

/// The counters of the measured CPUs, in their order.
#[derive(Debug)]
pub(super) struct Caches(Vec<[Result<MissCounter, String>; 3]>);

impl Caches {
    /// Starts counting on the CPUs that support it.
    pub(super) fn count_on(processors: impl Iterator<Item = u32>) -> Self {
        let counter =
            |cpu| Cache::ALL.map(|cache| MissCounter::open(cpu, cache).map_err(|why| why.to_string()));
        Caches(processors.map(counter).collect())
    }

    /// Returns the misses of each CPU.
    pub(super) fn counted(&self) -> Vec<MissReport> {
        let one = |counters: &[Result<MissCounter, String>; 3]| {
            let counts = counters.each_ref().map(|counter| match counter {
                Ok(counter) => counter.count().map_err(|error| error.to_string()),
                Err(why) => Err(why.clone()),
            });
            let unknown = counts.iter().find_map(|count| count.as_ref().err().cloned());
            let [l1d, l1i, itlb] = counts.map(Result::ok);
            MissReport { l1d, l1i, itlb, unknown }
        };
        self.0.iter().map(one).collect()
    }
}
