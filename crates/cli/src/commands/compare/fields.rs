//! The labels of a comparison.

use softtimers_run::field::{Field, field};

/// All of them. Each file has a column of its own.
pub(crate) const FIELDS: &[&[Field]] = &[&[
    field("key", "", "The key of the figure in the objects."),
    field("1, 2, 3, 4, 5, 6, 7, 8, 9", "", "The figure in each file, in the order in which they were given."),
    field(
        "last : first",
        "ratio",
        "The figure of the last file by that of the first; a dash where that is zero.",
    ),
]];
