//! Questions and answers as MCP writes them, each revision in its own way.

use serde_json::{Map, Value, json};

use super::revision::Revision;
use crate::{
    crypto::random_id,
    route::{Abilities, Answer, FormAbility, Inquiry, Question, Unfit},
    translate::Sample,
};

/// What a client is able to do that declares these capabilities.
///
/// `elicitation` came with 2025-06-18; its modes, lists to choose several from and titles with 2025-11-25, where one
/// without modes means forms (Elicitation, "Capabilities").
pub(super) fn abilities(revision: Revision, capabilities: &Map<String, Value>) -> Abilities {
    let declared = |name: &str| capabilities.get(name).and_then(Value::as_object);
    let elicitation = declared("elicitation");
    let (form, link) = match (revision, elicitation) {
        (_, None) | (Revision::R2024_11_05 | Revision::R2025_03_26, _) => (FormAbility::None, false),
        (Revision::R2025_06_18, Some(_)) => (FormAbility::WithoutLists, false),
        (Revision::R2025_11_25 | Revision::R2026_07_28, Some(modes)) => {
            let link = modes.contains_key("url");
            let form = if modes.contains_key("form") || !link { FormAbility::All } else { FormAbility::None };
            (form, link)
        }
    };
    Abilities { form, link, sample: declared("sampling").is_some(), roots: declared("roots").is_some() }
}

/// The method and the parameters that ask.
pub(super) fn request(question: &Question, revision: Revision) -> (&'static str, Value) {
    match &question.inquiry {
        Inquiry::Form { message, form } => {
            let schema = form_of(revision, form.document());
            ("elicitation/create", json!({ "message": message, "requestedSchema": schema }))
        }
        Inquiry::Link { message, url } => {
            let mut params = json!({ "mode": "url", "message": message, "url": url });
            match revision {
                // Only this revision names them.
                Revision::R2025_11_25 => params["elicitationId"] = random_id().into(),
                Revision::R2024_11_05
                | Revision::R2025_03_26
                | Revision::R2025_06_18
                | Revision::R2026_07_28 => {}
            }
            ("elicitation/create", params)
        }
        Inquiry::Sample(sample) => ("sampling/createMessage", sample_params(sample)),
        Inquiry::Roots => ("roots/list", json!({})),
    }
}

fn sample_params(sample: &Sample) -> Value {
    let message = |text: &str| json!({ "type": "text", "text": text });
    let messages: Vec<Value> = sample
        .messages
        .iter()
        .map(|(speaker, text)| json!({ "role": speaker.as_str(), "content": message(text) }))
        .collect();
    let mut params = json!({ "messages": messages, "maxTokens": sample.max_tokens });
    if let Some(system) = &sample.system {
        params["systemPrompt"] = system.as_str().into();
    }
    if let Some(temperature) = sample.temperature {
        params["temperature"] = temperature.into();
    }
    if !sample.stop_sequences.is_empty() {
        params["stopSequences"] = sample.stop_sequences.clone().into();
    }
    if !sample.models.is_empty() {
        let hints: Vec<Value> = sample.models.iter().map(|name| json!({ "name": name })).collect();
        params["modelPreferences"] = json!({ "hints": hints });
    }
    params
}

/// A form as a revision has it. Before 2025-11-25 a choice with titles has them beside it, and only a flag has a
/// default.
fn form_of(revision: Revision, mut document: Map<String, Value>) -> Map<String, Value> {
    match revision {
        Revision::R2025_11_25 | Revision::R2026_07_28 => return document,
        Revision::R2024_11_05 | Revision::R2025_03_26 | Revision::R2025_06_18 => {}
    }
    let properties = document.get_mut("properties").and_then(Value::as_object_mut);
    for field in
        properties.into_iter().flat_map(|fields| fields.values_mut()).filter_map(Value::as_object_mut)
    {
        if field.get("type").is_some_and(|kind| kind != "boolean") {
            field.remove("default");
        }
        if let Some(Value::Array(choices)) = field.remove("oneOf") {
            let (values, titles): (Vec<Value>, Vec<Value>) =
                choices.into_iter().map(|choice| (choice["const"].clone(), choice["title"].clone())).unzip();
            field.insert("enum".into(), values.into());
            field.insert("enumNames".into(), titles.into());
        }
    }
    document
}

