//! Both directions of a path: [`Wan`].

use std::fmt;

use softtimers_core::{Random, Timestamp};

use crate::{Admission, Delivery, Direction, PathConfig, PathError, Scenario, Traits};

/// A direction of a path.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Way {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
}

impl Way {
    /// Returns the opposite direction.
    #[must_use]
    pub const fn back(self) -> Way {
        match self {
            Way::Up => Way::Down,
            Way::Down => Way::Up,
        }
    }
}

/// `up` or `down`.
impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Way::Up { "up" } else { "down" })
    }
}

/// A path with two directions, each with its own parameters, queue and random numbers.
///
/// ```
/// use std::time::Duration;
/// use softtimers_core::Timestamp;
/// use softtimers_wan::{Bottleneck, Loss, PathConfig, Probability, Wan, Way};
///
/// let each = PathConfig::default().delay(Duration::from_millis(50));
/// let mut wan = Wan::builder()
///     .both(each.clone().bottleneck(Bottleneck::bits_per_second(100_000_000)?))
///     .up(each.loss(Loss::Random(Probability::per_million(2_000)?)))
///     .seed(7)
///     .build()?;
///
/// // A request, and an answer as soon as it is there. Time is whatever you say it is.
/// wan.offer(Timestamp::ZERO, Way::Up, 80, "request");
/// let mut arrived = Vec::new();
/// while let Some(now) = wan.poll_at() {
///     while let Some((way, delivery)) = wan.pop_due(now) {
///         arrived.push((now.as_nanos() / 1_000, delivery.packet));
///         if way == Way::Up {
///             wan.offer(now, Way::Down, 1_500, "answer");
///         }
///     }
/// }
/// assert_eq!(arrived, [(50_000, "request"), (100_120, "answer")]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Wan<T> {
    up: Direction<T>,
    down: Direction<T>,
}

impl Wan<()> {
    /// Returns a builder that starts with a perfect wire in both directions.
    pub fn builder() -> WanBuilder {
        WanBuilder::default()
    }
}

impl<T: Clone> Wan<T> {
    /// Offers a packet of `bytes` that comes in at `now`.
    pub fn offer(&mut self, now: Timestamp, way: Way, bytes: u32, packet: T) -> Admission {
        self.direction_mut(way).offer(now, bytes, packet)
    }

    /// Offers a packet with these traits: see [`Direction::offer_of`].
    pub fn offer_of(&mut self, now: Timestamp, way: Way, bytes: u32, traits: Traits, packet: T) -> Admission {
        self.direction_mut(way).offer_of(now, bytes, traits, packet)
    }

    /// Returns when to call next: `None` if nothing is held. Calling sooner is harmless, calling later makes packets
    /// late.
    pub fn poll_at(&self) -> Option<Timestamp> {
        self.up.poll_at().into_iter().chain(self.down.poll_at()).min()
    }

    /// Returns the next packet that has arrived by `now`, in order of arrival; of equal times, the one going up first.
    pub fn pop_due(&mut self, now: Timestamp) -> Option<(Way, Delivery<T>)> {
        self.pop_due_of(now, [true; 2])
    }

    /// As [`pop_due`](Self::pop_due), of these directions only: up and down.
    pub(crate) fn pop_due_of(&mut self, now: Timestamp, [up, down]: [bool; 2]) -> Option<(Way, Delivery<T>)> {
        let up = up.then(|| self.up.next_due(now)).flatten();
        let down = down.then(|| self.down.next_due(now)).flatten();
        let way = match (up, down) {
            (Some(up), Some(down)) if down < up => Way::Down,
            (None, Some(_)) => Way::Down,
            (None, None) => return None,
            _ => Way::Up,
        };
        self.direction_mut(way).pop_due(now).map(|delivery| (way, delivery))
    }

    /// Returns the time there and back without jitter.
    #[cfg(any(target_os = "linux", feature = "tokio"))]
    pub(crate) fn round_trip(&self) -> std::time::Duration {
        self.up.path().delay.saturating_add(self.down.path().delay)
    }

    /// Changes the path in one direction from `now` on: see [`Direction::set`].
    ///
    /// # Errors
    /// [`PathError`], as [`PathConfig::check`]; then nothing changes.
    pub fn set(&mut self, now: Timestamp, way: Way, path: PathConfig) -> Result<(), PathError> {
        self.direction_mut(way).set(now, path)
    }

    /// Changes both directions by a scenario that begins at `now`; it replaces an earlier scenario. Its rounds begin
    /// with the current paths.
    ///
    /// # Errors
    /// [`PathError`], as [`PathConfig::check`], of any path that the scenario leads to; then nothing changes.
    pub fn play(&mut self, now: Timestamp, scenario: &Scenario) -> Result<(), PathError> {
        let up = self.up.timeline(now, scenario, Way::Up);
        let down = self.down.timeline(now, scenario, Way::Down);
        let (up, down) = (up?, down?);
        self.up.follow(up);
        self.down.follow(down);
        Ok(())
    }

    /// Makes the next change of a scenario at `now`, and all that follow sooner by as much. Returns whether there was one.
    pub fn skip(&mut self, now: Timestamp) -> bool {
        // What has left until now leaves by the path of before.
        self.up.advance(now);
        self.down.advance(now);
        let next =
            [&self.up, &self.down].into_iter().filter_map(|direction| direction.next_change(now)).min();
        let by = next.map(|next| next.saturating_duration_since(now));
        // Both have begun at the same time.
        by.is_some_and(|by| self.up.hurry(by) & self.down.hurry(by))
    }

    /// Returns one direction, with its settings, counts and measurements.
    pub fn direction(&self, way: Way) -> &Direction<T> {
        match way {
            Way::Up => &self.up,
            Way::Down => &self.down,
        }
    }

    /// Returns the number of packets waiting for the link at `now`, without the one on it.
    pub fn queued(&mut self, way: Way, now: Timestamp) -> usize {
        self.direction_mut(way).queued(now)
    }

    pub(crate) fn direction_mut(&mut self, way: Way) -> &mut Direction<T> {
        match way {
            Way::Up => &mut self.up,
            Way::Down => &mut self.down,
        }
    }
}

/// Builds a [`Wan`]: parameters for each direction, and a seed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WanBuilder {
    up: PathConfig,
    down: PathConfig,
    seed: u64,
}

impl WanBuilder {
    /// Sets the same path in both directions; each can be changed afterwards.
    #[must_use]
    pub fn both(mut self, path: PathConfig) -> Self {
        (self.up, self.down) = (path.clone(), path);
        self
    }

    /// Sets the path from the client to the server.
    #[must_use]
    pub fn up(mut self, path: PathConfig) -> Self {
        self.up = path;
        self
    }

    /// Sets the path from the server to the client.
    #[must_use]
    pub fn down(mut self, path: PathConfig) -> Self {
        self.down = path;
        self
    }

    /// Sets the seed of all random decisions; zero by default.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn seed_set(&self) -> u64 {
        self.seed
    }

    /// Builds the path.
    ///
    /// # Errors
    /// [`PathError`], as [`PathConfig::check`].
    pub fn build<T: Clone>(self) -> Result<Wan<T>, PathError> {
        let [up, down] = [0, 1].map(|way| Random::stream(self.seed, way).next_u64());
        Ok(Wan { up: Direction::new(self.up, up)?, down: Direction::new(self.down, down)? })
    }
}
