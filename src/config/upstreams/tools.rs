//! `tools`, `prompts` and `resources` of an MCP server: which of them are listed, and as what.

use crate::settings::code::Code;
use std::time::Duration;

use crate::{
    config::{
        clients,
        keys::{Keys, OFFERED_PROMPTS, OFFERED_RESOURCES, OVERRIDE, TOOLS},
        node::{Entry, Kind},
        section::{self, Section},
    },
    pipeline::AwaitedServer,
    translate::extract::NamePattern,
};

/// Which entries of one list of an MCP server are listed here, by the server's names or URIs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NameRules {
    /// What is put before each name.
    pub(in crate::config) prefix: String,
    only: Option<Vec<String>>,
    /// Patterns of those that are not listed.
    pub(in crate::config) except: Vec<String>,
}

/// Which tools of an MCP server are listed, and as what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolRules {
    names: NameRules,
    rename: Vec<(String, String)>,
    describe: Vec<(String, String)>,
    /// The tools that have something in the place of what the server says.
    overridden: Vec<String>,
    /// How often the list is asked for when nothing is heard of it.
    pub refresh: Duration,
}

/// For [`refresh`](ToolRules::refresh).
const REFRESH: Duration = Duration::from_secs(300);

impl Default for ToolRules {
    fn default() -> Self {
        Self {
            names: NameRules::default(),
            rename: Vec::new(),
            describe: Vec::new(),
            overridden: Vec::new(),
            refresh: REFRESH,
        }
    }
}

impl NameRules {
    /// Whether an entry is listed.
    pub(in crate::config) fn takes(&self, name: &str) -> bool {
        let holds =
            |patterns: &[String]| patterns.iter().any(|pattern| NamePattern::new(pattern).matches(name));
        self.only.as_ref().is_none_or(|only| holds(only)) && !holds(&self.except)
    }

    /// What it is called here. Characters that some client refuses are `_` then.
    pub(in crate::config) fn name_of(&self, name: &str) -> String {
        allowed(&format!("{}{name}", self.prefix))
    }

    /// What its entries will be called, while they are not known yet.
    pub fn awaited(&self) -> AwaitedServer {
        AwaitedServer { prefix: self.prefix.clone(), given: Vec::new() }
    }

    /// Names, and no patterns, that are written down.
    fn exact(&self) -> impl Iterator<Item = &String> {
        self.only.iter().flatten().chain(&self.except).filter(|pattern| !pattern.contains('*'))
    }

    /// Those of them that the server does not have.
    pub(in crate::config) fn strangers<'a>(&'a self, names: &[&str]) -> Vec<&'a str> {
        strangers(self.exact(), names)
    }
}

fn allowed(name: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    name.chars().map(|c| if allowed(c) { c } else { '_' }).collect()
}

fn strangers<'a>(written: impl Iterator<Item = &'a String>, names: &[&str]) -> Vec<&'a str> {
    let mut strangers: Vec<&str> = written.map(String::as_str).filter(|name| !names.contains(name)).collect();
    strangers.sort_unstable();
    strangers.dedup();
    strangers
}

impl ToolRules {
    /// Whether a tool is listed, by the server's name for it.
    pub(in crate::config) fn takes(&self, name: &str) -> bool {
        self.names.takes(name)
    }

    /// What it is called here. Characters that some client refuses are `_` then.
    pub(in crate::config) fn name_of(&self, name: &str) -> String {
        let renamed = self.rename.iter().find(|(known, _)| known == name);
        renamed.map_or_else(|| self.names.name_of(name), |(_, renamed)| allowed(renamed))
    }

    /// What its tools will be called, while they are not known yet.
    pub fn awaited(&self) -> AwaitedServer {
        let given = self.rename.iter().map(|(_, renamed)| renamed.clone()).collect();
        AwaitedServer { given, ..self.names.awaited() }
    }

    /// What is said of it, where that is not for the server to say.
    pub(in crate::config) fn description_of(&self, name: &str) -> Option<&str> {
        self.describe.iter().find(|(known, _)| known == name).map(|(_, text)| text.as_str())
    }

    /// Names that are written down for a server that does not have them.
    pub(in crate::config) fn strangers<'a>(&'a self, names: &[&str]) -> Vec<&'a str> {
        let keys = self.rename.iter().chain(&self.describe).map(|(name, _)| name).chain(&self.overridden);
        strangers(self.names.exact().chain(keys), names)
    }
}

