//! Another path for what is held: by a call, or by a scenario.

use softtimers_core::Timestamp;

use super::Direction;
use crate::aqm::{Codel, FqCodel, Pie};
use crate::scenario::Timeline;
use crate::{Aqm, PathConfig, PathError, Scenario, Way};

impl<T: Clone> Direction<T> {
    /// Another path from `now` on.
    ///
    /// Nothing that is held is lost, and nothing changes its place. What waits, waits for the new link, and
    /// of the packet on the link the same part is done; a limit that the queue exceeds now holds for what
    /// comes. What is under way arrives when it would have, and unless packets may overtake each other,
    /// those behind it wait for it. A trace begins anew unless it is the same. What was drawn at random
    /// stays drawn.
    ///
    /// # Errors
    /// [`PathError`], as [`PathConfig::check`]; then nothing changes.
    pub fn set(&mut self, now: Timestamp, path: PathConfig) -> Result<(), PathError> {
        path.check()?;
        self.advance(now);
        self.become_path(path);
        Ok(())
    }

    /// Changes the path by a scenario that begins at `now`, as its direction `way`; one that was played before ends. Each
    /// round begins with the path of now.
    ///
    /// # Errors
    /// [`PathError`], as [`PathConfig::check`], of any path that it would come to; then nothing changes.
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

    /// Another path from `latest` on, up to which the link has been worked off.
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

    /// All that waits joins the queue that there is now, in the order in which it came.
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

    /// The parameters that hold now, up to where the link has been worked off: see [`path_at`](Self::path_at).
    pub fn path(&self) -> &PathConfig {
        &self.path
    }

    /// The parameters at `now`, if a [scenario](Self::play) has changed or will change them by then.
    pub fn path_at(&self, now: Timestamp) -> PathConfig {
        self.timeline.path_at(now, &self.path)
    }
}
