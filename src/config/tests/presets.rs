//! Tests of named rules and the presets.

use super::*;

#[test]
fn the_page_of_the_presets_has_every_one_with_its_parameters() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/config/book/reference/presets.md");
    let page = std::fs::read_to_string(page).unwrap();
    let presets = tree(rules::PRESETS)["rules"].clone();
    for (name, preset) in presets.as_object().unwrap() {
        let section = page.split(&format!("## `{name}`\n")).nth(1);
        let section =
            section.unwrap_or_else(|| panic!("config/book/reference/presets.md does not show `{name}`"));
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
        let loaded = loaded(&format!("{MINIMAL}    response: {{ use: {name}, {with} }}\n"));
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
    let text = "upstreams: { a: http://127.0.0.1:1 }\nrules:\n  shown:\n    parameters: { x: , n: 404 }\n    response:\n      \
        - { when: { status: $(n), text: 'a$' }, error: \"$(x) $$(x) ${x} $x {{ status }}\" }\n  \
        outer: { parameters: { y: }, response: { use: shown, with: { x: \"<$(y)>\", n: [410, 4xx] } } }\nroutes:\n  t:\n    \
        description: x\n    request: GET a/\n    response: [{ use: shown, with: { x: $(x) $(n) } }, { use: outer, with: { y: z } }]\n";
    let loaded = loaded(text);
    let texts: Vec<_> = loaded.routes[0]
        .route
        .translator
        .rules
        .iter()
        .map(|rule| match &rule.action {
            crate::translate::RuleAction::Error(rule) => rule.text.source().to_owned(),
            crate::translate::RuleAction::Success(_) => unreachable!(),
        })
        .collect();
    assert_eq!(texts, ["$(x) $(n) $(x) ${x} $x {{ status }}", "<z> $(x) ${x} $x {{ status }}"]);
    assert_eq!(loaded.routes[0].rule_origins, [Some("shown".to_owned()), Some("outer > shown".to_owned())]);
}

#[test]
fn a_route_without_rules_reads_what_the_defaults_leave_by_its_type() {
    let text = format!("defaults: {{ response: {{ use: error_key }} }}\n{MINIMAL}");
    let loaded = loaded(&text);
    let translator = &loaded.routes[0].route.translator;
    assert_eq!((translator.rules.len(), translator.on_no_match), (1, crate::translate::OnNoMatch::Text));
    assert_eq!(loaded.routes[0].rule_origins, [Some("defaults > error_key > json_failure".to_owned())]);
}

#[test]
fn presets_have_messages_for_unusual_responses() {
    use crate::{
        model::UpstreamResponse,
        translate::{CallInput, Trace, translate},
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
        let loaded = loaded(&format!("{MINIMAL}    response: {{ use: {name}, {with} }}\n"));
        let route = &loaded.routes[0].route;
        let args = json!({ "city": "Oslo" });
        let statuses = [http::StatusCode::OK, http::StatusCode::INTERNAL_SERVER_ERROR];
        for (&body, status) in BODIES.iter().flat_map(|body| statuses.map(|status| (body, status))) {
            let mut headers = http::HeaderMap::new();
            if name == "problem_json" {
                headers.insert("content-type", http::HeaderValue::from_static("application/problem+json"));
            }
            let input = CallInput::new(&route.definition.name, &args);
            let response = UpstreamResponse::new(status, headers, body.into());
            let notes = translate(&route.translator, input, &response, &mut Trace::off()).notes;
            let fallback_notes: Vec<_> = notes
                .iter()
                .map(|note| format!("{note:?}"))
                .filter(|note| note.contains("filled in") || note.contains("empty text"))
                .collect();
            assert!(fallback_notes.is_empty(), "{name} of {status}, {body:?}: {fallback_notes:?}");
        }
    }
}
