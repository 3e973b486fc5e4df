//! A web server and its load: nginx on one CPU, wrk on another.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use softtimers::{Clock, Monotonic};
use softtimers_papers_bench::bench::Done;

use crate::Bench;
use crate::analogues::Running;

/// nginx that answers with a file of 6 KB, as the paper's servers did, until it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    /// `None` once it has been ended.
    nginx: Option<Running>,
    directory: PathBuf,
    url: String,
}

impl Server {
    /// Starts it with `workers` workers; `None` where nginx or wrk is missing.
    pub(crate) fn start(bench: &Bench, workers: u32) -> Done<Option<Self>> {
        if ["nginx", "wrk", "setpriv"].into_iter().any(|program| !there(program)) {
            return Ok(None);
        }
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let directory = std::env::temp_dir().join(format!("softtimers-bench-{}-{port}", std::process::id()));
        fs::create_dir_all(&directory)?;
        fs::write(directory.join("file"), [b'x'; 6 << 10])?;
        let here = directory.display();
        let config = format!(
            "daemon off; master_process {}; worker_processes {workers}; pid {here}/pid; error_log {here}/error crit;\n\
             user root; events {{ worker_connections 1024; }}\n\
             http {{ access_log off; open_file_cache max=10; keepalive_requests 1000000000; server {{\n\
             listen 127.0.0.1:{port}; root {here}; }} }}\n",
            if workers == 1 { "off" } else { "on" }
        );
        fs::write(directory.join("nginx.conf"), config)?;
        let mut nginx = Command::new("setpriv");
        // It ends with this process in any case, and then ends its workers.
        nginx.args(["--pdeathsig", "TERM", "nginx", "-c"]).arg(directory.join("nginx.conf"));
        let nginx = Running::start(bench.server, &mut nginx)?;
        let patience = Monotonic.now() + Duration::from_secs(10);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if Monotonic.now() > patience {
                return Err("nginx does not answer".into());
            }
            std::thread::yield_now();
        }
        let url = format!("http://127.0.0.1:{port}/file");
        Ok(Some(Server { nginx: Some(nginx), directory, url }))
    }

    /// Returns the requests a second that it answers under full load for `seconds` seconds.
    pub(crate) fn rate(&self, seconds: u32) -> Done<f64> {
        let output = self.wrk(true, seconds).output()?;
        let text = String::from_utf8(output.stdout)?;
        let rate = text.lines().find_map(|line| line.trim().strip_prefix("Requests/sec:"));
        Ok(rate.ok_or_else(|| format!("wrk said {text:?}"))?.trim().parse()?)
    }

    /// Starts a load without an end, until it is dropped: over sixteen persistent connections, or one for each request,
    /// as the paper's clients had.
    pub(crate) fn load(&self, bench: &Bench, kept: bool) -> Done<Running> {
        Ok(Running::start(bench.client, &mut self.wrk(kept, 3_600))?)
    }

    fn wrk(&self, kept: bool, seconds: u32) -> Command {
        let mut wrk = Command::new("setpriv");
        wrk.args(["--pdeathsig", "KILL", "wrk", "-t1", "-c16", &format!("-d{seconds}s")]);
        if !kept {
            wrk.args(["-H", "Connection: close"]);
        }
        wrk.arg(&self.url);
        wrk
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // First, since it writes there.
        self.nginx = None;
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Says whether there is such a program.
pub(crate) fn there(program: &str) -> bool {
    Command::new(program).arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}
