//! What a request is answered with: [`Request::of`] reads its head, [`Site`] has the answers.
//!
//! The site is one file in memory. A name is compared with its name and with nothing else, so there is no path that
//! could lead anywhere; and nothing is kept of a request but which of a few prepared answers it gets.
//!
//! ```text
//!   bytes of a client ─▶ not whole yet │ so long, and this answer ─▶ prepared bytes
//! ```

use std::mem::MaybeUninit;
use std::time::Duration;

use httparse::{Error, Header};
use softtimers::{Clock, Monotonic};

/// What the bytes so far are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// The beginning of one.
    Partial,
    /// One, whose head is so long; or no request at all, after which the connection is of no use.
    Whole {
        /// Bytes of it.
        length: usize,
        /// What it gets.
        answer: Answer,
    },
}

/// An answer, by what distinguishes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The first line.
    pub status: Status,
    /// Without the file: to HEAD.
    pub head_only: bool,
    /// The connection ends with it.
    pub close: bool,
}

/// A status of RFC 9110.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// 200
    Ok,
    /// 400
    BadRequest,
    /// 404
    NotFound,
    /// 405
    MethodNotAllowed,
    /// 413: requests have no content here.
    ContentTooLarge,
    /// 431
    HeadTooLarge,
    /// 505
    VersionNotSupported,
}

impl Request {
    /// Reads the head that `bytes` begin with.
    ///
    /// # Cost
    /// Linear in the bytes, of which a caller has [`LONGEST_HEAD`] at the most; nothing is allocated.
    pub fn of(bytes: &[u8]) -> Request {
        let mut headers = [const { MaybeUninit::uninit() }; MOST_HEADERS];
        let mut request = httparse::Request::new(&mut []);
        match request.parse_with_uninit_headers(bytes, &mut headers) {
            Ok(httparse::Status::Complete(length)) => Request::Whole { length, answer: answer(&request) },
            Ok(httparse::Status::Partial) if bytes.len() < LONGEST_HEAD => Request::Partial,
            Ok(httparse::Status::Partial) | Err(Error::TooManyHeaders) => {
                refused(bytes, Status::HeadTooLarge)
            }
            Err(Error::Version) => refused(bytes, Status::VersionNotSupported),
            Err(_) => refused(bytes, Status::BadRequest),
        }
    }
}

/// All answers of a server, as they are sent.
#[derive(Clone, Debug)]
pub struct Site {
    /// By status, then kept and closed.
    answers: Vec<[Prepared; 2]>,
    work: Duration,
}

#[derive(Clone, Debug)]
struct Prepared {
    bytes: Vec<u8>,
    head: usize,
}

impl Site {
    /// A site whose only file has this content; its name is [`NAME`].
    pub fn of(file: &[u8]) -> Self {
        let answers = STATUSES.iter().map(|&status| {
            [false, true].map(|close| {
                let body = if status == Status::Ok { file } else { &[] };
                Prepared::of(status, close, body)
            })
        });
        Site { answers: answers.collect(), work: Duration::ZERO }
    }

    /// Each answer costs so much more than sending it: servers look files up, write logs, ask others.
    pub fn with_work(mut self, work: Duration) -> Self {
        self.work = work;
        self
    }

    /// Does that work.
    pub fn work(&self) {
        if !self.work.is_zero() {
            let end = Monotonic.now() + self.work;
            while Monotonic.now() < end {}
        }
    }

    /// An answer's bytes.
    pub fn bytes(&self, answer: Answer) -> &[u8] {
        let prepared = &self.answers[answer.status as usize][usize::from(answer.close)];
        if answer.head_only { &prepared.bytes[..prepared.head] } else { &prepared.bytes }
    }
}

impl Prepared {
    fn of(status: Status, close: bool, body: &[u8]) -> Self {
        let connection = if close { "close" } else { "keep-alive" };
        let allow = if status == Status::MethodNotAllowed { "Allow: GET, HEAD\r\n" } else { "" };
        let mut bytes = format!(
            "HTTP/1.1 {}\r\nContent-Type: application/octet-stream\r\nContent-Length: {}\r\n{allow}Connection: {connection}\r\n\r\n",
            status.line(),
            body.len()
        )
        .into_bytes();
        let head = bytes.len();
        bytes.extend_from_slice(body);
        Prepared { bytes, head }
    }
}

