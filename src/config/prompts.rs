//! `prompts`: MCP prompts, their arguments and messages.

use std::time::Duration;

use serde_json::Map;

use super::input_requests::InputRequestRounds;
use super::request::VARIABLES;
use super::route_calls::{self, RoutesOfFile, UncheckedRouteCall};
use super::schemas::UsedArguments;
use super::section::{ReadElsewhere, cursor, is_template, open_section, read_in_scope};
use super::{completions, content, input_requests, schemas};
use crate::model::{Arguments, ToolName};
use crate::prompt::{PartContent, PartTemplate, Prompt, PromptArgument, PromptResource};
use crate::route::{Completion, InputRequests, JsonTemplate, Scopes};
use crate::settings::{
    Checked, Code, Cursor, Entry, Kind, Named, Node, OpenSection, Report, Section, Setting, SourceSpan,
    ValueKind, suggest,
};
use crate::translate::{
    AnnotationsTemplate, LinkTemplate, MessageRole, Template, expressions, request_variables,
};

/// The section of a prompt.
#[derive(Section)]
#[section(name = "a prompt", id = "prompt", default)]
pub(super) struct PromptSettings {
    /// Display name.
    title: Option<String>,
    /// Description of the prompt for users.
    description: Option<String>,
    /// Arguments that the user fills in, by name.
    arguments: Named<ReadElsewhere<ArgumentSettings>>,
    /// Question that the user must confirm before the messages are created: a template.
    confirm: ReadElsewhere<String>,
    /// Input requests to the user or the client's model before the messages are created: a map, or a list of
    /// rounds.
    input_requests: ReadElsewhere<InputRequestRounds>,
    /// Timeout of an input request.
    #[key(range = 1_000..=3_600_000, inherits = InputRequests::DEFAULT_INPUT_TIMEOUT)]
    input_timeout: Option<Duration>,
    /// Scopes that a client needs, in addition to those of the routes whose results it inserts; replaces
    /// those of `defaults`.
    scopes: Option<Scopes>,
    /// Messages, in order.
    messages: ReadElsewhere<PromptMessages>,
}

/// An argument of a prompt.
#[derive(Section)]
#[section(name = "an argument of a prompt", id = "prompt_argument", bare)]
struct ArgumentSettings {
    /// Display name.
    title: Option<String>,
    /// Description.
    description: Option<String>,
    /// Whether the argument is required.
    required: bool,
    /// Completions: a list of values, or a route that returns them.
    #[key(kind = completions::KIND)]
    completions: ReadElsewhere,
}

/// A message of a prompt.
#[derive(Section)]
#[section(name = "a message", id = "prompt_message", check_keys = Self::check_keys)]
struct PromptMessageSettings {
    /// Message of the user: a template, a block, or a list of blocks.
    user: Option<MessageContent>,
    /// Message of the model, in the same form.
    assistant: Option<MessageContent>,
}

/// A block of a message.
#[derive(Section)]
#[section(name = "a block of a message", id = "prompt_block", check_keys = Self::check_keys)]
struct BlockSettings {
    /// Text: a template. An empty text is omitted.
    text: Option<Template>,
    /// Route whose result is inserted, with all its blocks.
    route: Option<String>,
    /// Arguments for that route: a template each, or a value.
    #[key(requires = "route")]
    args: Named<ReadElsewhere>,
    /// Embedded resource: the URI of a resource of a route, or a map.
    resource: Option<PromptResource>,
    /// Link to a resource.
    resource_link: Option<LinkTemplate>,
    /// Annotations for blocks that have none of their own.
    annotations: Option<AnnotationsTemplate>,
}

/// Block of a message, as a part of the prompt: the template, the span of the block, the span of its URI, and
/// the route call whose result is inserted.
struct ParsedPart {
    template: PartTemplate,
    span: SourceSpan,
    uri_span: SourceSpan,
    call: Option<UncheckedRouteCall>,
}

/// Valid parts of all messages of a prompt. Problems of invalid parts have been reported.
#[derive(Default)]
struct PromptMessages(Vec<ParsedPart>);

/// Valid parts of one message.
struct MessageContent(Vec<ParsedPart>);

