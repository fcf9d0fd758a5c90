//! Links between the pages of this repository lead to a file, and to a heading in it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Component, Path, PathBuf},
};

use regex::Regex;

/// Folders with pages, searched recursively.
const FOLDERS: [&str; 4] = ["README.md", "config", "deploy", "src"];

#[test]
fn every_link_of_every_page_leads_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages = BTreeMap::new();
    for path in FOLDERS {
        gather(&root.join(path), &mut pages);
    }
    assert!(pages.len() >= 30, "pages are missing: found {}", pages.len());
    let anchors: BTreeMap<_, _> = pages.iter().map(|(path, text)| (path.clone(), anchors_of(text))).collect();
    let (mut broken, mut with_anchor) = (Vec::new(), 0);
    for (path, text) in &pages {
        for link in links_of(text) {
            let (to, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if to.is_empty() { path.clone() } else { plain(&path.parent().unwrap().join(to)) };
            with_anchor += usize::from(!anchor.is_empty());
            let leads = match (anchor, anchors.get(&target)) {
                ("", _) => target.exists(),
                (anchor, Some(anchors)) => anchors.contains(anchor),
                (_, None) => false,
            };
            if !leads {
                broken.push(format!("{}: {link}", path.strip_prefix(root).unwrap().display()));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
    assert!(with_anchor >= 50, "links are not found any more: {with_anchor}");
}

/// Collects the pages at a path, without their code blocks.
fn gather(path: &Path, pages: &mut BTreeMap<PathBuf, String>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            gather(&entry.unwrap().path(), pages);
        }
    } else if path.extension().is_some_and(|extension| extension == "md") {
        pages.insert(path.to_owned(), prose_of(&fs::read_to_string(path).unwrap()));
    }
}

fn prose_of(page: &str) -> String {
    let mut fence: Option<&str> = None;
    let mut prose = String::new();
    for line in page.lines() {
        let begin = line.trim_start();
        match fence {
            Some(open) if begin.starts_with(open) => fence = None,
            Some(_) => {}
            None => match ["```", "~~~"].into_iter().find(|mark| begin.starts_with(mark)) {
                Some(mark) => fence = Some(mark),
                None => {
                    prose.push_str(line);
                    prose.push('\n');
                }
            },
        }
    }
    prose
}

/// Anchors of a page: its headings as GitHub and GitLab name them.
fn anchors_of(page: &str) -> BTreeSet<String> {
    let mut counts = BTreeMap::<String, usize>::new();
    let mut anchors = BTreeSet::new();
    let link = Regex::new(r"\[([^\]]*)\]\([^)]*\)").unwrap();
    for line in page.lines() {
        let hashes = line.len() - line.trim_start_matches('#').len();
        let Some(heading) = line[hashes..].strip_prefix(' ').filter(|_| (1..=6).contains(&hashes)) else {
            continue;
        };
        let heading = link.replace_all(heading, "$1").to_lowercase();
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        let anchor: String = heading.trim().chars().filter(kept).collect();
        let anchor = anchor.replace(' ', "-");
        let count = counts.entry(anchor.clone()).or_default();
        anchors.insert(if *count == 0 { anchor } else { format!("{anchor}-{count}") });
        *count += 1;
    }
    anchors
}

/// Links of a page to other files of the repository.
fn links_of(page: &str) -> Vec<String> {
    let code = Regex::new("`[^`\n]*`").unwrap();
    let link = Regex::new(r"\]\(([^)\s]+)\)").unwrap();
    let elsewhere = Regex::new("^[a-z]+:").unwrap();
    let page = code.replace_all(page, "");
    let links = link.captures_iter(&page).map(|found| found[1].to_owned());
    links.filter(|link| !elsewhere.is_match(link)).collect()
}

/// Path without `..`, as a file is named.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

#[test]
fn an_anchor_is_derived_from_its_heading() {
    let page = prose_of(
        "# `expect`: What, then?\n```\n# no heading\n```\n## A\n## A\n[x](b.md#c) `[y](z)` [z](https://a.test)",
    );
    assert_eq!(anchors_of(&page).into_iter().collect::<Vec<_>>(), ["a", "a-1", "expect-what-then"]);
    assert_eq!(links_of(&page), ["b.md#c"]);
}
