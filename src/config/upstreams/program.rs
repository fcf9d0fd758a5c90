//! Programs of upstreams: command line, working directory and environment variables.

use std::path::{Path, PathBuf};

use settings_derive::Section as DeriveSection;

use super::scalar;
use crate::{
    config::{
        report::Report,
        secret::{self, Environment, Expanded},
        source::{self, SourceSpan},
        suggest,
        tree::{Entry, Kind, Node},
    },
    settings::{
        code::Code,
        keys::ValueKind,
        section::{Checked, Cursor, Invalid, ReadContext, Setting},
        value::{FromText, text_of, text_settings},
    },
    upstream::program::Program,
};

/// Search path for programs if `PATH` is not set.
const PATH_DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin";

/// Program and its fixed arguments.
pub(super) struct CommandLine {
    program: String,
    place: SourceSpan,
    arguments: Vec<Expanded>,
}

/// Path of a CGI program.
pub(super) struct CgiPath {
    path: String,
    place: SourceSpan,
}

/// Working directory; a warning is reported if it does not exist.
pub(super) struct Directory(PathBuf);

/// Environment variables of a program.
#[derive(Default, DeriveSection)]
#[section(id = "env")]
pub(super) struct EnvSettings {
    /// Names of variables of this process that the program inherits.
    pass: Vec<VariableName>,
    /// Variables to set, with their values; `${NAME}` and `file:/path` keep secrets out of the file. Default:
    /// `LC_ALL: C.UTF-8`.
    set: Variables,
}

/// Variables with their values, in the order of the file.
#[derive(Default)]
struct Variables(Vec<(String, Expanded)>);

/// Name of an environment variable.
struct VariableName(String);

impl Setting for CommandLine {
    const KIND: ValueKind = ValueKind::List(&ValueKind::Scalar);

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let help = "write the program and its arguments as a list: `command: [df, -P]`; there is no shell";
        let Kind::List(items) = &value.node.kind else {
            return value.reject_kind("a list", Some(help.to_owned()));
        };
        let words: Vec<_> = items.iter().map(|item| word(value.context, item)).collect();
        let mut words = value.checked(words.into_iter().collect::<Option<Vec<_>>>())?.into_iter();
        match (items.as_slice(), words.next()) {
            ([first, ..], Some(program)) if !program.text.trim().is_empty() => {
                Ok(Self { program: program.text, place: first.span, arguments: words.collect() })
            }
            _ => value.reject(Invalid::new("`command` has no program", help).with_code(Code::EmptyValue)),
        }
    }
}

/// Parses a fixed word of a command line.
fn word(context: ReadContext<'_>, node: &Node) -> Option<Expanded> {
    let (report, environment) = (context.report, context.environment);
    let text = scalar(report, node, "a word of `command`")?;
    if text.contains("{{") {
        let help = "move the template to `arguments` of the route's `request`";
        report.error(
            Code::NotEvaluated.at_span(node.span),
            "`command` of an upstream can't contain templates",
            help,
        );
        return None;
    }
    let Expanded { text, external } = secret::expand(report, environment, node.span, &text)?;
    Some(Expanded { text: without_nul(report, node.span, text)?, external })
}

fn without_nul(report: &Report<'_>, span: SourceSpan, text: String) -> Option<String> {
    if text.contains('\0') {
        report.error(
            Code::InvalidValue.at_span(span),
            "an argument or variable of a program can't contain NUL characters",
            "remove it",
        );
        return None;
    }
    Some(text)
}

impl Setting for CgiPath {
    const KIND: ValueKind = ValueKind::Text;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let path = expanded(value)?;
        if !path.contains('/') {
            let message = format!("`cgi` must be the path of a program, found {}", value.node.found());
            let help = format!("write `/usr/lib/cgi-bin/{path}`, or `./{path}`");
            return value.reject(Invalid::new(message, help));
        }
        Ok(Self { path, place: value.node.span })
    }
}

impl Setting for Directory {
    const KIND: ValueKind = ValueKind::Text;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let text = expanded(value)?;
        let directory = value.checked(absolute(value.context.report, value.node.span, &text))?;
        if !directory.is_dir() {
            value.warn(
                Code::ProgramNotFound,
                format!("the folder `{text}` does not exist"),
                "create it; every call fails until then",
            );
        }
        Ok(Self(directory))
    }
}

/// Expands the variables in a string.
fn expanded(value: &Cursor<'_>) -> Checked<String> {
    let ReadContext { report, environment, .. } = value.context;
    let expanded = secret::expand(report, environment, value.node.span, text_of(value)?);
    value.checked(expanded).map(|expanded| expanded.text)
}

/// Creates the program of a command upstream.
pub(super) fn command(
    context: ReadContext<'_>,
    line: CommandLine,
    cwd: Option<Directory>,
    env: EnvSettings,
) -> Option<Program> {
    let CommandLine { program, place, arguments } = line;
    let (environment, mut secrets) = env.variables(context.environment);
    let path = find(context.report, place, &program, &environment)?;
    secrets.extend(arguments.iter().filter(|word| word.external).map(|word| word.text.clone()));
    let folder = cwd.map_or_else(|| Program::FOLDER_DEFAULT.into(), |Directory(path)| path);
    let arguments = arguments.into_iter().map(|word| word.text).collect();
    Some(Program { path, arg0: program, arguments, folder, environment, secrets })
}

