//! Tests of grok: every pattern of the library, custom patterns, and errors.

use std::path::Path;

use serde_json::Value;

use super::*;
use crate::translate::extract::{CapturePatterns, Records, Regex, SearchScope};

/// For each library pattern, a text that it matches as a whole and one that it does not match.
const SAMPLES: &[(&str, &str, &str)] = &[
    ("WORD", "error", "two words"),
    ("NOTSPACE", "/a/b?c=%20", "a b"),
    ("SPACE", "   ", " x "),
    ("DATA", "any text", "two\nlines"),
    ("GREEDYDATA", "any text, to the end of the line", "two\nlines"),
    ("QUOTEDSTRING", r#""say \"hello\"""#, "\"open"),
    ("QS", "'quoted'", "plain"),
    ("USERNAME", "j.doe-2", "j doe"),
    ("USER", "root", "a/b"),
    ("EMAILLOCALPART", "j.doe+news", "j..doe"),
    ("EMAILADDRESS", "j.doe@example.com", "j.doe(at)example.com"),
    ("UUID", "3f2504e0-4f89-11d3-9a0c-0305e82c3301", "3f2504e0-4f89-11d3-9a0c"),
    ("URN", "urn:isbn:0451450523", "isbn:0451450523"),
    ("INT", "-42", "4.2"),
    ("POSINT", "8080", "0"),
    ("NONNEGINT", "0", "-1"),
    ("BASE10NUM", "+1.50", "1,5"),
    ("NUMBER", "-.5", "five"),
    ("BASE16NUM", "0xDEADbeef", "0xfish"),
    ("BASE16FLOAT", "0x1F.8", "1F.8z"),
    ("CISCOMAC", "0242.ac11.0002", "02:42:ac:11:00:02"),
    ("WINDOWSMAC", "02-42-AC-11-00-02", "02-42-AC-11-00"),
    ("COMMONMAC", "02:42:ac:11:00:02", "02:42:ac:11:00:zz"),
    ("MAC", "02:42:ac:11:00:02", "02:42:ac"),
    ("IPV4", "192.0.2.17", "192.0.2.256"),
    ("IPV6", "2001:db8::17", "2001:db8:17"),
    ("IP", "fe80::fc:ff:fe00:1%eth0", "localhost"),
    ("HOSTNAME", "web-1.example.com", "-web"),
    ("HOST", "web-1", "web_1"),
    ("IPORHOST", "192.0.2.17", "a b"),
    ("HOSTPORT", "example.com:8080", "example.com"),
    ("UNIXPATH", "/var/log/syslog.1", "var/log"),
    ("WINPATH", r"C:\Windows\System32", "C:/Windows"),
    ("PATH", "/etc/hosts", "etc"),
    ("TTY", "/dev/pts/0", "/dev/sda"),
    ("URIPROTO", "https", "1http"),
    ("URIHOST", "example.com:8443", "example.com:"),
    ("URIPATH", "/a/b;c", "a/b"),
    ("URIQUERY", "a=1&b=%20", "a b"),
    ("URIPARAM", "?a=1", "a=1"),
    ("URIPATHPARAM", "/a?b=1", "?b=1"),
    ("URI", "https://j:secret@example.com:8443/a/b?c=1", "example.com/a"),
    ("MONTH", "November", "Novembre"),
    ("MONTHNUM", "7", "13"),
    ("MONTHNUM2", "07", "7"),
    ("MONTHDAY", "31", "32"),
    ("DAY", "Saturday", "Caturday"),
    ("YEAR", "2026", "202"),
    ("HOUR", "23", "24"),
    ("MINUTE", "59", "60"),
    ("SECOND", "60.125", "61"),
    ("TIME", "09:12:01", "9h12"),
    ("DATE_US", "11/21/2026", "21/11/2026"),
    ("DATE_EU", "21.11.2026", "11/21/2026"),
    ("DATE", "21.11.2026", "2026-11-21"),
    ("ISO8601_TIMEZONE", "+01:00", "CET"),
    ("ISO8601_SECOND", "05", "5s"),
    ("ISO8601_HOUR", "09", "9"),
    ("TIMESTAMP_ISO8601", "2026-11-21T09:12:01.250Z", "21.11.2026 09:12"),
    ("TZ", "CEST", "+0100"),
    ("DATESTAMP", "21.11.2026 09:12:01", "2026-11-21 09:12:01"),
    ("DATESTAMP_RFC822", "Sat Nov 21 2026 09:12:01 UTC", "21 Nov 2026"),
    ("DATESTAMP_RFC2822", "Sat, 21 Nov 2026 09:12:01 +0000", "Sat 21 Nov 2026"),
    ("DATESTAMP_OTHER", "Sat Nov 21 09:12:01 UTC 2026", "Sat Nov 21 2026"),
    ("DATESTAMP_EVENTLOG", "20261121091201", "2026112109"),
    ("HTTPDATE", "21/Nov/2026:09:12:01 +0000", "21/11/2026:09:12:01 +0000"),
    ("HTTPDERROR_DATE", "Sat Nov 21 09:12:01.250000 2026", "21/Nov/2026:09:12:01 +0000"),
    ("SYSLOGTIMESTAMP", "Nov  1 09:12:01", "2026-11-01 09:12:01"),
    ("PROG", "postfix/smtpd", "sshd[7]"),
    ("SYSLOGPROG", "sshd[4711]", "sshd[]"),
    ("SYSLOGHOST", "web-1", "web 1"),
    ("SYSLOGFACILITY", "<13.6>", "<13>"),
    ("SYSLOGBASE", "Nov 21 09:12:01 web-1 sshd[4711]:", "2026-11-21 web-1 sshd[4711]:"),
    ("SYSLOGLINE", "Nov 21 09:12:01 web-1 kernel: eth0: link up", "eth0: link up"),
    ("LOGLEVEL", "WARNING", "green"),
    ("HTTPDUSER", "j.doe@example.com", "j doe"),
    (
        "COMMONAPACHELOG",
        r#"192.0.2.17 - frank [21/Nov/2026:09:12:01 +0000] "GET /a?b=1 HTTP/1.1" 200 2326"#,
        r#"192.0.2.17 frank "GET / HTTP/1.1" 200"#,
    ),
    (
        "COMBINEDAPACHELOG",
        r#"::1 - - [21/Nov/2026:09:12:01 +0000] "-" 408 - "-" "Mozilla/5.0 (X11)""#,
        r#"192.0.2.17 - - [21/Nov/2026:09:12:01 +0000] "GET / HTTP/1.1" 200 2326"#,
    ),
    (
        "HTTPD20_ERRORLOG",
        "[Sat Nov 21 09:12:01 2026] [error] [client 192.0.2.17] no such file",
        "[error] no such file",
    ),
    (
        "HTTPD24_ERRORLOG",
        "[Sat Nov 21 09:12:01.250000 2026] [core:error] [pid 7:tid 139] [client 192.0.2.17:51234] AH00126: no such file",
        "[Sat Nov 21 09:12:01 2026] [error] no such file",
    ),
    ("HTTPD_ERRORLOG", "[Sat Nov 21 09:12:01 2026] [notice] Apache configured", "[notice] Apache configured"),
];

#[test]
fn every_pattern_of_the_library_fits_what_it_is_for_and_nothing_else() {
    let names: Vec<_> = LIBRARY.iter().map(|(name, _)| *name).collect();
    let sampled: Vec<_> = SAMPLES.iter().map(|(name, ..)| *name).collect();
    assert_eq!(sampled, names, "a sample for each pattern, in the order of the library");
    for (name, matching, non_matching) in SAMPLES {
        let anchored = GrokPatterns::default().compile(&format!(r"\A%{{{name}}}\z")).unwrap();
        assert!(anchored.pattern.is_match(matching), "{name} does not fit {matching}");
        assert!(!anchored.pattern.is_match(non_matching), "{name} fits {non_matching}");
    }
}

#[test]
fn the_page_lists_the_library() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/book/reference/extractors/grok.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once("<!-- library -->\n").unwrap();
    let (_, after) = rest.split_once("<!-- end of library -->").unwrap();
    let rows: String = SAMPLES
        .iter()
        .map(|(name, matching, _)| format!("| `{name}` | `{}` |\n", matching.replace('|', "\\|")))
        .collect();
    let expected = format!(
        "{before}<!-- library -->\n\n| name | fits, for example |\n|---|---|\n{rows}\n<!-- end of library -->{after}"
    );
    #[expect(clippy::disallowed_methods, reason = "an environment variable that is a switch of the tests")]
    if std::env::var("UPDATE_GOLDEN").is_ok() {
        std::fs::write(&path, &expected).unwrap();
    } else {
        assert!(page == expected, "the page is behind the library: run with UPDATE_GOLDEN=1");
    }
}

