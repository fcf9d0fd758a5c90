//! The room as a whole: what loads, what never panics, what the table of keys promises.

use std::{collections::BTreeSet, time::Duration};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const MINIMAL: &str = "\
upstreams:
  weather: http://127.0.0.1:9000
routes:
  get_forecast:
    description: Weather forecast for a city.
    request: GET weather/forecast/{city}
";

/// Every key of the file, each in a form that is right.
const FULL: &str = include_str!("tests/full.yaml");

#[track_caller]
fn loaded(text: &str) -> Loaded {
    let mut sources = Sources::of_text("glossator.yaml", text);
    if text == FULL {
        sources.origin =
            Origin::Path(concat!(env!("CARGO_MANIFEST_DIR"), "/src/config/tests/full.yaml").into());
    }
    let (certificate, key) = identity();
    let variables =
        [("TOKEN", "s3cr3t"), ("PORT", "9000"), ("CLIENT_CERTIFICATE", certificate), ("CLIENT_KEY", key)];
    sources.environment =
        variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter().collect();
    load(&sources).unwrap_or_else(|problems| panic!("{problems}"))
}

/// A certificate and its key, in PEM.
fn identity() -> (&'static str, &'static str) {
    static MADE: std::sync::OnceLock<(String, String)> = std::sync::OnceLock::new();
    let (certificate, key) = MADE.get_or_init(|| {
        let made = rcgen::generate_simple_self_signed(["client.test".to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    });
    (certificate, key)
}

#[test]
fn three_lines_are_enough() {
    let loaded = loaded(MINIMAL);
    let route = &loaded.routes[0].route;
    assert_eq!(
        Value::Object(route.definition.input_schema.clone()),
        json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
            "additionalProperties": false})
    );
    assert_eq!((route.deadline, route.reply_limit_bytes), (Duration::from_secs(30), 8 << 20));
    assert_eq!(loaded.listener.listen.to_string(), "127.0.0.1:8080");
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
}

#[test]
fn every_key_of_the_table_is_read() {
    let loaded = loaded(FULL);
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    let written: BTreeSet<String> = keys_of(&serde_json::to_value(tree(FULL)).unwrap());
    let mut missing = Vec::new();
    for (section, definition) in sections(&schema()) {
        for key in definition {
            if !written.contains(&key) {
                missing.push(format!("{section}.{key}"));
            }
        }
    }
    assert!(missing.is_empty(), "tests/full.yaml does not show {missing:?}");
}

