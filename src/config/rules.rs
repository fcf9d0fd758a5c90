//! `rules`: rules with a name, and what comes of a `use` of them.
//!
//! A `use` is replaced by the rules that it names before any of them is compiled: the tree of the file is put together
//! anew, and every value keeps the place where it was written. In the texts of named rules `$(name)` stands for a
//! parameter; `$(` is no syntax of jq, templates or `${VARIABLE}`, and in a pattern it could match nothing but the end of
//! a line and then more of the same line. `$$(name)` stands for the characters themselves. What was put in is not looked
//! through again.
//!
//! The presets are named rules like any other, in `presets.yaml` beside this file. Names of the operator's file come
//! first, so that a preset of a later version takes nobody's name away.

use std::{borrow::Cow, cell::Cell, sync::LazyLock};

use regex::{Captures, Regex};

use super::{
    cost::{Budget, Cost},
    keys::{RULE_SET, USE},
    language,
    node::{Entry, Key, Kind, Node, Text},
    report::{Context, Report},
    section::Section,
    source::Span,
    suggest,
};

/// The presets, as a file of rules.
pub(super) const PRESETS: &str = include_str!("presets.yaml");

/// How many values all uses of named rules may put in together.
const NODE_LIMIT: usize = 2_000_000;
/// How deep named rules may use others.
const DEPTH_LIMIT: usize = 16;
/// How many bytes of text these may have together.
const TEXT_LIMIT_BYTES: usize = 64 << 20;

/// All named rules: those of the file, and the presets.
pub(super) struct RuleSets<'n> {
    sets: Vec<RuleSet<'n>>,
    budget: Budget,
}

/// Rules with a name.
struct RuleSet<'n> {
    name: &'n Key,
    preset: bool,
    parameters: Vec<Parameter<'n>>,
    /// `None` when something is wrong with their form; that has been reported then.
    reply: Option<&'n Node>,
    used: Cell<bool>,
}

/// A name that stands for something in named rules.
struct Parameter<'n> {
    name: &'n str,
    /// `None` when each use must give a value.
    default: Option<&'n Node>,
}

/// One rule of a reply, after every `use` has been replaced.
pub(super) struct WrittenRule<'n> {
    pub(super) node: Cow<'n, Node>,
    /// Its first key.
    pub(super) span: Span,
    /// The `use` that brought it there.
    pub(super) via: Option<Via>,
}

/// How a rule came into a reply.
#[derive(Debug, Clone)]
pub(super) struct Via {
    /// The names on the way, the innermost last.
    pub(super) names: String,
    /// Where the outermost `use` stands.
    pub(super) span: Span,
    /// What problems of the rule say.
    pub(super) context: Context,
}

/// Where an expansion is.
struct Here<'h> {
    /// Who uses rules, in words.
    user: &'h str,
    /// The sets that are being put in, the outermost first.
    chain: Vec<usize>,
    via: Option<Via>,
}

impl<'n> RuleSets<'n> {
    /// Reads the named rules of the file and the presets.
    pub(super) fn read(report: &Report<'_>, own: &'n [Entry], presets: &'n [Entry]) -> Self {
        let own_sets = own.iter().map(|entry| read_set(report, entry, false));
        let hidden = |entry: &&Entry| !own.iter().any(|known| known.key.text == entry.key.text);
        let preset_sets = presets.iter().filter(hidden).map(|entry| read_set(report, entry, true));
        Self {
            sets: own_sets.chain(preset_sets).collect(),
            budget: Budget::new(NODE_LIMIT, TEXT_LIMIT_BYTES),
        }
    }

