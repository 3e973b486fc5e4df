//! Reports a test that cannot run on this machine. The unit tests have this as a module, and the other tests
//! of this crate include it by its path.

use std::fmt::Display;
use std::io::Write;

/// Prints why this test could not run, past the harness's capture, so that it is counted. Call it on the
/// test's thread, whose name it prints.
pub(crate) fn skipped(reason: &dyn Display) {
    let line = format!("skipped: {}: {reason}\n", std::thread::current().name().unwrap_or("?"));
    let _ = std::io::stderr().write_all(line.as_bytes());
}
