//! Table of renamed keys, words of keys, variables of expressions, and flags.
//!
//! Each name has one row, from which come the error about the old name, the change that `glossator migrate`
//! makes, and the list in `config/book/reference/upgrading.md`. Only names that are no longer accepted have a
//! row.

use super::compile::FileSettings;
use crate::settings::layers::variable;
use crate::settings::{Code, KeySpec, KeyTable, Node, Report, Setting, SourceSpan, ValueKind, tree};

/// All renames.
#[derive(Debug)]
pub(super) struct Renames {
    pub(super) settings: &'static [RenamedSetting],
    /// Variables of jq (`$name`) and templates (`{{ name }}`): old name, new name.
    pub(super) variables: &'static [(&'static str, &'static str)],
}

/// Renamed key, or renamed word of a key.
#[derive(Debug)]
pub(super) struct RenamedSetting {
    /// Sections that have the key, by their identifiers in the schema.
    pub(super) sections: &'static [&'static str],
    /// Old key, or the key whose word was renamed.
    pub(super) key: &'static str,
    pub(super) now: Replacement,
}

/// Replacement of a name.
#[derive(Debug, Clone, Copy)]
pub(super) enum Replacement {
    /// New key. `mcp.name` is the key `name` of the nested section `mcp`.
    Key(&'static str),
    /// The key was removed; the help of the error.
    Removed(&'static str),
    /// A word of the key: old word, new word.
    Word(&'static str, &'static str),
}

/// All renames, in the order of `config/book/reference/upgrading.md`.
pub(super) static RENAMES: Renames = Renames {
    settings: &[
        row(&["admin"], "ready_needs", Replacement::Key("readiness_upstreams")),
        row(&["async_operation"], "poll", Replacement::Key("poll_interval")),
        row(&["async_operation"], "task", Replacement::Word("off", "forbidden")),
        row(&["async_operation"], "task", Replacement::Word("offered", "optional")),
        row(&["async_operation"], "task_asks", Replacement::Key("task_requests_input")),
        row(&["async_operation"], "task_life", Replacement::Key("task_ttl")),
        row(&["block"], "audio", Replacement::Word("reply", "response")),
        row(&["block"], "each", Replacement::Key("for_each")),
        row(&["block"], "image", Replacement::Word("reply", "response")),
        row(&["block"], "resource", Replacement::Word("reply", "response")),
        row(&["cache"], "force", Replacement::Key("ignore_cache_control")),
        row(&["circuit_breaker"], "failures", Replacement::Key("consecutive_failures")),
        row(&["circuit_breaker"], "rest", Replacement::Key("open_for")),
        row(&["client"], "keys", Replacement::Key("api_key_hashes")),
        row(&["client"], "subjects", Replacement::Key("jwt_subjects")),
        row(&["columns"], "first", Replacement::Key("first_column")),
        row(&["columns"], "from", Replacement::Key("start_at")),
        row(&["columns"], "until", Replacement::Key("stop_before")),
        row(&["columns", "csv"], "uneven", Replacement::Key("ragged_rows")),
        row(&["defaults", "override", "route", "rules", "tools"], "reply", Replacement::Key("response")),
        row(&["defaults", "override", "route", "upstream"], "deadline", Replacement::Key("timeout")),
        row(&["defaults", "route"], "error_status", Replacement::Word("ok", "always_200")),
        row(&["defaults", "route"], "error_status", Replacement::Word("truthful", "mapped")),
        row(POLICIES, "breaker", Replacement::Key("circuit_breaker")),
        row(POLICIES, "caller_rate", Replacement::Key("rate_limit_per_client")),
        row(POLICIES, "rate", Replacement::Key("rate_limit")),
        row(&["defaults", "route", "upstream"], "reply_limit", Replacement::Key("response_limit")),
        row(&["defaults", "route", "upstream"], "value_limit", Replacement::Key("max_values")),
        row(&["defaults", "upstream"], "caller_in_flight", Replacement::Key("max_in_flight_per_client")),
        row(&["defaults", "upstream"], "in_flight", Replacement::Key("max_in_flight")),
        row(&["env"], "allow", Replacement::Key("pass")),
        row(&["example"], "answers", Replacement::Key("input_responses")),
        row(&["example"], "given", Replacement::Key("response")),
        row(&["example_response"], "type", Replacement::Key("content_type")),
        row(&["example_response", "when"], "exit", Replacement::Key("exit_status")),
        row(&["extract"], "of", Replacement::Key("source")),
        row(&["field"], "clock", Replacement::Key("clock_format")),
        row(&["field"], "decimal", Replacement::Key("decimal_separator")),
        row(&["field"], "false", Replacement::Key("false_values")),
        row(&["field"], "in", Replacement::Key("output_unit")),
        row(&["field"], "kilo", Replacement::Key("kilo_base")),
        row(&["field"], "null", Replacement::Key("null_values")),
        row(&["field"], "thousands", Replacement::Key("thousands_separator")),
        row(&["field"], "true", Replacement::Key("true_values")),
        row(&["field"], "unit", Replacement::Key("input_unit")),
        row(&["field"], "zone", Replacement::Key("timezone")),
        row(&["file"], "shared", Replacement::Key("shared_state")),
        row(&["form_field"], "several", Replacement::Key("multiple")),
        row(&["health_check"], "failures", Replacement::Key("unhealthy_threshold")),
        row(&["html", "xml"], "each", Replacement::Key("items")),
        row(&["jwt"], "leeway", Replacement::Key("clock_skew")),
        row(&["limit"], "of", Replacement::Key("path")),
        row(&["mcp_child", "upstream"], "environment", Replacement::Key("env")),
        row(&["oauth"], "auth_style", Replacement::Key("client_auth_method")),
        row(&["oauth"], "client_auth_method", Replacement::Word("basic", "client_secret_basic")),
        row(&["oauth"], "client_auth_method", Replacement::Word("post", "client_secret_post")),
        row(&["outlier_detection"], "failures", Replacement::Key("consecutive_failures")),
        row(&["outlier_detection"], "longest_rest", Replacement::Key("max_ejection_time")),
        row(&["outlier_detection"], "rest", Replacement::Key("base_ejection_time")),
        row(&["override", "route"], "repeatable", Replacement::Key("idempotent")),
        row(&["prompt", "route"], "answer_within", Replacement::Key("input_timeout")),
        row(&["prompt", "route"], "ask", Replacement::Key("input_requests")),
        row(&["prompt_argument", "route"], "complete", Replacement::Key("completions")),
        row(&["rate_limit"], "limit", Replacement::Key("rate")),
        row(&["rate_limit"], "without_store", Replacement::Key("on_store_failure")),
        row(&["rate_limit"], "on_store_failure", Replacement::Word("refuse", "deny")),
        row(&["read_as"], "watch", Replacement::Key("poll_interval")),
        row(&["request"], "options_from", Replacement::Key("leading_dash_arguments")),
        row(&["retry"], "attempts", Replacement::Key("max_attempts")),
        row(&["retry"], "backoff", Replacement::Key("initial_backoff")),
        row(&["retry"], "longest_wait", Replacement::Key("max_backoff")),
        row(&["route"], "trace_context", Replacement::Key("propagate_trace_context")),
        row(&["route"], "default_reply", Replacement::Key("default_rules")),
        row(&["route"], "async_operation", Replacement::Word("follow", "follow_location")),
        row(&["route"], "job", Replacement::Key("async_operation")),
        row(&["route"], "log", Replacement::Key("notifications")),
        row(&["route"], "otherwise", Replacement::Key("on_no_match")),
        row(&["route"], "wrap", Replacement::Key("wrap_non_objects")),
        row(&["route"], "wrap_non_objects", Replacement::Word("older", "legacy_clients")),
        row(&["server"], "answers_limit", Replacement::Key("response_buffer_limit")),
        row(&["server"], "bodies_limit", Replacement::Key("request_buffer_limit")),
        row(&["server"], "caller_streams", Replacement::Key("max_streams_per_client")),
        row(&["server"], "connections", Replacement::Key("max_connections")),
        row(&["server"], "direct_path", Replacement::Removed(NO_DIRECT_PATH)),
        row(&["server"], "drain", Replacement::Key("shutdown_timeout")),
        row(&["server"], "instructions", Replacement::Key("mcp.instructions")),
        row(&["server"], "list_ttl", Replacement::Key("mcp.list_ttl")),
        row(&["server"], "name", Replacement::Key("mcp.name")),
        row(&["server"], "page_size", Replacement::Key("mcp.page_size")),
        row(&["server"], "peer", Replacement::Key("advertise_url")),
        row(&["server"], "resume", Replacement::Key("stream_resume_timeout")),
        row(&["server"], "secret", Replacement::Key("secret_key")),
        row(&["server"], "stream_life", Replacement::Key("max_stream_duration")),
        row(&["server"], "streams", Replacement::Key("max_streams")),
        row(&["server"], "title", Replacement::Key("mcp.title")),
        row(&["server"], "watch", Replacement::Key("reload_interval")),
        row(&["server_auth"], "servers", Replacement::Key("authorization_servers")),
        row(&["server_auth"], "tokens", Replacement::Key("jwt")),
        row(&["telemetry"], "attributes", Replacement::Key("resource_attributes")),
        row(&["telemetry"], "metrics", Replacement::Key("metrics_interval")),
        row(&["telemetry"], "ratio", Replacement::Key("sampling_ratio")),
        row(&["telemetry"], "service", Replacement::Key("service_name")),
        row(&["tools"], "refresh", Replacement::Key("refresh_interval")),
        row(&["upstream"], "auth", Replacement::Key("credentials")),
        row(&["upstream"], "dns_refresh", Replacement::Key("dns_refresh_interval")),
        row(&["upstream"], "ejection", Replacement::Key("outlier_detection")),
        row(&["upstream"], "health", Replacement::Key("health_check")),
        row(&["upstream"], "redirects", Replacement::Key("max_redirects")),
        row(&["xml"], "pick", Replacement::Key("path")),
    ],
    variables: &[("answers", "input_responses"), ("exit", "exit_status")],
};

const NO_DIRECT_PATH: &str = "remove it: glossator selects the direct path whenever the result is the same";

/// Sections that have policies.
const POLICIES: &[&str] = &["defaults", "route", "upstream"];

const fn row(sections: &'static [&'static str], key: &'static str, now: Replacement) -> RenamedSetting {
    RenamedSetting { sections, key, now }
}

/// Command-line flags: old name, new name.
static FLAGS: &[(&str, &str)] =
    &[("--exit", "--exit-status"), ("--reply", "--response"), ("--type", "--content-type")];

/// New name of a flag.
pub fn renamed_flag(flag: &str) -> Option<&'static str> {
    FLAGS.iter().find(|(was, _)| *was == flag).map(|(_, now)| *now)
}

