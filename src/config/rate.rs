//! `rate` and `caller_rate`: how many calls in how long.

use std::time::Duration;

use super::{
    keys::RATE,
    node::Node,
    section::Section,
    units::{self, UnitError},
};
use crate::policy::{RateSettings, WithoutStore};

/// The most calls that a limit may let through in its time.
const COUNT_LIMIT: u32 = 1_000_000;
/// The longest time of a limit.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Reads a limit: `100 per minute`, a map, or `off`. `None` where there is none, or something is wrong with it.
pub(super) fn read(section: &Section<'_, '_>, name: &'static str) -> Option<Setting> {
    let node = section.get(name)?;
    if node.scalar().is_some() {
        if matches!(node.scalar().as_deref(), Some("off" | "false")) {
            return Some(Setting::Off);
        }
        return limit(section, node, name).map(|(count, per)| {
            Setting::On(RateSettings { count, per, burst: count, without_store: WithoutStore::default() })
        });
    }
    let section = section.section(name, &RATE)?;
    let written = section.required("limit", "write `limit: 100 per minute`");
    let burst = section.count("burst").and_then(|burst| u32::try_from(burst).ok());
    let without_store = match section.word("without_store") {
        Some("refuse") => WithoutStore::Refuse,
        Some("allow") => WithoutStore::Allow,
        _ => WithoutStore::Local,
    };
    let (count, per) = limit(&section, written?, "limit")?;
    Some(Setting::On(RateSettings { count, per, burst: burst.unwrap_or(count), without_store }))
}

/// What is said of a limit.
#[derive(Debug, Clone, Copy)]
pub(super) enum Setting {
    /// There shall be none.
    Off,
    /// This one.
    On(RateSettings),
}

impl Setting {
    /// What holds where nothing is said.
    pub(super) fn or(written: Option<Self>, base: Option<RateSettings>) -> Option<RateSettings> {
        match written {
            None => base,
            Some(Self::Off) => None,
            Some(Self::On(settings)) => Some(settings),
        }
    }
}

fn limit(section: &Section<'_, '_>, node: &Node, name: &str) -> Option<(u32, Duration)> {
    // A number alone is read too, to be told what is missing.
    let found = node.scalar().unwrap_or_else(|| node.found());
    match parse(&found) {
        Ok(limit) => Some(limit),
        Err(error) => {
            section.report.error(node.span, format!("`{name}` {}", error.message), error.help);
            None
        }
    }
}

/// Reads `100 per minute`, `5 per 10s`.
fn parse(text: &str) -> Result<(u32, Duration), UnitError> {
    let number = |text: &str| {
        let digits: String =
            text.trim().chars().take_while(|c| c.is_ascii_digit() || *c == '_' || *c == ',').collect();
        digits.replace(['_', ','], "").parse::<u32>().ok()
    };
    let wrong = || {
        let example = number(text).unwrap_or(100);
        UnitError {
            message: format!("takes a number of calls and a time, found `{text}`"),
            help: format!("write `{example} per second`, `{example} per minute`, or `{example} per 10s`"),
        }
    };
    let (count, per) = text.split_once(" per ").ok_or_else(wrong)?;
    let count: u32 = count.trim().parse().map_err(|_| wrong())?;
    if !(1..=COUNT_LIMIT).contains(&count) {
        return Err(UnitError {
            message: format!("takes from 1 to {COUNT_LIMIT} calls, found `{count}`"),
            help: "write another number, or leave the limit out".into(),
        });
    }
    let per = match per.trim() {
        "second" => Duration::from_secs(1),
        "minute" => Duration::from_secs(60),
        "hour" => Duration::from_secs(3600),
        "day" => LONGEST,
        other => units::duration(other).map_err(|_| wrong())?,
    };
    if per.is_zero() || per > LONGEST {
        let help = format!("write another time: `{count} per second`, `{count} per day`");
        return Err(UnitError { message: format!("takes a time of at most a day, found `{text}`"), help });
    }
    Ok((count, per))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_read_as_it_is_said() {
        assert_eq!(parse("100 per minute"), Ok((100, Duration::from_secs(60))));
        assert_eq!(parse("1 per  10s "), Ok((1, Duration::from_secs(10))));
        assert_eq!(parse("5 per day"), Ok((5, LONGEST)));
    }

    #[test]
    fn what_is_no_limit_is_told_with_a_way_out() {
        for text in ["100", "100/s", "100 per", "ten per second", "100 per fortnight", "1.5 per second"] {
            let error = parse(text).unwrap_err();
            assert!(error.message.contains(&format!("found `{text}`")), "{error:?}");
            assert!(error.help.starts_with("write `"), "{error:?}");
        }
        assert!(parse("100/s").unwrap_err().help.contains("`100 per second`"));
        for text in ["0 per second", "1000001 per second", "1 per 0s", "1 per 25h"] {
            parse(text).unwrap_err();
        }
    }
}
