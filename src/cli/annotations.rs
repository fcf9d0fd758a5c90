//! Problems as other programs read them: workflow commands of GitHub Actions, and SARIF.

use serde_json::{Map, Value, json};

use crate::config::{Code, Problem, Severity};

/// A workflow command, which becomes an annotation of a line.
pub(super) fn github(problem: &Problem) -> String {
    let command = match problem.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "notice",
    };
    let (place, mut message) = match (problem.line, problem.column) {
        (Some(line), Some(column)) => {
            let place = format!("file={},line={line},col={column},", escape_property(&problem.file));
            (place, problem.message.clone())
        }
        // A variable is not a file of the repository.
        _ => (String::new(), format!("{}: {}", problem.file, problem.message)),
    };
    if let Some(help) = &problem.help {
        message.push_str(&format!("\nhelp: {help}"));
    }
    format!("::{command} {place}title={}::{}", problem.code, escape_data(&message))
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
    let results: Vec<Value> = problems
        .iter()
        .map(|problem| {
            let index = codes.iter().position(|code| *code == problem.code);
            result(problem, index.unwrap_or_default())
        })
        .collect();
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

fn result(problem: &Problem, rule: usize) -> Value {
    let text = match &problem.help {
        Some(help) => format!("{}\nhelp: {help}", problem.message),
        None => problem.message.clone(),
    };
    let location = match (problem.line, problem.column) {
        (Some(line), Some(column)) => json!({ "physicalLocation": {
            "artifactLocation": { "uri": uri_reference(&problem.file) },
            "region": { "startLine": line, "startColumn": column },
        } }),
        // A variable, a flag, or a file that cannot be read.
        _ => json!({ "logicalLocations": [{ "name": problem.file }] }),
    };
    let level = match problem.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    };
    let mut result = Map::new();
    result.insert("ruleId".to_owned(), json!(problem.code));
    result.insert("ruleIndex".to_owned(), json!(rule));
    result.insert("level".to_owned(), json!(level));
    result.insert("message".to_owned(), json!({ "text": text }));
    result.insert("locations".to_owned(), json!([location]));
    Value::Object(result)
}

/// A path as a URI reference (RFC 3986): everything else than its unreserved characters and `/` is encoded.
fn uri_reference(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
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
