//! Codes of problems, one for each kind.

use std::str::FromStr;

use serde::{Serialize, Serializer};

use super::source_text::SourceSpan;

/// Declares the codes, each with its number and its documentation for `check --explain` and the reference.
macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $number:literal,)+) => {
        /// Kind of a problem. A number is never reused for another kind.
        ///
        /// The first line of the documentation is a summary. The rest explains how the problem comes about or
        /// why it matters, and shows a fix.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Display)]
        #[display("G{:04}", self.number())]
        pub enum Code {
            $($(#[doc = $doc])+ $name = $number,)+
        }

        impl Code {
            /// All codes, by number.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            fn documentation(self) -> &'static [&'static str] {
                match self { $(Self::$name => &[$($doc,)+],)+ }
            }

            /// Name of the variant.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)+ }
            }
        }
    };
}

codes! {
    // G00xx: files and their syntax.

    /// A file or folder does not exist or cannot be read.
    ///
    /// Check the path, and that the user of the process may read it. `--config PATH` names a file, or a
    /// folder whose `*.yaml` and `*.yml` files are read.
    UnreadableFile = 1,
    /// A file is not UTF-8 text.
    ///
    /// The message has the first invalid byte. The file is usually in an older encoding, such as Latin-1 or
    /// UTF-16. Save it as UTF-8 in your editor, or convert it:
    /// `iconv -f ISO-8859-1 -t UTF-8 old.yaml > new.yaml`.
    NotUtf8 = 2,
    /// A file is not YAML.
    ///
    /// The usual causes are a tab in the indentation, and a bracket or a quote that is not closed. A string
    /// needs quotes if it contains `: ` or begins with `*`, `%` or `@`. The cause may be in a line above.
    /// glossator checks the rest of the file when its syntax is valid.
    ///
    /// ```yaml
    /// description: "Weather: now"   # not `Weather: now` without quotes
    /// ```
    InvalidYaml = 3,
    /// A file is empty.
    ///
    /// A file with nothing but comments is empty as well. Every file of a folder needs at least one section,
    /// such as `routes`. Write a section into the file, or remove the file.
    EmptyFile = 4,
    /// A file contains a second YAML document.
    ///
    /// A line `---` below the first section begins another document, as in manifests for Kubernetes. Remove
    /// the line, or move the part below it to a file of its own: glossator merges the files of a folder.
    SecondDocument = 5,
    /// A YAML alias is inside the value that it names.
    ///
    /// An alias (`*name`) inserts a copy of the value behind its anchor (`&name`), so within that value it
    /// would never end. Write out the value that is meant, or move the alias out of the value with the
    /// anchor.
    RecursiveAlias = 6,
    /// Lists and maps are nested too deep.
    ///
    /// A file can have 64 levels of lists and maps in block style, 64 in brackets, and 128 with the values
    /// that aliases insert. The usual cause is an indentation that grows by mistake, or a generated file. In
    /// a JSON Schema, move inner parts to `$defs`.
    NestedTooDeep = 7,
    /// The configuration is too large once its aliases or named rules are expanded.
    ///
    /// Aliases and `use` insert copies, and copies that contain copies multiply. With its aliases expanded,
    /// a file can have 200,000 values and 16 MiB of text. With its named rules expanded, a configuration can
    /// have 2,000,000 values and 64 MiB. Use fewer aliases in aliases, or fewer named rules in named rules.
    /// Split a large file into several files of one folder.
    TooLarge = 8,
    /// A YAML tag has no meaning here.
    ///
    /// A tag begins with `!`, such as `!include` or `!secret` of other programs. glossator accepts only
    /// `!!str`, `!!int`, `!!float`, `!!bool`, `!!null`, `!!seq` and `!!map`. To split a configuration, put
    /// the files into one folder. For a secret, write `${NAME}` or `file:/path`. A string that begins with
    /// `!` needs quotes.
    ///
    /// ```yaml
    /// credentials: { bearer: "${BILLING_TOKEN}" }   # not `!secret billing_token`
    /// ```
    UnknownTag = 9,
    /// A YAML merge key (`<<`) does not name a map.
    ///
    /// `<<` copies the entries of another map into this one. Its value is an alias of a map, or a list of
    /// them. Usually the `*` of the alias is missing.
    ///
    /// ```yaml
    /// routes:
    ///   get_report: &report { description: The report., request: GET legacy/report, timeout: 5s }
    ///   get_summary: { <<: *report, request: GET legacy/summary }   # not `<<: report`
    /// ```
    InvalidMergeKey = 10,
    /// A key is not a string.
    ///
    /// In YAML, `{` begins a map and `[` a list, also where a key is expected. Put a key that begins with
    /// one of them in quotes.
    ///
    /// ```yaml
    /// query: { "[sort]": name }   # not `[sort]: name`
    /// ```
    InvalidKey = 11,
    /// A file is written for a version that this program does not read.
    ///
    /// `version` is the version of the configuration language, not that of the program or of your file. So
    /// far there is only `1`. A file with a higher number needs a newer glossator. A file without the key
    /// has the version of the program.
    ///
    /// ```yaml
    /// version: 1   # not `"1.0"`
    /// ```
    UnsupportedVersion = 12,
    /// The check was stopped before the end.
    ///
    /// Only the playground of the admin UI limits the time of a check, and this draft took longer. Write it
    /// into a file and run `glossator check`, which has no such limit, or simplify its schemas and regular
    /// expressions.
    Cancelled = 13,
    /// There are more problems than are reported.
    ///
    /// Only the first 500 problems are reported. So many usually have one cause, such as a wrong
    /// indentation, or keys of an earlier version, which `glossator migrate` renames. Fix the reported ones
    /// and check again.
    MoreProblems = 14,

    // G01xx: keys and values.

    /// The section has no such key.
    ///
    /// glossator rejects an unknown key, because a misspelled setting would otherwise have no effect. The
    /// message names the nearest key, or the section that has it.
    ///
    /// ```yaml
    /// routes:
    ///   get_report:
    ///     request: GET reports/today
    ///     timeout: 5s                 # not `timout`
    /// ```
    UnknownKey = 101,
    /// A key, an allowed value or an environment variable has another name now.
    ///
    /// Old names are not accepted beside the new ones. `glossator migrate FILE` rewrites a file or folder in
    /// place and keeps the comments; `--diff` shows the changes first. Move a key that is now in a nested
    /// section by hand.
    RenamedKey = 102,
    /// A required key is missing.
    ///
    /// The section is incomplete without the key. The message names the key and shows how to write it. If
    /// the key is in the file, check its indentation: it may belong to another section.
    ///
    /// ```yaml
    /// credentials: { basic: { user: reports, password: "${BILLING_PASSWORD}" } }   # `basic` needs both
    /// ```
    MissingKey = 103,
    /// A value is of another type than the key accepts.
    ///
    /// YAML decides the type: `8080` is a number, `true` is a boolean, `a: b` is a map. Put a string in
    /// quotes where it looks like something else.
    ///
    /// ```yaml
    /// headers:
    ///   X-Version: "1.0"
    /// ```
    WrongType = 104,
    /// A number, duration or size is outside its range.
    ///
    /// The message has the smallest and the largest value. 0 does not turn off a limit: remove the key to
    /// get its default, or write `off` if the key accepts that word.
    ///
    /// ```yaml
    /// defaults: { max_in_flight: 64, rate_limit: off }   # not `max_in_flight: 0`
    /// ```
    OutOfRange = 105,
    /// A value is not one of those that the key accepts.
    ///
    /// The key accepts only the values that the message lists. Values are case-sensitive.
    ///
    /// ```yaml
    /// log: { level: warn, format: json }   # not `level: warning`
    /// ```
    UnknownValue = 106,
    /// A rule names an extractor that does not exist.
    ///
    /// The extractors are `binary`, `columns`, `csv`, `form`, `grok`, `header`, `html`, `json`, `mcp`,
    /// `metrics`, `ndjson`, `pairs`, `regex`, `text` and `xml`. Write the name alone, or as a key with its
    /// options below it.
    ///
    /// ```yaml
    /// response: { extract: { pairs: { separator: "=" } } }   # not `pair`
    /// ```
    UnknownExtractor = 107,
    /// A key is defined twice: in one map, or in two files.
    ///
    /// The files of a folder are one configuration. Define each upstream, route, prompt and set of rules in
    /// one file only.
    DuplicateKey = 108,
    /// A value is not valid.
    ///
    /// The value has the right type, but not the form that the key needs, such as a date, a media type or a
    /// hash. The message shows the form.
    ///
    /// ```yaml
    /// clients:
    ///   reporting:
    ///     api_key_hashes: { hash: "sha256:…", expires: 2027-01-31 }   # not `expires: tomorrow`
    /// ```
    InvalidValue = 109,
    /// A duration, size or rate has no unit, or an unknown one.
    ///
    /// glossator does not guess a unit: a bare `30` means seconds in one program and milliseconds in
    /// another. Units are case-sensitive: `MiB`, not `mib`.
    ///
    /// ```yaml
    /// timeout: 30s          # ms, s, m, h, d
    /// response_limit: 1MiB  # B, KB, KiB, MB, MiB, GB, GiB
    /// rate_limit: 100 per minute
    /// ```
    InvalidUnit = 110,
    /// A list, map or string is empty where a value is required.
    ///
    /// An empty value would have no effect, or would match everything. Write at least one entry. If the key
    /// is optional, remove it to get its default.
    ///
    /// ```yaml
    /// response: { extract: { metrics: { names: [node_load1] } } }   # not `names: []`
    /// ```
    EmptyValue = 111,
    /// Two keys exclude each other.
    ///
    /// Only one of the two can apply, and glossator does not choose. Remove one of them, or split the entry.
    /// An upstream has one of `url`, `command`, `cgi` and `mcp`. A content block has one kind of content. A
    /// rule with `error` has no `content`. A field has no options of another `type`, such as `prefix` beside
    /// `type: string`.
    ///
    /// ```yaml
    /// response:
    ///   - when: { status: 404 }
    ///     error: No such report.    # `content` belongs to another rule
    ///   - content: "{{ text }}"
    /// ```
    ConflictingKeys = 112,
    /// A key has no effect without another one.
    ///
    /// The key is an option of another key, which is missing. The message names it. Add that key, or remove
    /// this one.
    ///
    /// ```yaml
    /// response: { extract: { html: { table: true, columns: [name, size] } } }   # `columns` needs `table`
    /// ```
    RequiresKey = 113,
    /// An environment variable looks like a setting but matches none.
    ///
    /// Every key of `server`, `admin`, `log`, `telemetry` and `shared_state` has a variable: `GLOSSATOR__`
    /// and its path in capitals, with two underscores between the parts. `server.listen` is
    /// `GLOSSATOR__SERVER__LISTEN`. glossator rejects an unknown one, because a misspelled setting would
    /// otherwise have no effect. For a key of `upstreams` or `clients`, write `${NAME}` into the file, with
    /// a variable of another name.
    UnknownVariable = 114,
    /// A reference such as `${NAME}` is malformed.
    ///
    /// A reference is `${NAME}`, `${NAME:-default}` or `${file:/path}`. A name has letters, digits and `_`,
    /// and does not begin with a digit. A default contains no reference. For a literal `${`, write `$${`.
    ///
    /// ```yaml
    /// headers: { X-Api-Key: "${WEATHER_KEY}" }   # not `${WEATHER-KEY}`
    /// ```
    InvalidReference = 115,
    /// An environment variable that the file refers to is not set.
    ///
    /// An empty variable counts as not set. A systemd service, a container and the shell in which you run
    /// `check` have an environment each. Set the variable in all of them, or write a default.
    ///
    /// ```yaml
    /// upstreams: { weather: "http://${WEATHER_HOST:-127.0.0.1}:9000" }
    /// ```
    UnsetVariable = 116,
    /// A value occurs twice in a list of different values.
    ///
    /// Each entry must be distinct: a column, a word of `values`, an input request, an address of an
    /// upstream, the issuer of tokens, the new name of a tool. An API key, the name of a certificate
    /// and the subject of a token identify one client, so no two clients can have the same. Remove one of the
    /// two entries, or rename it.
    DuplicateValue = 117,
    /// There are more items than the limit.
    ///
    /// An upstream can have 64 addresses, and a route or a prompt 32 input requests. A prompt can have 100
    /// content blocks, 8 of them from routes or resources. A message of a prompt has one role. Combine some
    /// entries, or split the list.
    ///
    /// ```yaml
    /// messages:
    ///   - user: Is the gate open?
    ///   - assistant: The gate is   # an item of its own
    /// ```
    TooMany = 118,
    /// A name contains characters that are not allowed, or is too long.
    ///
    /// Names occur in URLs, headers, templates or logs, so only some characters are allowed. A route or a
    /// prompt has 1 to 128 ASCII letters, digits, `_`, `-` and `.`. An upstream has 1 to 64 ASCII letters,
    /// digits, `_` and `-`. A header has letters, digits and `-`. An environment variable, a parameter and
    /// an input request have letters, digits and `_`, and do not begin with a digit.
    ///
    /// ```yaml
    /// get_weather: { request: GET weather/now }   # not `get weather`
    /// ```
    InvalidName = 119,
    /// A name is reserved.
    ///
    /// glossator uses this name itself, so yours would hide it or have no effect. A route whose
    /// `async_operation` has an `id` can't have the argument `job`. A capture of `when` can't have the name
    /// of a template variable, such as `status`. Choose another name.
    ///
    /// ```yaml
    /// response: { when: { text: '^ERR (?<code>\d+)' }, error: "Error {{ code }}" }   # not `(?<status>\d+)`
    /// ```
    ReservedName = 120,
    /// A template or variable is not expanded here.
    ///
    /// Templates are expanded in the requests and rules of routes, `${VARIABLE}` and `file:/path` in the
    /// settings of upstreams and of the process. In a request, a variable would be sent literally. In a
    /// path, an argument is `{city}`, not `:city`. In a template, write `{{ structured.city }}`, not
    /// `${structured.city}`.
    ///
    /// ```yaml
    /// upstreams:
    ///   weather: { url: https://api.example.com, headers: { X-Api-Key: "${WEATHER_KEY}" } }
    /// ```
    NotEvaluated = 121,

    // G02xx: expressions and schemas.

    /// A regular expression is not valid.
    ///
    /// Patterns have the syntax of the Rust crate `regex`. They run in linear time, so there is no
    /// lookahead, lookbehind or backreference: match the text around the part that you need, and capture
    /// that part. In `grok`, `%{NAME:capture}` needs the name of a known pattern. A pattern of `redact` must
    /// not match an empty text. Single quotes in YAML preserve backslashes.
    ///
    /// ```yaml
    /// response: { extract: { regex: '^(?<name>\w+):' } }   # not `^(?<name>\w+)(?=:)`
    /// ```
    InvalidPattern = 201,
    /// A regular expression has no named captures, so it extracts nothing.
    ///
    /// Each named capture becomes a member of the extracted object. Other groups are ignored. `pattern` of
    /// `pairs` needs the captures `key` and `value`, and `sections` needs one capture, of any name. In
    /// `grok`, a capture is `%{IP:client}`.
    ///
    /// ```yaml
    /// response: { extract: { regex: '(?<celsius>-?\d+) C' } }   # not `(-?\d+) C`
    /// ```
    NoCaptures = 202,
    /// A jq filter is not valid.
    ///
    /// A member of the input begins with a dot: `.success`. Without the dot it is the name of a filter. The
    /// variables are `$args`, `$status`, `$exit_status`, `$stderr`, `$headers`, `$input_responses` and the
    /// named captures of `when`.
    ///
    /// ```yaml
    /// response: { when: { json: .success == false }, error: It failed. }   # not `success == false`
    /// ```
    InvalidJq = 203,
    /// A template is not valid.
    ///
    /// Templates are those of Jinja: `{{ name }}` inserts a value, and `{% if … %}…{% endif %}` is a
    /// condition. In a path and in a request in one line, an argument is `{city}` and there are no
    /// templates. A path can't have the segment `..`.
    ///
    /// ```yaml
    /// request: GET weather/forecast/{city}   # not `{{ args.city }}`
    /// ```
    InvalidTemplate = 204,
    /// A template or condition uses a name, filter or method that does not exist there.
    ///
    /// The variables depend on the place. In `request`, `confirm` and `input_requests` there are `args` and
    /// `input_responses`. The rules also have `status`, `headers`, `text`, `json`, `value` and the named
    /// captures of `when`, and `content` has `structured`. An argument is a member of `args`, and a field of
    /// the result a member of `structured`. Values have no methods: write a filter, `x | upper`.
    ///
    /// ```yaml
    /// response: { extract: json, content: "{{ structured.temperature }} °C" }   # not `{{ temperature }}`
    /// ```
    UnknownName = 205,
    /// A CSS selector is not valid.
    ///
    /// Selectors are those of CSS, such as `h1`, `#state`, `tr > td:nth-child(2)` and `a[href$=".pdf"]`.
    /// glossator rejects those that could be slow on a large page: the combinator `~`, nested parentheses,
    /// and several elements in parentheses. Pseudo-classes of a browser, such as `:hover`, are not supported.
    ///
    /// ```yaml
    /// response: { extract: { html: { select: { state: "h1 + p" } } } }   # not `h1 ~ p`
    /// ```
    InvalidSelector = 206,
    /// A path into a document is not valid.
    ///
    /// `path` and `items` of `xml` have `/` between the names of elements, beginning with the root. A prefix
    /// must be in `namespaces`. `from` of a field has dots between names, and a name with dots is in double
    /// quotes, as in `'disk."a.b".size'`.
    ///
    /// ```yaml
    /// response:
    ///   extract: { xml: { path: Envelope/Body/Forecast } }   # not `Envelope/Body/`
    /// ```
    InvalidPath = 207,
    /// A format of dates and times is not valid.
    ///
    /// `format` is `iso`, `unix`, `unix-ms` or a text with `strftime` directives. The directives must
    /// include the year, the month and the day. For `date-time` they must include the hour as well, unless
    /// there are several formats. `%Z` is not supported, because abbreviations such as `CET` are not unique:
    /// write the letters themselves, and set `timezone`.
    ///
    /// ```yaml
    /// fields:
    ///   checked: { type: date-time, format: "%d.%m.%Y %H:%M CET", timezone: Europe/Oslo }   # not `%Z`
    /// ```
    InvalidFormat = 208,
    /// A date-time has no offset from UTC, and no `timezone` is set.
    ///
    /// The same local time is another point in time in each time zone, and clients get timestamps with an
    /// offset. Add the time zone of the upstream, or write `type: date` if only the day matters. A `Z` in
    /// `format` is only a letter: remove `format`, because the default parses such timestamps, or write
    /// `timezone: UTC`.
    ///
    /// ```yaml
    /// fields:
    ///   checked: { type: date-time, format: "%d.%m.%Y %H:%M", timezone: Europe/Oslo }
    /// ```
    TimeWithoutOffset = 209,
    /// A jq condition assigns a value.
    ///
    /// `=` assigns, and returns the changed value, so the condition is always true. Compare with `==`.
    ///
    /// ```yaml
    /// when: { json: .ok == false }
    /// ```
    AssignmentInCondition = 210,
    /// A JSON Schema is not valid.
    ///
    /// `input` and `output` are JSON Schema, 2020-12 unless `$schema` names another dialect. The usual
    /// cause is a type that JSON Schema does not have, such as `text` or `date`. Its types are `string`,
    /// `number`, `integer`, `boolean`, `array`, `object` and `null`. The dialects are draft-04, draft-06,
    /// draft-07, 2019-09 and 2020-12.
    ///
    /// ```yaml
    /// input: { properties: { day: { type: string, format: date } } }   # not `type: date`
    /// ```
    InvalidSchema = 220,
    /// JSON Schema has no such keyword.
    ///
    /// A validator ignores unknown keywords, so a misspelled one has no effect. Keywords of your own begin
    /// with `x-`. A keyword of another dialect than the one that `$schema` names has no effect either.
    UnknownKeyword = 221,
    /// A JSON Schema refers to another document.
    ///
    /// Clients do not fetch the documents that a tool's schema refers to. Put the schema under `$defs`.
    ///
    /// ```yaml
    /// input:
    ///   $defs: { city: { type: string } }
    ///   properties: { city: { $ref: "#/$defs/city" } }
    /// ```
    ExternalReference = 222,
    /// A pattern of a JSON Schema is not valid in ECMAScript.
    ///
    /// Clients compile the patterns of a schema with an ECMAScript engine. A pattern that it rejects makes
    /// the whole tool unusable for them, although glossator accepts it.
    ///
    /// ```yaml
    /// city: { type: string, pattern: "^[A-Za-z]+$" }   # not `(?i)^[a-z]+$`
    /// ```
    NonEcmaScriptPattern = 223,
    /// A JSON Schema may need more validation steps than the limit of a call.
    ///
    /// Each check of arguments or of a result has a limited number of steps. Beyond it, the call fails. The
    /// usual cause is many subschemas under `anyOf` or `oneOf` that all inspect the same value.
    CostlySchema = 224,
    /// The root of `input` is not an object.
    ///
    /// Clients send arguments by name, so the root of the schema is an object, with an argument for each
    /// entry of `properties`. For a list, define an argument that is a list.
    ///
    /// ```yaml
    /// input: { properties: { ids: { type: array, items: { type: string } } } }   # not `type: array`
    /// ```
    InputNotObject = 225,
    /// A required property is not defined in `input`.
    ///
    /// Clients can send only the arguments under `properties`, so no call would be valid. Usually one of the
    /// two names is misspelled, or the property was renamed in one place only.
    ///
    /// ```yaml
    /// input: { properties: { city: { type: string } }, required: [city] }   # not `citty`
    /// ```
    RequiredWithoutProperty = 226,
    /// An `x-mcp-header` of an argument is not valid.
    ///
    /// Clients also send such an argument as a header (`Mcp-Param-NAME`). They find only arguments under
    /// nested `properties`, of type string, integer or boolean, each with a header name of its own.
    ///
    /// ```yaml
    /// properties:
    ///   region: { type: string, x-mcp-header: Region }
    /// ```
    InvalidParamHeader = 227,
    /// Clients cannot show a form with this schema.
    ///
    /// For elicitation, MCP permits one flat object of strings, numbers, booleans and enums, and few
    /// keywords: no `pattern`, for example. glossator permits 50 fields. Divide an object into several
    /// fields. A rule can check a value with a condition on `$input_responses`.
    ///
    /// ```yaml
    /// input_requests:
    ///   address: { message: Where to?, fields: { street: string, city: string } }   # not a nested object
    /// ```
    InvalidForm = 228,

    // G03xx: names across sections.

    /// No upstream has this name.
    ///
    /// A request, `passthrough` and `admin.readiness_upstreams` name an upstream from the section
    /// `upstreams`.
    ///
    /// ```yaml
    /// upstreams: { weather: http://127.0.0.1:9000 }
    /// routes:
    ///   get_forecast: { request: GET weather/forecast }
    /// ```
    UnknownUpstream = 301,
    /// There are several upstreams, and the request does not name one.
    ///
    /// With a single upstream, its name is optional. Since there is a second one, every request needs the
    /// name.
    ///
    /// ```yaml
    /// request: GET weather/forecast   # not `GET /forecast`
    /// ```
    AmbiguousUpstream = 302,
    /// No route uses the upstream.
    ///
    /// It is likely that a route is missing or names another upstream. Remove an upstream that is not needed,
    /// because its credentials and health checks remain active.
    ///
    /// ```yaml
    /// routes:
    ///   get_invoice: { request: "GET billing/invoices/{id}" }
    /// ```
    UnusedUpstream = 303,
    /// No route has this name.
    ///
    /// The messages of a prompt and `completions` call a route by its name under `routes`. A tool of an MCP
    /// upstream is no route: write a route for it, with `request: CALL UPSTREAM/TOOL`.
    ///
    /// ```yaml
    /// routes:
    ///   get_report: { request: GET legacy/report }
    /// prompts:
    ///   assess: { messages: [{ user: { route: get_report } }] }
    /// ```
    UnknownRoute = 304,
    /// No named rules have this name.
    ///
    /// `use` names an entry of `rules` in any file of the folder, or a preset. The rules of a route have no
    /// name: to use them in another route, move them to `rules`.
    ///
    /// ```yaml
    /// rules:
    ///   gone: { when: { status: 410 }, error: It no longer exists. }
    /// routes:
    ///   get_report: { request: GET legacy/report, response: { use: gone } }
    /// ```
    UnknownRules = 305,
    /// No route uses the named rules.
    ///
    /// Named rules have an effect only where a route, or `defaults`, applies them with `use`.
    ///
    /// ```yaml
    /// routes:
    ///   get_report:
    ///     request: GET reports/today
    ///     response: { use: report }
    /// ```
    UnusedRules = 306,
    /// Named rules use themselves, directly or through others.
    ///
    /// The message has the cycle, in the order of `use`. Its expansion would never end. Remove one `use` of
    /// the cycle. Rules that two of them need can be named rules of their own.
    RecursiveRules = 307,
    /// Named rules use others too many levels deep.
    ///
    /// Named rules can use others 16 levels deep. Write the rules of the innermost level in place of the
    /// `use` that names them.
    RulesTooDeep = 308,
    /// Named rules have no such parameter.
    ///
    /// Either `with` sets a parameter that the rules do not have, or the rules contain a `$(name)` that
    /// `parameters` does not declare. For a literal `$(name)`, write `$$(name)`.
    ///
    /// ```yaml
    /// rules:
    ///   gone:
    ///     parameters: { what: report }
    ///     response: { when: { status: 410 }, error: "There is no such $(what)." }
    /// ```
    UnknownParameter = 309,
    /// A use of named rules lacks a required parameter.
    ///
    /// A parameter without a default (`title:`) needs a value under `with` wherever the rules are used. Set
    /// it there, or declare a default.
    ///
    /// ```yaml
    /// rules:
    ///   titled: { parameters: { title: }, response: { content: "$(title): {{ text }}" } }
    /// routes:
    ///   get_report: { request: GET legacy/report, response: { use: titled, with: { title: Daily } } }
    /// ```
    MissingParameter = 310,
    /// Named rules do not use one of their parameters.
    ///
    /// A route that sets the parameter under `with` changes nothing. Usually the rules have a fixed text
    /// where `$(name)` should be. Insert the parameter there, or remove it.
    ///
    /// ```yaml
    /// rules:
    ///   gone:
    ///     parameters: { what: report }
    ///     response: { when: { status: 410 }, error: "There is no such $(what)." }   # not `such report`
    /// ```
    UnusedParameter = 311,
    /// No route or prompt has this argument.
    ///
    /// The key names arguments of a route, a command or a prompt, and this is not one of them. The arguments
    /// of a route are those in its request and the `properties` of its `input`.
    ///
    /// ```yaml
    /// request: GET weather/forecast/{city}
    /// resource: weather://{city}
    /// completions: { city: [Oslo, Bergen] }   # not `town`
    /// ```
    UnknownArgument = 312,
    /// A call of a route lacks an argument that the route requires.
    ///
    /// A prompt and `completions` call the route with the arguments under `args` and no others. An argument
    /// of the prompt with the same name is not inserted by itself.
    ///
    /// ```yaml
    /// messages:
    ///   - user: { route: get_forecast, args: { city: "{{ args.city }}" } }
    /// ```
    MissingArgument = 313,
    /// An argument is unused.
    ///
    /// A client sends it without effect, and the model assumes that it has narrowed the request. If it is an
    /// argument under `more` of a `limit`, every call returns the same rows.
    ///
    /// ```yaml
    /// input: { properties: { city: { type: string } } }
    /// request: GET weather/forecast/{city}
    /// ```
    UnusedArgument = 314,
    /// A template uses an argument or input response that is not declared.
    ///
    /// Without `input`, the arguments of a route are those in its request. With `input`, they are its
    /// `properties`. An argument that only a rule uses must be declared, too, because no client would send
    /// it. An input response has the name of its entry under `input_requests`.
    ///
    /// ```yaml
    /// input: { properties: { city: { type: string } }, required: [city] }
    /// request: GET weather/forecast/{city}
    /// response: { content: "{{ args.city }}: {{ text }}" }   # not `args.town`
    /// ```
    UndeclaredArgument = 315,
    /// No route has a resource with this URI.
    ///
    /// A prompt embeds the resource of a route, by the URI in the `resource` of that route. For any other
    /// content, write it as `text` beside `uri`.
    ///
    /// ```yaml
    /// routes:
    ///   daily_report: { request: GET legacy/report, resource: "report://daily" }
    /// prompts:
    ///   assess: { messages: [{ user: { resource: "report://daily" } }] }
    /// ```
    UnknownResource = 316,
    /// No client has the scope that is required.
    ///
    /// No client can then use the route, because a client needs every scope of a route. Either the scope is
    /// misspelled, or a client lacks it.
    ///
    /// ```yaml
    /// clients:
    ///   reporting: { api_key_hashes: ["sha256:…"], scopes: [reports] }
    /// routes:
    ///   get_report: { request: GET reports/today, scopes: [reports] }
    /// ```
    UnusedScope = 317,
    /// `scopes` has no effect, because clients are not distinguished.
    ///
    /// Without `clients` and `server.auth`, every client is anonymous and may use every route. The scopes
    /// would only look like protection.
    ///
    /// ```yaml
    /// clients:
    ///   reporting: { api_key_hashes: ["sha256:…"], scopes: [reports] }
    /// ```
    ScopesWithoutClients = 318,
    /// `clients` is empty, so no client can call.
    ///
    /// With `clients`, every client must authenticate as one of them. Add a client with the hash of its key,
    /// which `glossator key` prints, or configure `server.auth`. Remove `clients` to accept all clients
    /// without authentication.
    ///
    /// ```yaml
    /// clients:
    ///   reporting: { api_key_hashes: ["sha256:…"] }   # not `clients: {}`
    /// ```
    NoClients = 319,
    /// A client's `jwt_subjects` does not identify it.
    ///
    /// A subject is unique only within the authorization server that issues the token. So `jwt_subjects`
    /// needs exactly one entry under `server.auth.jwt`. With several, each of them could act as the client;
    /// use scopes in the tokens then.
    ///
    /// ```yaml
    /// server:
    ///   auth:
    ///     resource: https://tools.example.com/mcp
    ///     jwt: { issuer: https://login.example.com, jwks: https://login.example.com/keys }
    /// clients:
    ///   reporting: { jwt_subjects: [service-7] }
    /// ```
    AmbiguousSubject = 320,

    // G04xx: routes and requests.

    /// There are no routes.
    ///
    /// Without a route, a prompt, `passthrough` or an MCP server's `tools`, there is nothing that a client
    /// can call.
    ///
    /// ```yaml
    /// upstreams: { weather: http://127.0.0.1:9000 }
    /// routes:
    ///   get_forecast: { request: GET weather/forecast }
    /// ```
    NoRoutes = 401,
    /// Two routes have the same name, endpoint or resource.
    ///
    /// A request would match both. Paths conflict, too, where they differ only in the names of their
    /// arguments.
    ///
    /// ```yaml
    /// routes:
    ///   get_invoice: { request: "GET billing/invoices/{id}", rest: "GET /invoices/{id}" }
    ///   get_receipt: { request: "GET billing/receipts/{id}", rest: "GET /receipts/{id}" }
    /// ```
    ConflictingRoutes = 402,
    /// A request or another key does not fit the kind of its upstream.
    ///
    /// An HTTP upstream has methods and paths, a command has arguments, an MCP server has tools.
    ///
    /// ```yaml
    /// routes:
    ///   get_forecast: { request: GET weather/forecast }          # an upstream with `url`
    ///   get_usage: { request: "RUN disk-usage --human {path}" }  # an upstream with `command`
    ///   search: { request: CALL search/query }                   # an upstream with `mcp`
    /// ```
    WrongUpstreamKind = 403,
    /// A request is malformed.
    ///
    /// A request in one line is `GET UPSTREAM/path`, `RUN UPSTREAM word {argument}` for a command, or
    /// `CALL UPSTREAM/TOOL` for an MCP server. It must name an upstream, not a URL. Spaces separate the words
    /// of `RUN`, so an argument with quotes or a template needs the map form. An argument in a path must be a
    /// string, a number or a boolean.
    ///
    /// ```yaml
    /// request: { upstream: disk, arguments: ["two words", "{{ args.path }}"] }   # not `RUN disk "…"`
    /// ```
    InvalidRequest = 404,
    /// The HTTP method is not valid, or not usable for a tool.
    ///
    /// Methods are case-sensitive, so `get` is not `GET`. `CONNECT` opens a tunnel, which a tool can't use.
    /// `rest` can use neither `HEAD` nor `OPTIONS`.
    ///
    /// ```yaml
    /// request: GET weather/forecast   # not `get weather/forecast`
    /// ```
    InvalidMethod = 405,
    /// The HTTP method looks like a misspelled one.
    ///
    /// glossator sends the method unchanged, and most servers reject a method that they do not know. If your
    /// server has this method, the request is right and you can ignore the warning.
    ///
    /// ```yaml
    /// request: DELETE pages/{id}   # not `DELTE`
    /// ```
    UnusualMethod = 406,
    /// A request with this method has no body.
    ///
    /// A body has no meaning in a `GET` or `HEAD` request, and many servers ignore or reject it. Send the
    /// values in `query`, or use `POST`, which is the default method of a request with a body.
    ///
    /// ```yaml
    /// request: { path: /search, query: { text: "{{ args.text }}" } }   # not `method: GET` with `body`
    /// ```
    UnexpectedBody = 407,
    /// The REST endpoint of a route is not valid.
    ///
    /// `rest` is `METHOD /path`. An argument is a whole segment of the path, and occurs in it once.
    /// glossator itself uses `/mcp`, `/message`, `/tools`, `/openapi.json` and `/health`. Every tool has the
    /// endpoint `POST /tools/NAME` without `rest`.
    ///
    /// ```yaml
    /// rest: GET /reports/{id}   # not `/reports/{id}.json`
    /// ```
    InvalidEndpoint = 408,
    /// An argument is inserted into a text without escaping.
    ///
    /// A client can then add to the text: another parameter of a form, another element of XML, another
    /// command of a protocol. Write the body as a map; glossator escapes its values. In lines of `text` or
    /// `stdin`, exclude line breaks from the argument, or write `{{ args.city | safe }}` if they can do no
    /// harm.
    ///
    /// ```yaml
    /// body: { form: { city: "{{ args.city }}" } }   # not `text: "city={{ args.city }}"`
    /// input: { properties: { city: { type: string, pattern: '^[^\r\n]*$' } } }
    /// ```
    UnescapedArgument = 409,
    /// A text that looks like JSON is sent as one JSON string.
    ///
    /// glossator encodes the value of `json`, so a string arrives in quotes and with escapes. Write the
    /// members in YAML: every string in it is a template, and a value that is one argument alone keeps its
    /// type.
    ///
    /// ```yaml
    /// body: { json: { id: "{{ args.id }}" } }   # not `json: '{"id": "{{ args.id }}"}'`
    /// ```
    JsonAsText = 410,
    /// A value is escaped inside of CDATA, where escapes are not decoded.
    ///
    /// In `xml`, glossator escapes inserted values: `&` becomes `&amp;`. A server does not decode this in
    /// CDATA, so it would read `&amp;` where the client wrote `&`. Escaped values need no CDATA.
    ///
    /// ```yaml
    /// body: { xml: "<name>{{ args.name }}</name>" }   # not `<name><![CDATA[{{ args.name }}]]></name>`
    /// ```
    EscapedCdata = 411,
    /// A route or prompt has no `description`.
    ///
    /// A model chooses a tool by its description, and a person a prompt. Without one, all that they see is
    /// the name.
    ///
    /// ```yaml
    /// get_forecast:
    ///   description: Weather forecast of a city for the next 5 days, in degrees Celsius.
    ///   request: GET weather/forecast/{city}
    /// ```
    MissingDescription = 412,
    /// `annotations` has no effect, because the route is not a tool.
    ///
    /// `annotations` of a route are hints about a tool, such as `readOnlyHint`. A route with `resource` is a
    /// tool only with `tool: true`, and a route with `tool: false` never is. Hints about a resource, such as
    /// `audience`, are `annotations` of the resource.
    ///
    /// ```yaml
    /// request: GET legacy/report
    /// resource: { uri: "report://daily", annotations: { audience: [user] } }
    /// ```
    AnnotationsWithoutTool = 413,
    /// An input request cannot be sent at this place.
    ///
    /// A client that reads a resource cannot be sent an input request. Clients of the revision 2026-07-28
    /// repeat a call after sampling (`sample`), so the request of the route must be safe to repeat.
    ///
    /// ```yaml
    /// summarize:
    ///   request: GET reports/today
    ///   idempotent: true
    /// ```
    InputRequestNotPossible = 414,
    /// An input request for an argument is never sent, because the argument is never missing.
    ///
    /// An argument that `input` requires is always sent by the client, and one with a default has a value.
    ///
    /// ```yaml
    /// input: { properties: { city: { type: string } } }   # without `required: [city]`
    /// ```
    InputRequestNeverSent = 415,
    /// The requests of an asynchronous operation use different upstreams.
    ///
    /// glossator sends `status`, `result` and `cancel` to the upstream that started the operation, because
    /// only that server knows it. Write the upstream of the route.
    ///
    /// ```yaml
    /// request: POST office/print/{page}
    /// async_operation: { id: .ticket, status: "GET office/jobs/{job}" }   # not `GET archive/jobs/{job}`
    /// ```
    AsyncOperationUpstream = 416,
    /// A key can't be combined with `async_operation`.
    ///
    /// The first response only starts the work: it can't be cached or shared by several calls, and the
    /// request must not be sent twice.
    ConflictsWithAsyncOperation = 417,
    /// The URI of a resource lacks an argument that the request needs.
    ///
    /// A client reads a resource by its URI and sends nothing else, so it has no way to set this argument.
    /// Add the argument to the URI, or a `default` under `input`.
    ///
    /// ```yaml
    /// request: GET archive/reports/{day}
    /// resource: report://{day}   # not `report://daily`
    /// ```
    ResourceArgument = 418,
    /// `poll_interval` repeats a request that may have side effects.
    ///
    /// glossator polls a resource to notify its subscribers of changes, even when no client reads it.
    ///
    /// ```yaml
    /// idempotent: true
    /// resource: { uri: report://today, poll_interval: 1m }
    /// ```
    PollsUnsafeRequest = 419,
    /// `poll_interval` sends the request without a header of the client.
    ///
    /// A poll belongs to no client, so `forward_headers` has nothing to forward.
    PollsWithoutClient = 420,
    /// The arguments of a test violate `input`.
    ///
    /// glossator rejects a call with such arguments, so the test shows a result that no client can get.
    /// Usually the test is older than `input`, or a name is misspelled. Write arguments that `input`
    /// accepts.
    ///
    /// ```yaml
    /// request: GET weather/temperature/{city}
    /// tests:
    ///   - args: { city: Oslo }   # not `town`
    ///     response: { body: "5 C" }
    ///     expect: { content: "5 C" }
    /// ```
    ImpossibleTest = 421,
    /// A test has no `expect`.
    ///
    /// Without an expected result there is nothing to compare, so the test fails. `glossator test --update`
    /// writes the actual result into the file as `expect`. If that result is an error, `--accept-errors` is
    /// needed as well. Review the written `expect` before you commit it.
    ///
    /// ```yaml
    /// tests:
    ///   - response: { body: out of order }
    ///     expect: { content: out of order }
    /// ```
    EmptyTest = 422,
    /// A template of a prompt fails when it is rendered.
    ///
    /// A person may omit the optional arguments of a prompt, and an undefined name in a template is an
    /// error. Arguments of prompts are strings, so `args.city.name` is undefined as well. Write a default,
    /// or make the argument `required`.
    ///
    /// ```yaml
    /// messages:
    ///   - user: "Be {{ args.style | default('short') }}."   # not `{{ args.style }}`
    /// ```
    FailingTemplate = 423,
    /// `passthrough` does not specify which clients may use it.
    ///
    /// With `clients`, each route specifies its scopes, and so does `passthrough`: it is access to every path
    /// of the upstream.
    ///
    /// ```yaml
    /// passthrough: { upstream: legacy, scopes: [legacy] }   # or `scopes: []` for every known client
    /// ```
    PassthroughWithoutScopes = 424,
    /// A request fails without an argument that clients may omit.
    ///
    /// Only a value of `query`, `headers`, `form` or `json` that is exactly one argument is omitted with it.
    /// Anywhere else, such as in the path or an `xml` body, a missing argument is a tool error.
    ///
    /// ```yaml
    /// body: { xml: "<city>{{ args.city | default('') }}</city>" }
    /// input: { properties: { city: { type: string } } }   # or `required: [city]`
    /// ```
    OptionalArgument = 425,

    // G05xx: rules, extractors, fields and output.

    /// A rule never matches.
    ///
    /// Rules are tried in order, and the first one that matches is applied. A rule without `when` matches
    /// every response, so the rules after it are never reached. Nor is a rule reached whose conditions an
    /// earlier rule has as well, such as `404` after `4xx`, or the same preset again. An error rule after a
    /// rule that matches every 2xx never makes a 2xx an error. All of this applies to the rules of
    /// `defaults.response` as well, which come after those of the route.
    ///
    /// ```yaml
    /// response:
    ///   - when: { status: 404 }
    ///     error: No such report.
    ///   - extract: json
    /// ```
    UnreachableRule = 501,
    /// Nothing uses the value that a rule extracts.
    ///
    /// The extractor then has no effect, or the rule lacks the template or filter that should use the value.
    ///
    /// ```yaml
    /// - extract: { pairs: {} }
    ///   content: "Load: {{ value.load }}"
    /// ```
    UnusedExtract = 502,
    /// Fields or types do not fit the value that the extractor returns.
    ///
    /// `fields` is for extractors that return objects, such as `pairs`, `csv` or `json`. `type` is for one
    /// value, such as that of `text`. With an object, `type` needs `from`, the name of the member.
    /// `optional` is for one of several named parts of `extract`.
    ///
    /// ```yaml
    /// response: { extract: { text: {}, type: number } }   # not `fields`
    /// ```
    FieldsDoNotFit = 503,
    /// The extractor does not find a field of this name.
    ///
    /// The names come from the extractor: the captures of `regex`, the `columns` of `csv`, the names under
    /// `select` of `html`. If the result needs another name, write the extractor's name as `from`.
    ///
    /// ```yaml
    /// response: { extract: { regex: '(?<size>\d+)', fields: { bytes: { from: size, type: integer } } } }
    /// ```
    UnknownField = 504,
    /// An extractor cannot be used at this place.
    ///
    /// `source` must return one text, which the other extractor parses, so `pairs` and tables do not fit.
    /// `header`, `binary` and `mcp` parse no text, so `source` has no effect on them. `binary` and `mcp`
    /// can't be one of several parts: use each in a rule of its own.
    ///
    /// ```yaml
    /// response: { extract: { source: { html: { text: pre } }, pairs: {} } }   # not `source: pairs`
    /// ```
    WrongExtractor = 505,
    /// A recorded response is not valid.
    ///
    /// `recording` names a file with the body of a response, the output of `curl -i`, or a HAR file of a
    /// browser. `entry` selects a response of a HAR file, by its number or a part of its URL. Record the
    /// response again: `curl -i http://127.0.0.1:9000/report > report.http`.
    ///
    /// ```yaml
    /// tests:
    ///   - response: { recording: report.http }
    ///     expect: { isError: false }
    /// ```
    InvalidRecording = 506,
    /// Every response of a route becomes an error.
    ///
    /// A rule without `when` matches every response. If it returns an error, and no rule before it returns a
    /// success, then no call succeeds. Usually, the condition is in the wrong place: `status` beside `error`
    /// is the status for REST clients.
    ///
    /// ```yaml
    /// response:
    ///   - when: { status: 404 }   # not `status: 404` beside `error`
    ///     error: No such report.
    /// ```
    OnlyErrors = 507,
    /// A rule returns a value of another shape than `output` declares.
    ///
    /// Clients check a result against the tool's output schema and reject one that does not match. glossator
    /// compares each rule with `output` before the first call.
    ///
    /// ```yaml
    /// output: { type: array, items: { type: object } }   # a rule that returns rows
    /// ```
    OutputShape = 520,
    /// A field is of another type than `output` declares.
    ///
    /// Every response with such a value would be a tool error. In a schema, a `date-time` is a string with
    /// that `format`, and a `size` is an integer. Without `output`, the schema follows from the fields.
    ///
    /// ```yaml
    /// response: { extract: { pairs: { fields: { load: number } } } }
    /// output: { properties: { load: { type: number } } }
    /// ```
    OutputFieldType = 521,
    /// `output` requires a field that a rule does not always return.
    ///
    /// Every response without the field would be a tool error. Usually the field is optional (`?`), or it
    /// has another name in the rule.
    ///
    /// ```yaml
    /// fields: { load: number? }
    /// output: { properties: { load: { type: number } } }   # without `required: [load]`
    /// ```
    OutputMissingField = 522,
    /// `output` does not permit a field that a rule returns.
    ///
    /// Every response with the field would be a tool error, because of `additionalProperties: false`.
    /// Usually the field was added to the rule only, or the two names differ.
    ///
    /// ```yaml
    /// fields: { load: number, host: string }
    /// output: { additionalProperties: false, properties: { load: {}, host: {} } }
    /// ```
    OutputUnknownField = 523,
    /// A tool has no output schema.
    ///
    /// Clients then cannot know the shape of its results, nor check them. The schema follows from `output`,
    /// or from the `fields` of every rule. The rules of `defaults.response` apply, too, unless the route has
    /// `default_rules: false`.
    ///
    /// ```yaml
    /// get_status:
    ///   request: GET legacy/status
    ///   response: { extract: { pairs: { fields: { load: number } } } }
    /// ```
    NoOutputSchema = 524,
    /// A limit returns fewer rows than `minItems` of `output` requires.
    ///
    /// The result of every longer response would not match the tool's output schema.
    ///
    /// ```yaml
    /// limit: { rows: 10 }
    /// output: { type: array, minItems: 1 }
    /// ```
    LimitBelowMinItems = 525,

    // G06xx: upstreams, policies and the process.

    /// The address of an upstream is not valid.
    ///
    /// An address is `http://HOST:PORT/base`, `https://HOST:PORT/base` or `unix:/path/to/socket`. User and
    /// password belong in `credentials`, and the query belongs in the `request` of a route.
    ///
    /// ```yaml
    /// upstreams: { weather: http://127.0.0.1:9000/api }   # not `127.0.0.1:9000/api`
    /// ```
    InvalidAddress = 601,
    /// Some addresses of an upstream are `https://`, and some are not.
    ///
    /// Requests are distributed over all addresses of an upstream, so some of them would be sent without
    /// TLS, with their credentials. Write the same scheme for all, or define two upstreams.
    ///
    /// ```yaml
    /// upstreams:
    ///   billing: { url: ["https://10.0.0.1:8443", "https://10.0.0.2:8443"] }
    /// ```
    MixedSchemes = 602,
    /// A key has no effect for an upstream with one address.
    ///
    /// `outlier_detection` ejects one of several addresses while the others remain. For one address, the
    /// `circuit_breaker` is enough, and it is on by default. `dns_refresh_interval` is for host names. Write
    /// a list of addresses or a host name, or remove the key.
    ///
    /// ```yaml
    /// upstreams:
    ///   billing:
    ///     url: ["http://10.0.0.1:9000", "http://10.0.0.2:9000"]
    ///     outlier_detection: { consecutive_failures: 3 }
    /// ```
    SingleAddress = 603,
    /// `tls` has no effect, because the address is not `https://`.
    ///
    /// `tls` has the trusted CAs and the client certificate of a TLS connection, and this connection is not
    /// encrypted. Write `https://` (`rediss://` for `shared_state`), or remove `tls`.
    ///
    /// ```yaml
    /// upstreams:
    ///   billing: { url: https://billing.example.com, tls: { ca: file:/etc/tls/ca.crt } }
    /// ```
    TlsWithoutHttps = 604,
    /// A header belongs to the connection and cannot be set.
    ///
    /// glossator itself sets `Connection`, `Content-Length`, `Host`, `Keep-Alive`, `Proxy-Connection`, `TE`,
    /// `Trailer`, `Transfer-Encoding` and `Upgrade`. They are hop-by-hop or delimit one message, and a wrong
    /// value could change where a server finds its end (request smuggling). Remove the header. `Host` follows
    /// from the address of the upstream; `headers` of the upstream may set another one, such as the name of a
    /// virtual host.
    ///
    /// ```yaml
    /// upstreams:
    ///   billing: { url: http://10.0.0.7, headers: { Host: billing.example.com } }
    /// ```
    ReservedHeader = 605,
    /// A program or folder of an upstream does not exist.
    ///
    /// glossator starts all the same, because a program may be installed later. Every call fails until then.
    ProgramNotFound = 606,
    /// A limit is never reached, because another one is lower.
    ///
    /// ```yaml
    /// upstreams:
    ///   billing: { url: http://127.0.0.1:9000, max_in_flight: 50 }
    /// passthrough: { upstream: billing, max_in_flight: 10 }
    /// ```
    LimitNeverReached = 607,
    /// A policy requires a request that only reads, or that can be sent twice.
    ///
    /// A cached response, a coalesced request or a hedged one would lose or repeat a change. For `cache` and
    /// `coalesce`, set `annotations: { readOnlyHint: true }` if the request only reads although its method
    /// does not imply that. For `hedge`, set `idempotent: true` if the request can be sent twice.
    ///
    /// ```yaml
    /// search: { request: POST catalog/search, annotations: { readOnlyHint: true }, cache: 1m }
    /// ```
    PolicyNeedsSafeRequest = 608,
    /// `hedge` has no effect, because `timeout` ends the call first.
    ///
    /// The second request would start when the call has already ended. Write a shorter delay, or `p95` for
    /// the 95th percentile of recent response times.
    ///
    /// ```yaml
    /// timeout: 2s
    /// hedge: 500ms
    /// ```
    HedgeAfterTimeout = 609,
    /// A call may take longer than the process waits at shutdown.
    ///
    /// A restart, a deployment or an upgrade ends such a call with an error, although the upstream may have
    /// done the work.
    ///
    /// ```yaml
    /// server: { shutdown_timeout: 1m }
    /// defaults: { timeout: 30s }
    /// ```
    TimeoutBeyondShutdown = 610,
    /// `on_store_failure` has no effect without `shared_state`.
    ///
    /// Without a shared store every process counts for itself, so there is nothing that could fail.
    ///
    /// ```yaml
    /// shared_state: redis://127.0.0.1:6379
    /// ```
    OnStoreFailureWithoutStore = 611,
    /// `shared_state` needs `server.secret_key`.
    ///
    /// glossator encrypts the data in the shared store with that key. All replicas need the same one.
    ///
    /// ```yaml
    /// server: { secret_key: "${GLOSSATOR_SECRET}" }   # made by `openssl rand -base64 32`
    /// shared_state: redis://127.0.0.1:6379
    /// ```
    SharedStateWithoutSecretKey = 612,
    /// `advertise_url` conflicts with `tls`.
    ///
    /// Other replicas connect to this server at `advertise_url`. With `tls`, the server accepts no
    /// connection without TLS, so requests of other replicas would fail. Write `https://`, with a host name
    /// of the certificate.
    ///
    /// ```yaml
    /// server:
    ///   secret_key: "${GLOSSATOR_SECRET}"
    ///   advertise_url: https://replica-1.example.com:8443
    ///   tls: { certificate: file:/etc/tls/tls.crt, key: file:/etc/tls/tls.key }
    /// ```
    AdvertiseUrlScheme = 613,
    /// A variable of OpenTelemetry has a value that is not supported.
    ///
    /// The standard variables of OpenTelemetry begin with `OTEL_` and apply to every program with this
    /// environment. glossator ignores an unsupported value, as the specification requires, and uses the
    /// setting of `telemetry` or its default. It exports with OTLP over HTTP: the protocol is
    /// `http/protobuf`, and an exporter is `otlp` or `none`. Durations are numbers of milliseconds. To set a
    /// value for glossator alone, use `telemetry`.
    UnsupportedVariable = 614,
    /// Other machines can connect, but every host name of theirs is rejected.
    ///
    /// The server listens on an address of the network and accepts only the host names of this machine, as a
    /// protection against DNS rebinding. Name the hosts that clients use.
    ///
    /// ```yaml
    /// server: { listen: 0.0.0.0:8080, allowed_hosts: [tools.example.com] }
    /// ```
    HostsRejected = 615,

    // G07xx: secrets and access.

    /// A secret is in the configuration file itself.
    ///
    /// Anyone who can read the file, its backups or its history can use the secret. Refer to an environment
    /// variable or a file. Neither is expanded in a `request`: write the secret under `credentials`,
    /// `headers` or `query` of the upstream.
    ///
    /// ```yaml
    /// credentials: { bearer: "${BILLING_TOKEN}" }   # or `file:/run/secrets/billing`
    /// ```
    SecretInFile = 701,
    /// Credentials or tokens are sent without TLS.
    ///
    /// Everybody on the network between the two machines can read and use them. Configure TLS here, or use a
    /// proxy that terminates TLS and add its address to `trusted_proxies`.
    ///
    /// ```yaml
    /// server:
    ///   listen: 0.0.0.0:8443
    ///   tls: { certificate: file:/etc/tls/tls.crt, key: file:/etc/tls/tls.key }
    /// ```
    CredentialsWithoutTls = 702,
    /// Other machines can reach the admin API, which requires no token.
    ///
    /// It shows the configuration and recent calls, and reloads the process.
    ///
    /// ```yaml
    /// admin: { listen: 0.0.0.0:9901, token: "${ADMIN_TOKEN}" }
    /// ```
    OpenAdminPort = 703,
    /// A certificate has expired, or expires within a week.
    ///
    /// Clients reject a connection with an expired certificate. Replace the file; glossator reads it again by
    /// itself.
    ExpiringCertificate = 704,
    /// An API key has expired.
    ///
    /// glossator rejects calls with this key, with status 401. Remove the hash if its client has a new key.
    /// Otherwise make one with `glossator key`, write its hash into the file, and give the key to the
    /// client.
    ///
    /// ```yaml
    /// clients:
    ///   reporting: { api_key_hashes: ["sha256:…"] }   # the hash of the new key
    /// ```
    ExpiredKey = 705,
    /// The client's `Authorization` is forwarded to the upstream.
    ///
    /// The upstream could use a token that was issued for this server to call this server. The MCP
    /// specification forbids that. Use separate credentials for the upstream.
    ///
    /// ```yaml
    /// upstreams:
    ///   billing: { url: https://billing.example.com, credentials: { bearer: "${BILLING_TOKEN}" } }
    /// ```
    ForwardedAuthorization = 706,
    /// `Authorization` has no effect, because `credentials` sets it.
    ///
    /// `credentials` sets `Authorization` in every request to the upstream, so the one in `headers`,
    /// `forward_headers` or `request` is never sent. Keep `credentials`, and remove the header. If a route
    /// needs another one, define a second upstream without `credentials` for it.
    ///
    /// ```yaml
    /// upstreams:
    ///   billing: { url: https://billing.example.com, credentials: { bearer: "${BILLING_TOKEN}" } }
    /// ```
    OverriddenAuthorization = 707,
    /// A secret is too long to be removed from errors and logs.
    ///
    /// glossator removes the secrets of an upstream from errors and logs, in the encodings in which a server
    /// may repeat them. That is not possible for a very long text. Usually a variable or a file has more
    /// than the secret: a whole configuration, or a certificate. Write only the secret, of at most a few
    /// hundred characters.
    SecretTooLong = 708,
}

