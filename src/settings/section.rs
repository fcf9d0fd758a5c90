//! Parsing of declared settings: [`Setting`] for one value, [`Section`] for a struct whose fields are keys.
//!
//! A parser reports every problem and continues. It returns [`Checked`]: the value, or [`Reported`] as proof
//! that a problem has been reported. A struct is created only if all of its fields are valid.

use std::{any::Any, cell::RefCell};

use super::{
    expansion::{self, Environment, Expanded},
    keys::{KeySpec, KeyTable, Row, ShortForm, ValueKind},
    layers,
    problem_code::{Code, CodedSpan},
    problem_collector::{Help, Report},
    secret,
    source_text::{Origin, SourceSpan},
    suggest,
    tree::{Entry, Key, Kind, Node, resolve_plain},
};

/// Proof that a problem has been reported. Only this module creates it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reported(());

/// A value, or the proof that a problem with it has been reported.
pub(crate) type Checked<T> = Result<T, Reported>;

/// Data that all parsers of one run share.
#[derive(Clone, Copy)]
pub(crate) struct ReadContext<'a> {
    pub(crate) report: &'a Report<'a>,
    pub(crate) environment: &'a Environment,
    /// Reports an unknown key of a section. The help may name another section that has this key.
    pub(crate) report_unknown_key: fn(&Report<'_>, &Key, &KeyTable),
    /// Reports an enumerated value that has been renamed; the strings are the id of the section and the name
    /// of the key. Returns `false` if the value is not an old name.
    pub(crate) report_renamed_value: fn(&Report<'_>, &Node, &str, &str) -> bool,
    /// Renamed variables of expressions, as pairs of old and new name.
    pub(crate) renamed_variables: &'static [(&'static str, &'static str)],
    /// Names that expressions may use; only the module that compiles expressions knows the type.
    pub(crate) scope: Option<&'a dyn Any>,
}

impl ReadContext<'_> {
    /// Reports an error, and returns the proof of it.
    pub(crate) fn reject_at(
        &self,
        at: CodedSpan,
        message: impl Into<String>,
        help: impl Into<Help>,
    ) -> Reported {
        self.report.error(at, message, help);
        Reported(())
    }
}

/// Error of a value: code, message and suggested fix.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Invalid {
    pub(crate) code: Code,
    pub(crate) message: String,
    pub(crate) help: Option<String>,
    /// Whether the message contains the value. Values of environment variables must not be shown.
    pub(crate) shows_value: bool,
}

impl Invalid {
    pub(crate) fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { code: Code::InvalidValue, message: message.into(), help: Some(help.into()), shows_value: true }
    }

    /// Creates an error whose message does not contain the value.
    pub(crate) fn without_value(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { shows_value: false, ..Self::new(message, help) }
    }

    /// Replaces the code.
    pub(crate) fn with_code(self, code: Code) -> Self {
        Self { code, ..self }
    }
}

/// Type of a value that a key accepts.
pub(crate) trait Setting: Sized {
    /// Kind of the accepted values; the default is a string.
    const KIND: ValueKind = ValueKind::Text;
    /// Returns the value for an absent key; `None` if the key is required.
    const ABSENT: Option<fn() -> Self> = None;

    /// Parses the value. A type implements either this function or, if it can inherit from a base,
    /// [`Self::read_over`].
    ///
    /// # Errors
    ///
    /// If the value is invalid; the problem has been reported.
    fn read(value: &Cursor<'_>) -> Checked<Self> {
        Self::read_over(value, None)
    }

    /// Parses the value; absent keys keep their values from `base`.
    fn read_over(value: &Cursor<'_>, _base: Option<Self>) -> Checked<Self> {
        Self::read(value)
    }

    /// Formats the value as a default in the reference documentation; `None` to show no default.
    fn shown(&self, _kind: ValueKind) -> Option<String> {
        None
    }
}

/// A struct whose fields are keys. `#[derive(Section)]` implements it.
pub(crate) trait Section: Sized {
    fn keys() -> &'static KeyTable;

