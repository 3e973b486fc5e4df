//! Errors in the name or the settings of a policy.

use core::fmt;

/// Why a name is not that of a policy, or a policy or a queue's feedback cannot be made with these settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PolicyError {
    /// No policy has this name.
    UnknownName {
        /// The known names, each with its description.
        allowed: &'static [(&'static str, &'static str)],
    },
    /// The policy has no default for a setting.
    Missing {
        /// The setting's name.
        setting: &'static str,
    },
    /// No queue of this capacity can have these marks.
    Marks {
        /// The queue's capacity in packets.
        capacity: u32,
        /// The high-water mark, which is from 1 to the capacity.
        high: u32,
        /// The low-water mark, which is below the high one.
        low: Option<u32>,
    },
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicyError::UnknownName { allowed } => {
                f.write_str("one of ")?;
                for (at, (name, _)) in allowed.iter().enumerate() {
                    f.write_str(if at == 0 { "" } else { ", " })?;
                    f.write_str(name)?;
                }
                f.write_str(" is allowed")
            }
            PolicyError::Missing { setting } => write!(f, "this policy needs {setting}=…"),
            PolicyError::Marks { capacity, high, low: Some(low) } => {
                write!(f, "marks {high} and {low} of a queue of {capacity}: low < high ≤ capacity")
            }
            PolicyError::Marks { capacity, high, low: None } => {
                write!(f, "a mark of {high} of a queue of {capacity}: 1 ≤ high ≤ capacity")
            }
        }
    }
}

impl core::error::Error for PolicyError {}