fn tree(text: &str) -> Value {
    let (root, _) = report::reading(text, |report| file::read(report, 0));
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
fn the_schema_describes_what_is_read_and_nothing_else() {
    // References to other documents are not followed here; every schema is an object.
    let mut schema = schema();
    for key in ["input", "output"] {
        schema["$defs"]["route"]["properties"][key] = json!({ "type": "object" });
    }
    let schema = crate::tool::Schema::compile(schema.as_object().unwrap()).unwrap();
    for text in [MINIMAL, FULL] {
        let found = schema.violations(&tree(text), 3);
        assert!(found.is_empty(), "{found:?}");
    }
    assert!(!schema.admits(&tree("upstrems: {}")));
    assert!(!schema.admits(&tree("server: { drain: 10 }")));
}

#[test]
fn defaults_are_those_that_the_table_names() {
    let loaded = loaded(MINIMAL);
    let (listener, door, mcp) = (&loaded.listener, &loaded.door, &loaded.mcp);
    let route = &loaded.routes[0].route;
    let upstream = &loaded.upstreams[0];
    let millis = |duration: Duration| units::show_duration(u64::try_from(duration.as_millis()).unwrap());
    let found = [
        (&keys::SERVER, "listen", format!("`{}`", listener.listen)),
        (&keys::SERVER, "body_limit", format!("`{}`", units::show_size(door.body_limit_bytes as u64))),
        (&keys::SERVER, "body_timeout", format!("`{}`", millis(door.body_timeout))),
        (&keys::SERVER, "drain", format!("`{}`", millis(listener.drain))),
        (&keys::SERVER, "connections", listener.connection_limit.to_string()),
        (&keys::SERVER, "header_timeout", format!("`{}`", millis(listener.header_timeout))),
        (&keys::SERVER, "page_size", mcp.page_size.to_string()),
        (&keys::SERVER, "list_ttl", format!("`{}`", millis(mcp.list_ttl))),
        (&keys::DEFAULTS, "deadline", format!("`{}`", millis(route.deadline))),
        (&keys::DEFAULTS, "reply_limit", format!("`{}`", units::show_size(route.reply_limit_bytes as u64))),
        (
            &keys::DEFAULTS,
            "error_text_limit",
            format!("`{}`", units::show_size(route.translator.limits.error_text_bytes as u64)),
        ),
        (&keys::DEFAULTS, "connect_timeout", format!("`{}`", millis(upstream.settings.connect_timeout))),
        (&keys::DEFAULTS, "in_flight", upstream.policy.in_flight_limit.to_string()),
    ];
    for (section, key, value) in found {
        let means = section.get(key).unwrap().means;
        assert!(means.ends_with(&format!("Default {value}.")), "{key}: {means}, found {value}");
    }
}

#[test]
fn secrets_go_into_headers_and_nowhere_else() {
    let text = "upstreams: { a: { url: \"http://127.0.0.1:${PORT}\", headers: { Authorization: \"Bearer ${TOKEN}\" } } }\n\
        routes: { t: { description: x, request: GET a/ } }";
    let loaded = loaded(text);
    let value = &loaded.upstreams[0].settings.headers["authorization"];
    assert_eq!(value, "Bearer s3cr3t");
    assert!(value.is_sensitive());
    assert!(!format!("{loaded:?}").contains("s3cr3t"));
}

#[test]
fn fields_make_the_output_schema() {
    let text = "upstreams: { a: http://127.0.0.1:1 }\nroutes:\n  t:\n    description: x\n    request: GET a/\n    reply:\n      \
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
fn a_number_in_a_schema_keeps_its_digits() {
    let text = MINIMAL.to_owned()
        + "    input: { properties: { city: { type: string }, n: { type: number, maximum: 12345678901234567890.10 } } }\n";
    let input = loaded(&text).routes[0].route.definition.input_schema.clone();
    assert_eq!(input["properties"]["n"]["maximum"].to_string(), "12345678901234567890.10");
    assert_eq!(input.keys().next().unwrap(), "type");
}

#[track_caller]
fn holds_for(text: &str) {
    let sources = Sources::of_text("a.yaml", text);
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
        holds_for(&text);
    }

    #[test]
    fn any_bytes_are_told_of(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let folder = tempfile(&bytes);
        let sources = Sources { origin: Origin::Path(folder.clone()), environment: Environment::default(), flags: Vec::new() };
        let result = load(&sources);
        std::fs::remove_file(folder).unwrap();
        if let Err(problems) = result {
            prop_assert!(problems.as_slice().iter().any(|problem| problem.line.is_some()));
        }
    }
}

proptest! {
    // Each reads a file with every key there is, which takes its time in a debug build.
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_valid_file_with_a_slip_loads_or_has_a_problem_in_it(
        at in 0..FULL.len(), length in 0..12_usize, instead in "\\PC{0,6}|[ \\n:{}\\[\\],\"'|>&*-]{0,4}",
    ) {
        let floor = |mut at: usize| { while !FULL.is_char_boundary(at) { at -= 1 } at };
        let (start, end) = (floor(at), floor((at + length).min(FULL.len())));
        holds_for(&format!("{}{instead}{}", &FULL[..start], &FULL[end..]));
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

/// The pages of the reference: those in `config/` and those of the extractors.
fn reference() -> Vec<PathBuf> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/config"));
    let entries = [folder.join("extractors"), folder].map(|folder| std::fs::read_dir(folder).unwrap());
    let paths = entries.into_iter().flatten().map(|entry| entry.unwrap().path());
    let mut pages: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect();
    pages.sort();
    pages
}

/// The table of a section, as the reference has it.
fn table(keys: &keys::Keys) -> String {
    let row = |key: &keys::Key| {
        format!(
            "| `{}` | {} | {} |\n",
            key.name,
            key.takes.to_string().replace('|', "\\|"),
            key.means.replace('|', "\\|")
        )
    };
    let rows: String = keys.list.iter().map(row).collect();
    format!("| key | takes | |\n|---|---|---|\n{rows}")
}

#[test]
fn the_reference_has_every_key() {
    let mut shown = BTreeSet::new();
    for page in reference() {
        let written = std::fs::read_to_string(&page).unwrap();
        let expected = with_tables(&written, &mut shown);
        #[expect(clippy::disallowed_methods, reason = "a switch for whoever runs the tests")]
        if std::env::var("UPDATE_GOLDEN").is_ok() {
            std::fs::write(&page, &expected).unwrap();
            continue;
        }
        let page = page.display();
        assert!(written == expected, "{page} is behind the table of keys: run with UPDATE_GOLDEN=1");
    }
    let missing: Vec<_> =
        all_sections().iter().map(|section| section.id).filter(|id| !shown.contains(*id)).collect();
    assert!(missing.is_empty(), "the reference in config/ does not show {missing:?}");
}

/// A page with its tables as the keys have them.
fn with_tables(written: &str, shown: &mut BTreeSet<String>) -> String {
    let mut expected = String::new();
    let mut rest = written;
    while let Some(at) = rest.find("<!-- keys ") {
        let end = at + rest[at..].find("-->").unwrap() + 3;
        let id = rest[at + 10..end - 3].trim();
        let section = all_sections().into_iter().find(|section| section.id == id).unwrap();
        expected.push_str(&format!("{}\n\n{}\n", &rest[..end], table(section)));
        shown.insert(id.to_owned());
        rest = &rest[end + rest[end..].find("<!-- end -->").unwrap()..];
    }
    expected.push_str(rest);
    expected
}

/// Every section that can be reached from the root.
fn all_sections() -> Vec<&'static keys::Keys> {
    fn below(takes: keys::Takes, found: &mut Vec<&'static keys::Keys>) {
        match takes {
            keys::Takes::Section(keys) => visit(keys, found),
            keys::Takes::List(inner) | keys::Takes::OneOrMore(inner) | keys::Takes::Map(inner) => {
                below(*inner, found)
            }
            keys::Takes::Either(kinds) => kinds.iter().for_each(|kind| below(*kind, found)),
            _ => {}
        }
    }
    fn visit(keys: &'static keys::Keys, found: &mut Vec<&'static keys::Keys>) {
        if !found.iter().any(|known| known.id == keys.id) {
            found.push(keys);
            keys.list.iter().for_each(|key| below(key.takes, found));
        }
    }
    let mut found = Vec::new();
    visit(&keys::FILE, &mut found);
    found
}

#[test]
fn the_examples_of_the_reference_load() {
    let written = std::fs::read_to_string(&reference()[0]).unwrap();
    let examples: Vec<_> =
        written.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(examples.len() >= 6);
    for example in examples {
        let loaded = loaded(example);
        assert!(loaded.warnings.is_empty(), "{example}\n{:?}", loaded.warnings);
    }
}

#[test]
fn the_files_beside_the_reference_load() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/config");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let sources = Sources { environment: Environment::default(), ..Sources::of_path(&path) };
            let loaded = load(&sources).unwrap_or_else(|problems| panic!("{problems}"));
            assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
        }
    }
}

