//! How long `wan` takes to start a command and to end after it: until `true` has run.
//!
//! ```text
//!   wan -- true                      namespaces, the path, a gateway to the outside
//!   wan --peer SERVER -- true        two networks; the command waits until the server listens
//! ```

use std::env;
use std::time::Instant;

use anyhow::{Result, ensure};
use softtimers_trials::bar::Bar;
use softtimers_trials::command::Program;
use softtimers_trials::paired::Paired;
use softtimers_trials::result::Table;

use super::Effort;
use crate::bench::Done;

const TOOK: &str = "from start to end ms";
const WITHOUT_PEER: &str = "wan -- true";
const WITH_PEER: &str = "wan --peer SERVER -- true";

/// Measures many starts, one after the other.
pub(super) fn wan_start(effort: &Effort) -> Done<Vec<Table>> {
    let program = Program::build()?;
    let server = format!("exec {} traffic serve 0.0.0.0:7000", env::current_exe()?.display());
    let mut contenders: [(&str, &[&str]); 2] = [(WITHOUT_PEER, &[]), (WITH_PEER, &["--peer", &server])];
    let measured = Paired::new(effort.of(25, 1)).as_a_whole().contest(
        &[()],
        &mut contenders,
        |(), (name, words), round| {
            round.put(name, TOOK, took(&program, words)?);
            anyhow::Ok(())
        },
    )?;
    let mut table = Table::of("wan-start", &measured, [WITHOUT_PEER, WITH_PEER], &[(TOOK, 1)]);
    table.bar(Bar::at_most(format!("{WITHOUT_PEER}: {TOOK}"), 50.0, measured.estimate(WITHOUT_PEER, TOOK)));
    Ok(vec![table])
}

/// Returns the milliseconds from the start of `wan` with these words to its end.
#[expect(clippy::disallowed_methods, reason = "a start is measured from outside")]
fn took(program: &Program, words: &[&str]) -> Result<f64> {
    let mut command = program.command(&["wan"]);
    command.args(words).args(["--", "true"]);
    let begin = Instant::now();
    let output = command.output()?;
    let took = begin.elapsed().as_secs_f64() * 1e3;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(took)
}
