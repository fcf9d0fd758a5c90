//! Requests to commands (`RUN UPSTREAM word {argument} …`) and to MCP servers (`CALL UPSTREAM/TOOL`), in one
//! line or as a map.

use std::sync::LazyLock;

use regex::Regex;

use super::values::{add_argument, expression, placeholder, span_of, template, text};
use super::{CompiledRequest, RequestParser};
use crate::config::route_tests::UpstreamKind;
use crate::config::section::is_template;
use crate::route::{
    CommandTemplate, JsonTemplate, RequestBodyTemplate, RequestTemplate, ToolTemplate, UpstreamName,
    WordTemplate,
};
use crate::settings::{
    Checked, Code, Cursor, Node, OpenSection, Setting, SourceSpan, ValueKind, fixed_regex, read_each, suggest,
};
use crate::translate::expressions::{self, Scope};

/// Keyword that replaces the HTTP method in requests to commands.
pub(super) const RUN: &str = "RUN";

/// Keyword that replaces the HTTP method in calls of MCP tools.
pub(super) const CALL: &str = "CALL";

const CALL_HELP: &str = "write `CALL UPSTREAM/TOOL`, with the server's name for the tool";
const MAP_HELP: &str = "use the map form: `request: { upstream: NAME, arguments: [\"two words\"] }`";
const HELP: &str = "write `RUN UPSTREAM word {argument}`, such as `RUN disk {path}`";

impl RequestParser<'_> {
    /// Parses the rest of a one-line request after `RUN`.
    pub(super) fn run_line(&self, rest: &str) -> Checked<CompiledRequest> {
        let value = &self.value;
        let mut words = rest.split_whitespace();
        let Some(name) = words.next() else {
            let message = "`RUN` needs the name of a command upstream";
            return value.reject_coded(Code::InvalidRequest.at_span(value.node.span), message, HELP);
        };
        let span = span_of(value, name);
        let upstream = self.command_upstream(span, name)?;
        self.check_kind(span, &upstream, UpstreamKind::Program)?;
        let words: Vec<&str> = words.collect();
        // A quoted string or a template may be split into several words, so only the first problem of a line
        // is reported.
        words.iter().try_for_each(|word| check_is_plain(value, word))?;
        let words = read_each(words.into_iter().map(|word| word_of_line(value, word)))?;
        let follows_end_of_options = self.follows_end_of_options(&upstream);
        let template = CommandTemplate { words, follows_end_of_options, ..Default::default() };
        Ok(CompiledRequest { upstream, template: RequestTemplate::Command(template) })
    }

    /// Finds the upstream that follows `RUN`. Reports an unknown name, with help if it is probably the name
    /// or path of a program.
    fn command_upstream(&self, span: SourceSpan, name: &str) -> Checked<UpstreamName> {
        let is_known = |name: &str| self.names().any(|known| known == name);
        if is_known(name) || suggest::nearest(name, self.names()).is_some() {
            return self.upstream(span, name);
        }
        let (first, rest) = name.split_once('/').unwrap_or((name, ""));
        let program = name.rsplit('/').next().unwrap_or_default();
        let help = if is_known(first) {
            format!("separate the words with spaces: `RUN {first} {rest}`")
        } else if program.parse::<UpstreamName>().is_ok() {
            format!(
                "`RUN` is followed by the name of an upstream: \
                 write `upstreams: {{ {program}: {{ command: [{name}] }} }}`, and `RUN {program}` here"
            )
        } else {
            HELP.to_owned()
        };
        let message = format!("unknown upstream `{name}`");
        self.value.reject_coded(Code::UnknownUpstream.at_span(span), message, help)
    }

    /// Parses the map form of a request to a command.
    pub(super) fn command(
        &self,
        section: &OpenSection<'_>,
        upstream: Option<&UpstreamName>,
        leading_dash_arguments: Vec<(String, SourceSpan)>,
    ) -> Checked<CommandTemplate> {
        let words = section.entry("arguments").map_or(Ok(Vec::new()), |entry| {
            Vec::read(&self.value.member(entry, "`arguments`", Vec::<WordTemplate>::KIND))
        });
        let stdin = section.entry("stdin").map(|entry| {
            let value = self.value.member(entry, "`stdin`", RequestBodyTemplate::KIND);
            match entry.value.as_map() {
                Some(_) => RequestBodyTemplate::read(&value),
                None => text(&value).map(RequestBodyTemplate::Text),
            }
        });
        let used = Scope::from_cursor(&self.value).used.borrow();
        let known_argument = |(name, span): (String, SourceSpan)| {
            if used.may_use(&name) {
                return Ok(name);
            }
            let names = used.arguments.iter().map(|argument| argument.name.as_str());
            let message = format!("the command has no argument `{name}`");
            let help = suggest::help(&name, "known arguments", names);
            Err(self.value.context.reject_at(Code::UnknownArgument.at_span(span), message, help))
        };
        let leading_dash_arguments = read_each(leading_dash_arguments.into_iter().map(known_argument));
        let (words, leading_dash_arguments) = (words?, leading_dash_arguments?);
        Ok(CommandTemplate {
            words,
            leading_dash_arguments,
            follows_end_of_options: upstream.is_some_and(|upstream| self.follows_end_of_options(upstream)),
            stdin: stdin.transpose()?,
        })
    }

    /// Whether the upstream's command line contains `--` (end of options): no argument after it is an option.
    fn follows_end_of_options(&self, upstream: &UpstreamName) -> bool {
        let command = self.upstreams.file(upstream).and_then(|parsed| parsed.settings.command());
        command.is_some_and(|command| command.arguments.iter().any(|word| word == "--"))
    }

    /// Parses the rest of a one-line request after `CALL`: a tool, which gets all arguments unchanged.
    pub(super) fn call_line(&self, target: &str) -> Checked<CompiledRequest> {
        let value = &self.value;
        let (name, tool) = target.split_once('/').unwrap_or(("", target));
        let is_upstream =
            name.is_empty() && self.names().count() > 1 && self.names().any(|name| name == tool);
        if tool.is_empty() || tool.contains(char::is_whitespace) || is_upstream {
            let message = format!("`CALL` needs the name of a tool, found {}", value.node.describe());
            return value.reject_coded(Code::InvalidRequest.at_span(value.node.span), message, CALL_HELP);
        }
        Scope::from_cursor(value).used.borrow_mut().all = true;
        let upstream = self.upstream_in(name)?;
        self.check_kind(value.node.span, &upstream, UpstreamKind::McpServer)?;
        Ok(CompiledRequest { upstream, template: RequestTemplate::Tool(ToolTemplate::new(tool)) })
    }

    /// Parses the map form of a request to an MCP server.
    pub(super) fn tool(&self, section: &OpenSection<'_>, tool: Option<&str>) -> Checked<ToolTemplate> {
        let tool = tool.map(str::trim).filter(|tool| !tool.is_empty()).ok_or_else(|| {
            let message = format!("{} has no `tool`", self.value.name);
            section.missing(message, "write `tool: NAME`, with the server's name for the tool")
        });
        let Some(entry) = section.entry("arguments") else {
            Scope::from_cursor(&self.value).used.borrow_mut().all = true;
            return tool.map(ToolTemplate::new);
        };
        let value = self.value.member(entry, "a string of `arguments`", JsonTemplate::KIND);
        if value.node.as_map().is_none() && value.node.as_text().and_then(expression) != Some("args") {
            let message = "`arguments` of a tool must be a map";
            let help = "write `arguments: { NAME: \"{{ args.name }}\" }`, or remove it to pass all arguments";
            return value.checked(section.report().reject_type(value.node, message, help));
        }
        let arguments = JsonTemplate::read(&value);
        Ok(ToolTemplate { arguments: arguments?, ..ToolTemplate::new(tool?) })
    }
}

