//! The reference in `config/` has every key, and what it shows is right.

use super::*;

/// The pages of the reference: those in `config/`, those of the extractors and those of the kinds of upstreams.
fn reference() -> Vec<PathBuf> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/config"));
    let entries = [folder.join("extractors"), folder.join("upstreams"), folder]
        .map(|folder| std::fs::read_dir(folder).unwrap());
    let paths = entries.into_iter().flatten().map(|entry| entry.unwrap().path());
    let mut pages: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect();
    pages.sort();
    pages
}

/// The table of a section, as the reference has it.
fn table(keys: &keys::Keys) -> String {
    let row = |key: &keys::Key| {
        format!(
            "| `{}` | {} | {} |\n",
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
    let mut shown = BTreeSet::new();
    for page in reference() {
        let written = std::fs::read_to_string(&page).unwrap();
        let expected = with_tables(&written, &mut shown);
        #[expect(clippy::disallowed_methods, reason = "a switch for whoever runs the tests")]
        if std::env::var("UPDATE_GOLDEN").is_ok() {
            std::fs::write(&page, &expected).unwrap();
            continue;
        }
        let page = page.display();
        assert!(written == expected, "{page} is behind the table of keys: run with UPDATE_GOLDEN=1");
    }
    let missing: Vec<_> =
        all_sections().iter().map(|section| section.id).filter(|id| !shown.contains(*id)).collect();
    assert!(missing.is_empty(), "the reference in config/ does not show {missing:?}");
}

/// A page with its tables as the keys have them.
fn with_tables(written: &str, shown: &mut BTreeSet<String>) -> String {
    let mut expected = String::new();
    let mut rest = written;
    while let Some(at) = rest.find("<!-- keys ") {
        let end = at + rest[at..].find("-->").unwrap() + 3;
        let id = rest[at + 10..end - 3].trim();
        let section = all_sections().into_iter().find(|section| section.id == id).unwrap();
        expected.push_str(&format!("{}\n\n{}\n", &rest[..end], table(section)));
        shown.insert(id.to_owned());
        rest = &rest[end + rest[end..].find("<!-- end -->").unwrap()..];
    }
    expected.push_str(rest);
    expected
}

/// Every section that can be reached from the root.
fn all_sections() -> Vec<&'static keys::Keys> {
    fn below(takes: keys::Takes, found: &mut Vec<&'static keys::Keys>) {
        match takes {
            keys::Takes::Section(keys) => visit(keys(), found),
            keys::Takes::List(inner) | keys::Takes::OneOrMore(inner) | keys::Takes::Map(inner) => {
                below(*inner, found)
            }
            keys::Takes::Either(kinds) => kinds.iter().for_each(|kind| below(*kind, found)),
            _ => {}
        }
    }
    fn visit(keys: &'static keys::Keys, found: &mut Vec<&'static keys::Keys>) {
        if !found.iter().any(|known| known.id == keys.id) {
            found.push(keys);
            keys.keys().for_each(|key| below(key.kind, found));
        }
    }
    let mut found = Vec::new();
    visit(&keys::FILE, &mut found);
    found
}

#[test]
fn the_examples_of_the_reference_load() {
    let written = std::fs::read_to_string(&reference()[0]).unwrap();
    let examples: Vec<_> =
        written.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(examples.len() >= 6);
    for example in examples {
        let loaded = loaded(example);
        assert!(loaded.warnings.is_empty(), "{example}\n{:?}", loaded.warnings);
    }
}

#[test]
fn the_files_beside_the_reference_load() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/config");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let sources = Sources { environment: Environment::default(), ..Sources::of_path(&path) };
            let loaded = load(&sources).unwrap_or_else(|problems| panic!("{problems}"));
            assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
        }
    }
}
