//! A program of an upstream: where it is, what it sees, where it works.

use std::path::{Path, PathBuf};

use super::scalar;
use crate::{
    config::{
        code::Code,
        keys::ENV,
        node::{Entry, Kind, Node},
        report::Report,
        secret::{self, Environment, Expanded},
        section::Section,
        source::{self, Span},
        suggest,
    },
    upstream::program::Program,
};

/// Where programs are looked for when nobody says it.
const PATH_DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin";

/// Reads a command: a list of words, and the keys beside it.
pub(super) fn command(section: &Section<'_, '_>, environment: &Environment) -> Option<Program> {
    let report = section.report;
    let node = section.get("command")?;
    let help = "write the program and its words as a list: `command: [df, -P]`; there is no shell";
    let Kind::List(items) = &node.kind else {
        report.error(
            Code::WrongType.at(node.span),
            format!("`command` takes a list, found {}", node.found()),
            help,
        );
        return None;
    };
    let words: Vec<_> = items.iter().map(|item| word(report, environment, item)).collect();
    let words = words.into_iter().collect::<Option<Vec<_>>>()?;
    let in_words: Vec<_> =
        words.iter().skip(1).filter(|word| word.foreign).map(|word| word.text.clone()).collect();
    let mut words = words.into_iter().map(|word| word.text);
    let Some(name) = words.next().filter(|name| !name.trim().is_empty()) else {
        report.error(Code::EmptyValue.at(node.span), "`command` names no program", help);
        return None;
    };
    let around = Around::read(section, environment)?;
    let path = around.find(report, items[0].span, &name)?;
    let folder = around.folder.unwrap_or_else(|| Program::FOLDER_DEFAULT.into());
    let Around { environment, mut secrets, .. } = around;
    secrets.extend(in_words);
    Some(Program { path, called: name, words: words.collect(), folder, environment, secrets })
}

/// Reads a CGI program: its path, and the keys beside it.
pub(super) fn cgi(section: &Section<'_, '_>, environment: &Environment) -> Option<Program> {
    let report = section.report;
    let (node, text) = section.text_node("cgi")?;
    let name = secret::expand(report, environment, node.span, text)?.text;
    if !name.contains('/') {
        let message = format!("a CGI program is named by its path, found {}", node.found());
        report.error(
            Code::InvalidValue.at(node.span),
            message,
            format!("write `/usr/lib/cgi-bin/{name}`, or `./{name}`"),
        );
        return None;
    }
    let around = Around::read(section, environment)?;
    let path = around.find(report, node.span, &name)?;
    // RFC 3875, section 7.2: the folder that the program is in.
    let own = path.parent().map_or_else(|| Program::FOLDER_DEFAULT.into(), Path::to_owned);
    let called = path.to_string_lossy().into_owned();
    let folder = around.folder.unwrap_or(own);
    let Around { environment, secrets, .. } = around;
    Some(Program { path, called, words: Vec::new(), folder, environment, secrets })
}

/// A word that is the same in every call.
fn word(report: &Report<'_>, environment: &Environment, node: &Node) -> Option<Expanded> {
    let text = scalar(report, node, "a word of `command`")?;
    if text.contains("{{") {
        let help = "write what changes from call to call under `arguments` of the route's `request`";
        report.error(Code::NotEvaluated.at(node.span), "the words of an upstream take no templates", help);
        return None;
    }
    let Expanded { text, foreign } = secret::expand(report, environment, node.span, &text)?;
    Some(Expanded { text: without_nul(report, node.span, text)?, foreign })
}

fn without_nul(report: &Report<'_>, span: Span, text: String) -> Option<String> {
    if text.contains('\0') {
        report.error(
            Code::InvalidValue.at(span),
            "a program can't be given the character NUL",
            "leave it out",
        );
        return None;
    }
    Some(text)
}

/// What is round a program.
struct Around {
    folder: Option<PathBuf>,
    environment: Vec<(String, String)>,
    secrets: Vec<String>,
}

impl Around {
    fn read(section: &Section<'_, '_>, environment: &Environment) -> Option<Self> {
        let report = section.report;
        let folder = section.text_node("cwd").map(|(node, text)| {
            let text = secret::expand(report, environment, node.span, text)?.text;
            let folder = absolute(report, node.span, &text)?;
            if !folder.is_dir() {
                let message = format!("there is no folder `{text}`");
                report.warning(Code::ProgramNotFound.at(node.span), message, "make it, or no call will work");
            }
            Some(folder)
        });
        let (variables, secrets) = variables(section, environment)?;
        let folder = match (folder, section.get("cwd")) {
            (Some(folder), _) => Some(folder?),
            (None, None) => None,
            (None, Some(_)) => return None,
        };
        Some(Self { folder, environment: variables, secrets })
    }

