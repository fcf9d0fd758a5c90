//! The pages use the terms of the field: no word that the glossary replaces is in their prose, and no heading
//! or sentence begins with a clause as a noun ("What is kept: …").
//!
//! Code, HTML tags, and targets of links are no prose.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use regex::Regex;

/// Words with a standard term in their place, as regular expressions, and that term. Words that have a
/// meaning of their own in plain English as well, such as `answer`, `deadline` and `place`, are not here.
const REPLACED: &[(&str, &str)] = &[
    ("repl(y|ies|ied|ying)", "response"),
    ("callers?", "client"),
    ("whoever", "client"),
    ("asks|asked|asking", "request"),
    ("tells?|told|telling", "report, notification"),
    ("(kept|old|strange) (reply|replies|response|responses)", "cached, stale or unmatched response"),
    ("strangers?|strange", "unmatched"),
    ("not understood", "unparseable"),
    ("left alone", "circuit breaker, open"),
    ("ejection rest", "base ejection time"),
    ("left out", "ejected, omitted"),
    ("to be tried", "probing"),
    ("turn(s|ed|ing)? away", "rejected"),
    ("let(s|ting)? in", "admitted"),
    ("ma(ke|kes|de|king) room", "evict"),
    ("hand(s|ed|ing)? (through|on)", "passthrough, forward"),
    ("drain(s|ed|ing)?", "graceful shutdown"),
    ("workbench", "playground"),
    ("operators.? (port|page)s?", "admin API, admin UI"),
    ("in force", "active"),
    ("anew", "again, reloaded"),
    ("sealed", "encrypted"),
    ("vouch(ed|es)?", "signed, trusted"),
    ("told apart", "tracked separately"),
    ("made anew|mended", "recreated, fixed"),
    ("faces?", "API"),
    ("rooms?|houses?|doors?", "module"),
    ("guards?", "policy"),
    ("eras?", "protocol revision"),
    ("crowds?|patience|untaken|leftovers?", "the standard term"),
    ("pictures?|sounds?", "image, audio"),
];

/// Phrases with a word of [`REPLACED`] that readers search for. A page has them beside the standard term.
const SEARCHED: [&str; 2] = ["connection draining", "drain, draining"];

/// The expressions of [`REPLACED`], compiled once: a debug build takes long for each.
static REPLACED_EXPRESSIONS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let compile = |words: &str| Regex::new(&format!(r"(?i)\b({})\b", words.replace(' ', r"\s+"))).unwrap();
    REPLACED.iter().map(|(words, term)| (compile(words), *term)).collect()
});

static BREAKER: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?i)(\w+)\s+breakers?\b").unwrap());
static CODE: LazyLock<Regex> = LazyLock::new(|| Regex::new("``[^`]+``|`[^`]*`").unwrap());
static LINK_TARGET: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\]\([^)]*\)").unwrap());
static TAG: LazyLock<Regex> = LazyLock::new(|| Regex::new("<[^>\n]*>").unwrap());
static CLAUSE_AS_NOUN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?m)(^[ \t]*([-*] |\d+\. |#+ |\| )?|[.!?:|] |\*\*)(What|Whatever|Who|Whom|Whoever|Whose)\b")
        .unwrap()
});

/// Headings that begin with "How" and no other: they name an explanation.
const HOW: [&str; 3] = ["How a call flows", "How rules are chosen", "How-to guides"];

/// The pages that users read, with their text.
fn pages() -> BTreeMap<PathBuf, String> {
    fn add(place: &Path, pages: &mut BTreeMap<PathBuf, String>) {
        if place.is_dir() {
            for entry in fs::read_dir(place).unwrap() {
                add(&entry.unwrap().path(), pages);
            }
        } else if place.extension().is_some_and(|extension| extension == "md") {
            pages.insert(place.to_owned(), fs::read_to_string(place).unwrap());
        }
    }
    let mut pages = BTreeMap::new();
    for place in ["README.md", "config", "deploy"] {
        add(&Path::new(env!("CARGO_MANIFEST_DIR")).join(place), &mut pages);
    }
    assert!(pages.len() > 80, "pages are missing: found {}", pages.len());
    pages
}