#[test]
fn the_page_of_the_presets_has_every_one_with_its_parameters() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/config/presets.md")).unwrap();
    let presets = tree(rules::PRESETS)["rules"].clone();
    for (name, preset) in presets.as_object().unwrap() {
        let section = page.split(&format!("## `{name}`\n")).nth(1);
        let section = section.unwrap_or_else(|| panic!("config/presets.md does not show `{name}`"));
        let section = section.split("\n## ").next().unwrap();
        assert!(page.contains(&format!("| `{name}` | ")), "`{name}` is missing in the list");
        assert!(preset["description"].is_string(), "`{name}` does not say what it is for");
        let parameters = preset.get("parameters").and_then(Value::as_object);
        for (parameter, default) in parameters.into_iter().flatten() {
            let default =
                default.as_str().map_or(String::new(), |text| format!("`{}`", text.replace('|', "\\|")));
            let row = format!("| `{parameter}` | {default} | ");
            assert!(section.contains(&row), "`{name}` does not show {row:?}");
        }
    }
}

#[test]
fn presets_are_right_with_their_defaults() {
    let required = "with: { holds: .x }";
    for name in tree(rules::PRESETS)["rules"].as_object().unwrap().keys() {
        let with = if name == "json_failure" { required } else { "with: {}" };
        let loaded = loaded(&format!("{MINIMAL}    reply: {{ use: {name}, {with} }}\n"));
        assert!(loaded.warnings.is_empty(), "{name}: {:?}", loaded.warnings);
        assert!(
            loaded.routes[0]
                .rule_origins
                .iter()
                .all(|origin| origin.as_ref().is_some_and(|o| o.starts_with(name.as_str())))
        );
    }
}

