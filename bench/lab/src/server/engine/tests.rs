//! Every way to look for requests serves the same answers, and no port waits for another.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;

use super::*;
use crate::server::FILE;
use crate::server::client::{Answered, Load};
use crate::server::request::Answer;

/// Returns the view that clients have of a server with `ports` ports, and its own.
fn served<T: Send>(
    looking: Looking,
    ports: usize,
    clients: impl FnOnce(&[SocketAddr]) -> T + Send,
) -> (T, ServerStats) {
    let site = Site::from_file(&FILE);
    let listeners: Vec<TcpListener> =
        (1..=ports).map(|number| TcpListener::bind(format!("127.0.0.{number}:0")).unwrap()).collect();
    let addresses: Vec<SocketAddr> = listeners.iter().map(|one| one.local_addr().unwrap()).collect();
    let (end, ends) = UnixStream::pair().unwrap();
    std::thread::scope(|scope| {
        let server =
            scope.spawn(|| Engine::new(&site, &listeners, Some(&ends)).unwrap().run(looking).unwrap());
        let end = end;
        let found = clients(&addresses);
        drop(end);
        (found, server.join().unwrap())
    })
}

const ALL: [Looking; 4] = [Looking::Epoll, Looking::Spin, Looking::Polled(1), Looking::Polled(15)];

/// Clients for a while, again until each port has answered: a machine can stand still for longer than a while.
fn load(addresses: &[SocketAddr], each: usize, keep_alive: bool) -> (Answered, u64) {
    let clients: Vec<_> = addresses.iter().map(|&address| (address, each)).collect();
    let load = Load { clients, keep_alive, interval: None, time: Duration::from_millis(60) };
    let mut all = load.run().unwrap();
    for again in 1..100 {
        if all.answers.iter().all(|&answers| answers > 0) {
            return (all, again);
        }
        let more = load.run().unwrap();
        all.answers.iter_mut().zip(more.answers).for_each(|(all, more)| *all += more);
        all.errors += more.errors;
    }
    panic!("{all:?}");
}

#[test]
fn every_way_answers_every_request_over_kept_connections_and_over_new_ones() {
    for looking in ALL {
        for keep_alive in [true, false] {
            let ((answered, runs), stats) = served(looking, 1, |addresses| load(addresses, 8, keep_alive));
            assert_eq!(answered.errors, 0, "{looking:?} {keep_alive}");
            assert!(stats.answered[0] >= answered.answers[0]);
            // Those who were still waiting for theirs.
            assert!(stats.answered[0] - answered.answers[0] <= 8 * runs);
            assert!(if keep_alive {
                stats.accepted == 8 * runs
            } else {
                stats.accepted >= stats.answered[0]
            });
        }
    }
}

#[test]
fn four_ports_are_served_by_one_event() {
    for looking in ALL {
        let ((answered, runs), stats) = served(looking, 4, |addresses| load(addresses, 4, true));
        assert_eq!((answered.errors, stats.accepted), (0, 16 * runs));
        assert!(stats.answered.iter().all(|&answers| answers > 0), "{stats:?}");
    }
}

#[test]
fn requests_at_a_rate_are_answered_however_the_server_looks() {
    for looking in ALL {
        let (answered, stats) = served(looking, 1, |addresses| {
            let (interval, time) = (Some(Duration::from_millis(1)), Duration::from_millis(100));
            Load { clients: vec![(addresses[0], 4)], keep_alive: true, interval, time }.run().unwrap()
        });
        // A hundred and one are asked for, and four of them may be under way at the end.
        assert!((1..=101).contains(&answered.answers[0]), "{looking:?}: {answered:?}");
        assert!(stats.answered[0] - answered.answers[0] <= 4, "{looking:?}: {stats:?}");
        assert_eq!(answered.latency.count(), answered.answers[0]);
    }
}

