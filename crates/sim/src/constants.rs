//! **Every constant of the simulated machines**, in one list: [`LIST`], and the same as a type, [`Machine`].
//!
//! A simulation agrees with a paper for one of two reasons: the mechanism gives the figure, or a constant was chosen so
//! that it does. Only the first shows anything. So each constant says here where its value is from: a paper's text, a
//! standard, a guess, or a figure that it was fitted to. Experiments have no numbers of their own; they take them from the
//! [`Machine`] of their [`Parameters`], whose fields are this list. To add one, write its line, with the figures that it
//! moves; a test changes each constant and looks which figures do, and `docs/papers.md` is marked from it.
//!
//! What a user sets is a parameter: a rate, a quota, a duration. A constant that is a parameter's default names its flag.
//! The policies' own parameters, such as HIP's α, are `softtimers_core`'s presets.

mod figure;
mod list;
mod quantity;
mod runs;
mod table;

use crate::parameter::{Parameter, Parameters, Setting};

pub use figure::Figure;
pub use list::{
    Acks, Burst, Callout, Deadline, Framerate, Hip, HipTraces, LIST, Livelock, Machine, Monitor, Noise,
    Pacing, Path, Polling,
};

/// Where a value is from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A paper says so: which, and where.
    Paper(&'static str),
    /// A standard, or the system of the time.
    Standard(&'static str),
    /// It was chosen so that these figures come out, in the way that the text says. That they do shows nothing.
    Fitted(&'static [Figure], &'static str),
    /// Nobody says; why this value.
    Guess(&'static str),
}

/// A line of the list.
#[derive(Clone, Copy, Debug)]
pub struct Constant {
    /// Whose: the field of [`Machine`].
    pub section: &'static str,
    /// The field of that.
    pub name: &'static str,
    /// Of the value.
    pub unit: &'static str,
    /// Where it is from.
    pub origin: Origin,
    /// The experiments' flags of which it is the default.
    pub flags: &'static [(&'static str, &'static str)],
    /// What changes if it does: these and no others.
    pub moves: &'static [Figure],
    /// The value in a machine, as people read it.
    pub value: fn(&Machine) -> String,
    /// A machine in which it is so many percent more.
    pub changed: fn(&Machine, u32) -> Machine,
    /// The value in a machine, for a flag.
    setting: fn(&Machine) -> Option<Setting>,
}

impl Constant {
    /// The figures that it was fitted to.
    pub fn fitted_to(&self) -> &'static [Figure] {
        match self.origin {
            Origin::Fitted(figures, _) => figures,
            _ => &[],
        }
    }
}

impl Parameters {
    /// The defaults of an experiment on another machine.
    #[must_use]
    pub fn on(experiment: &str, parameters: &[Parameter], machine: &Machine) -> Self {
        let mut all = Parameters::new(parameters);
        for constant in LIST {
            for (_, flag) in constant.flags.iter().filter(|(of, _)| *of == experiment) {
                let setting = (constant.setting)(machine);
                all = all.with(flag, setting.unwrap_or_else(|| panic!("{flag}: no value of a flag")));
            }
        }
        all.with_machine(*machine)
    }
}

#[cfg(test)]
mod tests;
