//! The configuration: files as people write them, to settings that the other rooms own.
//!
//! In reading order: `folder` finds the files, `source` keeps their text, `file` makes a tree of each in which
//! every key and value knows its place (`node`); `keys` lists every key there is, `section` reads them;
//! `compile` makes routes and upstreams of the tree, a file a section; `process` layers `server` and `log` with
//! the environment and the command line. [`Problem`] tells what is wrong, `suggest` what was probably meant,
//! `secret` keeps secrets out of it. [`schema`] describes the file for editors.
//!
//! All problems of all files are found in one run. The only room that reads files or the environment.

mod file;
mod folder;
mod keys;
mod node;
mod problem;
mod process;
mod report;
mod secret;
mod section;
mod source;
mod suggest;
mod units;

pub use problem::{Problem, Problems, Severity};
pub use process::{Flag, LogChoice, ServerSettings};
pub use secret::Environment;