    /// Parses every field. An absent field gets its value from `base`, or else its default.
    ///
    /// An invalid field gets its default, so that checks of the whole section find problems of other fields
    /// in the same run. [`OpenSection::check_valid`] returns an error if a field is invalid.
    fn read_fields(section: &OpenSection<'_>, base: Option<Self>) -> Checked<Self>;

    /// Appends the names of keys whose values differ and whose changes take effect only after a restart.
    fn restart_differences(&self, other: &Self, found: &mut Vec<&'static str>);

    /// Checks the combination of keys, regardless of their values.
    fn check_keys(_section: &OpenSection<'_>) -> Checked<()> {
        Ok(())
    }
}

/// Cursor at a value: the node, its name in messages, and the expected kind.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    pub(crate) context: ReadContext<'a>,
    pub(crate) node: &'a Node,
    /// Span of the key of the value.
    pub(crate) key_span: SourceSpan,
    /// Name of the value in messages: "`name`", "an item of `names`".
    pub(crate) name: &'a str,
    pub(crate) kind: ValueKind,
    pub(crate) key: Option<&'static KeySpec>,
    /// Section that contains the key of the value.
    section: Option<&'a OpenSection<'a>>,
    /// Whether part of the value comes from `${VARIABLE}` or a file, so that messages must not contain the
    /// value.
    is_expanded: bool,
}

impl<'a> Cursor<'a> {
    /// Creates a cursor at the value of an entry.
    pub(crate) fn new(
        context: ReadContext<'a>,
        key_span: SourceSpan,
        node: &'a Node,
        name: &'a str,
        kind: ValueKind,
    ) -> Self {
        Self { context, node, key_span, name, kind, key: None, section: None, is_expanded: false }
    }

    /// Returns a cursor at a part of the value, with another name and kind.
    pub(crate) fn part(&self, node: &'a Node, name: &'a str, kind: ValueKind) -> Self {
        Self { node, name, kind, ..*self }
    }

    /// Returns the cursor with a scope for expressions.
    pub(crate) fn in_scope(self, scope: &'a dyn Any) -> Self {
        Self { context: ReadContext { scope: Some(scope), ..self.context }, ..self }
    }

    /// Returns the cursor with another span of the key.
    pub(crate) fn with_key_span(self, key_span: SourceSpan) -> Self {
        Self { key_span, ..self }
    }

    /// Returns a cursor at the value of an entry of this map, with another name and kind.
    pub(crate) fn member(&self, entry: &'a Entry, name: &'a str, kind: ValueKind) -> Self {
        Self { key_span: entry.key.span, ..self.part(&entry.value, name, kind) }
    }

    /// Returns a string, number or boolean as a string. A number without quotes keeps its spelling in the
    /// file, because it may be a password or an identifier, such as `007`.
    pub(crate) fn scalar(&self) -> Option<String> {
        let Kind::Number(number) = &self.node.kind else { return self.node.scalar() };
        let span = self.node.span;
        let spelling = self.context.report.files().text(span).get(span.start..span.end);
        let is_same =
            |spelling: &&str| matches!(resolve_plain(spelling), Kind::Number(parsed) if parsed == *number);
        Some(spelling.filter(is_same).unwrap_or(number).to_owned())
    }

    /// Value of another key in the same section, for a key whose meaning depends on it.
    pub(crate) fn sibling(&self, name: &str) -> Option<&'a Node> {
        self.sibling_entry(name).map(|entry| &entry.value)
    }

