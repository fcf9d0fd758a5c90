//! What the parts of a request are filled in with.

use percent_encoding::utf8_percent_encode;
use serde_json::Value;

use super::{RequestError, http::ValueTemplate, tool::bytes_of};
use crate::{
    route::path::{ESCAPED, scalar},
    rule::{Stop, Template, TemplateBudget, TemplateError, template_names},
    tool::Arguments,
};

/// One request being filled in; what templates see is made when the first one asks. They have a budget together.
pub(super) struct Filling<'a> {
    pub(super) arguments: &'a Arguments,
    pub(super) stop: Option<&'a Stop>,
    budget: TemplateBudget,
    names: Option<minijinja::Value>,
}

impl<'a> Filling<'a> {
    pub(super) fn new(arguments: &'a Arguments, stop: Option<&'a Stop>) -> Self {
        Self { arguments, stop, budget: TemplateBudget::of_result().until(stop), names: None }
    }

    pub(super) fn render(&mut self, template: &Template) -> Result<String, RequestError> {
        let names = self.names.get_or_insert_with(|| {
            if let Some(stop) = self.stop {
                // Which copies them.
                let bytes: usize = self.arguments.as_map().values().map(bytes_of).sum();
                stop.allows(Stop::of_search(bytes));
            }
            template_names(self.arguments)
        });
        let rendered = template.render_within(names, &self.budget);
        rendered.map_err(|error| unfilled(template, self.arguments, &error))
    }

    /// `name=value&…`, encoded for a query or a form.
    pub(super) fn encoded(&mut self, parameters: &[(String, ValueTemplate)]) -> Result<String, RequestError> {
        let mut encoded = String::new();
        for (name, value) in parameters {
            for text in self.values(value)? {
                if !encoded.is_empty() {
                    encoded.push('&');
                }
                encoded.extend(utf8_percent_encode(name, ESCAPED));
                encoded.push('=');
                encoded.extend(utf8_percent_encode(&text, ESCAPED));
            }
        }
        Ok(encoded)
    }

    /// The texts of a value; none where it leaves its parameter or header out.
    pub(super) fn values(&mut self, value: &ValueTemplate) -> Result<Vec<String>, RequestError> {
        match value {
            ValueTemplate::Argument(name) => match self.arguments.get(name) {
                None | Some(Value::Null) => Ok(Vec::new()),
                Some(Value::Array(items)) => {
                    items.iter().map(|item| scalar(name, Some(item)).map_err(RequestError::from)).collect()
                }
                one => Ok(vec![scalar(name, one).map_err(RequestError::from)?]),
            },
            ValueTemplate::Text(template) => {
                let text = self.render(template)?;
                Ok(if text.is_empty() { Vec::new() } else { vec![text] })
            }
        }
    }
}

/// Why a template can't be filled in, for a model that sees the arguments and not the template.
fn unfilled(template: &Template, arguments: &Arguments, error: &TemplateError) -> RequestError {
    let names = template.paths().iter().filter_map(|path| path.strip_prefix("args.")?.split('.').next());
    let mut names: Vec<&str> = names.collect();
    names.dedup();
    let is_missing = |name: &&str| matches!(arguments.get(name), None | Some(Value::Null));
    let missing: Vec<&str> = names.iter().copied().filter(is_missing).collect();
    let listed = |names: &[&str]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let sentence = match (missing.as_slice(), names.as_slice()) {
        ([], []) => "the request can't be made of these arguments".to_owned(),
        ([], names) => {
            format!("the request can't be made of the arguments {}: check what they must be", listed(names))
        }
        ([name], _) => format!("the request can't be made without the argument `{name}`"),
        (missing, _) => format!("the request can't be made without the arguments {}", listed(missing)),
    };
    RequestError { sentence, detail: Some(error.to_string()) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_templates_of_a_request_take_no_more_steps_together_than_they_may() {
        let takes_more = |sources: &[&str]| {
            let arguments = json!({ "n": 700, "list": [1, 2], "text": "x".repeat(1000) });
            let arguments = Arguments::from(arguments.as_object().unwrap().clone());
            let stop = Stop::after(10_000);
            let mut filling = Filling::new(&arguments, Some(&stop));
            let filled: Vec<_> =
                sources.iter().map(|source| filling.render(&Template::compile(source).unwrap())).collect();
            assert_eq!(filled.iter().any(Result::is_err), stop.has_run_out());
            stop.has_run_out()
        };
        let counts = "{% for i in range(args.n) %}{{ i }}{% endfor %}";
        assert!(!takes_more(&["{{ args.text | upper }}", "{{ args.list | join(',') }}", counts]));
        assert!(takes_more(&[counts, counts, counts, counts, counts, counts]));
        assert!(takes_more(&["{% for i in range(args.n) %}{{ 'y' in args.text }}{% endfor %}"]));
        assert!(takes_more(&["{{ (args.text * args.n) | length }}"]));
        assert!(takes_more(&[
            "{% set text = args.text %}{% for i in range(args.n) %}{{ 'y' in text }}{% endfor %}"
        ]));
    }

    #[test]
    fn a_template_that_can_not_be_filled_in_is_not_quoted() {
        let error = |source: &str, arguments: Value| {
            let arguments = Arguments::from(arguments.as_object().unwrap().clone());
            Filling::new(&arguments, None).render(&Template::compile(source).unwrap()).unwrap_err()
        };
        let missing = error("tenant-7/{{ args.city }}/{{ args.day }}", json!({ "city": "Oslo" }));
        assert_eq!(missing.to_string(), "the request can't be made without the argument `day`");
        assert!(missing.detail().unwrap().contains("args.day"), "{missing:?}");
        let unfit = error("{{ args.days | round }}", json!({ "days": "many" }));
        assert_eq!(
            unfit.to_string(),
            "the request can't be made of the arguments `days`: check what they must be"
        );
    }
}
