//! Tests of properties that hold for the translation of any response by any rules.

use http::HeaderName;
use proptest::prelude::*;

use super::*;
use crate::model::Schema;
use crate::translate::extract::{
    Binary, CapturePattern, CapturePatterns, Columns, CssSelector, Csv, EachPairs, ElementPath, Form,
    GrokPatterns, Header, Html, Indented, Json, Mcp, Metrics, MetricsShape, NdJson, Pairs, Prefixes,
    RaggedRows, Records, Regex, SearchScope, Selected, TableForm, Text, Xml,
};

/// Responses in the formats of the extractors, each for several of them.
const TYPICAL_BODIES: [&str; 9] = [
    "a: 1\nb: x\n",
    "a,b\r\n1,x\r\n2,-\r\n",
    r#"{"a": 1, "b": "x"}"#,
    r#"[{"a": "1.50", "b": "1h"}, {"a": "-"}]"#,
    "<a><b>1</b><a b='2'/></a>",
    "<table><tr><th>a<th>b<tr><td>1<td>x</table>",
    "a=1&b=x&a=2",
    "a 1\nb 2.5\n",
    r#"{"content": [{"type": "text", "text": "{\"a\": 1}"}], "isError": false}"#,
];

fn any_response() -> impl Strategy<Value = UpstreamResponse> {
    let status = prop_oneof![4 => Just(200_u16), 1 => 100_u16..=999];
    let media_type = prop_oneof![
        4 => Just(String::new()),
        1 => "(text|application|image|audio|x)/(plain|json|html|xml|problem\\+json|png|x)(; charset=[a-z0-9-]{0,10})?",
        1 => "[ -~]{0,20}",
    ];
    let body = prop_oneof![
        10 => proptest::sample::select(TYPICAL_BODIES.to_vec()).prop_map(|body| body.as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..200),
        1 => "\\PC{0,100}".prop_map(String::into_bytes),
        1 => "( {0,3}\\[?[a-z]{1,4}[:=\\]]? ?[a-z0-9.-]{0,5}\n){0,6}".prop_map(String::into_bytes),
        1 => "((# (TYPE|HELP) )?[a-z]{1,3}(\\{[a-z]=\"[a-z\\\\]\"\\})? ?[0-9.#+INaf-]{0,4}\n){0,4}"
            .prop_map(String::into_bytes),
        1 => "(<[abx]( [ab]='[0-9]')?>|</[abx]>|[0-9]|&[a-z]{1,3};|<!(--|DOCTYPE)|<br>){0,12}"
            .prop_map(String::into_bytes),
        1 => "<table>(<t[rdh]( (col|row)span=[0-9]{1,5})?>|[a-z]|</?table>){0,10}".prop_map(String::into_bytes),
        1 => "<a>(<[ab]( x='[0-9]')?>[0-9]</[ab]>|<x/>){0,4}</a>".prop_map(String::into_bytes),
        1 => "[a-z]{1,3}([, ]{1,3}[a-z\"]{1,3}){0,3}\n([ a-z0-9ø\",\t-]{0,12}\r?\n){0,5}"
            .prop_map(String::into_bytes),
        1 => "\\{\"(error|message|a|b)\": ?(\"[a-z]*\"|[0-9.]{1,6}|null|\\{\\}|\\[1\\])\\}"
            .prop_map(String::into_bytes),
        1 => "\\{\"(content|result|structuredContent)\": ?\\[\\{\"type\": \"(text|image|x)\", \"text\": \"[a-z0-9 ]{0,5}\"\\}\\](, \"isError\": (true|1))?\\}"
            .prop_map(String::into_bytes),
    ];
    let encoding = prop_oneof![
        9 => Just(None),
        1 => proptest::sample::select(vec!["gzip", "deflate", "br", "zstd", "compress", "identity"]).prop_map(Some),
    ];
    (status, media_type, body, encoding).prop_map(|(status, media_type, body, encoding)| {
        let mut response = response(status, &media_type, body);
        if let Some(encoding) = encoding {
            let name = HeaderName::from_static("content-encoding");
            response.headers.insert(name, HeaderValue::from_static(encoding));
        }
        response
    })
}

fn regex(patterns: &[&str], each: SearchScope, allow_empty: bool) -> ExtractorKind {
    let captures = |pattern: &&str| CapturePattern::plain(Pattern::compile(pattern).unwrap());
    let patterns = CapturePatterns(patterns.iter().map(captures).collect());
    ExtractorKind::Regex(Regex { patterns, each, records: Records { allow_empty, ..Records::default() } })
}

