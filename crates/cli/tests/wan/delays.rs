//! `wan --delays FILE`, by itself and named by a scenario; and packets that leave in slots.

use crate::common::{refusal, run};
use crate::{carried, scratch};

#[test]
fn delays_are_replayed_from_a_file() {
    let place = scratch("delays");
    std::fs::create_dir_all(&place).unwrap();
    let file = place.join("ride.csv");
    // What is an hour away does not happen.
    std::fs::write(&file, "seconds,up ms,down ms\n0,7.5,9\n3600,0\n").unwrap();
    let scenario = place.join("ride.toml");
    std::fs::write(&scenario, "repeat = \"7200s\"\ndelays = \"ride.csv\"\n").unwrap();
    for (flag, file) in [("delays", &file), ("scenario", &scenario)] {
        let (came, report, _) = carried(20, &format!("--{flag} {}", file.display()));
        assert_eq!(came.len(), 20);
        let set = |way: &str| report[way]["set"]["delay_ns"].as_u64().unwrap();
        assert_eq!((set("up"), set("down")), (7_500_000, 9_000_000));
        assert!(report["up"]["measured"]["delay_ns"]["min"].as_u64().unwrap() >= 7_500_000);
        assert_eq!(report["config"]["scenario"], file.display().to_string());
    }
    std::fs::write(&file, "0,1\nsoon,2\n").unwrap();
    let refused =
        |flags: &str| refusal(&run(&format!("wan --listen 127.0.0.1:0 --to 127.0.0.1:9 {flags}")), 2);
    let said = refused(&format!("--delays {}", file.display()));
    assert!(said.contains("line 2: \"soon\": each line has seconds"), "{said}");
    let said = refused(&format!("--scenario {}", scenario.display()));
    assert!(said.contains("line 2: delays ride.csv: line 2: "), "{said}");
    std::fs::write(&file, "0,9\n5,1\n").unwrap();
    let said = refused(&format!("--jitter 2ms --delay 5ms --delays {}", file.display()));
    assert!(said.contains("ride.csv: line 2: the path up: a uniform jitter of 2ms"), "{said}");
    let both = format!("--delays {} --scenario {}", file.display(), scenario.display());
    assert!(refused(&both).contains("cannot be used with"));
    for several in ["--api 127.0.0.1:0", "--proxies no.json"] {
        for flag in [format!("--delays {}", file.display()), format!("--scenario {}", scenario.display())] {
            let said = refusal(&run(&format!("wan {several} {flag}")), 2);
            assert!(said.contains("cannot be used with"), "{several} {flag}: {said}");
        }
    }
    std::fs::remove_dir_all(place).unwrap();
}

#[test]
fn packets_gather_until_their_slot() {
    let (came, report, _) = carried(20, "--slot 20ms-30ms:packets=64");
    assert_eq!(came.len(), 20);
    assert_eq!(report["up"]["set"]["slot_ns"], serde_json::json!([20_000_000, 30_000_000]));
    // Whoever finds no slot waits that long; those behind share it.
    let delay = &report["up"]["measured"]["delay_ns"];
    assert!(delay["max"].as_u64().unwrap() >= 20_000_000, "{delay}");
}
