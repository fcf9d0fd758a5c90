//! `deploy/security.md` promises nothing that no test tries: each promise has a number, and here are the tests of each.
//! Its table of limits is that of the code. `UPDATE_GOLDEN=1 cargo test --test it security` writes the table anew.

use std::{collections::BTreeSet, fs, path::Path};

use regex::Regex;

/// The promises, and what holds each: `FILE::TEST`, or the folder of a golden case.
const PROOFS: &[(&str, &[&str])] = &[
    (
        "C1",
        &[
            "tests/it/attacks.rs::a_request_that_ends_in_two_places_is_refused",
            "tests/it/attacks.rs::a_length_beside_chunks_counts_for_nothing_and_is_the_last_over_its_connection",
        ],
    ),
    ("C2", &["tests/it/attacks.rs::chunks_that_are_none_end_the_connection"]),
    (
        "C3",
        &[
            "tests/it/serve.rs::a_head_has_limits",
            "tests/it/rest.rs::a_body_over_the_limit_is_refused_however_it_comes",
            "tests/it/rest.rs::a_body_that_never_ends_is_not_waited_for",
            "tests/it/mcp/wire.rs::a_body_of_another_type_or_too_long_is_not_read",
            "tests/it/tls.rs::who_speaks_no_tls_or_says_nothing_is_left",
            "src/face/door.rs::a_body_that_takes_too_long_is_not_waited_for",
        ],
    ),
    ("C4", &["tests/it/attacks.rs::a_head_that_comes_drop_by_drop_has_an_end"]),
    (
        "C5",
        &[
            "tests/it/tls.rs::a_client_that_does_not_read_its_answer_loses_it",
            "tests/it/tls.rs::who_reads_slowly_keeps_its_answer",
        ],
    ),
    (
        "C6",
        &[
            "tests/it/attacks.rs::who_sits_there_makes_room_for_who_asks",
            "tests/it/attacks.rs::nobody_who_waits_for_an_answer_makes_room",
            "src/serve/crowd.rs::who_has_asked_nothing_for_the_longest_makes_room",
        ],
    ),
    (
        "C7",
        &[
            "tests/it/attacks.rs::an_argument_stays_in_its_place",
            "tests/it/attacks.rs::an_argument_makes_no_header",
            "tests/it/replies.rs::arguments_make_no_other_request",
        ],
    ),
    (
        "C8",
        &[
            "tests/it/commands.rs::words_reach_the_program_as_they_are",
            "tests/it/commands.rs::an_argument_is_no_option",
        ],
    ),
    (
        "C9",
        &[
            "tests/it/passthrough.rs::a_path_that_goes_up_is_refused",
            "tests/it/replies.rs::what_is_handed_through_says_once_where_it_ends",
        ],
    ),
    (
        "C10",
        &[
            "tests/it/passthrough.rs::a_client_can_not_have_our_word_on_who_asks_removed",
            "tests/it/passthrough.rs::a_request_crosses_unchanged_and_says_who_asked",
        ],
    ),
    (
        "C11",
        &[
            "tests/it/fuzz.rs::every_request_is_answered",
            "tests/it/fuzz.rs::every_web_server_is_understood_or_told_why_not",
        ],
    ),
    (
        "C12",
        &[
            "src/seal.rs::a_token_that_was_changed_anywhere_does_not_open",
            "tests/it/mcp/streams.rs::any_replica_with_the_secret_knows_a_session_and_no_other_does",
        ],
    ),
    (
        "C13",
        &[
            "tests/it/upstream.rs::a_silent_or_trickling_upstream_meets_the_deadline",
            "tests/it/upstream.rs::who_finds_no_place_is_told_to_come_back",
        ],
    ),
    ("A1", &["tests/it/clients.rs::who_shows_nothing_is_told_how_and_nothing_else"]),
    (
        "A2",
        &[
            "tests/it/clients.rs::a_caller_sees_and_calls_what_it_may",
            "tests/it/clients.rs::what_is_handed_through_has_scopes_of_its_own",
        ],
    ),
    ("A3", &["tests/it/clients.rs::a_session_is_nobodys_but_its_clients"]),
    ("A4", &["tests/it/clients.rs::a_key_is_shown_in_one_way_and_once"]),
    (
        "W1",
        &[
            "tests/it/rest.rs::strangers_are_refused_and_probes_are_not",
            "tests/it/mcp/wire.rs::strangers_are_turned_away_before_anything_is_read",
            "src/face/door.rs::a_host_given_twice_or_not_at_all_is_refused",
            "src/face/door.rs::this_machine_comes_in_by_default_and_nobody_else",
        ],
    ),
    (
        "W2",
        &[
            "src/face/door.rs::hosts_and_origins_can_be_allowed_by_name_or_altogether",
            "tests/it/mcp/wire.rs::a_page_that_is_named_may_read_the_answer_and_no_other",
        ],
    ),
    (
        "W3",
        &[
            "tests/it/operators_page.rs::the_page_is_given_to_whoever_may_address_the_port_and_keeps_to_itself",
            "tests/it/operators_page.rs::a_page_of_an_address_is_our_own_where_every_host_is_allowed",
        ],
    ),
    (
        "U1",
        &[
            "tests/it/replies.rs::what_says_in_two_ways_where_it_ends_is_refused",
            "tests/it/replies.rs::what_follows_a_reply_is_not_taken_for_the_next",
        ],
    ),
    (
        "U2",
        &[
            "tests/it/upstream.rs::an_endless_body_is_read_to_the_limit_and_no_further",
            "src/rule/coding/tests.rs::a_gigabyte_in_a_small_file_is_refused_where_the_limit_is",
            "src/rule/coding/tests.rs::nothing_expands_beyond_the_limit",
            "tests/golden/compressed_bomb_br",
        ],
    ),
    ("U3", &["src/rule/extract/xml/tests.rs::entities_are_never_expanded", "tests/golden/xml_entity_bomb"]),
    (
        "U4",
        &[
            "src/rule/tests/properties.rs::every_reply_has_a_translation",
            "tests/it/fuzz.rs::every_reply_is_translated",
            "src/rule/extract/html/tests.rs::hostile_pages_end_soon",
            "src/rule/extract/grok/tests.rs::hostile_replies_take_linear_time",
            "src/rule/extract/xml/tests.rs::deep_wide_and_long_documents_end_soon",
            "src/rule/extract/metrics/tests.rs::hostile_replies_take_linear_time_and_bounded_memory",
            "src/rule/extract/pairs/tests.rs::hostile_replies_take_linear_time_and_bounded_memory",
            "src/rule/extract/regex.rs::hostile_replies_take_linear_time_and_bounded_memory",
            "src/rule/extract/columns/tests/mod.rs::hostile_tables_come_to_an_end",
        ],
    ),
    ("U5", &["tests/it/upstream.rs::redirects_are_followed_on_their_own_origin_and_only_when_allowed"]),
    (
        "U6",
        &[
            "tests/it/rest.rs::a_500_keeps_its_body_to_itself",
            "tests/golden/server_error_with_trace",
            "tests/golden/redact_in_every_part_of_an_error",
        ],
    ),
    (
        "U7",
        &["src/rule/tests/properties.rs::every_reply_has_a_translation", "tests/golden/json_breaks_schema"],
    ),
    ("U8", &["tests/it/upstream.rs::an_upstream_is_sent_what_its_settings_say_and_nothing_of_ours"]),
    (
        "S1",
        &[
            "tests/it/secrets.rs::no_client_and_no_log_is_told_a_secret",
            "tests/it/secrets.rs::no_command_tells_a_secret",
        ],
    ),
    ("S2", &["tests/it/credentials.rs::nothing_is_sent_while_there_is_no_token"]),
    (
        "S3",
        &[
            "tests/it/problems.rs::every_mistake_is_told_in_its_words",
            "tests/problems/secret_in_a_broken_file",
        ],
    ),
    (
        "S4",
        &[
            "tests/it/credentials.rs::a_user_or_a_token_is_told_whatever_the_caller_says",
            "tests/it/credentials.rs::what_is_handed_through_has_the_callers_credential_and_none_of_ours",
        ],
    ),
    (
        "S5",
        &[
            "tests/it/wire.rs::nobody_is_taken_for_somebody_else",
            "tests/it/wire.rs::a_certificate_that_signs_itself_is_known_by_its_fingerprint",
        ],
    ),
    (
        "S6",
        &[
            "src/seal.rs::what_is_kept_opens_in_its_place_and_nowhere_else",
            "tests/it/shared.rs::what_somebody_else_writes_there_is_taken_for_nothing",
        ],
    ),
    ("F1", &["src/config/file.rs::hostile_files_are_refused_in_time", "tests/problems/alias_bomb"]),
    (
        "F2",
        &[
            "tests/it/fuzz.rs::every_file_loads_or_is_told_what_is_wrong",
            "tests/it/problems.rs::every_mistake_is_told_in_its_words",
        ],
    ),
    ("F3", &["tests/it/reload.rs::sighup_puts_a_good_file_in_force_and_tells_of_a_bad_one"]),
    (
        "F4",
        &[
            "src/rule/template/tests.rs::a_template_that_does_too_much_is_stopped",
            "src/rule/template/tests.rs::a_template_that_nests_without_end_is_refused",
            "src/rule/jq/tests.rs::lists_are_gone_through_freely_and_crossed_within_bounds",
        ],
    ),
    (
        "F5",
        &[
            "tests/problems/version_of_tomorrow",
            "src/config/version.rs::a_renamed_key_is_answered_with_its_new_name_in_its_place",
        ],
    ),
    (
        "O1",
        &[
            "tests/it/operators.rs::probes_ask_by_any_name_and_everybody_else_by_one_that_is_allowed",
            "tests/it/operators.rs::a_token_is_asked_for_where_there_is_one",
        ],
    ),
    ("O2", &["tests/it/operators_page.rs::the_workbench_takes_so_much_and_from_whom_it_may"]),
];

