//! API keys of clients, as an operator generates them.

use std::{
    io::Write,
    process::{Command, Output, Stdio},
};

use glossator::config::{self, Sources};
use serde_json::Value;

use super::succeeds;
use crate::support::{Client, Loaded};

/// Runs `glossator key --stdin` with this input.
fn hashed(key: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_glossator"))
        .args(["key", "--stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that rejects its input may exit before it has read all of it.
    let _ = child.stdin.take().unwrap().write_all(key.as_bytes());
    child.wait_with_output().unwrap()
}

/// Key and hash that the command prints.
fn new_key() -> (String, String) {
    let stdout = succeeds(&["key"]);
    let value =
        |name: &str| stdout.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
    (value("key:"), value("hash:"))
}

#[tokio::test]
async fn a_new_key_opens_with_its_hash_and_with_no_other() {
    let ((key, hash), (other, other_hash)) = (new_key(), new_key());
    assert!(key != other && hash != other_hash && !hash.contains(&key));
    let json: Value = serde_json::from_str(&succeeds(&["key", "--output", "json"])).unwrap();
    assert!(
        json["key"].as_str().unwrap().len() == key.len()
            && json["hash"].as_str().unwrap().len() == hash.len()
    );
    let text = format!(
        "upstreams: {{ old: 'http://127.0.0.1:1' }}\nclients: {{ robot: {{ api_key_hashes: '{hash}' }} }}\n\
         routes: {{ a: {{ description: x, request: GET old/a }} }}\n"
    );
    let loaded =
        config::load(&Sources::from_text("a.yaml", text)).unwrap_or_else(|problems| panic!("{problems}"));
    let served = Loaded::start(&loaded).await;
    for (shown, status) in [(&key, 200), (&other, 401), (&hash, 401)] {
        let header = format!("X-API-Key: {shown}");
        let response = Client::connect(served.address).await.send("GET /tools", &[&header], "").await;
        assert_eq!(response.status, status, "{}", response.text());
    }
}

#[test]
fn a_key_that_one_has_is_hashed_and_not_repeated() {
    let (key, hash) = new_key();
    for given in [key.clone(), format!("{key}\n"), format!("  {key}\r\n")] {
        let output = hashed(&given);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), hash);
    }
    let spaced = "two words are not a key of any kind";
    for wrong in [String::new(), "short-short-short".to_owned(), "x".repeat(2000), spaced.to_owned()] {
        let output = hashed(&wrong);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success() && output.stdout.is_empty() && stderr.contains("a key "),
            "{stderr}"
        );
        assert!(wrong.is_empty() || !stderr.contains(&wrong), "{stderr}");
    }
}
