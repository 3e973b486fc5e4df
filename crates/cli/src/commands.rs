//! One folder for each command: what is typed (`args`), what it does (`run`), what it reports (`show`).

pub mod sim;
