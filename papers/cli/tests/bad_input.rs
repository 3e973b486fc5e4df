//! Input that is wrong is refused in a line that names it.

mod common;

use common::{refusal, run};

#[test]
fn a_directory_where_a_file_is_wanted() {
    let directory = std::env::temp_dir();
    let message = refusal(&run(&format!("sim livelock --out {}", directory.display())), 2);
    for part in [&directory.display().to_string(), "a directory, not a file"] {
        assert!(message.contains(part), "{message}");
    }
}
