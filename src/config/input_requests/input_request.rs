//! Parser of one input request (MCP elicitation, sampling or roots), and of `sample`: a sampling request to
//! the client's model (MCP `sampling/createMessage`).

use std::sync::LazyLock;

use regex::Regex;

use super::form;
use crate::config::request::{VARIABLES, as_name};
use crate::config::schemas::UsedArguments;
use crate::config::section::read_in_scope;
use crate::route::{InputForm, InputRequestKindTemplate, InputRequestTemplate};
use crate::settings::{
    Checked, Code, Cursor, Entry, Invalid, Kind, OpenSection, Report, Section, Setting, SourceSpan,
    ValueKind, fixed_regex, text_of,
};
use crate::translate::expressions::{Scope, read_condition};
use crate::translate::{
    self, Jq, MessageRole, OutputContext, SamplingOptions, SamplingRequestTemplate, Template,
};

/// Section of an input request.
#[derive(Section)]
#[section(name = "an input request", id = "input_request", check_keys = Self::check_keys)]
pub(in crate::config) struct InputRequestSettings {
    /// jq condition on `$args` and earlier responses, `$input_responses`. Default: always.
    #[key(with = read_when)]
    when: Option<Jq>,
    /// Message to the user: a template. Alone, it is a yes-or-no confirmation.
    message: Option<Template>,
    /// Form fields: a type each, with `?` if optional, or a map.
    fields: Option<InputForm>,
    /// The form as a JSON Schema, as it is sent to the client.
    #[key(kind = ValueKind::Map(&ValueKind::Anything), with = form::read_schema)]
    schema: Option<InputForm>,
    /// Arguments that the user fills in if the client omitted them, with their schema from `input`.
    arguments: Option<Vec<(String, SourceSpan)>>,
    /// URL that the user opens; templates after its host are percent-encoded. For secrets, which forms must
    /// not request.
    #[key(with = read_url)]
    url: Option<Template>,
    /// Sampling request to the client's model: a template, or a map.
    sample: Option<SamplingRequestTemplate>,
    /// `true` requests the client's workspace folders.
    roots: Option<bool>,
    /// Whether the call continues if the client does not support the request, or the user declines.
    optional: bool,
}

/// Parses one input request; also returns the arguments that it requests from the user.
pub(super) fn read(
    report: &Report<'_>,
    entry: &Entry,
    used: &mut UsedArguments,
) -> Option<(InputRequestTemplate, Vec<(String, SourceSpan)>)> {
    let (name, span) = (entry.key.text.as_str(), entry.key.span);
    if as_name(name).is_none() || name.starts_with(|c: char| c.is_ascii_digit()) || name.len() > 64 {
        let message = format!("`{name}` is not a valid name of an input request");
        let help = "write ASCII letters, digits and `_`: templates refer to it as `input_responses.NAME`";
        report.error(Code::InvalidName.at_span(span), message, help);
    }
    if name == translate::SAMPLE {
        let message = "`sample` is reserved for the sampling request of a rule";
        report.error(Code::ReservedName.at_span(span), message, "choose another name, such as `summary`");
    }
    let InputRequestSettings { when, message, fields, schema, arguments, url, sample, optional, .. } =
        read_in_scope(report, entry, &VARIABLES, used)?;
    let optional = optional || sample.as_ref().is_some_and(|sample| sample.options.optional);
    let kind = match (sample, message, url) {
        (Some(sample), ..) => InputRequestKindTemplate::Sampling(sample),
        (None, None, _) => InputRequestKindTemplate::Roots,
        (None, Some(message), Some(url)) => InputRequestKindTemplate::Url { message, url },
        (None, Some(message), None) => {
            InputRequestKindTemplate::Form { message, form: fields.or(schema).unwrap_or_default() }
        }
    };
    let (name, gives_arguments) = (name.to_owned(), arguments.is_some());
    let request = InputRequestTemplate { name, when, optional, gives_arguments, kind };
    Some((request, arguments.unwrap_or_default()))
}

