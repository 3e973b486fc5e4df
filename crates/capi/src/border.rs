//! The functions of the header. Each file is one of its sections, in this order; doc comments here become
//! comments there.

pub(crate) mod clock;

pub(crate) mod timers;

pub(crate) mod backup;

pub(crate) mod pace;

pub(crate) mod capacity;

pub(crate) mod flows;

pub(crate) mod policy;

pub(crate) mod limits;

pub(crate) mod histogram;

pub(crate) mod callouts;

pub(crate) mod itimers;

pub(crate) mod wan;