/// Parses one prompt. Returns `None` after reporting the problems.
pub(super) fn read(
    report: &Report<'_>,
    routes: RoutesOfFile<'_>,
    default_scopes: &Scopes,
    entry: &Entry,
) -> Option<Prompt> {
    let before = report.errors();
    let name = entry.key.text.parse::<ToolName>().map_err(|error| {
        let message = format!("invalid prompt name: {error}");
        let help = "write letters, digits, `_`, `-` and `.`";
        report.error(Code::InvalidName.at_span(entry.key.span), message, help);
    });
    let section = open_section::<PromptSettings>(report, entry.key.span, &entry.value)?;
    let settings = PromptSettings::read_fields(&section, None).unwrap_or_default();
    let argument_entries = section.get("arguments").and_then(Node::as_map).unwrap_or_default();
    let names: Vec<String> = argument_entries.iter().map(|entry| entry.key.text.clone()).collect();
    let mut arguments: Vec<PromptArgument> =
        argument_entries.iter().filter_map(|entry| argument(report, routes, entry, &names)).collect();
    let mut used = UsedArguments::default();
    let messages = section.entry("messages");
    if messages.is_none() {
        section.missing("a prompt has no `messages`".to_owned(), "write `messages: [{ user: \"…\" }]`");
    }
    let messages = messages.and_then(|entry| read_in_scope(report, entry, &VARIABLES, &mut used));
    let PromptMessages(parts) = messages.unwrap_or_default();
    parts.iter().for_each(|part| check_resource(report, routes, part));
    let input_requests = input_requests::read(report, &entry.value, &mut used);
    let scopes = settings.scopes.unwrap_or_else(|| default_scopes.clone());
    if section.get("description").is_none() && !section.has_unknown_keys {
        let message = format!("the prompt `{}` has no `description`", entry.key.text);
        let help = "users read it to choose a prompt";
        report.warning(Code::MissingDescription.at_span(entry.key.span), message, help);
    }
    let known_names = names.iter().map(String::as_str);
    schemas::report_unknown(report, &used, known_names, "the prompt has no argument", |name| {
        format!("declare it under `arguments`: `{name}:`")
    });
    if let Some(input_requests) = &input_requests {
        let names: Vec<&str> = input_requests.names().collect();
        input_requests::report_unknown_input_responses(report, "the prompt", &used, &names);
        input_requests.arguments().for_each(|(name, span)| used.add(name, true, *span));
    }
    // If there are errors, a part that could not be parsed may use the argument.
    let is_complete = report.errors() == before;
    for unused in argument_entries.iter().filter(|entry| is_complete && !used.may_use(&entry.key.text)) {
        let name = &unused.key.text;
        let message = format!("argument `{name}` is unused: no message contains it");
        let help = format!("insert it into a message: `{{{{ args.{name} }}}}`");
        report.warning(Code::UnusedArgument.at_span(unused.key.span), message, help);
    }
    parts.iter().filter_map(|part| part.call.as_ref()).for_each(|call| call.check(report, routes));
    if report.errors() > before {
        return None;
    }
    let mut declared = UsedArguments::default();
    arguments.iter().for_each(|argument| declared.add(&argument.name, !argument.required, entry.key.span));
    let input = schemas::input(report, None, &declared, &declared)?;
    let input_requests = input_requests?.finish(report, &input, settings.input_timeout)?;
    // Input responses have no values yet, so templates that may use them are not checked.
    if input_requests.is_empty() {
        parts.iter().for_each(|part| check_templates(report, part, &arguments));
    }
    for argument in arguments.iter_mut().filter(|argument| argument.completion.is_none()) {
        argument.completion =
            values_of_route_argument(&argument.name, &parts, routes).map(Completion::Listed);
    }
    let prompt = Prompt {
        name: name.ok()?,
        title: settings.title,
        description: settings.description.map(|text| text.trim_end().to_owned()),
        // A client needs the scopes of every route whose result the prompt inserts.
        scopes: parts
            .iter()
            .filter_map(|part| part.call.as_ref()?.route(routes))
            .fold(scopes, |all, compiled| all.union(&compiled.route.scopes)),
        arguments,
        input_requests,
        parts: parts.into_iter().map(|part| part.template).collect(),
    };
    (report.errors() == before).then_some(prompt)
}