/// Keys that limit something, by their section in the schema.
const KEYS: &[(&str, &str, &[&str])] = &[
    (
        "server",
        "server",
        &[
            "connections",
            "header_timeout",
            "body_limit",
            "body_timeout",
            "write_timeout",
            "streams",
            "resume",
            "drain",
            "cache_limit",
        ],
    ),
    ("defaults", "defaults", &["deadline", "reply_limit", "value_limit", "error_text_limit", "in_flight"]),
];

/// Constants that do: what of, and where they stand.
const CONSTANTS: &[(&str, &str, &str)] = &[
    ("the head of a request", "src/serve/connection.rs", "HEAD_LIMIT_BYTES"),
    ("requests open at once over one HTTP/2 connection", "src/serve/connection.rs", "STREAM_LIMIT"),
    ("a TLS handshake", "src/serve/connection.rs", "HANDSHAKE_TIMEOUT"),
    ("connections to the operators' port", "src/serve/operators.rs", "CONNECTION_LIMIT"),
    ("messages in one batch", "src/face/mcp/batch.rs", "LIMIT"),
    ("streams of one session", "src/face/mcp/streams.rs", "SESSION_LIMIT"),
    ("subscriptions of one session", "src/face/mcp/subscribed.rs", "SUBSCRIPTION_LIMIT"),
    ("path and query of what an upstream is asked", "src/route/request/http.rs", "TARGET_LIMIT_BYTES"),
    ("one word of a command", "src/route/request/command.rs", "WORD_LIMIT_BYTES"),
    ("what a command is given to read", "src/route/request/command.rs", "STDIN_LIMIT_BYTES"),
    ("codings of one reply, one in another", "src/rule/coding/mod.rs", "CODING_LIMIT"),
    ("rows of one reply", "src/rule/extract/mod.rs", "RECORD_LIMIT"),
    ("what one template writes", "src/rule/template/bounds.rs", "TEXT_LIMIT_BYTES"),
    ("steps of one template", "src/rule/template/bounds.rs", "FUEL"),
    ("operators of one jq filter", "src/rule/jq/mod.rs", "OPERATOR_LIMIT"),
    ("a compiled pattern", "src/rule/matcher.rs", "SIZE_LIMIT_BYTES"),
    ("a file of the configuration", "src/config/folder.rs", "FILE_LIMIT_BYTES"),
    ("files of the configuration", "src/config/folder.rs", "FILE_COUNT_LIMIT"),
    ("nesting in it", "src/config/file.rs", "DEPTH_LIMIT"),
    ("values in it, aliases put in", "src/config/file.rs", "NODE_LIMIT"),
];

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
    assert!(missing.is_empty(), "these are no tests: {missing:#?}");
}

