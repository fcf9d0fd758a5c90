//! `tools`, `prompts` and `resources` of an MCP server: selection and renaming of the listed entries.

use std::{collections::BTreeSet, time::Duration};

use crate::config::compile::RESPONSE_KIND;
use crate::config::routes::AnnotationSettings;
use crate::config::section::ReadElsewhere;
use crate::model::ToolName;
use crate::pipeline::AwaitedServer;
use crate::route::Scopes;
use crate::settings::{
    Checked, Code, Cursor, Entry, Kind, Named, Node, OpenSection, Section, Setting, ValueKind,
    parsed_settings, read_one_of,
};
use crate::translate::ErrorRule;
use crate::translate::extract::matches_wildcard;

/// Selection and renaming for one list of an MCP server, by the server's names or URIs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Section)]
#[section(check_keys = Self::check_keys)]
pub struct NameRules {
    /// Prefix of each name; URIs are unchanged.
    #[key(default = String::new(), shown = "none")]
    pub(in crate::config) prefix: String,
    /// Entries that are listed, by the server's names, and resources by their URIs; `*` matches any
    /// characters.
    #[key(shown = "all")]
    only: Option<Vec<String>>,
    /// Entries that are not listed, in the same form. Resources whose URIs match cannot be read either.
    pub(in crate::config) except: Vec<String>,
}

/// Selection, renaming and settings of an MCP server's tools.
#[derive(Debug, Clone, PartialEq, Eq, Section)]
#[section(id = "tools", default, check_keys = Self::check_keys)]
pub struct ToolRules {
    #[key(part)]
    pub(in crate::config) names: NameRules,
    /// New names, by the server's names; they replace the whole name, without `prefix`.
    #[key(public)]
    rename: Named<ToolName>,
    /// New descriptions, by the server's names.
    #[key(public)]
    describe: Named<String>,
    /// Rules for the tools' results. A result that no rule matches is returned unmodified.
    #[key(kind = RESPONSE_KIND)]
    response: ReadElsewhere,
    /// Error for arguments that violate a tool's schema, written like `error` of a rule: `value.message`
    /// describes the violation.
    argument_error: ReadElsewhere<ErrorRule>,
    /// Settings for single tools, by the server's names; they replace those of the server.
    overrides: Named<ToolOverride>,
    /// Interval between requests of the list, in addition to those after a change notification of the server.
    #[key(range = 1_000..=24 * 3_600_000, default = Duration::from_secs(300))]
    pub refresh_interval: Duration,
}

/// Keys of the route of one tool. They are parsed as part of that route: on load for a placeholder tool, and
/// again when the server lists the tool.
#[derive(Debug, Clone, PartialEq, Eq, Section)]
#[section(name = "a tool", id = "override")]
struct ToolOverride {
    /// Display name.
    title: ReadElsewhere<String>,
    /// Description of the tool for models.
    description: ReadElsewhere<String>,
    /// Hints for clients about what the tool does (`ToolAnnotations` in MCP).
    annotations: ReadElsewhere<AnnotationSettings>,
    /// JSON Schema of the arguments.
    #[key(kind = ValueKind::JsonSchema)]
    input: ReadElsewhere,
    /// JSON Schema of the structured content; enforced on every success.
    #[key(kind = ValueKind::JsonSchema)]
    output: ReadElsewhere,
    /// Rules that are tried before those of `tools.response`.
    #[key(kind = RESPONSE_KIND)]
    response: ReadElsewhere,
    /// Question that the user must confirm before the tool is called: a template.
    confirm: ReadElsewhere<String>,
    /// Timeout of a call, with queueing and retries.
    #[key(kind = ValueKind::Duration(1, 3_600_000))]
    timeout: ReadElsewhere,
    /// Whether the call may be retried after it may have reached the server. Default: by its annotations.
    idempotent: ReadElsewhere<bool>,
    /// Maximum length of an error text.
    #[key(kind = ValueKind::Size(64, 1 << 20))]
    error_text_limit: ReadElsewhere,
}

parsed_settings! {
    ToolName = Text, "write letters, digits, `_`, `-` and `.`";
}

/// The sections `prompts` and `resources` of an MCP server.
#[derive(Default, Section)]
#[section(name = "`prompts` or `resources`", id = "offered")]
pub(super) struct OfferedRules {
    #[key(part)]
    pub(super) names: NameRules,
    /// Scopes that a client needs; replaces those of `defaults`.
    // Only checked here: the route that forwards these requests to the server parses the key again.
    scopes: Scopes,
}

/// Selection from a list of an MCP server: `all`, `off`, or a map.
pub(super) struct Offered(pub(super) Option<OfferedRules>);

impl Setting for Offered {
    const KIND: ValueKind = ValueKind::Either(&[ValueKind::Enum(&["all", "off"]), OfferedRules::KIND]);

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        match &value.node.kind {
            Kind::Boolean(false) => Ok(Self(None)),
            Kind::Text(_) => {
                let is_all = read_one_of(value, [("all", true), ("off", false)].into_iter())?;
                Ok(Self(is_all.then(OfferedRules::default)))
            }
            _ => OfferedRules::read(value).map(|rules| Self(Some(rules))),
        }
    }
}

