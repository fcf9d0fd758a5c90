//! Problems as other programs read them: workflow commands of GitHub Actions, and SARIF.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use crate::settings::{Code, Problem, Severity};

/// A workflow command, which becomes an annotation of a line.
pub(super) fn github(problem: &Problem) -> String {
    let command = match problem.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "notice",
    };
    let (place, message) = match (problem.line, problem.column) {
        (Some(line), Some(column)) => {
            let place = format!("file={},line={line},col={column},", escape_property(&problem.file));
            (place, message(problem))
        }
        // A variable is not a file of the repository.
        _ => (String::new(), format!("{}: {}", problem.file, message(problem))),
    };
    format!("::{command} {place}title={}::{}", problem.code, escape_data(&message))
}

/// The message, with help below it.
fn message(problem: &Problem) -> String {
    match &problem.help {
        Some(help) => format!("{}\nhelp: {help}", problem.message),
        None => problem.message.clone(),
    }
}

fn escape_data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn escape_property(text: &str) -> String {
    escape_data(text).replace(':', "%3A").replace(',', "%2C")
}

/// A log of SARIF 2.1.0 with one run.
pub(super) fn sarif(problems: &[Problem]) -> Value {
    let mut codes: Vec<Code> = problems.iter().map(|problem| problem.code).collect();
    codes.sort_unstable();
    codes.dedup();
    let rules: Vec<Value> = codes.iter().map(|code| rule(*code)).collect();
    let results: Vec<Value> = problems.iter().map(|problem| result(problem, &codes)).collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "glossator",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            } },
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

fn rule(code: Code) -> Value {
    let mut rule = json!({
        "id": code,
        "name": code.name(),
        "shortDescription": { "text": code.summary() },
    });
    let explanation = code.explanation();
    if !explanation.is_empty() {
        rule["help"] = json!({ "text": explanation, "markdown": explanation });
    }
    rule
}

fn result(problem: &Problem, rules: &[Code]) -> Value {
    let location = match (problem.line, problem.column) {
        (Some(line), Some(column)) => json!({ "physicalLocation": {
            "artifactLocation": { "uri": uri_reference(&problem.file) },
            "region": { "startLine": line, "startColumn": column },
        } }),
        // A variable, a flag, or a file that cannot be read.
        _ => json!({ "logicalLocations": [{ "name": problem.file }] }),
    };
    json!({
        "ruleId": problem.code,
        "ruleIndex": rules.iter().position(|code| *code == problem.code),
        "level": problem.severity,
        "message": { "text": message(problem) },
        "locations": [location],
    })
}

/// A path as a URI reference (RFC 3986): everything else than its unreserved characters and `/` is encoded.
fn uri_reference(path: &str) -> String {
    const ENCODED: &AsciiSet =
        &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    utf8_percent_encode(path, ENCODED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Sources, load};

    #[track_caller]
    fn problems(name: &str, text: &str) -> Vec<Problem> {
        load(&Sources::from_text(name, text)).unwrap_err().as_slice().to_vec()
    }

    #[test]
    fn a_workflow_command_is_escaped() {
        let found = problems("a,b:c%.yaml", "routes: 3%\n");
        let expected =
            "::error file=a%2Cb%3Ac%25.yaml,line=1,col=9,title=G0104::`routes` must be a map, found `3%25`";
        let command = github(&found[0]);
        assert!(command.starts_with(expected), "{command}");
        assert!(command.contains("%0Ahelp: ") && !command.contains('\n'), "{command}");
    }

    #[test]
    fn a_sarif_result_has_rule_and_position() {
        let log = sarif(&problems("a b.yaml", "routes: 3\n"));
        let (run, result) = (&log["runs"][0], &log["runs"][0]["results"][0]);
        assert_eq!(run["tool"]["driver"]["rules"][0]["id"], "G0104");
        assert_eq!(
            (&result["ruleId"], &result["ruleIndex"], &result["level"]),
            (&json!("G0104"), &json!(0), &json!("error"))
        );
        let place = &result["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"]["uri"], "a%20b.yaml");
        assert_eq!(place["region"], json!({ "startLine": 1, "startColumn": 9 }));
    }
}
