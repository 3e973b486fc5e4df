//! papers/docs/sim-output.md: every label that a command prints, from the same catalogue as the manual pages. `cargo xtask output` writes it.

use std::fs;
use std::path::Path;

use clap::CommandFactory;
use softtimers_run::field::{self, Field};
use softtimers_sim::experiments;

use super::{Cli, fields};

const HEAD: &str = "\
<!-- Written by `cargo xtask output` from the labels of the command's reports. -->
# Output fields of the papers' commands

The labels of reports, as `softtimers man` explains them. A dash is a figure that was not measured. `--json` has more figures, with
[keys of their own](../../docs/stability.md#json). [Other commands](../../docs/output.md) have a page of their own.
";

/// The page as it is to be.
fn page() -> String {
    let mut page = HEAD.to_owned();
    let cli = Cli::command();
    let shown = cli.get_subcommands().filter(|command| !command.is_hide_set());
    for name in shown.map(clap::Command::get_name).filter(|name| !fields(name).is_empty()) {
        page += &table(
            &format!("`{name}`"),
            ["label", "unit", "meaning"],
            field::fields(fields(name)).map(cells),
        );
    }
    for experiment in experiments::ALL {
        let heading = format!("`sim {}`", experiment.name);
        let columns = experiment.columns.iter();
        let columns = columns
            .map(|column| [column.name.to_owned(), column.key().into_owned(), column.about.to_owned()]);
        page += &table(&heading, ["column", "in CSV and JSON", "meaning"], columns);
    }
    page
}

fn cells(field: Field) -> [String; 3] {
    [field.label, field.unit, field.meaning].map(str::to_owned)
}

fn table(heading: &str, heads: [&str; 3], rows: impl Iterator<Item = [String; 3]>) -> String {
    let line =
        |cells: [String; 3]| format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | "));
    let rows: String = rows.map(line).collect();
    format!("\n## {heading}\n\n| {} |\n|---|---|---|\n{rows}", heads.join(" | "))
}

#[test]
fn the_page_has_every_label() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/sim-output.md");
    if std::env::var_os("BLESS").is_some() {
        return fs::write(file, page()).expect("the page can be written");
    }
    // A crate from a registry has no pages.
    let Ok(kept) = fs::read_to_string(file) else { return };
    assert_eq!(kept, page(), "papers/docs/sim-output.md: cargo xtask output");
}