    /// Entry of another key in the same section.
    pub(crate) fn sibling_entry(&self, name: &str) -> Option<&'a Entry> {
        self.section?.entries.iter().find(|entry| entry.key.text == name)
    }

    /// The string, if it contains references to variables or a file that have to be expanded.
    fn reference(&self) -> Option<&'a str> {
        let is_file = self.context.report.files().origin(self.node.span) == Origin::File;
        let expands_variables = self.section.is_some_and(|section| section.table.expands_variables);
        let has_variable = |text: &str| expands_variables && is_file && text.contains("${");
        self.node.as_text().filter(|text| has_variable(text) || self.is_file_reference(text))
    }

    fn is_file_reference(&self, text: &str) -> bool {
        self.key.is_some_and(|key| key.file) && text.starts_with("file:")
    }

    /// Parses the value after expanding the references in it.
    pub(super) fn read_expanded<T>(&self, read: impl FnOnce(&Cursor<'_>) -> Checked<T>) -> Checked<T> {
        let Some(text) = self.reference() else { return read(self) };
        let expand = if self.is_file_reference(text) { expansion::expand_secret } else { expansion::expand };
        let Expanded { text, external } = expand(self.context, self.node.span, text)?;
        let node = layers::node_of(&text, self.kind, self.node.span);
        read(&Cursor { node: &node, is_expanded: external, ..*self })
    }

    /// Reports an error of the value. The message omits a value from a variable or a referenced file.
    pub(crate) fn reject<T>(&self, invalid: Invalid) -> Checked<T> {
        self.reject_at(self.node.span, invalid)
    }

    /// Like [`Self::reject`], but at another span.
    pub(crate) fn reject_at<T>(&self, span: SourceSpan, invalid: Invalid) -> Checked<T> {
        let Invalid { code, message, help, shows_value } = invalid;
        let is_variable = self.context.report.files().origin(span) == Origin::Variable;
        let masked_key = self.key.filter(|_| shows_value && (is_variable || self.is_expanded));
        let (message, help) = masked_key.map_or((message, help), |key| {
            let section = self.section.map_or("", |section| section.table.id);
            let subject = match is_variable {
                true => format!("the value of `{section}.{}`", key.name),
                false => format!("after variable expansion, `{}`", key.name),
            };
            let expected = match key.kind {
                ValueKind::Text => String::new(),
                kind => format!("; expected {kind}"),
            };
            (format!("{subject} is invalid{expected}"), Some(key.help()))
        });
        Err(self.context.reject_at(code.at_span(span), message, help))
    }

    /// Like [`Self::reject_at`], but takes the code with the span.
    pub(crate) fn reject_coded<T>(
        &self,
        at: CodedSpan,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Checked<T> {
        self.reject_at(at.span, Invalid::new(message, help).with_code(at.code))
    }

    /// Reports the value if it is an enumerated value that has been renamed.
    pub(crate) fn reject_renamed_value(&self) -> Checked<()> {
        let ReadContext { report, report_renamed_value, .. } = self.context;
        let (Some(section), Some(key)) = (self.section, self.key) else { return Ok(()) };
        let is_renamed = report_renamed_value(report, self.node, section.table.id, key.name);
        if is_renamed { Err(Reported(())) } else { Ok(()) }
    }

    /// Reports an empty value.
    pub(crate) fn reject_empty<T>(&self, help: &str) -> Checked<T> {
        self.reject(Invalid::new(format!("{} is empty", self.name), help).with_code(Code::EmptyValue))
    }

    /// Reports a value of the wrong kind.
    pub(crate) fn reject_kind<T>(&self, expected: &str, help: Option<String>) -> Checked<T> {
        let message = format!("{} must be {expected}, found {}", self.name, self.node.describe());
        let help = help.or_else(|| self.key.map(KeySpec::help));
        self.reject(Invalid { code: Code::WrongType, message, help, shows_value: true })
    }

    /// Converts the result of a parser that reports its problems and then returns `None`.
    pub(crate) fn checked<T>(&self, result: Option<T>) -> Checked<T> {
        debug_assert!(result.is_some() || self.context.report.errors() > 0, "nothing has been reported");
        result.ok_or(Reported(()))
    }

    /// Returns an error if the run was cancelled. Called before slow operations.
    pub(crate) fn check_cancelled(&self) -> Checked<()> {
        if self.context.report.is_cancelled() { Err(Reported(())) } else { Ok(()) }
    }

    /// Reports a warning about the value.
    pub(crate) fn warn(&self, code: Code, message: String, help: impl Into<String>) {
        self.context.report.warning(code.at_span(self.node.span), message, help.into());
    }
}

/// A section that is being parsed: a map and the table of its known keys.
pub(crate) struct OpenSection<'a> {
    pub(crate) value: Cursor<'a>,
    table: &'static KeyTable,
    entries: &'a [Entry],
    /// Whether the map has unknown keys; one of them may be a misspelled required key.
    pub(crate) has_unknown_keys: bool,
    /// Keys with an invalid value.
    invalid: RefCell<Vec<&'static str>>,
}

impl<'a> OpenSection<'a> {
    /// Parses a section or its short form.
    pub(crate) fn read<T: Section>(value: &Cursor<'_>, base: Option<T>) -> Checked<T> {
        let section = Self::read_known(value, base)?;
        let entries = value.node.as_map().unwrap_or_default();
        if has_unknown(T::keys(), entries) { Err(Reported(())) } else { Ok(section) }
    }

    /// Like [`Self::read`], but returns the section even if it has unknown keys, which are still reported.
    /// For checks that need the known keys.
    pub(crate) fn read_known<T: Section>(value: &Cursor<'_>, base: Option<T>) -> Checked<T> {
        let single;
        let section = match (&value.node.kind, T::keys().short_form) {
            (Kind::Text(_) | Kind::Number(_), ShortForm::Text(key)) => {
                single = [Entry::new(key, value.node.clone(), value.key_span)];
                OpenSection::new(value, T::keys(), &single)
            }
            _ => OpenSection::open(value, T::keys())?,
        };
        let fields = T::read_fields(&section, base);
        let (related, keys) = (section.check_related_keys(), T::check_keys(&section));
        let valid = section.check_valid(&[]);
        related.and(keys).and(valid).and(fields)
    }