    /// The rules of a reply, every `use` replaced. `None` when something is wrong; that has been reported then.
    ///
    /// `user` says whose reply it is: "the route `get_report`".
    pub(super) fn expand<'r>(
        &self,
        report: &Report<'_>,
        user: &str,
        reply: &'r Entry,
    ) -> Option<Vec<WrittenRule<'r>>> {
        self.expanded(report, Here { user, chain: Vec::new(), via: None }, reply)
    }

    /// The rules of `defaults.reply`, for a route.
    pub(super) fn expand_defaults<'r>(
        &self,
        report: &Report<'_>,
        route: &str,
        reply: &'r Entry,
    ) -> Option<Vec<WrittenRule<'r>>> {
        let span = reply.key.span;
        let words = format!("in `defaults.reply`, tried for {route}");
        let via = Via { names: "defaults".to_owned(), span, context: Context { words, at: span } };
        let user = format!("`defaults.reply` for {route}");
        self.expanded(report, Here { user: &user, chain: Vec::new(), via: Some(via) }, reply)
    }

    fn expanded<'r>(
        &self,
        report: &Report<'_>,
        mut here: Here<'_>,
        reply: &'r Entry,
    ) -> Option<Vec<WrittenRule<'r>>> {
        let mut rules = Vec::new();
        let good = self.put_in(report, &mut here, reply.key.span, Cow::Borrowed(&reply.value), &mut rules);
        good.then_some(rules)
    }

    /// Reads rules that no route uses, as far as that can be done without arguments, and says that they are idle.
    pub(super) fn check_unused(&self, report: &Report<'_>, read: impl Fn(&Report<'_>, Vec<WrittenRule<'_>>)) {
        for (index, set) in self.sets.iter().enumerate().filter(|(_, set)| !set.preset && !set.used.get()) {
            let Some(reply) = set.reply else { continue };
            report.warning(
                set.name.span,
                format!("the rules `{}` are used by no route", set.name.text),
                "remove them, or write `use` in a route's `reply`",
            );
            if set.parameters.iter().any(|parameter| parameter.default.is_none()) {
                continue;
            }
            let user = format!("the rules `{}`", set.name.text);
            let mut here = Here { user: &user, chain: vec![index], via: None };
            let mut rules = Vec::new();
            let filled = self.fill(report, reply, &set.arguments(&[]));
            if let Some(filled) = filled
                && self.put_in(report, &mut here, set.name.span, Cow::Owned(filled), &mut rules)
            {
                read(report, rules);
            }
        }
    }

    /// Adds the rules of one reply. `false` when something is wrong with it.
    fn put_in<'r>(
        &self,
        report: &Report<'_>,
        here: &mut Here<'_>,
        place: Span,
        reply: Cow<'r, Node>,
        rules: &mut Vec<WrittenRule<'r>>,
    ) -> bool {
        let items: Vec<Cow<'r, Node>> = match reply {
            Cow::Borrowed(Node { kind: Kind::List(items), .. }) => items.iter().map(Cow::Borrowed).collect(),
            Cow::Owned(Node { kind: Kind::List(items), .. }) => items.into_iter().map(Cow::Owned).collect(),
            one => {
                let span = one.span;
                return self.put_one_in(
                    report,
                    here,
                    if here.chain.is_empty() { place } else { span },
                    one,
                    rules,
                );
            }
        };
        // Each is looked at, so that all problems are told in one run.
        items.into_iter().fold(true, |good, item| {
            let span = first_key(&item);
            self.put_one_in(report, here, span, item, rules) && good
        })
    }

    fn put_one_in<'r>(
        &self,
        report: &Report<'_>,
        here: &mut Here<'_>,
        span: Span,
        item: Cow<'r, Node>,
        rules: &mut Vec<WrittenRule<'r>>,
    ) -> bool {
        if item.get("use").is_some() {
            return self.put_use_in(report, here, &item, rules).is_some();
        }
        if let Some(name) = item.as_text()
            && self.sets.iter().any(|set| set.name.text == name)
        {
            report.error(
                item.span,
                format!("expected a rule, found the name `{name}`"),
                format!("write `{{ use: {name} }}`"),
            );
            return false;
        }
        rules.push(WrittenRule { node: item, span, via: here.via.clone() });
        true
    }

    fn put_use_in<'r>(
        &self,
        report: &Report<'_>,
        here: &mut Here<'_>,
        item: &Node,
        rules: &mut Vec<WrittenRule<'r>>,
    ) -> Option<()> {
        let section = Section::open(report, first_key(item), item, &USE);
        // A key beside it that means nothing is no reason not to look at the rest.
        let node = item.get("use")?;
        let name = super::section::text_of(report, node, "`use`")?;
        let given = section.as_ref().and_then(|section| {
            section.get("use");
            section.map("with")
        });
        let Some((index, set)) = self.sets.iter().enumerate().find(|(_, set)| set.name.text == name) else {
            let names = self.sets.iter().map(|set| set.name.text.as_str());
            report.error(
                node.span,
                format!("there are no rules `{name}`"),
                suggest::help(name, "there are", names),
            );
            return None;
        };
        set.used.set(true);
        if here.chain.contains(&index) {
            let names: Vec<_> = here
                .chain
                .iter()
                .chain([&index])
                .map(|index| format!("`{}`", self.sets[*index].name.text))
                .collect();
            let message = format!("the rules {} use themselves", names.join(" > "));
            report.error(node.span, message, "take one `use` of the circle out");
            return None;
        }
        if here.chain.len() == DEPTH_LIMIT {
            let message = format!("named rules use others more than {DEPTH_LIMIT} deep");
            report.error(node.span, message, "write the innermost rules where they are used");
            return None;
        }
        let arguments = set.given(report, node.span, given.unwrap_or_default());
        let reply = section.and(set.reply)?;
        let arguments = arguments?;
        let before = here.via.clone();
        here.via = Some(via(here, set, node.span));
        here.chain.push(index);
        let context = here.via.as_ref().map(|via| via.context.clone());
        let good = report.within(context, || {
            let filled = self.fill(report, reply, &arguments)?;
            let good = self.put_in(report, here, reply.span, Cow::Owned(filled), rules);
            good.then_some(())
        });
        here.chain.pop();
        here.via = before;
        good
    }

    /// A value with the parameters put in.
    fn fill(&self, report: &Report<'_>, node: &Node, arguments: &[(&str, &Node)]) -> Option<Node> {
        let kind = match &node.kind {
            Kind::Text(text) => {
                if let Some(argument) = whole(&text.text, arguments) {
                    let cost = Cost::of(argument);
                    self.spend(report, cost.nodes, cost.text_bytes, node.span)?;
                    return Some(argument.clone());
                }
                let filled = self.fill_text(report, node.span, &text.text, arguments)?;
                Kind::Text(Text { text: filled, style: text.style })
            }
            Kind::List(items) => Kind::List(
                items.iter().map(|item| self.fill(report, item, arguments)).collect::<Option<_>>()?,
            ),
            Kind::Map(entries) => Kind::Map(self.fill_map(report, entries, arguments)?),
            Kind::Nothing | Kind::Flag(_) | Kind::Number(_) => node.kind.clone(),
        };
        self.spend(report, 1, 0, node.span)?;
        Some(Node { span: node.span, kind, secret: node.secret })
    }

    fn fill_map(
        &self,
        report: &Report<'_>,
        entries: &[Entry],
        arguments: &[(&str, &Node)],
    ) -> Option<Vec<Entry>> {
        let mut filled: Vec<Entry> = Vec::with_capacity(entries.len());
        for Entry { key, value } in entries {
            let text = self.fill_text(report, key.span, &key.text, arguments)?;
            if text != key.text && filled.iter().any(|known| known.key.text == text) {
                report.error(
                    key.span,
                    format!("the key `{text}` is here twice"),
                    "give the parameter another value",
                );
                return None;
            }
            let value = self.fill(report, value, arguments)?;
            filled.push(Entry { key: Key { text, span: key.span }, value });
        }
        Some(filled)
    }

    fn fill_text(
        &self,
        report: &Report<'_>,
        span: Span,
        text: &str,
        arguments: &[(&str, &Node)],
    ) -> Option<String> {
        let (mut out, mut from) = (String::new(), 0);
        for found in MARK.captures_iter(text) {
            let Some((whole, name)) = found.get(0).zip(found.name("name")) else { continue };
            out.push_str(&text[from..whole.start()]);
            from = whole.end();
            if found.name("escape").is_some() {
                out.push_str(&whole.as_str()[1..]);
                continue;
            }
            let Some((_, argument)) = arguments.iter().find(|(known, _)| *known == name.as_str()) else {
                out.push_str(whole.as_str());
                continue;
            };
            let Some(scalar) = argument.scalar() else {
                let message = format!(
                    "the parameter `{}` stands within a text, and is {}",
                    name.as_str(),
                    argument.found()
                );
                let help =
                    "give a text or a number; a list or a map can only take the place of a whole value";
                report.error(argument.span, message, help);
                return None;
            };
            self.spend(report, 0, scalar.len(), span)?;
            out.push_str(&scalar);
        }
        self.spend(report, 0, text.len() - from, span)?;
        out.push_str(&text[from..]);
        Some(out)
    }

    /// Counts what is put in. `None` when it is too much, which is told once.
    fn spend(&self, report: &Report<'_>, nodes: usize, text_bytes: usize, span: Span) -> Option<()> {
        if self.budget.exceeded().is_some() {
            return None;
        }
        let told = self.budget.spend(nodes, text_bytes).map_err(|limit| {
            let message = format!("with its named rules put in, the configuration holds more than {limit}");
            report.error(span, message, "let named rules use fewer others");
        });
        told.ok()
    }
}

