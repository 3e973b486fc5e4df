//! Parts that the examples share: an event that is moved about ([`Alarm`]), the figures by which they judge
//! ([`Spacing`], [`Sorted`]), and how they print them ([`table`]).
//!
//! None of it is needed to use softtimers; an example that compares two ways of doing something only has to
//! wait in both and to measure both by the same rule.

mod alarm;
mod spacing;
mod table;
pub mod trial;

pub use alarm::Alarm;
pub use spacing::{Sorted, Spacing};
pub use table::table;
