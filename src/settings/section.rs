//! How a declared setting is read: [`Setting`] for one value, [`Section`] for a struct whose fields are keys.
//!
//! A reader reports every problem and goes on; what it returns is [`Checked`]: the value, or the proof that a
//! problem has been reported. A struct exists only where all of its fields are right.

use std::any::Any;

use super::{
    code::{Code, CodedSpan},
    keys::{KeySpec, KeyTable, Row, ShortForm, ValueKind},
    layers,
    report::Report,
    secret::{self, Environment, Expanded},
    source::{Origin, Span},
    suggest,
    tree::{Entry, Key, Kind, Node},
    units::UnitError,
};

/// A problem has been reported. Only reporting one makes this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reported(());

/// A value, or the proof that a problem with it has been reported.
pub(crate) type Checked<T> = Result<T, Reported>;

/// What every reader of one run shares.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) report: &'a Report<'a>,
    pub(crate) environment: &'a Environment,
    /// Reports a key that a section does not have; the advice may name other sections.
    pub(crate) report_unknown_key: fn(&Report<'_>, &Key, &KeyTable),
    /// Reports a word that a key of a section, by its id, took in an earlier program; `false` where it is
    /// none.
    pub(crate) report_renamed_word: fn(&Report<'_>, &Node, &str, &str) -> bool,
    /// Variables of expressions that had another name in an earlier program: that name, and the present one.
    pub(crate) renamed_variables: &'static [(&'static str, &'static str)],
    /// What expressions may use, for the module that has them.
    pub(crate) scope: Option<&'a dyn Any>,
}

/// What is wrong with a value, and how to fix it.
pub(crate) struct Invalid {
    pub(crate) code: Code,
    pub(crate) message: String,
    pub(crate) help: Option<String>,
    /// Whether the message shows the value, which must not happen to one from a variable.
    pub(crate) shows_value: bool,
}

impl Invalid {
    pub(crate) fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { code: Code::InvalidValue, message: message.into(), help: Some(help.into()), shows_value: true }
    }

    /// The same with a message in which the value does not appear.
    pub(crate) fn without_value(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { shows_value: false, ..Self::new(message, help) }
    }

    /// The same as another kind of problem.
    pub(crate) fn with_code(self, code: Code) -> Self {
        Self { code, ..self }
    }
}

impl From<UnitError> for Invalid {
    fn from(UnitError { code, message, help }: UnitError) -> Self {
        Self::new(message, help).with_code(code)
    }
}

/// A value that a key accepts.
pub(crate) trait Setting: Sized {
    const KIND: ValueKind;

    /// Reads the value that is written.
    ///
    /// # Errors
    ///
    /// When something is wrong with it, which has been reported then.
    fn read(value: &Cursor<'_>) -> Checked<Self>;

    /// Reads it over `base`: what is not written is as there.
    fn read_over(value: &Cursor<'_>, _base: Option<Self>) -> Checked<Self> {
        Self::read(value)
    }

    /// The value where the key is absent; `None` where the key is required.
    fn when_absent() -> Option<Self> {
        None
    }

    /// The value as the reference writes a default.
    fn shown(&self, _kind: ValueKind) -> Option<String> {
        None
    }
}

/// A struct whose fields are keys. `#[derive(Section)]` implements it.
pub(crate) trait Section: Sized {
    fn keys() -> &'static KeyTable;

    /// Reads every field: as written, as in `base`, or its default.
    fn read_fields(section: &OpenSection<'_>, base: Option<Self>) -> Checked<Self>;

    /// Adds the names of the keys that differ and take effect only after a restart.
    fn restart_differences(&self, other: &Self, found: &mut Vec<&'static str>);

    /// Checks which keys are there, whatever their values are.
    fn check_keys(_section: &OpenSection<'_>) -> Checked<()> {
        Ok(())
    }
}

/// A value while it is read: its place, its name in messages, and what it is to be.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    pub(crate) context: Context<'a>,
    pub(crate) node: &'a Node,
    /// Place of its key.
    pub(crate) place: Span,
    /// Its name in messages: "`name`", "an item of `names`".
    pub(crate) name: &'a str,
    pub(crate) kind: ValueKind,
    pub(crate) key: Option<&'static KeySpec>,
    /// The keys of the section that it is in.
    siblings: &'a [Entry],
    section_id: &'static str,
    /// Whether it may be `${VARIABLE}`.
    expands: bool,
    /// Whether a part of it comes from `${VARIABLE}`, so that it is not shown.
    expanded: bool,
}

impl<'a> Cursor<'a> {
    /// The value of an entry.
    pub(crate) fn new(
        context: Context<'a>,
        place: Span,
        node: &'a Node,
        name: &'a str,
        kind: ValueKind,
    ) -> Self {
        Self {
            context,
            node,
            place,
            name,
            kind,
            key: None,
            siblings: &[],
            section_id: "",
            expands: false,
            expanded: false,
        }
    }

