//! Tests of rounds, conditions, client capabilities and responses.

use serde_json::json;

use super::*;
use crate::translate::{Jq, Template};

const ALL_CAPABILITIES: &[ClientCapability] = &[
    ClientCapability::Form,
    ClientCapability::FormWithMultiSelect,
    ClientCapability::Url,
    ClientCapability::Sampling,
    ClientCapability::Roots,
];

fn form(properties: Value) -> InputForm {
    let required: Vec<&String> = properties.as_object().unwrap().keys().collect();
    InputForm::compile(json!({"properties": properties, "required": required}).as_object().unwrap()).unwrap()
}

fn input_request(name: &str, message: &str, when: Option<&str>) -> InputRequestTemplate {
    InputRequestTemplate {
        name: name.to_owned(),
        when: when.map(|when| Jq::compile(when, &[]).unwrap()),
        optional: false,
        gives_arguments: false,
        kind: InputRequestKindTemplate::Form {
            message: Template::compile(message).unwrap(),
            form: form(json!({"name": {"type": "string"}})),
        },
    }
}

fn arguments(value: Value) -> Arguments {
    value.as_object().unwrap().clone().into()
}

fn responses(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

/// Names and messages of the next round.
fn next_requests(next: NextStep) -> Vec<(String, String)> {
    let NextStep::InputRequests(requests) = next else { panic!("found {next:?}") };
    let message = |request: InputRequest| match request.kind {
        InputRequestKind::Form { message, .. } | InputRequestKind::Url { message, .. } => {
            (request.name, message)
        }
        InputRequestKind::Sampling(sample) => (request.name, sample.messages[0].1.clone()),
        InputRequestKind::Roots => (request.name, String::new()),
    };
    requests.into_iter().map(message).collect()
}

fn done_arguments(next: NextStep) -> Arguments {
    let NextStep::Done(arguments) = next else { panic!("found {next:?}") };
    arguments
}

#[test]
fn rounds_see_the_input_responses_of_earlier_rounds() {
    let rounds = vec![
        vec![input_request("who", "Who is {{ args.id }}?", None), input_request("why", "Why?", None)],
        vec![input_request("sure", "Really {{ input_responses.who.name }}?", None)],
    ];
    let input_requests = InputRequests { rounds, ..InputRequests::default() };
    let args = arguments(json!({"id": 7}));
    let next = |value: Value| input_requests.next(&args, &responses(value), ALL_CAPABILITIES).unwrap();
    assert_eq!(
        next_requests(next(json!({}))),
        [("who".into(), "Who is 7?".into()), ("why".into(), "Why?".into())]
    );
    assert_eq!(next_requests(next(json!({"who": {"name": "Ada"}}))), [("why".into(), "Why?".into())]);
    let first = json!({"who": {"name": "Ada"}, "why": {"name": "x"}});
    assert_eq!(next_requests(next(first)), [("sure".into(), "Really Ada?".into())]);
    let all = json!({"who": {"name": "Ada"}, "why": {"name": "x"}, "sure": {"name": "y"}, "stray": 1});
    let final_arguments = done_arguments(next(all));
    assert_eq!(final_arguments.input_responses["sure"], json!({"name": "y"}));
    assert!(!final_arguments.input_responses.contains_key("stray"));
}

#[test]
fn a_condition_decides_whether_input_is_requested() {
    let rounds = vec![vec![input_request("sure", "Sure?", Some("$args.count > 10"))]];
    let input_requests = InputRequests { rounds, ..InputRequests::default() };
    let next = |args: Value| input_requests.next(&arguments(args), &Map::new(), ALL_CAPABILITIES).unwrap();
    assert_eq!(done_arguments(next(json!({"count": 3}))).input_responses["sure"], Value::Null);
    assert_eq!(next_requests(next(json!({"count": 30}))).len(), 1);
    // If a condition fails, the input request is sent.
    let rounds = vec![vec![input_request("sure", "Sure?", Some("$args.name | test(\"x\")"))]];
    let input_requests = InputRequests { rounds, ..InputRequests::default() };
    assert_eq!(
        next_requests(input_requests.next(&arguments(json!({})), &Map::new(), ALL_CAPABILITIES).unwrap())
            .len(),
        1
    );
}

#[test]
fn missing_arguments_are_requested_and_then_available() {
    let kind = InputRequestKindTemplate::Form {
        message: Template::compile("Where, and when?").unwrap(),
        form: form(json!({"city": {"type": "string"}, "day": {"type": "string"}})),
    };
    let place = InputRequestTemplate {
        name: "place".into(),
        when: None,
        optional: false,
        gives_arguments: true,
        kind,
    };
    let input_requests = InputRequests { rounds: vec![vec![place]], ..InputRequests::default() };
    let args = arguments(json!({"day": "today"}));
    let NextStep::InputRequests(requests) =
        input_requests.next(&args, &Map::new(), ALL_CAPABILITIES).unwrap()
    else {
        panic!()
    };
    let InputRequestKind::Form { form, .. } = &requests[0].kind else { panic!() };
    assert_eq!(form.names().collect::<Vec<_>>(), ["city"]);
    let final_arguments = done_arguments(
        input_requests.next(&args, &responses(json!({"place": {"city": "Oslo"}})), ALL_CAPABILITIES).unwrap(),
    );
    assert_eq!(Value::Object(final_arguments.values), json!({"day": "today", "city": "Oslo"}));
    assert!(input_requests.gives_arguments("place") && !input_requests.gives_arguments("city"));
    let complete_arguments = arguments(json!({"day": "today", "city": "Bergen"}));
    assert_eq!(
        done_arguments(input_requests.next(&complete_arguments, &Map::new(), ALL_CAPABILITIES).unwrap())
            .input_responses["place"],
        Value::Null
    );
}

#[test]
fn later_input_requests_see_the_requested_arguments() {
    let kind = InputRequestKindTemplate::Form {
        message: Template::compile("Where?").unwrap(),
        form: form(json!({"city": {"type": "string"}})),
    };
    let place = InputRequestTemplate {
        name: "place".into(),
        when: None,
        optional: false,
        gives_arguments: true,
        kind,
    };
    let sure = input_request("sure", "Really in {{ args.city }}?", Some("$args.city != \"Oslo\""));
    let input_requests = InputRequests { rounds: vec![vec![place], vec![sure]], ..InputRequests::default() };
    let next = |city: &str| {
        let input_responses = responses(json!({"place": {"city": city}}));
        input_requests.next(&Arguments::default(), &input_responses, ALL_CAPABILITIES).unwrap()
    };
    assert_eq!(next_requests(next("Bergen")), [("sure".into(), "Really in Bergen?".into())]);
    assert_eq!(Value::Object(done_arguments(next("Oslo")).values), json!({"city": "Oslo"}));
}

#[test]
fn unsupported_input_requests_are_not_sent() {
    let optional = InputRequestTemplate {
        optional: true,
        kind: InputRequestKindTemplate::Roots,
        ..input_request("roots", "", None)
    };
    let rounds = vec![vec![optional], vec![input_request("sure", "Sure?", None)]];
    let input_requests =
        InputRequests { rounds, sampled: Some(SamplingNeed::Needed), ..InputRequests::default() };
    let step = input_requests.next(&Arguments::default(), &Map::new(), &[]).unwrap();
    let NextStep::MissingCapabilities(missing) = step else { panic!("found {step:?}") };
    assert_eq!(missing, [ClientCapability::Form, ClientCapability::Sampling]);
    let supported = &[ClientCapability::Form, ClientCapability::Sampling];
    assert_eq!(
        next_requests(input_requests.next(&Arguments::default(), &Map::new(), supported).unwrap())[0].0,
        "sure"
    );
}

#[test]
fn input_responses_are_validated_against_their_requests() {
    let input_requests =
        InputRequests { rounds: vec![vec![input_request("who", "Who?", None)]], ..InputRequests::default() };
    let NextStep::InputRequests(requests) =
        input_requests.next(&Arguments::default(), &Map::new(), ALL_CAPABILITIES).unwrap()
    else {
        panic!()
    };
    let who = &requests[0];
    let accepted = |value: Value| who.take(InputResponse::Accepted(value));
    assert_eq!(accepted(json!({"name": "Ada", "more": 1})), Ok(json!({"name": "Ada"})));
    assert!(matches!(
        accepted(json!({"name": 5})),
        Err(InvalidInput::Wrong(message)) if message.contains("`name`")
    ));
    assert!(matches!(
        accepted(json!({"name": "x".repeat(70_000)})),
        Err(InvalidInput::Wrong(message)) if message.contains("65536")
    ));
    assert!(matches!(
        who.take(InputResponse::Declined),
        Err(InvalidInput::Declined(message)) if message.contains("declined")
    ));
    assert!(matches!(who.take(InputResponse::Accepted(json!([]))), Err(InvalidInput::Wrong(_))));
    let optional = InputRequest { optional: true, ..who.clone() };
    assert_eq!(optional.take(InputResponse::Cancelled), Ok(Value::Null));
    let confirmation = InputRequest {
        kind: InputRequestKind::Form { message: "Sure?".into(), form: InputForm::default() },
        ..who.clone()
    };
    assert_eq!(confirmation.take(InputResponse::Accepted(json!({}))), Ok(Value::Bool(true)));
}

#[test]
fn a_person_is_sent_to_web_addresses_only() {
    let link = |url: &str| InputRequestTemplate {
        kind: InputRequestKindTemplate::Url {
            message: Template::compile("Sign in").unwrap(),
            url: Template::compile_for(crate::translate::OutputContext::Url, url).unwrap(),
        },
        ..input_request("key", "", None)
    };
    let next = |url: &str| {
        let input_requests = InputRequests { rounds: vec![vec![link(url)]], ..InputRequests::default() };
        input_requests.next(
            &arguments(json!({"id": "a b", "evil": "//@evil.example&"})),
            &Map::new(),
            ALL_CAPABILITIES,
        )
    };
    let NextStep::InputRequests(requests) =
        next("https://example.com/{{ args.id }}?x={{ args.evil }}").unwrap()
    else {
        panic!()
    };
    let InputRequestKind::Url { url, .. } = &requests[0].kind else { panic!() };
    assert_eq!(url, "https://example.com/a%20b?x=%2F%2F%40evil.example%26");
    for url in [
        "{{ args.evil }}",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "https://",
        "https://a/{{ args.none }}",
    ] {
        assert!(next(url).is_err(), "{url}");
    }
}
