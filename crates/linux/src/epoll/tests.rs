use std::fs::File;
use std::io::Write;
use std::net::UdpSocket;
use std::thread;

use rustix::pipe::pipe;
use softtimers_core::{Clock, Timestamp};

use super::*;
use crate::clock::Monotonic;
use crate::sched::TimerSlack;
use crate::timerfd::TimerFd;

const BOTH: [Waiting; 2] = [Waiting::Pwait2, Waiting::Ppoll];

fn found(events: &Events) -> Vec<(u64, EventFlags)> {
    events.iter().map(|event| (event.token, event.readiness)).collect()
}

#[test]
fn tokens_and_readiness_come_back_on_both_paths() {
    for waiting in BOTH {
        let mut epoll = Epoll::new(waiting).unwrap();
        let mut events = Events::with_capacity(8);
        let (reader, writer) = pipe().unwrap();
        epoll.add(reader.as_fd(), 7, EventFlags::IN).unwrap();
        epoll.add(writer.as_fd(), u64::MAX, EventFlags::OUT).unwrap();

        epoll.wait(&mut events, None).unwrap();
        assert_eq!(found(&events), [(u64::MAX, EventFlags::OUT)]);

        epoll.modify(writer.as_fd(), 8, EventFlags::OUT).unwrap();
        let mut writer = File::from(writer);
        writer.write_all(b"x").unwrap();
        epoll.wait(&mut events, None).unwrap();
        let mut both = found(&events);
        both.sort_by_key(|(token, _)| *token);
        assert_eq!(both, [(7, EventFlags::IN), (8, EventFlags::OUT)]);

        epoll.delete(writer.as_fd()).unwrap();
        drop(writer);
        epoll.wait(&mut events, Some(Duration::ZERO)).unwrap();
        assert_eq!(found(&events), [(7, EventFlags::IN | EventFlags::HUP)]);
        assert!(epoll.delete(reader.as_fd()).is_ok() && epoll.delete(reader.as_fd()).is_err());
    }
}

#[test]
fn more_ready_sources_than_room_come_out_in_turns() {
    for waiting in BOTH {
        let mut epoll = Epoll::new(waiting).unwrap();
        let sockets: Vec<_> = (0..5).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
        for (token, socket) in sockets.iter().enumerate() {
            epoll.add(socket.as_fd(), token as u64, EventFlags::OUT).unwrap();
        }
        let mut events = Events::with_capacity(2);
        let mut seen = [false; 5];
        for _ in 0..3 {
            epoll.wait(&mut events, None).unwrap();
            assert_eq!(events.iter().len(), 2);
            events.iter().for_each(|event| seen[event.token as usize] = true);
        }
        assert_eq!(seen, [true; 5]);
    }
}

#[test]
fn looking_and_running_out_of_time_leave_no_stale_events() {
    for waiting in BOTH {
        let mut epoll = Epoll::new(waiting).unwrap();
        let mut events = Events::with_capacity(0);
        let timer = TimerFd::new().unwrap();
        epoll.add(timer.as_fd(), 1, EventFlags::IN).unwrap();
        timer.arm_at(Timestamp::ZERO).unwrap();
        epoll.wait(&mut events, Some(Duration::MAX)).unwrap();
        assert_eq!(found(&events), [(1, EventFlags::IN)]);
        timer.disarm().unwrap();
        for timeout in [Duration::ZERO, Duration::from_nanos(1), Duration::from_micros(80)] {
            epoll.wait(&mut events, Some(timeout)).unwrap();
            assert!(events.is_empty(), "{waiting:?} {timeout:?}");
        }
    }
}

/// Returns the shortest wait that times out, in nanoseconds, for each path, taken in turns: interference
/// makes some of them longer.
fn least_waits(timeout: Duration, rounds: usize) -> [u64; 2] {
    let mut epolls = BOTH.map(|waiting| Epoll::new(waiting).unwrap());
    let mut events = Events::with_capacity(1);
    let mut least = [u64::MAX; 2];
    for _ in 0..rounds {
        for (epoll, least) in epolls.iter_mut().zip(&mut least) {
            let begin = Monotonic.now();
            epoll.wait(&mut events, Some(timeout)).unwrap();
            let took = Monotonic.now().saturating_duration_since(begin);
            assert!(took >= timeout, "{:?} took {took:?} instead of {timeout:?}", epoll.waiting());
            *least = (took.as_nanos() as u64).min(*least);
        }
    }
    assert_eq!(epolls.map(|epoll| epoll.waiting()), BOTH, "epoll_pwait2 is not refused here");
    least
}

#[test]
fn both_paths_sleep_fractions_of_a_millisecond_and_never_less_than_asked() {
    let _slack = TimerSlack::hold(Duration::from_nanos(1)).unwrap();
    let ([pwait2, ppoll], long) =
        (least_waits(Duration::from_micros(200), 300), least_waits(Duration::from_millis(4), 5));
    assert!(pwait2.max(ppoll) < 3 * pwait2.min(ppoll), "200 us take {pwait2} and {ppoll} ns");
    // A twentieth; in whole milliseconds it would be a quarter.
    assert!(
        pwait2 * 5 < long[0] && ppoll * 5 < long[1],
        "of 200 us {pwait2} and {ppoll} ns, of 4 ms {long:?}"
    );
}

/// Installs a seccomp filter, as in a container: this thread's `epoll_pwait2` fails with `errno`.
fn refuse_pwait2(errno: i32) {
    let statement = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut filter = [
        // The number of the system call is the first word.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_epoll_pwait2 as u32, 0, 1),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | errno as u32, 0, 0),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    rustix::thread::set_no_new_privs(true).unwrap();
    // SAFETY: `program` and the filter it points to are valid for reads during the call.
    let outcome =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program) };
    assert_eq!(outcome, 0, "{}", io::Error::last_os_error());
}

#[test]
fn a_refused_system_call_falls_back_once_and_for_good() {
    for errno in [libc::ENOSYS, libc::EPERM, libc::EACCES, libc::EINVAL] {
        let confined = thread::spawn(move || {
            refuse_pwait2(errno);
            let mut epoll = Epoll::new(Waiting::Pwait2).unwrap();
            let mut events = Events::with_capacity(4);
            let timer = TimerFd::new().unwrap();
            epoll.add(timer.as_fd(), 3, EventFlags::IN).unwrap();

            let (begin, timeout) = (Monotonic.now(), Duration::from_micros(150));
            epoll.wait(&mut events, Some(timeout)).unwrap();
            assert!(events.is_empty() && Monotonic.now() >= begin + timeout);
            assert_eq!(epoll.waiting(), Waiting::Ppoll);

            timer.arm_at(Monotonic.now() + timeout).unwrap();
            epoll.wait(&mut events, None).unwrap();
            assert_eq!(found(&events), [(3, EventFlags::IN)]);
        });
        confined.join().unwrap();
    }
}

#[test]
fn other_errors_are_errors() {
    let mut epoll = Epoll::new(Waiting::Pwait2).unwrap();
    let itself = epoll.as_fd().try_clone_to_owned().unwrap();
    assert!(epoll.add(itself.as_fd(), 0, EventFlags::IN).is_err());
    assert_eq!(epoll.waiting(), Waiting::Pwait2);
    epoll.fd = pipe().unwrap().0;
    let error = epoll.wait(&mut Events::with_capacity(1), Some(Duration::ZERO)).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "of the other path, too");
}
