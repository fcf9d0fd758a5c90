//! Tests that names are replaced, and nothing else.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;
use crate::config::renamed::rows;

/// Invented old names, for keys of every kind.
static TEST_RENAMES: LazyLock<Renames> = LazyLock::new(|| Renames {
    settings: rows(TEST_ROWS),
    variables: &[("replies", "answers"), ("limit.gone", "limit.rest")],
});

const TEST_ROWS: &str = "\
server bind -> listen
server front_page -> removed: leave it out
server tls_certificate -> tls.certificate
server tls_key -> tls.key
file paths -> routes
file named -> rules
route about -> description
route checks -> tests
route,defaults cloak -> redact
route,defaults,upstream again -> retry
retry tries -> max_attempts
rule if -> when
use values -> with
rules slots -> parameters
pairs gap -> separator
example wants -> expect
route,defaults envelope: bare -> plain
";

#[track_caller]
fn migrated(text: &str, format: Format) -> Migrated {
    let migrated =
        migrate_by(&TEST_RENAMES, "a.yaml", text, format).unwrap_or_else(|problems| panic!("{problems}"));
    let migrated_again = migrate_by(&TEST_RENAMES, "a.yaml", &migrated.text, format).unwrap();
    assert_eq!((&migrated_again.text, migrated_again.changes.len()), (&migrated.text, 0), "a second time");
    migrated
}

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(migrated(text, Format::Yaml).text, expected);
}

/// Remarks about a text that is unchanged.
#[track_caller]
fn check_remarks(text: &str, expected: &[&str]) {
    let migrated = migrated(text, Format::Yaml);
    assert_eq!(migrated.text, text);
    let remarks =
        migrated.remarks.iter().map(|Remark { line, column, message }| format!("{line}:{column}: {message}"));
    assert_eq!(remarks.collect::<Vec<_>>(), expected);
}

#[test]
fn keys_are_renamed_and_the_rest_is_unchanged() {
    let before = "# head\r\nserver:   # where\r\n  \"bind\" :  '127.0.0.1:80'   # bind\r\n\r\n\
     'paths':\r\n    a:\r\n        \
                  about: >-\r\n            about\r\n            bind\r\n        request: GET old/bind\r\n";
    let after = before
        .replace("\"bind\"", "\"listen\"")
        .replace("'paths'", "'routes'")
        .replace("about: >", "description: >");
    check(before, &after);
    check(&format!("\u{feff}{before}"), &format!("\u{feff}{after}"));
    let changes = migrated(before, Format::Yaml).changes;
    let change =
        Change { line: 3, column: 3, section: "server".into(), was: "bind".into(), now: "listen".into() };
    assert_eq!((changes.len(), &changes[0]), (3, &change));
}

#[test]
fn every_section_is_found_by_its_old_names() {
    check(
        "named:\n  common:\n    slots: { word: }\n    response: [ { if: { text: $(word) }, error: bind } ]\n\
         defaults: { again: { tries: 2 }, envelope: bare, cloak: [bare] }\n\
         upstreams:\n  old: { url: \"http://a\", again: off }\n\
         paths:\n  a:\n    again: { tries: 1 }\n    envelope: \"bare\"\n    response:\n      \
         - { use: common, values: { word: if } }\n      \
         - if: { status: 404 }\n        extract: { pairs: { gap: '=' }, fields: { gap: string } }\n      \
         - extract: { bind: { pairs: { gap: [=] } }, about: json }\n    checks:\n      \
         - response: { body: if }\n        wants: { text: x }\n",
        "rules:\n  common:\n    parameters: { word: }\n    \
         response: [ { when: { text: $(word) }, error: bind } ]\n\
         defaults: { retry: { max_attempts: 2 }, envelope: plain, redact: [bare] }\n\
         upstreams:\n  old: { url: \"http://a\", retry: off }\n\
         routes:\n  a:\n    retry: { max_attempts: 1 }\n    envelope: \"plain\"\n    response:\n      \
         - { use: common, with: { word: if } }\n      \
         - when: { status: 404 }\n        \
         extract: { pairs: { separator: '=' }, fields: { gap: string } }\n      \
         - extract: { bind: { pairs: { separator: [=] } }, about: json }\n    tests:\n      \
         - response: { body: if }\n        expect: { text: x }\n",
    );
}

