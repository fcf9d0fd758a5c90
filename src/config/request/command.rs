//! Requests to commands: `RUN UPSTREAM word {argument} …`, or a map with `arguments`.

use super::{
    CompiledRequest, RequestParser,
    values::{is_name, single_argument},
};
use crate::settings::code::Code;
use crate::{
    config::{
        language,
        source::SourceSpan,
        suggest,
        tree::{Kind, Node},
    },
    route::{CommandTemplate, RequestBodyTemplate, RequestTemplate, UpstreamName, WordTemplate},
    settings::section::OpenSection,
    translate::Template,
};

/// Word in place of the HTTP method, for commands.
pub(super) const RUN: &str = "RUN";
/// Keys of a request that are for commands only.
pub(super) const KEYS: [&str; 3] = ["arguments", "leading_dash_arguments", "stdin"];

const HELP: &str = "write `RUN UPSTREAM word {argument}`, such as `RUN disk {path}`";

impl RequestParser<'_, '_> {
    /// Parses the rest of a line after `RUN`.
    pub(super) fn run_line(&mut self, node: &Node, rest: &str) -> Option<CompiledRequest> {
        let mut words = rest.split_whitespace();
        let Some(name) = words.next() else {
            self.report.error(
                Code::InvalidRequest.at_span(node.span),
                "`RUN` needs the name of a command upstream",
                HELP,
            );
            return None;
        };
        let place = language::span_of_name(self.report, node.span, name);
        let upstream = self.command_upstream(place, name)?;
        self.reject_http(place, &upstream)?;
        let words: Vec<_> = words.map(|word| self.word_of_line(node, word)).collect();
        let words = words.into_iter().collect::<Option<Vec<_>>>()?;
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
        let message = format!("unknown upstream `{name}`");
        self.report.error(Code::UnknownUpstream.at_span(place), message, help);
        None
    }

    /// Parses a word in which `{name}` is an argument.
    fn word_of_line(&mut self, node: &Node, word: &str) -> Option<WordTemplate> {
        let place = language::span_of_name(self.report, node.span, word);
        let reject = |message: String, help: &str| {
            self.report.error(Code::InvalidRequest.at_span(place), message, help);
            None
        };
        let in_the_map = "use the map form: `request: { upstream: NAME, arguments: [\"two words\"] }`";
        if word.contains("{{") || word.contains("{%") {
            return reject("a one-line request can't contain templates".into(), in_the_map);
        }
        if let Some(quote) = word.chars().find(|character| matches!(character, '"' | '\'')) {
            let message = format!("quotes (`{quote}`) have no meaning here: words are separated by spaces");
            return reject(message, in_the_map);
        }
        let (mut rest, mut parts, mut names) = (word, Vec::new(), Vec::new());
        while let Some((before, behind)) = rest.split_once('{') {
            let found = behind.split_once('}').filter(|(name, _)| is_argument(name));
            let Some((name, after)) = found.filter(|_| !before.contains('}')) else {
                return reject(format!("`{word}` has braces without an argument name"), HELP);
            };
            parts.push(before);
            names.push(name);
            rest = after;
        }
        if rest.contains('}') {
            return reject(format!("`{word}` has braces without an argument name"), HELP);
        }
        for name in &names {
            self.used.add(name, false, language::span_of_name(self.report, node.span, name));
        }
        Some(match names[..] {
            [] => WordTemplate::Fixed(word.to_owned()),
            [name] => WordTemplate::Argument {
                before: parts[0].to_owned(),
                name: name.to_owned(),
                after: rest.to_owned(),
            },
            _ => {
                let source: String = parts
                    .iter()
                    .zip(&names)
                    .map(|(before, name)| format!("{before}{{{{ args.{name} }}}}"))
                    .collect();
                let template = Template::compile(&(source + rest)).map_err(|error| {
                    self.report.error(
                        Code::InvalidRequest.at_span(place),
                        format!("invalid word: {error}"),
                        in_the_map,
                    );
                });
                let needs = names.iter().map(|name| (*name).to_owned()).collect();
                WordTemplate::Text { template: template.ok()?, needs }
            }
        })
    }

