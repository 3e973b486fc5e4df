//! The plan of `wan` with several proxies: [`ProxiesPlan`].

use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use softtimers_measure::failure::Failure;
use softtimers_wan::{PathConfig, Way};

use super::super::args::WanArgs;
use super::super::plan::{overhead_given, path_without_ends};
use super::fields::ProxyFields;
use super::registry::Defaults;
use crate::address;
use crate::args::any_seed;
use crate::file;
use crate::run::output::Output;

/// A run with several proxies.
#[derive(Debug)]
pub(crate) struct ProxiesPlan {
    /// The address of the API.
    pub(crate) api: Option<SocketAddr>,
    /// The initial proxies.
    pub(crate) proxies: Vec<ProxyFields>,
    /// Whether to take interfaces that this machine uses itself.
    pub(crate) take: bool,
    /// The settings of all proxies.
    pub(crate) defaults: Defaults,
    /// The socket for changes.
    pub(crate) control: Option<PathBuf>,
    /// The longest time that the run lasts.
    pub(crate) duration: Option<Duration>,
    /// Whether a run whose own emulation was too late fails.
    pub(crate) strict: bool,
    pub(crate) output: Output,
}

impl ProxiesPlan {
    /// Interprets the arguments.
    ///
    /// # Errors
    /// A usage failure that names the value and what is allowed.
    pub(crate) fn new(args: &WanArgs) -> Result<Self, Failure> {
        let api = args.several.api.as_deref().map(loopback).transpose()?;
        let proxies = args.several.proxies.as_deref().map(read).transpose()?.unwrap_or_default();
        let [up, down] = [Way::Up, Way::Down].map(|way| path_without_ends(args, way));
        let paths: [PathConfig; 2] = [up?, down?];
        Ok(ProxiesPlan {
            api,
            proxies,
            take: args.take,
            control: args.control.clone(),
            defaults: Defaults {
                paths,
                overheads: [Way::Up, Way::Down].map(|way| overhead_given(args, way)),
                public: args.public,
                coalesce: args.coalesce,
                clients: args.clients.clone(),
                seed: args.seed.unwrap_or_else(any_seed),
            },
            duration: args.duration,
            strict: args.strict,
            output: Output::from(&args.output),
        })
    }
}

fn loopback(text: &str) -> Result<SocketAddr, Failure> {
    let address = address::resolve(text).map_err(|refused| refused.about("--api"))?;
    if address::is_local(address) {
        Ok(address)
    } else {
        Err(Failure::usage(format_args!(
            "--api {address}: who reaches it can make proxies, so only addresses of the loopback interface are allowed"
        )))
    }
}

fn read(path: &Path) -> Result<Vec<ProxyFields>, Failure> {
    let refused = |problem: String| Failure::usage(format_args!("--proxies {}: {problem}", path.display()));
    let mut text = Vec::new();
    let file = file::open(path).map_err(|error| refused(error.to_string()))?;
    file.take(MOST_OF_A_FILE + 1).read_to_end(&mut text).map_err(|error| refused(error.to_string()))?;
    if text.len() as u64 > MOST_OF_A_FILE {
        return Err(refused(format!("longer than {MOST_OF_A_FILE} bytes")));
    }
    // The message may quote the file.
    let all: Vec<ProxyFields> =
        serde_json::from_slice(&text).map_err(|error| refused(file::quoted(error).to_string()))?;
    Ok(all.into_iter().map(ProxyFields::look_up).collect())
}

/// Enough for thousands of proxies.
const MOST_OF_A_FILE: u64 = 1 << 20;