/// Extractors by number; `None` selects one by media type.
fn extractor(index: usize) -> Option<ExtractorKind> {
    match index {
        0 => Some(ExtractorKind::Json(Json)),
        1 => Some(ExtractorKind::Text(Text { trim: true })),
        2 => Some(ExtractorKind::Pairs(Pairs::default())),
        3 => Some(ExtractorKind::Header(Header {
            names: vec!["status".into(), "content-type".into()],
            shape: Default::default(),
        })),
        4 => Some(ExtractorKind::Binary(Binary { kind: None, media_type: None })),
        5 => Some(regex(&["(?<a>[a-z]+)"], SearchScope::Match, false)),
        6 => Some(regex(&["(?<a>.)(?<b>x)?"], SearchScope::Line, true)),
        7 => Some(regex(&["(?<a>[0-9]+)", "(?<b>[a-z])"], SearchScope::Block, true)),
        8 => Some(ExtractorKind::Pairs(Pairs {
            separators: vec![":".into(), "=".into()],
            indented: Indented::Nested,
            sections: Some(Pattern::compile(Pairs::BRACKETS).unwrap()),
            each: EachPairs::Block,
            ..Pairs::default()
        })),
        9 => Some(ExtractorKind::Pairs(Pairs {
            pattern: Some(Pattern::compile("(?<key>[a-z]+)=(?<value>[^ ]*)").unwrap()),
            indented: Indented::Words,
            sections: Some(Pattern::compile("^a(?<name>.*)").unwrap()),
            section_end: Some(Pattern::compile("^z").unwrap()),
            ..Pairs::default()
        })),
        21 => Some(ExtractorKind::Grok(Regex {
            patterns: CapturePatterns(vec![
                GrokPatterns::default().compile("%{WORD:a} ?%{NUMBER:b:float}?").unwrap(),
            ]),
            each: SearchScope::Match,
            records: Records::default(),
        })),
        10 => Some(ExtractorKind::Metrics(Metrics::default())),
        11 => Some(ExtractorKind::Metrics(Metrics {
            shape: MetricsShape::Object,
            allow_empty: true,
            ..Metrics::default()
        })),
        12 => Some(ExtractorKind::Mcp(Mcp)),
        13 => Some(ExtractorKind::Xml(Xml::default())),
        14 => Some(ExtractorKind::Xml(Xml {
            items: ElementPath::parse("//a[1]", &Prefixes::new()).ok(),
            strings: ["b".to_owned()].into(),
            ..Xml::default()
        })),
        15 => Some(ExtractorKind::Csv(Csv::default())),
        16 => Some(ExtractorKind::Csv(Csv { ragged_rows: RaggedRows::Pad, ..Csv::default() })),
        17 => Some(ExtractorKind::Columns(Columns::default())),
        18 => Some(ExtractorKind::Columns(Columns { widths: Some(vec![2, 3]), ..Columns::default() })),
        19 => Some(ExtractorKind::NdJson(NdJson::default())),
        20 => Some(ExtractorKind::Form(Form)),
        22 => Some(ExtractorKind::Html(Html { without: CssSelector::parse("x").ok(), ..Html::default() })),
        23 => {
            let css = CssSelector::parse("b, td").ok();
            let selected = Selected { css, attribute: None, all: false, optional: true };
            Some(ExtractorKind::Html(Html {
                items: CssSelector::parse("a, tr").ok(),
                select: Some(crate::settings::Named(vec![("a".into(), selected)])),
                allow_empty: true,
                ..Html::default()
            }))
        }
        24 => Some(ExtractorKind::Html(Html { table: CssSelector::parse("table").ok(), ..Html::default() })),
        25 => Some(ExtractorKind::Html(Html {
            table: CssSelector::parse("table").ok(),
            form: TableForm::Pairs,
            ..Html::default()
        })),
        _ => None,
    }
}

/// Number of extractors above.
const EXTRACTOR_COUNT: usize = 27;

/// Ingredients of an `extract`: an extractor and its types by number, and optionally a second part.
type ExtractChoice = (usize, usize, usize);

fn any_extract() -> impl Strategy<Value = ExtractChoice> {
    let second = prop_oneof![2 => Just(EXTRACTOR_COUNT), 1 => 0..EXTRACTOR_COUNT];
    (0..EXTRACTOR_COUNT, prop_oneof![Just(0), 0..shapes::TYPINGS], second)
}

fn extract((kind, typing, second): ExtractChoice) -> Option<Extract> {
    extractor(kind).map(|kind| shapes::extract(kind, shapes::typing(typing), extractor(second)))
}

