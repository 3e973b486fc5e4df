//! The loop of str0m's example `chat`: one socket, and a wait of at least a millisecond.

use std::net::UdpSocket;
use std::time::Duration;

use example_harness::trial::Done;
use softtimers::{Clock, Monotonic};
use str0m::Input;

use crate::peers::{Client, Video, instant, read, received, send};

/// Drains and calls all clients in each round; packets leave as they come, and the wait is the socket's time-out, at
/// least a millisecond.
pub(crate) fn run(socket: &UdpSocket, clients: &mut [Client], video: &mut Video<'_>) -> Done {
    let mut buffer = vec![0; 2_000];
    while !video.is_over(clients)? {
        let mut timeout = Monotonic.now() + Duration::from_millis(100);
        for client in clients.iter_mut() {
            timeout = timeout.min(client.drain(|packet, to| send(socket, &packet, to))?);
        }
        let now = Monotonic.now();
        if let Some(frame) = video.due(now) {
            clients.iter_mut().try_for_each(|client| client.write(now, &frame))?;
            continue;
        }
        let wait = timeout.min(video.next()).saturating_duration_since(now);
        socket.set_read_timeout(Some(wait.max(Duration::from_millis(1))))?;
        if let Some((from, packet)) = read(socket, &mut buffer)? {
            let input = received(socket, from, packet)?;
            if let Some(client) = clients.iter_mut().find(|client| client.rtc.accepts(&input)) {
                client.rtc.handle_input(input)?;
            }
        }
        let now = instant(Monotonic.now())?;
        clients.iter_mut().try_for_each(|client| client.rtc.handle_input(Input::Timeout(now)))?;
    }
    Ok(())
}
