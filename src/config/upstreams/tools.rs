//! `tools` of an MCP server: which of them are listed, and as what.

use std::time::Duration;

use crate::{
    config::{
        keys::{OVERRIDE, TOOLS},
        node::{Entry, Kind},
        section::{self, Section},
    },
    gateway::Awaited,
    rule::extract::NamePattern,
};

/// Which tools of an MCP server are listed, and as what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolRules {
    prefix: String,
    only: Option<Vec<String>>,
    except: Vec<String>,
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
            prefix: String::new(),
            only: None,
            except: Vec::new(),
            rename: Vec::new(),
            describe: Vec::new(),
            overridden: Vec::new(),
            refresh: REFRESH,
        }
    }
}

impl ToolRules {
    /// Whether a tool is listed, by the server's name for it.
    pub(in crate::config) fn takes(&self, name: &str) -> bool {
        let holds =
            |patterns: &[String]| patterns.iter().any(|pattern| NamePattern::new(pattern).holds(name));
        self.only.as_ref().is_none_or(|only| holds(only)) && !holds(&self.except)
    }

    /// What it is called here. Characters that some client refuses are `_` then.
    pub(in crate::config) fn name_of(&self, name: &str) -> String {
        let renamed = self.rename.iter().find(|(known, _)| known == name);
        let found = renamed.map_or_else(|| format!("{}{name}", self.prefix), |(_, renamed)| renamed.clone());
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        found.chars().map(|c| if allowed(c) { c } else { '_' }).collect()
    }

    /// What its tools will be called, while they are not known yet.
    pub fn awaited(&self) -> Awaited {
        let given = self.rename.iter().map(|(_, renamed)| renamed.clone()).collect();
        Awaited { prefix: self.prefix.clone(), given }
    }

    /// What is said of it, where that is not for the server to say.
    pub(in crate::config) fn description_of(&self, name: &str) -> Option<&str> {
        self.describe.iter().find(|(known, _)| known == name).map(|(_, text)| text.as_str())
    }

    /// Names that are written down for a server that does not have them.
    pub(in crate::config) fn strangers<'a>(&'a self, names: &[&str]) -> Vec<&'a str> {
        let exact = self.only.iter().flatten().chain(&self.except).filter(|pattern| !pattern.contains('*'));
        let keys = self.rename.iter().chain(&self.describe).map(|(name, _)| name).chain(&self.overridden);
        let mut strangers: Vec<&str> =
            exact.chain(keys).map(String::as_str).filter(|name| !names.contains(name)).collect();
        strangers.sort_unstable();
        strangers.dedup();
        strangers
    }
}

/// Reads `tools`. The inner `None` lists none; the outer one is when something is wrong, which has been reported then.
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
    let names = |name| -> Option<Vec<String>> {
        Some(section.texts(name)?.into_iter().map(|(_, text)| text.to_owned()).collect())
    };
    let pairs = |name: &'static str| -> Vec<(String, String)> {
        let text = |Entry { key, value }: &Entry| {
            let text = section::text_of(report, value, &format!("`{name}` of `{}`", key.text))?;
            Some((key.text.clone(), text.trim_end().to_owned()))
        };
        section.map(name).unwrap_or_default().iter().filter_map(text).collect()
    };
    let prefix = section.text_node("prefix").map(|(node, text)| {
        if text.parse::<crate::tool::ToolName>().is_err() {
            let message = format!("`prefix` can't begin the name of a tool, found {}", node.found());
            report.error(node.span, message, "write ASCII letters, digits, `_`, `-` and `.`: `git_`");
        }
        text.to_owned()
    });
    let rename = pairs("rename");
    for entry in section.map("rename").unwrap_or_default() {
        let Some(text) = entry.value.as_text() else { continue };
        if let Err(error) = text.parse::<crate::tool::ToolName>() {
            report.error(entry.value.span, error.to_string(), "the name is what clients call the tool by");
        }
        let twice = rename.iter().filter(|(_, other)| other == text).count() > 1;
        if twice {
            report.error(
                entry.value.span,
                format!("two tools are renamed to `{text}`"),
                "give one another name",
            );
        }
    }
    // Both are read again, as parts of routes: now by an example, and when the tools are known.
    let _ = (section.get("reply"), section.get("argument_error"));
    let overrides = section.map("overrides").unwrap_or_default();
    for Entry { key, value } in overrides {
        if let Some(own) = Section::open(report, key.span, value, &OVERRIDE) {
            for key in OVERRIDE.list {
                let _ = own.get(key.name);
            }
        }
    }
    let rules = ToolRules {
        prefix: prefix.unwrap_or_default(),
        only: names("only"),
        except: names("except").unwrap_or_default(),
        rename,
        describe: pairs("describe"),
        overridden: overrides.iter().map(|entry| entry.key.text.clone()).collect(),
        refresh: section.duration("refresh").unwrap_or(REFRESH),
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
            prefix: "git_".into(),
            only: Some(list(&["get_*", "list"])),
            except: list(&["*_secret"]),
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
