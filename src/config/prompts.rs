//! `prompts`: MCP prompts.

use std::{sync::Arc, time::Duration};

use serde_json::{Map, Value, json};
use settings_derive::Section as DeriveSection;

use super::{
    code::Code,
    completions, content, input_requests, language, lint,
    report::Report,
    route_calls::{self, RoutesOfFile, UncheckedRouteCall},
    route_tests::Position,
    schemas::UsedArguments,
    section::{ReadElsewhere, cursor, open, read_in_scope},
    source::SourceSpan,
    suggest,
    tree::{Entry, Kind, Node},
};
use crate::{
    model::ToolName,
    prompt::{PartContent, PartTemplate, Prompt, PromptArgument, Role},
    route::{Completion, InputRequests, InputSchema, JsonTemplate, Scopes},
    settings::{
        keys::ValueKind,
        section::{OpenSection, Section as _, Setting},
        value::Named,
    },
    translate::{Template, extract::MediaType},
};

/// Prompt with its position in the file.
#[derive(Debug, Clone)]
pub struct PromptFile {
    /// The compiled prompt.
    pub prompt: Arc<Prompt>,
    /// Position of its name.
    pub position: Position,
}

/// Names that the templates of a prompt may use.
const NAMES: [&str; 2] = ["args", "input_responses"];

/// The section of a prompt.
#[derive(DeriveSection)]
#[section(name = "a prompt", id = "prompt", default)]
pub(super) struct PromptSettings {
    /// Display name.
    title: Option<String>,
    /// Description of the prompt for users.
    description: Option<String>,
    /// Arguments that the user fills in, by name.
    #[key(kind = ValueKind::Map(&ArgumentSettings::KIND))]
    arguments: Named<ReadElsewhere>,
    /// Confirmation that the user must accept before the messages are created: a template.
    #[key(kind = ValueKind::Text)]
    confirm: ReadElsewhere,
    /// Input requests to the user or the client's model before the messages are created: a map, or a list of
    /// rounds.
    #[key(kind = input_requests::KIND)]
    input_requests: ReadElsewhere,
    /// Timeout of an input request.
    #[key(range = 1_000..=3_600_000, inherits = InputRequests::DEFAULT_INPUT_TIMEOUT)]
    input_timeout: Option<Duration>,
    /// Scopes that a client needs, in addition to those of the routes whose results it inserts; replaces
    /// those of `defaults`.
    scopes: Option<Scopes>,
    /// Messages, in order.
    #[key(kind = ValueKind::List(&MessageSettings::KIND))]
    messages: ReadElsewhere,
}

/// An argument of a prompt.
#[derive(DeriveSection)]
#[section(name = "an argument of a prompt", id = "prompt_argument", bare)]
struct ArgumentSettings {
    /// Display name.
    title: Option<String>,
    /// Description.
    description: Option<String>,
    /// Whether the argument is required.
    #[key(default = false)]
    required: bool,
    /// Completions: a list of values, or a route that returns them.
    #[key(kind = completions::KIND)]
    completions: ReadElsewhere,
}

/// Kinds of values for the content of a message.
const CONTENT: ValueKind =
    ValueKind::Either(&[ValueKind::Text, BlockSettings::KIND, ValueKind::List(&BlockSettings::KIND)]);

/// A message of a prompt.
#[derive(DeriveSection)]
#[section(name = "a message", id = "prompt_message")]
struct MessageSettings {
    /// Message of the user: a template, a block, or a list of blocks.
    #[key(kind = CONTENT)]
    user: ReadElsewhere,
    /// Message of the model, in the same form.
    #[key(kind = CONTENT)]
    assistant: ReadElsewhere,
}

/// A block of a message.
#[derive(DeriveSection)]
#[section(name = "a block of a message", id = "prompt_block")]
struct BlockSettings {
    /// Text: a template. An empty text is omitted.
    #[key(kind = ValueKind::Text)]
    text: ReadElsewhere,
    /// Route whose result is inserted, with all its blocks.
    route: Option<String>,
    /// Arguments for that route: a template each, or a value.
    #[key(kind = ValueKind::Map(&ValueKind::Anything))]
    args: Named<ReadElsewhere>,
    /// Embedded resource: the URI of a resource of a route, or a map.
    #[key(kind = ValueKind::Either(&[ValueKind::Text, ResourceSettings::KIND]))]
    resource: ReadElsewhere,
    /// Link to a resource.
    #[key(kind = content::ResourceLink::KIND)]
    resource_link: ReadElsewhere,
    /// Annotations for blocks that have none of their own.
    #[key(kind = content::BlockAnnotations::KIND)]
    annotations: ReadElsewhere,
}

