//! Test helper: types, blocks, limits and conditions for the tests in [`super::properties`]. There are a few
//! of each, selected by number.

use serde_json::json;

use crate::settings::OneOrMore;
use crate::translate::extract::{Binary, Extract, ExtractPart, Extractor, ExtractorKind, Typing};
use crate::translate::*;

/// Number of typings.
pub(super) const TYPINGS: usize = 8;
/// Number of contents.
pub(super) const CONTENTS: usize = 9;
/// Number of limits, no limit included.
pub(super) const LIMITS: usize = 6;
/// Number of lists of error rules, the empty one included.
pub(super) const ERRORS: usize = 5;

fn template(source: &str) -> Template {
    Template::compile(source).unwrap()
}

fn jq(source: &str) -> Jq {
    Jq::compile(source, &[]).unwrap()
}

/// An optional field.
fn field(name: &str, from: &str, kind: FieldType) -> Field {
    Field { from: from.parse().unwrap(), missing: OnMissing::Omit, ..Field::new(name, kind) }
}

fn number() -> FieldType {
    FieldKind::Number(NumberForm::default()).into()
}

fn list_of(kind: FieldKind) -> FieldType {
    FieldType { count: Multiplicity::List, ..kind.into() }
}

fn or_null(kind: FieldKind) -> FieldType {
    FieldType { nulls: vec!["x".into(), "-".into()], ..kind.into() }
}

fn enumeration(rest: Option<serde_json::Value>) -> FieldKind {
    let words = vec![("a".into(), json!("up")), ("x".into(), json!(2)), ("1".into(), json!(null))];
    FieldKind::Values(Enumeration { words, rest, ignore_case: true }.into())
}

/// Types of an extracted value; the first is untyped.
pub(super) fn typing(index: usize) -> Typing {
    let value = |from: Option<&str>, kind| Typing::Value {
        from: from.map(|from| from.parse().unwrap()),
        kind: Box::new(kind),
    };
    match index {
        0 => Typing::Untyped,
        1 => Typing::Fields(Fields::new(vec![Field::new("a", number())])),
        2 => Typing::Fields(Fields::new(vec![
            field("a", "a", list_of(FieldKind::String)),
            Field {
                missing: OnMissing::Default(json!("up").into()),
                ..Field::new("b", enumeration(Some(json!("other"))).into())
            },
            field("when", "a", or_null(FieldKind::DateTime(TimeOptions::default()))),
            field("size", "b", or_null(FieldKind::Size(SizeForm::default()))),
            field("length", "x", FieldKind::Duration(DurationForm::default()).into()),
        ])),
        3 => {
            let mut fields = Fields::new(vec![field("deep", "a.b", FieldKind::Any.into())]);
            fields.others = Some(Box::new(FieldKind::Any.into()));
            Typing::Fields(fields)
        }
        4 => Typing::Fields(Fields::new(vec![field(
            "a",
            "a",
            list_of(FieldKind::Object(Some(Fields::new(vec![field("b", "b", number())])))),
        )])),
        5 => value(None, or_null(enumeration(None))),
        6 => value(None, list_of(FieldKind::String)),
        _ => value(Some("a"), or_null(FieldKind::String)),
    }
}

/// One extractor alone, or as one of two parts; the second part is optional.
pub(super) fn extract(kind: ExtractorKind, typing: Typing, second: Option<ExtractorKind>) -> Extract {
    let extractor = Extractor { source: None, kind, typing };
    let Some(second) = second else { return Extract::One(Box::new(extractor)) };
    Extract::Parts(vec![
        ExtractPart { name: "a".into(), extractor, optional: false },
        ExtractPart { name: "b".into(), extractor: Extractor::untyped(second), optional: true },
    ])
}