/// Whether a test of that name stands in a file, and is run.
fn is_test(text: &str, name: &str) -> bool {
    let lines: Vec<&str> = text.lines().collect();
    let Some(at) = lines.iter().position(|line| line.contains(&format!("fn {name}("))) else { return false };
    let attributes = lines[..at].iter().rev().take_while(|line| line.trim_start().starts_with("#["));
    let attributes: String = attributes.copied().collect();
    attributes.contains("test") && !attributes.contains("ignore")
}

#[test]
fn the_limits_of_the_page_are_those_of_the_code() {
    let schema = glossator::config::schema();
    let default = Regex::new(r"^(.*?)\.? Default:? `?([^`.]+)`?\.").unwrap();
    let mut table = String::from("\n\n| limit | of what | unless said otherwise |\n|---|---|---|\n");
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
        table += &format!("| `{name}` | {of} | {} |\n", constant(file, name));
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

/// The value of a constant as people write it: `64 << 10` of bytes is `64 KiB`.
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
fn what_is_not_run_is_no_test() {
    assert!(is_test("#[test]\nfn a() {}", "a") && is_test("    #[tokio::test]\n    async fn a() {}", "a"));
    assert!(
        !is_test("fn a() {}", "a") && !is_test("#[test]\n#[ignore]\nfn a() {}", "a") && !is_test("", "a")
    );
}

/// The page is found by who looks for it.
#[test]
fn the_readme_leads_to_the_page() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.contains("](deploy/security.md)"));
}
