//! Switches offloads of interfaces, without a program for it.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::process::ExitCode;

use softtimers_linux::ethtool::{Offload, set_offload};

/// Tells a test, started again in a namespace, which interface is to take frames of programs.
pub const VARIABLE: &str = "SOFTTIMERS_TAKES_FRAMES";

/// Switches an offload of an interface of this thread's namespace.
pub fn set(name: &str, offload: Offload, is_on: bool) -> io::Result<()> {
    // Not of the loopback, which may be down there.
    set_offload(UdpSocket::bind("0.0.0.0:0")?.as_fd(), name, offload, is_on)
}

/// Switches the offload, in place of the tests, where [`VARIABLE`] is set.
pub fn take_frames(name: &str) -> ExitCode {
    match set(name, Offload::Gro, true) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: generic receive offload: {error}");
            ExitCode::FAILURE
        }
    }
}