#[test]
fn a_key_that_is_now_in_a_nested_section_is_moved_with_its_comments() {
    check(
        "server:\n  # The one.\n  tls_certificate: |\n    a\n\n    b\n\n  bind: :80 # here\n  \
         'tls_key': ${GLOSSATOR__SERVER__BIND} # secret\n\nroutes: {}\n",
        "server:\n  tls:\n    # The one.\n    certificate: |\n      a\n\n      b\n    \
         key: ${GLOSSATOR__SERVER__LISTEN} # secret\n\n  listen: :80 # here\n\nroutes: {}\n",
    );
    check(
        "server:\r\n    tls_key: k\r\n---\r\nserver:\r\n  bind: a\r\n  tls_key: >-\r\n    b",
        "server:\r\n    tls:\r\n      key: k\r\n---\r\nserver:\r\n  listen: a\r\n  \
         tls:\r\n    key: >-\r\n      b\r\n",
    );
    let moved = migrated("server:\n  bind: a\n  tls_key: k\n", Format::Yaml);
    let changes: Vec<_> =
        moved.changes.iter().map(|change| (change.line, change.column, &*change.now)).collect();
    assert_eq!(changes, [(2, 3, "listen"), (3, 3, "tls.key")]);
    assert_eq!(moved.remarks, []);
}

#[test]
fn a_remark_below_a_key_that_was_moved_has_its_line_in_the_new_file() {
    let lines = |text: &str, format| -> Vec<_> {
        let remarks = migrated(text, format).remarks;
        remarks.iter().map(|remark| (remark.line, remark.column)).collect()
    };
    let (moved, removed) = ("server:\n  tls_key: k\n", "server:\n  front_page: x\n");
    assert_eq!(lines(&format!("{moved}  front_page: x\n"), Format::Yaml), [(4, 3)]);
    let page = format!("```yaml\n{moved}```\n```yaml\n{removed}```\n");
    assert_eq!(lines(&page, Format::Markdown), [(8, 3)]);
    let blocks = format!("a.yaml: |\n{moved}b.yaml: |\n{removed}").replace("\n  ", "\n    ");
    let manifest = blocks.replace("\nserver", "\n  server");
    assert_eq!(lines(&manifest, Format::Yaml), [(7, 5)]);
}

#[test]
fn a_key_that_can_not_be_moved_into_its_nested_section_is_reported() {
    let remark = |position: &str, key: &str| {
        format!("{position}: server: `tls_{key}` is now `tls.{key}`: move it by hand")
    };
    check_remarks("server:\n  tls: { key: k }\n  tls_certificate: c\n", &[&remark("3:3", "certificate")]);
    check_remarks("server: { tls_key: k, listen: :80 }\n", &[&remark("1:11", "key")]);
    // Merged from elsewhere, where the key would mean something else.
    check_remarks("prompts: &a\n  tls_key: k\nserver:\n  <<: *a\n", &[&remark("2:3", "key")]);
    check_remarks("prompts: &a\n  tls_key: k\nserver: *a\n", &[&remark("2:3", "key")]);
    check(
        "prompts: &a\n  tls_key: k\nserver:\n  <<: *a\n  tls_certificate: c\n",
        "prompts: &a\n  tls_key: k\nserver:\n  <<: *a\n  tls:\n    certificate: c\n",
    );
    // The value is not indented, or would be that of another anchor.
    check_remarks("server:\n  tls_key:\n  - k\n  listen: a\n", &[&remark("2:3", "key")]);
    check_remarks(
        "server:\n  tls_key: k\n  listen: &a x\n  tls_certificate: *a\n",
        &[&remark("2:3", "key"), &remark("4:3", "certificate")],
    );
    check("server: { tls_key: k, bind: :80 }\n", "server: { tls_key: k, listen: :80 }\n");
}

