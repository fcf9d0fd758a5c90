//! Parser for one input request.

use crate::settings::code::Code;
use settings_derive::Section as DeriveSection;

use super::{
    NAMES,
    form::{self, fields, form_of},
    template,
};
use crate::{
    config::{
        language,
        report::Report,
        response::valid_part,
        schemas::UsedArguments,
        section::{ReadElsewhere, cursor, open, read_in_scope},
        source::SourceSpan,
        tree::{Entry, Kind, Node},
    },
    route::{InputForm, InputRequestKindTemplate, InputRequestTemplate},
    settings::{keys::ValueKind, section::Section as _, value::text_of},
    translate::{self, OutputContext, SamplingRequestTemplate, Template},
};

/// Section of an input request.
#[derive(DeriveSection)]
#[section(name = "an input request", id = "input_request")]
pub(super) struct InputRequestSettings {
    /// jq condition on `$args` and earlier responses, `$input_responses`. Default: always.
    #[key(kind = ValueKind::Text)]
    when: ReadElsewhere,
    /// Message to the user: a template. Alone, it is a yes-or-no confirmation.
    #[key(kind = ValueKind::Text)]
    message: ReadElsewhere,
    /// Form fields: a type each, with `?` if optional, or a map.
    #[key(kind = form::KIND)]
    fields: ReadElsewhere,
    /// The form as a JSON Schema, as it is sent to the client.
    #[key(kind = ValueKind::Map(&ValueKind::Anything))]
    schema: ReadElsewhere,
    /// Arguments that the user fills in if the client omitted them, with their schema from `input`.
    arguments: Option<Vec<String>>,
    /// URL that the user opens; templates in it are percent-encoded. For secrets, which forms must not
    /// request.
    #[key(kind = ValueKind::Text)]
    url: ReadElsewhere,
    /// Sampling request to the client's model: a template, or a map.
    #[key(kind = SamplingRequestTemplate::KIND)]
    sample: ReadElsewhere,
    /// `true` requests the client's workspace folders.
    roots: Option<bool>,
    /// Whether the call continues if the client does not support the request, or the user declines.
    #[key(default = false)]
    optional: bool,
}

/// Parses one input request; also returns the arguments that it requests.
pub(super) fn read(
    report: &Report<'_>,
    entry: &Entry,
    used: &mut UsedArguments,
) -> Option<(InputRequestTemplate, Vec<(String, SourceSpan)>)> {
    let (name, place) = (entry.key.text.as_str(), entry.key.span);
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let begins_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !begins_well || !name.chars().all(good) || name.len() > 64 {
        let message = format!("`{name}` is not a valid name of an input request");
        report.error(
            Code::InvalidName.at_span(place),
            message,
            "write ASCII letters, digits and `_`: templates refer to it as `input_responses.NAME`",
        );
    }
    if name == translate::SAMPLE {
        let help = "choose another name, such as `summary`";
        report.error(
            Code::ReservedName.at_span(place),
            "`sample` is reserved for the sampling request of a rule",
            help,
        );
    }
    let section = open::<InputRequestSettings>(report, place, &entry.value)?;
    let settings = InputRequestSettings::read_fields(&section, None);
    let when = section.get("when").map(|node| condition(report, node, used));
    let message = section.get("message").map(|node| template(report, node, "`message`", used));
    let fields = section.entry("fields").map(|entry| fields(report, entry));
    let schema = section.entry("schema").map(|entry| {
        let document = entry.value.as_map().map(Node::entries_to_json).unwrap_or_default();
        form_of(report, &entry.value, &document, false)
    });
    let arguments = section.get("arguments").map(|node| {
        let names = node.as_list().unwrap_or_default().iter();
        names.filter_map(|node| Some((node.as_text()?.to_owned(), node.span))).collect::<Vec<_>>()
    });
    let url = section.get("url").map(|node| {
        let written = template(report, node, "`url`", used)?;
        if !["https://", "http://"].iter().any(|scheme| written.source().starts_with(scheme)) {
            let help = "write `https://HOST/…`; only the part after the host can be a template";
            report.error(
                Code::InvalidValue.at_span(node.span),
                "`url` must begin with `https://` or `http://`",
                help,
            );
            return None;
        }
        Template::compile_for(OutputContext::Address, written.source()).ok()
    });
    let sample = section.entry("sample").map(|entry| sample(report, entry, used));
    let roots = section.entry("roots");
    if let Some(entry) = roots.filter(|entry| matches!(entry.value.kind, Kind::Boolean(false))) {
        report.error(
            Code::EmptyValue.at_span(entry.key.span),
            "`roots: false` has no effect",
            "remove the input request",
        );
    }
    const KINDS: [&str; 6] = ["fields", "schema", "arguments", "url", "sample", "roots"];
    let kinds: Vec<_> = KINDS.into_iter().filter(|kind| section.get(kind).is_some()).collect();
    if let [first, second, ..] = kinds[..] {
        section.conflict(second, first);
        return None;
    }
    if matches!(kinds[..], ["sample" | "roots"]) {
        if section.get("message").is_some() {
            section.conflict("message", kinds[0]);
        }
    } else if section.get("message").is_none() {
        section.missing(
            format!("the input request `{name}` has no `message`"),
            "write `message: \"…\"`, the message to the user",
        );
        return None;
    }
    let InputRequestSettings { optional, .. } = settings.ok()?;
    let kind = match (valid_part(fields)?, valid_part(schema)?, valid_part(url)?, valid_part(sample)?) {
        (Some(form), ..) | (_, Some(form), ..) => InputRequestKindTemplate::Form { message: message??, form },
        (_, _, Some(url), _) => InputRequestKindTemplate::Link { message: message??, url },
        (.., Some(sample)) => InputRequestKindTemplate::Sample(sample),
        _ if roots.is_some() => InputRequestKindTemplate::Roots,
        _ => InputRequestKindTemplate::Form { message: message??, form: InputForm::default() },
    };
    let of_sample = matches!(&kind, InputRequestKindTemplate::Sample(sample) if sample.optional);
    let optional = optional || of_sample;
    let (when, gives_arguments) = (valid_part(when)?, arguments.is_some());
    let request = InputRequestTemplate { name: name.to_owned(), when, optional, gives_arguments, kind };
    Some((request, arguments.unwrap_or_default()))
}

fn condition(report: &Report<'_>, node: &Node, used: &mut UsedArguments) -> Option<translate::Jq> {
    let text = text_of(&cursor(report, node.span, node, "`when`", ValueKind::Text)).ok()?;
    if let Some(name) = ["$status", "$headers"].into_iter().find(|name| text.contains(name)) {
        let message = format!("`{name}` is not available: there is no response yet");
        report.error(Code::UnknownName.at_span(node.span), message, "use `$args` or `$input_responses`");
        return None;
    }
    // The condition may use any argument, also as the filter's input `.`.
    used.all = true;
    used.add_input_responses_of_jq(report, node.span, text);
    language::condition(report, node, "`when`")
}

fn sample(report: &Report<'_>, entry: &Entry, used: &mut UsedArguments) -> Option<SamplingRequestTemplate> {
    // An argument that is used here remains optional: without it, the request is not sent.
    let mut in_sample = UsedArguments::default();
    let sample = read_in_scope(report, entry, &NAMES, &mut in_sample);
    used.all |= in_sample.all;
    in_sample.arguments.iter().for_each(|argument| used.add(&argument.name, true, argument.span));
    used.answers.extend(in_sample.answers);
    sample
}
