//! Changes of the path while packets are held: by a call, or by a scenario.

use std::time::Duration;

use softtimers_core::Timestamp;

use super::Direction;
use crate::aqm::{Codel, FqCodel, Pie};
use crate::scenario::Timeline;
use crate::{Aqm, PathConfig, PathError, Scenario, Way};

impl<T: Clone> Direction<T> {
    /// Changes the path from `now` on.
    ///
    /// No held packet is lost or reordered. Waiting packets wait for the new link, and the packet on the link keeps the
    /// share of it that is done; if the queue exceeds a new limit, the limit applies to new packets. Packets under way
    /// arrive at their old times, and unless packets may overtake each other, those behind wait for them. A trace
    /// begins anew unless it is the same. Random draws already made stay.
    ///
    /// # Errors
    /// [`PathError`], as [`PathConfig::check`]; then nothing changes.
    pub fn set(&mut self, now: Timestamp, path: PathConfig) -> Result<(), PathError> {
        path.check()?;
        self.advance(now);
        self.become_path(path);
        Ok(())
    }

    /// Changes the path by a scenario that begins at `now`, for this direction, `way`; it replaces an earlier scenario.
    /// Each round begins with the current path.
    ///
    /// # Errors
    /// [`PathError`], as [`PathConfig::check`], of any path that the scenario leads to; then nothing changes.
    pub fn play(&mut self, now: Timestamp, scenario: &Scenario, way: Way) -> Result<(), PathError> {
        let timeline = self.timeline(now, scenario, way)?;
        self.follow(timeline);
        Ok(())
    }

    pub(crate) fn timeline(
        &mut self,
        now: Timestamp,
        scenario: &Scenario,
        way: Way,
    ) -> Result<Timeline, PathError> {
        self.advance(now);
        Timeline::new(self.latest, scenario, way, &self.path)
    }

    pub(crate) fn follow(&mut self, timeline: Timeline) {
        self.timeline = timeline;
    }

    /// Returns when the next change after `now` is due.
    pub(crate) fn next_change(&self, now: Timestamp) -> Option<Timestamp> {
        self.timeline.next_after(now)
    }

    /// Makes all further changes sooner by this time, unless they would have begun before the clock did.
    pub(crate) fn hurry(&mut self, by: Duration) -> bool {
        self.timeline.hurry(by)
    }

    /// Switches to another path at `latest`, up to which the link has been processed.
    pub(super) fn become_path(&mut self, path: PathConfig) {
        self.look_at_wait();
        let serving = self.serving.as_ref().map(|(done, packet)| (*done, self.on_link(packet.bytes)));
        let through = self.link.change(self.latest, &path.bottleneck, path.burst, serving);
        if let (Some((done, _)), Some(through)) = (&mut self.serving, through) {
            *done = through;
        }
        let is_new = (self.path.aqm, self.path.overhead) != (path.aqm, path.overhead);
        if self.path.aqm != path.aqm {
            (self.codel, self.pie) = (Codel::default(), Pie::default());
        }
        self.path = path;
        if is_new {
            self.wait_anew();
        }
        self.expect_wait();
    }

    /// Moves all waiting packets into the queue of the new path, in order of arrival.
    pub(super) fn wait_anew(&mut self) {
        let mut all: Vec<_> = self.waiting.drain(..).collect();
        all.extend(self.fair.take().into_iter().flat_map(|fair| fair.into_packets()));
        all.sort_unstable_by_key(|packet| packet.number);
        if let Aqm::FqCodel(config) = self.path.aqm {
            self.fair = Some(Box::new(FqCodel::new(self.salt, &config)));
        }
        self.waiting_bytes = 0;
        all.into_iter().for_each(|packet| self.wait(packet));
    }

    /// Returns the current parameters, as of the time up to which the link has been processed: see
    /// [`path_at`](Self::path_at).
    pub fn path(&self) -> &PathConfig {
        &self.path
    }

    /// Returns the parameters at `now`, including changes that a [scenario](Self::play) makes by then.
    pub fn path_at(&self, now: Timestamp) -> PathConfig {
        self.timeline.path_at(now, &self.path)
    }
}