#[test]
fn uncertain_names_are_unchanged() {
    check_remarks(
        "server: { bind: a, listen: b, front_page: c }\n",
        &[
            "1:11: server: `bind` is now `listen`, which is also present",
            "1:31: server: `front_page` was removed: leave it out",
        ],
    );
    // A map that is `retry` in one place, and another section in the other.
    check_remarks(
        "routes: { a: { retry: &r { tries: 1 }, cache: *r } }\n",
        &["1:28: retry: `tries` is now `max_attempts`, but an alias uses it for something else"],
    );
}

#[test]
fn anchors_and_merges_are_renamed_in_place() {
    check(
        "upstreams: { a: &a { url: x, again: &r { tries: 2 } }, b: { <<: *a, url: y, retry: off } }\n\
         defaults: { again: *r }\n",
        "upstreams: { a: &a { url: x, retry: &r { max_attempts: 2 } }, b: { <<: *a, url: y, retry: off } }\n\
         defaults: { retry: *r }\n",
    );
}

#[test]
fn names_in_jq_and_templates_are_renamed_where_they_are_variables() {
    check(
        "routes:\n  a:\n    confirm: \"replies: \
         {{ replies.a }} {{ x.replies }} {{ 'replies' }} {{ f(replies) }} {{ limit.gone }} {{ gone }}\"\n    \
         response: { structured: '$replies.replies | .replies' }\n    tests: [ { args: { a: $replies } } ]\n",
        "routes:\n  a:\n    confirm: \"replies: \
         {{ answers.a }} {{ x.replies }} {{ 'replies' }} {{ f(answers) }} {{ limit.rest }} {{ gone }}\"\n    \
         response: { structured: '$answers.replies | .replies' }\n    tests: [ { args: { a: $replies } } ]\n",
    );
    check_remarks(
        "routes: { a: { response: { structured: '1 as $replies | $replies' } } }\n",
        &["1:40: a rule: `replies` may refer to something else here"],
    );
    check_remarks(
        "upstreams: { a: { command: [sh, -c, 'replies=$(ls); echo $replies'] } }\n",
        &["1:37: an upstream: `replies` may refer to something else here"],
    );
    check(
        "routes: { a: { response: { structured: '$replies==0' } } }\n",
        "routes: { a: { response: { structured: '$answers==0' } } }\n",
    );
}

#[test]
fn other_files_have_variables_of_the_environment_and_configurations_as_texts() {
    check(
        "services:\n  a:\n    environment: { GLOSSATOR__SERVER__BIND: :80, bind: 1 }\n    \
         command: 'x ${GLOSSATOR__SERVER__TLS_KEY}'\n\
         ---\nkind: ConfigMap\ndata:\n  # bind\n  a.yaml: |\n      server:\n\n        \
         bind: :80 # x\n        tls_key: k\n  b: |\n    server: { bind: x }\n",
        "services:\n  a:\n    environment: { GLOSSATOR__SERVER__LISTEN: :80, bind: 1 }\n    \
         command: 'x ${GLOSSATOR__SERVER__TLS__KEY}'\n\
         ---\nkind: ConfigMap\ndata:\n  # bind\n  a.yaml: |\n      server:\n\n        \
         listen: :80 # x\n        tls:\n          key: k\n  b: |\n    server: { bind: x }\n",
    );
    // Its second document is not a configuration.
    check(
        "server:\n  tls_key: k\n---\nkind: x\nname: y\nserver:\n  tls_key: k\n",
        "server:\n  tls:\n    key: k\n---\nkind: x\nname: y\nserver:\n  tls_key: k\n",
    );
    let manifest = "kind: ConfigMap\ndata:\n  a.yaml: |\n    server:\n      bind: x\n";
    let change = &migrated(manifest, Format::Yaml).changes[0];
    assert_eq!((change.line, change.column), (5, 7));
    for other in [
        "server: nginx\nlisten: bind\nbind: 1\nnot: ours\n",
        "",
        "# nothing\n",
        "- bind\n",
        "version: 3\nbind: 1\n",
    ] {
        check(other, other);
    }
}

