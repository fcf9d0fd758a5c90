//! Every key of the file, once: what it is called, what it takes, what it means.
//!
//! The reader rejects keys that are not here, `schema` describes those that are, and a test checks that each
//! of them is read; so file, schema and program can't diverge.

mod input_requests;
mod process;
mod prompt;
mod route;
mod rule;
mod upstream;

pub(super) use self::{input_requests::*, process::*, prompt::*, route::*, rule::*, upstream::*};

use crate::{
    config::response::ErrorSettings,
    policy::RateSettings,
    route::Scopes,
    settings::{section::Setting, value::OrOff},
};

pub(super) use crate::settings::keys::{KeySpec as Key, KeyTable as Keys, Row, ValueKind as Takes};

use Takes::{
    Anything, Count, Duration, Either, Flag, Fraction, JsonSchema, List, Map, Nothing, OneOrMore, Scalar,
    Section, Size, Text, Word,
};

const fn key(name: &'static str, takes: Takes, means: &'static str) -> Row {
    Row::key(name, takes, means)
}

const SECOND: u64 = 1_000;
const HOUR: u64 = 3_600 * SECOND;
const TIMEOUT: Takes = Duration(1, HOUR);
const RESPONSE_LIMIT: Takes = Size(1, 1 << 30);
/// How the text, the code and the structure of an error are made.
const ERROR_FORM: Takes = ErrorSettings::KIND;
const ERROR_TEXT_LIMIT: Takes = Size(64, 1 << 20);
const MAX_VALUES: Takes = Count(1, 100_000_000);
const IN_FLIGHT: Takes = Count(1, 100_000);
const ENVELOPE: Takes = Word(&["mcp", "plain"]);
const ERROR_STATUS: Takes = Word(&["mapped", "always_200"]);
const ERROR_FORMAT: Takes = Word(&["text", "json"]);
const NAMES: Takes = List(&Text);
/// Scopes that a client needs.
const SCOPES: Takes = <Scopes as Setting>::KIND;
/// Calls per time.
const RATE_LIMIT: Takes = <OrOff<RateSettings> as Setting>::KIND;
/// A feature that can be disabled.
const OFF: Takes = Word(&["off"]);
