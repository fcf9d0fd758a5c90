//! Redaction of glossator's credentials for upstreams in responses that echo them.
//!
//! Legacy servers may echo requests: an error page with all headers, or a `WWW-Authenticate` with the
//! rejected token. Credentials for upstreams must not reach clients in such a response.

use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD},
};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, header};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use regex::bytes::Regex;

use super::{Address, AuthSettings, HttpSettings, QueryParameter};
use crate::model::UpstreamResponse;
use crate::settings::secret::{Hidden, is_secret_name};

/// Replacement for a secret.
pub(in crate::upstream) const REDACTED: &str = "[redacted]";

/// Redactor of secrets in responses. It replaces whole secrets in every response. In error responses it also
/// replaces short secrets and the beginnings of long secrets.
#[derive(Debug, Clone)]
pub(in crate::upstream) struct SecretScrubber {
    everywhere: Vec<Hidden<Arc<Regex>>>,
    in_errors: Vec<Hidden<Arc<Regex>>>,
}

impl SecretScrubber {
    /// Minimum length of a secret in bytes. Shorter strings occur in responses by chance.
    const MIN_BYTES: usize = 6;
    /// Minimum length of a secret in bytes in responses that are not errors, where no data may be lost.
    const MIN_BYTES_IN_DATA: usize = 16;
    /// Minimum length in bytes of a secret whose beginning alone is redacted in errors, because errors
    /// truncate quotations.
    const LONG_BYTES: usize = 24;
    /// Maximum length of the searched beginning in bytes.
    const MAX_BEGINNING_BYTES: usize = 24;

    /// Creates a scrubber of texts that are certainly secrets.
    pub(super) fn new<'s>(secrets: impl IntoIterator<Item = &'s str>) -> Self {
        Self::from_secrets(&secrets.into_iter().map(str::to_owned).collect::<Vec<_>>(), &[])
    }

    /// Creates a scrubber of the secrets in settings, except the credential: sensitive headers and
    /// parameters, and the hidden parts of addresses.
    pub(super) fn from_settings(settings: &HttpSettings) -> Self {
        let (certain, possible) = secrets_of(settings);
        Self::from_secrets(&certain, &possible)
    }

    fn from_secrets(certain: &[String], possible: &[String]) -> Self {
        // Responses that are not errors are searched only for complete secrets in lower, upper or original
        // case: the regex engine finds such literals fast, but a case-insensitive search reads every byte.
        let forms = certain.iter().flat_map(|secret| forms(secret.trim()));
        let cases = forms.flat_map(|form| [form.to_lowercase(), form.to_uppercase(), form]);
        let long_forms = cases.filter(|form| form.len() >= Self::MIN_BYTES_IN_DATA);
        let everywhere: BTreeSet<String> = long_forms.map(|form| regex::escape(&form)).collect();
        let everywhere: Vec<String> = everywhere.into_iter().rev().collect();
        let in_errors = pattern_of(certain.iter().chain(possible).map(String::as_str));
        let everywhere = (!everywhere.is_empty()).then(|| everywhere.join("|"));
        let regexes = |pattern: Option<String>| pattern.map(compile_regex).into_iter().collect();
        Self { everywhere: regexes(everywhere), in_errors: regexes(in_errors) }
    }

    /// Adds the secrets of another scrubber.
    pub(super) fn add(&mut self, other: Self) {
        self.everywhere.extend(other.everywhere);
        self.in_errors.extend(other.in_errors);
    }

    /// Redacts a response. A compressed body is not decompressed, so secrets in it remain.
    pub(in crate::upstream) fn scrub(&self, mut response: UpstreamResponse) -> UpstreamResponse {
        let regexes = if response.status.is_success() { &self.everywhere } else { &self.in_errors };
        for Hidden(secrets) in regexes {
            if let Cow::Owned(redacted) = secrets.replace_all(&response.body, REDACTED.as_bytes()) {
                response.body = Bytes::from(redacted);
                // The redacted body has another length.
                response.headers.remove(header::CONTENT_LENGTH);
            }
            for value in response.headers.values_mut() {
                if let Cow::Owned(redacted) = secrets.replace_all(value.as_bytes(), REDACTED.as_bytes()) {
                    *value = HeaderValue::from_bytes(&redacted).unwrap_or(HeaderValue::from_static(REDACTED));
                }
            }
        }
        response
    }
}

impl HttpSettings {
    /// Regex that matches the secrets in these settings, which must not occur in errors. `None` if the
    /// settings have no secrets. The regex itself is a secret.
    pub fn secrets_pattern(&self) -> Option<String> {
        let (certain, possible) = secrets_of(self);
        let others = certain.iter().chain(&possible).map(String::as_str);
        pattern_of(self.auth.iter().flat_map(AuthSettings::secrets).chain(others))
    }
}