    /// A part of the value, under another name.
    pub(crate) fn part(&self, node: &'a Node, name: &'a str, kind: ValueKind) -> Self {
        Self { node, name, kind, ..*self }
    }

    /// The same, with what expressions in it may use.
    pub(crate) fn in_scope(self, scope: &'a dyn Any) -> Self {
        Self { context: Context { scope: Some(scope), ..self.context }, ..self }
    }

    /// The same at the place of its key.
    pub(crate) fn at(self, place: Span) -> Self {
        Self { place, ..self }
    }

    /// The same of a value that stands for it.
    pub(crate) fn of_node<'b>(&self, node: &'b Node) -> Cursor<'b>
    where
        'a: 'b,
    {
        Cursor { node, ..*self }
    }

    /// The value of one of its own keys, under another name.
    pub(crate) fn member(&self, entry: &'a Entry, name: &'a str, kind: ValueKind) -> Self {
        Self { place: entry.key.span, ..self.part(&entry.value, name, kind) }
    }

    /// The value of another key of the section that it is in, which decides how it is read.
    pub(crate) fn sibling(&self, name: &str) -> Option<&'a Node> {
        self.sibling_entry(name).map(|entry| &entry.value)
    }

    /// The same with its key.
    pub(crate) fn sibling_entry(&self, name: &str) -> Option<&'a Entry> {
        self.siblings.iter().find(|entry| entry.key.text == name)
    }

    /// The value with its variables put in, and whether one came from outside; `None` where there are none.
    pub(super) fn expand(&self, kind: ValueKind) -> Checked<Option<(Node, bool)>> {
        let (report, span) = (self.context.report, self.node.span);
        let from_file = report.files().origin(span) == Origin::File;
        let may_expand = self.expands && from_file;
        let is_file = |text: &str| self.key.is_some_and(|key| key.file) && text.starts_with("file:");
        let is_reference = |text: &&str| may_expand && text.contains("${") || is_file(text);
        let Some(text) = self.node.as_text().filter(is_reference) else {
            return Ok(None);
        };
        let expand = if is_file(text) { secret::expand_secret } else { secret::expand };
        let expanded = expand(report, self.context.environment, span, text).ok_or(Reported(()))?;
        Ok(Some((layers::node_of(&expanded.text, kind, span), expanded.foreign)))
    }

    /// The value after its variables were put in.
    pub(super) fn expanded_as<'b>(&self, node: &'b Node, expanded: bool) -> Cursor<'b>
    where
        'a: 'b,
    {
        Cursor { node, expanded, ..*self }
    }

    /// Reports what is wrong with the value, without the value where it comes from outside the file.
    pub(crate) fn reject<T>(&self, invalid: Invalid) -> Checked<T> {
        self.reject_at(self.node.span, invalid)
    }

    /// The same at another place.
    pub(crate) fn reject_at<T>(&self, span: Span, invalid: Invalid) -> Checked<T> {
        let Invalid { code, message, help, shows_value } = invalid;
        let report = self.context.report;
        match self.key {
            Some(key) if shows_value && report.files().origin(span) == Origin::Variable => {
                let setting = format!("{}.{}", self.section_id, key.name);
                let message = match key.kind {
                    ValueKind::Text => format!("the value is not what `{setting}` takes"),
                    kind => format!("the value is not what `{setting}` takes: {kind}"),
                };
                report.error(code.at(span), message, key.help());
            }
            Some(key) if shows_value && self.expanded => {
                let message = format!("with its variables put in, `{}` is not what it takes", key.name);
                let help = match key.kind {
                    ValueKind::Word(_) => format!("write one of {}", key.kind),
                    ValueKind::Duration(..) | ValueKind::Size(..) | ValueKind::Count(..) => {
                        format!("write a {}", key.kind)
                    }
                    _ => key.help(),
                };
                report.error(code.at(span), message, format!("look at the variables: {help}"));
            }
            _ => report.error(code.at(span), message, help),
        }
        Err(Reported(()))
    }

    /// Reports a word that the key took in an earlier program.
    pub(crate) fn reject_renamed_word(&self) -> Checked<()> {
        let Context { report, report_renamed_word, .. } = self.context;
        let is_renamed = |key: &KeySpec| report_renamed_word(report, self.node, self.section_id, key.name);
        if self.key.is_some_and(is_renamed) { Err(Reported(())) } else { Ok(()) }
    }

    /// Reports a value of another kind.
    pub(crate) fn reject_kind<T>(&self, expected: &str, help: Option<String>) -> Checked<T> {
        let message = format!("{} takes {expected}, found {}", self.name, self.node.found());
        let help = help.or_else(|| self.key.map(KeySpec::help));
        self.reject(Invalid { code: Code::WrongType, message, help, shows_value: true })
    }

    /// Whether it comes from outside the file, so that it is not shown.
    pub(crate) fn is_foreign(&self) -> bool {
        self.expanded || self.context.report.files().origin(self.node.span) == Origin::Variable
    }

    /// What another reader has read; it has reported a problem where that is `None`.
    pub(crate) fn checked<T>(&self, read: Option<T>) -> Checked<T> {
        debug_assert!(read.is_some() || self.context.report.errors() > 0, "nothing has been reported");
        read.ok_or(Reported(()))
    }

    /// Ends the reading where the run was stopped from outside, before something that takes long.
    pub(crate) fn check_stop(&self) -> Checked<()> {
        if self.context.report.is_stopped() { Err(Reported(())) } else { Ok(()) }
    }

    /// Warns of the value.
    pub(crate) fn warn(&self, code: Code, message: String, help: impl Into<String>) {
        self.context.report.warning(code.at(self.node.span), message, help.into());
    }
}