fn argument(
    report: &Report<'_>,
    routes: RoutesOfFile<'_>,
    entry: &Entry,
    names: &[String],
) -> Option<PromptArgument> {
    const MAX_NAME_BYTES: usize = 128;
    let name = entry.key.text.clone();
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        let message = format!("the name of an argument must have 1 to {MAX_NAME_BYTES} bytes");
        let help = "write a short word, such as `city`";
        return report.reject(Code::InvalidName.at_span(entry.key.span), message, help);
    }
    let value = cursor(report, entry.key.span, &entry.value, "an argument", ArgumentSettings::KIND);
    let settings = ArgumentSettings::read(&value).ok()?;
    let completion = match entry.value.entry("completions") {
        None => None,
        Some(entry) => {
            let (completion, call) = completions::read(report, entry, &name, names)?;
            call.inspect(|call| call.check(report, routes));
            Some(completion)
        }
    };
    Some(PromptArgument {
        name,
        title: settings.title,
        description: settings.description.map(|text| text.trim_end().to_owned()),
        required: settings.required,
        completion,
    })
}

impl Setting for PromptMessages {
    const KIND: ValueKind = ValueKind::List(&PromptMessageSettings::KIND);

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let help = "write `messages: [{ user: \"…\" }]`";
        let Some(items) = value.node.as_list() else {
            return value.reject_kind("a list", Some(help.to_owned()));
        };
        if items.is_empty() {
            return value.reject_empty(help);
        }
        let message =
            |item| value.part(item, "a message", PromptMessageSettings::KIND).with_key_span(item.span);
        let messages = items.iter().filter_map(|item| PromptMessageSettings::read(&message(item)).ok());
        let contents = messages.filter_map(|message| message.user.or(message.assistant));
        let parts: Vec<ParsedPart> = contents.flat_map(|MessageContent(parts)| parts).collect();
        let mut fetched = parts.iter().filter(|part| part.template.is_fetched());
        for (first_excess, limit, what) in [
            (parts.get(Prompt::PART_LIMIT), Prompt::PART_LIMIT, "blocks"),
            (fetched.nth(Prompt::FETCH_LIMIT), Prompt::FETCH_LIMIT, "blocks that are fetched"),
        ] {
            let Some(part) = first_excess else { continue };
            let message = format!("a prompt can have at most {limit} {what}");
            let help = "combine some of them, or move some to another prompt";
            value.context.report.error(Code::TooMany.at_span(part.span), message, help);
        }
        Ok(Self(parts))
    }
}

impl PromptMessageSettings {
    fn check_keys(section: &OpenSection<'_>) -> Checked<()> {
        match (section.entry("user"), section.entry("assistant")) {
            (None, None) => {
                let help = "write `- user: …`, or `- assistant: …`";
                Err(section.missing("a message needs a role".to_owned(), help))
            }
            (Some(_), Some(other)) => {
                let (at, message) = (other.key.span, "a message must have one role, found two");
                let help = "write `- user: …`, and another `- assistant: …`";
                Err(section.reject_at(Code::TooMany.at_span(at), message, help))
            }
            _ => Ok(()),
        }
    }
}

impl Setting for MessageContent {
    const KIND: ValueKind =
        ValueKind::Either(&[ValueKind::Text, BlockSettings::KIND, ValueKind::List(&BlockSettings::KIND)]);

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let is_assistant = value.key.is_some_and(|key| key.name == "assistant");
        let role = if is_assistant { MessageRole::Assistant } else { MessageRole::User };
        let parts = match &value.node.kind {
            Kind::List(items) if items.is_empty() => {
                return value.reject_empty("write a string, or `[{ text: … }]`");
            }
            Kind::List(items) => {
                let block = |item| value.part(item, value.name, BlockSettings::KIND).with_key_span(item.span);
                items.iter().filter_map(|item| part(&block(item), role).ok()).collect()
            }
            Kind::Map(_) => vec![part(value, role)?],
            Kind::Null | Kind::Boolean(_) | Kind::Number(_) | Kind::Text(_) => {
                let part = PartContent::Text(Template::read(value)?);
                let template = PartTemplate { role, part, annotations: None };
                let span = value.node.span;
                vec![ParsedPart { template, span, uri_span: span, call: None }]
            }
        };
        Ok(Self(parts))
    }
}

impl BlockSettings {
    const KINDS: [&str; 4] = ["text", "route", "resource", "resource_link"];

    fn check_keys(section: &OpenSection<'_>) -> Checked<()> {
        content::check_one_kind(section, &Self::KINDS, "a block of a message")
    }
}

