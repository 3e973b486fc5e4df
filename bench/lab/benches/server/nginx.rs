//! nginx on the server's host: [`Nginx`], one process with the paper's file.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use softtimers::{Clock, Monotonic};
use softtimers_lab::bench::Done;
use softtimers_lab::server::FILE;
use softtimers_lab::server::cable::{Cable, SERVERS};
use softtimers_trials::command::{Killed, pause, start};

/// A running nginx, ended when it is dropped.
#[derive(Debug)]
pub(crate) struct Nginx {
    server: Option<Killed>,
    directory: PathBuf,
}

impl Nginx {
    /// Says whether it is installed.
    pub(crate) fn is_there() -> bool {
        Command::new("nginx").arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    }

    /// Starts it on the CPUs of the calling thread, and waits until it listens at the address.
    pub(crate) fn start(cable: &Cable) -> Done<(Self, SocketAddr)> {
        let directory = std::env::temp_dir().join(format!("softtimers-nginx-{}", std::process::id()));
        fs::create_dir_all(&directory)?;
        fs::write(directory.join("file"), FILE)?;
        let here = directory.display();
        let config = format!(
            "daemon off; master_process off; pid {here}/pid; error_log {here}/error crit;\n\
             user root; events {{ worker_connections 4096; }}\n\
             http {{ access_log off; open_file_cache max=10; keepalive_requests 1000000000; server {{\n\
             listen {}:{PORT} backlog=4096; root {here}; }} }}\n",
            SERVERS[0]
        );
        let file = directory.join("nginx.conf");
        fs::write(&file, config)?;
        let mut nginx = Nginx { server: None, directory };
        let pid = nginx.directory.join("pid");
        let words = ["--pdeathsig", "KILL", "nginx", "-c", &file.to_string_lossy()];
        nginx.server = Some(start(&mut cable.command("setpriv".as_ref(), &words))?);
        let patience = Monotonic.now() + Duration::from_secs(10);
        // It writes its process id when it listens.
        while !pid.exists() {
            if Monotonic.now() > patience {
                return Err("nginx does not begin".into());
            }
            pause(Duration::from_millis(1));
        }
        Ok((nginx, SocketAddr::from((SERVERS[0], PORT))))
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // First, since it writes there.
        self.server = None;
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// A port on a host without other programs.
const PORT: u16 = 8_080;
