//! Every promise of `deploy/security.md` has a number and tests, which `proofs` names. The page's table of
//! limits matches the code. `UPDATE_GOLDEN=1 cargo test --test it security` rewrites the table.

mod proofs;

use std::{collections::BTreeSet, fs, path::Path};

use glossator::config::{self, Sources};
use regex::Regex;

use self::proofs::PROOFS;

/// Keys that are limits, by their section in the schema.
const KEYS: &[(&str, &str, &[&str])] = &[
    (
        "server",
        "server",
        &[
            "max_connections",
            "header_timeout",
            "keepalive_timeout",
            "body_limit",
            "request_buffer_limit",
            "body_timeout",
            "write_timeout",
            "response_buffer_limit",
            "upstream_buffer_limit",
            "max_streams",
            "max_streams_per_client",
            "stream_resume_timeout",
            "shutdown_timeout",
            "cache_limit",
        ],
    ),
    (
        "defaults",
        "defaults",
        &[
            "timeout",
            "response_limit",
            "max_values",
            "error_text_limit",
            "max_in_flight",
            "max_in_flight_per_client",
        ],
    ),
];

/// Constants that are limits: what they apply to, and where they are declared.
const CONSTANTS: &[(&str, &str, &str)] = &[
    ("request line and headers", "src/server/connection.rs", "HEAD_LIMIT_BYTES"),
    ("concurrent requests on one HTTP/2 connection", "src/server/connection.rs", "STREAM_LIMIT"),
    ("TLS handshake", "src/server/connection.rs", "HANDSHAKE_TIMEOUT"),
    ("connections to the admin API", "src/server/listener.rs", "CONNECTION_LIMIT"),
    (
        "memory of each request that `request_buffer_limit` does not count",
        "src/inbound/filter.rs",
        "FREE_BYTES",
    ),
    ("open input requests to legacy clients", "src/inbound/mcp/response.rs", "OPEN_REQUESTS_LIMIT"),
    ("responses that `response_buffer_limit` does not count", "src/inbound/mod.rs", "SHORT_BYTES"),
    ("JSON values in the arguments of one call", "src/model/definition.rs", "ARGUMENT_VALUE_LIMIT"),
    ("messages in one JSON-RPC batch", "src/inbound/mcp/message_parser.rs", "BATCH_LIMIT"),
    ("notification streams per session", "src/inbound/mcp/session_subscriptions.rs", "STREAM_LIMIT"),
    ("subscriptions per session", "src/inbound/mcp/session_subscriptions.rs", "SUBSCRIPTION_LIMIT"),
    (
        "total length of the URIs of these",
        "src/inbound/mcp/session_subscriptions.rs",
        "SUBSCRIBED_LIMIT_BYTES",
    ),
    ("URI of a resource that is polled", "src/pipeline/resource_polling.rs", "WATCHED_URI_LIMIT_BYTES"),
    ("path and query of an upstream request", "src/route/request/http.rs", "TARGET_LIMIT_BYTES"),
    ("one argument of a command", "src/route/request/command.rs", "WORD_LIMIT_BYTES"),
    ("standard input of a command", "src/route/request/command.rs", "STDIN_LIMIT_BYTES"),
    ("nested content encodings of a response", "src/translate/content_encoding.rs", "ENCODING_LIMIT"),
    ("rows of a response", "src/translate/extract/mod.rs", "RECORD_LIMIT"),
    ("output of a template", "src/translate/template/bounds.rs", "TEXT_LIMIT_BYTES"),
    (
        "steps of a template, and of all templates of one request or result together",
        "src/translate/template/bounds.rs",
        "FUEL",
    ),
    (
        "memory for the results of filters and the operators `*`, `~` and `+` in a template",
        "src/translate/template/bounds.rs",
        "OUTPUT_LIMIT_BYTES",
    ),
    (
        "steps of the templates of a prompt, a round of input requests or the notifications of a call, \
         including lookups",
        "src/translate/work_budget.rs",
        "TEXT_STEPS",
    ),
    ("operators of a jq filter", "src/translate/jq/mod.rs", "OPERATOR_LIMIT"),
    ("steps of one run of a jq filter", "src/translate/jq/bounds.rs", "JQ_WORK_LIMIT"),
    ("memory that a run of a jq filter allocates", "src/translate/jq/bounds.rs", "JQ_MEMORY_LIMIT_BYTES"),
    ("nesting of a value that a jq filter creates", "src/translate/jq/bounds.rs", "DEPTH_LIMIT"),
    ("a compiled regular expression", "src/translate/pattern.rs", "SIZE_LIMIT_BYTES"),
    ("the regular expression of an upstream's secrets", "src/translate/redaction.rs", "LITERALS_LIMIT_BYTES"),
    ("size of a configuration file", "src/config/folder.rs", "FILE_LIMIT_BYTES"),
    ("number of configuration files", "src/config/folder.rs", "FILE_COUNT_LIMIT"),
    ("nesting of a configuration file", "src/settings/tree/yaml.rs", "DEPTH_LIMIT"),
    ("values of a configuration file, aliases expanded", "src/settings/tree/yaml.rs", "NODE_LIMIT"),
];