impl<'n> RuleSet<'n> {
    /// What each parameter stands for: what was given, or its default.
    fn arguments<'a>(&'a self, given: &'a [Entry]) -> Vec<(&'a str, &'a Node)> {
        let value_of = |parameter: &Parameter<'n>| -> Option<&'a Node> {
            let given = given.iter().find(|entry| entry.key.text == parameter.name);
            given.map(|entry| &entry.value).or(parameter.default)
        };
        self.parameters.iter().filter_map(|parameter| Some((parameter.name, value_of(parameter)?))).collect()
    }

    /// The same, once it is known that everything is there and nothing else.
    fn given<'a>(
        &'a self,
        report: &Report<'_>,
        place: Span,
        given: &'a [Entry],
    ) -> Option<Vec<(&'a str, &'a Node)>> {
        let before = report.errors();
        let names = || self.parameters.iter().map(|parameter| parameter.name);
        let name = &self.name.text;
        for entry in given.iter().filter(|entry| !names().any(|known| known == entry.key.text)) {
            let help = suggest::help(&entry.key.text, "its parameters", names());
            let message = format!("the rules `{name}` have no parameter `{}`", entry.key.text);
            report.error(entry.key.span, message, help.unwrap_or_else(|| "leave it out".to_owned()));
        }
        let arguments = self.arguments(given);
        for missing in names().filter(|name| !arguments.iter().any(|(known, _)| known == name)) {
            // A wrong name above is probably the one that is missing.
            if report.errors() == before {
                let message = format!("the rules `{name}` need the parameter `{missing}`");
                report.error(place, message, format!("write `with: {{ {missing}: … }}` beside it"));
            }
        }
        (report.errors() == before).then_some(arguments)
    }
}

