//! Draft routes of the playground. They are parsed in the context of the active configuration, which the
//! [`Importer`] holds, but never activated.
//!
//! A draft uses no environment variables and reads no files. The only files that a route can refer to are
//! recorded responses of its tests, and the parser rejects them in a text that has no path.

use super::request::Upstreams;
use super::routes::{self, RouteContext, RouteSettings};
use super::secret_masking::{self, HIDDEN};
use super::{CompiledRoute, Importer, file, yaml};
use crate::route::UpstreamName;
use crate::settings::{
    Entry, Files, Kind, Node, Origin, Problem, Report, Section as _, Setting as _, SourceSpan, ValueKind,
};
use crate::translate::WorkBudget;

/// Name of a draft in problems, in place of a file name.
const NAME: &str = "draft";

/// Upstream of a draft without `request`; no request is sent to it.
const PLACEHOLDER_UPSTREAM: &str = "nobody";

/// Kinds of values of a draft: a route, or a map with the route's name as the only key.
const KIND: ValueKind = ValueKind::Either(&[RouteSettings::KIND, ValueKind::Map(&RouteSettings::KIND)]);

/// Draft route and its problems.
#[derive(Debug)]
pub struct Draft {
    /// The parsed route; `None` if there are errors.
    pub route: Option<CompiledRoute>,
    /// Errors and warnings.
    pub problems: Vec<Problem>,
}

impl Importer {
    /// Parses a draft; `text` is the value of the route `name` as in a file. If `request` is missing, a
    /// placeholder is used. Parsing stops once the `budget` is exhausted.
    pub fn draft(&self, name: &str, text: &str, budget: &WorkBudget) -> Draft {
        let mut files = (*self.files).clone();
        let index = files.add(NAME, text, Origin::File);
        let is_cancelled = || !budget.spend(1);
        let report = Report::new(&files).cancelled_by(&is_cancelled);
        let beginning = files.beginning(index);
        let has_content = text.lines().any(|line| !line.trim().is_empty() && !line.trim().starts_with('#'));
        let tree = match has_content {
            true => file::read_as(&report, index, KIND),
            // An empty draft uses the default rules.
            false => Some(Node::new(Kind::Map(Vec::new()), beginning)),
        };
        let route = tree.and_then(|tree| {
            let tree = without_name(name, tree);
            self.trees().with_route_context(|context| read(&report, context, name, beginning, tree))
        });
        let route = route.filter(|_| report.errors() == 0);
        Draft { route, problems: report.into_problems() }
    }

    /// Returns the source text of the route `name`, without `tests` and with secrets masked. The text is the
    /// lines of the file if they can be parsed on their own; otherwise the route is formatted as YAML.
    pub fn route_source(&self, name: &str) -> Option<String> {
        let trees = self.trees();
        let entries = trees.entry_of(name)?.value.as_map()?;
        let is_exported = |entry: &&Entry| entry.key.text != "tests";
        let exported: Vec<Entry> = entries.iter().filter(is_exported).cloned().collect();
        let exported = Node::new(Kind::Map(exported), trees.root.span);
        let masked = secret_masking::masked_json(&exported);
        let source = source_lines(&self.files, entries)
            .filter(|text| yaml::read(NAME, text).is_ok_and(|value| value == masked));
        source.or_else(|| {
            let line =
                |(name, value): (&String, _)| format!("{}:{}\n", yaml::text(name), yaml::block(value, 0));
            Some(masked.as_object()?.iter().map(line).collect())
        })
    }
}

/// Removes the route's name if the draft includes it.
fn without_name(name: &str, tree: Node) -> Node {
    match tree.as_map() {
        Some([only]) if only.key.text == name && RouteSettings::keys().get(name).is_none() => {
            only.value.clone()
        }
        _ => tree,
    }
}

fn read(
    report: &Report<'_>,
    context: &RouteContext<'_>,
    name: &str,
    span: SourceSpan,
    mut tree: Node,
) -> Option<CompiledRoute> {
    let mut names = context.upstreams.names.to_vec();
    // Only a draft without `request` gets the placeholder: with a second upstream, a request would have to
    // name its upstream.
    if tree.get("request").is_none() {
        names.extend(PLACEHOLDER_UPSTREAM.parse::<UpstreamName>().ok().map(|name| (name, span)));
    }
    if let Kind::Map(entries) = &mut tree.kind {
        let mut add = |name: &str, value: &str| {
            if !entries.iter().any(|entry| entry.key.text == name) {
                entries.push(Entry::new(name, Node::from_text(value, span), span));
            }
        };
        add("description", "A draft.");
        add("request", &format!("GET {PLACEHOLDER_UPSTREAM}/"));
    }
    let upstreams = Upstreams { names: &names, ..context.upstreams };
    let context = RouteContext { upstreams, ..*context };
    routes::read(report, &context, &Entry::new(name, tree, span))
}

/// Lines of a route's entries, without `tests` and without indentation. `None` if an entry is above the
/// previous one, as entries of an alias can be. If the lines also contain other text, the result is not the
/// YAML of the route.
fn source_lines(files: &Files, entries: &[Entry]) -> Option<String> {
    let column = files.line_and_column(entries.first()?.key.span).column;
    let mut out = String::new();
    for (index, entry) in entries.iter().enumerate().filter(|(_, entry)| entry.key.text != "tests") {
        let span = entry.key.span;
        let end = match entries.get(index + 1) {
            // The entry ends at the line of the next key, so comments above that key are included.
            Some(next) => files.line(next.key.span).start,
            None => {
                let start = entry.value.span.end.saturating_sub(1);
                files.line(SourceSpan { start, ..entry.value.span }).end
            }
        };
        let text = files.shown(span, files.line(span).start..end, HIDDEN)?;
        for line in text.lines() {
            out += &format!("{}\n", line.get(column - 1..).unwrap_or_default());
        }
    }
    Some(out)
}
