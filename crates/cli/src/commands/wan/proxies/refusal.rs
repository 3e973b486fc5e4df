//! Why a request was refused: [`Refusal`].

/// Why a request was refused: a status of HTTP, and words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) words: String,
}

impl Refusal {
    /// Returns the words for requests without an HTTP body: from a file, or a line of the control socket.
    pub(crate) fn in_short(&self) -> &str {
        self.words.strip_prefix(BAD).unwrap_or(&self.words)
    }
}

/// Creates a refusal.
pub(crate) fn refuse(status: u16, words: impl std::fmt::Display) -> Refusal {
    Refusal { status, words: words.to_string() }
}

pub(super) fn bad(words: impl std::fmt::Display) -> Refusal {
    refuse(400, format_args!("{BAD}{words}"))
}

pub(super) fn no_proxy() -> Refusal {
    refuse(404, "proxy not found")
}

pub(super) fn no_toxic() -> Refusal {
    refuse(404, "toxic not found")
}

pub(super) fn gone() -> Refusal {
    refuse(500, "its relay has ended")
}

/// The prefix of errors in a request's body.
const BAD: &str = "bad request body: ";