/// Content; the first is the default.
pub(super) fn content(index: usize) -> ContentTemplate {
    let block = |payload| BlockTemplate::new(payload);
    let text = |source| block(BlockPayload::Text(template(source)));
    let blocks = match index {
        0 => return ContentTemplate::default(),
        1 => vec![text("{{ text }}")],
        2 => vec![text("{{ structured }} {{ value.a }}")],
        3 => vec![text("{{ why }}")],
        4 => vec![
            BlockTemplate { each: Some(jq(".result?")), ..text("{{ item.a | default(item) }}") },
            BlockTemplate { when: Some(jq(".a")), ..text("{{ structured.a }}") },
        ],
        5 => vec![BlockTemplate { when: Some(jq("false")), ..text("never") }],
        6 => vec![
            block(BlockPayload::Verbatim),
            BlockTemplate {
                annotations: Some(AnnotationsTemplate {
                    last_modified: Some(template("{{ text }}")),
                    ..AnnotationsTemplate::default()
                }),
                ..block(BlockPayload::JsonPretty)
            },
            text("{{ structured.result | default([]) | markdown_table }}"),
        ],
        7 => vec![
            block(BlockPayload::Base64 {
                is_image: true,
                data: template("{{ structured.a }}"),
                media_type: "image/png".into(),
            }),
            block(BlockPayload::Resource(EmbeddedTemplate {
                uri: template("file:///a"),
                media_type: None,
                text: None,
                blob: Some(template("{{ text }}")),
            })),
        ],
        _ => vec![
            block(BlockPayload::Bytes(Binary { kind: None, media_type: None })),
            block(BlockPayload::ResourceLink(LinkTemplate {
                uri: template("http://a/{{ text }}"),
                name: template("{{ structured.a | default('a') }}"),
                description: None,
                media_type: None,
            })),
        ],
    };
    ContentTemplate(blocks)
}

/// Limits; the first is none.
pub(super) fn limit(index: usize) -> Option<Limit> {
    let limit = match index {
        0 => return None,
        1 => Limit { rows: Some(1), ..Limit::default() },
        2 => Limit { characters: Some(20), ..Limit::default() },
        3 => Limit {
            rows: Some(2),
            characters: Some(200),
            path: Some(".a".parse().unwrap()),
            ..Limit::default()
        },
        4 => Limit {
            rows: Some(1),
            note: Some(template("{{ limit.shown }} of {{ limit.total }}")),
            more: Some(PagingArguments {
                offset: Some("city".into()),
                first: Some(1),
                ..PagingArguments::default()
            }),
            ..Limit::default()
        },
        _ => Limit {
            rows: Some(2),
            more: Some(PagingArguments {
                page: Some("page".into()),
                size: Some("size".into()),
                first: Some(0),
                ..PagingArguments::default()
            }),
            ..Limit::default()
        },
    };
    Some(limit)
}

/// Error rules before the success rule. The extractor is for conditions on the value, and for errors that use
/// it.
pub(super) fn errors(index: usize, extract: impl FnOnce() -> Option<Extract>) -> Vec<Rule> {
    let rule =
        |matcher, error| Rule { matcher, extract: None, charset: None, action: RuleAction::Error(error) };
    let error_rule =
        |text: &str| ErrorRule { text: template(text), code: None, structured: None, status: None };
    let json = |filter| Matcher { json: Some(jq(filter)), ..Matcher::default() };
    let value = |filter| Matcher { value: Some(jq(filter)), ..Matcher::default() };
    match index {
        0 => Vec::new(),
        1 => vec![rule(json("has(\"error\")"), error_rule("{{ json.error }}"))],
        2 => vec![Rule { extract: extract(), ..rule(value(".a"), error_rule("{{ value.a }}")) }],
        3 => {
            let code = Some(CodeTemplate::new(template("{{ value.a }}")));
            let structured = Some(jq("{why: .}"));
            let error =
                ErrorRule { code, structured, status: Some(422), ..error_rule("{{ structured.why }}") };
            let any = Some(OneOrMore(vec!["100-599".parse().unwrap()]));
            let matcher = Matcher { status: any, ..Matcher::default() };
            vec![Rule { extract: extract(), ..rule(matcher, error) }]
        }
        _ => {
            let not = Some(Box::new(value("type == \"array\"")));
            vec![rule(
                Matcher { not, ..json("type == \"object\"") },
                error_rule("{{ text }}{{ none.at.all }}"),
            )]
        }
    }
}