/// Memory of the program itself and of idle connections, as the page says.
const OWN_MIB: usize = 20;
const CONNECTIONS_MIB: usize = 130;

#[test]
fn the_memory_limits_in_deploy_fit_the_defaults() {
    let text = "upstreams: { old: http://127.0.0.1:1 }\nroutes: { a: { request: GET old/a } }";
    let loaded = config::load(&Sources::from_text("a.yaml", text)).unwrap();
    // A response that rules parse counts 10 times, and one may be read beyond the limit.
    let response = 10 * loaded.routes[0].route.response_limit_bytes;
    let parts = [
        OWN_MIB,
        CONNECTIONS_MIB,
        loaded.server.filter.request_buffer_limit_bytes >> 20,
        loaded.server.upstream_buffer_limit_bytes >> 20,
        response >> 20,
        loaded.server.cache_limit_bytes >> 20,
    ];
    let needed: usize = parts.iter().sum();
    let [own, connections, bodies, buffer, response, cache] = parts;
    let sentence = format!("{needed} MiB: {own}, {connections}, {bodies}, {buffer}, {response} and {cache}.");
    assert!(page().replace('\n', " ").contains(&sentence), "{sentence}");
    let limits = Regex::new(r"limits: \{ memory: (\d+)Mi \}").unwrap();
    for name in ["kubernetes.yaml", "helm/glossator/values.yaml"] {
        let manifest = fs::read_to_string(root().join("deploy").join(name)).unwrap();
        // Other limits in it are for the legacy server beside it.
        let limit: usize =
            limits.captures_iter(&manifest).map(|found| found[1].parse().unwrap()).max().unwrap();
        assert!(limit >= needed, "{name}: {limit} MiB");
        assert!(page().contains(&format!("a limit of {limit} MiB")), "{name}: {limit} MiB");
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn page() -> String {
    fs::read_to_string(root().join("deploy/security.md")).unwrap()
}

#[test]
fn every_promise_has_its_tests_and_every_test_its_promise() {
    let page = page();
    let promise = Regex::new(r"(?m)^- \*\*([A-Z]\d+)\*\* \S").unwrap();
    let promised: Vec<&str> =
        promise.captures_iter(&page).map(|found| found.get(1).unwrap().as_str()).collect();
    let proven: Vec<&str> = PROOFS.iter().map(|(promise, _)| *promise).collect();
    assert_eq!(promised.iter().collect::<BTreeSet<_>>().len(), promised.len(), "a number is given twice");
    assert_eq!(promised, proven);
    let mut missing = Vec::new();
    for proof in PROOFS.iter().flat_map(|(_, proofs)| *proofs) {
        let found = match proof.split_once("::") {
            None => root().join(proof).is_dir(),
            Some((file, name)) => is_test(&fs::read_to_string(root().join(file)).unwrap_or_default(), name),
        };
        if !found {
            missing.push(*proof);
        }
    }
    assert!(missing.is_empty(), "these are not tests: {missing:#?}");
}

/// Whether a file has a test of that name that is run.
fn is_test(text: &str, name: &str) -> bool {
    let lines: Vec<&str> = text.lines().collect();
    let Some(at) = lines.iter().position(|line| line.contains(&format!("fn {name}("))) else { return false };
    let attributes = lines[..at].iter().rev().take_while(|line| line.trim_start().starts_with("#["));
    let attributes: String = attributes.copied().collect();
    attributes.contains("test") && !attributes.contains("ignore")
}

#[test]
fn the_limits_of_the_page_are_those_of_the_code() {
    let schema = config::schema();
    let default = Regex::new(r"^(.*?)\.? Default:? `?([^`.]+)`?\.").unwrap();
    let mut table = String::from("\n\n| limit | applies to | default |\n|---|---|---|\n");
    for (id, section, keys) in KEYS {
        for key in *keys {
            let property = &schema["$defs"][*id]["properties"][*key];
            let means =
                property["description"].as_str().unwrap_or_else(|| panic!("{section}.{key}: {property}"));
            let found =
                default.captures(means).unwrap_or_else(|| panic!("{section}.{key} has no default: {means}"));
            table += &format!("| `{section}.{key}` | {} | {} |\n", &found[1], &found[2]);
        }
    }
    for (of, file, name) in CONSTANTS {
        table += &format!("| `{name}` in `{file}` | {of} | {} |\n", constant(file, name));
    }
    let page = page();
    let (before, rest) = page.split_once("<!-- limits -->").unwrap();
    let (written, after) = rest.split_once("<!-- end -->").unwrap();
    table += "\n";
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    if update {
        let page = format!("{before}<!-- limits -->{table}<!-- end -->{after}");
        fs::write(root().join("deploy/security.md"), page).unwrap();
    } else {
        assert_eq!(written, table);
    }
}

/// Value of a constant for people: `64 << 10` of bytes is `64 KiB`.
fn constant(file: &str, name: &str) -> String {
    let text = fs::read_to_string(root().join(file)).unwrap();
    let declared = Regex::new(&format!(r"const {name}: [\w:]+ = ([^;]+);")).unwrap();
    let value = declared.captures(&text).unwrap_or_else(|| panic!("{file} has no {name}"))[1].to_owned();
    if let Some(seconds) = value.strip_prefix("Duration::from_secs(") {
        return format!("{}s", seconds.trim_end_matches(')'));
    }
    let number = |text: &str| -> u64 {
        text.trim().replace('_', "").parse().unwrap_or_else(|_| panic!("{file}: {name} = {value}"))
    };
    let inner = value.trim_start_matches('(');
    let value = match inner.split_once("<<") {
        Some((base, shift)) => {
            let (shift, less) = shift.split_once(") - ").unwrap_or((shift, "0"));
            (number(base) << number(shift)) - number(less)
        }
        None => inner.split('*').map(number).product(),
    };
    match (name.ends_with("BYTES"), value) {
        (false, _) => value.to_string(),
        (true, bytes) if bytes % (1 << 20) == 0 => format!("{} MiB", bytes >> 20),
        (true, bytes) if bytes % (1 << 10) == 0 => format!("{} KiB", bytes >> 10),
        (true, bytes) => format!("{bytes} bytes"),
    }
}

#[test]
fn only_functions_that_run_are_tests() {
    assert!(is_test("#[test]\nfn a() {}", "a") && is_test("    #[tokio::test]\n    async fn a() {}", "a"));
    assert!(
        !is_test("fn a() {}", "a") && !is_test("#[test]\n#[ignore]\nfn a() {}", "a") && !is_test("", "a")
    );
}

/// The README links to the page.
#[test]
fn the_readme_leads_to_the_page() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.contains("](deploy/security.md)"));
}
