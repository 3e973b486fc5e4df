//! What a run serves besides carrying: the control socket, the recorder, and the keys of the screen.

use softtimers::Timestamp;
use softtimers_measure::failure::Failure;
use softtimers_wan::{Change, Ended, PathConfig, PathError, Way};

use super::control::{Request, request};
use super::live::{self, Key};
use super::record::Recorder;
use super::run::{CONTROL, Emulator, FIRST_CONNECTION, KEYS, not_watched};
use crate::control::{Control, DEAF, MOST_CONNECTIONS};

impl Emulator {
    /// Listens to the control socket, if requested.
    pub(super) fn take_control(&mut self) -> Result<(), Failure> {
        let Some(path) = self.plan.control.as_deref() else { return Ok(()) };
        let refused = |error| Failure::usage(format_args!("--control {}: {error}", path.display()));
        let control = Control::bind(path).map_err(refused)?;
        self.relay.watch(&control, CONTROL).map_err(not_watched)?;
        self.control = Some(control);
        Ok(())
    }

    /// Returns when something is due besides carrying.
    pub(super) fn next_look(&self) -> Option<Timestamp> {
        let recorders = self.recorder.iter().chain(&self.recent);
        recorders.map(Recorder::next).chain(self.deaf_until).min()
    }

    /// Serves what is ready, and samples if it is time. Returns whether the user has asked for the end.
    pub(super) fn tend(&mut self, ended: Ended, now: Timestamp) -> bool {
        let mut is_over = false;
        match ended {
            Ended::Watched(CONTROL) => self.accept(now),
            Ended::Watched(KEYS) => is_over = self.obey(),
            Ended::Watched(number @ FIRST_CONNECTION..) => self.serve((number - FIRST_CONNECTION) as usize),
            _ => {}
        }
        for recorder in self.recorder.iter_mut().chain(&mut self.recent) {
            recorder.look(&self.relay, now);
        }
        if self.deaf_until.is_some_and(|until| now >= until) {
            self.listen_again(now);
        }
        is_over
    }

    /// Does what the pressed keys ask for.
    fn obey(&mut self) -> bool {
        let Some(mut screen) = self.screen.take() else { return false };
        let mut is_over = false;
        for key in screen.keys() {
            let done = match key {
                Key::Worse => self.change(None, |path| live::changed(path, true)).map(|()| "worse"),
                Key::Better => self.change(None, |path| live::changed(path, false)).map(|()| "better"),
                Key::Outage => {
                    let is_out = self.relay.path(Way::Up).outage;
                    self.change(None, |path| path.outage = !is_out)
                        .map(|()| if is_out { "the outage is over" } else { "outage: nothing gets through" })
                }
                Key::NextStep => Ok(match self.relay.skip() {
                    true => "the scenario's next step",
                    false => "the scenario has no further step",
                }),
                Key::End => {
                    is_over = true;
                    Ok("")
                }
            };
            screen.say(done.map_or_else(|error| error.to_string(), str::to_owned));
        }
        self.screen = Some(screen);
        is_over
    }

    /// Changes the path in one direction or in both; in both or none.
    fn change(&mut self, way: Option<Way>, change: impl Fn(&mut PathConfig)) -> Result<(), PathError> {
        let ways = [Way::Up, Way::Down].into_iter().filter(|&each| way.is_none_or(|way| way == each));
        let paths: Vec<(Way, PathConfig)> = ways
            .map(|way| {
                let mut path = self.relay.path(way);
                change(&mut path);
                (way, path)
            })
            .collect();
        paths.iter().try_for_each(|(_, path)| self.plan.ends.check(path))?;
        paths.into_iter().try_for_each(|(way, path)| self.relay.set(way, path))
    }

    /// Accepts a connection. Without a free descriptor it stays queued, and would be reported for ever.
    fn accept(&mut self, now: Timestamp) {
        let Some(control) = &mut self.control else { return };
        match control.accept() {
            Ok(None) => {}
            Ok(Some((number, stream))) => {
                if self.relay.watch(&stream, FIRST_CONNECTION + number as u32).is_err() {
                    control.close(number);
                }
            }
            Err(_) => {
                let deaf = self.relay.unwatch(control).is_ok();
                self.deaf_until = deaf.then(|| now + DEAF);
            }
        }
    }

    fn listen_again(&mut self, now: Timestamp) {
        let Some(control) = &self.control else { return };
        let heard = self.relay.watch(control, CONTROL).is_ok();
        self.deaf_until = (!heard).then(|| now + DEAF);
    }

    fn serve(&mut self, number: usize) {
        let Some(mut control) = self.control.take() else { return };
        control.serve(number.min(MOST_CONNECTIONS), |line| match request(line) {
            Err(problem) => format!("error: {problem}"),
            Ok(Request::Show) => serde_json::to_string(&self.report()).unwrap_or_default(),
            Ok(Request::Set(way, changes)) => {
                let apply =
                    |path: &mut PathConfig| changes.iter().for_each(|change: &Change| change.apply(path));
                self.change(way, apply).map_or_else(|error| format!("error: {error}"), |()| "ok".into())
            }
        });
        self.control = Some(control);
    }
}
