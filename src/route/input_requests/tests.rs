//! Tests of rounds, conditions, client capabilities and responses.

use serde_json::json;

use super::*;
use crate::translate::{Jq, Template};

const ALL: Abilities = Abilities { form: FormAbility::All, link: true, sample: true, roots: true };

fn form(properties: Value) -> Form {
    let required: Vec<&String> = properties.as_object().unwrap().keys().collect();
    Form::compile(json!({"properties": properties, "required": required}).as_object().unwrap()).unwrap()
}

fn question(name: &str, message: &str, when: Option<&str>) -> QuestionTemplate {
    QuestionTemplate {
        name: name.to_owned(),
        when: when.map(|when| Jq::compile(when).unwrap()),
        optional: false,
        inquiry: InquiryTemplate::Form {
            message: Template::compile(message).unwrap(),
            form: form(json!({"name": {"type": "string"}})),
        },
    }
}

fn arguments(value: Value) -> Arguments {
    value.as_object().unwrap().clone().into()
}

fn answers(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

/// Names and messages of the next round.
fn asked(next: Next) -> Vec<(String, String)> {
    let Next::InputRequests(questions) = next else { panic!("found {next:?}") };
    let message = |question: Question| match question.inquiry {
        Inquiry::Form { message, .. } | Inquiry::Link { message, .. } => (question.name, message),
        Inquiry::Sample(sample) => (question.name, sample.messages[0].1.clone()),
        Inquiry::Roots => (question.name, String::new()),
    };
    questions.into_iter().map(message).collect()
}

fn done(next: Next) -> Arguments {
    let Next::Done(arguments) = next else { panic!("found {next:?}") };
    arguments
}

#[test]
fn rounds_follow_each_other_and_know_the_answers_of_earlier_ones() {
    let rounds = vec![
        vec![question("who", "Who is {{ args.id }}?", None), question("why", "Why?", None)],
        vec![question("sure", "Really {{ input_responses.who.name }}?", None)],
    ];
    let asking = Asking { rounds, ..Asking::default() };
    let args = arguments(json!({"id": 7}));
    let next = |given: Value| asking.next(&args, &answers(given), ALL).unwrap();
    assert_eq!(asked(next(json!({}))), [("who".into(), "Who is 7?".into()), ("why".into(), "Why?".into())]);
    assert_eq!(asked(next(json!({"who": {"name": "Ada"}}))), [("why".into(), "Why?".into())]);
    let first = json!({"who": {"name": "Ada"}, "why": {"name": "x"}});
    assert_eq!(asked(next(first)), [("sure".into(), "Really Ada?".into())]);
    let all = json!({"who": {"name": "Ada"}, "why": {"name": "x"}, "sure": {"name": "y"}, "stray": 1});
    let ended = done(next(all));
    assert_eq!(ended.answers()["sure"], json!({"name": "y"}));
    assert!(!ended.answers().contains_key("stray"));
}

#[test]
fn a_condition_decides_whether_somebody_is_asked() {
    let rounds = vec![vec![question("sure", "Sure?", Some("$args.count > 10"))]];
    let asking = Asking { rounds, ..Asking::default() };
    let next = |args: Value| asking.next(&arguments(args), &Map::new(), ALL).unwrap();
    assert_eq!(done(next(json!({"count": 3}))).answers()["sure"], Value::Null);
    assert_eq!(asked(next(json!({"count": 30}))).len(), 1);
    // If a condition fails, the input request is sent.
    let rounds = vec![vec![question("sure", "Sure?", Some("$args.name | test(\"x\")"))]];
    let asking = Asking { rounds, ..Asking::default() };
    assert_eq!(asked(asking.next(&arguments(json!({})), &Map::new(), ALL).unwrap()).len(), 1);
}

#[test]
fn arguments_that_were_left_out_are_asked_for_and_then_there() {
    let inquiry = InquiryTemplate::Arguments {
        message: Template::compile("Where, and when?").unwrap(),
        form: form(json!({"city": {"type": "string"}, "day": {"type": "string"}})),
    };
    let place = QuestionTemplate { name: "place".into(), when: None, optional: false, inquiry };
    let asking = Asking { rounds: vec![vec![place]], ..Asking::default() };
    let args = arguments(json!({"day": "today"}));
    let Next::InputRequests(questions) = asking.next(&args, &Map::new(), ALL).unwrap() else { panic!() };
    let Inquiry::Form { form, .. } = &questions[0].inquiry else { panic!() };
    assert_eq!(form.names().collect::<Vec<_>>(), ["city"]);
    let ended = done(asking.next(&args, &answers(json!({"place": {"city": "Oslo"}})), ALL).unwrap());
    assert_eq!(ended.into_value(), json!({"day": "today", "city": "Oslo"}));
    assert!(asking.gives_arguments("place") && !asking.gives_arguments("city"));
    let whole = arguments(json!({"day": "today", "city": "Bergen"}));
    assert_eq!(done(asking.next(&whole, &Map::new(), ALL).unwrap()).answers()["place"], Value::Null);
}

#[test]
fn later_questions_know_the_arguments_that_were_asked_for() {
    let inquiry = InquiryTemplate::Arguments {
        message: Template::compile("Where?").unwrap(),
        form: form(json!({"city": {"type": "string"}})),
    };
    let place = QuestionTemplate { name: "place".into(), when: None, optional: false, inquiry };
    let sure = question("sure", "Really in {{ args.city }}?", Some("$args.city != \"Oslo\""));
    let asking = Asking { rounds: vec![vec![place], vec![sure]], ..Asking::default() };
    let next = |city: &str| {
        let given = answers(json!({"place": {"city": city}}));
        asking.next(&Arguments::default(), &given, ALL).unwrap()
    };
    assert_eq!(asked(next("Bergen")), [("sure".into(), "Really in Bergen?".into())]);
    assert_eq!(done(next("Oslo")).into_value(), json!({"city": "Oslo"}));
}

#[test]
fn what_a_client_is_not_able_to_do_is_not_asked() {
    let optional =
        QuestionTemplate { optional: true, inquiry: InquiryTemplate::Roots, ..question("roots", "", None) };
    let rounds = vec![vec![optional], vec![question("sure", "Sure?", None)]];
    let asking = Asking { rounds, sampled: Some(Sampled::Needed), ..Asking::default() };
    let none = asking.next(&Arguments::default(), &Map::new(), Abilities::default()).unwrap();
    let Next::Unable(missing) = none else { panic!("found {none:?}") };
    let abilities: Vec<_> = missing.iter().map(|missing| missing.ability).collect();
    assert_eq!(abilities, [Ability::Form, Ability::Sample]);
    let able = Abilities { form: FormAbility::WithoutLists, sample: true, ..Abilities::default() };
    assert_eq!(asked(asking.next(&Arguments::default(), &Map::new(), able).unwrap())[0].0, "sure");
}

#[test]
fn answers_are_held_against_their_questions() {
    let asking = Asking { rounds: vec![vec![question("who", "Who?", None)]], ..Asking::default() };
    let Next::InputRequests(questions) = asking.next(&Arguments::default(), &Map::new(), ALL).unwrap() else {
        panic!()
    };
    let who = &questions[0];
    let accepted = |value: Value| who.take(Answer::Accepted(value.as_object().unwrap().clone()));
    assert_eq!(accepted(json!({"name": "Ada", "more": 1})), Ok(json!({"name": "Ada"})));
    assert!(matches!(accepted(json!({"name": 5})), Err(Unfit::Wrong(why)) if why.contains("`name`")));
    assert!(
        matches!(accepted(json!({"name": "x".repeat(70_000)})), Err(Unfit::Wrong(why)) if why.contains("65536"))
    );
    assert!(matches!(who.take(Answer::Declined), Err(Unfit::Refused(why)) if why.contains("said no")));
    assert!(matches!(who.take(Answer::Roots(vec![])), Err(Unfit::Wrong(_))));
    let optional = Question { optional: true, ..who.clone() };
    assert_eq!(optional.take(Answer::Cancelled), Ok(Value::Null));
    let yes =
        Question { inquiry: Inquiry::Form { message: "Sure?".into(), form: Form::default() }, ..who.clone() };
    assert_eq!(yes.take(Answer::Accepted(Map::new())), Ok(Value::Bool(true)));
}

#[test]
fn a_person_is_sent_to_web_addresses_only() {
    let link = |url: &str| QuestionTemplate {
        inquiry: InquiryTemplate::Link {
            message: Template::compile("Sign in").unwrap(),
            url: Template::compile_for(crate::translate::TemplatePlace::Address, url).unwrap(),
        },
        ..question("key", "", None)
    };
    let next = |url: &str| {
        let asking = Asking { rounds: vec![vec![link(url)]], ..Asking::default() };
        asking.next(&arguments(json!({"id": "a b", "evil": "//@evil.example&"})), &Map::new(), ALL)
    };
    let Next::InputRequests(questions) = next("https://example.com/{{ args.id }}?x={{ args.evil }}").unwrap()
    else {
        panic!()
    };
    let Inquiry::Link { url, .. } = &questions[0].inquiry else { panic!() };
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
