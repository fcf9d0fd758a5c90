//! `grok`: patterns that refer to named patterns, `%{IP:client}`. Expands them into a regular expression,
//! which [`Regex`](super::Regex) then searches.

mod settings;

pub use self::settings::Grok;
use super::{Capture, CaptureKind, CapturePattern};
use crate::translate::pattern::{Pattern, PatternError};

/// Named patterns available in a rule: its own and those of the library. Its own override the library's.
#[derive(Debug, Clone, Default)]
pub struct GrokPatterns {
    own: Vec<(String, String)>,
}

/// Reason why a text is not a valid grok pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GrokError {
    /// No pattern has this name.
    #[error("no pattern is called `{0}`")]
    UnknownName(String),
    /// The text between `%{` and `}` is not a reference.
    #[error("expected `%{{NAME}}`, `%{{NAME:capture}}` or `%{{NAME:capture:type}}`, found `%{{{0}`")]
    Malformed(String),
    /// This name is not allowed for a capture.
    #[error("`{0}` can't be the name of a capture")]
    CaptureName(String),
    /// This type does not exist.
    #[error("`{0}` is not a type of capture")]
    UnknownType(String),
    /// The pattern refers to itself.
    #[error("pattern `{0}` has itself in it")]
    Circular(String),
    /// The expanded pattern is longer than the limit.
    #[error("the pattern is longer than {limit} bytes once those that it names are put in", limit = GrokPatterns::LENGTH_LIMIT_BYTES)]
    TooLong,
    /// The expanded pattern is not a valid regular expression.
    #[error("once those that it names are put in, the pattern is not a regular expression: {0}")]
    Pattern(#[from] PatternError),
}

impl GrokPatterns {
    /// Limit of an expanded pattern, in bytes.
    pub const LENGTH_LIMIT_BYTES: usize = 64 << 10;

    /// Types of a capture: `%{NUMBER:bytes:int}`.
    pub const TYPES: [&str; 4] = ["int", "float", "boolean", "string"];

    /// Limit of nested references.
    const DEPTH_LIMIT: usize = 64;

    /// Custom patterns of a rule: name and text.
    pub fn new(own: Vec<(String, String)>) -> Self {
        Self { own }
    }

    /// All pattern names, those of the rule first.
    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.all().map(|(name, _)| name)
    }

    /// Compiles a pattern in which `^` and `$` match at line ends.
    ///
    /// # Errors
    ///
    /// [`GrokError`] with the mistake and its text.
    pub fn compile(&self, written: &str) -> Result<CapturePattern, GrokError> {
        let mut expansion =
            Expansion { patterns: self, text: String::new(), captures: Vec::new(), inside: Vec::new() };
        expansion.put(written)?;
        // A named group in the text itself is a capture, too; all in the order of the pattern.
        let mut pattern = CapturePattern::plain(Pattern::multi_line(&expansion.text)?);
        written.clone_into(&mut pattern.written);
        for capture in &mut pattern.captures {
            if let Some(ours) = expansion.captures.iter().find(|ours| ours.group == capture.group) {
                capture.clone_from(ours);
            }
        }
        Ok(pattern)
    }

    /// Names and texts of all patterns, those of the rule first.
    fn all(&self) -> impl Iterator<Item = (&str, &str)> + Clone {
        let own = self.own.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        own.chain(LIBRARY.iter().copied())
    }
}

/// Pattern during its expansion.
struct Expansion<'p> {
    patterns: &'p GrokPatterns,
    text: String,
    captures: Vec<Capture>,
    /// Names of the enclosing patterns.
    inside: Vec<&'p str>,
}

impl<'p> Expansion<'p> {
    fn put(&mut self, written: &'p str) -> Result<(), GrokError> {
        let mut rest = written;
        while let Some((before, after)) = rest.split_once("%{") {
            self.push(before)?;
            let Some((reference, after)) = after.split_once('}') else {
                return Err(GrokError::Malformed(after.to_owned()));
            };
            self.put_named(reference)?;
            rest = after;
        }
        self.push(rest)
    }

    fn put_named(&mut self, reference: &str) -> Result<(), GrokError> {
        let malformed = || GrokError::Malformed(format!("{reference}}}"));
        let mut parts = reference.split(':');
        let (name, capture, kind) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
        let is_name =
            |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if !is_name(name) || parts.next().is_some() {
            return Err(malformed());
        }
        let found = self.patterns.all().find(|(known, _)| *known == name);
        let (known, text) = found.ok_or_else(|| GrokError::UnknownName(name.to_owned()))?;
        if self.inside.contains(&known) || self.inside.len() >= GrokPatterns::DEPTH_LIMIT {
            return Err(GrokError::Circular(name.to_owned()));
        }
        match capture {
            Some(capture) => {
                let group = self.capture(capture, kind)?;
                self.push(&format!("(?<{group}>"))?;
            }
            None => self.push("(?:")?,
        }
        self.inside.push(known);
        self.put(text)?;
        self.inside.pop();
        self.push(")")
    }

