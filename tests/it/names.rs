//! Names of the code: a type name has one meaning in the crate, constructors have the usual names, and no
//! name has a word that the glossary replaces.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Declaration of an item.
#[derive(Debug, PartialEq)]
struct Declaration<'t> {
    kind: &'t str,
    name: &'t str,
    is_public: bool,
}

/// Types whose module's name says what they are for.
const SHARED_NAMES: [&str; 2] = ["Error", "Settings"];

/// Function names that say nothing, and the usual ones: `new`, `from_…`, `with_…`, `parse`.
const VAGUE_FUNCTIONS: [&str; 9] = ["of", "by", "at", "over", "tell", "told", "ask", "asked", "hand_on"];

/// Words with a standard term in their place, as parts of names. Some words that have a standard meaning as
/// well are not here: `head`, `peer`, `word`, `text`, `flag`, `rest`, `answer`, `shared`, `deadline`.
const REPLACED: [&str; 65] = [
    "anew",
    "apart",
    "ask",
    "asked",
    "asking",
    "asks",
    "away",
    "bell",
    "caller",
    "callers",
    "coding",
    "codings",
    "crowd",
    "door",
    "drain",
    "drained",
    "drains",
    "era",
    "eras",
    "face",
    "faces",
    "fault",
    "faults",
    "floor",
    "floors",
    "guard",
    "guards",
    "holds",
    "house",
    "insides",
    "job",
    "jobs",
    "leftover",
    "mended",
    "moment",
    "moments",
    "patience",
    "picture",
    "pictures",
    "place",
    "places",
    "question",
    "questions",
    "refuse",
    "refused",
    "refuses",
    "replies",
    "reply",
    "room",
    "rooms",
    "seal",
    "sealed",
    "sound",
    "sounds",
    "strange",
    "stranger",
    "strangers",
    "tell",
    "telling",
    "tells",
    "ticket",
    "told",
    "untaken",
    "veil",
    "vouched",
];

/// Phrases with a replaced word that are standard terms.
const TERMS: [&str; 4] = ["in_place", "floor_char_boundary", "transfer_coding", "right_away"];

fn declaration(line: &str) -> Option<Declaration<'_>> {
    let (mut rest, mut is_public) = (line.trim_start(), false);
    if let Some(after) = rest.strip_prefix("pub") {
        let after = match after.strip_prefix('(') {
            Some(scope) => scope.split_once(')')?.1,
            None => after,
        };
        (rest, is_public) = (after.strip_prefix(' ')?, true);
    }
    let mut words = rest.split(' ').skip_while(|word| matches!(*word, "const" | "async" | "unsafe"));
    let kind = words.next().filter(|word| {
        matches!(*word, "struct" | "enum" | "union" | "trait" | "type" | "fn" | "mod" | "macro_rules!")
    })?;
    let word = words.next()?;
    let end = word.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(word.len());
    (end > 0).then(|| Declaration { kind, name: &word[..end], is_public })
}

/// Paths, and texts, of all source files below these folders.
fn files(folders: &[&str]) -> Vec<(String, String)> {
    fn visit(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                visit(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = Vec::new();
    for folder in folders {
        visit(&root.join(folder), &mut paths);
    }
    paths.sort();
    let read = |path: PathBuf| {
        let name = path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
        (name, fs::read_to_string(&path).unwrap())
    };
    paths.into_iter().map(read).collect()
}

/// Words of a name, in lower case and separated by `_`.
fn snake_case(name: &str) -> String {
    let mut words = String::new();
    for (index, character) in name.char_indices() {
        let starts =
            character.is_uppercase() && !name[..index].ends_with(|c: char| c.is_uppercase() || c == '_');
        if index > 0 && starts {
            words.push('_');
        }
        words.extend(character.to_lowercase());
    }
    words
}

/// The first replaced word in a name.
fn replaced_word(name: &str) -> Option<&'static str> {
    let mut words = snake_case(name);
    for term in TERMS {
        words = words.replace(term, "");
    }
    let mut before = "";
    for word in words.split('_') {
        if let Some(replaced) = REPLACED.iter().find(|replaced| **replaced == word) {
            return Some(replaced);
        }
        if word == "breaker" && before != "circuit" {
            return Some("breaker");
        }
        before = word;
    }
    None
}

#[test]
fn a_public_type_name_has_one_meaning() {
    let files = files(&["src"]);
    let mut declared: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (path, text) in &files {
        for (index, line) in text.lines().enumerate() {
            let Some(found) = declaration(line) else { continue };
            // An indented `type` belongs to a trait.
            let is_type = !matches!(found.kind, "fn" | "mod" | "macro_rules!") && !line.starts_with(' ');
            if is_type && found.is_public && !SHARED_NAMES.contains(&found.name) {
                declared.entry(found.name).or_default().push(format!("{path}:{}", index + 1));
            }
        }
    }
    assert!(declared.len() > 300, "{}", declared.len());
    let twice: Vec<_> = declared.iter().filter(|(_, places)| places.len() > 1).collect();
    assert!(twice.is_empty(), "{twice:#?}");
}

#[test]
fn names_use_the_words_of_the_glossary() {
    let mut wrong = Vec::new();
    for (path, text) in files(&["src", "tests"]) {
        for (index, line) in text.lines().enumerate() {
            let Some(found) = declaration(line) else { continue };
            let vague = found.kind == "fn"
                && (VAGUE_FUNCTIONS.contains(&found.name) || found.name.starts_with("of_"));
            let word = replaced_word(found.name).or_else(|| vague.then_some("vague"));
            if let Some(word) = word {
                wrong.push(format!("{path}:{}: {} {} ({word})", index + 1, found.kind, found.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_reader_of_declarations_sees_every_form() {
    let found = |line| declaration(line).map(|found| (found.kind, found.name, found.is_public));
    assert_eq!(found("pub(crate) struct Url(String);"), Some(("struct", "Url", true)));
    assert_eq!(found("    pub async fn send<T>(&self) {"), Some(("fn", "send", true)));
    assert_eq!(found("pub(in crate::config) const fn limit() {"), Some(("fn", "limit", true)));
    assert_eq!(found("enum Kind<'t> {"), Some(("enum", "Kind", false)));
    assert_eq!(found("const LIMIT: usize = 1;"), None);
    assert_eq!(found("// fn comment()"), None);
    assert_eq!(snake_case("HttpUpstream"), "http_upstream");
    assert_eq!(replaced_word("CallerLimit"), Some("caller"));
    assert_eq!(replaced_word("CircuitBreaker"), None);
    assert_eq!(replaced_word("read_breaker"), Some("breaker"));
    assert_eq!(replaced_word("renamed_in_place"), None);
}