/// A section while it is read: a map with known keys.
pub(crate) struct OpenSection<'a> {
    pub(crate) value: Cursor<'a>,
    table: &'static KeyTable,
    entries: &'a [Entry],
    /// Whether it has unknown keys; one of them may be meant for what is missing.
    pub(crate) has_unknown_keys: bool,
}

impl<'a> OpenSection<'a> {
    /// Reads a section, or the short form of it.
    pub(crate) fn read<T: Section>(value: &Cursor<'_>, base: Option<T>) -> Checked<T> {
        let single;
        let section = match (&value.node.kind, T::keys().short_form) {
            (Kind::Text(_) | Kind::Number(_), ShortForm::Text(key)) => {
                single = [Entry::new(key, value.node.clone(), value.place)];
                OpenSection { value: *value, table: T::keys(), entries: &single, has_unknown_keys: false }
            }
            _ => OpenSection::open(value, T::keys())?,
        };
        let read = T::read_fields(&section, base);
        let (neighbours, keys) = (section.check_neighbours(), T::check_keys(&section));
        if section.has_unknown_keys { Err(Reported(())) } else { neighbours.and(keys).and(read) }
    }

    /// Opens a map, and reports its unknown keys.
    pub(crate) fn open(value: &Cursor<'a>, table: &'static KeyTable) -> Checked<Self> {
        let (report, node) = (value.context.report, value.node);
        if report.is_stopped() {
            return Err(Reported(()));
        }
        let entries = match (&node.kind, table.short_form) {
            (Kind::Map(entries), _) => entries.as_slice(),
            (Kind::Nothing, ShortForm::Nothing) => &[],
            _ => {
                let also = if matches!(table.short_form, ShortForm::Text(_)) { "a text or " } else { "" };
                let found = node.found();
                let message =
                    format!("expected {also}a map with the keys of {}, found {found}", table.section);
                let help = format!("known keys: {}", suggest::listed(table.names()));
                report.error(Code::WrongType.at(node.span), message, help);
                return Err(Reported(()));
            }
        };
        let is_unknown = |entry: &&Entry| table.get(&entry.key.text).is_none();
        let has_unknown_keys = entries.iter().any(|entry| is_unknown(&entry));
        for entry in entries.iter().filter(is_unknown) {
            (value.context.report_unknown_key)(report, &entry.key, table);
        }
        Ok(Self { value: *value, table, entries, has_unknown_keys })
    }

