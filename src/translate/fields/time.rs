//! Parser of dates and timestamps. The results are formatted as in RFC 3339.

use jiff::{
    Timestamp,
    fmt::{
        rfc2822, strtime,
        temporal::{DateTimeParser, Pieces},
    },
    tz::{AmbiguousOffset, Offset, TimeZone},
};
use settings_derive::Section;

use super::number::{MILLISECOND, SECOND};
use super::settings::{TEXTS, TypeWord};
use crate::settings::{Checked, Code, Cursor, Setting, ValueKind, parsed_settings, suggest, text_of};
use crate::translate::convert::{scaled, without_exponent};

/// Formats and time zone of a timestamp. With several formats, a date without a time means its midnight.
#[derive(Debug, Clone, PartialEq, Eq, Section)]
#[section(default)]
pub struct TimeOptions {
    /// Format of timestamps, for `date-time` and `date`: `strftime` directives, `unix`,
    /// `unix-ms`, `unix-us`, `unix-ns` or `iso` (the default). Of a list, the first format that matches
    /// applies.
    #[key(name = "format", kind = TEXTS, with = read_formats, default = vec![TimeFormat::Standard])]
    pub formats: Vec<TimeFormat>,
    /// Time zone of timestamps without an offset, for `date-time` and `date`: `Europe/Oslo` or `+01:00`.
    #[key(name = "timezone")]
    pub zone: Option<TimeZoneSetting>,
}

/// Format of a date or timestamp.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TimeFormat {
    /// ISO 8601 and RFC 3339, or RFC 2822 and HTTP dates.
    Standard,
    /// `strftime` directives.
    Directives(String),
    /// A number of units since 1970, with or without a fraction: the name of the unit for error messages, and
    /// its length in nanoseconds.
    Unix(&'static str, i128),
}

/// Units of time since 1970: name of the format, name of the unit for error messages, and its length in
/// nanoseconds.
const UNIX_UNITS: [(&str, &str, i128); 4] = [
    ("unix", "seconds", SECOND),
    ("unix-ms", "milliseconds", MILLISECOND),
    ("unix-us", "microseconds", 1_000),
    ("unix-ns", "nanoseconds", 1),
];

/// Time zone, or fixed offset from UTC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeZoneSetting(TimeZone);

impl std::str::FromStr for TimeZoneSetting {
    type Err = String;

    /// Parses `Europe/Oslo`, `UTC` or `+01:00`.
    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with(['+', '-']) {
            let zone = DateTimeParser::new().parse_time_zone(text);
            return zone.map(Self).map_err(|_| format!("`{text}` is not an offset from UTC"));
        }
        TimeZone::get(text).map(Self).map_err(|_| format!("unknown time zone `{text}`"))
    }
}

impl TimeFormat {
    /// Creates a format of `strftime` directives. They are tested on a sample timestamp, because a format
    /// that can't parse its own output is useless.
    ///
    /// # Errors
    ///
    /// A message, if the format is invalid, lacks the date, or lacks the hour although `requires_time` is
    /// set.
    pub fn directives(text: &str, requires_time: bool) -> Result<Self, String> {
        let zone = TimeZone::fixed(Offset::constant(1));
        let parsed = read_back(text, zone).map_err(|error| error.to_string())?;
        if parsed.timestamp().is_none() {
            parsed.to_date().map_err(|_| "it has no year, month and day".to_owned())?;
            if requires_time && parsed.hour().is_none() {
                return Err("it has no hour".to_owned());
            }
        }
        Ok(Self::Directives(text.to_owned()))
    }

    /// Whether text in this format can contain an offset from UTC.
    pub fn may_have_an_offset(&self) -> bool {
        let directives = match self {
            Self::Directives(directives) => directives,
            Self::Standard | Self::Unix(..) => return true,
        };
        read_back(directives, TimeZone::UTC).is_ok_and(|parsed| {
            parsed.timestamp().is_some() || parsed.offset().is_some() || parsed.iana_time_zone().is_some()
        })
    }

