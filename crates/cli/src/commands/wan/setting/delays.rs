//! The values of `--jitter`, and the files of delays that they name.

use std::path::Path;

use softtimers_measure::units;
use softtimers_wan::{DelayTable, DelayTableError, Jitter, Spread};

use super::{read, share};
use crate::run::privileges::user::exceeds_caller;

pub(super) fn jitter(text: &str) -> Result<Jitter, String> {
    let (size, mut rest) = text.split_once(':').map_or((text, None), |(size, rest)| (size, Some(rest)));
    let size = units::duration(size).map_err(|error| error.to_string())?;
    let mut jitter = Jitter::uniform(size);
    while let Some(options) = rest {
        let option;
        (option, rest) = next_option(options);
        jitter = match option {
            "normal" => jitter.spread(Spread::Normal),
            "exponential" => jitter.spread(Spread::Exponential),
            "pareto" => jitter.spread(Spread::Table(DelayTable::pareto())),
            "paretonormal" => jitter.spread(Spread::Table(DelayTable::pareto_normal())),
            "reordering" => jitter.reordering(),
            _ => match option.split_once('=') {
                Some(("dist", path)) => jitter.spread(Spread::Table(distribution(path)?)),
                Some(("corr", value)) => jitter.correlated(share(value)?),
                _ => {
                    return Err(format!(
                        "no option {option:?}; there are normal, exponential, pareto, paretonormal, dist=FILE, corr=SHARE, reordering"
                    ));
                }
            },
        };
    }
    Ok(jitter)
}

/// Splits off the first option. A file name may have colons: it ends where an option begins.
fn next_option(options: &str) -> (&str, Option<&str>) {
    let is_option = |rest: &str| {
        let word = rest.split(':').next().unwrap_or(rest);
        JITTER_OPTIONS.contains(&word) || ["dist=", "corr="].iter().any(|name| word.starts_with(name))
    };
    let is_file = options.starts_with("dist=");
    let mut colons = options.match_indices(':').map(|(at, _)| at);
    match colons.find(|at| !is_file || is_option(&options[at + 1..])) {
        Some(at) => (&options[..at], Some(&options[at + 1..])),
        None => (options, None),
    }
}

type ParseTable = fn(&[u8]) -> Result<DelayTable, DelayTableError>;

fn distribution(path: &str) -> Result<DelayTable, String> {
    let text = read(Path::new(path), MOST_OF_A_TABLE).map_err(|error| format!("dist={path}: {error}"))?;
    // A netem table has spaces between its numbers.
    let is_histogram =
        text.split(|&byte| byte == b'\n').any(|line| line.first() != Some(&b'#') && line.contains(&b','));
    let (parse, lines): (ParseTable, &str) = if is_histogram {
        (DelayTable::histogram, HISTOGRAM_LINES)
    } else {
        (DelayTable::parse, TABLE_LINES)
    };
    parse(&text).map_err(|error| {
        // The message may quote the line.
        let problem =
            if exceeds_caller() { format!("line {}: {lines}", error.line()) } else { error.to_string() };
        format!("dist={path}: {problem}")
    })
}

const JITTER_OPTIONS: [&str; 5] = ["normal", "exponential", "pareto", "paretonormal", "reordering"];
const TABLE_LINES: &str = "each has whole numbers from -32768 to 32767, or begins with #";
const HISTOGRAM_LINES: &str = "each has a value in sizes, a comma and how often it was";
/// Room for 16,384 numbers, and comments.
const MOST_OF_A_TABLE: u64 = 1 << 20;
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_delays_may_lie_anywhere() {
        for (text, first, rest) in [
            ("normal:corr=1%", "normal", Some("corr=1%")),
            ("dist=/a:b/c:corr=1%:reordering", "dist=/a:b/c", Some("corr=1%:reordering")),
            ("dist=C:/table", "dist=C:/table", None),
            ("dist=a:normal", "dist=a", Some("normal")),
            ("often:dist=a:b", "often", Some("dist=a:b")),
        ] {
            assert_eq!(next_option(text), (first, rest), "{text}");
        }
        let directory = std::env::temp_dir().join(format!("softtimers:{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("table"), "-8192 8192\n").unwrap();
        let text = format!("2ms:dist={}/table:corr=25%", directory.display());
        assert!(jitter(&text).is_ok(), "{text}");
        std::fs::write(directory.join("histogram"), "# of a radio link\nms,count\n0,3\n1.5,1\n").unwrap();
        let text = format!("1ms:dist={}/histogram", directory.display());
        let Ok(jitter) = jitter(&text) else { panic!("no histogram") };
        assert!(matches!(jitter.spread, Spread::Table(table) if table.quantiles() == 4));
        std::fs::remove_dir_all(directory).unwrap();
    }
}