/// An embedded resource.
#[derive(DeriveSection)]
#[section(name = "`resource`", id = "prompt_resource")]
struct ResourceSettings {
    /// URI of the resource: a template.
    #[key(example = "uri: report://today")]
    uri: Template,
    /// Text: a template. When absent, the content is read from the route whose resource has the URI. Default:
    /// the resource of the route with this URI.
    text: Option<Template>,
    /// Media type of `text`.
    #[key(
        requires = "text",
        help = "remove it: the resource has its own media type",
        shown = "`text/plain`"
    )]
    media_type: Option<MediaType>,
}

/// Part of a message, its span, and the route call that it makes.
struct ParsedPart {
    template: PartTemplate,
    span: SourceSpan,
    call: Option<UncheckedRouteCall>,
}

/// Parses one prompt. Returns `None` after reporting the problems.
pub(super) fn read(
    report: &Report<'_>,
    routes: RoutesOfFile<'_>,
    default_scopes: &Scopes,
    entry: &Entry,
) -> Option<PromptFile> {
    let before = report.errors();
    let name = entry.key.text.parse::<ToolName>().map_err(|error| {
        let what = format!("invalid prompt name: {error}");
        report.error(
            Code::InvalidName.at_span(entry.key.span),
            what,
            "write letters, digits, `_`, `-` and `.`",
        );
    });
    let section = open::<PromptSettings>(report, entry.key.span, &entry.value)?;
    let settings = PromptSettings::read_fields(&section, None).unwrap_or_default();
    let written = section.get("arguments").and_then(Node::as_map).unwrap_or_default();
    let names: Vec<String> = written.iter().map(|entry| entry.key.text.clone()).collect();
    let mut arguments: Vec<PromptArgument> =
        written.iter().filter_map(|entry| argument(report, routes, entry, &names)).collect();
    let mut used = UsedArguments::default();
    let parts = messages(&section, routes, &mut used);
    let input_requests = input_requests::read(report, &entry.value, settings.input_timeout, &mut used);
    let scopes = settings.scopes.unwrap_or_else(|| default_scopes.clone());
    if section.get("description").is_none() && !section.has_unknown_keys {
        report.warning(
            Code::MissingDescription.at_span(entry.key.span),
            format!("the prompt `{}` has no `description`", entry.key.text),
            "users read it to choose a prompt",
        );
    }
    let parts = parts.unwrap_or_default();
    route_calls::report_unknown(report, &used, &names, "the prompt has no argument", |name| {
        format!("declare it under `arguments`: `{name}:`")
    });
    if let Some(input_requests) = &input_requests {
        let names: Vec<&str> = input_requests.names().collect();
        input_requests::report_unknown_input_responses(report, "the prompt", used.answers.iter(), &names);
        input_requests.arguments().for_each(|(name, span)| used.add(name, true, *span));
    }
    // An argument may be used by a part with errors.
    let is_whole = report.errors() == before;
    for unused in written.iter().filter(|entry| is_whole && !used.names(&entry.key.text)) {
        let name = &unused.key.text;
        let message = format!("argument `{name}` is unused: no message contains it");
        report.warning(
            Code::UnusedArgument.at_span(unused.key.span),
            message,
            format!("insert it into a message: `{{{{ args.{name} }}}}`"),
        );
    }
    parts.iter().filter_map(|part| part.call.as_ref()).for_each(|call| call.check(report, routes));
    if report.errors() > before {
        return None;
    }
    let input_requests = input_requests?.finish(report, &input_schema(&arguments))?;
    // The values of input responses are not known yet.
    if input_requests.is_empty() {
        parts
            .iter()
            .for_each(|part| lint::prompts::check_templates(report, &part.template, part.span, &arguments));
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
            .fold(scopes, |all, file| all.union(&file.route.scopes)),
        arguments,
        input_requests,
        parts: parts.into_iter().map(|part| part.template).collect(),
    };
    let position = Position::new(report, entry.key.span);
    (report.errors() == before).then(|| PromptFile { prompt: Arc::new(prompt), position })
}

