//! Tests of the whole module: valid files load, no text causes a panic, and every key is parsed.

mod full_file;
mod layers;
mod presets;
mod reference;
mod telemetry;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::routes::DefaultSettings;
use super::*;
use crate::settings::{OrOff, Section as _, units};

const MINIMAL: &str = "\
upstreams:
  weather: http://127.0.0.1:9000
routes:
  get_forecast:
    description: Weather forecast for a city.
    request: GET weather/forecast/{city}
";

/// Configuration with every key, each with a valid value.
const FULL: &str = include_str!("full.yaml");

#[track_caller]
fn loaded(text: &str) -> Loaded {
    let mut sources = Sources::from_text("glossator.yaml", text);
    // A recording is found relative to the file.
    if text.contains("responses.har") {
        sources.origin =
            ConfigSource::Path(concat!(env!("CARGO_MANIFEST_DIR"), "/src/config/tests/full.yaml").into());
    }
    let (certificate, key) = identity();
    let variables = [
        ("TOKEN", "s3cr3t"),
        ("SECRET", "s3cr3t-0123456789"),
        ("PORT", "9000"),
        ("CLIENT_CERTIFICATE", certificate),
        ("CLIENT_KEY", key),
        ("HASH", &"0".repeat(64)),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    sources.environment = Environment(variables.into());
    load(&sources).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Certificate and its key in PEM.
fn identity() -> (&'static str, &'static str) {
    static IDENTITY: std::sync::OnceLock<(String, String)> = std::sync::OnceLock::new();
    let (certificate, key) = IDENTITY.get_or_init(|| {
        let generated = rcgen::generate_simple_self_signed(["client.test".to_owned()]).unwrap();
        (generated.cert.pem(), generated.signing_key.serialize_pem())
    });
    (certificate, key)
}

#[test]
fn three_lines_are_enough() {
    let loaded = loaded(MINIMAL);
    let route = &loaded.routes[0].route;
    assert_eq!(
        Value::from(route.definition.input_schema.as_ref().clone()),
        json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
            "additionalProperties": false})
    );
    assert_eq!((route.timeout, route.response_limit_bytes), (Duration::from_secs(30), 8 << 20));
    assert_eq!(loaded.server.listener.listen.to_string(), "127.0.0.1:8080");
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
}

#[test]
fn every_key_of_the_table_is_read() {
    let loaded = loaded(FULL);
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    let used_keys: BTreeSet<String> = keys_of(&serde_json::to_value(tree(FULL)).unwrap());
    let mut missing = Vec::new();
    for (section, definition) in sections(&schema()) {
        for key in definition {
            if !used_keys.contains(&key) {
                missing.push(format!("{section}.{key}"));
            }
        }
    }
    assert!(missing.is_empty(), "tests/full.yaml does not show {missing:?}");
}

fn tree(text: &str) -> Value {
    let (root, _) = crate::settings::problem_collector::reading(text, |report| file::read(report, 0));
    root.unwrap().to_json()
}

fn keys_of(value: &Value) -> BTreeSet<String> {
    match value {
        Value::Object(members) => members
            .iter()
            .flat_map(|(key, value)| std::iter::once(key.clone()).chain(keys_of(value)))
            .collect(),
        Value::Array(items) => items.iter().flat_map(keys_of).collect(),
        _ => BTreeSet::new(),
    }
}

fn sections(schema: &Value) -> Vec<(String, Vec<String>)> {
    let names = |section: &Value| section["properties"].as_object().unwrap().keys().cloned().collect();
    let definitions = schema["$defs"].as_object().unwrap();
    let mut sections: Vec<_> = definitions.iter().map(|(id, section)| (id.clone(), names(section))).collect();
    sections.push(("file".to_owned(), names(schema)));
    sections
}