/// What a client answered.
///
/// # Errors
///
/// [`Unfit::Wrong`] when it is nothing that the specification has for such a question.
pub(super) fn answer(question: &Question, result: Value) -> Result<Answer, Unfit> {
    let wrong = |what: &str| Unfit::Wrong(format!("the answer to `{}` {what}", question.name));
    let Value::Object(mut result) = result else { return Err(wrong("must be an object")) };
    match &question.inquiry {
        Inquiry::Form { .. } | Inquiry::Link { .. } => {
            let action = result.get("action").and_then(Value::as_str);
            match (action, result.get("content")) {
                (Some("decline"), _) => Ok(Answer::Declined),
                (Some("cancel"), _) => Ok(Answer::Cancelled),
                (Some("accept"), None | Some(Value::Null)) => Ok(Answer::Accepted(Map::new())),
                (Some("accept"), Some(Value::Object(_))) => match result.remove("content") {
                    Some(Value::Object(content)) => Ok(Answer::Accepted(content)),
                    _ => Ok(Answer::Accepted(Map::new())),
                },
                (Some("accept"), Some(_)) => Err(wrong("has a `content` that is not an object")),
                (Some(_) | None, _) => {
                    Err(wrong("has no `action`, which is `accept`, `decline` or `cancel`"))
                }
            }
        }
        Inquiry::Sample(_) => {
            let text_of = |block: &Value| match block["type"].as_str() {
                Some("text") => block["text"].as_str().map(str::to_owned),
                _ => None,
            };
            let text = match result.get("content") {
                Some(Value::Array(blocks)) => {
                    let texts: Vec<String> = blocks.iter().filter_map(text_of).collect();
                    (!texts.is_empty()).then(|| texts.join("\n"))
                }
                Some(block) => text_of(block),
                None => None,
            };
            let member = |name: &str| result.get(name).and_then(Value::as_str).map(str::to_owned);
            Ok(Answer::Said {
                text: text.ok_or_else(|| wrong("has no text"))?,
                model: member("model").unwrap_or_default(),
                stop_reason: member("stopReason"),
            })
        }
        Inquiry::Roots => {
            let Some(Value::Array(roots)) = result.get("roots") else {
                return Err(wrong("has no list of `roots`"));
            };
            let root = |root: &Value| {
                let uri = root["uri"].as_str().ok_or_else(|| wrong("has a root without `uri`"))?;
                Ok(json!({ "uri": uri, "name": root["name"].as_str() }))
            };
            roots.iter().map(root).collect::<Result<_, Unfit>>().map(Answer::Roots)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::Form;

    fn question(inquiry: Inquiry) -> Question {
        Question { name: "it".into(), optional: false, inquiry }
    }

    fn form(properties: Value) -> Question {
        let form = Form::compile(json!({ "properties": properties }).as_object().unwrap()).unwrap();
        question(Inquiry::Form { message: "Which?".into(), form })
    }

    #[test]
    fn capabilities_mean_what_each_revision_says() {
        let able = |revision, declared: Value| abilities(revision, declared.as_object().unwrap());
        let all =
            json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {"listChanged": true}});
        let newest = able(Revision::R2026_07_28, all.clone());
        assert_eq!(newest, Abilities { form: FormAbility::All, link: true, sample: true, roots: true });
        assert_eq!(able(Revision::R2025_11_25, json!({"elicitation": {}})).form, FormAbility::All);
        let link_only = able(Revision::R2025_11_25, json!({"elicitation": {"url": {}}}));
        assert_eq!((link_only.form, link_only.link), (FormAbility::None, true));
        let before_modes = able(Revision::R2025_06_18, all.clone());
        assert_eq!((before_modes.form, before_modes.link), (FormAbility::WithoutLists, false));
        let oldest = able(Revision::R2024_11_05, all);
        assert_eq!((oldest.form, oldest.sample, oldest.roots), (FormAbility::None, true, true));
        assert_eq!(
            able(Revision::R2026_07_28, json!({"elicitation": true, "sampling": 1})),
            Abilities::default()
        );
    }

    #[test]
    fn older_clients_get_the_forms_that_they_know() {
        let question = form(json!({
            "size": {"type": "string", "oneOf": [{"const": "s", "title": "Small"}], "default": "s"},
            "sure": {"type": "boolean", "default": true},
        }));
        let (method, params) = request(&question, Revision::R2025_06_18);
        assert_eq!(method, "elicitation/create");
        assert_eq!(
            params["requestedSchema"]["properties"],
            json!({
                "size": {"type": "string", "enum": ["s"], "enumNames": ["Small"]},
                "sure": {"type": "boolean", "default": true},
            })
        );
        let (_, newer) = request(&question, Revision::R2025_11_25);
        assert_eq!(newer["requestedSchema"]["properties"]["size"]["default"], "s");
    }

    #[test]
    fn an_address_has_an_id_where_the_revision_wants_one() {
        let link = question(Inquiry::Link { message: "Sign in".into(), url: "https://example.com/".into() });
        assert!(request(&link, Revision::R2025_11_25).1["elicitationId"].is_string());
        assert_eq!(
            request(&link, Revision::R2026_07_28).1,
            json!({"mode": "url", "message": "Sign in", "url": "https://example.com/"})
        );
    }

    #[test]
    fn answers_are_read_or_refused() {
        let form = form(json!({"a": {"type": "string"}}));
        let read = |value: Value| answer(&form, value);
        assert_eq!(read(json!({"action": "decline"})), Ok(Answer::Declined));
        assert_eq!(read(json!({"action": "cancel", "content": 5})), Ok(Answer::Cancelled));
        assert_eq!(read(json!({"action": "accept", "content": null})), Ok(Answer::Accepted(Map::new())));
        for wrong in
            [json!(5), json!({}), json!({"action": "yes"}), json!({"action": "accept", "content": [1]})]
        {
            assert!(matches!(read(wrong), Err(Unfit::Wrong(_))));
        }
        let roots = question(Inquiry::Roots);
        let found = answer(&roots, json!({"roots": [{"uri": "file:///a", "name": "A", "_meta": {}}]}));
        assert_eq!(found, Ok(Answer::Roots(vec![json!({"uri": "file:///a", "name": "A"})])));
        assert!(answer(&roots, json!({"roots": [{}]})).is_err() && answer(&roots, json!({})).is_err());
    }

    #[test]
    fn a_models_words_are_those_of_its_text_blocks() {
        let sample = Sample {
            messages: Vec::new(),
            system: None,
            max_tokens: 5,
            temperature: None,
            stop_sequences: Vec::new(),
            models: Vec::new(),
            optional: false,
        };
        let question = question(Inquiry::Sample(sample));
        let said = |content: Value| answer(&question, json!({"model": "m", "content": content}));
        let text = |text: &str| Answer::Said { text: text.into(), model: "m".into(), stop_reason: None };
        assert_eq!(said(json!({"type": "text", "text": "hi"})), Ok(text("hi")));
        let blocks = json!([{"type": "image", "data": ""}, {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
        assert_eq!(said(blocks), Ok(text("a\nb")));
        assert!(said(json!({"type": "image", "data": ""})).is_err());
    }
}
