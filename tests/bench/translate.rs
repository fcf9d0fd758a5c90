//! What one reply costs, from its bytes to the bytes of the result: by extractor and by size.
//!
//! `cargo bench` prints medians; throughput is of the reply's bytes.

#![allow(missing_docs, reason = "a benchmark has no readers of its API")]

use bytes::Bytes;
use divan::{Bencher, black_box, counter::BytesCount};
use glossator::{
    model::{StructuredContentSupport, ToolName, UpstreamResponse, write_result},
    translate::{
        CallInput, ContentTemplate, Field, FieldKind, FieldPath, Fields, Jq, Matcher, NumberForm, OnMissing,
        OnNoMatch, OutputSchema, Pattern, Rule, RuleAction, SuccessRule, Trace, TranslationLimits,
        Translator, WrapNonObjects,
        extract::{
            Binary, CapturePattern, CapturePatterns, Extract, Extractor, ExtractorKind, Pairs, Records,
            Regex, SearchScope, Text, Typing,
        },
        translate,
    },
};
use http::{HeaderMap, HeaderValue, StatusCode, header::CONTENT_TYPE};
use serde_json::{Map, Value, json};

fn main() {
    divan::main();
}

const SIZES: [usize; 3] = [200, 16 * 1024, 1024 * 1024];

/// A JSON reply that no rule looks into: checked and spliced.
#[divan::bench(args = SIZES)]
fn json_as_it_came(bencher: Bencher<'_, '_>, bytes: usize) {
    run(bencher, &translator(None, None), &response("application/json", json_of(bytes)));
}

/// The same with a schema to meet: read into a tree, checked, sent as it came.
#[divan::bench(args = SIZES)]
fn json_with_schema(bencher: Bencher<'_, '_>, bytes: usize) {
    let schema = json!({"type": "object", "properties": {"items": {"type": "array", "items": {
        "type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}, "required": ["id"]}}}});
    run(bencher, &translator(None, Some(schema)), &response("application/json", json_of(bytes)));
}

/// The same reshaped by jq.
#[divan::bench(args = SIZES)]
fn json_through_jq(bencher: Bencher<'_, '_>, bytes: usize) {
    let rule = rule(
        ExtractorKind::Json(Default::default()),
        None,
        Some("{count: (.items | length), first: .items[0]}"),
    );
    run(bencher, &translator(Some(rule), None), &response("application/json", json_of(bytes)));
}

#[divan::bench(args = SIZES)]
fn text(bencher: Bencher<'_, '_>, bytes: usize) {
    let rule = rule(ExtractorKind::Text(Text::default()), None, None);
    run(bencher, &translator(Some(rule), None), &response("text/plain", pairs_of(bytes)));
}

#[divan::bench(args = SIZES)]
fn pairs(bencher: Bencher<'_, '_>, bytes: usize) {
    let rule = rule(ExtractorKind::Pairs(Pairs::default()), None, None);
    run(bencher, &translator(Some(rule), None), &response("text/plain", pairs_of(bytes)));
}

/// Eight typed fields of `key: value` lines, with the schema that comes of them.
#[divan::bench(args = SIZES)]
fn pairs_to_typed_fields(bencher: Bencher<'_, '_>, bytes: usize) {
    let field = |number: usize| Field {
        from: FieldPath::exact(&format!("key_{number}")),
        missing: OnMissing::Omit,
        ..Field::new(format!("field_{number}"), FieldKind::Integer(NumberForm::default()).into())
    };
    let fields = Fields::new((0..8).map(field).collect());
    let schema = Value::Object(fields.schema());
    let rule = rule(ExtractorKind::Pairs(Pairs::default()), Some(fields), None);
    run(bencher, &translator(Some(rule), Some(schema)), &response("text/plain", pairs_of(bytes)));
}

#[divan::bench(args = SIZES)]
fn regex_each_line(bencher: Bencher<'_, '_>, bytes: usize) {
    let pattern = Pattern::compile(r"^(?<key>\w+): (?<value>\d+)$").expect("the pattern is fixed");
    let patterns = CapturePatterns(vec![CapturePattern::plain(pattern)]);
    let regex = Regex { patterns, each: SearchScope::Line, records: Records::default() };
    let rule = rule(ExtractorKind::Regex(regex), None, None);
    run(bencher, &translator(Some(rule), None), &response("text/plain", pairs_of(bytes)));
}

#[divan::bench(args = SIZES)]
fn binary(bencher: Bencher<'_, '_>, bytes: usize) {
    let rule = rule(ExtractorKind::Binary(Binary { kind: None, media_type: None }), None, None);
    run(bencher, &translator(Some(rule), None), &response("image/png", vec![0x5a; bytes]));
}

fn run(bencher: Bencher<'_, '_>, translator: &Translator, reply: &UpstreamResponse) {
    let tool: ToolName = "bench".parse().expect("the name is fixed");
    let args = Value::Object(Map::new());
    bencher.counter(BytesCount::new(reply.body.len())).bench_local(|| {
        let input = CallInput::new(&tool, &args);
        let translation = translate(translator, input, black_box(reply), &mut Trace::off());
        assert!(!translation.result.is_error(), "a bench of errors would mean nothing");
        let mut out = Vec::new();
        write_result(&translation.result, StructuredContentSupport::Any, &mut out);
        out
    });
}

fn response(media_type: &'static str, body: impl Into<Bytes>) -> UpstreamResponse {
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(media_type))]);
    UpstreamResponse::new(StatusCode::OK, headers, body.into())
}

fn translator(rule: Option<Rule>, output: Option<Value>) -> Translator {
    let schema = |schema: Value| schema.as_object().cloned().expect("a schema is an object");
    let output = output.map(|output| {
        OutputSchema::new(schema(output), WrapNonObjects::Always).expect("the schema is fixed")
    });
    Translator {
        rules: rule.into_iter().collect(),
        on_no_match: OnNoMatch::Error,
        output,
        wrap: WrapNonObjects::Always,
        redaction: Default::default(),
        limits: TranslationLimits::default(),
        has_effect: false,
    }
}

fn rule(kind: ExtractorKind, fields: Option<Fields>, structured: Option<&str>) -> Rule {
    let structured = structured.map(|filter| Jq::compile(filter, &[]).expect("the filter is fixed"));
    let typing = fields.map_or(Typing::Untyped, Typing::Fields);
    let extract = Some(Extract::One(Box::new(Extractor { source: None, kind, typing })));
    let action = RuleAction::Success(SuccessRule {
        structured,
        content: ContentTemplate::default(),
        limit: None,
        sample: None,
    });
    Rule { matcher: Matcher::default(), extract, charset: None, action }
}

fn json_of(bytes: usize) -> String {
    let mut json = String::from("{\"items\": [");
    for id in 0.. {
        json.push_str(&format!("{{\"id\": {id}, \"name\": \"item \\\"{id}\\\"\", \"price\": {id}.50}}"));
        if json.len() + 2 >= bytes {
            break;
        }
        json.push_str(", ");
    }
    json + "]}"
}

fn pairs_of(bytes: usize) -> String {
    let lines = (0..).map(|number| format!("key_{number}: {number}\n"));
    lines
        .scan(0, |length, line| {
            *length += line.len();
            (*length <= bytes).then_some(line)
        })
        .collect()
}
