//! `passthrough`: the upstream that requests outside all routes are proxied to unmodified.

use settings_derive::Section as DeriveSection;

use crate::{
    config::{
        clients,
        code::Code,
        lint,
        report::Report,
        request::find_upstream,
        source::SourceSpan,
        tree::{Entry, Node},
        upstreams::UpstreamFile,
    },
    policy::PassthroughSettings,
    route::{Scopes, UpstreamName},
    settings::section::{Cursor, ReadContext, Setting},
};

/// Section `passthrough`.
#[derive(DeriveSection)]
#[section(id = "passthrough", text = "upstream")]
pub(in crate::config) struct PassthroughSection {
    /// Upstream that requests outside all routes are proxied to.
    #[key(example = "upstream: NAME")]
    upstream: String,
    #[key(part)]
    settings: PassthroughSettings,
    /// Scopes that a client needs for passthrough; required if there are `clients`.
    scopes: Scopes,
}

/// Parses `passthrough`. Returns `None` after reporting the problems.
pub(super) fn read(
    context: ReadContext<'_>,
    entry: &Entry,
    names: &[(UpstreamName, SourceSpan)],
    upstreams: &[UpstreamFile],
    clients: &clients::Clients,
) -> Option<(UpstreamName, PassthroughSettings, Scopes)> {
    let (report, node) = (context.report, &entry.value);
    let value = Cursor::new(context, entry.key.span, node, "`passthrough`", PassthroughSection::KIND);
    let read = PassthroughSection::read(&value);
    lint::clients::check_passthrough_scopes(report, node, clients);
    let written = node.get("upstream").unwrap_or(node);
    let upstream = written.as_text().and_then(|name| http_upstream(report, names, upstreams, written, name));
    let PassthroughSection { settings, scopes, .. } = read.ok()?;
    let upstream = upstream?;
    lint::upstreams::warn_of_passthrough_limit(report, node, upstreams, &upstream, &settings);
    Some((upstream, settings, scopes))
}

/// Finds the HTTP upstream with that name.
fn http_upstream(
    report: &Report<'_>,
    names: &[(UpstreamName, SourceSpan)],
    upstreams: &[UpstreamFile],
    node: &Node,
    name: &str,
) -> Option<UpstreamName> {
    let found = find_upstream(report, names, node.span, name)?;
    let file = upstreams.iter().find(|file| *file.settings.name() == found);
    if file.is_some_and(|file| file.settings.http().is_none()) {
        let message = format!("`passthrough` requires an HTTP upstream, and `{name}` has no `url`");
        report.error(
            Code::WrongUpstreamKind.at_span(node.span),
            message,
            "name an upstream with `url`, or write routes for this one",
        );
        return None;
    }
    Some(found)
}