#[test]
fn parameters_are_put_in_once_and_only_by_their_names() {
    let text = "upstreams: { a: http://127.0.0.1:1 }\nrules:\n  shown:\n    parameters: { x: , n: 404 }\n    reply:\n      \
        - { when: { status: $(n), text: 'a$' }, error: \"$(x) $$(x) ${x} $x {{ status }}\" }\n  \
        outer: { parameters: { y: }, reply: { use: shown, with: { x: \"<$(y)>\", n: [410, 4xx] } } }\nroutes:\n  t:\n    \
        description: x\n    request: GET a/\n    reply: [{ use: shown, with: { x: $(x) $(n) } }, { use: outer, with: { y: z } }]\n";
    let loaded = loaded(text);
    let texts: Vec<_> = loaded.routes[0]
        .route
        .translator
        .rules
        .iter()
        .map(|rule| match &rule.action {
            crate::rule::Action::Error(rule) => rule.text.source().to_owned(),
            crate::rule::Action::Success(_) => unreachable!(),
        })
        .collect();
    assert_eq!(texts, ["$(x) $(n) $(x) ${x} $x {{ status }}", "<z> $(x) ${x} $x {{ status }}"]);
    assert_eq!(loaded.routes[0].rule_origins, [Some("shown".to_owned()), Some("outer > shown".to_owned())]);
}

#[test]
fn a_route_without_rules_reads_what_the_defaults_leave_by_its_type() {
    let text = format!("defaults: {{ reply: {{ use: error_key }} }}\n{MINIMAL}");
    let loaded = loaded(&text);
    let translator = &loaded.routes[0].route.translator;
    assert_eq!((translator.rules.len(), translator.otherwise), (1, crate::rule::Otherwise::Text));
    assert_eq!(loaded.routes[0].rule_origins, [Some("defaults > error_key > json_failure".to_owned())]);
}