impl Status {
    fn line(self) -> &'static str {
        match self {
            Status::Ok => "200 OK",
            Status::BadRequest => "400 Bad Request",
            Status::NotFound => "404 Not Found",
            Status::MethodNotAllowed => "405 Method Not Allowed",
            Status::ContentTooLarge => "413 Content Too Large",
            Status::HeadTooLarge => "431 Request Header Fields Too Large",
            Status::VersionNotSupported => "505 HTTP Version Not Supported",
        }
    }
}

/// Of a head that could be read.
fn answer(request: &httparse::Request<'_, '_>) -> Answer {
    let headers: &[Header<'_>] = request.headers;
    let named =
        |name: &'static str| headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
    let is_new = request.version == Some(1);
    let says = |word: &str| named("connection").any(|header| has_word(header.value, word));
    let head_only = request.method == Some("HEAD");
    let status = if is_new && named("host").count() != 1 {
        Status::BadRequest
    } else if named("transfer-encoding").next().is_some()
        || named("content-length").any(|of| of.value != b"0")
    {
        Status::ContentTooLarge
    } else if !head_only && request.method != Some("GET") {
        Status::MethodNotAllowed
    } else if request.path.and_then(|path| path.split('?').next()) != Some(NAME) {
        Status::NotFound
    } else {
        Status::Ok
    };
    // After these two nobody knows where the next request begins.
    let lost = matches!(status, Status::BadRequest | Status::ContentTooLarge);
    let close = lost || says("close") || !(is_new || says("keep-alive"));
    Answer { status, head_only, close }
}

/// Of bytes that are no head: all of them are done with.
fn refused(bytes: &[u8], status: Status) -> Request {
    Request::Whole { length: bytes.len(), answer: Answer { status, head_only: false, close: true } }
}

/// Whether a list of words, separated by commas, has this one.
fn has_word(list: &[u8], word: &str) -> bool {
    list.split(|&byte| byte == b',').any(|one| one.trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
}

/// The name of the only file.
pub const NAME: &str = "/file";
/// What servers commonly take.
pub const LONGEST_HEAD: usize = 8 << 10;
const MOST_HEADERS: usize = 64;
/// In the order of their numbers as Rust counts them.
const STATUSES: [Status; 7] = [
    Status::Ok,
    Status::BadRequest,
    Status::NotFound,
    Status::MethodNotAllowed,
    Status::ContentTooLarge,
    Status::HeadTooLarge,
    Status::VersionNotSupported,
];

#[cfg(test)]
mod tests {
    use super::*;

    const GET: &str = "GET /file HTTP/1.1\r\nHost: here\r\n\r\n";

    fn answered(text: &str) -> (Status, bool, bool) {
        let Request::Whole { answer, .. } = Request::of(text.as_bytes()) else {
            panic!("{text:?} is not whole")
        };
        (answer.status, answer.head_only, answer.close)
    }

    #[test]
    fn every_beginning_of_a_request_is_partial_and_the_rest_is_the_next_ones() {
        for length in 0..GET.len() {
            assert_eq!(Request::of(&GET.as_bytes()[..length]), Request::Partial, "{length}");
        }
        let Request::Whole { length, answer } = Request::of(format!("{GET}{GET}").as_bytes()) else {
            panic!()
        };
        assert_eq!((length, answer.status, answer.close), (GET.len(), Status::Ok, false));
    }

    #[test]
    fn a_connection_is_kept_as_the_versions_say() {
        let kept = |text| !answered(text).2;
        assert!(kept(GET));
        assert!(!kept("GET /file HTTP/1.1\r\nHost: h\r\nConnection: te, Close\r\n\r\n"));
        assert!(!kept("GET /file HTTP/1.0\r\n\r\n"));
        assert!(kept("GET /file HTTP/1.0\r\nconnection: Keep-Alive\r\n\r\n"));
        assert!(kept("GET /file HTTP/1.1\r\nHost: h\r\nConnection: closed\r\n\r\n"), "another word");
    }

    #[test]
    fn no_name_leads_anywhere_but_to_the_file() {
        assert_eq!(answered("GET /file?x=../../etc/passwd HTTP/1.0\r\n\r\n").0, Status::Ok);
        for path in [
            "/",
            "//file",
            "/file/",
            "/../file",
            "/file/../../etc/passwd",
            "/..%2f..%2fetc%2fpasswd",
            "/%66ile",
            "file",
            "/file\\..\\x",
            "http://here/file",
            "*",
        ] {
            let status = answered(&format!("GET {path} HTTP/1.0\r\n\r\n")).0;
            assert!(matches!(status, Status::NotFound | Status::BadRequest), "{path}: {status:?}");
        }
    }

    #[test]
    fn what_is_not_offered_is_refused() {
        assert_eq!(answered("HEAD /file HTTP/1.1\r\nHost: h\r\n\r\n"), (Status::Ok, true, false));
        assert_eq!(answered("DELETE /file HTTP/1.1\r\nHost: h\r\n\r\n").0, Status::MethodNotAllowed);
        assert_eq!(answered("GET /file HTTP/2.0\r\n\r\n").0, Status::VersionNotSupported);
        assert_eq!(answered("GET /file HTTP/1.1\r\n\r\n"), (Status::BadRequest, false, true), "no host");
        let twice = "GET /file HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n";
        assert_eq!(answered(twice), (Status::BadRequest, false, true));
        for smuggled in
            ["Content-Length: 5", "Content-Length: +0", "Transfer-Encoding: chunked", "Content-Length: 0, 0"]
        {
            let text = format!("POST /file HTTP/1.1\r\nHost: h\r\n{smuggled}\r\n\r\nGET /file");
            assert_eq!(answered(&text), (Status::ContentTooLarge, false, true), "{smuggled}");
        }
        for bad in [
            "\0\0\0\0\r\n\r\n",
            "GET\r\n\r\n",
            "GET /file HTTP/1.1\r\nbad header\r\n\r\n",
            "\u{16}\u{3}\u{1}",
        ] {
            assert_eq!(answered(bad), (Status::BadRequest, false, true), "{bad:?}");
        }
    }

    #[test]
    fn a_head_has_its_limits() {
        let long = format!("GET /file HTTP/1.1\r\nHost: h\r\nx: {}", "y".repeat(LONGEST_HEAD));
        assert_eq!(Request::of(&long.as_bytes()[..LONGEST_HEAD - 1]), Request::Partial);
        assert_eq!(answered(&long[..LONGEST_HEAD]), (Status::HeadTooLarge, false, true));
        let many = format!("GET /file HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(MOST_HEADERS + 1));
        assert_eq!(answered(&many), (Status::HeadTooLarge, false, true));
    }

    #[test]
    fn random_bytes_are_answered_or_waited_for() {
        let mut random = softtimers_core::Random::stream(3, 3);
        for _ in 0..20_000 {
            let mut bytes: Vec<u8> = GET.bytes().chain(GET.bytes()).collect();
            for _ in 0..random.below(6) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.below(256) as u8;
            }
            if let Request::Whole { length, .. } = Request::of(&bytes) {
                assert!((1..=bytes.len()).contains(&length));
            }
        }
    }

    #[test]
    fn an_answer_is_its_own_length() {
        let site = Site::of(&[7; 6_144]);
        for (number, &status) in STATUSES.iter().enumerate() {
            assert_eq!(status as usize, number);
            for close in [false, true] {
                let answer = Answer { status, head_only: false, close };
                let bytes = site.bytes(answer);
                let head = site.bytes(Answer { head_only: true, ..answer });
                let mut headers = [httparse::EMPTY_HEADER; 8];
                let mut response = httparse::Response::new(&mut headers);
                assert_eq!(response.parse(bytes).unwrap(), httparse::Status::Complete(head.len()));
                assert_eq!(
                    response.code.map(|code| code.to_string()).as_deref(),
                    status.line().split(' ').next()
                );
                let length =
                    response.headers.iter().find(|header| header.name == "Content-Length").unwrap().value;
                assert_eq!(length, (bytes.len() - head.len()).to_string().as_bytes());
                let connection =
                    response.headers.iter().find(|header| header.name == "Connection").unwrap().value;
                assert_eq!(connection == b"close", close);
            }
        }
        assert_eq!(site.bytes(Answer { status: Status::Ok, head_only: false, close: true }).last(), Some(&7));
    }
}