    /// Description of the format for error messages, after the expected type.
    fn name(&self) -> String {
        match self {
            Self::Standard => "such as `2026-11-21T09:30:00Z`".to_owned(),
            Self::Directives(directives) => format!("of the form `{directives}`"),
            Self::Unix(name, _) => format!("as {name} since 1970"),
        }
    }
}

/// Formats a sample timestamp with `strftime` directives, and parses the result with them.
fn read_back(directives: &str, zone: TimeZone) -> Result<strtime::BrokenDownTime, jiff::Error> {
    let sample = Timestamp::UNIX_EPOCH.to_zoned(zone);
    strtime::parse(directives, strtime::format(directives, &sample)?)
}

/// Expected types, for error messages.
const A_DATE_TIME: &str = "a date and time";
const A_DATE: &str = "a date";

impl TimeOptions {
    /// Parses a timestamp, and returns it as RFC 3339 with its offset.
    ///
    /// # Errors
    ///
    /// The expected form.
    pub(super) fn date_time(&self, text: &str) -> Result<String, String> {
        let found = self.find(text.trim(), A_DATE_TIME)?;
        let date = found.date();
        let time = found.time().map(|time| date.to_datetime(time));
        // A zone in the text, as in `2026-11-21T09:30[Europe/Oslo]` (RFC 9557), overrides `timezone`.
        let offset = found.to_numeric_offset();
        let text_zone = match offset {
            Some(_) => None,
            None => found.to_time_zone().map_err(|_| self.expected(A_DATE_TIME))?.map(TimeZoneSetting),
        };
        let (instant, offset) = match (time, offset, text_zone.as_ref().or(self.zone.as_ref())) {
            (Some(time), Some(offset), _) => {
                (offset.to_timestamp(time).map_err(|_| self.expected(A_DATE_TIME))?, offset)
            }
            (None, _, Some(TimeZoneSetting(zone))) if self.formats.len() > 1 => {
                let day = date.to_zoned(zone.clone()).map_err(|_| self.expected(A_DATE_TIME))?;
                (day.timestamp(), day.offset())
            }
            (None, ..) => return Err("a date with a time".to_owned()),
            (Some(time), None, Some(TimeZoneSetting(zone))) => {
                let zoned_time = zone.to_ambiguous_zoned(time);
                if matches!(zoned_time.offset(), AmbiguousOffset::Gap { .. }) {
                    return Err(
                        "a time that exists in its `timezone` (a clock change skips this one)".to_owned()
                    );
                }
                // A local time that occurs twice (end of daylight saving time) means its first occurrence.
                let zoned = zoned_time.earlier().map_err(|_| self.expected(A_DATE_TIME))?;
                (zoned.timestamp(), zoned.offset())
            }
            (Some(_), None, None) => {
                return Err("a date and time with its offset from UTC (or name its `timezone`)".to_owned());
            }
        };
        // RFC 3339 has no seconds in an offset, but time zones of the 19th century do.
        let formatted = if offset == Offset::UTC || offset.seconds() % 60 != 0 {
            instant.to_string()
        } else {
            instant.display_with_offset(offset).to_string()
        };
        self.with_four_digits(formatted)
    }

    /// Parses a date. The result is the calendar day in the text, not in UTC; for a Unix time, the day in
    /// `timezone`.
    ///
    /// # Errors
    ///
    /// The expected form.
    pub(super) fn date(&self, text: &str) -> Result<String, String> {
        self.with_four_digits(self.find(text.trim(), A_DATE)?.date().to_string())
    }

    /// Rejects years without four digits, which RFC 3339 requires.
    fn with_four_digits(&self, formatted: String) -> Result<String, String> {
        match formatted.as_bytes().get(4) == Some(&b'-') && !formatted.starts_with('-') {
            true => Ok(formatted),
            false => Err(self.expected("a date with a year from 0 to 9999,")),
        }
    }

    fn expected(&self, expected_type: &str) -> String {
        let names: Vec<_> = self.formats.iter().map(TimeFormat::name).collect();
        format!("{expected_type} {}", names.join(", or "))
    }