    /// Records a capture and returns the name of its group. Groups get unique names, because the regex engine
    /// rejects duplicates and grok allows them.
    fn capture(&mut self, name: &str, kind: Option<&str>) -> Result<String, GrokError> {
        let good = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '@');
        if name.is_empty() || !name.chars().all(good) {
            return Err(GrokError::CaptureName(name.to_owned()));
        }
        let kind = match kind {
            None | Some("string") => CaptureKind::Text,
            Some("int" | "integer" | "long") => CaptureKind::Integer,
            Some("float" | "number" | "double") => CaptureKind::Number,
            Some("boolean" | "bool") => CaptureKind::Boolean,
            Some(other) => return Err(GrokError::UnknownType(other.to_owned())),
        };
        let group = format!("grok_{}", self.captures.len());
        self.captures.push(Capture { group: group.clone(), name: name.to_owned(), kind });
        Ok(group)
    }

    fn push(&mut self, text: &str) -> Result<(), GrokError> {
        if self.text.len() + text.len() > GrokPatterns::LENGTH_LIMIT_BYTES {
            return Err(GrokError::TooLong);
        }
        self.text.push_str(text);
        Ok(())
    }
}

/// Library patterns, under Logstash's names, written for an engine with linear time and without look-around.
/// None captures by number; patterns of whole log lines use the capture names of Logstash.
///
/// Name and pattern, in the order of the reference: words, numbers, network, paths, time, logs.
const LIBRARY: &[(&str, &str)] = &[
    ("WORD", r"\b\w+\b"),
    ("NOTSPACE", r"\S+"),
    ("SPACE", r"\s*"),
    ("DATA", r".*?"),
    ("GREEDYDATA", r".*"),
    ("QUOTEDSTRING", r#""(?:\\.|[^\\"])*"|'(?:\\.|[^\\'])*'|`(?:\\.|[^\\`])*`"#),
    ("QS", "%{QUOTEDSTRING}"),
    ("USERNAME", r"[a-zA-Z0-9._-]+"),
    ("USER", "%{USERNAME}"),
    ("EMAILLOCALPART", r"[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+)*"),
    ("EMAILADDRESS", "%{EMAILLOCALPART}@%{HOSTNAME}"),
    ("UUID", r"[A-Fa-f0-9]{8}-(?:[A-Fa-f0-9]{4}-){3}[A-Fa-f0-9]{12}"),
    ("URN", r"urn:[0-9A-Za-z][0-9A-Za-z-]{0,31}:(?:%[0-9a-fA-F]{2}|[0-9A-Za-z()+,.:=@;$_!*'/?#-])+"),
    ("INT", r"[+-]?[0-9]+"),
    ("POSINT", r"\b[1-9][0-9]*\b"),
    ("NONNEGINT", r"\b[0-9]+\b"),
    ("BASE10NUM", r"[+-]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)"),
    ("NUMBER", "%{BASE10NUM}"),
    ("BASE16NUM", r"[+-]?(?:0x)?[0-9A-Fa-f]+"),
    ("BASE16FLOAT", r"[+-]?(?:0x)?(?:[0-9A-Fa-f]+(?:\.[0-9A-Fa-f]*)?|\.[0-9A-Fa-f]+)\b"),
    ("CISCOMAC", r"(?:[A-Fa-f0-9]{4}\.){2}[A-Fa-f0-9]{4}"),
    ("WINDOWSMAC", r"(?:[A-Fa-f0-9]{2}-){5}[A-Fa-f0-9]{2}"),
    ("COMMONMAC", r"(?:[A-Fa-f0-9]{2}:){5}[A-Fa-f0-9]{2}"),
    ("MAC", "%{CISCOMAC}|%{WINDOWSMAC}|%{COMMONMAC}"),
    (
        "IPV4",
        r"\b(?:(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\.){3}(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\b",
    ),
    (
        "IPV6",
        // By the position of `::`, from the longest prefix to the shortest.
        concat!(
            r"(?:(?:[0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}",
            r"|(?:[0-9A-Fa-f]{1,4}:){6}%{IPV4}",
            r"|::(?:[Ff]{4}(?::0{1,4})?:)?%{IPV4}",
            r"|(?:[0-9A-Fa-f]{1,4}:){1,4}:%{IPV4}",
            r"|(?:[0-9A-Fa-f]{1,4}:)(?::[0-9A-Fa-f]{1,4}){1,6}",
            r"|(?:[0-9A-Fa-f]{1,4}:){2}(?::[0-9A-Fa-f]{1,4}){1,5}",
            r"|(?:[0-9A-Fa-f]{1,4}:){3}(?::[0-9A-Fa-f]{1,4}){1,4}",
            r"|(?:[0-9A-Fa-f]{1,4}:){4}(?::[0-9A-Fa-f]{1,4}){1,3}",
            r"|(?:[0-9A-Fa-f]{1,4}:){5}(?::[0-9A-Fa-f]{1,4}){1,2}",
            r"|(?:[0-9A-Fa-f]{1,4}:){6}:[0-9A-Fa-f]{1,4}",
            r"|(?:[0-9A-Fa-f]{1,4}:){1,7}:",
            r"|::(?:[0-9A-Fa-f]{1,4}:){0,6}[0-9A-Fa-f]{1,4}",
            r"|::)(?:%[0-9A-Za-z._-]+)?",
        ),
    ),
    ("IP", "%{IPV6}|%{IPV4}"),
    ("HOSTNAME", r"\b[0-9A-Za-z][0-9A-Za-z-]{0,62}(?:\.[0-9A-Za-z][0-9A-Za-z-]{0,62})*\.?"),
    ("HOST", "%{HOSTNAME}"),
    ("IPORHOST", "%{IP}|%{HOSTNAME}"),
    ("HOSTPORT", "%{IPORHOST}:%{POSINT}"),
    ("UNIXPATH", r"(?:/[\w_%!$@:.,+~-]*)+"),
    ("WINPATH", r"(?:[A-Za-z]:|\\)(?:\\[^\\?*\r\n]*)+"),
    ("PATH", "%{UNIXPATH}|%{WINPATH}"),
    ("TTY", r"/dev/(?:pts|tty(?:[pq])?)(?:\w+)?/?(?:[0-9]+)"),
    ("URIPROTO", r"[A-Za-z](?:[A-Za-z0-9+.-]+)+"),
    ("URIHOST", "%{IPORHOST}(?::%{POSINT})?"),
    ("URIPATH", r"(?:/[A-Za-z0-9$.+!*'(){},~:;=@#%&_-]*)+"),
    ("URIQUERY", r"[A-Za-z0-9$.+!*'|(){},~@#%&/=:;_?\[\]<>-]*"),
    ("URIPARAM", r"\?%{URIQUERY}"),
    ("URIPATHPARAM", r"%{URIPATH}(?:\?%{URIQUERY})?"),
    ("URI", r"%{URIPROTO}://(?:%{USER}(?::[^@\s/]*)?@)?(?:%{URIHOST})?(?:%{URIPATH}(?:\?%{URIQUERY})?)?"),
    (
        "MONTH",
        concat!(
            r"\b(?:[Jj]an(?:uary)?|[Ff]eb(?:ruary)?|[Mm]ar(?:ch)?|[Aa]pr(?:il)?|[Mm]ay|[Jj]une?|[Jj]uly?|",
            r"[Aa]ug(?:ust)?|[Ss]ep(?:tember)?|[Oo]ct(?:ober)?|[Nn]ov(?:ember)?|[Dd]ec(?:ember)?)\b",
        ),
    ),
    ("MONTHNUM", "1[0-2]|0?[1-9]"),
    ("MONTHNUM2", "0[1-9]|1[0-2]"),
    ("MONTHDAY", "0[1-9]|[12][0-9]|3[01]|[1-9]"),
    ("DAY", "Mon(?:day)?|Tue(?:sday)?|Wed(?:nesday)?|Thu(?:rsday)?|Fri(?:day)?|Sat(?:urday)?|Sun(?:day)?"),
    ("YEAR", "[0-9]{4}|[0-9]{2}"),
    ("HOUR", "2[0-3]|[01]?[0-9]"),
    ("MINUTE", "[0-5][0-9]"),
    ("SECOND", "(?:60|[0-5]?[0-9])(?:[:.,][0-9]+)?"),
    ("TIME", "%{HOUR}:%{MINUTE}(?::%{SECOND})?"),
    ("DATE_US", "%{MONTHNUM}[/-]%{MONTHDAY}[/-]%{YEAR}"),
    ("DATE_EU", "%{MONTHDAY}[./-]%{MONTHNUM}[./-]%{YEAR}"),
    ("DATE", "%{DATE_US}|%{DATE_EU}"),
    ("ISO8601_TIMEZONE", "Z|[+-]%{HOUR}(?::?%{MINUTE})?"),
    ("ISO8601_SECOND", "%{SECOND}"),
    ("ISO8601_HOUR", "2[0-4]|[01][0-9]"),
    (
        "TIMESTAMP_ISO8601",
        "%{YEAR}-%{MONTHNUM}-%{MONTHDAY}[T ]%{HOUR}:?%{MINUTE}(?::?%{SECOND})?(?:%{ISO8601_TIMEZONE})?",
    ),
    ("TZ", "[A-Z]{3,4}"),
    ("DATESTAMP", "(?:%{DATE})[- ]%{TIME}"),
    ("DATESTAMP_RFC822", "(?:%{DAY}) (?:%{MONTH}) (?:%{MONTHDAY}) (?:%{YEAR}) %{TIME} %{TZ}"),
    ("DATESTAMP_RFC2822", "(?:%{DAY}), %{MONTHDAY} %{MONTH} %{YEAR} %{TIME} %{ISO8601_TIMEZONE}"),
    ("DATESTAMP_OTHER", "%{DAY} %{MONTH} +%{MONTHDAY} %{TIME} %{TZ} %{YEAR}"),
    (
        "DATESTAMP_EVENTLOG",
        "[0-9]{4}%{MONTHNUM2}(?:0[1-9]|[12][0-9]|3[01])%{ISO8601_HOUR}%{MINUTE}[0-5][0-9]",
    ),
    ("HTTPDATE", r"%{MONTHDAY}/%{MONTH}/%{YEAR}:%{TIME} %{INT}"),
    ("HTTPDERROR_DATE", "%{DAY} %{MONTH} %{MONTHDAY} %{TIME} %{YEAR}"),
    ("SYSLOGTIMESTAMP", "%{MONTH} +%{MONTHDAY} %{TIME}"),
    ("PROG", r"[!-Z\\^-~]+"),
    ("SYSLOGPROG", r"%{PROG:program}(?:\[%{POSINT:pid}\])?"),
    ("SYSLOGHOST", "%{IPORHOST}"),
    ("SYSLOGFACILITY", "<%{NONNEGINT:facility}.%{NONNEGINT:priority}>"),
    (
        "SYSLOGBASE",
        "%{SYSLOGTIMESTAMP:timestamp} (?:%{SYSLOGFACILITY} )?%{SYSLOGHOST:logsource} %{SYSLOGPROG}:",
    ),
    ("SYSLOGLINE", "%{SYSLOGBASE} %{GREEDYDATA:message}"),
    (
        "LOGLEVEL",
        concat!(
            "[Aa]lert|ALERT|[Tt]race|TRACE|[Dd]ebug|DEBUG|[Nn]otice|NOTICE|[Ii]nfo(?:rmation)?|INFO(?:RMATION)?|",
            "[Ww]arn(?:ing)?|WARN(?:ING)?|[Ee]rr(?:or)?|ERR(?:OR)?|[Cc]rit(?:ical)?|CRIT(?:ICAL)?|[Ff]atal|FATAL|",
            "[Ss]evere|SEVERE|[Ee]merg(?:ency)?|EMERG(?:ENCY)?",
        ),
    ),
    ("HTTPDUSER", "%{EMAILADDRESS}|%{USER}"),
    (
        "COMMONAPACHELOG",
        concat!(
            r"%{IPORHOST:clientip} %{HTTPDUSER:ident} %{HTTPDUSER:auth} \[%{HTTPDATE:timestamp}\] ",
            r#""(?:%{WORD:verb} %{NOTSPACE:request}(?: HTTP/%{NUMBER:httpversion})?|%{DATA:rawrequest})" "#,
            r"(?:%{NUMBER:response}|-) (?:%{NUMBER:bytes}|-)",
        ),
    ),
    ("COMBINEDAPACHELOG", "%{COMMONAPACHELOG} %{QS:referrer} %{QS:agent}"),
    (
        "HTTPD20_ERRORLOG",
        r"\[%{HTTPDERROR_DATE:timestamp}\] \[%{LOGLEVEL:loglevel}\] (?:\[client %{IPORHOST:clientip}\] )?%{GREEDYDATA:message}",
    ),
    (
        "HTTPD24_ERRORLOG",
        concat!(
            r"\[%{HTTPDERROR_DATE:timestamp}\] \[(?:%{WORD:module})?:%{LOGLEVEL:loglevel}\] ",
            r"\[pid %{POSINT:pid}(?::tid %{NUMBER:tid})?\](?: \(%{POSINT:proxy_errorcode}\)%{DATA:proxy_message}:)?",
            r"(?: \[client %{IPORHOST:clientip}(?::%{POSINT:clientport})?\])?(?: %{WORD:errorcode}:)? %{GREEDYDATA:message}",
        ),
    ),
    ("HTTPD_ERRORLOG", "%{HTTPD20_ERRORLOG}|%{HTTPD24_ERRORLOG}"),
];

#[cfg(test)]
mod tests;
