//! One client's connection: [`Connection`], one request a step.
//!
//! A step answers at most one request, so that a client that sends many at once takes turns with others, and it reads
//! nothing while an answer waits to leave: a client that does not read its answers is not served further.
//!
//! ```text
//!   step: answer left over? ─▶ request left over? ─▶ read ─▶ whole? ─▶ write ─▶ Answered
//!            └ full: Waits                            └ nothing: Waits   └ ended, or told to: Over
//! ```

use std::io::{ErrorKind, Read, Write};

use super::request::{Answer, LONGEST_HEAD, Request, Site};

/// The result of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// A request was answered. If `more`, the next one may be there already: no readiness event will follow.
    Answered {
        /// There may be another.
        more: bool,
    },
    /// The stream is not ready.
    Waits,
    /// The connection is to be closed; `answered`: after an answer, otherwise by the client or an error.
    Over {
        /// This step sent the end of an answer.
        answered: bool,
    },
}

/// A connection, and its buffered bytes.
#[derive(Debug)]
pub struct Connection<S> {
    stream: S,
    /// The bytes read after the last request; never longer than a head may be.
    rest: Vec<u8>,
    /// An answer, and how many of its bytes have been sent.
    unsent: Option<(Answer, usize)>,
    /// Whether the last read filled the buffer, so that no edge reports the remaining bytes.
    unread: bool,
}

/// The buffer for requests, shared by all connections of a thread.
pub type Scratch = Box<[u8; LONGEST_HEAD]>;

/// Returns an empty buffer.
pub fn scratch() -> Scratch {
    Box::new([0; LONGEST_HEAD])
}

impl<S: Read + Write> Connection<S> {
    /// Serves a non-blocking stream, or one whose reader has nothing else to do.
    pub fn new(stream: S) -> Self {
        Connection { stream, rest: Vec::new(), unsent: None, unread: false }
    }