impl InputRequestSettings {
    /// Checks that there is at most one kind of request, and a message if the request is shown to the user.
    fn check_keys(section: &OpenSection<'_>) -> Checked<()> {
        const KINDS: [&str; 6] = ["fields", "schema", "arguments", "url", "sample", "roots"];
        let roots = section.entry("roots");
        if let Some(entry) = roots.filter(|entry| matches!(entry.value.kind, Kind::Boolean(false))) {
            let (coded_span, help) = (Code::EmptyValue.at_span(entry.key.span), "remove the input request");
            section.value.context.report.error(coded_span, "`roots: false` has no effect", help);
        }
        let kinds: Vec<_> = KINDS.into_iter().filter(|kind| section.get(kind).is_some()).collect();
        match (&kinds[..], section.get("message")) {
            ([first, second, ..], _) => Err(section.conflict(second, first)),
            ([kind @ ("sample" | "roots")], Some(_)) => Err(section.conflict("message", kind)),
            (["sample" | "roots"], None) | (_, Some(_)) => Ok(()),
            (_, None) => {
                let message = format!("the input request {} has no `message`", section.value.name);
                Err(section.missing(message, "write `message: \"…\"`, the message to the user"))
            }
        }
    }
}

/// Parses `when`. The condition may use any argument, also through the input `.` of the filter.
fn read_when(value: &Cursor<'_>) -> Checked<Option<Jq>> {
    let text = text_of(value)?;
    static UNAVAILABLE: LazyLock<Regex> = LazyLock::new(|| fixed_regex(r"\$(?:status|headers)\b"));
    if let Some(name) = UNAVAILABLE.find(text).map(|found| found.as_str()) {
        let message = format!("`{name}` is not available: there is no response yet");
        let help = "use `$args` or `$input_responses`";
        return value.reject_coded(Code::UnknownName.at_span(value.node.span), message, help);
    }
    Scope::from_cursor(value).used.borrow_mut().all = true;
    read_condition(value)
}

fn read_url(value: &Cursor<'_>) -> Checked<Option<Template>> {
    let template = Template::read(value)?;
    let help = "write `https://HOST/…`; only the part after the host can be a template";
    let rest = ["https://", "http://"].iter().find_map(|scheme| template.source().strip_prefix(scheme));
    let Some(rest) = rest else {
        return value.reject(Invalid::new("`url` must begin with `https://` or `http://`", help));
    };
    // Otherwise the model could choose the host that the user opens.
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if host.is_empty() || host.contains('{') {
        return value.reject(Invalid::new("the host of `url` can't be a template", help));
    }
    // The template has already been compiled; compiling it for another output context cannot fail.
    Ok(Template::compile_for(OutputContext::Url, template.source()).ok())
}

/// Section `sample`.
#[derive(Section)]
#[section(id = "sample", text = "messages")]
struct SampleSettings {
    /// Messages: a template for one of the user, or a list by role.
    #[key(example = "`messages: \"…\"`, the prompt for the model")]
    messages: SamplingMessages,
    /// System prompt: a template.
    system: Option<Template>,
    #[key(part)]
    options: SamplingOptions,
}

/// Message of one role.
#[derive(Section)]
#[section(name = "a message", id = "message", check_keys = Self::check_keys)]
struct SamplingMessageSettings {
    /// Message of the user: a template.
    user: Option<Template>,
    /// Message of the model: a template.
    assistant: Option<Template>,
}

impl SamplingMessageSettings {
    fn check_keys(section: &OpenSection<'_>) -> Checked<()> {
        if section.entry("user").is_some() != section.entry("assistant").is_some() {
            return Ok(());
        }
        let coded_span = Code::ConflictingKeys.at_span(section.value.node.span);
        let help = "write `- user: \"…\"`, and another `- assistant: \"…\"`";
        Err(section.reject_at(coded_span, "a message needs either `user` or `assistant`", help))
    }

    fn template(self) -> Option<(MessageRole, Template)> {
        let user = self.user.map(|template| (MessageRole::User, template));
        user.or_else(|| self.assistant.map(|template| (MessageRole::Assistant, template)))
    }
}

/// Messages of a sampling request: one message of the user, or a list.
struct SamplingMessages(Vec<(MessageRole, Template)>);

impl Setting for SamplingMessages {
    const KIND: ValueKind =
        ValueKind::Either(&[ValueKind::Text, ValueKind::List(&SamplingMessageSettings::KIND)]);

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        if value.node.as_list().is_none_or(<[_]>::is_empty) {
            return Ok(Self(vec![(MessageRole::User, Template::read(value)?)]));
        }
        let messages = Vec::<SamplingMessageSettings>::read(value)?;
        Ok(Self(messages.into_iter().filter_map(SamplingMessageSettings::template).collect()))
    }
}

impl Setting for SamplingRequestTemplate {
    const KIND: ValueKind = SampleSettings::KIND;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let SampleSettings { messages: SamplingMessages(messages), system, options } =
            SampleSettings::read(value)?;
        Ok(Self { messages, system, options })
    }
}
