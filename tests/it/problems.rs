//! Problems of configurations, word for word: one folder per case under `tests/problems`.
//!
//! `config.yaml` (or `config/` with several files) is what an operator wrote, `environment` has the
//! variables, `expected.txt` the reported problems. `UPDATE_GOLDEN=1 cargo test` rewrites the latter.

use std::{fmt::Write as _, fs, path::Path};

use glossator::config::{self, ConfigSource, Environment, Flag, Sources};

const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/problems");

/// Problems of a case, warnings included.
fn report_of(case: &Path) -> String {
    let read = |name: &str| fs::read_to_string(case.join(name)).unwrap_or_default();
    let pairs = |text: &str| -> Vec<(String, String)> {
        let lines = text.lines().filter_map(|line| line.split_once('='));
        lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    };
    let environment = Environment(pairs(&read("environment")).into_iter().collect());
    let flag = |(name, value): (String, String)| Flag {
        setting: format!("server.{}", name.trim_start_matches("--")),
        name,
        value,
    };
    let flags = pairs(&read("flags")).into_iter().map(flag).collect();
    let folder = case.join("config");
    let path = if folder.exists() { folder } else { case.join("config.yaml") };
    let origin = ConfigSource::Path(path);
    let problems = match config::load(&Sources { origin, environment, flags }) {
        Ok(loaded) => loaded.warnings,
        Err(problems) => problems.as_slice().to_vec(),
    };
    let mut report = String::new();
    for problem in problems {
        writeln!(report, "{problem}\n").unwrap();
    }
    // The path of the folder differs on every machine.
    report.replace(&format!("{}/", case.display()), "")
}

#[test]
fn every_mistake_has_its_message() {
    #[expect(clippy::disallowed_methods, reason = "an environment variable that is a switch of the tests")]
    let update = std::env::var("UPDATE_GOLDEN").is_ok();
    let mut cases: Vec<_> = fs::read_dir(CASES).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    assert!(cases.len() >= 30, "cases have gone missing");
    let mut wrong = String::new();
    for case in cases {
        let found = report_of(&case);
        let expected_path = case.join("expected.txt");
        if update {
            fs::write(&expected_path, &found).unwrap();
            continue;
        }
        let expected = fs::read_to_string(&expected_path).unwrap_or_default();
        if found != expected {
            writeln!(wrong, "== {}\n-- expected\n{expected}-- found\n{found}", case.display()).unwrap();
        }
        assert!(!found.contains("s3cr3t"), "{} tells a secret", case.display());
    }
    assert!(wrong.is_empty(), "{wrong}");
}
