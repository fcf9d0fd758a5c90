//! Programs of upstreams: command line, working directory and environment variables. Also MCP upstreams,
//! which have either a program or an address.

use std::{
    fs::Metadata,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use super::http::Addresses;
use super::scalar;
use crate::route::UpstreamName;
use crate::settings::{
    Checked, Code, Cursor, Entry, Environment, Expanded, FromText, Invalid, Kind, Node, ReadContext, Section,
    Setting, SourceSpan, ValueKind, expansion, read_each, secret, text_of,
};
use crate::upstream::program::Program;

/// Program with its fixed arguments.
pub(super) struct ProgramCommand {
    program: String,
    span: SourceSpan,
    arguments: Vec<Expanded>,
}

/// Environment variables of a program.
#[derive(Default, Section)]
#[section(id = "env")]
pub(super) struct EnvSettings {
    /// Names of variables of this process that the program inherits.
    pass: Vec<VariableName>,
    /// Variables to set, with their values; `${NAME}` and `file:/path` keep secrets out of the file. Default:
    /// `LC_ALL: C.UTF-8`.
    #[key(kind = ValueKind::Map(&ValueKind::Scalar), with = read_variables)]
    set: Option<Vec<(String, Expanded)>>,
}

struct VariableName(String);

impl Setting for ProgramCommand {
    const KIND: ValueKind = ValueKind::List(&ValueKind::Scalar);

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let help = "write the program and its arguments as a list: `command: [df, -P]`; there is no shell";
        let Kind::List(items) = &value.node.kind else {
            return value.reject_kind("a list", Some(help.to_owned()));
        };
        let words: Vec<Expanded> = read_each(items.iter().map(|item| word(value.context, item)))?;
        let (mut words, at) = (words.into_iter(), Code::EmptyValue.at_span(value.node.span));
        match (items.as_slice(), words.next()) {
            ([first, ..], Some(program)) if !program.text.trim().is_empty() => {
                Ok(Self { program: program.text, span: first.span, arguments: words.collect() })
            }
            _ => value.reject_coded(at, "`command` has no program", help),
        }
    }
}

/// Parses a word of a command line; templates are rejected.
fn word(context: ReadContext<'_>, node: &Node) -> Checked<Expanded> {
    let text = scalar(context, node, "a word of `command`")?;
    if text.contains("{{") {
        let message = "`command` of an upstream can't contain templates";
        let help = "move the template to `arguments` of the route's `request`";
        return Err(context.reject_at(Code::NotEvaluated.at_span(node.span), message, help));
    }
    without_nul(context, node.span, expansion::expand(context, node.span, &text)?)
}

/// Rejects NUL characters: arguments and variables are NUL-terminated strings, so starting the program would
/// always fail.
fn without_nul(context: ReadContext<'_>, span: SourceSpan, expanded: Expanded) -> Checked<Expanded> {
    if expanded.text.contains('\0') {
        let message = "an argument or variable of a program can't contain NUL characters";
        return Err(context.reject_at(Code::InvalidValue.at_span(span), message, "remove them"));
    }
    Ok(expanded)
}

/// Parses the path of a CGI program.
pub(super) fn read_cgi(value: &Cursor<'_>) -> Checked<Option<ProgramCommand>> {
    let (span, arguments) = (value.node.span, Vec::new());
    let program = expansion::expand(value.context, span, text_of(value)?)?.text;
    if !program.contains('/') {
        let message = format!("`cgi` must be the path of a program, found {}", value.node.describe());
        let help = format!("write `/usr/lib/cgi-bin/{program}`, or `./{program}`");
        return value.reject(Invalid::new(message, help));
    }
    Ok(Some(ProgramCommand { program, span, arguments }))
}

/// Parses a working directory; warns if it does not exist.
pub(super) fn read_directory(value: &Cursor<'_>) -> Checked<Option<PathBuf>> {
    let text = expansion::expand(value.context, value.node.span, text_of(value)?)?.text;
    let directory = absolute(value.context, value.node.span, &text)?;
    if !directory.is_dir() {
        let message = format!("the working directory `{text}` does not exist");
        value.warn(Code::ProgramNotFound, message, "create it; every call fails until then");
    }
    Ok(Some(directory))
}

/// Creates the program of a command, CGI or MCP upstream.
pub(super) fn command(
    context: ReadContext<'_>,
    name: UpstreamName,
    ProgramCommand { program, span, arguments }: ProgramCommand,
    cwd: Option<PathBuf>,
    env: EnvSettings,
) -> Checked<Program> {
    let (environment, mut secrets) = env.variables(context.environment);
    let path = find(context, span, &program, &environment)?;
    secrets.extend(arguments.iter().filter(|word| word.external).map(|word| word.text.clone()));
    let working_directory = cwd.unwrap_or_else(|| Program::WORKING_DIRECTORY_DEFAULT.into());
    let arguments = arguments.into_iter().map(|word| word.text).collect();
    Ok(Program { name, path, arg0: program, arguments, working_directory, environment, secrets })
}

/// Resolves a program to an absolute path. If it does not exist, warns, and returns a bare name unchanged.
fn find(
    context: ReadContext<'_>,
    span: SourceSpan,
    name: &str,
    environment: &[(String, String)],
) -> Checked<PathBuf> {
    let (paths, location) = if name.contains('/') {
        (vec![absolute(context, span, name)?], String::new())
    } else {
        let path = environment.iter().find(|(known, _)| known == "PATH");
        let path = path.map_or(Program::PATH_DEFAULT, |(_, folders)| folders);
        let folders = path.split(':').filter(|folder| folder.starts_with('/'));
        (folders.map(|folder| Path::new(folder).join(name)).collect(), format!(" in {path}"))
    };
    if let Some(found) = paths.iter().find(|path| is_program(path)) {
        return Ok(found.clone());
    }
    let message = format!("there is no executable file `{name}`{location}");
    let help = "install it, correct the path, or run `chmod +x`; every call fails until then";
    context.report.warning(Code::ProgramNotFound.at_span(span), message, help);
    Ok(paths.into_iter().next().filter(|_| name.contains('/')).unwrap_or_else(|| name.into()))
}