    /// Continues, up to the end of one answer.
    ///
    /// # Cost
    /// A read and a write if the request is there in one piece, without allocation; otherwise a read for each piece.
    pub fn step(&mut self, site: &Site, scratch: &mut Scratch) -> Step {
        if let Some((answer, sent)) = self.unsent.take() {
            return self.send(site, answer, sent);
        }
        let mut filled = self.rest.len();
        scratch[..filled].copy_from_slice(&self.rest);
        loop {
            if filled > 0
                && let Request::Whole { length, answer } = Request::from_head(&scratch[..filled])
            {
                self.rest.clear();
                self.rest.extend_from_slice(&scratch[length..filled]);
                site.work();
                return self.send(site, answer, 0);
            }
            // A head that fills the buffer is never partial: there is room.
            match self.stream.read(&mut scratch[filled..]) {
                Ok(0) => return Step::Over { answered: false },
                Ok(read) => {
                    filled += read;
                    self.unread = filled == LONGEST_HEAD;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.unread = false;
                    self.rest.clear();
                    self.rest.extend_from_slice(&scratch[..filled]);
                    return Step::Waits;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Step::Over { answered: false },
            }
        }
    }

    /// Returns the stream.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    fn send(&mut self, site: &Site, answer: Answer, mut sent: usize) -> Step {
        let bytes = site.bytes(answer);
        while sent < bytes.len() {
            match self.stream.write(&bytes[sent..]) {
                Ok(0) => return Step::Over { answered: false },
                Ok(written) => sent += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.unsent = Some((answer, sent));
                    return Step::Waits;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Step::Over { answered: false },
            }
        }
        match answer {
            Answer::Kept => Step::Answered { more: self.unread || !self.rest.is_empty() },
            Answer::Closed | Answer::Refused => Step::Over { answered: true },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::io;

    use super::*;

    /// A stream with these pieces, which accepts a given number of bytes at a time; then both would block.
    struct Pieces {
        pieces: VecDeque<Vec<u8>>,
        ended: bool,
        takes: VecDeque<usize>,
        taken: Vec<u8>,
    }

    impl Read for Pieces {
        fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
            assert!(!room.is_empty(), "a read without room would say that the stream has ended");
            let Some(piece) = self.pieces.front_mut() else {
                return if self.ended { Ok(0) } else { Err(ErrorKind::WouldBlock.into()) };
            };
            let length = piece.len().min(room.len());
            room[..length].copy_from_slice(&piece[..length]);
            piece.drain(..length);
            if piece.is_empty() {
                self.pieces.pop_front();
            }
            Ok(length)
        }
    }

    impl Write for Pieces {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let Some(most) = self.takes.pop_front() else { return Err(ErrorKind::WouldBlock.into()) };
            let length = most.min(bytes.len());
            self.taken.extend_from_slice(&bytes[..length]);
            Ok(length)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn connection(pieces: &[&str], takes: &[usize]) -> Connection<Pieces> {
        let pieces = pieces.iter().map(|piece| piece.as_bytes().to_vec()).collect();
        Connection::new(Pieces {
            pieces,
            ended: false,
            takes: takes.iter().copied().collect(),
            taken: vec![],
        })
    }

    const GET: &str = "GET /file HTTP/1.1\r\nHost: h\r\n\r\n";
    const ALL: usize = usize::MAX;

    #[test]
    fn a_request_in_pieces_is_answered_when_it_is_whole() {
        let site = Site::from_file(b"content");
        let mut connection = connection(&["GET /fi", "le HTTP/1.1\r\nHost: h\r\n"], &[ALL]);
        assert_eq!(connection.step(&site, &mut scratch()), Step::Waits);
        connection.stream.pieces.push_back(b"\r\n".to_vec());
        assert_eq!(connection.step(&site, &mut scratch()), Step::Answered { more: false });
        assert!(connection.stream.taken.ends_with(b"content"));
    }

    #[test]
    fn requests_sent_at_once_are_answered_one_a_step_and_in_order() {
        let site = Site::from_file(b"content");
        let mut connection = connection(&[&format!("{GET}{GET}{GET}GET /f")], &[ALL; 3]);
        let steps: Vec<Step> = (0..4).map(|_| connection.step(&site, &mut scratch())).collect();
        assert_eq!(steps[..3], [Step::Answered { more: true }; 3]);
        assert_eq!(steps[3], Step::Waits);
        let text = String::from_utf8(connection.stream.taken).unwrap();
        let codes: Vec<&str> = text.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
        assert_eq!(codes, ["200"; 3]);
        assert_eq!(connection.rest, b"GET /f");
    }

    #[test]
    fn an_answer_that_does_not_leave_is_gone_on_with_before_anything_is_read() {
        let site = Site::from_file(&[b'x'; 100]);
        let mut connection = connection(&[GET, GET], &[10, 20]);
        assert_eq!(connection.step(&site, &mut scratch()), Step::Waits);
        assert_eq!((connection.stream.taken.len(), connection.stream.pieces.len()), (30, 1));
        assert_eq!(connection.step(&site, &mut scratch()), Step::Waits, "still full, and nothing was read");
        assert_eq!(connection.stream.pieces.len(), 1);
        connection.stream.takes.extend([ALL, ALL]);
        assert_eq!(connection.step(&site, &mut scratch()), Step::Answered { more: false });
        assert_eq!(connection.step(&site, &mut scratch()), Step::Answered { more: false });
        let whole = site.bytes(Answer::Kept);
        assert_eq!(connection.stream.taken, [whole, whole].concat());
    }

    #[test]
    fn what_is_no_request_is_told_so_and_ends_it() {
        let site = Site::from_file(b"");
        let mut connection = connection(&["\u{16}\u{3}\u{1} not HTTP\r\n\r\n", GET], &[ALL; 2]);
        assert_eq!(connection.step(&site, &mut scratch()), Step::Over { answered: true });
        assert!(connection.stream.taken.starts_with(b"HTTP/1.1 400 "));
    }

    #[test]
    fn a_client_that_leaves_ends_it() {
        let mut connection = connection(&["GET /file HTT"], &[]);
        connection.stream.ended = true;
        assert_eq!(connection.step(&Site::from_file(b""), &mut scratch()), Step::Over { answered: false });
    }

    #[test]
    fn a_read_that_filled_the_room_may_have_left_something() {
        let site = Site::from_file(b"");
        let fill = format!("{GET}GET /{}", "z".repeat(LONGEST_HEAD - GET.len() - 5));
        let mut connection = connection(&[&fill], &[ALL]);
        assert_eq!(connection.step(&site, &mut scratch()), Step::Answered { more: true });
        assert!(connection.rest.len() < LONGEST_HEAD, "there is room to read");
    }

    /// 256 of these fill the buffer exactly.
    const EVEN: &str = "GET /file HTTP/1.1\r\nHost: hh\r\n\r\n";

    #[test]
    fn what_a_full_room_left_behind_is_not_forgotten_by_the_requests_in_it() {
        let site = Site::from_file(b"");
        assert_eq!(LONGEST_HEAD % EVEN.len(), 0);
        let number = 4 * LONGEST_HEAD / EVEN.len();
        let mut connection = connection(&[&EVEN.repeat(number)], &[]);
        let mut scratch = scratch();
        let mut answered = 0;
        // With edges: it is continued as long as it says so, and when an answer can leave again.
        for turn in 0.. {
            connection.stream.takes.extend((turn % 3 > 0).then_some(ALL));
            match connection.step(&site, &mut scratch) {
                Step::Answered { more } => {
                    answered += 1;
                    if !more {
                        break;
                    }
                }
                Step::Waits if connection.unsent.is_some() => {}
                other => {
                    assert_eq!((other, answered), (Step::Waits, number));
                    break;
                }
            }
        }
        assert_eq!(answered, number);
    }
}