impl Renames {
    /// Replacement of a key of a section.
    pub(super) fn key(&self, section: &str, key: &str) -> Option<Replacement> {
        self.targets(section, key).find(|now| !matches!(now, Replacement::Word(..)))
    }

    /// New name of a word of a key.
    pub(super) fn word(&self, section: &str, key: &str, word: &str) -> Option<&'static str> {
        self.targets(section, key).find_map(|now| match now {
            Replacement::Word(was, now) if was == word => Some(now),
            Replacement::Key(_) | Replacement::Removed(_) | Replacement::Word(..) => None,
        })
    }

    fn targets(&self, section: &str, key: &str) -> impl Iterator<Item = Replacement> {
        let rows = self.settings.iter().filter(move |row| row.sections.contains(&section) && row.key == key);
        rows.map(|row| row.now)
    }

    /// Environment variables of renamed keys: old name, new name if there is one, and help.
    pub(super) fn environment(&self) -> impl Iterator<Item = (String, Option<String>, &'static str)> {
        /// Sections whose keys have environment variables.
        const PROCESS: [&str; 5] = ["server", "admin", "log", "telemetry", "shared_state"];
        self.settings.iter().flat_map(|row| {
            let sections = row.sections.iter().filter(|section| PROCESS.contains(section));
            sections.filter_map(|section| {
                let (now, help) = match row.now {
                    Replacement::Key(path) => (Some(variable(&format!("{section}.{path}"))), ""),
                    Replacement::Removed(help) => (None, help),
                    Replacement::Word(..) => return None,
                };
                Some((variable(&format!("{section}.{}", row.key)), now, help))
            })
        })
    }

    /// Reports a renamed key; returns `false` for any other key. `title` is the name of the section in
    /// messages.
    pub(super) fn report_key(
        &self,
        report: &Report<'_>,
        key: &tree::Key,
        section: &str,
        title: &str,
    ) -> bool {
        let name = &key.text;
        match self.key(section, name) {
            Some(Replacement::Key(now)) => {
                report_renamed(report, key.span, &format!("`{name}` in {title}"), now);
            }
            Some(Replacement::Removed(help)) => {
                let message = format!("`{name}` in {title} was removed");
                report.error(Code::RenamedKey.at_span(key.span), message, help);
            }
            Some(Replacement::Word(..)) | None => return false,
        }
        true
    }
}