/// Parses a block of a message.
fn part(value: &Cursor<'_>, role: MessageRole) -> Checked<ParsedPart> {
    let BlockSettings { text, resource, resource_link, annotations, .. } = BlockSettings::read(value)?;
    let mut call = None;
    let part = match (text, resource, resource_link) {
        (Some(text), ..) => PartContent::Text(text),
        (_, Some(resource), _) => PartContent::Resource(resource),
        (.., Some(link)) => PartContent::ResourceLink(link),
        (None, None, None) => {
            let (route, unchecked) = route_calls::read(value)?;
            call = Some(unchecked);
            PartContent::Route(route)
        }
    };
    let content = BlockSettings::KINDS.into_iter().find_map(|kind| value.node.get(kind));
    let content = content.unwrap_or(value.node);
    let template = PartTemplate { role, part, annotations };
    let uri_span = content.get("uri").unwrap_or(content).span;
    Ok(ParsedPart { template, span: content.span, uri_span, call })
}

/// Checks that the literal URI of an embedded resource is a resource of a route. A URI template is checked
/// when the prompt is requested.
fn check_resource(report: &Report<'_>, routes: RoutesOfFile<'_>, part: &ParsedPart) {
    let PartContent::Resource(PromptResource { uri, text: None, .. }) = &part.template.part else { return };
    let uri = uri.source();
    let resources = || routes.parsed.iter().filter_map(|compiled| compiled.route.resource.as_ref());
    let is_known = || resources().any(|resource| resource.uri.arguments_of(uri).is_some());
    let all_parsed = routes.parsed.len() == routes.entries.len();
    if all_parsed && !is_template(uri) && !is_known() {
        let message = format!("no route has a resource with the URI `{uri}`");
        let help = suggest::help(uri, "known URIs", resources().map(|resource| resource.uri.as_str()))
            .unwrap_or_else(|| "write its content as `text: …`".to_owned());
        report.error(Code::UnknownResource.at_span(part.uri_span), message, help);
    }
}

/// Reports templates with undefined names, because every request would fail.
fn check_templates(report: &Report<'_>, part: &ParsedPart, arguments: &[PromptArgument]) {
    // Other failures depend on the values of arguments, and are not mistakes of the template.
    const UNDEFINED: &str = "is undefined";
    for (only_required, when) in [(false, ""), (true, " without the optional arguments")] {
        let values = arguments.iter().filter(|argument| argument.required || !only_required);
        let values = values.map(|argument| (argument.name.clone(), "1".into()));
        let values: Arguments = values.collect::<Map<_, _>>().into();
        let variables = request_variables(&values);
        let templates = part.template.templates().into_iter();
        let template_errors =
            templates.filter_map(|template| Some(template.render(&variables).err()?.to_string()));
        let call_arguments =
            if let PartContent::Route(call) = &part.template.part { call.arguments.as_slice() } else { &[] };
        let call_errors = call_arguments
            .iter()
            .filter_map(|(_, template)| template.fill(&values, None).err()?.detail().map(str::to_owned));
        let first_error = template_errors.chain(call_errors).find(|error| error.contains(UNDEFINED));
        if let Some(error) = first_error {
            let name = error
                .split("args.")
                .nth(1)
                .and_then(|rest| rest.split(['`', '.']).next())
                .unwrap_or_default();
            let message = format!("the template fails{when}: {error}");
            let help = match only_required {
                true => format!(
                    "write `{{{{ args.{name} | default('…') }}}}` or `{{% if args.{name} %}}`, or make it `required`"
                ),
                false => "an argument is a string and has no members".to_owned(),
            };
            let span = expressions::span_of_name(report, part.span, name);
            return report.error(Code::FailingTemplate.at_span(span), message, help);
        }
    }
}

/// Allowed values (`enum`, `const`, boolean) of a prompt argument that is passed unchanged to a route, from
/// the input schema of the route.
fn values_of_route_argument(
    name: &str,
    parts: &[ParsedPart],
    routes: RoutesOfFile<'_>,
) -> Option<Vec<String>> {
    parts.iter().find_map(|part| {
        let PartContent::Route(call) = &part.template.part else { return None };
        let compiled = part.call.as_ref()?.route(routes)?;
        call.arguments.iter().find_map(|(argument, template)| match template {
            JsonTemplate::Argument(passed) | JsonTemplate::NotNull(passed) if passed == name => {
                Some(compiled.route.input.listed(argument)).filter(|values| !values.is_empty())
            }
            _ => None,
        })
    })
}
