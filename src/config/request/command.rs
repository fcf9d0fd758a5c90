//! Requests to commands, `RUN UPSTREAM word {argument} …`, and to MCP servers, `CALL UPSTREAM/TOOL`; or maps.

use super::values::{as_name, expression, placeholder};
use super::{CompiledRequest, RequestParser};
use crate::config::response::valid_part;
use crate::config::route_tests::UpstreamKind;
use crate::config::section;
use crate::config::section::all_valid;
use crate::route::{
    CommandTemplate, RequestBodyTemplate, RequestTemplate, ToolTemplate, UpstreamName, WordTemplate,
};
use crate::settings::{Code, Node, OpenSection, SourceSpan, suggest};
use crate::translate::{Template, expressions};

/// Word in place of the HTTP method, for commands.
pub(super) const RUN: &str = "RUN";
/// Keys of a request that are for commands only.
pub(super) const KEYS: [&str; 3] = ["arguments", "leading_dash_arguments", "stdin"];

/// Word in place of the HTTP method, for tools.
pub(super) const CALL: &str = "CALL";

const CALL_HELP: &str = "write `CALL UPSTREAM/TOOL`, with the server's name for the tool";
const HELP: &str = "write `RUN UPSTREAM word {argument}`, such as `RUN disk {path}`";

impl RequestParser<'_, '_> {
    /// Parses the rest of a line after `RUN`.
    pub(super) fn run_line(&mut self, node: &Node, rest: &str) -> Option<CompiledRequest> {
        let mut words = rest.split_whitespace();
        let Some(name) = words.next() else {
            let message = "`RUN` needs the name of a command upstream";
            return self.report.reject(Code::InvalidRequest.at_span(node.span), message, HELP);
        };
        let place = expressions::span_of_name(self.report, node.span, name);
        let upstream = self.command_upstream(place, name)?;
        self.check_kind(place, &upstream, UpstreamKind::Program)?;
        let words = all_valid(words.map(|word| self.word_of_line(node, word)))?;
        let template =
            CommandTemplate { words, is_past_options: self.is_past_options(&upstream), ..Default::default() };
        Some(CompiledRequest { upstream, template: RequestTemplate::Command(template) })
    }

    /// Finds the upstream after `RUN`, or reports an unknown one, which may be a program or a path.
    fn command_upstream(&self, place: SourceSpan, name: &str) -> Option<UpstreamName> {
        let names = || self.upstreams.names.iter().map(|(name, _)| name.as_str());
        if names().any(|known| known == name) || suggest::nearest(name, names()).is_some() {
            return self.upstream(place, name);
        }
        let (first, rest) = name.split_once('/').unwrap_or((name, ""));
        let program = name.rsplit('/').next().unwrap_or_default();
        let help = if names().any(|known| known == first) {
            format!("separate the words with spaces: `RUN {first} {rest}`")
        } else if program.parse::<UpstreamName>().is_ok() {
            format!(
                "`RUN` is followed by the name of an upstream: \
                 write `upstreams: {{ {program}: {{ command: [{name}] }} }}`, and `RUN {program}` here"
            )
        } else {
            HELP.to_owned()
        };
        self.report.reject(Code::UnknownUpstream.at_span(place), format!("unknown upstream `{name}`"), help)
    }

    /// Parses a word in which `{name}` is an argument.
    fn word_of_line(&mut self, node: &Node, word: &str) -> Option<WordTemplate> {
        let place = expressions::span_of_name(self.report, node.span, word);
        let reject = |message: String, help: &str| {
            self.report.reject(Code::InvalidRequest.at_span(place), message, help)
        };
        let in_the_map = "use the map form: `request: { upstream: NAME, arguments: [\"two words\"] }`";
        if section::is_template(word) {
            return reject("a one-line request can't contain templates".into(), in_the_map);
        }
        if let Some(quote) = word.chars().find(|character| matches!(character, '"' | '\'')) {
            let message = format!("quotes (`{quote}`) have no meaning here: words are separated by spaces");
            return reject(message, in_the_map);
        }
        let (mut rest, mut parts, mut names) = (word, Vec::new(), Vec::new());
        // The next brace must be `{`, with a name and `}` after it.
        while let Some((before, behind)) = rest.split_once(['{', '}']) {
            let found = behind.split_once('}').filter(|_| !rest[before.len()..].starts_with('}'));
            let Some((name, after)) = found.and_then(|(name, after)| Some((as_name(name)?, after))) else {
                return reject(format!("`{word}` has braces without an argument name"), HELP);
            };
            parts.push(before);
            names.push(name);
            rest = after;
        }
        for name in &names {
            self.used.add(name, false, expressions::span_of_name(self.report, node.span, name));
        }
        Some(match names[..] {
            [] => WordTemplate::Fixed(word.to_owned()),
            [name] => argument((parts[0], name, rest)),
            _ => {
                let inserted = parts.iter().zip(&names);
                let source: String =
                    inserted.map(|(before, name)| format!("{before}{{{{ args.{name} }}}}")).collect();
                let template = match Template::compile(&(source + rest)) {
                    Ok(template) => template,
                    Err(error) => return reject(format!("invalid word: {error}"), in_the_map),
                };
                let needs = names.into_iter().map(str::to_owned).collect();
                WordTemplate::Text { template, needs }
            }
        })
    }