/// Reports a renamed word of a key; returns `false` for any other value.
pub(super) fn report_word(report: &Report<'_>, node: &Node, section: &str, key: &str) -> bool {
    let Some(was) = node.scalar() else { return false };
    let Some(now) = RENAMES.word(section, key, &was) else { return false };
    report_renamed(report, node.span, &format!("`{was}` of `{key}`"), now);
    true
}

fn report_renamed(report: &Report<'_>, span: SourceSpan, old: &str, now: &str) {
    let message = format!("{old} was renamed to `{now}`");
    let help = format!("write `{now}`, or run `glossator migrate`");
    report.error(Code::RenamedKey.at_span(span), message, help);
}

/// Message and help for the old name of an environment variable.
pub(super) fn renamed_variable(name: &str) -> Option<(String, String)> {
    let (_, now, help) = RENAMES.environment().find(|(was, ..)| was == name)?;
    Some(match now {
        Some(now) => (format!("this variable was renamed to `{now}`"), format!("set `{now}`")),
        None => ("this variable has no effect: its setting was removed".to_owned(), help.to_owned()),
    })
}

/// Resolves a path in a section to a key and the section that has it: `mcp.name` is `name` of `mcp`.
pub(super) fn key_at(keys: &'static KeyTable, path: &str) -> Option<(&'static KeyTable, &'static KeySpec)> {
    match path.split_once('.') {
        None => Some((keys, keys.get(path)?)),
        Some((outer, inner)) => key_at(section_of(keys.get(outer)?.kind)?, inner),
    }
}

