//! The livelock paper's results, its tables as this model reproduces them, and the behaviour of the kernels.

mod kept;
mod kernels;
mod paper;

use std::time::Duration;

use softtimers_core::{Percent, Timestamp};
use softtimers_poll::{CpuLimitConfig, FeedbackConfig, Preset, Quota};

use super::closed::Closed;
use super::config::{Config, Consumer, Kernel, TransmitPriority};
use super::figures::{points, series};
use super::router::{Router, RouterStats};
use crate::{Parameters, Setting, Steps, Streams, Value, experiments};

const SHORT: Duration = Duration::from_millis(200);

fn run(config: Config) -> RouterStats {
    Router::new(Config { duration: SHORT, ..config }, Streams::new(1)).run()
}

fn output(config: Config) -> f64 {
    let found = run(config);
    found.rate(found.delivered)
}

fn kernel(kernel: Kernel, rate: u64) -> Config {
    Config::new(kernel, rate)
}

fn polled(quota: u32, rate: u64) -> Config {
    Config { quota: Quota::new(quota, quota), ..kernel(Kernel::Polled, rate) }
}

fn screend(config: Config) -> Config {
    Config { consumer: Consumer::Screend, ..config }
}

fn with_feedback(config: Config) -> Config {
    Config { feedback: FeedbackConfig::preset(Preset::Paper, 32).ok(), ..screend(config) }
}

fn limited(percent: u32, rate: u64) -> Config {
    let share = Percent::new(percent).unwrap();
    Config { user: true, limit: Some(CpuLimitConfig::preset(Preset::Paper, share)), ..polled(5, rate) }
}

fn number(value: &Value) -> f64 {
    match value {
        Value::Count(count) => *count as f64,
        Value::Real(number) => *number,
        _ => f64::NAN,
    }
}
