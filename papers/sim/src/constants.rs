//! **Every constant of the simulated machines**, in one list: [`LIST`], and the same as a type, `Machine`.
//!
//! A simulation agrees with a paper for one of two reasons: the mechanism produces the figure, or a constant
//! was chosen to produce it. Only the first is evidence. So each constant states the source of its value
//! here: a paper's text, a standard, a guess, or a figure that it was fitted to. The papers' experiments
//! contain no numbers; they take them from the machine of their [`Parameters`](crate::Parameters), whose
//! fields are this list. To add one, write its line, with the figures that it moves; a test changes each
//! constant and checks which figures change, and `papers/docs/papers.md` is marked from that.
//!
//! A parameter is set by the user: a rate, a quota, a duration. A constant that is a parameter's default
//! names its flag. The policies' own parameters, such as HIP's α, are `softtimers_core`'s presets.

#[cfg(test)]
mod changed;
mod figure;
mod list;
mod quantity;
mod table;

use crate::setting::Setting;

pub use figure::Figure;
pub use list::LIST;
pub(crate) use list::*;

/// The source of a constant's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A paper states it, in this place.
    Paper(&'static str),
    /// A standard or the system of the time defines it.
    Standard(&'static str),
    /// It was chosen to produce these figures, as the text says. So their agreement is no evidence.
    Fitted(&'static [Figure], &'static str),
    /// No source states it; the text says why this value.
    Guess(&'static str),
}

/// One line of the list.
#[derive(Clone, Copy, Debug)]
pub struct Constant {
    /// The name of the machine that it belongs to.
    pub section: &'static str,
    /// The name within the section.
    pub name: &'static str,
    /// The unit of the value, or what it counts.
    pub unit: &'static str,
    /// The source of the value.
    pub origin: Origin,
    /// The figures that change if the constant does; no others do.
    pub moves: &'static [Figure],
    value: fn(&Machine) -> String,
    /// The experiments' flags of which it is the default.
    pub(crate) flags: &'static [(&'static str, &'static str)],
    /// Returns a machine on which the constant is larger by a percentage.
    #[cfg(test)]
    pub(crate) changed: fn(&Machine, u32) -> Machine,
    /// The value in a machine, for a flag.
    pub(crate) setting: fn(&Machine) -> Option<Setting>,
}

impl Constant {
    /// Returns the value in human-readable form.
    pub fn value(&self) -> String {
        (self.value)(&Machine::PAPERS)
    }

    /// Returns the figures that it was fitted to.
    pub fn fitted_to(&self) -> &'static [Figure] {
        match self.origin {
            Origin::Fitted(figures, _) => figures,
            _ => &[],
        }
    }
}