/// Section that a key accepts, possibly beside a short form.
pub(super) fn section_of(kind: ValueKind) -> Option<&'static KeyTable> {
    match kind {
        ValueKind::Section(keys) => Some(keys()),
        ValueKind::Either(kinds) => kinds.iter().find_map(|kind| section_of(*kind)),
        _ => None,
    }
}

/// Tables of all sections of the file, the top level first.
pub(super) fn sections() -> Vec<fn() -> &'static KeyTable> {
    fn add(kind: ValueKind, all: &mut Vec<fn() -> &'static KeyTable>) {
        match kind {
            ValueKind::Section(keys) if !all.iter().any(|known| std::ptr::eq(known(), keys())) => {
                all.push(keys);
                keys().keys().for_each(|key| add(key.kind, all));
            }
            ValueKind::List(item) | ValueKind::OneOrMore(item) | ValueKind::Map(item) => add(*item, all),
            ValueKind::Either(kinds) => kinds.iter().for_each(|kind| add(*kind, all)),
            _ => {}
        }
    }
    let mut all = Vec::new();
    add(FileSettings::KIND, &mut all);
    all
}

#[cfg(test)]
mod tests {
    use super::super::{file, section::open, server::ServerSettings};
    use super::*;
    use crate::settings::{Section as _, report::reading};

