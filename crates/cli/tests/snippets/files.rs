//! The files that command lines of the pages read: those that a page shows, and small ones of the kind that it means.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use etherparse::PacketBuilder;

use crate::captures::{LITTLE, NANOSECONDS, Packet, pcapng};
use crate::pages::{Page, root};

/// All of them.
#[derive(Debug)]
pub(crate) struct Files(Vec<File>);

#[derive(Debug)]
struct File {
    name: String,
    content: Vec<u8>,
    /// What a command line has that needs it; its name, if this is `None`.
    used_by: Option<&'static str>,
}

impl Files {
    /// Reads from the pages what these show, and makes the others.
    pub(crate) fn of(pages: &[Page]) -> Self {
        let shown = |language: &str| -> Vec<String> {
            pages.iter().flat_map(|page| page.snippets(language)).map(|snippet| snippet.text).collect()
        };
        let mut files = vec![];
        let mut lay = |name: &str, used_by, content: &[u8]| {
            files.push(File { name: name.to_owned(), content: content.to_vec(), used_by });
        };
        for text in shown("toml") {
            // Their first line is their name.
            if let Some(name) = text.lines().next().and_then(|line| line.strip_prefix("# ")) {
                lay(name, None, text.as_bytes());
            }
        }
        let proxies = shown("json").into_iter().find(|text| text.contains("\"upstream\""));
        lay("proxies.json", None, proxies.expect("docs/wan.md shows a list of proxies").as_bytes());
        let rules = shown("text").into_iter().find(|text| text.ends_with("\nreject"));
        lay("screen.rules", None, rules.expect("docs/forward.md shows a file of rules").as_bytes());
        lay("LTE.up", Some("train.toml"), b"1\n2\n");
        let phases: String = (0..500).map(|phase| format!("{},0\n", phase * 1_000)).collect();
        lay("phases.csv", None, format!("t_us,len\n{phases}").as_bytes());
        lay("trace.csv", Some("trace.csv.zst"), b"t_us,len\n0,100\n1000,200\n2000,300\n");
        lay(
            "Makefile",
            Some("make -j"),
            b"all: one two\none two:\n\t@for i in 1 2 3 4 5 6 7 8 9; do /bin/true; done\n",
        );
        let packets: Vec<Packet> =
            (0..200).map(|number| (1_795_000_000_000_000_000 + number * 1_000_000, 214)).collect();
        lay("call.pcapng", None, &pcapng(LITTLE, &[NANOSECONDS], 68, &packets));
        lay("big.pcap", None, &datagrams(&packets));
        Files(files)
    }

    /// Lays into a directory the files that this text needs, and the project's folders that it can name; without a text, all
    /// files.
    ///
    /// # Errors
    /// If they cannot be written.
    pub(crate) fn lay(&self, directory: &Path, text: Option<&str>) -> io::Result<()> {
        for File { name, content, used_by } in &self.0 {
            if text.is_none_or(|text| text.contains(used_by.unwrap_or(name))) {
                fs::write(directory.join(name), content)?;
            }
        }
        if text.is_some_and(|text| text.contains("trace.csv.zst")) {
            // Where there is no zstd, there is no zstdcat to read it either.
            let _ = Command::new("zstd").args(["-q", "--rm", "trace.csv"]).current_dir(directory).status();
        }
        for folder in ["crates", "examples", "papers"] {
            symlink(root().join(folder), directory.join(folder))?;
        }
        Ok(())
    }
}

/// A capture of datagrams to port 5004, which a filter of tcpdump's finds.
fn datagrams(packets: &[Packet]) -> Vec<u8> {
    let four = |numbers: &[u32]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
    // Version 2.4, microseconds, Ethernet.
    let mut file = four(&[0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 65_535, 1]);
    for &(nanos, length) in packets {
        let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
            .ipv4([192, 0, 2, 1], [192, 0, 2, 7], 64)
            .udp(5004, 5004);
        let mut frame = vec![];
        builder.write(&mut frame, &vec![0; length as usize - 42]).expect("a short frame");
        let (seconds, micros) = (nanos / 1_000_000_000, nanos % 1_000_000_000 / 1_000);
        file.extend(four(&[seconds as u32, micros as u32, length, length]));
        file.extend(frame);
    }
    file
}