fn is_program(path: &Path) -> bool {
    let is_executable = |metadata: Metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0;
    std::fs::metadata(path).is_ok_and(is_executable)
}

/// Makes a path absolute; a relative path is relative to the folder of the file that contains it.
fn absolute(context: ReadContext<'_>, span: SourceSpan, text: &str) -> Checked<PathBuf> {
    let path = Path::new(text);
    if path.is_absolute() {
        return Ok(path.to_owned());
    }
    let folder = context.report.files().folder(span);
    folder.and_then(|folder| std::path::absolute(folder.join(path)).ok()).ok_or_else(|| {
        let message = format!("`{text}` must be an absolute path, because this configuration is not a file");
        let help = "write an absolute path: `/usr/local/bin/report`";
        context.reject_at(Code::InvalidValue.at_span(span), message, help)
    })
}

impl EnvSettings {
    /// Returns all environment variables of a program (`PATH`, a locale, inherited and configured variables),
    /// and the secret values among them.
    fn variables(self, environment: &Environment) -> (Vec<(String, String)>, Vec<String>) {
        let path = environment.get("PATH").filter(|path| !path.is_empty()).unwrap_or(Program::PATH_DEFAULT);
        let mut variables = vec![
            ("PATH".to_owned(), path.to_owned()),
            ("LC_ALL".to_owned(), Program::LOCALE_DEFAULT.to_owned()),
        ];
        let mut secrets = Vec::new();
        let passed = self.pass.into_iter().filter_map(|VariableName(name)| {
            let text = environment.get(&name)?.to_owned();
            Some((name, Expanded { text, external: false }))
        });
        for (name, Expanded { text, external }) in passed.chain(self.set.into_iter().flatten()) {
            if external || secret::is_secret_name(&name) {
                secrets.push(text.clone());
            }
            match variables.iter_mut().find(|(known, _)| *known == name) {
                Some(variable) => variable.1 = text,
                None => variables.push((name, text)),
            }
        }
        (variables, secrets)
    }
}

/// Parses environment variables with their values, in the order of the file.
fn read_variables(value: &Cursor<'_>) -> Checked<Option<Vec<(String, Expanded)>>> {
    let Some(entries) = value.node.as_map() else { return value.reject_kind("a map", None) };
    let read = |Entry { key, value: node }: &Entry| {
        let name = VariableName::from_text(&key.text).or_else(|invalid| value.reject_at(key.span, invalid));
        let text = scalar(value.context, node, &format!("the variable `{}`", key.text))?;
        let expanded = expansion::expand_secret(value.context, node.span, &text)?;
        Ok((name?.0, without_nul(value.context, node.span, expanded)?))
    };
    read_each(entries.iter().map(read)).map(Some)
}

impl FromText for VariableName {
    fn from_text(name: &str) -> Result<Self, Invalid> {
        if expansion::is_variable_name(name) {
            return Ok(Self(name.to_owned()));
        }
        let help = "write letters, digits and `_`: `HOME`";
        Err(Invalid::new(format!("`{name}` is not a variable name"), help).with_code(Code::InvalidName))
    }
}

/// Location of an MCP server: an address, or a program.
pub(super) enum McpServer {
    At(Addresses),
    Child(McpChild),
}

/// MCP server that is started as a child process.
#[derive(Section)]
#[section(name = "`mcp`", id = "mcp_child")]
pub(super) struct McpChild {
    /// Program with its arguments, started without a shell.
    #[key(example = "command: [npx, -y, NAME]")]
    command: ProgramCommand,
    /// Working directory of the program. Default `/`.
    #[key(kind = ValueKind::Text, with = read_directory)]
    cwd: Option<PathBuf>,
    /// Environment variables of the program, in addition to `PATH`, `HOME` and a locale.
    #[key(default = EnvSettings::default())]
    env: EnvSettings,
}

impl Setting for McpServer {
    const KIND: ValueKind = ValueKind::Either(&[ValueKind::Text, McpChild::KIND]);

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        match &value.node.kind {
            Kind::Map(_) => McpChild::read(value).map(Self::Child),
            Kind::Text(_) => Addresses::read(value).map(Self::At),
            _ => {
                let message = format!("`mcp` must be a URL or a map, found {}", value.node.describe());
                let help = "write `mcp: http://127.0.0.1:3000/mcp`, or `mcp: { command: [npx, -y, NAME] }`";
                value.reject_coded(Code::WrongType.at_span(value.node.span), message, help)
            }
        }
    }
}

impl McpChild {
    /// Creates the program. Adds `HOME` to its environment, because package runners such as `npx` store their
    /// cache in it.
    pub(super) fn program(self, context: ReadContext<'_>, name: UpstreamName) -> Checked<Program> {
        const HOME: &str = "HOME";
        let mut program = command(context, name, self.command, self.cwd, self.env)?;
        if let Some(home) = context.environment.get(HOME)
            && !program.environment.iter().any(|(name, _)| name == HOME)
        {
            program.environment.push((HOME.to_owned(), home.to_owned()));
        }
        Ok(program)
    }
}
