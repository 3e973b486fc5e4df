//! A web server and its load: nginx with one worker on one processor, wrk on another.

use std::error::Error;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use softtimers::{Clock, Monotonic};
use softtimers_cli::processor::Processor;

/// nginx that answers with a file of 6 KB, as the paper's servers did, until it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    nginx: Child,
    directory: PathBuf,
    url: String,
    client: Processor,
}

impl Server {
    /// Starts it on processor 0; `None` where nginx, wrk or a second processor is missing.
    pub(crate) fn start() -> Result<Option<Self>, Box<dyn Error>> {
        let there = |program: &str| {
            Command::new(program).arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status()
        };
        let Some([_, client]) = Processor::two() else { return Ok(None) };
        if ["nginx", "wrk", "setpriv"].into_iter().any(|program| there(program).is_err()) {
            return Ok(None);
        }
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let directory = std::env::temp_dir().join(format!("softtimers-bench-{}", std::process::id()));
        fs::create_dir_all(&directory)?;
        fs::write(directory.join("file"), [b'x'; 6 << 10])?;
        let here = directory.display();
        let config = format!(
            "daemon off; master_process off; worker_processes 1; pid {here}/pid; error_log {here}/error crit;\n\
             events {{ worker_connections 1024; }}\n\
             http {{ access_log off; open_file_cache max=10; keepalive_requests 1000000000; server {{\n\
             listen 127.0.0.1:{port}; root {here}; }} }}\n"
        );
        fs::write(directory.join("nginx.conf"), config)?;
        let kept = Processor::new(0)?.keep()?;
        // It ends with this process, however that ends.
        let nginx = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "nginx", "-c"])
            .arg(directory.join("nginx.conf"))
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        drop(kept);
        let server = Server {
            nginx,
            directory,
            url: format!("http://127.0.0.1:{port}/file"),
            client: Processor::new(client)?,
        };
        let patience = Monotonic.now() + Duration::from_secs(10);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if Monotonic.now() > patience {
                return Err("nginx does not answer".into());
            }
            std::thread::yield_now();
        }
        Ok(Some(server))
    }

    /// Requests a second that it answers under full load for so many seconds.
    pub(crate) fn rate(&self, seconds: u32) -> Result<f64, Box<dyn Error>> {
        let _kept = self.client.keep()?;
        let output =
            Command::new("wrk").args(["-t1", "-c16", &format!("-d{seconds}s"), &self.url]).output()?;
        let text = String::from_utf8(output.stdout)?;
        let rate = text.lines().find_map(|line| line.trim().strip_prefix("Requests/sec:"));
        Ok(rate.ok_or_else(|| format!("wrk said {text:?}"))?.trim().parse()?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.nginx.kill();
        let _ = self.nginx.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}