fn via(here: &Here<'_>, set: &RuleSet<'_>, span: Span) -> Via {
    let name = &set.name.text;
    let names = here.via.as_ref().map_or_else(|| name.clone(), |via| format!("{} > {name}", via.names));
    match &here.via {
        Some(via) if !here.chain.is_empty() => Via { names, ..via.clone() },
        Some(_) | None => {
            let kind = if set.preset { "preset" } else { "rules" };
            let words = format!("in the {kind} `{name}`, used by {}", here.user);
            Via { names, span, context: Context { words, at: span } }
        }
    }
}

fn read_set<'n>(report: &Report<'_>, entry: &'n Entry, preset: bool) -> RuleSet<'n> {
    let mut set = RuleSet {
        name: &entry.key,
        preset,
        parameters: Vec::new(),
        reply: Some(&entry.value),
        used: Cell::default(),
    };
    let declared = entry.value.get("parameters").and_then(Node::as_map).unwrap_or_default();
    if RULE_SET.names().any(|name| entry.value.get(name).is_some()) {
        set.reply = None;
        if let Some(section) = Section::open(report, entry.key.span, &entry.value, &RULE_SET) {
            section.text("description");
            let before = report.errors();
            section.map("parameters");
            section.required("reply", "write `reply:` and the rules");
            set.parameters = parameters(report, declared);
            set.reply = entry.value.get("reply").filter(|_| report.errors() == before);
        }
    }
    let Some(reply) = set.reply else { return set };
    let mut found = Vec::new();
    marks(reply, &mut found);
    let names = || set.parameters.iter().map(|parameter| parameter.name);
    for (name, span) in found.iter().filter(|(name, _)| !names().any(|known| known == *name)) {
        let help = suggest::help(name, "its parameters", names()).unwrap_or_else(|| {
            format!("declare it under `parameters`, or write `$$({name})` for the characters themselves")
        });
        let place = language::words_in(report, *span, name);
        report.error(place, format!("the rules `{}` have no parameter `{name}`", entry.key.text), help);
    }
    for idle in declared.iter().filter(|parameter| !found.iter().any(|(name, _)| *name == parameter.key.text))
    {
        let message = format!("the parameter `{}` stands nowhere in the rules", idle.key.text);
        report.warning(idle.key.span, message, format!("write `$({})` where its value goes", idle.key.text));
    }
    set
}

