//! TCP's settings of the network in which `wan` was started, for the networks that it makes.
//!
//! A new network has the kernel's defaults, whatever was set outside, and an ordinary user may not set them inside. So
//! they are read before the networks are made, and written in each of them that has programs.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;

/// The settings, `net.ipv4.tcp_*`.
#[derive(Debug)]
pub(super) struct TcpSettings(Vec<(PathBuf, String)>);

impl TcpSettings {
    /// Reads those of this thread's network; none where `/proc/sys` is hidden.
    pub(super) fn read() -> Self {
        let names = fs::read_dir(DIRECTORY).into_iter().flatten().flatten();
        let is_tcp = |name: &OsStr| name.to_str().is_some_and(|name| name.starts_with("tcp_"));
        let settings = names.filter(|entry| is_tcp(&entry.file_name()) && entry.file_name() != SECRET);
        let read = |path: PathBuf| fs::read_to_string(&path).ok().map(|value| (path, value));
        TcpSettings(settings.filter_map(|entry| read(entry.path())).collect())
    }

    /// Makes them those of this thread's network. What cannot be set there stays: sizes of tables that all networks share,
    /// and a congestion control that is not allowed to everyone as the default.
    pub(super) fn write(&self) {
        for (path, value) in &self.0 {
            if fs::read_to_string(path).is_ok_and(|present| present != *value) {
                let _ = fs::write(path, value.trim_end());
            }
        }
    }
}

const DIRECTORY: &str = "/proc/sys/net/ipv4";
/// A key, which each network draws for itself.
const SECRET: &str = "tcp_fastopen_key";
