//! Layers of process settings: which one wins, and what problems name.

use std::time::Duration;

use super::super::*;
use crate::{
    config::server::ServerSettings,
    settings::{layers::variable, section::Section},
    telemetry::log::{LogFormat, LogLevel},
};

/// Loads a configuration with these process settings, and a route.
#[track_caller]
fn layered(text: &str, variables: &[(&str, &str)], flags: &[Flag]) -> Result<Loaded, String> {
    let environment =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let text =
        format!("{text}\nupstreams: {{ a: http://127.0.0.1:9 }}\nroutes: {{ r: {{ request: GET a/x }} }}\n");
    let sources = Sources { environment, flags: flags.to_vec(), ..Sources::of_text("a.yaml", text) };
    load(&sources).map_err(|problems| problems.to_string())
}

#[test]
fn a_later_layer_wins() {
    let file = "server: { listen: 127.0.0.1:1, shutdown_timeout: 1s, page_size: 7 }\nlog: { level: warn }";
    let flag = Flag { name: "--listen".into(), setting: "server.listen".into(), value: "127.0.0.1:3".into() };
    let variables = [
        ("GLOSSATOR__SERVER__LISTEN", "127.0.0.1:2"),
        ("GLOSSATOR__SERVER__SHUTDOWN_TIMEOUT", "2s"),
        ("GLOSSATOR__SERVER__ALLOWED_HOSTS", "a.test, b.test:80"),
        ("GLOSSATOR__LOG__FORMAT", "json"),
        ("GLOSSATOR__SERVER__NAME", ""),
    ];
    let settings = layered(file, &variables, &[flag]).unwrap();
    assert_eq!(settings.listener.listen.port(), 3);
    assert_eq!(settings.listener.shutdown_timeout, Duration::from_secs(2));
    assert_eq!((settings.mcp.page_size, settings.mcp.server_name.as_str()), (7, "glossator"));
    assert_eq!(settings.door.allowed_hosts, ["a.test", "b.test:80"]);
    assert_eq!((settings.log.level, settings.log.format), (LogLevel::Warn, LogFormat::Json));
}

#[test]
fn a_problem_names_the_variable_or_the_flag() {
    let problems = layered("server: {}", &[("GLOSSATOR__SERVER__SHUTDOWN_TIMEOUT", "30")], &[]).unwrap_err();
    let expected = "GLOSSATOR__SERVER__SHUTDOWN_TIMEOUT: the value is not what `server.shutdown_timeout` takes: duration, `0ms` to `1h`";
    assert!(problems.starts_with(expected), "{problems}");
    let problems = layered("server: {}", &[("GLOSSATOR__SERVER__LISTNE", "x")], &[]).unwrap_err();
    assert!(problems.contains("did you mean `GLOSSATOR__SERVER__LISTEN`?"), "{problems}");
    let flag = Flag { name: "--listen".into(), setting: "server.listen".into(), value: "8080".into() };
    let problems = layered("server: {}", &[], &[flag]).unwrap_err();
    assert!(
        problems.starts_with("--listen: expected an address") && problems.contains("127.0.0.1:8080"),
        "{problems}"
    );
}

#[test]
fn variables_may_stand_in_the_file_and_their_values_are_not_told() {
    let file = "server: { listen: \"127.0.0.1:${PORT}\", connections: \"${N:-12}\" }";
    let listener = layered(file, &[("PORT", "9")], &[]).unwrap().listener;
    assert_eq!((listener.listen.port(), listener.connection_limit), (9, 12));
    /// Any text is right for these, and `tls` and `auth` are maps.
    const TEXTS: [&str; 5] = ["title", "instructions", "name", "tls", "auth"];
    for key in ServerSettings::keys().names().filter(|key| !TEXTS.contains(key)) {
        let name = variable(&format!("server.{key}"));
        let found = layered("server: {}", &[(name.as_str(), "s3cr3t@://")], &[]);
        let problems = found.map(|_| ()).expect_err(key);
        assert!(problems.starts_with(&name) && !problems.contains("s3cr3t"), "{problems}");
    }
    let problems = layered(file, &[("PORT", "s3cr3t")], &[]).unwrap_err();
    assert!(problems.contains("${PORT}") && !problems.contains("s3cr3t"), "{problems}");
}