    /// Parses the map form for a command.
    pub(super) fn command(
        &mut self,
        section: &OpenSection<'_>,
        upstream: Option<UpstreamName>,
    ) -> Option<CompiledRequest> {
        let report = self.report;
        let before = report.errors();
        self.reject(section, &super::HTTP_KEYS, upstream.as_ref(), "is a command");
        self.reject(section, &[super::tool::KEY], upstream.as_ref(), "is a command");
        let items = match section.get("arguments").map(|node| (&node.kind, node)) {
            None => &[],
            Some((Kind::List(items), _)) => items.as_slice(),
            Some((_, node)) => {
                let message = format!("`arguments` of a command must be a list, found {}", node.found());
                report.error(
                    Code::WrongType.at_span(node.span),
                    message,
                    "write one item per word: `[--count, \"{{ args.count }}\"]`",
                );
                &[]
            }
        };
        let words: Vec<_> = items.iter().map(|item| self.word(item)).collect();
        let stdin = section.entry("stdin").map(|entry| match &entry.value.kind {
            Kind::Map(_) => self.body(entry),
            Kind::Null | Kind::Boolean(_) | Kind::Number(_) | Kind::Text(_) | Kind::List(_) => {
                self.text(&entry.value, "`stdin`").map(RequestBodyTemplate::Text)
            }
        });
        let leading_dash_arguments = section.get("leading_dash_arguments").and_then(Node::as_list);
        let leading_dash_arguments: Vec<(&Node, &str)> = leading_dash_arguments
            .unwrap_or_default()
            .iter()
            .filter_map(|node| Some((node, node.as_text()?)))
            .collect();
        for (node, name) in &leading_dash_arguments {
            if !self.used.names(name) {
                let names = self.used.arguments.iter().map(|argument| argument.name.as_str());
                let help = suggest::help(name, "known arguments", names);
                report.error(
                    Code::UnknownArgument.at_span(node.span),
                    format!("the command has no argument `{name}`"),
                    help,
                );
            }
        }
        let words = words.into_iter().collect::<Option<Vec<_>>>()?;
        let stdin = match stdin {
            Some(stdin) => Some(stdin?),
            None => None,
        };
        let upstream = upstream.filter(|_| report.errors() == before)?;
        let leading_dash_arguments =
            leading_dash_arguments.into_iter().map(|(_, name)| name.to_owned()).collect();
        let is_past_options = self.is_past_options(&upstream);
        let template = CommandTemplate { words, leading_dash_arguments, is_past_options, stdin };
        Some(CompiledRequest { upstream, template: RequestTemplate::Command(template) })
    }

    /// Parses a word in a list: a template.
    fn word(&mut self, node: &Node) -> Option<WordTemplate> {
        if let Some((before, name, after)) = node.as_text().and_then(around_argument) {
            self.used.add(name, false, language::span_of_name(self.report, node.span, name));
            return Some(WordTemplate::Argument {
                before: before.to_owned(),
                name: name.to_owned(),
                after: after.to_owned(),
            });
        }
        let template = self.template(node, "an item of `arguments`")?;
        if !template.source().contains("{{") && !template.source().contains("{%") {
            return Some(WordTemplate::Fixed(template.source().to_owned()));
        }
        let arguments = language::arguments_of(&template).unwrap_or_default();
        let needs = arguments.into_iter().filter(|(_, optional)| !optional).map(|(name, _)| name).collect();
        Some(WordTemplate::Text { template, needs })
    }

    /// Rejects an HTTP request to a command.
    pub(super) fn reject_command(&self, place: SourceSpan, upstream: &UpstreamName) -> Option<()> {
        if self.is_command(upstream) != Some(true) {
            return Some(());
        }
        let message = format!("the upstream `{upstream}` is a command, which has no method and path");
        let help = format!("write `RUN {upstream} word {{argument}}`");
        self.report.error(Code::WrongUpstreamKind.at_span(place), message, help);
        None
    }

    fn reject_http(&self, place: SourceSpan, upstream: &UpstreamName) -> Option<()> {
        if self.is_command(upstream) != Some(false) {
            return Some(());
        }
        let message = format!("`RUN` requires a command, and the upstream `{upstream}` is not one");
        self.report.error(
            Code::WrongUpstreamKind.at_span(place),
            message,
            format!("write `GET {upstream}/path`"),
        );
        None
    }

    /// Whether an upstream is a command; `None` if it has errors.
    pub(super) fn is_command(&self, upstream: &UpstreamName) -> Option<bool> {
        self.file(upstream).map(|file| file.settings.command().is_some())
    }

    /// Whether the command line of the upstream contains `--`, after which no argument is an option.
    fn is_past_options(&self, upstream: &UpstreamName) -> bool {
        let command = self.file(upstream).and_then(|file| file.settings.command());
        command.is_some_and(|command| command.program.arguments.iter().any(|word| word == "--"))
    }
}

fn is_argument(name: &str) -> bool {
    !name.is_empty() && name.chars().all(is_name)
}

/// Name of the only argument of a template, with the text before and after it.
fn around_argument(text: &str) -> Option<(&str, &str, &str)> {
    let (start, end) = (text.find("{{")?, text.rfind("}}")? + 2);
    let (before, after) = (&text[..start], &text[end..]);
    let name = single_argument(text.get(start..end)?)?;
    (!before.contains('{') && !after.contains(['{', '}'])).then_some((before, name, after))
}