/// Reads `prompts` or `resources`, which are offered by default where the `tools` are. As [`read`] does.
pub(super) fn read_offered(
    upstream: &Section<'_, '_>,
    name: &'static str,
    is_default: bool,
) -> Option<Option<NameRules>> {
    let report = upstream.report;
    let all = || Some(NameRules::default());
    let Some(node) = upstream.get(name) else { return Some(all().filter(|_| is_default)) };
    let keys: &'static Keys = if name == "prompts" { &OFFERED_PROMPTS } else { &OFFERED_RESOURCES };
    match &node.kind {
        Kind::Flag(false) => return Some(None),
        Kind::Text(_) => {
            let word = section::word_of(report, node, &format!("`{name}`"), &["all", "off"])?;
            return Some(all().filter(|_| word == "all"));
        }
        Kind::Nothing | Kind::Flag(true) | Kind::Number(_) | Kind::List(_) | Kind::Map(_) => {}
    }
    let before = report.errors();
    let section = upstream.section(name, keys)?;
    let rules = names(&section, (name == "prompts").then_some("prompt"));
    // They are read again, for the route that stands for all of them.
    let _ = clients::scopes(&section);
    (report.errors() == before).then_some(Some(rules))
}

/// `prefix`, `only` and `except`. Where clients call something by its name, the prefix begins the name of a
/// `called`.
fn names(section: &Section<'_, '_>, called: Option<&str>) -> NameRules {
    let texts = |name| -> Option<Vec<String>> {
        Some(section.texts(name)?.into_iter().map(|(_, text)| text.to_owned()).collect())
    };
    let prefix = section.text_node("prefix").map(|(node, text)| {
        if let (Some(called), Err(_)) = (called, text.parse::<crate::model::ToolName>()) {
            let message = format!("`prefix` can't begin the name of a {called}, found {}", node.found());
            section.report.error(
                Code::InvalidName.at(node.span),
                message,
                "write ASCII letters, digits, `_`, `-` and `.`: `git_`",
            );
        }
        text.to_owned()
    });
    NameRules {
        prefix: prefix.unwrap_or_default(),
        only: texts("only"),
        except: texts("except").unwrap_or_default(),
    }
}

/// Reads `tools`. The inner `None` lists none; the outer one is when something is wrong, which has been
/// reported then.
pub(super) fn read(upstream: &Section<'_, '_>) -> Option<Option<ToolRules>> {
    let report = upstream.report;
    let Some(node) = upstream.get("tools") else { return Some(Some(ToolRules::default())) };
    match &node.kind {
        Kind::Flag(false) => return Some(None),
        Kind::Text(_) => return section::word_of(report, node, "`tools`", &["off"]).map(|_| None),
        Kind::Nothing | Kind::Flag(true) | Kind::Number(_) | Kind::List(_) | Kind::Map(_) => {}
    }
    let before = report.errors();
    let section = upstream.section("tools", &TOOLS)?;
    let pairs = |name: &'static str| -> Vec<(String, String)> {
        let text = |Entry { key, value }: &Entry| {
            let text = section::text_of(report, value, &format!("`{name}` of `{}`", key.text))?;
            Some((key.text.clone(), text.trim_end().to_owned()))
        };
        section.map(name).unwrap_or_default().iter().filter_map(text).collect()
    };
    let names = names(&section, Some("tool"));
    let rename = pairs("rename");
    for entry in section.map("rename").unwrap_or_default() {
        let Some(text) = entry.value.as_text() else { continue };
        if let Err(error) = text.parse::<crate::model::ToolName>() {
            report.error(
                Code::InvalidName.at(entry.value.span),
                error.to_string(),
                "the name is what clients call the tool by",
            );
        }
        let twice = rename.iter().filter(|(_, other)| other == text).count() > 1;
        if twice {
            report.error(
                Code::DuplicateValue.at(entry.value.span),
                format!("two tools are renamed to `{text}`"),
                "give one another name",
            );
        }
    }
    // Both are read again, as parts of routes: now by an example, and when the tools are known.
    let _ = (section.get("response"), section.get("argument_error"));
    let overrides = section.map("overrides").unwrap_or_default();
    for Entry { key, value } in overrides {
        if let Some(own) = Section::open(report, key.span, value, &OVERRIDE) {
            for key in OVERRIDE.keys() {
                let _ = own.get(key.name);
            }
        }
    }
    let rules = ToolRules {
        names,
        rename,
        describe: pairs("describe"),
        overridden: overrides.iter().map(|entry| entry.key.text.clone()).collect(),
        refresh: section.duration("refresh_interval").unwrap_or(REFRESH),
    };
    (report.errors() == before).then_some(Some(rules))
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
            rename: vec![("list".into(), "all".into())],
            ..ToolRules::default()
        };
        assert!(rules.takes("get_file") && rules.takes("list"));
        assert!(!rules.takes("get_secret") && !rules.takes("delete"));
        assert_eq!((rules.name_of("list"), rules.name_of("a/b é")), ("all".into(), "git_a_b__".into()));
        assert_eq!(rules.strangers(&["get_file"]), ["list"]);
        assert!(ToolRules::default().takes("anything"));
    }
}
