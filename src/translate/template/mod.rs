//! Jinja templates, compiled once. `bounds` has the limits of work and output, `syntax` finds the names in a
//! template and inserts counters of work, `values_and_markdown` converts from and to JSON.

mod bounds;
mod syntax;
mod values_and_markdown;

use std::{
    borrow::Cow,
    sync::{Arc, LazyLock, OnceLock},
};

pub(crate) use bounds::TemplateBudget;
use bounds::{FUEL, RenderContext, SHORT_FUEL, TEXT_LIMIT_BYTES, check_depth};
use minijinja::{Environment, Error, ErrorKind, State, UndefinedBehavior, Value, value::Kwargs};
pub(crate) use syntax::ITEM;
use syntax::{UsedNames, has_insertions, instrumented};
pub(crate) use values_and_markdown::from_json;
use values_and_markdown::{json_text, markdown_table, to_json, write_value};
pub use values_and_markdown::{message_variables, request_variables};

use super::WorkBudget;
use super::leak_filter::{ClientStrings, redact_error_text};
use super::read_error::ReadError;
use crate::model::{LimitedWriter, cut_characters};

/// Compiled Jinja template.
///
/// Each setting documents the variables of its templates. An undefined name is false in a condition, and an
/// error elsewhere. Plain text is not escaped; the context into which it is inserted escapes it.
#[derive(derive_more::Debug)]
#[debug("Template({source:?})")]
pub struct Template {
    source: String,
    context: OutputContext,
    /// Engine with the compiled template. Compiled on first use: it takes 12 KB, and most templates are
    /// rarely rendered.
    engine: OnceLock<Result<Box<Environment<'static>>, TemplateError>>,
    /// Names that the template uses.
    pub(crate) used: UsedNames,
}

/// Reason why a template does not compile or render.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TemplateError {
    /// The problem, in one sentence.
    pub message: String,
    /// The problem, without the values that the engine's error message may quote.
    plain: String,
    /// Line of the template, from 1.
    pub line: Option<usize>,
}

/// Output context of a template, which determines how values are escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputContext {
    /// Text: values are not escaped.
    Text,
    /// URL: each value is percent-encoded completely, so that it stays one component.
    Url,
    /// XML: each value is escaped, so that it can't become markup. Output that a filter has escaped or marked
    /// as safe is not escaped again.
    Xml,
}

const NAME: &str = "template";

/// Environment that all templates share. Its clones share filters and functions, which take more memory than
/// a template.
static COMMON: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_fuel(Some(SHORT_FUEL));
    // Errors then name the undefined variable. Without it, only debug builds do so.
    environment.set_debug(true);
    bounds::add_filters(&mut environment);
    syntax::add_counters(&mut environment);
    environment.add_filter("redact", |state: &State<'_, '_>, text: String| {
        let args = state.lookup("args").map_or(Ok(serde_json::Value::Null), |args| to_json(&args))?;
        Ok::<_, Error>(redact_error_text(&text, &ClientStrings::from_arguments(&args)))
    });
    environment.add_filter("tojson", json_text);
    environment.add_filter("markdown_table", |value: Value, options: Kwargs| {
        let columns: Option<Vec<String>> = options.get("columns")?;
        options.assert_all_used()?;
        markdown_table(&to_json(&value)?, columns)
    });
    environment
});

impl Template {
    /// Compiles a template.
    ///
    /// # Errors
    ///
    /// [`TemplateError`] on a syntax error, or an unknown filter or function.
    pub fn compile(source: &str) -> Result<Self, TemplateError> {
        Self::compile_for(OutputContext::Text, source)
    }

    /// Compiles a template for an output context.
    ///
    /// # Errors
    ///
    /// As [`compile`](Self::compile).
    pub fn compile_for(context: OutputContext, source: &str) -> Result<Self, TemplateError> {
        check_depth(source)?;
        // Instrumentation nests products deeper, so check now that the template will still compile.
        if source.contains('*') {
            engine_with(source, context)?;
        }
        let used = UsedNames::from_source(source).map_err(|error| TemplateError::new(&error))?;
        Ok(Self { source: source.to_owned(), context, engine: OnceLock::new(), used })
    }

    /// The template as configured.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Renders the template with these variables.
    ///
    /// # Errors
    ///
    /// [`TemplateError`] on an undefined name, a value of the wrong type, too much work, or an output that is
    /// too long.
    pub fn render(&self, variables: &Value) -> Result<String, TemplateError> {
        self.render_within(variables, &TemplateBudget::new(None))
    }

    /// Renders on a thread that also serves other calls, and does not repeat the rendering on another thread.
    /// The work counts against `stop`, which several templates may share.
    ///
    /// # Errors
    ///
    /// As [`Self::render`], with a lower limit of work.
    pub fn render_until(&self, variables: &Value, work_budget: &WorkBudget) -> Result<String, TemplateError> {
        let rendered = self.render_within(variables, &TemplateBudget::new(Some(work_budget)));
        if !work_budget.is_used_up() {
            return rendered;
        }
        Err(TemplateError::without_line(format!(
            "takes more than {SHORT_FUEL} steps, or reads too much, the limit where other calls share the \
             thread"
        )))
    }

