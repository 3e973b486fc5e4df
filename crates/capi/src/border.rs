//! The functions of the header. Each file is one of its sections, in this order; doc comments here become
//! comments there.

pub mod clock;

pub mod timers;

pub mod backup;

pub mod pace;

pub mod capacity;

pub mod flows;

pub mod policy;

pub mod limits;

pub mod histogram;

pub mod callouts;

pub mod itimers;

pub mod wan;
