//! Errors as sentences: the attempt, and why it failed.

use std::io;

use rustix::io::Errno;
#[cfg(feature = "xdp")]
use softtimers_linux::optional::is_killed;

/// Adds the attempted operation to an error.
pub(crate) trait Trying<T> {
    /// `{what}: {error}`.
    fn trying(self, what: &str) -> Result<T, String>;

    /// `{what}: {error}`, and for a refusal the capability it takes.
    fn needing(self, capability: &str, what: &str) -> Result<T, String>;
}

impl<T, E: Into<io::Error>> Trying<T> for Result<T, E> {
    fn trying(self, what: &str) -> Result<T, String> {
        self.map_err(|error| format!("{what}: {}", in_words(&error.into())))
    }

    fn needing(self, capability: &str, what: &str) -> Result<T, String> {
        self.map_err(|error| {
            let error = error.into();
            let refused = matches!(Errno::from_io_error(&error), Some(Errno::PERM | Errno::ACCESS));
            let needs = if refused { format!(", needs {capability}") } else { String::new() };
            format!("{what}: {}{needs}", in_words(&error))
        })
    }
}

/// Returns an error that names the attempt, and for a refusal the required capability.
#[cfg(feature = "xdp")]
pub(crate) fn named(error: io::Error, what: &dyn std::fmt::Display, needs: &str) -> io::Error {
    let message = match error.kind() {
        _ if Errno::from_io_error(&error) == Some(Errno::NOBUFS) => format!("{what}: {error}, needs {needs}"),
        io::ErrorKind::PermissionDenied if !is_killed(&error) => format!("{what}: {error}, needs {needs}"),
        io::ErrorKind::ResourceBusy => format!("{what}: {error}; another program has it"),
        _ => format!("{what}: {error}"),
    };
    io::Error::new(error.kind(), message)
}

/// Returns the system's text without the number after it.
fn in_words(error: &io::Error) -> String {
    let words = error.to_string();
    words.split(" (os error").next().unwrap_or_default().to_lowercase()
}
