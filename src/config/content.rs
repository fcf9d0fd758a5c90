//! `content`: what people and models see of a reply.

use super::{
    extract::media_type,
    keys::{BLOCK, BLOCK_ANNOTATIONS, RESOURCE, RESOURCE_LINK},
    language,
    node::{Kind, Node},
    renamed::report_word,
    reply::{self, whole},
    report::Report,
    schemas::Asked,
    section::{self, Section},
    source::Span,
};
use crate::{
    model::Annotations,
    translate::{
        BlockTemplate, BodyTemplate, ContentTemplate, Payload, Template,
        extract::{Binary, BinaryKind},
        is_moment,
    },
};

/// What the templates and filters of a rule's content may use.
pub(super) struct Scope<'a> {
    pub(super) names: &'a [&'a str],
    pub(super) captures: &'a [String],
    pub(super) used: &'a mut Asked,
}

/// Reads `content`. `None` when something is wrong with it; that has been reported then.
pub(super) fn read(
    report: &Report<'_>,
    node: &Node,
    place: Span,
    scope: &mut Scope<'_>,
) -> Option<ContentTemplate> {
    let blocks = match &node.kind {
        Kind::List(items) if items.is_empty() => {
            report.error(
                node.span,
                "`content` has no block",
                "a result has at least one; leave `content` out for the default",
            );
            return None;
        }
        Kind::List(items) => {
            let blocks: Vec<_> = items.iter().map(|item| block(report, item, item.span, scope)).collect();
            blocks.into_iter().collect::<Option<Vec<_>>>()?
        }
        Kind::Map(_) => vec![block(report, node, place, scope)?],
        Kind::Nothing | Kind::Flag(_) | Kind::Number(_) | Kind::Text(_) => {
            let template = language::template(report, node, "`content`", scope.names)?;
            vec![BlockTemplate::new(Payload::Text(template))]
        }
    };
    Some(ContentTemplate::Blocks(blocks))
}

fn block(report: &Report<'_>, node: &Node, place: Span, scope: &mut Scope<'_>) -> Option<BlockTemplate> {
    let section = Section::open(report, place, node, &BLOCK)?;
    let mut filter = |name: &'static str, what: &str| {
        section.get(name).map(|node| reply::jq(report, node, what, scope.captures, scope.used))
    };
    let (when, each) = (filter("when", "`when`"), filter("for_each", "`for_each`"));
    // Only a block for each row has a row.
    let item = each.is_some().then_some("item");
    let names: Vec<&str> = scope.names.iter().copied().chain(item).collect();
    let names = names.as_slice();
    let (annotations, last_modified) = match section.section("annotations", &BLOCK_ANNOTATIONS) {
        Some(section) => annotations(&section, names)?,
        None => (None, None),
    };
    const KINDS: [&str; 6] = ["text", "as", "image", "audio", "resource", "resource_link"];
    let kinds: Vec<_> = KINDS.into_iter().filter_map(|name| section.entry(name)).collect();
    let [one] = kinds[..] else {
        let help = "write `- text: …`, and another `-` for the next block";
        match kinds.get(1) {
            None => section.missing("a block of content shows nothing".to_owned(), help),
            Some(second) => {
                report.error(second.key.span, "a block of content shows one thing, found several", help);
            }
        }
        return None;
    };
    if !matches!(one.key.text.as_str(), "image" | "audio" | "resource") {
        section.refuse_beside(&["media_type"], &one.key.text);
    }
    let media = media_type(&section);
    let payload = match one.key.text.as_str() {
        "text" => Payload::Text(language::template(report, &one.value, "`text`", names)?),
        "as" => match section.word("as")? {
            "json" => Payload::Json,
            "json-pretty" => Payload::JsonPretty,
            _ => Payload::Verbatim,
        },
        "image" => data(&section, &one.value, BinaryKind::Image, media, names)?,
        "audio" => data(&section, &one.value, BinaryKind::Audio, media, names)?,
        "resource" if one.value.as_text() == Some("response") => {
            Payload::Bytes(Binary { kind: Some(BinaryKind::Resource), media_type: media })
        }
        "resource" if report_word(report, &one.value, BLOCK.id, "resource") => return None,
        "resource" => {
            section.refuse_beside(&["media_type"], "resource: {…}");
            let inner = Section::open(report, one.key.span, &one.value, &RESOURCE)?;
            let uri = template(&inner, "uri", names);
            let (media_type, text) = (media_type(&inner), optional(&inner, "text", names));
            let blob = optional(&inner, "blob", names);
            inner.required("uri", "write `uri: report://today`");
            let body = match (text?, blob?) {
                (Some(_), Some(_)) => {
                    inner.refuse_beside(&["text"], "blob");
                    return None;
                }
                (Some(text), None) => BodyTemplate::Text(text),
                (None, Some(blob)) => BodyTemplate::Blob(blob),
                (None, None) => BodyTemplate::UpstreamResponse,
            };
            Payload::Resource { uri: uri?, media_type, body }
        }
        _ => {
            let inner = Section::open(report, one.key.span, &one.value, &RESOURCE_LINK)?;
            let (uri, name) = (template(&inner, "uri", names), template(&inner, "name", names));
            let (description, media_type) = (optional(&inner, "description", names), media_type(&inner));
            inner.required("uri", "write `uri: https://example.com/report`");
            inner.required("name", "write `name: report`");
            Payload::ResourceLink { uri: uri?, name: name?, description: description?, media_type }
        }
    };
    Some(BlockTemplate { payload, annotations, last_modified, when: whole(when)?, each: whole(each)? })
}

