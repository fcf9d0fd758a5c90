//! Requests to programs: converts the arguments of a call to the words (`argv`) of a command line.
//!
//! No shell is involved, so each word reaches the program unchanged. A client's argument could still look
//! like an option (argument injection, CWE-88). A word whose leading `-` comes from the client is therefore
//! rejected, unless `--` precedes it or the route allows a leading `-` for the argument.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::http::RequestBodyTemplate;
use super::{RequestError, RequestRenderer, items_of};
use crate::model::Arguments;
use crate::route::path::scalar;
use crate::translate::{Template, WorkBudget};

/// Template for the words of a command line and for standard input.
#[derive(Debug, Default)]
pub struct CommandTemplate {
    /// Words, in order.
    pub words: Vec<WordTemplate>,
    /// Names of arguments that may begin with `-`, so that clients can pass options.
    pub leading_dash_arguments: Vec<String>,
    /// Whether the words of the configured command contain `--`, so that no later word is an option.
    pub follows_end_of_options: bool,
    /// Standard input.
    pub stdin: Option<RequestBodyTemplate>,
}

/// Template of one word; an array argument results in several words.
#[derive(Debug)]
pub enum WordTemplate {
    /// Fixed word.
    Fixed(String),
    /// Argument with fixed text before and after it. An array results in one word per item. If the
    /// argument is missing, the word is omitted.
    Argument {
        /// Text before the argument.
        before: String,
        /// Name of the argument.
        name: String,
        /// Text after the argument.
        after: String,
    },
    /// Rendered template. If the result is empty, the word is omitted.
    Text {
        /// Template.
        template: Template,
        /// Arguments that the template uses without a fallback. If one is missing, the word is omitted.
        needs: Vec<String>,
    },
}

/// Request to a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandRequest {
    /// Words that follow the configured command.
    pub words: Vec<String>,
    /// Standard input; empty if there is none.
    pub stdin: Bytes,
}

impl CommandTemplate {
    /// Maximum number of words of one call.
    pub const WORD_COUNT_LIMIT: usize = 1024;
    /// Maximum length of a word, in bytes: the limit of Linux (`MAX_ARG_STRLEN`) without the NUL at the end.
    pub const WORD_LIMIT_BYTES: usize = (128 << 10) - 1;
    /// Maximum total length of the words of one call, in bytes.
    pub const COMMAND_LINE_LIMIT_BYTES: usize = 512 << 10;
    /// Maximum length of standard input, in bytes.
    pub const STDIN_LIMIT_BYTES: usize = 16 << 20;

    /// Builds the request of a call. `work_budget` limits the rendering.
    ///
    /// # Errors
    ///
    /// [`RequestError`] if the template cannot contain an argument, or if the request is too long.
    pub fn build(
        &self,
        arguments: &Arguments,
        work_budget: Option<&WorkBudget>,
    ) -> Result<CommandRequest, RequestError> {
        let mut renderer = RequestRenderer::new(arguments, work_budget);
        let mut words =
            CommandWords { list: Vec::new(), bytes: 0, follows_end_of_options: self.follows_end_of_options };
        for template in &self.words {
            self.push_word(template, &mut renderer, &mut words)?;
        }
        let stdin = match &self.stdin {
            None => Bytes::new(),
            Some(body) => body.build(&mut renderer)?.1,
        };
        if stdin.len() > Self::STDIN_LIMIT_BYTES {
            let limit = Self::STDIN_LIMIT_BYTES;
            return Err(too_long(&format!("the input of the program would be longer than {limit} bytes")));
        }
        Ok(CommandRequest { words: words.list, stdin })
    }

    fn push_word(
        &self,
        template: &WordTemplate,
        renderer: &mut RequestRenderer<'_>,
        words: &mut CommandWords,
    ) -> Result<(), RequestError> {
        match template {
            WordTemplate::Fixed(text) => {
                words.follows_end_of_options |= text == "--";
                words.push(text.clone())
            }
            WordTemplate::Argument { before, name, after } => {
                for item in items_of(renderer.arguments.get(name)) {
                    let text = scalar(name, Some(item)).map_err(RequestError::new)?;
                    let may_begin_with_dash =
                        words.follows_end_of_options || self.leading_dash_arguments.contains(name);
                    if before.is_empty() && text.starts_with('-') && !may_begin_with_dash {
                        return Err(RequestError::new(format!(
                            "argument `{name}` must not begin with `-`, because the program would parse it \
                             as an option"
                        )));
                    }
                    words.push(format!("{before}{text}{after}"))?;
                }
                Ok(())
            }
            WordTemplate::Text { template, needs } => {
                let is_missing = |name: &String| renderer.arguments.get(name).is_none_or(Value::is_null);
                if needs.iter().any(is_missing) {
                    return Ok(());
                }
                let text = renderer.render_for(template, "command line")?;
                if text.is_empty() {
                    return Ok(());
                }
                if text.starts_with('-')
                    && !words.follows_end_of_options
                    && !self.has_option_of_template(template, &text, renderer)?
                {
                    return Err(RequestError::new(
                        "no argument may begin with `-` here, because the program would parse it as an \
                         option",
                    ));
                }
                words.push(text)
            }
        }
    }

