//! From a reply to a result, rules and all.

mod defaults;
mod properties;
mod shapes;
mod steps;
mod values;
mod written;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::{Value, json};

use super::{
    extract::{Extract, Extractor, ExtractorKind},
    *,
};
use crate::model::{Fault, Outcome, Reply, Shapes, ToolName, ToolResult, write_result};

fn reply(status: u16, media_type: &str, body: impl Into<Bytes>) -> Reply {
    let mut headers = HeaderMap::new();
    if !media_type.is_empty() {
        headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_str(media_type).unwrap());
    }
    Reply::new(StatusCode::from_u16(status).unwrap(), headers, body.into())
}

fn translator(rules: Vec<Rule>, output: Option<Value>) -> Translator {
    Translator {
        rules,
        otherwise: Otherwise::Error,
        output: output
            .map(|schema| OutputSchema::new(schema.as_object().unwrap().clone(), Wrap::Always).unwrap()),
        wrap: Wrap::Always,
        redaction: Default::default(),
        limits: TranslationLimits::default(),
    }
}

fn success(extract: ExtractorKind, structured: Option<&str>, content: Option<&str>) -> Rule {
    let content = content.map_or(ContentTemplate::Default, |text| {
        let payload = Payload::Text(Template::compile(text).unwrap());
        ContentTemplate::Blocks(vec![BlockTemplate::new(payload)])
    });
    let structured = structured.map(|filter| Jq::compile(filter).unwrap());
    let action = Action::Success(SuccessRule {
        extract: Some(Extract::One(Box::new(Extractor::whole(extract)))),
        structured,
        content,
        limit: None,
        sample: None,
    });
    Rule { matcher: Matcher::default(), charset: None, action }
}

fn error(matcher: Matcher, text: &str) -> Rule {
    let action = Action::Error(error_rule(text));
    Rule { matcher, charset: None, action }
}

fn error_rule(text: &str) -> ErrorRule {
    let text = Template::compile(text).unwrap();
    ErrorRule { extract: None, text, code: None, structured: None, status: None }
}

fn run(translator: &Translator, reply: &Reply) -> ToolResult {
    let tool: ToolName = "get_weather".parse().unwrap();
    let args = json!({"city": "Oslo"});
    translate(translator, Facts::new(&tool, &args), reply, &mut Trace::on()).result
}

fn sent(result: &ToolResult) -> Value {
    let mut out = Vec::new();
    write_result(result, Shapes::ObjectsOnly, &mut out);
    serde_json::from_slice(&out).expect("a result is JSON")
}

/// The text of the only block, the structure as text, and whether it is an error.
#[track_caller]
fn check(translator: &Translator, reply: &Reply, text: &str, structured: Option<&str>) {
    let result = sent(&run(translator, reply));
    assert_eq!(result["content"][0]["text"].as_str().unwrap(), text);
    assert_eq!(result.get("structuredContent").map(Value::to_string).as_deref(), structured);
}