    /// The entry of a key.
    pub(crate) fn entry(&self, name: &str) -> Option<&'a Entry> {
        debug_assert!(self.table.get(name).is_some(), "`{name}` is not a key of {}", self.table.section);
        self.entries.iter().find(|entry| entry.key.text == name)
    }

    /// The value of a key.
    pub(crate) fn get(&self, name: &str) -> Option<&'a Node> {
        self.entry(name).map(|entry| &entry.value)
    }

    /// Reads one key: as written, as in `base`, or its default. Not inlined: once a field would be 0.5 MB of
    /// code.
    #[inline(never)]
    pub(crate) fn field<T: Setting>(
        &self,
        row: &'static Row,
        base: Option<T>,
        default: Option<fn() -> T>,
        read: fn(&Cursor<'_>, Option<T>) -> Checked<T>,
    ) -> Checked<T> {
        let Row::Key(key) = row else { return Err(Reported(())) };
        let Some(entry) = self.entry(key.name) else {
            let absent = base.or_else(|| default.map(|default| default()).or_else(T::when_absent));
            let section = self.table.section;
            return absent.ok_or_else(|| {
                let help = match key.example.starts_with('`') {
                    true => format!("write {}", key.example),
                    false => format!("write `{}`", key.example),
                };
                self.missing(format!("{section} has no `{}`", key.name), &help)
            });
        };
        let is_short = self.value.node.as_map().is_none();
        let name = if is_short { self.value.name.to_owned() } else { format!("`{}`", key.name) };
        let context = self.value.context;
        let value = Cursor {
            context,
            node: &entry.value,
            place: entry.key.span,
            name: &name,
            kind: key.kind,
            key: Some(key),
            siblings: self.entries,
            section_id: self.table.id,
            expands: self.table.expands_variables,
            expanded: false,
        };
        match value.expand(key.kind)? {
            None => {
                self.warn_of_secret_in_file(key, &value);
                read(&value, base)
            }
            Some((node, expanded)) => read(&value.expanded_as(&node, expanded), base),
        }
    }

    /// A credential in a file is readable by everyone who can read the file.
    fn warn_of_secret_in_file(&self, key: &KeySpec, value: &Cursor<'_>) {
        let (report, span) = (value.context.report, value.node.span);
        if let Some(text) = value.node.scalar()
            && key.secret
            && report.files().origin(span) == Origin::File
        {
            secret::warn_of_inline(report, span, key.name, &Expanded { text, foreign: false });
        }
    }

    /// Reports that something is missing; unless there is an unknown key, which is probably meant for it.
    pub(crate) fn missing(&self, message: String, help: &str) -> Reported {
        if !self.has_unknown_keys {
            self.value.context.report.error(Code::MissingKey.at(self.value.place), message, help);
        }
        Reported(())
    }

    /// Reports keys that conflict with others, or need others that are absent.
    fn check_neighbours(&self) -> Checked<()> {
        let mut checked = Ok(());
        for entry in self.entries {
            let Some(key) = self.table.get(&entry.key.text) else { continue };
            let conflict = key.conflicts.iter().find(|other| self.entry(other).is_some());
            if let Some(other) = conflict {
                checked = Err(self.conflict(key.name, other));
            } else if let Some((other, help)) = key.requires.filter(|(other, _)| self.entry(other).is_none())
            {
                let message = format!("`{}` has no effect without `{other}`", key.name);
                let help = match help {
                    "" => format!("remove it, or write `{other}` as well"),
                    help => help.to_owned(),
                };
                self.value.context.report.error(Code::RequiresKey.at(entry.key.span), message, help);
                checked = Err(Reported(()));
            }
        }
        checked
    }

    /// Reports that a key has no effect beside another.
    pub(crate) fn conflict(&self, name: &str, other: &str) -> Reported {
        if let Some(entry) = self.entry(name) {
            let message = format!("`{name}` has no effect beside `{other}`");
            self.value.context.report.error(
                Code::ConflictingKeys.at(entry.key.span),
                message,
                "remove one of the two",
            );
        }
        Reported(())
    }

    /// The proof for a problem that another reader has reported.
    pub(crate) fn reported(&self) -> Reported {
        debug_assert!(self.value.context.report.errors() > 0, "nothing has been reported");
        Reported(())
    }

    /// Reports a problem at a place in it.
    pub(crate) fn reject_at(&self, at: impl Into<CodedSpan>, message: &str, help: &str) -> Reported {
        self.value.context.report.error(at, message, help);
        Reported(())
    }
}

/// Reads a section that may be absent from the file: then every key has its default.
pub(crate) fn read_section<T: Section>(
    context: Context<'_>,
    entry: Option<&Entry>,
    root: Span,
    name: &str,
) -> Checked<T> {
    let empty = Node::new(Kind::Map(Vec::new()), root);
    let (node, place) = entry.map_or((&empty, root), |entry| (&entry.value, entry.key.span));
    let value = Cursor::new(context, place, node, name, ValueKind::Section(T::keys));
    OpenSection::read(&value, None)
}

/// The default of a field, for `#[section(default)]`.
pub(crate) fn default_of<T: Setting>(declared: Option<fn() -> T>) -> T {
    let value = declared.map(|default| default()).or_else(T::when_absent);
    value.expect("the derive demands a default for each key of a section that has one")
}
