//! Tests that the reference in `config/book/reference` documents every key correctly.

use super::*;
use crate::settings::keys::TakesEffect;
use crate::settings::{KeySpec, KeyTable, ValueKind};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/config/book/reference");

/// Pages about a section of the file, by their names. Each shows whole files.
const CHAPTERS: [&str; 13] = [
    "configuration",
    "defaults",
    "passthrough",
    "requests",
    "resources",
    "responses",
    "routes",
    "rules",
    "schemas",
    "server",
    "sessions",
    "tests",
    "upstreams",
];

/// Pages of the reference, of the extractors, and of the kinds of upstreams.
fn reference() -> Vec<PathBuf> {
    let folder = PathBuf::from(FOLDER);
    let entries = [folder.join("extractors"), folder.join("upstreams"), folder]
        .map(|folder| std::fs::read_dir(folder).unwrap());
    let paths = entries.into_iter().flatten().map(|entry| entry.unwrap().path());
    let mut pages: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect();
    pages.sort();
    pages
}

/// Table of a section in the reference.
fn table(keys: &KeyTable) -> String {
    let row = |key: &KeySpec| {
        let restart = if key.takes_effect == Some(TakesEffect::OnRestart) { " Needs a restart." } else { "" };
        format!(
            "| `{}` | {} | {}{restart} |\n",
            key.name,
            key.kind.to_string().replace('|', "\\|"),
            key.full_description().replace('|', "\\|")
        )
    };
    let rows: String = keys.keys().map(row).collect();
    format!("| key | takes | |\n|---|---|---|\n{rows}")
}

#[test]
fn the_reference_has_every_key() {
    let mut documented = BTreeSet::new();
    for page in reference() {
        let actual = std::fs::read_to_string(&page).unwrap();
        let expected = with_tables(&actual, &mut documented);
        #[expect(
            clippy::disallowed_methods,
            reason = "an environment variable that is a switch of the tests"
        )]
        if std::env::var("UPDATE_GOLDEN").is_ok() {
            std::fs::write(&page, &expected).unwrap();
            continue;
        }
        let page = page.display();
        assert!(actual == expected, "{page} is behind the table of keys: run with UPDATE_GOLDEN=1");
    }
    let missing: Vec<_> =
        all_sections().iter().map(|section| section.id).filter(|id| !documented.contains(*id)).collect();
    assert!(missing.is_empty(), "the reference does not show {missing:?}");
}

/// Page with its tables generated from the keys.
fn with_tables(page: &str, documented: &mut BTreeSet<String>) -> String {
    let mut expected = String::new();
    let mut rest = page;
    while let Some(at) = rest.find("<!-- keys ") {
        let end = at + rest[at..].find("-->").unwrap() + 3;
        let id = rest[at + 10..end - 3].trim();
        let section = all_sections().into_iter().find(|section| section.id == id).unwrap();
        expected.push_str(&format!("{}\n\n{}\n", &rest[..end], table(section)));
        documented.insert(id.to_owned());
        rest = &rest[end + rest[end..].find("<!-- end -->").unwrap()..];
    }
    expected.push_str(rest);
    expected
}

/// All sections that can be reached from the root.
pub(super) fn all_sections() -> Vec<&'static KeyTable> {
    fn visit_kind(kind: ValueKind, found: &mut Vec<&'static KeyTable>) {
        match kind {
            ValueKind::Section(keys) => visit(keys(), found),
            ValueKind::List(inner) | ValueKind::OneOrMore(inner) | ValueKind::Map(inner) => {
                visit_kind(*inner, found)
            }
            ValueKind::Either(kinds) => kinds.iter().for_each(|kind| visit_kind(*kind, found)),
            _ => {}
        }
    }
    fn visit(keys: &'static KeyTable, found: &mut Vec<&'static KeyTable>) {
        if !found.iter().any(|known| known.id == keys.id) {
            found.push(keys);
            keys.keys().for_each(|key| visit_kind(key.kind, found));
        }
    }
    let mut found = Vec::new();
    visit(compile::FileSettings::keys(), &mut found);
    found
}