#[test]
fn the_schema_describes_exactly_the_keys_that_are_read() {
    // The validator does not load other documents; every schema is an object.
    let mut schema = schema();
    for key in ["input", "output"] {
        schema["$defs"]["route"]["properties"][key] = json!({ "type": "object" });
    }
    let schema = crate::model::Schema::compile(schema.as_object().unwrap()).unwrap();
    for text in [MINIMAL, FULL] {
        let found = schema.violations(&tree(text), 3);
        assert!(found.is_empty(), "{found:?}");
    }
    assert!(!schema.accepts(&tree("upstrems: {}")));
    assert!(!schema.accepts(&tree("server: { shutdown_timeout: 10 }")));
}

/// This problem is found, and reported, only when the server lists its tools.
#[test]
fn a_route_that_calls_a_missing_tool_is_reported() {
    let text = "\
upstreams: { old: { mcp: http://127.0.0.1:9000/mcp, tools: off } }
routes:
  ask: { description: Asks., request: CALL old/get_wether }
  say: { description: Says., request: CALL old/say }
";
    let loaded = loaded(text);
    let tools = ["get_weather", "say"].map(|name| {
        let tool = json!({ "name": name, "inputSchema": { "type": "object" } });
        tool.to_string().into_boxed_str()
    });
    let imported = loaded.importer.import([(&"old".parse().unwrap(), &tools[..])], &loaded.routes);
    let text = "the route `ask` calls it, but the server has no such tool; did you mean `get_weather`?";
    assert_eq!(imported[0].notes, [ImportNote { tool: "get_wether".into(), text: text.into() }]);
}

#[test]
fn a_configured_tool_with_a_route_of_its_own_is_reported() {
    let text = "\
upstreams:
  old:
    mcp: http://127.0.0.1:9000/mcp
    tools: { except: [hide], overrides: { ask: { timeout: 9s } } }
routes:
  ask_oslo: { description: Asks., request: { upstream: old, tool: ask, arguments: { city: Oslo } } }
  hide: { description: Hides., request: CALL old/hide }
  say: { description: Says., request: CALL old/say }
";
    let loaded = loaded(text);
    let tools = ["ask", "say", "hide"].map(|name| {
        let tool = json!({ "name": name, "inputSchema": { "type": "object" } });
        tool.to_string().into_boxed_str()
    });
    let imported = loaded.importer.import([(&"old".parse().unwrap(), &tools[..])], &loaded.routes);
    let text = "`tools` names it, but is overridden by the route `ask_oslo`";
    assert_eq!(imported[0].notes, [ImportNote { tool: "ask".into(), text: text.into() }]);
}

#[test]
fn a_secret_that_is_too_long_to_search_for_is_rejected() {
    let load_of_length = |length: usize| {
        let secret = "k3".repeat(length / 2);
        let text = format!(
            "upstreams: {{ old: {{ command: [cat], env: {{ set: {{ API_TOKEN: {secret} }} }} }} }}
routes: {{ a: {{ description: A., request: RUN old }} }}"
        );
        load(&Sources::from_text("glossator.yaml", &text)).map(drop).map_err(|problems| problems.to_string())
    };
    // As a few keys in PEM are.
    assert_eq!(load_of_length(16_000), Ok(()));
    let found = load_of_length(100_000).unwrap_err();
    assert!(
        found.contains("the secrets of this upstream are too long to be redacted from errors"),
        "{found:.2000}"
    );
    assert!(!found.contains("k3k3"), "it is not shown");
}