    fn problems(text: &str, renames: &Renames) -> String {
        let (_, problems) = reading(text, |report| {
            let root = file::read(report, 0).unwrap();
            let keys = ServerSettings::keys();
            for entry in root.get("server").and_then(Node::as_map).unwrap() {
                assert!(renames.report_key(report, &entry.key, keys.id, keys.section));
            }
        });
        problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_error_about_a_renamed_key_names_the_new_one() {
        const RENAMED: &[RenamedSetting] =
            &[RenamedSetting { sections: &["server"], key: "bind", now: Replacement::Key("listen") }];
        let renames = Renames { settings: RENAMED, variables: &[] };
        let said = problems("server:\n  bind: 127.0.0.1:80\n", &renames);
        assert!(said.contains(":2:3: error[G0102]: `bind` in `server` was renamed to `listen`"), "{said}");
        assert!(said.contains("help: write `listen`"), "{said}");
    }

    #[test]
    fn a_renamed_key_is_no_key_and_its_new_name_is_one() {
        let all: Vec<_> = sections().into_iter().map(|keys| keys()).collect();
        for RenamedSetting { sections, key, now } in RENAMES.settings {
            for section in *sections {
                let found: Vec<_> = all.iter().filter(|keys| keys.id == *section).collect();
                assert!(!found.is_empty(), "there is no section {section}");
                for keys in found {
                    match *now {
                        Replacement::Key(now) => {
                            assert!(keys.get(key).is_none(), "{section}.{key}");
                            assert!(key_at(keys, now).is_some(), "{section}.{now}");
                        }
                        Replacement::Removed(_) => assert!(keys.get(key).is_none(), "{section}.{key}"),
                        Replacement::Word(was, now) => {
                            assert_ne!(was, now);
                            let kind = keys.get(key).unwrap_or_else(|| panic!("{section}.{key}")).kind;
                            assert!(
                                !kind.to_string().contains(&format!("`{was}`")),
                                "{section}.{key}: {was}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn the_page_about_upgrading_lists_every_renamed_key() {
        let page = include_str!("../../config/book/reference/upgrading.md");
        let (_, table) = page.split_once("<!-- former keys -->").unwrap();
        let (table, _) = table.split_once("<!-- end -->").unwrap();
        let mut expected = String::from("\n\n| section | key | now |\n|---|---|---|\n");
        for RenamedSetting { sections, key, now } in RENAMES.settings {
            let sections: Vec<_> = sections.iter().map(|section| format!("`{section}`")).collect();
            let (key, now) = match now {
                Replacement::Key(now) => (format!("`{key}`"), format!("`{now}`")),
                Replacement::Removed(help) => (format!("`{key}`"), format!("gone: {help}")),
                Replacement::Word(was, now) => (format!("`{key}: {was}`"), format!("`{key}: {now}`")),
            };
            expected += &format!("| {} | {key} | {now} |\n", sections.join(", "));
        }
        assert_eq!(table, expected + "\n");
    }

    #[test]
    fn a_renamed_key_is_reported_by_the_reader_of_sections() {
        let (_, problems) = reading("server: { direct_path: off }", |report| {
            let root = file::read(report, 0).unwrap();
            let server = root.get("server").unwrap();
            let _ = open::<ServerSettings>(report, server.span, server);
        });
        assert!(problems[0].to_string().contains("`direct_path` in `server` was removed"), "{problems:?}");
    }
}