    fn new(value: &Cursor<'a>, table: &'static KeyTable, entries: &'a [Entry]) -> Self {
        let has_unknown_keys = has_unknown(table, entries);
        Self { value: *value, table, entries, has_unknown_keys, invalid: RefCell::default() }
    }

    /// Opens a map and reports its unknown keys.
    pub(crate) fn open(value: &Cursor<'a>, table: &'static KeyTable) -> Checked<Self> {
        let (report, node) = (value.context.report, value.node);
        if report.is_cancelled() {
            return Err(Reported(()));
        }
        let entries = match (&node.kind, table.short_form) {
            (Kind::Map(entries), _) => entries.as_slice(),
            (Kind::Null, ShortForm::Null) => &[],
            _ => {
                let alternative =
                    if matches!(table.short_form, ShortForm::Text(_)) { "a string or " } else { "" };
                let found = node.describe();
                let message =
                    format!("expected {alternative}a map with the keys of {}, found {found}", table.section);
                let names = suggest::quoted_list(table.names());
                let short_key =
                    if let ShortForm::Text(key) = table.short_form { table.get(key) } else { None };
                let hint =
                    match (key_for(table, node), short_key.and_then(|key| key.example.split_once(": "))) {
                        (Some(key), _) => format!("write it under `{}`; ", key.name),
                        // An example that contains backticks is already a sentence.
                        (None, Some((_, value))) if !value.contains('`') => format!("write `{value}`; "),
                        (None, _) => String::new(),
                    };
                let help = format!("{hint}known keys: {names}");
                report.error(Code::WrongType.at_span(node.span), message, help);
                return Err(Reported(()));
            }
        };
        for entry in entries.iter().filter(|entry| table.get(&entry.key.text).is_none()) {
            (value.context.report_unknown_key)(report, &entry.key, table);
        }
        Ok(Self::new(value, table, entries))
    }

    pub(crate) fn report(&self) -> &'a Report<'a> {
        self.value.context.report
    }

