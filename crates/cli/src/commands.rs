//! The commands, a folder each: `args` is what is typed and what it means, `run` what is done, `show` what is told.

pub(crate) mod bench;
pub(crate) mod capture;
pub(crate) mod doctor;
pub(crate) mod documents;
pub(crate) mod echo;
pub(crate) mod forward;
pub(crate) mod noise;
pub(crate) mod probe;
mod receiving;
pub(crate) mod recv;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod send;
pub(crate) mod sim;
pub(crate) mod wan;
