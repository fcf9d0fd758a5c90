//! One question: what kind it is of, and what it asks the arguments for.

use super::{
    NAMES,
    form::{fields, form_of},
    sample::sample,
    template,
};
use crate::{
    config::{
        code::Code,
        keys::QUESTION,
        language,
        node::{Entry, Node},
        report::Report,
        response::whole,
        schemas::UsedArguments,
        section::{self, Section},
        source::Span,
    },
    route::{InputForm, InputRequestKindTemplate, InputRequestTemplate},
    translate::{self, OutputContext, Template},
};

/// One question, and the arguments that it asks for.
pub(super) fn one(
    report: &Report<'_>,
    entry: &Entry,
    asked: &mut UsedArguments,
) -> Option<(InputRequestTemplate, Vec<(String, Span)>)> {
    let (name, place) = (entry.key.text.as_str(), entry.key.span);
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let begins_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !begins_well || !name.chars().all(good) || name.len() > 64 {
        let message = format!("`{name}` is not a name for an answer");
        report.error(
            Code::InvalidName.at(place),
            message,
            "write ASCII letters, digits and `_`: templates have it as `input_responses.NAME`",
        );
    }
    if name == translate::SAMPLE {
        let help = "choose another, such as `summary`";
        report.error(
            Code::ReservedName.at(place),
            "`sample` is the name of what a rule asks the client's model",
            help,
        );
    }
    let section = Section::open(report, place, &entry.value, &QUESTION)?;
    let when = section.get("when").map(|node| condition(report, node, asked));
    let message = section.get("message").map(|node| template(report, node, "`message`", asked));
    let fields = section.entry("fields").map(|entry| fields(report, entry));
    let schema = section.entry("schema").map(|entry| {
        let document = entry.value.as_map().map(Node::entries_to_json).unwrap_or_default();
        form_of(report, &entry.value, &document, false)
    });
    let arguments = section
        .texts("arguments")
        .map(|texts| texts.iter().map(|(node, text)| ((*text).to_owned(), node.span)).collect::<Vec<_>>());
    let url = section.get("url").map(|node| {
        let written = template(report, node, "`url`", asked)?;
        if !["https://", "http://"].iter().any(|scheme| written.source().starts_with(scheme)) {
            let help = "write `https://HOST/…`; only what comes after the host may be a template";
            report.error(Code::InvalidValue.at(node.span), "`url` is the address of a web page", help);
            return None;
        }
        Template::compile_for(OutputContext::Address, written.source()).ok()
    });
    let sample = section.entry("sample").map(|entry| sample(report, entry, &NAMES, asked));
    let (roots, optional) = (section.flag("roots"), section.flag("optional"));
    if roots == Some(false)
        && let Some(entry) = section.entry("roots")
    {
        report.error(
            Code::EmptyValue.at(entry.key.span),
            "`roots: false` asks nothing",
            "leave the question out",
        );
    }
    const KINDS: [&str; 6] = ["fields", "schema", "arguments", "url", "sample", "roots"];
    let kinds: Vec<_> = KINDS.into_iter().filter(|kind| section.get(kind).is_some()).collect();
    if let [first, second, ..] = kinds[..] {
        section.refuse_beside(&[second], first);
        return None;
    }
    if matches!(kinds[..], ["sample" | "roots"]) {
        section.refuse_beside(&["message"], kinds[0]);
    } else if section.get("message").is_none() {
        section.missing(
            format!("the question `{name}` has no `message`"),
            "write `message: \"…\"`: what the person reads",
        );
        return None;
    }
    let inquiry = match (whole(fields)?, whole(schema)?, &arguments, whole(url)?, whole(sample)?) {
        (Some(form), ..) | (_, Some(form), ..) => InputRequestKindTemplate::Form { message: message??, form },
        (_, _, Some(_), ..) => {
            InputRequestKindTemplate::Arguments { message: message??, form: InputForm::default() }
        }
        (_, _, _, Some(url), _) => InputRequestKindTemplate::Link { message: message??, url },
        (.., Some(sample)) => InputRequestKindTemplate::Sample(sample),
        _ if roots.is_some() => InputRequestKindTemplate::Roots,
        _ => InputRequestKindTemplate::Form { message: message??, form: InputForm::default() },
    };
    let of_sample = matches!(&inquiry, InputRequestKindTemplate::Sample(sample) if sample.optional);
    let optional = optional.unwrap_or(false) || of_sample;
    let question = InputRequestTemplate { name: name.to_owned(), when: whole(when)?, optional, inquiry };
    Some((question, arguments.unwrap_or_default()))
}

fn condition(report: &Report<'_>, node: &Node, asked: &mut UsedArguments) -> Option<translate::Jq> {
    let text = section::text_of(report, node, "`when`")?;
    if let Some(name) = ["$status", "$headers"].into_iter().find(|name| text.contains(name)) {
        let message = format!("`{name}` is not known yet: nothing has been sent");
        report.error(Code::UnknownName.at(node.span), message, "`$args` and `$input_responses` are");
        return None;
    }
    // It is about the arguments, whose value it also is.
    asked.all = true;
    asked.add_input_responses_of_jq(report, node.span, text);
    language::jq(report, node, "`when`", &[])
}
