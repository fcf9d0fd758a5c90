//! Checks of the templates of prompts against the arguments of the prompt.

use serde_json::Map;

use crate::{
    config::{code::Code, report::Report, source::SourceSpan},
    model::Arguments,
    prompt::{PartContent, PartTemplate, PromptArgument},
    translate::{expressions, request_variables},
};

/// Reports templates with undefined names, which would fail at each request.
pub(in crate::config) fn check_templates(
    report: &Report<'_>,
    part: &PartTemplate,
    span: SourceSpan,
    arguments: &[PromptArgument],
) {
    // Other failures depend on the value, and are not mistakes of the template.
    const UNDEFINED: &str = "undefined value";
    let given = |only_required: bool| -> Arguments {
        let given = arguments.iter().filter(|argument| argument.required || !only_required);
        let given = given.map(|argument| (argument.name.clone(), "1".into()));
        given.collect::<Map<_, _>>().into()
    };
    for (only_required, when) in [(false, ""), (true, " without the optional arguments")] {
        let given = given(only_required);
        let names = request_variables(&given);
        let of_templates = part.templates().into_iter();
        let of_templates =
            of_templates.filter_map(|template| Some(template.render(&names).err()?.to_string()));
        let of_call = match &part.part {
            PartContent::Route(call) => call.arguments.as_slice(),
            _ => &[],
        };
        let of_call =
            of_call.iter().filter_map(|(_, template)| Some(template.fill(&given, None).err()?.to_string()));
        let failed = of_templates.chain(of_call).find_map(|error| {
            let (_, what) = error.split_once(UNDEFINED)?;
            let what = what.trim_start_matches(": ");
            Some(what.split(" in `").next().unwrap_or(what).to_owned())
        });
        if let Some(what) = failed {
            let name =
                what.split("args.").nth(1).and_then(|rest| rest.split(['`', '.']).next()).unwrap_or_default();
            let message = format!("the template fails{when}: {what}");
            let help = match only_required {
                true => format!(
                    "write `{{{{ args.{name} | default('…') }}}}` or `{{% if args.{name} %}}`, or make it `required`"
                ),
                false => "an argument is a string and has no members".to_owned(),
            };
            return report.error(
                Code::FailingTemplate.at_span(expressions::span_of_name(report, span, name)),
                message,
                help,
            );
        }
    }
}