    /// Whether the leading option of a rendered text comes from the template and not from an argument.
    ///
    /// It does if the template begins with `-`. Otherwise, all of this must hold:
    ///
    /// - With every `-` of the arguments masked, the text still begins with `-`, and differs only in the
    ///   masks.
    /// - No empty argument has moved a `-` of the template to the front (`{{ args.a }}-{{ args.b }}`).
    /// - The option is in the template literally; or its beginning (the dashes and the next character) is,
    ///   directly before `{{`; or the beginning remains if all characters of the arguments are masked.
    fn has_option_of_template(
        &self,
        template: &Template,
        text: &str,
        renderer: &RequestRenderer<'_>,
    ) -> Result<bool, RequestError> {
        let source = template.source();
        if source.starts_with('-') {
            return Ok(true);
        }
        let render = |mask, fills_empty| {
            let masked = self.masked_arguments(renderer.arguments, mask, fills_empty);
            RequestRenderer::new(&masked, renderer.work_budget).render(template)
        };
        let with_dashes_masked = render(|c| c == '-', false)?;
        if !with_dashes_masked.starts_with('-') || with_dashes_masked.replace(MASK, "-") != text {
            return Ok(false);
        }
        // With a mask character in place of each empty string, a `-` that an empty string moved to the front
        // follows the mask character.
        let is_moved = render(|c| c == '-', true)
            .is_ok_and(|filled| filled.starts_with(MASK) && filled.trim_start_matches(MASK).starts_with('-'));
        if is_moved {
            return Ok(false);
        }
        let option = text.split('=').next().unwrap_or_default();
        let Some(beginning) = text.get(..text.find(|c| c != '-').map_or(text.len(), |index| index + 1))
        else {
            return Ok(false);
        };
        Ok(option.starts_with(beginning) && source.contains(option)
            || source.contains(&format!("{beginning}{{{{"))
            || render(|_| true, false).is_ok_and(|masked| masked.starts_with(beginning)))
    }

    /// Returns the arguments and input responses with the characters that `mask` selects masked, except
    /// arguments that may begin with `-`. With `fills_empty`, empty strings and lists are filled as well.
    fn masked_arguments(
        &self,
        arguments: &Arguments,
        mask: fn(char) -> bool,
        fills_empty: bool,
    ) -> Arguments {
        let mask_argument =
            |(name, value): (&String, &Value)| match self.leading_dash_arguments.contains(name) {
                true => (name.clone(), value.clone()),
                false => (name.clone(), masked_value(value, mask, fills_empty)),
            };
        let values: Map<String, Value> = arguments.values.iter().map(mask_argument).collect();
        let responses = arguments
            .input_responses
            .iter()
            .map(|(name, value)| (name.clone(), masked_value(value, mask, fills_empty)));
        Arguments { values, input_responses: responses.collect() }
    }
}

/// Character that masks characters of arguments: a private use character of Unicode, which does not occur in
/// practice.
const MASK: char = '\u{F8FE}';

fn masked_value(value: &Value, mask: fn(char) -> bool, fills_empty: bool) -> Value {
    match value {
        Value::String(text) if fills_empty && text.is_empty() => MASK.to_string().into(),
        Value::Array(items) if fills_empty && items.is_empty() => vec![MASK.to_string()].into(),
        Value::String(text) => Value::String(text.replace(mask, &MASK.to_string())),
        // The sign of a number can't be masked. The absolute value is rendered to a different text, which is
        // rejected.
        Value::Number(number) => {
            let text = number.to_string();
            let positive = text.strip_prefix('-').and_then(|text| serde_json::from_str(text).ok());
            positive.unwrap_or_else(|| value.clone())
        }
        Value::Array(items) => items.iter().map(|item| masked_value(item, mask, fills_empty)).collect(),
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| {
                (name.replace(mask, &MASK.to_string()), masked_value(value, mask, fills_empty))
            })
            .collect(),
        Value::Null | Value::Bool(_) => value.clone(),
    }
}