/// Span in a file with the code of the problem there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CodedSpan {
    pub(crate) code: Code,
    pub(crate) span: SourceSpan,
}

impl Code {
    /// Combines the code with a span.
    pub(crate) fn at_span(self, span: SourceSpan) -> CodedSpan {
        CodedSpan { code: self, span }
    }

    /// The number in `G0107`.
    pub fn number(self) -> u16 {
        self as u16
    }

    /// Summary in one sentence.
    pub fn summary(self) -> &'static str {
        self.documentation().first().copied().unwrap_or_default().trim()
    }

    /// Cause or consequence of the problem, and a fix, as Markdown.
    pub fn explanation(self) -> String {
        let lines = self.documentation().iter().skip(1);
        let lines: Vec<&str> = lines.map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end()).collect();
        lines.join("\n").trim().to_owned()
    }
}

/// Parses `G0107`, in upper or lower case.
impl FromStr for Code {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let requested = text.to_ascii_uppercase();
        let code = Self::ALL.iter().find(|code| code.to_string() == requested);
        code.copied().ok_or_else(|| format!("there is no code `{text}`; codes have the form `G0107`"))
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_in_order_and_read_back() {
        assert!(Code::ALL.is_sorted());
        for code in Code::ALL {
            assert_eq!(code.to_string().parse(), Ok(*code));
        }
        assert_eq!(Code::UnknownExtractor.to_string(), "G0107");
        assert!("G9999".parse::<Code>().is_err());
    }

    #[test]
    fn every_code_has_a_summary_of_one_sentence() {
        for code in Code::ALL {
            let summary = code.summary();
            assert!(
                summary.ends_with('.') && !summary[..summary.len() - 1].contains(". "),
                "{code}: {summary}"
            );
        }
    }

    #[test]
    fn every_code_has_an_explanation() {
        for code in Code::ALL {
            assert!(!code.explanation().is_empty(), "{code}");
        }
    }

    #[test]
    fn an_explanation_is_what_follows_the_summary() {
        let explanation = Code::HedgeAfterTimeout.explanation();
        assert!(explanation.starts_with("The second request would start"));
        assert!(explanation.ends_with("times.\n\n```yaml\ntimeout: 2s\nhedge: 500ms\n```"));
        assert!(Code::UnreadableFile.explanation().starts_with("Check the path, and that the user of"));
    }
}
