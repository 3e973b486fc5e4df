//! `sftp` and `ssh`, unmodified, behind the path: the server is `sshd` at the other end, by the same user.

use std::fs;

use crate::common::{skipped, stderr};
use crate::inside::{ScratchDirectory, lacks, text};

/// Without the rights of root `sshd` serves the user who started it, and its own `sftp` needs no shell.
const SERVER: &str = "\
set -e; umask 077; here=$(pwd)
ssh-keygen -q -t ed25519 -N '' -f host; ssh-keygen -q -t ed25519 -N '' -f key; cp key.pub allowed
cat > config <<END
HostKey $here/host
AuthorizedKeysFile $here/allowed
StrictModes no
UsePAM yes
PidFile none
Subsystem sftp internal-sftp
END
exec \"$(PATH=$PATH:/usr/sbin:/sbin command -v sshd)\" -D -e -p 2222 -f \"$here/config\"";

#[test]
fn sftp_fetches_a_file_through_losses() {
    let no_server = !["/usr/sbin/sshd", "/sbin/sshd"].iter().any(|path| fs::exists(path).unwrap_or(false));
    if lacks("sftp") || lacks("ssh-keygen") || (no_server && lacks("sshd")) {
        return;
    }
    let place = ScratchDirectory::new();
    fs::write(place.0.join("served"), vec![7; 100_000]).unwrap();
    fs::write(place.0.join("orders"), format!("get {0}/served {0}/got\n", place.0.display())).unwrap();
    let options = [
        "UserKnownHostsFile=/dev/null",
        "StrictHostKeyChecking=no",
        "IdentityFile=key",
        "IdentitiesOnly=yes",
    ];
    let options: Vec<&str> = options.iter().flat_map(|option| ["-o", option]).collect();
    let words = [
        &["--peer", SERVER, "--", "sftp", "-q", "-F", "none", "-P", "2222"][..],
        &options,
        &["-b", "orders", "peer"],
    ];
    let Some(output) = place.run("--rtt 20ms --loss 2% --seed 7", &words.concat()) else { return };
    if stderr(&output).contains("not allowed because") {
        return skipped("sshd lets this user in nowhere");
    }
    assert!(output.status.success(), "{}{}", text(&output.stdout), stderr(&output));
    assert_eq!(fs::read(place.0.join("got")).unwrap(), vec![7; 100_000]);
}