#[test]
fn several_documents_are_renamed_each() {
    check(
        "---\nserver: { bind: a }\n---\npaths: {}\n...\n",
        "---\nserver: { listen: a }\n---\nroutes: {}\n...\n",
    );
}

#[test]
fn blocks_of_a_page_are_renamed_wherever_they_belong() {
    let before = "server: bind\n\n```a``` is code\n\n```yaml\nserver: { bind: a }\n```\n\n1. x\n\n   \
     ```yaml\n   - if: { status: 404 }\n\n     error: bind\n   ```\n\n\
                  ~~~yml\nretry: { tries: 5 }\n~~~\n\n```sh\nserver: { bind: a }\n```\n\n```yaml\n\
                  services: { a: { bind: 1 } }\n```\n";
    let after = before
        .replacen("{ bind: a }", "{ listen: a }", 1)
        .replace("- if:", "- when:")
        .replace("tries", "max_attempts");
    let found = migrated(before, Format::Markdown);
    assert_eq!(found.text, after);
    assert_eq!(found.remarks, []);
    let positions: Vec<_> = found.changes.iter().map(|change| (change.line, change.column)).collect();
    assert_eq!(positions, [(6, 11), (12, 6), (18, 10)]);
}

#[test]
fn a_file_that_is_no_yaml_is_a_problem() {
    let problems = migrate_by(&TEST_RENAMES, "a.yaml", "server: [1\n", Format::Yaml).unwrap_err();
    assert!(problems.to_string().starts_with("a.yaml:"), "{problems}");
}

/// Value under an unknown key, in every YAML style.
fn value() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "x",
        "'bind: 1'",
        "\"\\\"bind\\\"\"",
        "[bind, {bind: 1}]",
        "{ bind: 1, }",
        "|\n      bind: 1\n\n      if: 2\n",
        "~",
        "# bind\n      bind",
        ">-\n      bind\n       if\n",
        "&a x",
        "[\n      bind, # if\n    ]",
    ])
}

fn key() -> impl Strategy<Value = (String, String)> {
    let names = vec![
        ("about", "description"),
        ("cloak", "redact"),
        ("again", "retry"),
        ("title", "title"),
        ("input", "input"),
    ];
    (prop::sample::select(names), 0..3usize).prop_map(|((old_name, new_name), quotes)| {
        let quote = ["", "'", "\""][quotes];
        (format!("{quote}{old_name}{quote}"), format!("{quote}{new_name}{quote}"))
    })
}

proptest! {
    /// Migrating a file with old names gives the same bytes as writing it with the new names.
    #[test]
    fn a_file_is_the_same_but_for_its_names(
        members in prop::collection::vec((key(), value(), "( *# if: bind)?"), 0..6),
        line_end in prop::sample::select(vec!["\n", "\r\n"]),
    ) {
        let (mut before, mut after) = ("paths:\n  a:\n".to_owned(), "routes:\n  a:\n".to_owned());
        let mut seen = Vec::new();
        for ((old_name, new_name), value, comment) in members {
            let name = new_name.trim_matches(['"', '\'']).to_owned();
            if seen.contains(&name) {
                continue;
            }
            seen.push(name);
            let has_comment = !comment.is_empty() && !value.contains('\n');
            let comment = if has_comment { format!(" {comment}") } else { String::new() };
            before += &format!("    {old_name}: {value}{comment}\n");
            after += &format!("    {new_name}: {value}{comment}\n");
        }
        before += "    request: GET old/x\n";
        after += "    request: GET old/x\n";
        let (before, after) = (before.replace('\n', line_end), after.replace('\n', line_end));
        let migrated = migrate_by(&TEST_RENAMES, "a.yaml", &before, Format::Yaml).unwrap();
        prop_assert_eq!(migrated.text, after);
        prop_assert!(migrated.remarks.is_empty());
    }
}