    /// Parses a date, with a time and an offset if present. `expected_type` is for error messages.
    fn find<'t>(&self, text: &'t str, expected_type: &str) -> Result<Pieces<'t>, String> {
        // `%Y` parses `26` as the year 26, but no server means that.
        let is_short = |found: &Pieces<'_>| {
            let year = found.date().year();
            (0..100).contains(&year) && !text.contains(&format!("{year:04}"))
        };
        let mut candidates = self.formats.iter().filter_map(|form| self.read(form, text)).peekable();
        let has_candidate = candidates.peek().is_some();
        candidates.find(|found| !is_short(found)).ok_or_else(|| match has_candidate {
            true => format!("{expected_type} whose year has four digits (a year of two is `%y` in `format`)"),
            false => self.expected(expected_type),
        })
    }

    fn read<'t>(&self, form: &TimeFormat, text: &'t str) -> Option<Pieces<'t>> {
        match form {
            TimeFormat::Standard => DateTimeParser::new().parse_pieces(text).ok().or_else(|| {
                let zoned = rfc2822::parse(text).ok()?;
                Some(Pieces::from((zoned.timestamp(), zoned.offset())))
            }),
            TimeFormat::Directives(directives) => parse_with_directives(directives, text),
            TimeFormat::Unix(_, unit) => self.epoch(text, *unit),
        }
    }

    /// Parses a decimal number of units since 1970, truncated to nanoseconds.
    fn epoch(&self, text: &str, unit_nanos: i128) -> Option<Pieces<'static>> {
        // Metrics exporters write `1.7e+09`.
        let text = without_exponent(text)?;
        let (sign, number) = text.strip_prefix('-').map_or((1, text.as_str()), |number| (-1, number));
        let number = number.strip_suffix('.').unwrap_or(number);
        let instant = Timestamp::from_nanosecond(sign * scaled(number, unit_nanos)?).ok()?;
        let offset = self.zone.as_ref().map_or(Offset::UTC, |TimeZoneSetting(zone)| zone.to_offset(instant));
        Some(Pieces::from((instant, offset)))
    }
}

fn parse_with_directives(directives: &str, text: &str) -> Option<Pieces<'static>> {
    let parsed = strtime::parse(directives, text).ok()?;
    if let Some(instant) = parsed.timestamp() {
        return Some(Pieces::from((instant, parsed.offset().unwrap_or(Offset::UTC))));
    }
    if parsed.iana_time_zone().is_some() {
        let zoned = parsed.to_zoned().ok()?;
        // Reject a local time that the zone skips: it would become another time.
        let exists = parsed.to_datetime().is_ok_and(|datetime| datetime == zoned.datetime());
        return exists.then(|| Pieces::from((zoned.timestamp(), zoned.offset())));
    }
    let pieces = match parsed.hour() {
        Some(_) => Pieces::from(parsed.to_datetime().ok()?),
        None => Pieces::from(parsed.to_date().ok()?),
    };
    Some(match parsed.offset() {
        Some(offset) => pieces.with_offset(offset),
        None => pieces,
    })
}

parsed_settings! {
    TimeZoneSetting = Text, "write `Europe/Oslo`, `UTC` or `+01:00`";
}

fn read_formats(value: &Cursor<'_>) -> Checked<Vec<TimeFormat>> {
    let nodes = value.node.one_or_more();
    if nodes.is_empty() {
        return value.reject_empty("write `format: \"%Y-%m-%d %H:%M:%S\"`");
    }
    let read_format = |node| TimeFormat::read(&value.part(node, value.name, ValueKind::Text));
    let forms = nodes.iter().map(read_format).collect::<Checked<Vec<_>>>()?;
    let mut without_offset = nodes.iter().zip(&forms).filter(|(_, form)| !form.may_have_an_offset());
    if is_date_time(value)
        && value.sibling("timezone").is_none()
        && let Some((node, text)) = without_offset.next().and_then(|(node, _)| Some((node, node.as_text()?)))
    {
        let message = format!("a `date-time` of the form `{text}` has no offset from UTC, and no `timezone`");
        let help = "add the time zone of the upstream, such as `timezone: Europe/Oslo` or `timezone: \
                    UTC`; or use `type: date`";
        return value.reject_coded(Code::TimeWithoutOffset.at_span(node.span), message, help);
    }
    Ok(forms)
}