#[test]
fn a_range_of_media_types_is_no_media_type() {
    let text = "\
upstreams: { old: http://127.0.0.1:9000 }
routes:
  a:
    description: A.
    request: GET old/a
    response: { content: { image: response, media_type: image/* } }
";
    let found = load(&Sources::from_text("glossator.yaml", text)).unwrap_err().to_string();
    assert!(found.contains("expected a media type, found `image/*`"), "{found}");
}

#[test]
fn how_tokens_are_taken_may_come_from_outside() {
    let auth = "server: { auth: { jwt: { issuer: 'https://a.test', audience: me, jwks: 'https://a.test/keys', \
                algorithms: ['${NONE:-RS512}', '${NONE:-PS256}'], clock_skew: '${NONE:-7s}' } } }";
    let loaded = loaded(&format!("{auth}\ndefaults: {{ scopes: [] }}\n{MINIMAL}"));
    let tokens = loaded.access.unwrap().server.unwrap().jwt.0;
    assert_eq!(tokens[0].algorithms, [crate::auth::Algorithm::Rs512, crate::auth::Algorithm::Ps256]);
    assert_eq!(tokens[0].clock_skew, Duration::from_secs(7));
}

#[test]
fn defaults_are_those_that_the_table_names() {
    let loaded = loaded(MINIMAL);
    let route = &loaded.routes[0].route;
    let upstream = &loaded.upstreams[0];
    let millis = |duration: Duration| units::format_duration(u64::try_from(duration.as_millis()).unwrap());
    let found = [
        ("timeout", format!("`{}`", millis(route.timeout))),
        ("response_limit", format!("`{}`", units::format_size(route.response_limit_bytes as u64))),
        ("max_values", route.translator.limits.values.to_string()),
        (
            "error_text_limit",
            format!("`{}`", units::format_size(route.translator.limits.error_text_bytes as u64)),
        ),
        ("connect_timeout", format!("`{}`", millis(upstream.settings.http().unwrap().connect_timeout))),
        (
            "max_in_flight",
            format!("{}, or 16 for commands and CGI programs", upstream.policy.max_in_flight()),
        ),
    ];
    for (key, value) in found {
        let description = DefaultSettings::keys().get(key).unwrap().full_description();
        assert!(description.ends_with(&format!("Default {value}.")), "{key}: {description}, found {value}");
    }
}

#[test]
fn a_map_completes_inherited_policies_and_turns_on_those_that_are_off() {
    let loaded = loaded(
        "defaults:
  retry: { max_attempts: 7 }
  circuit_breaker: off
  rate_limit: { rate: 9 per second, burst: 2 }
upstreams:
  a: http://127.0.0.1:1
  b: { url: http://127.0.0.1:1, retry: off, rate_limit: 1 per second }
routes:
  a:
    { description: x, request: GET a/, retry: { max_backoff: 1s }, circuit_breaker: { open_for: 1s } }
  b: { description: x, request: GET b/, retry: { max_backoff: 1s } }",
    );
    let policy = |index: usize| {
        let policy = loaded.routes[index].policy;
        let retry = policy.retry.and_then(OrOff::on).map(|retry| (retry.max_attempts, retry.max_backoff));
        (retry, policy.circuit_breaker.and_then(OrOff::on).map(|breaker| breaker.consecutive_failures))
    };
    let second = Duration::from_secs(1);
    assert_eq!(policy(0), (Some((7, second)), Some(10)));
    assert_eq!(policy(1), (Some((3, second)), None));
    let [inherited, own] = [0, 1].map(|index| loaded.upstreams[index].policy);
    assert_eq!((inherited.retry.on().unwrap().max_attempts, own.retry), (7, OrOff::Off));
    assert_eq!(inherited.rate_limit.and_then(OrOff::on).unwrap().burst, Some(2));
    assert_eq!(own.rate_limit.and_then(OrOff::on).unwrap().burst, None);
}

#[test]
fn a_high_limit_of_an_upstream_removes_the_limit_per_client_of_the_defaults() {
    let loaded = loaded(
        "defaults: { max_in_flight_per_client: 4 }
upstreams: { a: { url: http://127.0.0.1:1, max_in_flight_per_client: 100000 } }
routes: { a: { description: x, request: GET a/ } }",
    );
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
}

#[test]
fn secrets_are_allowed_only_in_headers() {
    let text = "upstreams: { a: { url: \"http://127.0.0.1:${PORT}\", headers: { Authorization: \"Bearer ${TOKEN}\" } } }\n\
        routes: { t: { description: x, request: GET a/ } }";
    let loaded = loaded(text);
    let value = &loaded.upstreams[0].settings.http().unwrap().headers["authorization"];
    assert_eq!(value, "Bearer s3cr3t");
    assert!(value.is_sensitive());
    assert!(!format!("{loaded:?}").contains("s3cr3t"));
}

#[test]
fn a_number_without_quotes_is_sent_as_written() {
    let text = "upstreams: { a: { url: http://a.test, headers: { X-Id: 007, X-Mask: 0x1F, X-Part: '1.50' } } \
        }\nroutes: { t: { description: x, request: GET a/ } }";
    let loaded = loaded(text);
    let headers = &loaded.upstreams[0].settings.http().unwrap().headers;
    assert_eq!(["x-id", "x-mask", "x-part"].map(|name| &headers[name]), ["007", "0x1F", "1.50"]);
}

#[test]
fn authorization_servers_may_be_set_by_variables() {
    let text = "server: { auth: { resource: \"http://127.0.0.1:${PORT}/mcp\", authorization_servers: [\"https://login.test:${PORT}\"], \
        jwt: { issuer: \"https://login.test:${PORT}\", jwks: \"https://login.test/jwks\", scope_claim: \"s${PORT}\" } } }\n\
        upstreams: { a: http://127.0.0.1:1 }\nroutes: { t: { description: x, request: GET a/ } }";
    let server = loaded(text).access.unwrap().server.unwrap();
    let resource = server.resource.unwrap();
    assert_eq!(resource.as_str(), "http://127.0.0.1:9000/mcp");
    assert_eq!(server.authorization_servers.unwrap(), ["https://login.test:9000"]);
    let tokens = &server.jwt.0[0];
    assert_eq!((tokens.audiences.0[0].as_str(), tokens.scope_claim.as_str()), (resource.as_str(), "s9000"));
}

#[test]
fn selectors_determine_the_output_schema() {
    let schema = |html: &str| {
        let response = format!("    response: {{ extract: {{ html: {html} }} }}\n");
        let schema = loaded(&format!("{MINIMAL}{response}")).routes[0].route.definition.output_schema.clone();
        schema.map(|schema| Value::from(schema.as_ref().clone()))
    };
    let select = "select: { name: h1, tags: { css: i, all: true }, of: { css: b, optional: true } }";
    let record = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string" },
            "tags": { "type": "array", "items": { "type": "string" } },
            "of": { "type": "string" },
        },
        "required": ["name", "tags"],
    });
    assert_eq!(schema(&format!("{{ {select} }}")), Some(record.clone()));
    let list = json!({
        "type": "object",
        "properties": { "result": { "type": "array", "items": record } },
        "required": ["result"],
    });
    assert_eq!(schema(&format!("{{ items: tr, {select} }}")), Some(list));
    assert_eq!(schema("{ table: true }"), None);
}

#[test]
fn a_tool_whose_results_pass_without_a_rule_has_no_output_schema_of_its_rules() {
    let route = |extra_keys: &str| {
        let text = "upstreams: { a: { mcp: 'http://127.0.0.1:1/mcp' } }\nroutes:\n  t:\n    request: CALL a/t\n    \
                    response: { extract: { mcp: { fields: { n: integer } } } }\n";
        let loaded = loaded(&format!("{text}{extra_keys}"));
        let compiled = &loaded.routes[0];
        (compiled.route.definition.output_schema.is_some(), compiled.no_output_schema.clone())
    };
    let reason = "without `on_no_match: error`, a success that no rule matches passes through";
    assert_eq!(route(""), (false, Some(reason.to_owned())));
    assert_eq!(route("    on_no_match: text\n"), (false, Some(reason.to_owned())));
    assert_eq!(route("    on_no_match: error\n"), (true, None));
}

#[test]
fn fields_make_the_output_schema() {
    let text = "upstreams: { a: http://127.0.0.1:1 }\nroutes:\n  t:\n    description: x\n    request: GET a/\n    response:\n      \
        - { when: { status: 404 }, error: none }\n      \
        - { extract: { regex: { pattern: '(?<n>\\d+) (?<s>\\w+)', each: line, fields: { n: integer, s: string? } } } }\n";
    let loaded = loaded(text);
    let advertised = loaded.routes[0].route.definition.output_schema.clone().unwrap();
    assert_eq!(
        advertised["properties"]["result"],
        json!({"type": "array", "items": {"type": "object",
            "properties": {"n": {"type": "integer"}, "s": {"type": "string"}}, "required": ["n"]}})
    );
}

#[test]
fn the_argument_of_a_header_is_required_unless_it_may_be_omitted() {
    let headers = r#"{ X-A: "{{ args.a }}", X-B: "{{ args.b | default(omit) }}" }"#;
    let request = format!("request: {{ path: /x, headers: {headers} }}");
    let text = MINIMAL.replace("request: GET weather/forecast/{city}", &request);
    let input = loaded(&text).routes[0].route.definition.input_schema.clone();
    assert_eq!(input["required"], json!(["a"]));
}

#[test]
fn a_number_in_a_schema_keeps_its_digits() {
    let text = MINIMAL.to_owned()
        + "    input: { properties: { city: { type: string }, n: { type: number, maximum: 12345678901234567890.10 } } }\n";
    let input = loaded(&text).routes[0].route.definition.input_schema.clone();
    assert_eq!(input["properties"]["n"]["maximum"].to_string(), "12345678901234567890.10");
    assert_eq!(input.keys().next().unwrap(), "type");
}

#[test]
fn an_empty_key_conflicts_with_no_other() {
    let text = format!("{MINIMAL}server: {{ '': x, listen: ':80' }}\n");
    let found = load(&Sources::from_text("glossator.yaml", text)).unwrap_err().to_string();
    assert!(found.contains("unknown key") && !found.contains("beside"), "{found}");
}

#[track_caller]
fn check_example(text: &str) {
    let sources = Sources::from_text("a.yaml", text);
    let Err(problems) = load(&sources) else { return };
    let problems = problems.as_slice();
    assert!(!problems.is_empty());
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for problem in problems {
        let _ = problem.to_string();
        let (Some(line), Some(column)) = (problem.line, problem.column) else { continue };
        let found = text.split('\n').nth(line - 1);
        assert!(
            found.is_some_and(|found| column <= found.chars().count() + 1),
            "{problem} is outside the file"
        );
    }
    assert!(problems.iter().any(|problem| problem.line.is_some()), "no problem has a place: {problems:?}");
}

proptest! {
    #[test]
    fn any_text_loads_or_has_a_problem_in_it(text in "\\PC{0,80}|[ \\n\\t:{}\\[\\],\"'|>&*!%@a-c0-9-]{0,120}") {
        check_example(&text);
    }

    #[test]
    fn any_bytes_are_reported(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let folder = tempfile(&bytes);
        let sources = Sources { origin: ConfigSource::Path(folder.clone()), environment: Environment::default(), flags: Vec::new() };
        let result = load(&sources);
        std::fs::remove_file(folder).unwrap();
        if let Err(problems) = result {
            prop_assert!(problems.as_slice().iter().any(|problem| problem.line.is_some()));
        }
    }
}

proptest! {
    // Each case loads a file with every key, which is slow in a debug build.
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_valid_file_with_a_slip_loads_or_has_a_problem_in_it(
        at in 0..FULL.len(), length in 0..12_usize, instead in "\\PC{0,6}|[ \\n:{}\\[\\],\"'|>&*-]{0,4}",
    ) {
        let floor = |mut at: usize| { while !FULL.is_char_boundary(at) { at -= 1 } at };
        let (start, end) = (floor(at), floor((at + length).min(FULL.len())));
        check_example(&format!("{}{instead}{}", &FULL[..start], &FULL[end..]));
    }
}

fn tempfile(bytes: &[u8]) -> PathBuf {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("glossator-{}-{number}.yaml", std::process::id()));
    std::fs::write(&path, bytes).unwrap();
    path
}