    /// Where a program is: a path from the root on; or as it was written, where it is nowhere yet.
    fn find(&self, report: &Report<'_>, span: Span, name: &str) -> Option<PathBuf> {
        if name.contains('/') {
            let path = absolute(report, span, name)?;
            let message = match std::fs::metadata(&path) {
                Err(error) => format!("the program `{name}` {}", source::why(&error)),
                Ok(metadata) if !is_program(&metadata) => {
                    format!("`{name}` is not a program that can be started")
                }
                Ok(_) => return Some(path),
            };
            report.warning(
                Code::ProgramNotFound.at(span),
                message,
                "correct the path, or `chmod +x` it; no call works before",
            );
            return Some(path);
        }
        let folders = self.environment.iter().find(|(known, _)| known == "PATH");
        let folders = folders.map_or(PATH_DEFAULT, |(_, folders)| folders);
        let found = folders.split(':').filter(|folder| folder.starts_with('/')).find_map(|folder| {
            let path = Path::new(folder).join(name);
            std::fs::metadata(&path).is_ok_and(|metadata| is_program(&metadata)).then_some(path)
        });
        if found.is_none() {
            let message = format!("there is no program `{name}` in {folders}");
            let help = "install it, or write its path from the root on; no call works before";
            report.warning(Code::ProgramNotFound.at(span), message, help);
        }
        Some(found.unwrap_or_else(|| name.into()))
    }
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

/// A path from the root on, or from the folder of the file that it is written in.
fn absolute(report: &Report<'_>, span: Span, text: &str) -> Option<PathBuf> {
    let path = Path::new(text);
    if path.is_absolute() {
        return Some(path.to_owned());
    }
    let folder = report.files().folder(span).and_then(|folder| std::path::absolute(folder.join(path)).ok());
    if folder.is_none() {
        let message = format!("`{text}` is not an absolute path, and there is no file it could lie beside");
        report.error(
            Code::InvalidValue.at(span),
            message,
            "write it from the root on: `/usr/local/bin/report`",
        );
    }
    folder
}

type Variables = Vec<(String, String)>;

/// All that a program sees: `PATH` and a locale, what is allowed by name, and what is set; and which of these
/// values are secrets.
fn variables(section: &Section<'_, '_>, environment: &Environment) -> Option<(Variables, Vec<String>)> {
    let report = section.report;
    let path = environment.get("PATH").filter(|path| !path.is_empty()).unwrap_or(PATH_DEFAULT);
    let mut variables =
        vec![("PATH".to_owned(), path.to_owned()), ("LC_ALL".to_owned(), Program::LOCALE_DEFAULT.to_owned())];
    let mut set = |name: &str, value: String| match variables.iter_mut().find(|(known, _)| known == name) {
        Some(known) => known.1 = value,
        None => variables.push((name.to_owned(), value)),
    };
    if section.get("env").is_none() {
        return Some((variables, Vec::new()));
    }
    let mut secrets = Vec::new();
    let before = report.errors();
    let own = section.section("env", &ENV)?;
    for (node, name) in own.texts("pass").unwrap_or_default() {
        if is_variable(report, node.span, name)
            && let Some(value) = environment.get(name)
        {
            if secret::is_secret_name(name) {
                secrets.push(value.to_owned());
            }
            set(name, value.to_owned());
        }
    }
    for Entry { key, value } in own.map("set").unwrap_or_default() {
        let is_good = is_variable(report, key.span, &key.text);
        let text = scalar(report, value, &format!("the variable `{}`", key.text))
            .and_then(|text| secret::expand_secret(report, environment, value.span, &text))
            .and_then(|Expanded { text, foreign }| Some((without_nul(report, value.span, text)?, foreign)));
        if let (true, Some((text, foreign))) = (is_good, text) {
            if foreign || secret::is_secret_name(&key.text) {
                secrets.push(text.clone());
            }
            set(&key.text, text);
        }
    }
    (report.errors() == before).then_some((variables, secrets))
}

fn is_variable(report: &Report<'_>, span: Span, name: &str) -> bool {
    let good = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
    if !good {
        let nearest = suggest::nearest(name, ["HOME", "TZ", "LANG"]).unwrap_or("HOME");
        let message = format!("`{name}` is not a variable name");
        report.error(
            Code::InvalidName.at(span),
            message,
            format!("write letters, digits and `_`: `{nearest}`"),
        );
    }
    good
}