/// Words that have been rendered so far; checks the limits.
struct CommandWords {
    list: Vec<String>,
    bytes: usize,
    follows_end_of_options: bool,
}

impl CommandWords {
    fn push(&mut self, word: String) -> Result<(), RequestError> {
        if word.contains('\0') {
            return Err(RequestError::new(
                "an argument of the command can't contain the character NUL; change the tool argument that \
                 it contains",
            ));
        }
        self.bytes += word.len();
        let (subject, limit, unit) = if word.len() > CommandTemplate::WORD_LIMIT_BYTES {
            ("an argument of the command would be longer than", CommandTemplate::WORD_LIMIT_BYTES, "bytes")
        } else if self.bytes > CommandTemplate::COMMAND_LINE_LIMIT_BYTES {
            ("the command would have more than", CommandTemplate::COMMAND_LINE_LIMIT_BYTES, "bytes")
        } else if self.list.len() == CommandTemplate::WORD_COUNT_LIMIT {
            ("the command would have more than", CommandTemplate::WORD_COUNT_LIMIT, "arguments")
        } else {
            self.list.push(word);
            return Ok(());
        };
        Err(too_long(&format!("{subject} {limit} {unit}")))
    }
}

fn too_long(reason: &str) -> RequestError {
    RequestError::new(format!("the arguments are too long: {reason}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn argument(before: &str, name: &str, after: &str) -> WordTemplate {
        WordTemplate::Argument { before: before.into(), name: name.into(), after: after.into() }
    }

    fn text(template: &str, needs: &[&str]) -> WordTemplate {
        let needs = needs.iter().map(|name| (*name).to_owned()).collect();
        WordTemplate::Text { template: Template::compile(template).unwrap(), needs }
    }

    fn build(template: &CommandTemplate, arguments: Value) -> Result<Vec<String>, String> {
        let arguments = Arguments::from(arguments.as_object().unwrap().clone());
        template.build(&arguments, None).map(|request| request.words).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn check(words: Vec<WordTemplate>, arguments: Value, expected: Result<&[&str], &str>) {
        let template = CommandTemplate { words, ..CommandTemplate::default() };
        match (build(&template, arguments), expected) {
            (Ok(words), Ok(expected)) => assert_eq!(words, expected),
            (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
            (found, _) => panic!("found {found:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn each_word_is_one_word_whatever_is_in_it() {
        let words =
            || vec![WordTemplate::Fixed("-n".into()), argument("", "path", ""), argument("--of=", "n", "k")];
        check(
            words(),
            json!({"path": "a b; rm -rf $HOME `x` \"'*", "n": 3}),
            Ok(&["-n", "a b; rm -rf $HOME `x` \"'*", "--of=3k"]),
        );
        check(words(), json!({"n": null}), Ok(&["-n"]));
        check(words(), json!({"path": ["a", 1, ""]}), Ok(&["-n", "a", "1", ""]));
        check(words(), json!({"path": {"a": 1}}), Err("argument `path` must be a string"));
        check(words(), json!({"path": "a\0b"}), Err("NUL"));
    }

    #[test]
    fn an_empty_word_of_a_template_is_omitted() {
        let word = || {
            vec![text("--sort={{ args.sort }}", &["sort"]), text("{% if args.all %}--all{% endif %}", &[])]
        };
        check(word(), json!({"sort": "name", "all": true}), Ok(&["--sort=name", "--all"]));
        check(word(), json!({"all": false}), Ok(&[]));
    }

    #[test]
    fn values_that_look_like_options_are_rejected() {
        for value in [json!("-rf"), json!("--help"), json!("-"), json!(-5), json!(["a", "-x"])] {
            check(
                vec![argument("", "path", "")],
                json!({"path": value}),
                Err("`path` must not begin with `-`"),
            );
        }
        for value in [json!("-rf"), json!(-5)] {
            for template in [
                "{{ args.path }}!",
                "{{ args.path | string }}",
                "{% if args.path %}{{ args.path }}{% endif %}",
            ] {
                check(vec![text(template, &[])], json!({"path": value}), Err("may begin with `-`"));
            }
        }
        // Within a text, and chosen by a condition, too.
        check(vec![text("{{ args.path[2:] }}", &[])], json!({"path": "ab-x"}), Err("may begin with `-`"));
        check(vec![text("{{ args.path[-2:] }}", &[])], json!({"path": "ab-x"}), Err("may begin with `-`"));
        let chosen = "{% if '-' in args.path %}{{ args.path }}{% else %}-n{% endif %}";
        check(vec![text(chosen, &[])], json!({"path": "-evil"}), Err("may begin with `-`"));
        check(vec![text(chosen, &[])], json!({"path": "good"}), Ok(&["-n"]));
        // An empty or changed argument does not move a `-` of the template to the front.
        let date = || vec![text("{{ args.year }}-{{ args.month }}", &[])];
        check(date(), json!({"year": "", "month": "rf"}), Err("may begin with `-`"));
        check(date(), json!({"year": "2024", "month": "05"}), Ok(&["2024-05"]));
        check(date(), json!({"year": "", "month": "=rf"}), Err("may begin with `-`"));
        check(date(), json!({"year": "", "month": 5}), Err("may begin with `-`"));
        check(date(), json!({"year": "", "month": ""}), Err("may begin with `-`"));
        let minutes = "{% if args.unit == 'm' %}-m{{ args.n }}{% endif %}";
        check(vec![text(minutes, &[])], json!({"unit": "m", "n": "5"}), Ok(&["-m5"]));
        let depth = "{% if args.o.depth %}-d{{ args.o.depth }}{% endif %}";
        check(vec![text(depth, &[])], json!({"o": {"depth": "5"}}), Ok(&["-d5"]));
        let literal = vec![text("{{ args.a }}-e{{ args.b }}", &[])];
        check(literal, json!({"a": "", "b": "id"}), Err("may begin with `-`"));
        let joined = vec![text("{{ args.parts | join('-') }}", &[])];
        check(joined, json!({"parts": ["", "rf"]}), Err("may begin with `-`"));
        let replaced = vec![text("{{ args.x | replace('_', '-') }}", &[])];
        check(replaced, json!({"x": "_rf"}), Err("may begin with `-`"));
        let depth = vec![text("{% if args.depth %}-d{{ args.depth }}{% endif %}", &[])];
        check(depth, json!({"depth": "5"}), Ok(&["-d5"]));
        // Elsewhere than at the beginning it is ordinary text.
        check(vec![argument("--path=", "path", "")], json!({"path": "-rf"}), Ok(&["--path=-rf"]));
        check(vec![text("a{{ args.path }}", &[])], json!({"path": "-rf"}), Ok(&["a-rf"]));
        check(vec![text("-D{{ args.path }}", &[])], json!({"path": "-rf"}), Ok(&["-D-rf"]));
    }

    #[test]
    fn options_may_be_allowed_by_name_and_after_two_dashes() {
        let words = || vec![argument("", "path", ""), text("{{ args.path }}{{ args.more }}", &[])];
        let allowed = CommandTemplate {
            words: words(),
            leading_dash_arguments: vec!["path".into()],
            ..CommandTemplate::default()
        };
        assert_eq!(build(&allowed, json!({"path": "-v", "more": "-x"})).unwrap(), ["-v", "-v-x"]);
        build(&allowed, json!({"path": "", "more": "-x"})).unwrap_err();
        let after_end_of_options =
            CommandTemplate { words: words(), follows_end_of_options: true, ..CommandTemplate::default() };
        assert_eq!(build(&after_end_of_options, json!({"path": "-v", "more": ""})).unwrap(), ["-v", "-v"]);
        let mut with_dashes = vec![WordTemplate::Fixed("--".into())];
        with_dashes.extend(words());
        check(with_dashes, json!({"path": "-v", "more": ""}), Ok(&["--", "-v", "-v"]));
        // A `--` of a client does not count.
        check(words(), json!({"path": "--", "more": "-x"}), Err("must not begin with `-`"));
    }

    #[test]
    fn command_words_are_limited() {
        let list = |count: usize, bytes: usize| json!({"path": vec!["x".repeat(bytes); count]});
        check(vec![argument("", "path", "")], list(1025, 1), Err("more than 1024 arguments"));
        check(vec![argument("", "path", "")], list(1, 128 << 10), Err("longer than 131071 bytes"));
        check(vec![argument("", "path", "")], list(6, 100 << 10), Err("more than 524288 bytes"));
        let stdin = Some(RequestBodyTemplate::Text(Template::compile("{{ args.text }}").unwrap()));
        let template = CommandTemplate { stdin, ..CommandTemplate::default() };
        let arguments = |text: &str| Arguments::from(json!({"text": text}).as_object().unwrap().clone());
        assert_eq!(template.build(&arguments("a\0b"), None).unwrap().stdin, "a\0b");
    }
}
