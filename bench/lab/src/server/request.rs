//! Requests and their answers: [`Request::from_head`] reads a request's head, [`Site`] has the answers.
//!
//! The site is one file in memory. A name is only compared with its name, so no path can lead elsewhere; any other
//! request is refused, and its connection closed.
//!
//! ```text
//!   bytes of a client ─▶ incomplete │ length, and this answer ─▶ prepared bytes
//! ```

use std::time::Duration;

use httparse::EMPTY_HEADER;
use softtimers::{Clock, Monotonic};

/// The bytes so far, as a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// An incomplete request.
    Partial,
    /// A complete request, with the length of its head; or an invalid one, after which the connection is of no use.
    Whole {
        /// The bytes of its head.
        length: usize,
        /// The answer to it.
        answer: Answer,
    },
}

/// The answer to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The file, and the connection stays open.
    Kept,
    /// The file, and the connection is closed.
    Closed,
    /// 400, and the connection is closed.
    Refused,
}

impl Request {
    /// Parses the head at the beginning of `bytes`.
    pub fn from_head(bytes: &[u8]) -> Request {
        let mut headers = [EMPTY_HEADER; 16];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(bytes) {
            Ok(httparse::Status::Complete(length)) => {
                let closes = |header: &httparse::Header<'_>| {
                    header.name.eq_ignore_ascii_case("connection") && header.value == b"close"
                };
                let answer = match (request.method, request.path) {
                    (Some("GET"), Some(NAME)) if request.headers.iter().any(closes) => Answer::Closed,
                    (Some("GET"), Some(NAME)) => Answer::Kept,
                    _ => Answer::Refused,
                };
                Request::Whole { length, answer }
            }
            Ok(httparse::Status::Partial) if bytes.len() < LONGEST_HEAD => Request::Partial,
            _ => Request::Whole { length: bytes.len(), answer: Answer::Refused },
        }
    }
}

/// All answers of a server, ready to send.
#[derive(Clone, Debug)]
pub struct Site {
    answers: [Vec<u8>; 3],
    work: Duration,
}

impl Site {
    /// Creates a site whose only file has this content; its name is [`NAME`].
    pub fn from_file(file: &[u8]) -> Self {
        let answer = |status: &str, connection: &str, body: &[u8]| {
            let length = body.len();
            let head =
                format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: {connection}\r\n\r\n");
            [head.as_bytes(), body].concat()
        };
        let answers = [
            answer("200 OK", "keep-alive", file),
            answer("200 OK", "close", file),
            answer("400 Bad Request", "close", b""),
        ];
        Site { answers, work: Duration::ZERO }
    }

    /// Sets the additional work of each answer: servers look files up, write logs, ask others.
    #[must_use]
    pub fn with_work(self, work: Duration) -> Self {
        Site { work, ..self }
    }

    /// Does the work of an answer.
    pub fn work(&self) {
        let end = Monotonic.now() + self.work;
        while !self.work.is_zero() && Monotonic.now() < end {}
    }

    /// Returns the bytes of an answer.
    pub fn bytes(&self, answer: Answer) -> &[u8] {
        &self.answers[answer as usize]
    }
}

/// The name of the only file.
pub const NAME: &str = "/file";
/// The longest head accepted, a common limit of servers.
pub const LONGEST_HEAD: usize = 8 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    const GET: &str = "GET /file HTTP/1.1\r\nHost: here\r\n\r\n";

    #[test]
    fn every_beginning_of_a_request_is_partial_and_the_rest_is_the_next_ones() {
        for length in 0..GET.len() {
            assert_eq!(Request::from_head(&GET.as_bytes()[..length]), Request::Partial, "{length}");
        }
        let whole = Request::Whole { length: GET.len(), answer: Answer::Kept };
        assert_eq!(Request::from_head(format!("{GET}{GET}").as_bytes()), whole);
    }

    #[test]
    fn all_but_the_file_is_refused() {
        let answered = |text: &str| match Request::from_head(text.as_bytes()) {
            Request::Whole { answer, .. } => answer,
            Request::Partial => panic!("{text:?} is not whole"),
        };
        assert_eq!(answered("GET /file HTTP/1.1\r\nconnection: close\r\n\r\n"), Answer::Closed);
        for path in ["/", "//file", "/file/", "/../file", "/%66ile", "http://here/file", "*"] {
            assert_eq!(answered(&format!("GET {path} HTTP/1.1\r\n\r\n")), Answer::Refused, "{path}");
        }
        let endless = "x".repeat(LONGEST_HEAD);
        for bad in ["POST /file HTTP/1.1\r\n\r\n", "GET\r\n\r\n", "\u{16}\u{3}\u{1}", &endless] {
            assert_eq!(answered(bad), Answer::Refused, "{bad:?}");
        }
    }

    #[test]
    fn an_answer_says_its_length() {
        let site = Site::from_file(&[7; 6_144]);
        for (answer, body) in [(Answer::Kept, 6_144), (Answer::Closed, 6_144), (Answer::Refused, 0)] {
            let bytes = site.bytes(answer);
            let mut headers = [EMPTY_HEADER; 4];
            let mut response = httparse::Response::new(&mut headers);
            assert_eq!(response.parse(bytes).unwrap(), httparse::Status::Complete(bytes.len() - body));
            assert_eq!(response.headers[0].value, body.to_string().as_bytes());
        }
    }
}