    /// Parses the map form for a command.
    pub(super) fn command(
        &mut self,
        section: &OpenSection<'_>,
        upstream: Option<&UpstreamName>,
    ) -> Option<CommandTemplate> {
        let report = self.report;
        let words = match section.get("arguments").map(|node| (node, node.as_list())) {
            None => Some(Vec::new()),
            Some((_, Some(items))) => all_valid(items.iter().map(|item| self.word(item))),
            Some((node, None)) => {
                let help = "write one item per word: `[--count, \"{{ args.count }}\"]`";
                report.reject_type(node, "`arguments` of a command must be a list", help)
            }
        };
        let stdin = section.entry("stdin").map(|entry| match entry.value.as_map() {
            Some(_) => self.body(entry),
            None => self.text(&entry.value, "`stdin`").map(RequestBodyTemplate::Text),
        });
        let mut leading_dash_arguments = Vec::new();
        for node in section.get("leading_dash_arguments").and_then(Node::as_list).unwrap_or_default() {
            let Some(name) = node.as_text() else { continue };
            if !self.used.names(name) {
                let names = self.used.arguments.iter().map(|argument| argument.name.as_str());
                let message = format!("the command has no argument `{name}`");
                let help = suggest::help(name, "known arguments", names);
                report.error(Code::UnknownArgument.at_span(node.span), message, help);
            }
            leading_dash_arguments.push(name.to_owned());
        }
        let (words, stdin) = (words?, valid_part(stdin)?);
        let is_past_options = upstream.is_some_and(|upstream| self.is_past_options(upstream));
        Some(CommandTemplate { words, leading_dash_arguments, is_past_options, stdin })
    }

    /// Parses a word in a list: a template.
    fn word(&mut self, node: &Node) -> Option<WordTemplate> {
        if let Some(parts @ (_, name, _)) = node.as_text().and_then(around_argument) {
            self.used.add(name, false, expressions::span_of_name(self.report, node.span, name));
            return Some(argument(parts));
        }
        let template = self.template(node, "an item of `arguments`")?;
        if !section::is_template(template.source()) {
            return Some(WordTemplate::Fixed(template.source().to_owned()));
        }
        let arguments = expressions::arguments_of(&template).unwrap_or_default();
        let needs = arguments.into_iter().filter(|(_, optional)| !optional).map(|(name, _)| name).collect();
        Some(WordTemplate::Text { template, needs })
    }

    /// Whether the command line of the upstream contains `--`, after which no argument is an option.
    fn is_past_options(&self, upstream: &UpstreamName) -> bool {
        let command = self.file(upstream).and_then(|file| file.settings.command());
        command.is_some_and(|command| command.program.arguments.iter().any(|word| word == "--"))
    }
}

impl RequestParser<'_, '_> {
    /// Parses the rest of a line after `CALL`: a tool, to which all arguments are passed unchanged.
    pub(super) fn call_line(&mut self, node: &Node, target: &str) -> Option<CompiledRequest> {
        let (name, tool) = target.split_once('/').unwrap_or(("", target));
        let upstream = self.upstream_in(node, name);
        if tool.is_empty() || tool.contains(char::is_whitespace) {
            let message = format!("`CALL` needs the name of a tool, found {}", node.found());
            return self.report.reject(Code::InvalidRequest.at_span(node.span), message, CALL_HELP);
        }
        self.used.all = true;
        let upstream = upstream?;
        self.check_kind(node.span, &upstream, UpstreamKind::McpServer)?;
        Some(CompiledRequest { upstream, template: RequestTemplate::Tool(ToolTemplate::new(tool)) })
    }

    /// Parses the map form for an MCP server.
    pub(super) fn tool(&mut self, section: &OpenSection<'_>) -> Option<ToolTemplate> {
        let report = self.report;
        let tool = match section.get("tool") {
            Some(node) => {
                let text = node.as_text().unwrap_or_default().trim();
                if text.is_empty() {
                    let help = "write the server's name for the tool";
                    report.error(Code::EmptyValue.at_span(node.span), "`tool` is empty", help);
                }
                text
            }
            None => {
                let help = "write `tool: NAME`, with the server's name for the tool";
                section.missing("`request` has no `tool`".to_owned(), help);
                ""
            }
        };
        let mut template = ToolTemplate::new(tool);
        match section.get("arguments") {
            None => self.used.all = true,
            Some(node) if node.as_map().is_some() || node.as_text().and_then(expression) == Some("args") => {
                template.arguments = self.json(node, "a text of `arguments`")?;
            }
            Some(node) => {
                let help =
                    "write `arguments: { NAME: \"{{ args.name }}\" }`, or remove it to pass all arguments";
                return report.reject_type(node, "`arguments` of a tool must be a map", help);
            }
        }
        Some(template)
    }
}

/// Word with an argument, and the text before and after it.
fn argument((before, name, after): (&str, &str, &str)) -> WordTemplate {
    WordTemplate::Argument { before: before.to_owned(), name: name.to_owned(), after: after.to_owned() }
}

/// Name of the only argument of a template, with the text before and after it.
fn around_argument(text: &str) -> Option<(&str, &str, &str)> {
    let (start, end) = (text.find("{{")?, text.rfind("}}")? + 2);
    let (before, after) = (&text[..start], &text[end..]);
    let (name, is_omitted) = placeholder(text.get(start..end)?)?;
    (!is_omitted && !before.contains('{') && !after.contains(['{', '}'])).then_some((before, name, after))
}