#[test]
fn a_polling_server_sleeps_when_the_load_has_gone() {
    let ((), stats) = served(Looking::Polled(5), 1, |addresses| {
        let mut stream = TcpStream::connect(addresses[0]).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        for _ in 0..PAUSES {
            stream.write_all(b"GET /file HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
            let mut answer = vec![0; Site::from_file(&FILE).bytes(Answer::Kept).len()];
            stream.read_exact(&mut answer).unwrap();
            // Asleep for longer than it polls.
            let nothing = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            nothing.set_read_timeout(Some(Duration::from_millis(30))).unwrap();
            nothing.recv(&mut [0]).unwrap_err();
        }
    });
    assert_eq!(stats.answered, [PAUSES]);
    // It may have been held up in some of them, by a machine that stood still.
    assert!(stats.sleeps >= 3, "{stats:?}");
}

const PAUSES: u64 = 10;

#[test]
fn hostile_clients_get_their_answer_and_the_others_theirs() {
    for looking in ALL {
        let (texts, stats) = served(looking, 1, |addresses| {
            let hostile: [&[u8]; 5] = [
                b"\x16\x03\x01\x02\x00\x01\r\n\r\n",
                b"GET /../../etc/passwd HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
                &[b'A'; 100_000],
                b"GET /file HTTP/1.1\r\nHost: h\r\n\r\nGET /file HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\nGET",
                b"POST /file HTTP/1.1\r\nHost: h\r\nContent-Length: 9999999999\r\n\r\n",
            ];
            // One that says nothing, and stays.
            let _silent = TcpStream::connect(addresses[0]).unwrap();
            let texts = hostile.map(|bytes| {
                let mut stream = TcpStream::connect(addresses[0]).unwrap();
                stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
                // It may be told enough before all of it is sent.
                let _ = stream.write_all(bytes);
                let mut answers = Vec::new();
                let _ = stream.read_to_end(&mut answers);
                String::from_utf8_lossy(&answers).into_owned()
            });
            load(addresses, 2, true);
            texts
        });
        let codes = texts.each_ref().map(|text| {
            text.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect::<Vec<_>>().join(" ")
        });
        // The rest of what was sent may have made the kernel forget the answer.
        let refused = |codes: &str| codes == "400" || codes.is_empty();
        assert!([0, 1, 2, 4].iter().all(|&at| refused(&codes[at])), "{codes:?}");
        assert_eq!(codes[3], "200 200");
        assert!(stats.answered[0] >= 6, "{stats:?}");
    }
}

#[test]
fn a_client_that_does_not_read_keeps_nobody_waiting() {
    let ((), stats) = served(Looking::Polled(2), 1, |addresses| {
        let mut rude = TcpStream::connect(addresses[0]).unwrap();
        rude.set_write_timeout(Some(Duration::from_secs(10))).unwrap();
        let many = b"GET /file HTTP/1.1\r\nHost: h\r\n\r\n".repeat(2_000);
        rude.write_all(&many).unwrap();
        load(addresses, 2, true);
    });
    assert_eq!(stats.accepted % 2, 1, "and nobody was refused: {stats:?}");
}

#[test]
fn many_requests_at_once_are_all_answered_also_if_they_fill_the_room_evenly() {
    for looking in ALL {
        let (all, stats) = served(looking, 1, |addresses| {
            let mut stream = TcpStream::connect(addresses[0]).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            let mut sent = stream.try_clone().unwrap();
            let mut answers = vec![0; 1_024 * Site::from_file(&FILE).bytes(Answer::Kept).len()];
            std::thread::scope(|scope| {
                scope.spawn(move || sent.write_all(&b"GET /file HTTP/1.1\r\nHost: hh\r\n\r\n".repeat(1_024)));
                stream.read_exact(&mut answers).is_ok()
            })
        });
        assert!(all, "{looking:?}: {stats:?}");
        assert_eq!(stats.answered, [1_024], "{looking:?}");
    }
}

#[test]
fn who_comes_while_another_has_much_to_ask_has_his_turn() {
    const MANY: usize = 100;
    let site = Site::from_file(b"content");
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let mut engine = Engine::new(&site, &listeners, None::<&UnixStream>).unwrap();
    let mut many = TcpStream::connect(listeners[0].local_addr().unwrap()).unwrap();
    many.write_all(&b"GET /file HTTP/1.1\r\nHost: h\r\n\r\n".repeat(MANY)).unwrap();
    engine.by_epoll_once(None).unwrap();
    let mut other = TcpStream::connect(listeners[1].local_addr().unwrap()).unwrap();
    other.write_all(b"GET /file HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    let mut called = Epoll::new(Waiting::Pwait2).unwrap();
    called.add(listeners[1].as_fd(), 1, EventFlags::IN).unwrap();
    called.wait(&mut Events::with_capacity(1), Some(Duration::from_secs(10))).unwrap();
    while engine.stats.answered[1] == 0 && engine.stats.answered[0] < MANY as u64 {
        engine.by_epoll_once(None).unwrap();
    }
    assert_eq!(engine.stats.answered[1], 1);
    assert!(engine.stats.answered[0] < MANY as u64 / 2, "{:?}", engine.stats);
}