/// Rejects a word with syntax that only the map form supports.
fn check_is_plain(value: &Cursor<'_>, word: &str) -> Checked<()> {
    if is_template(word) || word.contains(['"', '\'']) {
        let message = "a one-line request can't contain templates or quotes: spaces separate its words";
        let at = Code::InvalidRequest.at_span(span_of(value, word));
        return value.reject_coded(at, message, MAP_HELP);
    }
    Ok(())
}

/// Parses a word of a one-line request; `{name}` in it is an argument.
fn word_of_line(value: &Cursor<'_>, word: &str) -> Checked<WordTemplate> {
    static ARGUMENT: LazyLock<Regex> = LazyLock::new(|| fixed_regex(r"\{([A-Za-z0-9_]+)\}"));
    if ARGUMENT.replace_all(word, "").contains(['{', '}']) {
        let message = format!("`{word}` has braces without an argument name");
        let at = Code::InvalidRequest.at_span(span_of(value, word));
        return value.reject_coded(at, message, HELP);
    }
    let template = ARGUMENT.replace_all(word, "{{ args.$1 }}");
    let node = Node::from_text(&template, value.node.span);
    WordTemplate::read(&value.part(&node, value.name, WordTemplate::KIND))
}

/// Parses a word of a command line, which is a template.
impl Setting for WordTemplate {
    const KIND: ValueKind = ValueKind::Scalar;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        if let Some((before, name, after)) = value.node.as_text().and_then(around_argument) {
            add_argument(value, name, false);
            let [before, name, after] = [before, name, after].map(str::to_owned);
            return Ok(Self::Argument { before, name, after });
        }
        let template = template(value)?;
        if !is_template(template.source()) {
            return Ok(Self::Fixed(template.source().to_owned()));
        }
        let arguments = expressions::arguments_of(&template).unwrap_or_default();
        let needs = arguments.into_iter().filter(|(_, optional)| !optional).map(|(name, _)| name).collect();
        Ok(Self::Text { template, needs })
    }
}

/// Splits a template that inserts a single argument: text before it, name of the argument, text after it.
fn around_argument(text: &str) -> Option<(&str, &str, &str)> {
    let (start, end) = (text.find("{{")?, text.rfind("}}")? + 2);
    let (before, after) = (&text[..start], &text[end..]);
    let (name, is_omitted) = placeholder(text.get(start..end)?)?;
    (!is_omitted && !before.contains('{') && !after.contains(['{', '}'])).then_some((before, name, after))
}