/// Secrets in settings, except the credential: first the certain secrets, then texts that came from outside
/// the file and may not be secret, such as the name of a tenant.
fn secrets_of(settings: &HttpSettings) -> (Vec<String>, Vec<String>) {
    let (mut certain, mut possible) = (Vec::new(), Vec::new());
    let headers = settings.headers.iter().filter(|(_, value)| value.is_sensitive());
    let headers = headers.map(|(name, value)| (name.to_string(), secrets_in(name, value)));
    let parameters = settings.query.iter().filter(|parameter| parameter.is_secret);
    // Pages often contain their own URL. Together with the parameter's name, even a short value is long
    // enough to be searched.
    let parameters = parameters.map(|QueryParameter { name, value, .. }| {
        (name.to_ascii_lowercase(), vec![value.0.clone(), format!("{name}={}", value.0)])
    });
    for (name, texts) in headers.chain(parameters) {
        let secrets = if is_credential(&name) { &mut certain } else { &mut possible };
        secrets.extend(texts);
    }
    let bases = settings.addresses().filter_map(Address::hidden_base);
    possible.extend(bases.map(|base| base.trim_matches('/').to_owned()));
    (certain, possible)
}

/// Regex that matches secrets, which must not occur in errors: all their forms in any case, and the
/// beginnings of long secrets. The longest match comes first. `None` if there are no secrets. The regex
/// itself is a secret.
pub(in crate::upstream) fn pattern_of<'s>(secrets: impl Iterator<Item = &'s str>) -> Option<String> {
    let (mut whole_forms, mut beginnings) = (BTreeSet::new(), BTreeSet::new());
    for form in
        secrets.flat_map(|secret| forms(secret.trim())).filter(|form| form.len() >= SecretScrubber::MIN_BYTES)
    {
        whole_forms.insert(regex::escape(&form));
        beginnings.extend(beginning_of(&form));
    }
    let patterns: Vec<String> = whole_forms.into_iter().rev().chain(beginnings.into_iter().rev()).collect();
    (!patterns.is_empty()).then(|| format!("(?i:{})", patterns.join("|")))
}

/// Regex that matches everything: if the secrets are too long for a regex, no text is shown.
pub(in crate::upstream) const EVERYTHING: &str = "(?s).+";

/// Compiles a regex for bytes, because a body may be in any charset.
fn compile_regex(pattern: String) -> Hidden<Arc<Regex>> {
    let everything = |_| Regex::new(&format!("(?-u){EVERYTHING}")).expect("the pattern is fixed and tested");
    Hidden(Regex::new(&format!("(?-u){pattern}")).unwrap_or_else(everything).into())
}

