//! `glossator explain`, word for word: a folder a case under `tests/explain`.
//!
//! `config.yaml` has a route `get_report`, `reply.http` is its reply, `arguments.json` are those of the call where there
//! are some, `expected.txt` is what is printed. `UPDATE_GOLDEN=1 cargo test --test it cli::explain` writes it anew; read
//! the diff.

use std::{fs, path::Path};

use super::{ROOT, succeeds};

#[test]
fn every_folder_of_explain_is_told_as_it_stands_there() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let root = Path::new(ROOT).join("tests/explain");
    let mut cases: Vec<_> = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    assert!(cases.len() >= 3, "cases are missing: found {}", cases.len());
    let mut different = Vec::new();
    for case in cases {
        let file = |name: &str| case.join(name).to_str().unwrap().to_owned();
        let (config, reply) = (file("config.yaml"), file("reply.http"));
        let mut arguments = vec!["explain", "get_report", "--config", &config, "--reply", &reply];
        let given = fs::read_to_string(file("arguments.json")).ok();
        if let Some(given) = &given {
            arguments.extend(["--args", given]);
        }
        let found = succeeds(&arguments);
        if update {
            fs::write(file("expected.txt"), &found).unwrap();
        } else if fs::read_to_string(file("expected.txt")).unwrap_or_default() != found {
            different.push(format!("{}\n{found}", case.display()));
        }
    }
    assert!(different.is_empty(), "what is told differs:\n{}", different.join("\n"));
}