fn parameters<'n>(report: &Report<'_>, entries: &'n [Entry]) -> Vec<Parameter<'n>> {
    for entry in entries.iter().filter(|entry| !NAME.is_match(&entry.key.text)) {
        let message = format!("`{}` is no name of a parameter", entry.key.text);
        report.error(entry.key.span, message, "write letters, digits and `_`, a letter first");
    }
    let default = |node: &'n Node| (!matches!(node.kind, Kind::Nothing)).then_some(node);
    entries.iter().map(|entry| Parameter { name: &entry.key.text, default: default(&entry.value) }).collect()
}

/// The parameters that the texts of a value name, and where.
fn marks<'n>(node: &'n Node, found: &mut Vec<(&'n str, Span)>) {
    let of_text = |text: &'n str, span: Span, found: &mut Vec<(&'n str, Span)>| {
        let named = MARK.captures_iter(text).filter(|mark| mark.name("escape").is_none());
        found.extend(named.filter_map(|mark: Captures<'n>| Some((mark.name("name")?.as_str(), span))));
    };
    match &node.kind {
        Kind::Text(text) => of_text(&text.text, node.span, found),
        Kind::List(items) => items.iter().for_each(|item| marks(item, found)),
        Kind::Map(entries) => {
            for Entry { key, value } in entries {
                of_text(&key.text, key.span, found);
                marks(value, found);
            }
        }
        Kind::Nothing | Kind::Flag(_) | Kind::Number(_) => {}
    }
}

/// The argument that a text is, when it is one parameter and nothing else.
fn whole<'a>(text: &str, arguments: &[(&str, &'a Node)]) -> Option<&'a Node> {
    let name = text.strip_prefix("$(")?.strip_suffix(')')?;
    arguments.iter().find(|(known, _)| *known == name).map(|(_, argument)| *argument)
}

/// Where the first key of a rule stands, which is where the rule begins for its reader.
pub(super) fn first_key(node: &Node) -> Span {
    node.as_map().and_then(|entries| entries.first()).map_or(node.span, |entry| entry.key.span)
}

/// A parameter in a text; one `$` more stands for the characters themselves.
static MARK: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?<escape>\$)?\$\((?<name>[A-Za-z_][A-Za-z0-9_]*)\)")
        .expect("the pattern is fixed and right")
});

static NAME: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^[A-Za-z_][A-Za-z0-9_]*$").expect("the pattern is fixed and right"));
