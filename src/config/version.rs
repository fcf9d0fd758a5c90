//! `version`: which language a file is written in, and the keys that earlier programs took.

use super::{
    node::{Key, Kind, Node},
    report::Report,
};

/// The key.
pub(super) const KEY: &str = "version";
/// The version that this program reads. It goes up when a file means something else than it did.
pub(super) const VERSION: u64 = 1;

/// A key that an earlier program took. A file that has it is told the new name, and never taken for something else.
struct Former {
    /// The section, by the name that its keys have in the schema.
    section: &'static str,
    name: &'static str,
    /// What it is called now; nothing where it is gone.
    now: Option<&'static str>,
    /// What to do, where a new name does not say it.
    help: Option<&'static str>,
}

/// All of them, as `config/upgrading.md` lists them.
const FORMER: &[Former] = &[Former {
    section: "server",
    name: "direct_path",
    now: None,
    help: Some("leave it out: calls take the short way whenever it gives the same answer"),
}];

/// Refuses files of another version, before anything else is said of them: what is wrong with their keys may be right
/// there. `None` where there is one.
pub(super) fn check(report: &Report<'_>, trees: &[Node]) -> Option<()> {
    let before = report.errors();
    for node in trees.iter().filter_map(|tree| tree.get(KEY)) {
        match &node.kind {
            Kind::Number(text) if text.parse() == Ok(VERSION) => {}
            Kind::Number(text) if text.parse::<u64>().is_ok_and(|version| version > VERSION) => {
                let message =
                    format!("this file is of version {text}, and this program reads version {VERSION}");
                let help = "install a newer glossator, which reads both; nothing else in the file has been looked at";
                report.error(node.span, message, help);
            }
            Kind::Nothing
            | Kind::Flag(_)
            | Kind::Number(_)
            | Kind::Text(_)
            | Kind::List(_)
            | Kind::Map(_) => {
                let message = format!("there is no such version: found {}", node.found());
                report.error(node.span, message, format!("write `version: {VERSION}`, or leave it out"));
            }
        }
    }
    (report.errors() == before).then_some(())
}

/// Whether a key was one in an earlier program: then that has been told.
pub(super) fn report_former(report: &Report<'_>, key: &Key, section: &str, of: &str) -> bool {
    report_of(FORMER, report, key, section, of)
}

fn report_of(former: &[Former], report: &Report<'_>, key: &Key, section: &str, of: &str) -> bool {
    let Some(found) = former.iter().find(|former| former.section == section && former.name == key.text)
    else {
        return false;
    };
    let name = found.name;
    match found.now {
        Some(now) => {
            let help = found.help.map_or_else(|| format!("write `{now}`"), str::to_owned);
            report.error(key.span, format!("`{name}` in {of} is called `{now}` now"), help);
        }
        None => report.error(key.span, format!("`{name}` in {of} is gone"), found.help.map(str::to_owned)),
    }
    true
}

#[cfg(test)]
mod tests {
    use super::{
        super::{file, report::reading, schema, section::Section, server::ServerSettings},
        *,
    };
    use crate::settings::section::Section as _;

    fn problems(text: &str, former: &'static [Former]) -> String {
        let (_, problems) = reading(text, |report| {
            let root = file::read(report, 0).unwrap();
            let keys = ServerSettings::keys();
            for entry in root.get("server").and_then(Node::as_map).unwrap() {
                assert!(report_of(former, report, &entry.key, keys.id, keys.section));
            }
        });
        problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_renamed_key_is_answered_with_its_new_name_in_its_place() {
        const RENAMED: &[Former] =
            &[Former { section: "server", name: "bind", now: Some("listen"), help: None }];
        let said = problems("server:\n  bind: 127.0.0.1:80\n", RENAMED);
        assert!(said.contains(":2:3: `bind` in `server` is called `listen` now"), "{said}");
        assert!(said.contains("help: write `listen`"), "{said}");
    }

    #[test]
    fn a_former_key_is_no_key_and_its_new_name_is_one() {
        let schema = schema();
        for Former { section, name, now, help } in FORMER {
            let keys = match *section {
                "file" => &schema["properties"],
                section => &schema["$defs"][section]["properties"],
            };
            assert!(keys.is_object() && keys.get(name).is_none(), "{section}.{name}");
            assert!(now.is_none_or(|now| keys.get(now).is_some()), "{section}.{name}");
            assert!(now.is_some() || help.is_some(), "{section}.{name}");
        }
    }

    #[test]
    fn the_page_about_upgrading_lists_every_former_key() {
        let page = include_str!("../../config/upgrading.md");
        let (_, table) = page.split_once("<!-- former keys -->").unwrap();
        let (table, _) = table.split_once("<!-- end -->").unwrap();
        let mut expected = String::from("\n\n| section | key | now |\n|---|---|---|\n");
        for Former { section, name, now, help } in FORMER {
            let now =
                now.map_or_else(|| format!("gone: {}", help.unwrap_or_default()), |now| format!("`{now}`"));
            expected += &format!("| `{section}` | `{name}` | {now} |\n");
        }
        assert_eq!(table, expected + "\n");
    }

    #[test]
    fn a_key_of_before_is_told_by_the_reader_of_sections() {
        let (_, problems) = reading("server: { direct_path: off }", |report| {
            let root = file::read(report, 0).unwrap();
            let server = root.get("server").unwrap();
            let _ = Section::open(report, server.span, server, ServerSettings::keys());
        });
        assert!(problems[0].to_string().contains("`direct_path` in `server` is gone"), "{problems:?}");
    }
}
