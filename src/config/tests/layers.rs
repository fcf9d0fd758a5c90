//! Tests of the layers of process settings: precedence, and the origin that problems name.

use std::time::Duration;

use crate::config::server::ServerSettings;
use crate::config::*;
use crate::inbound::HostPattern;
use crate::settings::layers::variable;
use crate::settings::{FromText, Section};
use crate::telemetry::log::{LogFormat, LogLevel};

/// Loads a configuration with these process settings and one route.
#[track_caller]
fn load_layers(text: &str, variables: &[(&str, &str)], flags: &[Flag]) -> Result<Loaded, String> {
    let environment =
        Environment(variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect());
    let text =
        format!("{text}\nupstreams: {{ a: http://127.0.0.1:9 }}\nroutes: {{ r: {{ request: GET a/x }} }}\n");
    let sources = Sources { environment, flags: flags.to_vec(), ..Sources::from_text("a.yaml", text) };
    load(&sources).map_err(|problems| problems.to_string())
}

#[test]
fn a_later_layer_wins() {
    let file =
        "server: { listen: 127.0.0.1:1, shutdown_timeout: 1s, mcp: { page_size: 7 } }\nlog: { level: warn }";
    let flag = Flag { name: "--listen".into(), setting: "server.listen".into(), value: "127.0.0.1:3".into() };
    let variables = [
        ("GLOSSATOR__SERVER__LISTEN", "127.0.0.1:2"),
        ("GLOSSATOR__SERVER__SHUTDOWN_TIMEOUT", "2s"),
        ("GLOSSATOR__SERVER__ALLOWED_HOSTS", "a.test, b.test:80"),
        ("GLOSSATOR__LOG__FORMAT", "json"),
        ("GLOSSATOR__SERVER__MCP__NAME", ""),
    ];
    let settings = load_layers(file, &variables, &[flag]).unwrap();
    assert_eq!(settings.server.listener.listen.port(), 3);
    assert_eq!(settings.server.listener.shutdown_timeout, Duration::from_secs(2));
    assert_eq!(
        (settings.server.mcp.server.page_size, settings.server.mcp.server.name.as_str()),
        (7, "glossator")
    );
    let hosts = ["a.test", "b.test:80"].map(|host| HostPattern::from_text(host).unwrap());
    assert_eq!(settings.server.filter.allowed_hosts, hosts);
    assert_eq!((settings.log.level, settings.log.format), (LogLevel::Warn, LogFormat::Json));
}

#[test]
fn a_problem_names_the_variable_or_the_flag() {
    let problems =
        load_layers("server: {}", &[("GLOSSATOR__SERVER__SHUTDOWN_TIMEOUT", "30")], &[]).unwrap_err();
    let expected = "GLOSSATOR__SERVER__SHUTDOWN_TIMEOUT: error[G0110]: the value of `server.shutdown_timeout` is invalid; expected duration, `0ms` to `1h`";
    assert!(problems.starts_with(expected), "{problems}");
    let problems = load_layers("server: {}", &[("GLOSSATOR__SERVER__LISTNE", "x")], &[]).unwrap_err();
    assert!(problems.contains("did you mean `GLOSSATOR__SERVER__LISTEN`?"), "{problems}");
    let flag = Flag { name: "--listen".into(), setting: "server.listen".into(), value: "8080".into() };
    let problems = load_layers("server: {}", &[], &[flag]).unwrap_err();
    assert!(
        problems.starts_with("--listen: error[G0109]: expected an address")
            && problems.contains("127.0.0.1:8080"),
        "{problems}"
    );
}

#[test]
fn variables_are_substituted_and_their_values_are_not_shown() {
    let file = "server: { listen: \"127.0.0.1:${PORT}\", max_connections: \"${N:-12}\" }";
    let listener = load_layers(file, &[("PORT", "9")], &[]).unwrap().server.listener;
    assert_eq!((listener.listen.port(), listener.max_connections), (9, 12));
    /// Settings that are nested sections.
    const MAPS: [&str; 3] = ["mcp", "tls", "auth"];
    let server_keys = ServerSettings::keys().names().filter(|key| !MAPS.contains(key));
    for key in server_keys.chain(["mcp.page_size", "mcp.list_ttl"]) {
        let name = variable(&format!("server.{key}"));
        let found = load_layers("server: {}", &[(name.as_str(), "s3cr3t@://")], &[]);
        let problems = found.map(|_| ()).expect_err(key);
        assert!(problems.starts_with(&name) && !problems.contains("s3cr3t"), "{problems}");
    }
    let problems = load_layers(file, &[("PORT", "s3cr3t")], &[]).unwrap_err();
    assert!(problems.contains("${PORT}") && !problems.contains("s3cr3t"), "{problems}");
}

#[test]
fn sections_in_sections_and_those_that_are_a_text_have_variables() {
    let file = "server: { secret_key: \"${SECRET}\" }\nshared_state: redis://store.test:6379";
    let variables = [
        ("SECRET", "0123456789abcdef"),
        ("GLOSSATOR__SHARED_STATE__PASSWORD", "word"),
        ("GLOSSATOR__TELEMETRY__ENDPOINT", "http://collector.test:4318"),
    ];
    let settings = load_layers(file, &variables, &[]).unwrap();
    let shared = settings.shared.unwrap();
    assert_eq!(shared.address.to_string(), "redis://store.test:6379");
    assert_eq!(shared.password.as_deref(), Some("word"));
    assert!(settings.telemetry.traces.is_some());
    let variables = [
        ("GLOSSATOR__SERVER__TLS__CERTIFICATE", "s3cr3t"),
        ("GLOSSATOR__TELEMETRY__RATIO", "1"),
        ("GLOSSATOR__SERVER__AUTH__JWT", "x"),
    ];
    let problems = load_layers("server: {}", &variables, &[]).unwrap_err();
    for words in [
        "GLOSSATOR__SERVER__TLS__CERTIFICATE: error[G0109]: expected certificates in PEM",
        "GLOSSATOR__TELEMETRY__RATIO: error[G0102]: this variable was renamed to `GLOSSATOR__TELEMETRY__SAMPLING_RATIO`",
        "GLOSSATOR__SERVER__AUTH__JWT: error[G0114]: this variable has no effect",
    ] {
        assert!(problems.contains(words) && !problems.contains("s3cr3t"), "{problems}");
    }
}

#[test]
fn a_secret_may_be_the_contents_of_a_file() {
    let path = std::env::temp_dir().join(format!("glossator-secret-{}", std::process::id()));
    std::fs::write(&path, "0123456789abcdef\n").unwrap();
    let reference = format!("file:{}", path.display());
    let secret = || crate::crypto::SecretKey::new(b"0123456789abcdef");
    let by_file = load_layers(&format!("server: {{ secret_key: '{reference}' }}"), &[], &[]).unwrap();
    let by_variable = load_layers("", &[("GLOSSATOR__SERVER__SECRET_KEY", &reference)], &[]).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!((by_file.server.mcp.secret_key, by_variable.server.mcp.secret_key), (secret(), secret()));
    assert!(by_file.warnings.iter().all(|warning| !warning.message.contains("secret")));
    assert_eq!(by_file.referenced_files, [path]);
}
