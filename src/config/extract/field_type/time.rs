//! How a field's dates and times are written.

use super::values::items;
use crate::{
    config::{
        node::Node,
        report::Report,
        section::{self, Section},
    },
    translate::{TimeForm, TimeFormat},
};

pub(super) fn time(section: &Section<'_, '_>, wants_time: bool) -> Option<TimeForm> {
    let report = section.report;
    let written = section.get("format").map_or(&[][..], items);
    if let (Some(node), []) = (section.get("format"), written) {
        report.error(node.span, "`format` names no form", "write `format: \"%Y-%m-%d %H:%M:%S\"`");
        return None;
    }
    // A date among several forms is one because somebody wrote that it is.
    let needs_time = wants_time && written.len() < 2;
    let mut forms = Vec::new();
    for node in written {
        forms.push(time_format(report, node, needs_time)?);
    }
    let format = match forms.len() {
        0 => TimeFormat::Usual,
        1 => forms.remove(0),
        _ => TimeFormat::OneOf(forms),
    };
    let zone = match section.text_node("timezone") {
        None => None,
        Some((node, text)) => match text.parse() {
            Ok(zone) => Some(zone),
            Err(error) => {
                report.error(node.span, error, "write `Europe/Oslo`, `UTC` or `+01:00`");
                return None;
            }
        },
    };
    let forms = match &format {
        TimeFormat::OneOf(forms) => forms.as_slice(),
        one => std::slice::from_ref(one),
    };
    let mut without = written.iter().zip(forms).filter(|(_, form)| !form.may_have_an_offset());
    if let Some((node, text)) = without.next().and_then(|(node, _)| Some((node, node.as_text()?)))
        && wants_time
        && zone.is_none()
    {
        let message = format!("a `date-time` of the form `{text}` has no offset from UTC, and no `timezone`");
        let help =
            "write `timezone: Europe/Oslo`, where its clock stands, or `timezone: UTC`; or take `type: date`";
        report.error(node.span, message, help);
        return None;
    }
    Some(TimeForm { format, zone })
}

/// One form of a date or time.
fn time_format(report: &Report<'_>, node: &Node, wants_time: bool) -> Option<TimeFormat> {
    let text = section::text_of(report, node, "`format`")?;
    let error = match text {
        "iso" => return Some(TimeFormat::Usual),
        "unix" => return Some(TimeFormat::Unix),
        "unix-ms" => return Some(TimeFormat::UnixMillis),
        _ => match TimeFormat::directives(text, wants_time) {
            Ok(format) => return Some(format),
            Err(error) => error,
        },
    };
    let help = match text.contains("%Z") {
        true => {
            "names of zones such as `CET` are not unique: write its letters in place of `%Z`, `\"%H:%M CET\"`, and \
                 `timezone: Europe/Oslo` beside; `%z` is `+0100`, `%Q` is `Europe/Oslo`"
        }
        false => "write it as `strftime` has it, `%Y-%m-%d %H:%M:%S`, or `unix`",
    };
    report.error(node.span, format!("`format` can't be read by: {error}"), help);
    None
}