/// Creates the program of a CGI upstream.
pub(super) fn cgi(
    context: ReadContext<'_>,
    CgiPath { path, place }: CgiPath,
    cwd: Option<Directory>,
    env: EnvSettings,
) -> Option<Program> {
    let (environment, secrets) = env.variables(context.environment);
    let path = find(context.report, place, &path, &environment)?;
    // The default is the folder of the program (RFC 3875, section 7.2).
    let own = || path.parent().map_or_else(|| Program::FOLDER_DEFAULT.into(), Path::to_owned);
    let folder = cwd.map_or_else(own, |Directory(path)| path);
    let arg0 = path.to_string_lossy().into_owned();
    Some(Program { path, arg0, arguments: Vec::new(), folder, environment, secrets })
}

/// Resolves a program to an absolute path; returns the name unchanged, with a warning, if it does not exist.
fn find(
    report: &Report<'_>,
    span: SourceSpan,
    name: &str,
    environment: &[(String, String)],
) -> Option<PathBuf> {
    if name.contains('/') {
        let path = absolute(report, span, name)?;
        let message = match std::fs::metadata(&path) {
            Err(error) => format!("the program `{name}` {}", source::describe_io_error(&error)),
            Ok(metadata) if !is_program(&metadata) => {
                format!("`{name}` is not an executable file")
            }
            Ok(_) => return Some(path),
        };
        report.warning(
            Code::ProgramNotFound.at_span(span),
            message,
            "correct the path, or run `chmod +x`; every call fails until then",
        );
        return Some(path);
    }
    let folders = environment.iter().find(|(known, _)| known == "PATH");
    let folders = folders.map_or(PATH_DEFAULT, |(_, folders)| folders);
    let found = folders.split(':').filter(|folder| folder.starts_with('/')).find_map(|folder| {
        let path = Path::new(folder).join(name);
        std::fs::metadata(&path).is_ok_and(|metadata| is_program(&metadata)).then_some(path)
    });
    if found.is_none() {
        let message = format!("program `{name}` not found in {folders}");
        let help = "install it, or write its absolute path; every call fails until then";
        report.warning(Code::ProgramNotFound.at_span(span), message, help);
    }
    Some(found.unwrap_or_else(|| name.into()))
}

#[cfg(unix)]
fn is_program(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    metadata.is_file() && metadata.permissions().mode() & 0o111 != 0
}

#[cfg(not(unix))]
fn is_program(metadata: &std::fs::Metadata) -> bool {
    metadata.is_file()
}

/// Makes a path absolute, relative to the folder of the file that contains it.
fn absolute(report: &Report<'_>, span: SourceSpan, text: &str) -> Option<PathBuf> {
    let path = Path::new(text);
    if path.is_absolute() {
        return Some(path.to_owned());
    }
    let folder = report.files().folder(span).and_then(|folder| std::path::absolute(folder.join(path)).ok());
    if folder.is_none() {
        let message = format!("`{text}` must be an absolute path, because this configuration is not a file");
        report.error(
            Code::InvalidValue.at_span(span),
            message,
            "write an absolute path: `/usr/local/bin/report`",
        );
    }
    folder
}

impl EnvSettings {
    /// All variables of a program (`PATH`, a locale, inherited ones and those that are set), and the secret
    /// values among them.
    fn variables(self, environment: &Environment) -> (Vec<(String, String)>, Vec<String>) {
        let path = environment.get("PATH").filter(|path| !path.is_empty()).unwrap_or(PATH_DEFAULT);
        let mut variables = vec![
            ("PATH".to_owned(), path.to_owned()),
            ("LC_ALL".to_owned(), Program::LOCALE_DEFAULT.to_owned()),
        ];
        let mut secrets = Vec::new();
        let passed = self.pass.into_iter().filter_map(|VariableName(name)| {
            let text = environment.get(&name)?.to_owned();
            Some((name, Expanded { text, external: false }))
        });
        for (name, Expanded { text, external }) in passed.chain(self.set.0) {
            if external || secret::is_secret_name(&name) {
                secrets.push(text.clone());
            }
            match variables.iter_mut().find(|(known, _)| *known == name) {
                Some(known) => known.1 = text,
                None => variables.push((name, text)),
            }
        }
        (variables, secrets)
    }
}

impl Setting for Variables {
    const KIND: ValueKind = ValueKind::Map(&ValueKind::Scalar);

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let Some(entries) = value.node.as_map() else { return value.reject_kind("a map", None) };
        let ReadContext { report, environment, .. } = value.context;
        let read = |Entry { key, value: node }: &Entry| {
            let name =
                VariableName::from_text(&key.text).or_else(|invalid| value.reject_at(key.span, invalid));
            let text = scalar(report, node, &format!("the variable `{}`", key.text))
                .and_then(|text| secret::expand_secret(report, environment, node.span, &text));
            let Expanded { text, external } = value.checked(text)?;
            let text = value.checked(without_nul(report, node.span, text))?;
            Ok((name?.0, Expanded { text, external }))
        };
        let variables: Vec<_> = entries.iter().map(read).collect();
        variables.into_iter().collect::<Checked<_>>().map(Self)
    }

    fn when_absent() -> Option<Self> {
        Some(Self::default())
    }
}

text_settings!(VariableName);

impl FromText for VariableName {
    fn from_text(name: &str) -> Result<Self, Invalid> {
        let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
        if is_name {
            return Ok(Self(name.to_owned()));
        }
        let nearest = suggest::nearest(name, ["HOME", "TZ", "LANG"]).unwrap_or("HOME");
        let help = format!("write letters, digits and `_`: `{nearest}`");
        Err(Invalid::new(format!("`{name}` is not a variable name"), help).with_code(Code::InvalidName))
    }
}
