//! Everything that reads what others wrote, as functions of bytes: [`TARGETS`].
//!
//! ```text
//!   properties of load, wan, …,     ──▶ TARGETS ──▶ fuzz/fuzz_targets/NAME.rs   new inputs, under cargo fuzz
//!   the models of core's tests                 └──▶ tests/replay.rs             fuzz/corpus/NAME/*, under cargo test
//! ```
//!
//! The fuzz targets are a workspace of their own, since they need a nightly compiler. What they call stands here, so that
//! an input that was ever found is tried by every `cargo test`. `fuzz/README.md` says which reader is in which target.
#![forbid(unsafe_code)]

pub mod replay;
mod spans;
mod timers;

/// A reader, or several with the same kind of input.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of the fuzz target and of its corpus.
    pub name: &'static str,
    /// Reads an input, and panics if something does not hold that must hold of any.
    pub body: fn(&[u8]),
}

impl Target {
    /// Gives `input` to the reader.
    ///
    /// # Panics
    /// If something does not hold that must hold of any input.
    pub fn run(&self, input: &[u8]) {
        (self.body)(input);
    }
}

/// All of them, by name.
pub const TARGETS: &[Target] = &[
    Target { name: "assert_expr", body: |input| text(input, softtimers_measure::properties::assertion) },
    Target { name: "capi", body: softtimers_capi::sequences::run },
    Target { name: "delivery_trace", body: softtimers_wan::properties::trace },
    Target { name: "ledger", body: softtimers_load::properties::ledger },
    Target { name: "path", body: path },
    Target { name: "spans", body: spans::many },
    Target { name: "timers", body: timers::few },
    Target { name: "trace", body: softtimers_load::properties::recording },
    Target { name: "units", body: |input| text(input, units) },
    Target { name: "wire", body: softtimers_load::properties::wire },
];

/// The targets of the command's own readers, in `properties.rs` of its sources: a program cannot be a dependency, so its unit
/// tests replay these corpora, and `fuzz/` compiles its sources.
pub const OF_THE_COMMAND: [&str; 7] =
    ["captured", "control", "filter_code", "frames", "metrics", "rules", "scenario"];

/// Runs the target of this name.
///
/// # Panics
/// If there is none, or something does not hold that must hold of any input.
pub fn run(name: &str, input: &[u8]) {
    let target = find(name).unwrap_or_else(|| panic!("no target {name}"));
    target.run(input);
}

/// The target of this name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Input that is no text does not reach a reader of text: `str` has refused it.
fn text(input: &[u8], body: fn(&str)) {
    if let Ok(text) = std::str::from_utf8(input) {
        body(text);
    }
}

fn units(text: &str) {
    softtimers_measure::properties::units(text);
    softtimers_load::properties::pattern(text);
}

/// A path that is offered and set anything: it adds up, however often one looks.
fn path(input: &[u8]) {
    let (seed, script) = input.split_first().map_or((0, input), |(seed, script)| (u64::from(*seed), script));
    softtimers_wan::properties::direction(seed, &script[..script.len().min(4_000)]);
}
