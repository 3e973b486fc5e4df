//! Shared by the examples: an event that is moved ([`Alarm`]), the figures for the comparison ([`Spacing`],
//! [`Sorted`]), and their output ([`table`]).
//!
//! Using softtimers needs none of this; only an example that compares two ways has to wait in both, and to measure both
//! by the same rule.

mod alarm;
mod spacing;
mod table;
pub mod trial;

pub use alarm::Alarm;
pub use spacing::{Sorted, Spacing};
pub use table::table;