/// Input schema of the arguments. All arguments are strings.
fn input_schema(arguments: &[PromptArgument]) -> InputSchema {
    let text = |argument: &PromptArgument| (argument.name.clone(), json!({ "type": "string" }));
    let properties: Map<String, Value> = arguments.iter().map(text).collect();
    let required = arguments.iter().filter(|argument| argument.required);
    let required: Vec<&str> = required.map(|argument| argument.name.as_str()).collect();
    let document =
        [("type", "object".into()), ("properties", properties.into()), ("required", required.into())];
    let document = document.map(|(keyword, wanted)| (keyword.to_owned(), wanted)).into_iter().collect();
    InputSchema::new(&document).expect("it is made of names and types")
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
        report.error(
            Code::InvalidName.at_span(entry.key.span),
            message,
            "write a short word, such as `city`",
        );
        return None;
    }
    let value = cursor(report, entry.key.span, &entry.value, "an argument", ArgumentSettings::KIND);
    let settings = ArgumentSettings::read(&value).ok()?;
    let completion = match entry.value.entry("completions") {
        None => None,
        Some(entry) => {
            let completions::CompiledCompletion { completion, call } =
                completions::read(report, entry, &name, names)?;
            if let Some(call) = call {
                call.check(report, routes);
            }
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

fn messages(
    section: &OpenSection<'_>,
    routes: RoutesOfFile<'_>,
    used: &mut UsedArguments,
) -> Option<Vec<ParsedPart>> {
    let report = section.value.context.report;
    let help = "write `messages: [{ user: \"…\" }]`";
    let Some(node) = section.get("messages") else {
        section.missing("a prompt has no `messages`".to_owned(), help);
        return None;
    };
    let Kind::List(items) = &node.kind else {
        report.error(
            Code::WrongType.at_span(node.span),
            format!("`messages` must be a list, found {}", node.found()),
            help,
        );
        return None;
    };
    if items.is_empty() {
        report.error(Code::EmptyValue.at_span(node.span), "`messages` is an empty list", help);
        return None;
    }
    let parts: Vec<ParsedPart> = items.iter().flat_map(|item| message(report, routes, item, used)).collect();
    let mut fetched = parts.iter().filter(|part| part.template.is_fetched());
    for (parts, limit, what) in [
        (parts.get(Prompt::PART_LIMIT), Prompt::PART_LIMIT, "blocks"),
        (fetched.nth(Prompt::FETCH_LIMIT), Prompt::FETCH_LIMIT, "blocks that are fetched"),
    ] {
        if let Some(part) = parts {
            let message = format!("a prompt can have at most {limit} {what}");
            report.error(
                Code::TooMany.at_span(part.span),
                message,
                "combine some of them, or move some to another prompt",
            );
        }
    }
    Some(parts)
}

/// Parses the parts of a message; reports those with errors and omits them.
fn message(
    report: &Report<'_>,
    routes: RoutesOfFile<'_>,
    node: &Node,
    used: &mut UsedArguments,
) -> Vec<ParsedPart> {
    let Some(section) = open::<MessageSettings>(report, node.span, node) else { return Vec::new() };
    let roles = [(Role::User, section.entry("user")), (Role::Assistant, section.entry("assistant"))];
    let mut roles = roles.into_iter().filter_map(|(role, entry)| Some((role, entry?)));
    let Some((role, entry)) = roles.next() else {
        section.missing("a message needs a role".to_owned(), "write `- user: …`, or `- assistant: …`");
        return Vec::new();
    };
    if let Some((_, other)) = roles.next() {
        let help = "write `- user: …`, and another `- assistant: …`";
        report.error(Code::TooMany.at_span(other.key.span), "a message must have one role, found two", help);
        return Vec::new();
    }
    let value = &entry.value;
    match &value.kind {
        Kind::List(items) if items.is_empty() => {
            report.error(
                Code::EmptyValue.at_span(value.span),
                "the message is an empty list",
                "write a string, or `[{ text: … }]`",
            );
            Vec::new()
        }
        Kind::List(items) => {
            items.iter().filter_map(|item| block(report, routes, item, item.span, role, used)).collect()
        }
        Kind::Map(_) => block(report, routes, value, entry.key.span, role, used).into_iter().collect(),
        Kind::Null | Kind::Boolean(_) | Kind::Number(_) | Kind::Text(_) => {
            let what = format!("`{}`", entry.key.text);
            let text = template(report, value, &what, used);
            let part = text.map(|text| ParsedPart {
                template: PartTemplate {
                    role,
                    part: PartContent::Text(text),
                    annotations: None,
                    last_modified: None,
                },
                span: value.span,
                call: None,
            });
            part.into_iter().collect()
        }
    }
}

fn block(
    report: &Report<'_>,
    routes: RoutesOfFile<'_>,
    node: &Node,
    place: SourceSpan,
    role: Role,
    used: &mut UsedArguments,
) -> Option<ParsedPart> {
    let section = open::<BlockSettings>(report, place, node)?;
    let read = BlockSettings::read_fields(&section, None);
    let (annotations, last_modified) = match section.entry("annotations") {
        Some(entry) => read_in_scope::<content::BlockAnnotations>(report, entry, &NAMES, used)?.into(),
        None => (None, None),
    };
    const KINDS: [&str; 4] = ["text", "route", "resource", "resource_link"];
    let kinds: Vec<_> = KINDS.into_iter().filter_map(|name| section.entry(name)).collect();
    let [one] = kinds[..] else {
        let help = "write `- text: …`, and another `-` for the next block";
        match kinds.get(1) {
            None => {
                section.missing("a block of a message has no content".to_owned(), help);
            }
            Some(second) => {
                report.error(
                    Code::ConflictingKeys.at_span(second.key.span),
                    "a block of a message must have one kind of content, found several",
                    help,
                );
            }
        }
        return None;
    };
    let kind = one.key.text.as_str();
    if kind != "route" && section.get("args").is_some() {
        section.conflict("args", kind);
    }
    read.ok()?;
    let mut call = None;
    let part = match kind {
        "text" => PartContent::Text(template(report, &one.value, "`text`", used)?),
        "route" => {
            let (route, written) = route_calls::read(report, node, used)?;
            call = Some(written);
            PartContent::Route(route)
        }
        "resource" if one.value.as_text().is_some() => {
            resource_of_route(report, &one.value, template(report, &one.value, "`resource`", used)?, routes)?
        }
        "resource" => {
            let ResourceSettings { uri, text, media_type } = read_in_scope(report, one, &NAMES, used)?;
            let media_type = media_type.map_or_else(|| "text/plain".to_owned(), |MediaType(text)| text);
            match text {
                Some(text) => PartContent::Resource { uri, media_type: Some(media_type), text },
                None => resource_of_route(report, one.value.get("uri")?, uri, routes)?,
            }
        }
        _ => {
            let content::ResourceLink { uri, name, description, media_type } =
                read_in_scope(report, one, &NAMES, used)?;
            let media_type = media_type.map(|MediaType(text)| text);
            PartContent::ResourceLink { uri, name, description, media_type }
        }
    };
    let template = PartTemplate { role, part, annotations, last_modified };
    Some(ParsedPart { template, span: one.value.span, call })
}

/// Embedded resource. A literal URI must be that of a resource; a template is checked at the call.
fn resource_of_route(
    report: &Report<'_>,
    node: &Node,
    uri: Template,
    routes: RoutesOfFile<'_>,
) -> Option<PartContent> {
    let resources = || routes.parsed.iter().filter_map(|file| file.route.resource.as_ref());
    let is_known = |uri: &str| resources().any(|resource| resource.uri.arguments_of(uri).is_some());
    let all_parsed = routes.parsed.len() == routes.entries.len();
    if all_parsed && !uri.source().contains("{{") && !uri.source().contains("{%") && !is_known(uri.source()) {
        let message = format!("no route has a resource with the URI `{}`", uri.source());
        let help =
            suggest::help(uri.source(), "known URIs", resources().map(|resource| resource.uri.as_str()));
        report.error(
            Code::UnknownResource.at_span(node.span),
            message,
            help.unwrap_or_else(|| "write its content as `text: …`".to_owned()),
        );
        return None;
    }
    Some(PartContent::Read(uri))
}

fn template(report: &Report<'_>, node: &Node, what: &str, used: &mut UsedArguments) -> Option<Template> {
    let template = language::template(report, node, what, &NAMES)?;
    used.add_template(report, &template, node.span);
    Some(template)
}

/// Allowed values (`enum`, `const`, boolean) that the called route's input schema lists for a prompt argument
/// that is passed to it unchanged.
fn values_of_route_argument(
    name: &str,
    parts: &[ParsedPart],
    routes: RoutesOfFile<'_>,
) -> Option<Vec<String>> {
    parts.iter().find_map(|part| {
        let PartContent::Route(call) = &part.template.part else { return None };
        let file = part.call.as_ref()?.route(routes)?;
        call.arguments.iter().find_map(|(argument, template)| match template {
            JsonTemplate::Argument(passed) | JsonTemplate::NotNull(passed) if passed == name => {
                Some(file.route.input.listed(argument)).filter(|values| !values.is_empty())
            }
            _ => None,
        })
    })
}