#[track_caller]
fn check(custom: &[(&str, &str)], source: &str, text: &str, expected: &str) {
    let custom = custom.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    let pattern = GrokPatterns(custom).compile(source).unwrap();
    let patterns = CapturePatterns(vec![pattern]);
    let found = Regex { patterns, each: SearchScope::First, records: Records::default() }.extract(text, None);
    match found {
        Ok(value) => assert_eq!(value.to_string(), expected),
        Err(error) => assert!(!expected.is_empty() && error.to_string().contains(expected), "{error}"),
    }
}

#[test]
fn names_become_captures_with_types() {
    check(
        &[],
        "%{IP:client} %{WORD:method} %{URIPATHPARAM:request} %{NUMBER:bytes:int} %{NUMBER:duration:float}",
        "55.3.244.1 GET /index.html?a=b 15824 0.043\r\n",
        r#"{"client":"55.3.244.1","method":"GET","request":"/index.html?a=b","bytes":15824,"duration":0.043}"#,
    );
    check(&[], "%{NUMBER:n:int}$", "\n\nx 1.5", "line 3: `n` must be an integer; found `1.5`");
    check(&[], "up %{WORD:up:boolean}", "up true", r#"{"up":true}"#);
}

#[test]
fn the_line_of_a_web_server_is_read() {
    check(
        &[],
        "^%{COMBINEDAPACHELOG}$",
        SAMPLES.iter().find(|(name, ..)| *name == "COMBINEDAPACHELOG").unwrap().1,
        concat!(
            r#"{"clientip":"::1","ident":"-","auth":"-","timestamp":"21/Nov/2026:09:12:01 +0000","rawrequest":"-","#,
            r#""response":"408","referrer":"\"-\"","agent":"\"Mozilla/5.0 (X11)\""}"#
        ),
    );
}

#[test]
fn custom_patterns_may_refer_to_others_and_override_the_library() {
    let custom = [("QUEUE_ID", "[0-9A-F]{10,11}"), ("ENTRY", "%{QUEUE_ID:id}: size=%{INT:size:int}")];
    check(&custom, "%{ENTRY}", "4BC1D20A4C: size=7", r#"{"id":"4BC1D20A4C","size":7}"#);
    check(&[("WORD", "[a-z]+")], "%{WORD:w}", "ABCdef", r#"{"w":"def"}"#);
}

#[test]
fn one_name_may_be_captured_several_times_or_as_a_named_group() {
    check(&[], "(?:%{INT:n} items|only %{WORD:n})", "only one", r#"{"n":"one"}"#);
    check(&[], "%{INT:n}-%{INT:n}", "1-2", r#"{"n":["1","2"]}"#);
    check(&[], r"(?<grok_0>\w) %{INT:n}", "a 1", r#"{"grok_0":"a","n":"1"}"#);
    check(&[], r"(?<a.b>\d+) %{WORD:http.verb}", "1 x", r#"{"a.b":"1","http.verb":"x"}"#);
    check(&[], "%{WORD:only} (%{WORD})", "a b", r#"{"only":"a"}"#);
    assert!(GrokPatterns::default().compile("%{WORD}").unwrap().captures.is_empty());
}

#[test]
fn errors_name_the_mistake() {
    let compile_error = |custom: &[(&str, &str)], source: &str| {
        let custom = custom.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        GrokPatterns(custom).compile(source).unwrap_err()
    };
    let expected = "expected `%{NAME}`, `%{NAME:capture}` or `%{NAME:capture:type}`, found";
    for (source, message) in [
        ("%{IPP:a}", "no pattern is called `IPP`"),
        ("a %{IP:a", &format!("{expected} `%{{IP:a`")),
        ("%{IP:a:int:x}", &format!("{expected} `%{{IP:a:int:x}}`")),
        ("%{}", &format!("{expected} `%{{}}`")),
        ("%{WORD:[http][verb]}", "`[http][verb]` can't be the name of a capture"),
        ("%{WORD:}", "`` can't be the name of a capture"),
        ("%{WORD:a:money}", "`money` is not a type of capture"),
    ] {
        assert_eq!(compile_error(&[], source).to_string(), message);
    }
    let circle = compile_error(&[("A", "%{B}"), ("B", "x%{A}")], "%{A:a}");
    assert_eq!(circle.to_string(), "pattern `A` refers to itself");
    let deep: Vec<_> = (0..70).map(|n| (format!("P{n}"), format!("%{{P{}}}", n + 1))).collect();
    let mut deep: Vec<_> = deep.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    deep.push(("P70", ""));
    assert_eq!(
        compile_error(&deep, "%{P0:a}").to_string(),
        "patterns refer to others at more than 64 levels"
    );
    assert!(compile_error(&[], "%{WORD:a}(").to_string().contains("is not a valid regular expression"));
    let doubling: Vec<_> = (0..40).map(|n| (format!("P{n}"), format!("%{{P{0}}}%{{P{0}}}", n + 1))).collect();
    let mut doubling: Vec<_> = doubling.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    doubling.push(("P40", ""));
    assert!(compile_error(&doubling, "%{P0:a}").to_string().contains("is longer than 65536 bytes"));
}

#[test]
fn hostile_responses_take_linear_time() {
    let pattern = GrokPatterns::default().compile("^%{COMBINEDAPACHELOG}$").unwrap();
    let records = Records { allow_empty: true, ..Records::default() };
    let regex = Regex { patterns: CapturePatterns(vec![pattern]), each: SearchScope::Line, records };
    for text in
        ["\"\\".repeat(1 << 19), "1.".repeat(1 << 19), "a:".repeat(1 << 19), "1 - - [\n".repeat(1 << 17)]
    {
        assert_eq!(regex.extract(&text, None).unwrap(), Value::Array(Vec::new()));
    }
}
