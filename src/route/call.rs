//! A call of a route that something else than a client makes: a prompt that shows its reply, a completion that asks
//! for values.

use serde_json::{Map, Value};

use super::{InputSchema, JsonTemplate, RequestError};
use crate::{
    rule::Stop,
    tool::{Arguments, ToolName},
};

/// Which route is called, and with what.
#[derive(Debug)]
pub struct RouteCall {
    /// The route.
    pub route: ToolName,
    /// Its arguments: what each is made of.
    pub arguments: Vec<(String, JsonTemplate)>,
}

impl RouteCall {
    /// The arguments for the route, made of the caller's. A text becomes what the route's schema asks for; one that
    /// is empty leaves the argument out. `stop` ends it early.
    ///
    /// # Errors
    ///
    /// [`RequestError`] when a template can't be filled in.
    pub fn fill(
        &self,
        arguments: &Arguments,
        input: &InputSchema,
        stop: Option<&Stop>,
    ) -> Result<Map<String, Value>, RequestError> {
        let mut filled = Map::new();
        for (name, template) in &self.arguments {
            match template.fill(arguments, stop)? {
                None => {}
                Some(Value::String(text)) if text.is_empty() => {}
                Some(Value::String(text)) => {
                    filled.insert(name.clone(), input.of_texts(name, vec![text]));
                }
                Some(value) => {
                    filled.insert(name.clone(), value);
                }
            }
        }
        Ok(filled)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rule::Template;

    #[test]
    fn texts_become_what_the_route_asks_for_and_empty_ones_are_left_out() {
        let schema = json!({ "type": "object", "properties": { "days": { "type": "integer" } } });
        let input = InputSchema::new(schema.as_object().unwrap()).unwrap();
        let text = |text: &str| JsonTemplate::Text(Template::compile(text).unwrap());
        let call = RouteCall {
            route: "forecast".parse().unwrap(),
            arguments: vec![
                ("days".into(), JsonTemplate::Argument("days".into())),
                ("city".into(), text("{{ args.city | lower }}")),
                ("units".into(), text("{{ args.units | default('') }}")),
                ("limit".into(), JsonTemplate::Fixed(json!(5))),
                ("none".into(), JsonTemplate::Argument("none".into())),
            ],
        };
        let given = json!({ "days": "3", "city": "Oslo" }).as_object().unwrap().clone();
        let filled = call.fill(&given.into(), &input, None).unwrap();
        assert_eq!(Value::Object(filled), json!({ "days": 3, "city": "oslo", "limit": 5 }));
        assert!(call.fill(&Arguments::default(), &input, None).is_err());
    }
}