fn any_translator() -> impl Strategy<Value = Translator> {
    let shape = (
        prop_oneof![Just(0), 0_usize..4],
        prop_oneof![Just(0), 0..shapes::CONTENTS],
        prop_oneof![Just(0), 0_usize..4],
        0..shapes::LIMITS,
        prop_oneof![2 => Just(0_usize), 1 => 0..shapes::ERRORS],
    );
    (any_extract(), shape).prop_map(|(choice, (filter, content, schema, limit, errors))| {
        let filter = [None, Some("."), Some(".a"), Some("{a: .}")][filter];
        let schema = [
            None,
            Some(json!({"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]})),
            Some(json!({"type": "array", "items": {"type": "string"}})),
            Some(json!({"type": ["object", "number"]})),
        ][schema]
            .clone();
        let mut rules = shapes::errors(errors, || extract(choice));
        if let Some(extract) = extract(choice) {
            let extract = Some(extract);
            let structured = filter.map(|filter| Jq::compile(filter, &[]).unwrap());
            let (content, limit) = (shapes::content(content), shapes::limit(limit));
            let action = RuleAction::Success(SuccessRule { structured, content, limit, sample: None });
            rules.push(Rule { matcher: Matcher::default(), extract, charset: None, action });
        }
        translator(rules, schema)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Every response has a translation, every success satisfies its schema, and equal responses have equal
    /// results.
    #[test]
    fn every_response_has_a_translation(translator in any_translator(), response in any_response()) {
        let result = run(&translator, &response);
        prop_assert_eq!(&run(&translator, &response), &result);
        prop_assert!(!result.content.is_empty());
        let sent = sent(&result);
        prop_assert_eq!(sent["isError"].as_bool(), Some(result.is_error()));
        if result.is_error() {
            prop_assert!(sent.get("structuredContent").is_none() || has_structured_errors(&translator));
            let text = sent["content"][0]["text"].as_str().unwrap();
            prop_assert!(!text.trim().is_empty() && text.len() <= TranslationLimits::default().error_text_bytes);
        } else if let Some(output) = &translator.output {
            let advertised = Schema::compile(&output.advertised()).unwrap();
            prop_assert!(advertised.accepts(&sent["structuredContent"]), "{}", sent);
        }
    }

    /// The value of a typed extractor satisfies the schema of its types, before any schema of the route.
    #[test]
    fn typed_values_match_the_schema_of_their_types(choice in any_extract(), response in any_response()) {
        let extract = extract(choice);
        let Some(schema) = extract.as_ref().and_then(Extract::schema) else { return Ok(()) };
        let (schema, content) = (Value::Object(schema), ContentTemplate::default());
        let action = RuleAction::Success(SuccessRule { structured: None, content, limit: None, sample: None });
        let rule = Rule { matcher: Matcher::default(), extract, charset: None, action };
        let result = run(&translator(vec![rule], None), &response);
        if !result.is_error() {
            let sent = sent(&result);
            let structured = &sent["structuredContent"];
            let value = if schema["type"] == "object" { structured } else { &structured["result"] };
            prop_assert!(Schema::compile(schema.as_object().unwrap()).unwrap().accepts(value), "{}", sent);
        }
    }
}

fn has_structured_errors(translator: &Translator) -> bool {
    let actions = translator.rules.iter().map(|rule| &rule.action);
    actions
        .into_iter()
        .any(|action| matches!(action, RuleAction::Error(ErrorRule { structured: Some(_), .. })))
}

/// Otherwise the result would be a success with an arbitrary value.
#[test]
fn an_error_of_an_mcp_server_is_no_part_of_a_value() {
    let is_error = |choice, body: &str| {
        let (extract, content) = (extract(choice), ContentTemplate::default());
        let action =
            RuleAction::Success(SuccessRule { structured: None, content, limit: None, sample: None });
        let rule = Rule { matcher: Matcher::default(), extract, charset: None, action };
        run(&translator(vec![rule], None), &response(200, "application/json", body.to_owned())).is_error()
    };
    const MCP: usize = 12;
    for choice in [(MCP, 0, 0), (MCP, 5, 0), (0, 0, MCP)] {
        assert!(is_error(choice, r#"{"error":{}}"#), "{choice:?}");
        assert!(is_error(choice, r#"{"error":{"code":-32000,"message":"down"}}"#), "{choice:?}");
        assert!(
            is_error(choice, r#"{"content":[{"type":"text","text":"{}"}],"isError":true}"#),
            "{choice:?}"
        );
    }
    for choice in [(MCP, 0, 0), (0, 0, MCP)] {
        assert!(!is_error(choice, r#"{"content":[{"type":"text","text":"{}"}]}"#), "{choice:?}");
    }
}