#[test]
fn presets_have_words_for_odd_replies() {
    use crate::{
        reply::Reply,
        rule::{Facts, Trace, translate},
    };
    const BODIES: &[&str] = &[
        "",
        "{}",
        "[]",
        "null",
        "5",
        "\"x\"",
        "[[]]",
        "{\"error\": true}",
        "{\"error\": 5}",
        "{\"error\": [[]]}",
        "{\"error\": {\"message\": \"\"}}",
        "{\"error\": {\"message\": 5, \"code\": {}}}",
        "{\"error\": [null]}",
        "{\"success\": false}",
        "{\"success\": 0, \"error\": {}}",
        "{\"success\": \"no\"}",
        "{\"success\": null}",
        "{\"status\": \"fail\"}",
        "{\"status\": \"FAIL\", \"data\": null, \"message\": []}",
        "{\"status\": 5}",
        "{\"data\": null, \"errors\": [\"x\"]}",
        "{\"errors\": [{}]}",
        "{\"errors\": [null]}",
        "{\"errors\": {}}",
        "{\"data\": 1, \"errors\": 5}",
        "ERR",
        "-ERR\r\n",
        "OK",
        "CRITICAL",
        " | ",
        "OK - x=1 | a=1 'b\nUNKNOWN | =;;; ''=1 'c=5",
        "[",
        "[] x",
        "Error:",
        "error: x, y\n1,2",
        "no rows\n",
        "a,b\n\"",
        "{\"error\": {\"message\": {\"value\": 5}}}",
        "{\"odata.error\": {\"message\": []}}",
        "{\"d\": [5], \"value\": 5}",
        "{\"title\": 5, \"detail\": {}, \"errors\": {\"a\": {}, \"b\": [[], 5], \"c\": null}}",
        "{\"type\": [], \"errors\": [5, {}, {\"detail\": [1]}], \"code\": [1]}",
        "{\"errors\": \"x\"}",
        "<html>",
        "<!DOCTYPE html><title> </title><h1></h1>",
        "<Envelope/>",
        "<Envelope><Body/></Envelope>",
        "<Envelope><Body><Fault/></Body></Envelope>",
        "<Envelope><Body><Fault>x</Fault></Body></Envelope>",
        "<Envelope><Body><Fault><faultcode/><faultstring><a/></faultstring></Fault></Body></Envelope>",
        "<Envelope><Body><Fault><faultstring>a</faultstring><faultstring>b</faultstring></Fault></Body></Envelope>",
        "<Envelope><Body><Fault><Code>x</Code><Reason/></Fault></Body></Envelope>",
        "<Envelope><Body><Fault><Code><Value><a/></Value></Code><Reason><Text/><Text>b</Text></Reason></Fault></Body></Envelope>",
        "<Envelope><Body><Fault><Code/><Code/><Reason>x</Reason></Fault></Body></Envelope>",
        "<Envelope><Body><a:b/></Body></Envelope>",
        "<r status='fail'/>",
        "<r status='fail'><error/><error/></r>",
        "<r><status>error</status><error><code/><code>5</code></error></r>",
        "<r><status>error</status><err code='' msg=''>x</err><message><a/></message></r>",
        "<r status='a' ><status>error</status></r>",
        "<r><status>OK</status></r>",
    ];
    for name in tree(rules::PRESETS)["rules"].as_object().unwrap().keys() {
        let with = if name == "json_failure" { "with: { holds: 'true' }" } else { "with: {}" };
        let loaded = loaded(&format!("{MINIMAL}    reply: {{ use: {name}, {with} }}\n"));
        let route = &loaded.routes[0].route;
        let args = json!({ "city": "Oslo" });
        let statuses = [http::StatusCode::OK, http::StatusCode::INTERNAL_SERVER_ERROR];
        for (&body, status) in BODIES.iter().flat_map(|body| statuses.map(|status| (body, status))) {
            let mut headers = http::HeaderMap::new();
            if name == "problem_json" {
                headers.insert("content-type", http::HeaderValue::from_static("application/problem+json"));
            }
            let facts = Facts::new(&route.definition.name, &args);
            let reply = Reply { status, headers, body: body.into() };
            let notes = translate(&route.translator, facts, &reply, &mut Trace::off()).notes;
            let wordless: Vec<_> = notes
                .iter()
                .map(ToString::to_string)
                .filter(|note| note.contains("filled in") || note.contains("empty text"))
                .collect();
            assert!(wordless.is_empty(), "{name} of {status}, {body:?}: {wordless:?}");
        }
    }
}