/// Regex that matches the beginning of a long secret, and the text after it up to a separator.
fn beginning_of(form: &str) -> Option<String> {
    if form.len() < SecretScrubber::LONG_BYTES || !form.is_ascii() {
        return None;
    }
    let beginning = &form[..(form.len() / 2).min(SecretScrubber::MAX_BEGINNING_BYTES)];
    // The beginning must not end with the first character of an escape: a text that is cut elsewhere would
    // not match it.
    let beginning = beginning.trim_end_matches(['\\', '%', '&']);
    Some(format!(r#"{}[^\s"'<>,;]*"#, regex::escape(beginning)))
}

/// Secret parts of a header's value: the whole value, unless it begins with an authentication scheme; the
/// credential after a scheme, and the password in it; each cookie, and its value.
fn secrets_in(name: &HeaderName, value: &HeaderValue) -> Vec<String> {
    let Ok(value) = value.to_str() else { return Vec::new() };
    if *name == header::COOKIE {
        let cookies = value.split(';').map(str::trim);
        let with_values =
            cookies.flat_map(|cookie| [Some(cookie), cookie.split_once('=').map(|pair| pair.1)]);
        return with_values.flatten().chain([value]).map(str::to_owned).collect();
    }
    let Some((scheme, credential)) = value.split_once(' ') else { return vec![value.to_owned()] };
    let mut secrets = vec![credential.trim().to_owned()];
    if !name.as_str().ends_with("authorization") {
        secrets.push(value.to_owned());
    }
    let decoded = STANDARD.decode(credential.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    if let Some((_, password)) = decoded.as_deref().and_then(|pair| pair.split_once(':'))
        && scheme.eq_ignore_ascii_case("basic")
    {
        secrets.push(password.to_owned());
    }
    secrets
}

/// Suffixes of the names of headers and parameters that contain a credential: `X-Api-Key`, `X-Auth`,
/// `X-Session-Id`.
const CREDENTIAL_SUFFIXES: &str =
    "key token secret password passwd pass auth authorization credential credentials session session-id";

/// Whether a header or parameter with this lower-case name contains a credential.
fn is_credential(name: &str) -> bool {
    *name == header::AUTHORIZATION
        || *name == header::COOKIE
        || CREDENTIAL_SUFFIXES.split(' ').any(|suffix| name.ends_with(suffix))
        || is_secret_name(name)
}

/// Returns a secret in the encodings that a server may use to echo it: unchanged, in JSON, in a URL, in HTML,
/// in Base64.
fn forms(secret: &str) -> BTreeSet<String> {
    let mut forms = text_forms(secret);
    for encoded in base64_forms(secret) {
        // In a URL, or in JSON with escaped slashes.
        let in_url = encoded.replace('+', "%2B").replace('/', "%2F");
        forms.extend([
            encoded.replace('+', "-").replace('/', "_"),
            encoded.replace('/', r"\/"),
            in_url,
            encoded,
        ]);
    }
    forms
}

/// Base64 of a string that may be a part of a longer one: three forms, by the number of preceding bytes in
/// the same group of three. Characters that also encode neighbouring bytes are omitted.
fn base64_forms(secret: &str) -> impl Iterator<Item = String> {
    // Base64 of a short text has too few characters to be distinguished from other text.
    let is_long = secret.len() >= SecretScrubber::MIN_BYTES;
    (0..3).filter(move |_| is_long).map(|before| {
        let bytes = [&[0; 2][..before], secret.as_bytes()].concat();
        let encoded = STANDARD_NO_PAD.encode(&bytes);
        let (start, has_rest) = ([0, 2, 3][before], bytes.len() % 3 != 0);
        encoded[start..encoded.len() - usize::from(has_rest)].to_owned()
    })
}

/// Converts the escapes in URL-encoded text to lower case: `%2f`.
fn with_lowercase_escapes(encoded: &str) -> String {
    let mut parts = encoded.split('%');
    let mut lowercased = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (escape, rest) = part.split_at_checked(2).unwrap_or((part, ""));
        lowercased.extend(["%", &escape.to_lowercase(), rest]);
    }
    lowercased
}

fn text_forms(secret: &str) -> BTreeSet<String> {
    let json = serde_json::Value::from(secret).to_string();
    let json = json[1..json.len() - 1].to_owned();
    let slashes = json.replace('/', r"\/");
    let url = utf8_percent_encode(secret, NON_ALPHANUMERIC).to_string();
    // Many encoders do not escape the unreserved characters of RFC 3986.
    let plain = url.replace("%2D", "-").replace("%2E", ".").replace("%5F", "_").replace("%7E", "~");
    let html = secret.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    let as_form = plain.replace("%20", "+");
    let lowercase = [&url, &plain, &as_form].map(|text| with_lowercase_escapes(text));
    [secret.to_owned(), json, slashes, url, plain, as_form, html].into_iter().chain(lowercase).collect()
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderName, StatusCode};

    use super::*;

    const TOKEN: &str = "sk-1234/5678+abcd=efgh&ijkl";

    #[track_caller]
    fn check(scrubber: &SecretScrubber, status: u16, body: &str, expected: &str) {
        let mut headers = HeaderMap::new();
        headers.insert("x-echo", HeaderValue::from_str(&body.replace('\n', " ")).unwrap());
        let response =
            UpstreamResponse::new(StatusCode::from_u16(status).unwrap(), headers, body.to_owned().into());
        let scrubbed = scrubber.scrub(response);
        assert_eq!(scrubbed.body, expected.as_bytes());
        assert_eq!(scrubbed.headers["x-echo"], expected.replace('\n', " "));
    }

    #[test]
    fn a_secret_is_replaced_in_whatever_form_it_is_written() {
        let scrubber = SecretScrubber::new([TOKEN]);
        for status in [200, 401, 500] {
            check(&scrubber, status, &format!("a {TOKEN} b"), "a [redacted] b");
            check(&scrubber, status, r#"{"h": "sk-1234\/5678+abcd=efgh&ijkl"}"#, r#"{"h": "[redacted]"}"#);
            check(&scrubber, status, "?t=sk-1234%2F5678%2Babcd%3Defgh%26ijkl", "?t=[redacted]");
            check(&scrubber, status, "<p>sk-1234/5678+abcd=efgh&amp;ijkl</p>", "<p>[redacted]</p>");
            check(&scrubber, status, "nothing of it", "nothing of it");
        }
    }

    #[test]
    fn the_secrets_of_a_header_depend_on_its_name() {
        let secrets =
            |name: HeaderName, value: &'static str| secrets_in(&name, &HeaderValue::from_static(value));
        assert_eq!(secrets(header::AUTHORIZATION, "Bearer abc"), ["abc"]);
        assert_eq!(secrets(header::AUTHORIZATION, "Basic dTpw"), ["dTpw", "p"]);
        assert_eq!(
            secrets(header::COOKIE, "id=a b; lang=no"),
            ["id=a b", "a b", "lang=no", "no", "id=a b; lang=no"]
        );
        let password = HeaderName::from_static("x-password");
        assert_eq!(secrets(password, "correct horse"), ["horse", "correct horse"]);
    }

    #[test]
    fn a_secret_in_base64_is_replaced_at_any_offset() {
        let scrubber = SecretScrubber::new([TOKEN]);
        for before in ["", "a", "ab", "user:", "user: "] {
            for after in ["", "c", "cd", "\n"] {
                let encoded = STANDARD.encode(format!("{before}{TOKEN}{after}"));
                let url_safe = encoded.replace('+', "-").replace('/', "_");
                let in_url = encoded.replace('/', "%2F").replace('+', "%2B");
                for form in [encoded.clone(), url_safe, encoded.to_lowercase(), in_url] {
                    for status in [200, 401] {
                        let body = Bytes::from(format!("x {form} y"));
                        let response = UpstreamResponse::new(
                            StatusCode::from_u16(status).unwrap(),
                            HeaderMap::new(),
                            body,
                        );
                        let scrubbed = String::from_utf8(scrubber.scrub(response).body.to_vec()).unwrap();
                        assert!(
                            scrubbed.contains(REDACTED) && scrubbed.len() < 36,
                            "{status} {form}: {scrubbed}"
                        );
                    }
                }
            }
        }
        check(&scrubber, 401, "a c2stMTIzNA b", "a c2stMTIzNA b");
    }

    #[test]
    fn a_secret_in_another_case_is_replaced() {
        let scrubber = SecretScrubber::new([TOKEN]);
        for status in [200, 401] {
            check(&scrubber, status, &TOKEN.to_uppercase(), "[redacted]");
            check(&scrubber, status, "?t=sk-1234%2f5678%2babcd%3defgh%26ijkl", "?t=[redacted]");
            let mixed = SecretScrubber::new(["AbCdEfGhIjKl/MnOp"]);
            check(&mixed, status, "?t=AbCdEfGhIjKl%2fMnOp", "?t=[redacted]");
        }
        check(&scrubber, 401, "Sk-1234/5678+Abcd=eFgh&ijkl", "[redacted]");
        check(&SecretScrubber::new(["open sesame"]), 401, "?t=Open+Sesame", "?t=[redacted]");
    }

    #[test]
    fn the_beginning_of_a_secret_is_replaced_in_errors() {
        let scrubber = SecretScrubber::new([TOKEN]);
        check(&scrubber, 403, "no such key: sk-1234/5678+abcd...", "no such key: [redacted]");
        check(&scrubber, 200, "no such key: sk-1234/5678+abcd...", "no such key: sk-1234/5678+abcd...");
    }

    #[test]
    fn short_secrets_are_replaced_in_errors_alone() {
        let scrubber = SecretScrubber::new(["hunter2", "abc"]);
        check(&scrubber, 500, "password hunter2 of abc", "password [redacted] of abc");
        check(&scrubber, 200, "password hunter2 of abc", "password hunter2 of abc");
    }

    #[test]
    fn only_credential_headers_are_secrets() {
        let address: Address = "http://hooks.test/T000/B000/XXXX".parse().unwrap();
        let mut settings = HttpSettings::new("old".parse().unwrap(), address.with_hidden_base());
        let headers = &mut settings.headers;
        for (name, value) in [
            ("authorization", "Basic bWU6Y29ycmVjdCBob3JzZSBiYXR0ZXJ5"),
            ("x-api-key", "0123456789abcdef0123"),
            ("x-auth", "fedcba9876543210fedc"),
            ("x-tenant", "northern-lights-incorporated"),
        ] {
            let mut value = HeaderValue::from_static(value);
            value.set_sensitive(true);
            headers.insert(HeaderName::from_static(name), value);
        }
        headers.insert("x-client", HeaderValue::from_static("glossator-of-this-place"));
        let scrubber = SecretScrubber::from_settings(&settings);
        check(&scrubber, 404, "no /T000/B000/XXXX/list here", "no /[redacted]/list here");
        check(&scrubber, 200, "correct horse battery", "[redacted]");
        check(&scrubber, 200, "Basic bWU6Y29ycmVjdCBob3JzZSBiYXR0ZXJ5", "Basic [redacted]");
        check(&scrubber, 200, "0123456789abcdef0123 fedcba9876543210fedc", "[redacted] [redacted]");
        check(&scrubber, 200, "northern-lights-incorporated", "northern-lights-incorporated");
        check(&scrubber, 404, "northern-lights-incorporated", "[redacted]");
        check(&scrubber, 404, "glossator-of-this-place", "glossator-of-this-place");
    }
}