fn is_date_time(format: &Cursor<'_>) -> bool {
    format.sibling("type").and_then(TypeWord::parse).is_some_and(|word| word.name == "date-time")
}

impl Setting for TimeFormat {
    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let text = text_of(value)?;
        if text == "iso" {
            return Ok(Self::Standard);
        }
        if let Some((_, name, unit_nanos)) = UNIX_UNITS.iter().find(|(word, ..)| *word == text) {
            return Ok(Self::Unix(name, *unit_nanos));
        }
        // In a list of formats, a format without a time is intentional.
        let is_only = value.sibling("format").is_none_or(|formats| formats.one_or_more().len() < 2);
        let error = match Self::directives(text, is_only && is_date_time(value)) {
            Ok(format) => return Ok(format),
            Err(error) => error,
        };
        let (at, message) =
            (Code::InvalidFormat.at_span(value.node.span), format!("`format` is invalid: {error}"));
        let words = std::iter::once("iso").chain(UNIX_UNITS.map(|(word, ..)| word));
        if let Some(name) = suggest::nearest(text, words).filter(|_| !text.contains('%')) {
            return value.reject_coded(at, message, format!("did you mean `{name}`?"));
        }
        let help = match text.contains("%Z") {
            true => {
                "names of zones such as `CET` are not unique: write the letters in place of `%Z`, \
                 `\"%H:%M CET\"`, and add `timezone: Europe/Oslo`; `%z` matches `+0100`, `%Q` `Europe/Oslo`"
            }
            false => "write a `strftime` format such as `%Y-%m-%d %H:%M:%S`, or `unix`",
        };
        value.reject_coded(at, message, help)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(format: &str, zone: &str) -> TimeOptions {
        let format = match format {
            "" => TimeFormat::Standard,
            "unix" => TimeFormat::Unix("seconds", SECOND),
            "unix-ms" => TimeFormat::Unix("milliseconds", MILLISECOND),
            "unix-us" => TimeFormat::Unix("microseconds", 1_000),
            "unix-ns" => TimeFormat::Unix("nanoseconds", 1),
            text => TimeFormat::directives(text, false).unwrap(),
        };
        TimeOptions { formats: vec![format], zone: (!zone.is_empty()).then(|| zone.parse().unwrap()) }
    }

