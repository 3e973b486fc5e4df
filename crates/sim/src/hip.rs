//! HIP.
mod account;
mod experiment;
pub mod fit;
pub mod paper;
mod receiver;
mod scheme;
mod timing;
pub mod traces;
pub use account::Account;
pub use experiment::HIP;
pub use receiver::{Event, Receiver};
pub use scheme::{Scheme, Settings};
pub use timing::{Passing, Soft, Timing};
