//! Framework for declared settings: YAML with source spans, parsing of typed values, and diagnostics.
//!
//! Input and diagnostics:
//!
//! - `source_text`: text of the files, and spans in it; `tree`: syntax tree of a YAML file with spans.
//! - `problem`, `problem_code`, `problem_display`: one diagnostic, its code, and its form in a terminal;
//!   `problem_collector`: the problems of one run.
//! - `units`: durations, sizes and rates; `suggest`: "did you mean".
//! - `expansion`: expansion of `${VARIABLE}` and `file:/path` in values; `secret`: secrets that are detected
//!   by the names of their keys; `credential_forms`: credentials that are recognized by their form.
//!
//! Declarations:
//!
//! - `section`: parsing of a struct with `#[derive(Section)]`; `value`: plain values, lists and maps, and
//!   enums with `#[derive(EnumSetting)]`.
//! - `keys`: tables of the declared keys; `layers`: environment variables and flags that override the file.
//!
//! Sections of the configuration file are declared in `config` and in the modules that own a setting, not in
//! this module.

pub(crate) mod credential_forms;
pub(crate) mod expansion;
pub(crate) mod keys;
pub(crate) mod layers;
pub(crate) mod problem;
pub(crate) mod problem_code;
pub(crate) mod problem_collector;
mod problem_display;
pub(crate) mod secret;
pub(crate) mod section;
pub(crate) mod source_text;
pub(crate) mod suggest;
pub(crate) mod tree;
pub(crate) mod units;
pub(crate) mod value;

pub(crate) use expansion::{Environment, Expanded};
pub(crate) use keys::{KeySpec, KeyTable, Masking, ShortForm, ValueKind};
pub(crate) use problem::{Problem, Problems, Severity};
pub(crate) use problem_code::{Code, CodedSpan};
pub(crate) use problem_collector::{ProblemContext, Report};
pub(crate) use section::{Checked, Cursor, Invalid, OpenSection, ReadContext, Section, Setting};
pub(crate) use section::{read_each, read_section};
pub(crate) use settings_derive::{EnumSetting, Section};
pub(crate) use source_text::{Files, LineAndColumn, Origin, SourceSpan};
pub(crate) use tree::{Budget, Entry, Key, Kind, Node, TreeSize};
pub(crate) use value::{EnumSetting, FromText, Named, OneOrMore, OrOff, Scalar};
pub(crate) use value::{parsed_settings, read_one_of, text_of};

/// Compiles a pattern that is a constant of the program.
pub(crate) fn fixed_regex(pattern: &str) -> regex::Regex {
    regex::Regex::new(pattern).expect("the pattern is fixed and tested")
}