    #[track_caller]
    fn check(format: &str, zone: &str, text: &str, expected: Result<&str, &str>) {
        match (options(format, zone).date_time(text), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{text}"),
            (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
            (found, _) => panic!("{text}: found {found:?}"),
        }
    }

    #[test]
    fn usual_times_are_read_without_a_format() {
        check("", "", "2026-11-21T09:30:00Z", Ok("2026-11-21T09:30:00Z"));
        check("", "", " 2026-11-21 09:30:00.25+01:00 ", Ok("2026-11-21T09:30:00.25+01:00"));
        check("", "", "20261121T093000Z", Ok("2026-11-21T09:30:00Z"));
        check("", "", "Sat, 21 Nov 2026 09:30:00 GMT", Ok("2026-11-21T09:30:00Z"));
        check("", "", "Sat, 21 Nov 2026 09:30:00 +0100", Ok("2026-11-21T09:30:00+01:00"));
        check("", "Europe/Oslo", "2026-07-01 09:30", Ok("2026-07-01T09:30:00+02:00"));
        check("", "-03:00", "2026-07-01 09:30", Ok("2026-07-01T09:30:00-03:00"));
        check("", "UTC", "2026-11-21T09:30[Europe/Oslo]", Ok("2026-11-21T09:30:00+01:00"));
        check("", "UTC", "2026-11-21T09:30[Europe/Nowhere]", Err("a date and time such as"));
        check("", "", "2026-07-01 09:30", Err("(or name its `timezone`)"));
        check("", "", "9999-12-31T23:59:59Z", Err("a date and time such as"));
        check("", "UTC", "2026-07-01", Err("a date with a time"));
        for text in [
            "",
            "yesterday",
            "2026-13-01T00:00:00Z",
            "-000001-01-01T00:00:00Z",
            "Mon, 21 Nov 2026 09:30:00 GMT",
        ] {
            check("", "UTC", text, Err("such as"));
        }
    }

    #[test]
    fn a_format_and_a_zone_read_what_is_written_otherwise() {
        check("%d/%b/%Y:%H:%M:%S %z", "", "21/Nov/2026:09:30:00 +0100", Ok("2026-11-21T09:30:00+01:00"));
        check("%d.%m.%Y %H:%M", "Europe/Oslo", "21.11.2026 09:30", Ok("2026-11-21T09:30:00+01:00"));
        check("%d.%m.%Y %H:%M", "", "21.11.2026 09:30", Err("`timezone`"));
        check("%d.%m.%Y %H:%M", "UTC", "2026-11-21", Err("of the form `%d.%m.%Y %H:%M`"));
        check("unix", "", "1700000000", Ok("2023-11-14T22:13:20Z"));
        check("unix", "", "1.7e+09", Ok("2023-11-14T22:13:20Z"));
        check("unix", "", "-0.5", Ok("1969-12-31T23:59:59.5Z"));
        check("unix", "Europe/Oslo", "1700000000", Ok("2023-11-14T23:13:20+01:00"));
        check("unix-ms", "", "1700000000123", Ok("2023-11-14T22:13:20.123Z"));
        check("unix-us", "", "1700000000123456", Ok("2023-11-14T22:13:20.123456Z"));
        check("unix-us", "+01:00", "1700000000123456.789", Ok("2023-11-14T23:13:20.123456789+01:00"));
        check("unix-us", "", "soon", Err("as microseconds since 1970"));
        check("unix-ns", "", "1700000000123456789", Ok("2023-11-14T22:13:20.123456789Z"));
        check("unix-ns", "", "1.7e18", Ok("2023-11-14T22:13:20Z"));
        check("unix-ns", "", "99999999999999999999", Err("as nanoseconds since 1970"));
        for text in ["", "99999999999999", "1.x", "+5", "9999999999999999999999"] {
            check("unix", "", text, Err("seconds since 1970"));
        }
    }

    #[test]
    fn the_first_of_several_formats_that_reads_it_counts() {
        let several = |zone: &str| {
            let forms = ["%Y%m%dT%H%M%S", "%Y%m%d"].map(|form| TimeFormat::directives(form, false).unwrap());
            let formats = [TimeFormat::Standard].into_iter().chain(forms).collect();
            TimeOptions { formats, zone: Some(zone.parse().unwrap()) }
        };
        let oslo = several("Europe/Oslo");
        assert_eq!(oslo.date_time("20261121T093000Z").unwrap(), "2026-11-21T09:30:00Z");
        assert_eq!(oslo.date_time("20261121T093000").unwrap(), "2026-11-21T09:30:00+01:00");
        assert_eq!(oslo.date_time("20261121").unwrap(), "2026-11-21T00:00:00+01:00");
        assert_eq!(oslo.date("20261121T003000").unwrap(), "2026-11-21");
        // That day had no midnight, because the clocks went forward over it.
        let sao_paulo = several("America/Sao_Paulo");
        assert_eq!(sao_paulo.date_time("20181104").unwrap(), "2018-11-04T01:00:00-02:00");
        let error = oslo.date_time("tomorrow").unwrap_err();
        assert!(
            error.ends_with(
                "such as `2026-11-21T09:30:00Z`, or of the form `%Y%m%dT%H%M%S`, or of the form `%Y%m%d`"
            ),
            "{error}"
        );
    }

    #[test]
    fn a_time_skipped_by_a_clock_change_is_an_error_and_a_repeated_hour_is_the_first_one() {
        let german = "%d.%m.%Y %H:%M";
        for time in ["02:00", "02:30", "02:59"] {
            check(german, "Europe/Berlin", &format!("29.03.2026 {time}"), Err("a clock change skips this"));
        }
        check(german, "Europe/Berlin", "29.03.2026 01:59", Ok("2026-03-29T01:59:00+01:00"));
        check(german, "Europe/Berlin", "29.03.2026 03:00", Ok("2026-03-29T03:00:00+02:00"));
        check(german, "Europe/Berlin", "25.10.2026 02:30", Ok("2026-10-25T02:30:00+02:00"));
        check("", "Europe/Berlin", "2026-03-29 02:30", Err("a clock change skips this"));
        check("%Y-%m-%d %H:%M %Q", "", "2026-03-29 02:30 Europe/Berlin", Err("of the form"));
        check("%Y-%m-%d %H:%M %Q", "", "2026-03-29 03:30 Europe/Berlin", Ok("2026-03-29T03:30:00+02:00"));
        assert_eq!(options(german, "Europe/Berlin").date("29.03.2026 02:30").unwrap(), "2026-03-29");
    }

    #[test]
    fn an_offset_with_seconds_is_written_in_utc() {
        // Local mean time of Berlin, 53 minutes and 28 seconds before UTC.
        check("", "Europe/Berlin", "1890-01-01 12:00", Ok("1890-01-01T11:06:32Z"));
        check("", "Europe/Berlin", "1900-01-01 12:00", Ok("1900-01-01T12:00:00+01:00"));
    }

    #[test]
    fn a_year_of_two_digits_is_no_year_of_four() {
        check("%d.%m.%Y %H:%M", "UTC", "21.11.26 09:30", Err("`%y`"));
        check("%d.%m.%y %H:%M", "UTC", "21.11.26 09:30", Ok("2026-11-21T09:30:00Z"));
        check("%d.%m.%Y %H:%M", "UTC", "01.01.0001 00:00", Ok("0001-01-01T00:00:00Z"));
        assert!(options("%d.%m.%Y", "").date("21.11.26").unwrap_err().contains("`%y`"));
    }

    #[test]
    fn a_format_says_whether_it_may_have_an_offset() {
        for (format, expected) in [
            ("", true),
            ("unix", true),
            ("%s", true),
            ("%Y-%m-%d %H:%M %z", true),
            ("%Y-%m-%d %H:%M %Q", true),
            ("%Y-%m-%dT%H:%M:%SZ", false),
            ("%d.%m.%Y %H:%M", false),
        ] {
            assert_eq!(options(format, "").formats[0].may_have_an_offset(), expected, "{format}");
        }
    }

    #[test]
    fn a_date_is_the_day_as_it_was_written() {
        let date = |format, zone, text| options(format, zone).date(text);
        assert_eq!(date("", "", "2026-11-21").unwrap(), "2026-11-21");
        assert_eq!(date("", "Asia/Tokyo", "2026-11-21T23:30:00-05:00").unwrap(), "2026-11-21");
        assert_eq!(date("%d.%m.%y", "", "21.11.26").unwrap(), "2026-11-21");
        assert_eq!(date("unix", "Asia/Tokyo", "1700000000").unwrap(), "2023-11-15");
        // "For ever", which is too late for an instant.
        assert_eq!(date("", "", "9999-12-31T23:59:59Z").unwrap(), "9999-12-31");
        assert!(date("", "", "21.11.2026").unwrap_err().contains("a date such as"));
    }

    #[test]
    fn a_format_that_cannot_be_parsed_back_is_rejected() {
        assert!(TimeFormat::directives("%H:%M", true).unwrap_err().contains("no year"));
        assert!(TimeFormat::directives("%Y-%m-%d", true).unwrap_err().contains("no hour"));
        assert!(TimeFormat::directives("%Y-%m-%d", false).is_ok());
        assert!(TimeFormat::directives("%K", true).is_err());
        assert!(TimeFormat::directives("%s", true).is_ok());
        assert!(
            "Europe/Olso".parse::<TimeZoneSetting>().is_err() && "+25:99".parse::<TimeZoneSetting>().is_err()
        );
    }
}