#[test]
fn the_examples_of_the_reference_load() {
    let pages = CHAPTERS.map(|chapter| std::fs::read_to_string(format!("{FOLDER}/{chapter}.md")).unwrap());
    let blocks = pages.iter().flat_map(|page| page.split("```yaml\n").skip(1));
    let examples: Vec<_> = blocks.map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(examples.len() >= 12, "examples are missing: found {}", examples.len());
    for example in examples {
        let loaded = loaded(example);
        assert!(loaded.warnings.is_empty(), "{example}\n{:?}", loaded.warnings);
    }
}

#[test]
fn the_example_files_load() {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/config"));
    let entries = [folder.join("examples"), folder].map(|folder| std::fs::read_dir(folder).unwrap());
    for entry in entries.into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let sources = Sources { environment: Environment::default(), ..Sources::from_path(&path) };
            let loaded = load(&sources).unwrap_or_else(|problems| panic!("{problems}"));
            assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
        }
    }
}

/// Documentation of each section: its name, and the link from the index of keys.
fn positions_of_sections() -> BTreeMap<String, (String, String)> {
    let mut positions = BTreeMap::new();
    for page in reference() {
        let text = std::fs::read_to_string(&page).unwrap();
        let name = page.strip_prefix(FOLDER).unwrap().display();
        let (mut heading, mut label, mut is_code) = (String::new(), String::new(), false);
        let page = page.file_stem().unwrap().to_str().unwrap();
        for line in text.lines() {
            is_code ^= line.starts_with("```");
            if let Some(id) = line.strip_prefix("<!-- keys ").and_then(|rest| rest.strip_suffix(" -->")) {
                let is_kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
                let anchor: String = heading.to_lowercase().chars().filter(is_kept).collect();
                let link = format!("{name}#{}", anchor.replace(' ', "-"));
                positions.insert(id.to_owned(), (label.clone(), link));
            } else if !is_code && line.starts_with('#') {
                heading = line.trim_start_matches('#').trim().to_owned();
                // The heading alone in a chapter, whose headings are sections.
                let plain = heading.replace('`', "");
                label = match (page, line.starts_with("# ")) {
                    (page, true) => page.to_owned(),
                    (page, false) if CHAPTERS.contains(&page) => plain,
                    (page, false) => format!("{page}: {plain}"),
                };
            }
        }
    }
    positions
}

/// Alphabetical index of keys, each with the sections that have it.
fn index_of_keys() -> String {
    let positions = positions_of_sections();
    let mut keys = BTreeMap::<_, BTreeSet<(String, String)>>::new();
    for section in all_sections() {
        for key in section.keys() {
            keys.entry(key.name).or_default().insert(positions[section.id].clone());
        }
    }
    let mut index = String::from(
        "# Keys from A to Z\n\nEvery key of the configuration, and where it is documented. This page is generated.\n",
    );
    let mut letter = None;
    for (key, sections) in keys {
        let first = key.chars().find(|c| c.is_alphabetic()).map(|c| c.to_ascii_uppercase());
        if first != letter {
            letter = first;
            index.push_str(&format!("\n## {}\n\n| key | in |\n|---|---|\n", first.unwrap_or('#')));
        }
        let links: Vec<_> = sections.iter().map(|(name, link)| format!("[{name}]({link})")).collect();
        index.push_str(&format!("| `{key}` | {} |\n", links.join(", ")));
    }
    index
}

#[test]
fn the_index_has_every_key() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/config/book/reference/keys.md");
    let expected = index_of_keys();
    #[expect(clippy::disallowed_methods, reason = "an environment variable that is a switch of the tests")]
    if std::env::var("UPDATE_GOLDEN").is_ok() {
        std::fs::write(page, &expected).unwrap();
        return;
    }
    let actual = std::fs::read_to_string(page).unwrap_or_default();
    assert!(actual == expected, "{page} is behind the keys: run with UPDATE_GOLDEN=1");
}