/// The prose of a page, line by line as on the page: without blocks of code, tags and targets of links, and
/// with `…` for code.
fn prose(page: &str) -> String {
    let mut fence = None;
    let mut prose = String::new();
    for line in page.lines() {
        let begin = line.trim_start();
        match fence {
            Some(open) if begin.starts_with(open) => fence = None,
            Some(_) => {}
            None => match ["```", "~~~"].into_iter().find(|mark| begin.starts_with(mark)) {
                Some(mark) => fence = Some(mark),
                None if begin.starts_with("<!--") => {}
                None => prose.push_str(line),
            },
        }
        prose.push('\n');
    }
    // Line breaks stay, so that a place is found again.
    let breaks = |found: &regex::Captures<'_>| "…".to_owned() + &"\n".repeat(found[0].matches('\n').count());
    let prose = CODE.replace_all(&prose, breaks);
    TAG.replace_all(&LINK_TARGET.replace_all(&prose, "]"), "").into_owned()
}

fn line_at(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// Words of a text that have a standard term, each with its line and that term.
fn replaced_words(prose: &str) -> Vec<String> {
    let prose = &SEARCHED.iter().fold(prose.to_owned(), |prose, phrase| prose.replace(phrase, "…"));
    let mut found = Vec::new();
    for (words, term) in REPLACED_EXPRESSIONS.iter() {
        for word in words.find_iter(prose) {
            found.push(format!("{}: `{}`, say {term}", line_at(prose, word.start()), word.as_str()));
        }
    }
    for word in BREAKER.captures_iter(prose).filter(|word| !word[1].eq_ignore_ascii_case("circuit")) {
        found.push(format!(
            "{}: `{}`, say circuit breaker",
            line_at(prose, word.get(0).unwrap().start()),
            &word[0]
        ));
    }
    found
}

/// Headings and sentences that begin with a clause as a noun, each with its line.
fn noun_clauses(prose: &str) -> Vec<String> {
    let mut found = Vec::new();
    for clause in CLAUSE_AS_NOUN.captures_iter(prose) {
        let at = clause.get(3).unwrap().start();
        // A question may begin so.
        let sentence = prose[at..].split(['.', '!', '?', '|']).next().unwrap();
        let is_question = prose[at + sentence.len()..].starts_with('?');
        // The beginning of a line may be the middle of a sentence.
        let is_middle =
            clause[1].trim().is_empty() && !begins_paragraph(prose, clause.get(1).unwrap().start());
        if !is_question && !is_middle {
            found.push(format!("{}: {}", line_at(prose, at), sentence.lines().next().unwrap()));
        }
    }
    for (number, line) in prose.lines().enumerate() {
        let heading = line.trim_start_matches('#').trim();
        if line.starts_with('#')
            && heading.starts_with("How")
            && !HOW.contains(&heading)
            && !heading.starts_with("How to")
        {
            found.push(format!("{}: {heading}", number + 1));
        }
    }
    found
}

/// Whether the line at a position follows an empty one or a sentence that has ended.
fn begins_paragraph(prose: &str, at: usize) -> bool {
    let before = prose[..at].trim_end_matches(' ');
    before.is_empty() || before.ends_with("\n\n") || before.trim_end().ends_with(['.', '!', '?', ':'])
}

#[test]
fn the_pages_use_the_terms_of_the_glossary() {
    let mut found = Vec::new();
    for (path, page) in pages() {
        let prose = prose(&page);
        let shown = path.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap().display().to_string();
        for problem in replaced_words(&prose).into_iter().chain(noun_clauses(&prose)) {
            found.push(format!("{shown}:{problem}"));
        }
    }
    assert!(found.is_empty(), "see config/book/explanation/glossary.md:\n{}", found.join("\n"));
}

#[test]
fn words_are_found_in_prose_and_not_in_code() {
    let page = "# What, then?\nThe reply of a\ncircuit\nbreaker, `reply`, [it](reply.md), <reply>.\n```\nreply\n```\nA breaker.\n";
    let prose = prose(page);
    assert_eq!(replaced_words(&prose), ["2: `reply`, say response", "8: `A breaker`, say circuit breaker"]);
    assert_eq!(noun_clauses(&prose), [""; 0]);
}

#[test]
fn a_clause_as_a_noun_is_found_at_the_beginning_of_a_sentence() {
    let found = noun_clauses(
        "## What is kept\n\nWho shows nothing gets 401. It says\nwhat it is.\n- Whoever asks.\n",
    );
    assert_eq!(found, ["1: What is kept", "3: Who shows nothing gets 401", "5: Whoever asks"]);
    assert_eq!(
        noun_clauses("## How it ends\n# How a call flows\nIt says\nWhat follows.\n"),
        ["1: How it ends"]
    );
}
