//! What is read as a date or a time, and how it is written then.

use super::*;

fn form(format: &str, zone: &str) -> TimeForm {
    let format = match format {
        "" => TimeFormat::Usual,
        "unix" => TimeFormat::Unix,
        "unix-ms" => TimeFormat::UnixMillis,
        text => TimeFormat::directives(text, false).unwrap(),
    };
    TimeForm { format, zone: (!zone.is_empty()).then(|| zone.parse().unwrap()) }
}

#[track_caller]
fn check(format: &str, zone: &str, text: &str, expected: Result<&str, &str>) {
    match (form(format, zone).date_time(text), expected) {
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
    check("", "", "2026-07-01 09:30", Err("(or name its `zone`)"));
    check("", "UTC", "2026-07-01", Err("a date with a time"));
    for text in
        ["", "yesterday", "2026-13-01T00:00:00Z", "-000001-01-01T00:00:00Z", "Mon, 21 Nov 2026 09:30:00 GMT"]
    {
        check("", "UTC", text, Err("such as"));
    }
}

#[test]
fn a_format_and_a_zone_read_what_is_written_otherwise() {
    check("%d/%b/%Y:%H:%M:%S %z", "", "21/Nov/2026:09:30:00 +0100", Ok("2026-11-21T09:30:00+01:00"));
    check("%d.%m.%Y %H:%M", "Europe/Oslo", "21.11.2026 09:30", Ok("2026-11-21T09:30:00+01:00"));
    check("%d.%m.%Y %H:%M", "", "21.11.2026 09:30", Err("`zone`"));
    check("%d.%m.%Y %H:%M", "UTC", "2026-11-21", Err("of the form `%d.%m.%Y %H:%M`"));
    check("unix", "", "1700000000", Ok("2023-11-14T22:13:20Z"));
    check("unix", "", "1.7e+09", Ok("2023-11-14T22:13:20Z"));
    check("unix", "", "-0.5", Ok("1969-12-31T23:59:59.5Z"));
    check("unix", "Europe/Oslo", "1700000000", Ok("2023-11-14T23:13:20+01:00"));
    check("unix-ms", "", "1700000000123", Ok("2023-11-14T22:13:20.123Z"));
    for text in ["", "99999999999999", "1.x", "+5", "9999999999999999999999"] {
        check("unix", "", text, Err("seconds since 1970"));
    }
}

#[test]
fn the_first_of_several_formats_that_reads_it_counts() {
    let several = |zone: &str| {
        let forms = ["%Y%m%dT%H%M%S", "%Y%m%d"].map(|form| TimeFormat::directives(form, false).unwrap());
        let forms = [TimeFormat::Usual].into_iter().chain(forms).collect();
        TimeForm { format: TimeFormat::OneOf(forms), zone: Some(zone.parse().unwrap()) }
    };
    let oslo = several("Europe/Oslo");
    assert_eq!(oslo.date_time("20261121T093000Z").unwrap(), "2026-11-21T09:30:00Z");
    assert_eq!(oslo.date_time("20261121T093000").unwrap(), "2026-11-21T09:30:00+01:00");
    assert_eq!(oslo.date_time("20261121").unwrap(), "2026-11-21T00:00:00+01:00");
    assert_eq!(oslo.date("20261121T003000").unwrap(), "2026-11-21");
    // The day had no midnight: its clocks went forward over it.
    let sao_paulo = several("America/Sao_Paulo");
    assert_eq!(sao_paulo.date_time("20181104").unwrap(), "2018-11-04T01:00:00-02:00");
    let wrong = oslo.date_time("tomorrow").unwrap_err();
    assert!(
        wrong.ends_with(
            "such as `2026-11-21T09:30:00Z`, or of the form `%Y%m%dT%H%M%S`, or of the form `%Y%m%d`"
        ),
        "{wrong}"
    );
}

#[test]
fn a_time_that_no_clock_showed_is_an_error_and_an_hour_that_comes_twice_is_the_first() {
    let german = "%d.%m.%Y %H:%M";
    for time in ["02:00", "02:30", "02:59"] {
        check(german, "Europe/Berlin", &format!("29.03.2026 {time}"), Err("the clocks go forward over this"));
    }
    check(german, "Europe/Berlin", "29.03.2026 01:59", Ok("2026-03-29T01:59:00+01:00"));
    check(german, "Europe/Berlin", "29.03.2026 03:00", Ok("2026-03-29T03:00:00+02:00"));
    check(german, "Europe/Berlin", "25.10.2026 02:30", Ok("2026-10-25T02:30:00+02:00"));
    check("", "Europe/Berlin", "2026-03-29 02:30", Err("the clocks go forward over this"));
    check("%Y-%m-%d %H:%M %Q", "", "2026-03-29 02:30 Europe/Berlin", Err("of the form"));
    check("%Y-%m-%d %H:%M %Q", "", "2026-03-29 03:30 Europe/Berlin", Ok("2026-03-29T03:30:00+02:00"));
    assert_eq!(form(german, "Europe/Berlin").date("29.03.2026 02:30").unwrap(), "2026-03-29");
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
    assert!(form("%d.%m.%Y", "").date("21.11.26").unwrap_err().contains("`%y`"));
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
        assert_eq!(form(format, "").format.may_have_an_offset(), expected, "{format}");
    }
}

#[test]
fn a_date_is_the_day_as_it_was_written() {
    let date = |format, zone, text| form(format, zone).date(text);
    assert_eq!(date("", "", "2026-11-21").unwrap(), "2026-11-21");
    assert_eq!(date("", "Asia/Tokyo", "2026-11-21T23:30:00-05:00").unwrap(), "2026-11-21");
    assert_eq!(date("%d.%m.%y", "", "21.11.26").unwrap(), "2026-11-21");
    assert_eq!(date("unix", "Asia/Tokyo", "1700000000").unwrap(), "2023-11-15");
    assert!(date("", "", "21.11.2026").unwrap_err().contains("a date such as"));
}

#[test]
fn a_format_that_can_not_be_read_back_is_refused() {
    assert!(TimeFormat::directives("%H:%M", true).unwrap_err().contains("no year"));
    assert!(TimeFormat::directives("%Y-%m-%d", true).unwrap_err().contains("no hour"));
    assert!(TimeFormat::directives("%Y-%m-%d", false).is_ok());
    assert!(TimeFormat::directives("%K", true).is_err());
    assert!(TimeFormat::directives("%s", true).is_ok());
    assert!("Europe/Olso".parse::<Zone>().is_err() && "+25:99".parse::<Zone>().is_err());
}