    /// Entry of a key.
    pub(crate) fn entry(&self, name: &str) -> Option<&'a Entry> {
        debug_assert!(self.table.get(name).is_some(), "`{name}` is not a key of {}", self.table.section);
        self.entries.iter().find(|entry| entry.key.text == name)
    }

    /// Value of a key.
    pub(crate) fn get(&self, name: &str) -> Option<&'a Node> {
        self.entry(name).map(|entry| &entry.value)
    }

    /// Parses one key. If the key is absent, returns its value from `base`, or else its default. If the value
    /// is invalid, returns the default. Not inlined: inlining it into every field adds 0.5 MB of code.
    #[inline(never)]
    pub(crate) fn field<T>(
        &self,
        row: &'static Row,
        base: Option<T>,
        default: Option<fn() -> T>,
        read: fn(&Cursor<'_>, Option<T>) -> Checked<T>,
    ) -> Checked<T> {
        let Row::Key(key) = row else { unreachable!("the derive passes the row of a key") };
        let Some(entry) = self.entry(key.name) else {
            let value = base.or_else(|| default.map(|default| default()));
            let section = self.table.section;
            return value.ok_or_else(|| {
                let quote = if key.example.starts_with('`') { "" } else { "`" };
                let help = format!("write {quote}{}{quote}", key.example);
                self.missing(format!("{section} has no `{}`", key.name), &help)
            });
        };
        let is_short = self.value.node.as_map().is_none();
        let name = if is_short { self.value.name.to_owned() } else { format!("`{}`", key.name) };
        let context = self.value.context;
        let (report, span) = (context.report, entry.value.span);
        let value = Cursor {
            key: Some(key),
            section: Some(self),
            ..Cursor::new(context, entry.key.span, &entry.value, &name, key.kind)
        };
        if let Some(text) = entry.value.scalar()
            && key.secret
            && report.files().origin(span) == Origin::File
            && value.reference().is_none()
        {
            secret::warn_of_inline(report, span, key.name, &Expanded { text, external: false });
        }
        value.read_expanded(|value| read(value, base)).or_else(|reported| {
            self.invalid.borrow_mut().push(key.name);
            default.map(|default| default()).ok_or(reported)
        })
    }

    /// Returns an error if one of the keys `names` has an invalid value; with empty `names`, if any key has.
    /// The problem has already been reported.
    pub(crate) fn check_valid(&self, names: &[&str]) -> Checked<()> {
        let is_checked = |name: &&'static str| names.is_empty() || names.contains(name);
        if self.invalid.borrow().iter().any(is_checked) { Err(Reported(())) } else { Ok(()) }
    }

    /// Reports a missing key, unless the section has an unknown key, which probably is the misspelled key.
    pub(crate) fn missing(&self, message: String, help: &str) -> Reported {
        if !self.has_unknown_keys {
            self.reject_at(Code::MissingKey.at_span(self.value.key_span), &message, help);
        }
        Reported(())
    }

    /// Reports keys that conflict with another key, or that require an absent key.
    fn check_related_keys(&self) -> Checked<()> {
        let mut checked = Ok(());
        let is_missing = |others: &str| others.split(", ").all(|other| self.entry(other).is_none());
        for entry in self.entries {
            let Some(key) = self.table.get(&entry.key.text) else { continue };
            // `split` would return one empty item if there are no conflicts.
            let mut conflicts = key.conflicts.split_terminator(", ");
            let conflict = conflicts.find(|other| self.entry(other).is_some());
            let (code, problem, help) = if let Some(other) = conflict {
                (Code::ConflictingKeys, format!("beside `{other}`"), "remove one of the two".to_owned())
            } else if let Some(others) = key.requires.filter(|others| is_missing(others)) {
                let others = others.replace(", ", "` or `");
                let help = format!("remove it, or write `{others}` as well");
                (Code::RequiresKey, format!("without `{others}`"), help)
            } else {
                continue;
            };
            let message = format!("`{}` has no effect {problem}", key.name);
            // If a key declares both conflicts and requirements, its own help is about the requirements.
            let has_own_help = !key.own_help.is_empty() && (conflict.is_none() || key.requires.is_none());
            let help = if has_own_help { key.own_help } else { &help };
            checked = Err(self.reject_at(code.at_span(entry.key.span), &message, help));
        }
        checked
    }

    /// Reports a key that conflicts with `other`.
    pub(crate) fn conflict(&self, name: &str, other: &str) -> Reported {
        if let Some(entry) = self.entry(name) {
            let message = format!("`{name}` has no effect beside `{other}`");
            self.reject_at(Code::ConflictingKeys.at_span(entry.key.span), &message, "remove one of the two");
        }
        Reported(())
    }

    /// Reports a problem at a span within the section.
    pub(crate) fn reject_at(&self, at: CodedSpan, message: &str, help: &str) -> Reported {
        self.value.context.reject_at(at, message, help)
    }
}

/// Collects the parsed parts of a value. Parses every part before it returns an error, so that all problems
/// are reported in one run.
pub(crate) fn read_each<T, C: FromIterator<T>>(results: impl Iterator<Item = Checked<T>>) -> Checked<C> {
    let results: Vec<_> = results.collect();
    results.into_iter().collect()
}

fn has_unknown(table: &KeyTable, entries: &[Entry]) -> bool {
    entries.iter().any(|entry| table.get(&entry.key.text).is_none())
}

/// The only key of a section that accepts this value, for a hint: `level` for `log: debug`.
fn key_for(table: &'static KeyTable, node: &Node) -> Option<&'static KeySpec> {
    let text = node.scalar()?;
    let accepts = |key: &&'static KeySpec| match key.kind {
        ValueKind::Enum(values) => values.contains(&text.as_str()),
        ValueKind::Count(min, max) => text.parse().is_ok_and(|count| (min..=max).contains(&count)),
        _ => false,
    };
    let mut keys = table.keys().filter(accepts);
    let first = keys.next()?;
    keys.next().is_none().then_some(first)
}

/// Parses a section of the file; if the section is absent, every key has its default.
pub(crate) fn read_section<T: Section>(
    context: ReadContext<'_>,
    entry: Option<&Entry>,
    root: SourceSpan,
    name: &str,
) -> Checked<T> {
    let empty = Node::new(Kind::Map(Vec::new()), root);
    let (node, key_span) = entry.map_or((&empty, root), |entry| (&entry.value, entry.key.span));
    let value = Cursor::new(context, key_span, node, name, ValueKind::Section(T::keys));
    OpenSection::read(&value, None)
}

/// Default of a field, for `#[section(default)]`.
pub(crate) fn default_of<T>(default: Option<fn() -> T>) -> T {
    let value = default.map(|default| default());
    value.expect("each key of a section with #[section(default)] has a default")
}
