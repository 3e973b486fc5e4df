//! What `probe` is asked for.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use softtimers_bpf::Source;
use softtimers_measure::units;

use super::StreamArgs;

/// `softtimers probe`.
///
/// Between two trigger states nothing looks at a clock, so this is how late a soft timer in the kernel
/// would be: intervals by the source that ended them, those of idleness apart, and what they would be
/// without each source. BPF programs at the kernel's tracepoints count; they are gone when this process
/// is. Needs CAP_BPF and CAP_PERFMON (root has both), and Linux 5.8 with BTF.
///
/// Of a program built on softtimers the same is known without privilege, from within: see `Intervals` of
/// the library, and `trigger_interval_ns` and `fired` of `softtimers send --json`.
#[derive(Args, Debug, Clone)]
#[command(after_help = PROBE_EXAMPLES)]
pub struct ProbeArgs {
    /// End after this time; without it, when the command ends, or on Ctrl-C
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration)]
    pub duration: Option<Duration>,

    /// Only these processors, separated by commas
    #[arg(long, value_name = "N", value_delimiter = ',', num_args = 1)]
    pub cpu: Option<Vec<u32>>,

    /// Only trigger states of these kinds, separated by commas [default: all]
    ///
    /// Each costs a tenth of a microsecond or so whenever it is passed.
    #[arg(long, value_name = "NAME", value_delimiter = ',', num_args = 1, value_parser = source)]
    pub sources: Option<Vec<Source>>,

    /// Keep this many intervals one by one, of all processors together, at most 64 million
    ///
    /// Medians of windows, and what would be without a source, are those of the first so many.
    #[arg(long, value_name = "N", default_value_t = 2_000_000, value_parser = clap::value_parser!(u32).range(0..=MOST_SAMPLES))]
    pub samples: u32,

    /// How to print.
    #[command(flatten)]
    pub output: StreamArgs,

    /// Measure while this command runs; what it prints goes to stderr
    #[arg(value_name = "CMD", last = true)]
    pub command: Vec<OsString>,
}

const MOST_SAMPLES: i64 = 64_000_000;

fn source(name: &str) -> Result<Source, String> {
    Source::named(name).ok_or_else(|| {
        let names = Source::ALL.map(Source::name).join(", ");
        format!("the sources are {names}")
    })
}

const PROBE_EXAMPLES: &str = "\
Examples:
  softtimers probe --duration 10s
  softtimers probe --sources syscall,soft_interrupt,switch -- make
  softtimers probe --cpu 0 --duration 5s --assert 'cpus.0.over_100us<0.06'

Exit codes:
   0  done; every --assert held
   1  an --assert did not hold, the run broke off, or CMD failed
   2  bad usage or input, or CMD cannot be started
  77  not possible on this machine; the message says what is missing";
