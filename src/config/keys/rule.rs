//! Rules, alone and with a name.

use super::*;
use crate::config::{
    response::RuleSettings,
    rules::{RuleSetSettings, UseSettings},
};

/// What `response` takes.
pub(in crate::config) const RESPONSE: Takes = OneOrMore(&Either(&[RuleSettings::KIND, UseSettings::KIND]));

/// What stands under a name of `rules`.
pub(in crate::config) static RULES_FORM: Takes = Either(&[RESPONSE, RuleSetSettings::KIND]);