    /// Renders one of several templates with a common budget. The last one may exceed it by the budget of a
    /// single template.
    ///
    /// # Errors
    ///
    /// As [`Self::render`], and if the budget is used up.
    pub(crate) fn render_within(
        &self,
        variables: &Value,
        budget: &TemplateBudget,
    ) -> Result<String, TemplateError> {
        budget.check()?;
        let compile = || engine_with(&self.source, self.context).map(Box::new);
        let mut engine = Cow::Borrowed(&**self.engine.get_or_init(compile).as_ref().map_err(Clone::clone)?);
        if !budget.has_short_limit() {
            // The copy of the environment shares the template and almost everything else.
            engine.to_mut().set_fuel(Some(FUEL));
        }
        let template = engine.get_template(NAME).expect("the template was added when it was compiled");
        let mut text = LimitedWriter::new(TEXT_LIMIT_BYTES);
        let context = Arc::new(RenderContext::new(variables, budget));
        let variables = Value::from_dyn_object(Arc::clone(&context));
        let rendered = template.render_captured_to(&variables, &mut text).map(|captured| {
            let (used_steps, _) = captured.state().fuel_levels().unwrap_or_default();
            budget.spend(used_steps);
        });
        if rendered.as_ref().is_err_and(|error| error.kind() == ErrorKind::OutOfFuel) {
            budget.spend(u64::MAX);
        }
        context.check()?;
        match rendered {
            Ok(()) => Ok(String::from_utf8(text.written).expect("templates write text")),
            Err(_) if text.is_over => {
                Err(TemplateError::without_line(format!("writes more than {TEXT_LIMIT_BYTES} bytes")))
            }
            Err(error) => Err(TemplateError::from_engine(&error, template.source())),
        }
    }

    /// Whether the template uses this variable.
    pub(super) fn uses(&self, name: &str) -> bool {
        self.used.names.iter().any(|used| used == name)
    }
}

/// Whether a name is a global of the engine, such as `range`.
pub(super) fn is_global(name: &str) -> bool {
    COMMON.globals().any(|(global, _)| global == name)
}

/// Creates an engine with the instrumented template, and with the work limit of threads that also serve other
/// calls.
fn engine_with(source: &str, context: OutputContext) -> Result<Environment<'static>, TemplateError> {
    let mut engine = COMMON.clone();
    engine.set_formatter(move |out, state, value| write_value(context, out, state, value));
    if context == OutputContext::Xml {
        // With this setting, the engine marks the output of a block or a filter as escaped.
        engine.set_auto_escape_callback(|_| minijinja::AutoEscape::Html);
    }
    let added = instrumented(source).and_then(|source| engine.add_template_owned(NAME, source));
    added.map(|()| engine).map_err(|error| TemplateError::new(&error))
}

impl TemplateError {
    pub(super) fn without_line(message: String) -> Self {
        Self { plain: message.clone(), message, line: None }
    }

    /// Converts the error to a sentence that names the part of a rule that failed.
    pub(super) fn in_part(&self, part: &str) -> ReadError {
        let line = self.line.map(|line| format!(", at line {line} of the template")).unwrap_or_default();
        ReadError::new(format!("{part}: {self}"), format!("{part}: {}{line}", self.plain))
    }

    fn new(error: &Error) -> Self {
        let message = Self::message(error);
        let plain = if Self::names_variable(error) { message.clone() } else { error.kind().to_string() };
        Self { message, plain, line: error.line() }
    }

    /// Error of a rendering, with the part of the template that failed. The part is omitted if the error
    /// names the undefined variable, or if the part contains inserted counters, because the author did not
    /// write them.
    fn from_engine(error: &Error, instrumented: &str) -> Self {
        let excerpt = error.range().and_then(|range| instrumented.get(range));
        let excerpt = excerpt.filter(|text| !text.is_empty() && !has_insertions(text));
        let excerpt = excerpt.filter(|_| !Self::names_variable(error));
        let excerpt = excerpt.map(|text| format!(" in `{text}`")).unwrap_or_default();
        let mut template_error = Self::new(error);
        template_error.message += &excerpt;
        template_error.plain += &cut_characters(&excerpt, 100);
        template_error
    }

    /// Whether the detail of an error is the name of the undefined variable: "`args.city` is undefined".
    fn names_variable(error: &Error) -> bool {
        error.kind() == ErrorKind::UndefinedError && error.detail().is_some()
    }

    fn message(error: &Error) -> String {
        match error.detail() {
            _ if error.kind() == ErrorKind::OutOfFuel => format!("takes more than {FUEL} steps"),
            Some(detail) if Self::names_variable(error) => detail.to_owned(),
            Some(detail) => format!("{}: {detail}", error.kind()),
            None => error.kind().to_string(),
        }
    }
}

#[cfg(test)]
mod tests;
