//! The roles of this program as a helper of itself: [`Role`], a hidden command.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use clap::Subcommand;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, unmount,
};
use rustix::process::{WaitOptions, wait};
use rustix::thread::{CapabilitySet, capabilities, configure_capability_in_ambient_set, set_capabilities};
use softtimers_linux::namespace::{unshare_mounts, unshare_processes};
use softtimers_measure::failure::Failure;

use super::{gateway, myself, wait_for};
use crate::run::output::say;

/// A role of a helper. Each ends with its stdin, whose other end `wan` holds.
#[derive(Subcommand, Debug)]
pub(crate) enum Role {
    /// Create the PID namespace and its init
    Keeper,
    /// Reap orphaned processes
    Init,
    /// Give a command its names and become it
    Command {
        /// Names that are known there: NAME=ADDRESS
        #[arg(long = "name", value_parser = name)]
        names: Vec<(String, IpAddr)>,
        /// The name server
        #[arg(long)]
        dns: Option<Ipv4Addr>,
        /// The command
        #[arg(last = true, required = true)]
        words: Vec<OsString>,
    },
    /// Run the gateways that stdin names, one after the other
    Gateway,
}

fn name(text: &str) -> Result<(String, IpAddr), String> {
    let (name, address) = text.split_once('=').ok_or("NAME=ADDRESS")?;
    Ok((name.to_owned(), address.parse().map_err(|error| format!("{address}: {error}"))?))
}

/// Plays a role until its end.
///
/// # Errors
/// The failure that prevents it.
pub(crate) fn run(role: &Role) -> Result<ExitCode, Failure> {
    let broke_off = |what| move |error: io::Error| Failure::broke_off(what, &error);
    match role {
        Role::Keeper => keep().map_err(broke_off("keeping the processes inside")),
        Role::Init => reap().map_err(broke_off("reaping the processes inside")),
        Role::Gateway => gateway::serve().map_err(broke_off("running a gateway")),
        Role::Command { names, dns, words } => return Ok(become_command(names, *dns, words)),
    }
    .map(|()| ExitCode::SUCCESS)
}

/// The init inherits stdin, so that both end with it.
fn keep() -> io::Result<()> {
    unshare_processes()?;
    let mut init = myself("init").stdin(Stdio::inherit()).stdout(Stdio::null()).spawn()?;
    io::stdout().write_all(READY)?;
    io::stdout().flush()?;
    init.wait().map(drop)
}

/// The keeper's message once there is an init.
pub(super) const READY: &[u8] = b"ready\n";

/// Reaps until stdin ends; with the init's end the kernel kills all others inside.
fn reap() -> io::Result<()> {
    let (readable, written) = UnixStream::pair()?;
    signal_hook::low_level::pipe::register(signal_hook::consts::SIGCHLD, written)?;
    readable.set_nonblocking(true)?;
    let stdin = io::stdin();
    loop {
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        if wait_for(&[stdin.as_fd(), readable.as_fd()])?[0] {
            return Ok(());
        }
        while (&readable).read(&mut [0; 64]).is_ok_and(|read| read > 0) {}
    }
}

/// Becomes the command, as the user and without this helper's privileges; otherwise returns a shell's exit code.
fn become_command(names: &[(String, IpAddr)], dns: Option<Ipv4Addr>, words: &[OsString]) -> ExitCode {
    if let Err(error) = mount_names(names, dns) {
        let known: String = names.iter().map(|(name, address)| format!("; {name} is {address}")).collect();
        say(format_args!("softtimers: names inside: {error}{known}"));
    }
    if let Err(error) = give_up() {
        say(format_args!("softtimers: giving up privileges: {error}"));
        return ExitCode::FAILURE;
    }
    let error = Command::new(&words[0]).args(&words[1..]).exec();
    say(format_args!("softtimers: -- {}: {error}", words[0].to_string_lossy()));
    ExitCode::from(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 })
}

/// Creates private mounts in which `/etc/hosts` has the names, `/etc/resolv.conf` the name server, and `/proc` the
/// processes inside.
fn mount_names(names: &[(String, IpAddr)], dns: Option<Ipv4Addr>) -> io::Result<()> {
    unshare_mounts()?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    let hosts = (!names.is_empty()).then(|| {
        let lines: String = names.iter().map(|(name, address)| format!("{address} {name}\n")).collect();
        // The first line with a name counts.
        lines + &fs::read_to_string("/etc/hosts").unwrap_or_default()
    });
    let options = |line: &&str| line.starts_with("search") || line.starts_with("options");
    let resolver = dns.map(|server| {
        let before = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
        let kept: String = before.lines().filter(options).map(|line| format!("{line}\n")).collect();
        format!("{kept}nameserver {server}\n")
    });
    // Files in memory, private to these mounts, with which they end.
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", SPARE, "tmpfs", flags, c"mode=0755")?;
    let bound = [bind(hosts, "/etc/hosts"), bind(resolver, "/etc/resolv.conf")];
    let failed: Vec<String> = bound.into_iter().filter_map(|bound| Some(bound.err()?.to_string())).collect();
    if dns.is_some() || !names.is_empty() {
        // Queries to a service of this machine would bypass the path.
        for service in ["/run/systemd/resolve", "/run/nscd"].iter().filter(|path| Path::new(path).is_dir()) {
            let _ = hide(service);
        }
    }
    unmount(SPARE, UnmountFlags::DETACH)?;
    // Where a container hides parts of it, the old one stays, which shows these processes under other ids.
    let _ = mount("proc", "/proc", "proc", flags | MountFlags::NOEXEC, None);
    if failed.is_empty() { Ok(()) } else { Err(io::Error::other(failed.join("; "))) }
}

/// A directory that exists everywhere, used briefly before it gets its own mount.
const SPARE: &str = "/proc";

/// Mounts a file over another; a link is followed.
fn bind(content: Option<String>, at: &str) -> io::Result<()> {
    let Some(content) = content else { return Ok(()) };
    let file = format!("{SPARE}/{}", at.replace('/', "-"));
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{at}: {error}"));
    fs::write(&file, content).and_then(|()| Ok(mount_bind(&file, at)?)).map_err(named)
}

/// Hides sockets in a directory, but not its bound file.
fn hide(directory: &str) -> io::Result<()> {
    for entry in fs::read_dir(directory)?.flatten() {
        use std::os::unix::fs::FileTypeExt;
        if entry.file_type().is_ok_and(|kind| kind.is_socket()) {
            bind(Some(String::new()), &entry.path().to_string_lossy())?;
        }
    }
    Ok(())
}

/// Gives up the right to mount. Root regains all capabilities when it becomes the command, but only over these
/// namespaces.
fn give_up() -> io::Result<()> {
    let held = capabilities(None)?;
    configure_capability_in_ambient_set(CapabilitySet::SYS_ADMIN, false)?;
    let sets = rustix::thread::CapabilitySets { inheritable: CapabilitySet::empty(), ..held };
    Ok(set_capabilities(None, sets)?)
}