fn data(
    section: &Section<'_, '_>,
    node: &Node,
    kind: BinaryKind,
    media: Option<String>,
    names: &[&str],
) -> Option<Payload> {
    if node.as_text() == Some("response") {
        return Some(Payload::Bytes(Binary { kind: Some(kind), media_type: media }));
    }
    let name = if kind == BinaryKind::Audio { "audio" } else { "image" };
    if report_word(section.report, node, BLOCK.id, name) {
        return None;
    }
    let data = language::template(section.report, node, "the data of a block", names)?;
    let Some(media_type) = media else {
        if section.get("media_type").is_none() {
            let help = "write `media_type: image/png` beside it, or `response` for the response's own bytes and type";
            section.report.error(node.span, "data from a template has no media type", help);
        }
        return None;
    };
    Some(match kind {
        BinaryKind::Audio => Payload::Audio { data, media_type },
        BinaryKind::Image | BinaryKind::Resource => Payload::Image { data, media_type },
    })
}

fn template(section: &Section<'_, '_>, name: &'static str, names: &[&str]) -> Option<Template> {
    language::template(section.report, section.get(name)?, &format!("`{name}`"), names)
}

/// A template that may be left out; the outer `None` is for one that is wrong.
fn optional(section: &Section<'_, '_>, name: &'static str, names: &[&str]) -> Option<Option<Template>> {
    match section.get(name) {
        None => Some(None),
        Some(_) => template(section, name, names).map(Some),
    }
}

/// Hints that are written, and the template of the moment when the reply says it.
pub(super) fn annotations(
    section: &Section<'_, '_>,
    names: &[&str],
) -> Option<(Option<Annotations>, Option<Template>)> {
    let report = section.report;
    let mut good = true;
    let mut audience = Vec::new();
    for (node, _) in section.texts("audience").unwrap_or_default() {
        match section::word_of(report, node, "an item of `audience`", &["user", "assistant"]) {
            Some(word) => audience.push(word.to_owned()),
            None => good = false,
        }
    }
    let priority = section.get("priority").map(|node| {
        let number = match &node.kind {
            Kind::Number(text) => text.parse::<f64>().ok().filter(|number| (0.0..=1.0).contains(number)),
            Kind::Nothing | Kind::Flag(_) | Kind::Text(_) | Kind::List(_) | Kind::Map(_) => None,
        };
        if number.is_none() {
            report.error(
                node.span,
                format!("`priority` is a number from 0 to 1, found {}", node.found()),
                "write `0.5`",
            );
        }
        number
    });
    let mut template = None;
    let last_modified = section.text_node("lastModified").map(|(node, text)| {
        if text.contains("{{") {
            template = language::template(report, node, "`lastModified`", names);
            return template.as_ref().map(|_| None);
        }
        let good = is_moment(text);
        if !good {
            let message = format!("`lastModified` is a moment as RFC 3339 writes it, found {}", node.found());
            report.error(node.span, message, "write `\"2026-11-21T09:30:00Z\"`, or a template");
        }
        good.then(|| Some(text.to_owned()))
    });
    let missing = matches!(priority, Some(None)) || matches!(last_modified, Some(None));
    let annotations = Annotations {
        audience,
        priority: priority.flatten(),
        last_modified: last_modified.flatten().flatten(),
    };
    let annotations = (annotations != Annotations::default()).then_some(annotations);
    (good && !missing).then_some((annotations, template))
}
