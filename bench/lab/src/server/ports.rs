//! The order of service: [`Turns`], the queues of connections that may have a request, one for each port.
//!
//! A port stands for the paper's interface (soft timers §5.8: four of them, a client on each). Connections of a port
//! are served in the order in which they were found, and the ports in turn, so that none has to wait for another's
//! crowd.

use std::collections::VecDeque;

/// Queues of connections by their numbers, served in turn.
#[derive(Clone, Debug)]
pub struct Turns {
    queues: Vec<VecDeque<usize>>,
    next: usize,
    waiting: usize,
}

impl Turns {
    /// Divides turns among `ports` ports, at least one.
    pub fn new(ports: usize) -> Self {
        Turns { queues: vec![VecDeque::new(); ports.max(1)], next: 0, waiting: 0 }
    }

    /// Queues a connection of this port that may have a request. Each is queued at most once at a time.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn push(&mut self, port: usize, connection: usize) {
        self.queues[port].push_back(connection);
        self.waiting += 1;
    }

    /// Returns the next connection.
    ///
    /// # Cost
    /// At most a check of each port.
    pub fn pop(&mut self) -> Option<usize> {
        if self.waiting == 0 {
            return None;
        }
        loop {
            let port = self.next;
            self.next = (port + 1) % self.queues.len();
            if let Some(connection) = self.queues[port].pop_front() {
                self.waiting -= 1;
                return Some(connection);
            }
        }
    }

    /// Returns the number of queued connections.
    pub fn waiting(&self) -> usize {
        self.waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_take_turns_whatever_waits_at_each() {
        let mut turns = Turns::new(4);
        (0..6).for_each(|number| turns.push(0, number));
        turns.push(2, 20);
        turns.push(3, 30);
        turns.push(3, 31);
        assert_eq!(turns.waiting(), 9);
        let order: Vec<usize> = std::iter::from_fn(|| turns.pop()).collect();
        assert_eq!(order, [0, 20, 30, 1, 31, 2, 3, 4, 5]);
        assert_eq!((turns.waiting(), turns.pop()), (0, None));
    }
}