impl ToolRules {
    fn check_keys(section: &OpenSection<'_>) -> Checked<()> {
        let mut checked = Ok(());
        let renamed = section.get("rename").and_then(Node::as_map).unwrap_or_default();
        for (index, Entry { value, .. }) in renamed.iter().enumerate() {
            // A value that is not a string has already been reported.
            let Some(name) = value.as_text() else { continue };
            if renamed[..index].iter().any(|other| other.value.as_text() == Some(name)) {
                let message = format!("two tools are renamed to `{name}`");
                let at = Code::DuplicateValue.at_span(value.span);
                checked = Err(section.reject_at(at, &message, "rename one"));
            }
        }
        checked
    }

    /// Returns the name of a tool for clients. Characters that some clients reject are replaced with `_`.
    pub(in crate::config) fn name_of(&self, name: &str) -> String {
        let renamed = self.rename.0.iter().find(|(known, _)| known == name);
        renamed.map_or_else(|| self.names.name_of(name), |(_, renamed)| renamed.to_string())
    }

    /// Returns the names that the tools of the server may have, until the server has listed them.
    pub fn possible_names(&self) -> AwaitedServer {
        let names = self.rename.0.iter().map(|(_, renamed)| renamed.to_string()).collect();
        AwaitedServer { names, ..self.names.possible_names() }
    }

    /// Returns the configured description of a tool, which overrides the server's description.
    pub(in crate::config) fn description_of(&self, name: &str) -> Option<&str> {
        self.describe.0.iter().find(|(known, _)| known == name).map(|(_, text)| text.trim_end())
    }

    /// Returns the configured names that are not in `names`, the list of the server.
    pub(in crate::config) fn unknown_names<'a>(&'a self, names: &[&str]) -> BTreeSet<&'a str> {
        let keys = self.rename.0.iter().map(|(name, _)| name.as_str());
        let keys = keys.chain(self.describe.0.iter().map(|(name, _)| name.as_str()));
        let keys = keys.chain(self.overrides.0.iter().map(|(name, _)| name.as_str()));
        keys.filter(|name| !names.contains(name)).chain(self.names.unknown_names(names)).collect()
    }
}

impl NameRules {
    /// Rejects a prefix that is not valid in the name of a tool or prompt. Names of resources may contain any
    /// characters.
    fn check_keys(section: &OpenSection<'_>) -> Checked<()> {
        if section.value.key.is_some_and(|key| key.name == "resources") {
            return Ok(());
        }
        let is_invalid = |node: &&Node| {
            node.as_text().is_some_and(|text| !text.is_empty() && text.parse::<ToolName>().is_err())
        };
        let Some(node) = section.get("prefix").filter(is_invalid) else { return Ok(()) };
        let message = format!("`prefix` can't begin a name, found {}", node.describe());
        let help = "write ASCII letters, digits, `_`, `-` and `.`: `git_`";
        Err(section.reject_at(Code::InvalidName.at_span(node.span), &message, help))
    }

    /// Whether an entry is offered to clients.
    pub(in crate::config) fn offers(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| matches_wildcard(only, name))
            && !matches_wildcard(&self.except, name)
    }

    /// Returns the name of an entry for clients. Characters that some clients reject are replaced with `_`.
    pub(in crate::config) fn name_of(&self, name: &str) -> String {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        self.prefix.chars().chain(name.chars()).map(|c| if is_allowed(c) { c } else { '_' }).collect()
    }

    /// Returns the names that the entries may have, until the server has listed them.
    pub fn possible_names(&self) -> AwaitedServer {
        AwaitedServer { prefix: self.prefix.clone(), names: Vec::new() }
    }

    /// Returns the configured names without wildcards that are not in `names`, the list of the server.
    pub(in crate::config) fn unknown_names<'a>(&'a self, names: &[&str]) -> BTreeSet<&'a str> {
        let exact = self.only.iter().flatten().chain(&self.except).filter(|pattern| !pattern.contains('*'));
        exact.map(String::as_str).filter(|name| !names.contains(name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_taken_and_named_as_the_file_says() {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let rules = ToolRules {
            names: NameRules {
                prefix: "git_".into(),
                only: Some(list(&["get_*", "list"])),
                except: list(&["*_secret"]),
            },
            rename: Named(vec![("list".into(), "all".parse().unwrap())]),
            ..ToolRules::default()
        };
        assert!(rules.names.offers("get_file") && rules.names.offers("list"));
        assert!(!rules.names.offers("get_secret") && !rules.names.offers("delete"));
        assert_eq!((rules.name_of("list"), rules.name_of("a/b é")), ("all".into(), "git_a_b__".into()));
        assert_eq!(rules.unknown_names(&["get_file"]), ["list"].into());
        assert!(ToolRules::default().names.offers("anything"));
    }
}
