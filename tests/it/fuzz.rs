//! The laws of `tests/fuzz`, applied to its corpus and to mutations of it: a short run of what `cargo fuzz`
//! does for hours, on every machine.
//!
//! `GLOSSATOR_FUZZ_ROUNDS` sets the number of mutations of each file, `GLOSSATOR_FUZZ_SEED` the random seed.
//! An input that breaks a law is saved under the target folder and its path is reported; add it to the
//! corpus.

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

#[path = "../fuzz/laws.rs"]
mod laws;

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fuzz/corpus");

/// Longest file of the corpus. Seeds are written and read by people.
const SEED_LIMIT_BYTES: u64 = 4 << 10;

/// Longest mutated input.
const INPUT_LIMIT_BYTES: usize = 64 << 10;

/// Timeout of one input in a debug build on a busy machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// Tokens with a meaning in the formats.
const WORDS: [&str; 44] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    "'",
    "<",
    ">",
    "&",
    ";",
    ":",
    ",",
    "|",
    "\t",
    "\r\n",
    "\n\n",
    "\0",
    "\u{feff}",
    "\\",
    "${A}",
    "{{",
    "}}",
    "{%",
    "&a",
    "*a",
    "<<: *a",
    "<!ENTITY a \"b\">",
    "]]>",
    "<![CDATA[",
    "&#x0;",
    "%2e%2e/",
    "%00",
    "//",
    "-1",
    "1e400",
    "99999999999999999999",
    "null",
    "HTTP/1.1 200 OK\r\n",
    "Content-Length: 5\n",
    "charset=utf-16",
    "+Inf",
    "é",
    "$ref",
    "\u{202e}",
];

fn number(name: &str, otherwise: u64) -> u64 {
    #[expect(clippy::disallowed_methods, reason = "an environment variable that is a switch of the tests")]
    let written = std::env::var(name).ok();
    written.and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn seeds(law: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let mut paths: Vec<PathBuf> = fs::read_dir(Path::new(CORPUS).join(law))
        .unwrap_or_else(|error| panic!("the law `{law}` has no corpus: {error}"))
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// Applies one or several mutations.
fn mutated(random: &mut fastrand::Rng, seed: &[u8], other: &[u8]) -> Vec<u8> {
    let mut input = seed.to_vec();
    for _ in 0..random.usize(1..=4) {
        let at = random.usize(..=input.len());
        let until = (at + random.usize(..32)).min(input.len());
        match random.u8(..7) {
            0 => drop(input.drain(at..until)),
            1 => {
                let again = input[at..until].repeat(random.usize(1..50));
                input.splice(at..at, again);
            }
            2 => {
                let word = WORDS[random.usize(..WORDS.len())];
                input.splice(at..at, word.bytes().collect::<Vec<_>>().repeat(random.usize(1..4)));
            }
            3 if at < input.len() => input[at] = random.u8(..),
            4 => input.truncate(at),
            5 => {
                let from = random.usize(..=other.len());
                input.splice(at..until, other[from..].to_vec());
            }
            _ if at < input.len() => input[at] ^= 1 << random.u8(..8),
            _ => {}
        }
    }
    input.truncate(INPUT_LIMIT_BYTES);
    input
}

fn check_law(law: laws::Law, input: &[u8]) -> Result<(), String> {
    let started = Instant::now();
    match catch_unwind(AssertUnwindSafe(|| law(input))) {
        Err(_) => Err("it panics; see above".to_owned()),
        Ok(()) if started.elapsed() > TEST_TIMEOUT => Err(format!("it takes {:?}", started.elapsed())),
        Ok(()) => Ok(()),
    }
}

#[track_caller]
fn check(name: &str) {
    let (_, law) = laws::LAWS.into_iter().find(|(known, _)| *known == name).unwrap();
    let seeds = seeds(name);
    assert!(seeds.len() >= 4, "the corpus of {name} is nearly empty");
    let (rounds, seed) = (number("GLOSSATOR_FUZZ_ROUNDS", 10), number("GLOSSATOR_FUZZ_SEED", 1));
    let mut random = fastrand::Rng::with_seed(seed);
    for (index, (path, text)) in seeds.iter().enumerate() {
        if let Err(why) = check_law(law, text) {
            panic!("{}: {why}", path.display());
        }
        for _ in 0..rounds {
            let (_, other) = &seeds[random.usize(..seeds.len())];
            let input = mutated(&mut random, text, other);
            if let Err(why) = check_law(law, &input) {
                let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{seed}-{index}"));
                fs::write(&kept, &input).unwrap();
                panic!(
                    "{name}: {why}; the input is in {}:\n{:?}",
                    kept.display(),
                    String::from_utf8_lossy(&input)
                );
            }
        }
    }
}

#[test]
fn every_cgi_environment_is_accepted_or_rejected_with_a_reason() {
    check("cgi");
}

#[test]
fn every_file_loads_or_has_problems() {
    check("configuration");
}

#[test]
fn every_request_is_answered() {
    check("http");
}

#[test]
fn every_proposal_loads() {
    check("infer");
}

#[test]
fn every_import_loads() {
    check("openapi");
}

#[test]
fn every_recording_is_parsed_or_rejected() {
    check("recording");
}

#[test]
fn every_response_is_translated() {
    check("translate");
}

#[test]
fn the_corpus_is_small_and_each_law_has_its_part_and_its_target() {
    let names = |path: &Path| {
        let mut names: Vec<String> = fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    };
    let laws: Vec<&str> = laws::LAWS.iter().map(|(name, _)| *name).collect();
    assert_eq!(names(Path::new(CORPUS)), laws);
    assert_eq!(names(&Path::new(CORPUS).with_file_name("targets")), laws);
    for law in laws {
        for entry in fs::read_dir(Path::new(CORPUS).join(law)).unwrap() {
            let entry = entry.unwrap();
            assert!(
                entry.metadata().unwrap().len() <= SEED_LIMIT_BYTES,
                "{} is long",
                entry.path().display()
            );
        }
    }
    let routes = include_str!("../fuzz/routes.yaml");
    for extractor in [
        "binary", "columns", "csv", "form", "grok", "header", "html", "json", "mcp", "metrics", "ndjson",
        "pairs", "regex", "text", "xml",
    ] {
        assert!(
            routes.contains(&format!("{extractor}:")) || routes.contains(&format!("extract: {extractor}")),
            "no route reads {extractor}"
        );
        let seeds = names(&Path::new(CORPUS).join("translate"));
        assert!(seeds.iter().any(|seed| seed.starts_with(extractor)), "no seed is for {extractor}");
    }
}
