//! `replay`: a recording, sent as one paced flow.

pub(crate) mod args;
mod run;
mod show;
