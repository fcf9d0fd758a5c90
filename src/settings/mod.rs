//! A setting of the configuration: where it is written, what is wrong with it, and how it is declared.
//!
//! - `tree`: the YAML text of a file as a tree in which every key and value has its place.
//! - `source`: the files themselves; `problem` and `report`: what is wrong with them, all found in one run,
//!   each with its `code`.
//! - `units`: durations and sizes; `secret`: `${VARIABLE}` and `file:`, and what no message may show;
//!   `suggest`: "did you mean".
//!
//! - `section`: how a declared setting is read, with `#[derive(Section)]` and `#[derive(Word)]`; `value`: plain
//!   values; `keys`: the declarations as data; `layers`: environment variables and flags over the file.
//!
//! The module knows no section of the file: those are in `config` and in the modules that own a setting.

pub(crate) mod code;
pub(crate) mod keys;
pub(crate) mod layers;
pub(crate) mod problem;
pub(crate) mod report;
pub(crate) mod secret;
pub(crate) mod section;
pub(crate) mod source;
pub(crate) mod suggest;
pub(crate) mod tree;
pub(crate) mod units;
pub(crate) mod value;
