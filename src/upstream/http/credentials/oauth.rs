//! Client credentials grant of OAuth 2.0: a token for a client id and secret (RFC 6749, section 4.4).

use std::{str::FromStr, sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use form_urlencoded::byte_serialize;
use http::{HeaderMap, HeaderValue, Method, Uri, header, uri::PathAndQuery};
use serde_json::Value;

use super::{
    Address, AddressError, BearerToken, CredentialError, HiddenText, HttpSettings, HttpUpstream,
    UpstreamCall, secret_header,
    token_cache::{IssuedToken, TokenCache, TokenRequest},
};
use crate::{
    model::UpstreamResponse,
    route::{HttpRequest, PathBase},
    upstream::Deadline,
};

/// Longest response that is read.
const RESPONSE_LIMIT_BYTES: usize = 64 << 10;
/// Lifetime of a token whose server does not send one.
const DEFAULT_LIFE: Duration = Duration::from_secs(300);
/// Longest lifetime that is accepted.
const MAX_LIFE: Duration = Duration::from_secs(24 * 3600);
/// Token server of an upstream, and the parameters of its tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct OAuthSettings {
    /// HTTP settings of the token server, with the address of its URL.
    pub server: HttpSettings,
    /// Token endpoint on that server.
    pub path_and_query: PathAndQuery,
    /// Client id.
    pub client_id: String,
    /// Client secret.
    pub client_secret: HiddenText,
    /// Client authentication method.
    pub style: AuthStyle,
    /// Scopes of the token.
    pub scopes: Vec<String>,
    /// More parameters, such as the audience.
    pub parameters: Vec<(String, String)>,
}

/// Client authentication method (RFC 6749, section 2.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AuthStyle {
    /// In `Authorization`, which every server must support.
    #[default]
    Basic,
    /// In the body.
    Post,
}

/// URL of a token endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenUrl {
    /// Server.
    pub address: Address,
    /// Path and query on it.
    pub path_and_query: PathAndQuery,
}

impl FromStr for TokenUrl {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let uri: Uri = text.parse().map_err(|_| AddressError::NotAUrl)?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(AddressError::NotAUrl);
        };
        let address = format!("{scheme}://{authority}").parse()?;
        let path_and_query = uri.path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/"));
        Ok(Self { address, path_and_query })
    }
}

impl OAuthSettings {
    fn request(&self) -> HttpRequest {
        let mut fields = vec![("grant_type", "client_credentials".to_owned())];
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let (id, secret) = (self.client_id.clone(), self.client_secret.as_str());
        match self.style {
            AuthStyle::Basic => {
                // Both are form-encoded first (section 2.3.1).
                let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
                let pair = STANDARD.encode(format!("{}:{}", encoded(&id), encoded(secret)));
                let value =
                    secret_header(&format!("Basic {pair}")).expect("base64 has ASCII characters only");
                headers.insert(header::AUTHORIZATION, value);
            }
            AuthStyle::Post => {
                fields.push(("client_id", id));
                fields.push(("client_secret", secret.to_owned()));
            }
        }
        if !self.scopes.is_empty() {
            fields.push(("scope", self.scopes.join(" ")));
        }
        fields.extend(self.parameters.iter().map(|(name, value)| (name.as_str(), value.clone())));
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        HttpRequest {
            method: Method::POST,
            under: PathBase::Origin,
            path_and_query: self.path_and_query.clone(),
            headers,
            body: Bytes::from(body),
        }
    }
}

/// Creates the token cache for these settings.
pub(super) fn token_cache(settings: &OAuthSettings) -> TokenCache {
    let settings = Arc::new(settings.clone());
    let server = HttpUpstream::new(settings.server.clone());
    TokenCache::new(settings.server.name.clone(), move || {
        // The cache enforces a shorter timeout.
        let deadline = Deadline::after(DEFAULT_LIFE);
        let upstream_call =
            UpstreamCall::new(settings.request().into(), RESPONSE_LIMIT_BYTES, deadline, false);
        let server = server.clone();
        let granting: TokenRequest = Box::pin(async move {
            let response = server.answer(&upstream_call).await.map_err(CredentialError::Unreached)?;
            granted(&response)
        });
        granting
    })
}

/// Parses the server's response. No error quotes it except for registered codes, because it may contain the
/// token or the secret.
fn granted(response: &UpstreamResponse) -> Result<IssuedToken, CredentialError> {
    let answer: Value = serde_json::from_slice(&response.body).unwrap_or_default();
    if !response.status.is_success() {
        return Err(CredentialError::Refused { status: response.status, code: code_of(&answer) });
    }
    let none = |found| Err(CredentialError::NoToken { found });
    // Some old servers report errors with status 200.
    if answer.get("error").is_some() {
        return Err(CredentialError::Refused { status: response.status, code: code_of(&answer) });
    }
    let Some(token) = answer.get("access_token").and_then(Value::as_str) else {
        return none(if answer.is_object() {
            "without `access_token`"
        } else {
            "with something that is not a JSON object"
        });
    };
    let kind = answer.get("token_type").and_then(Value::as_str).unwrap_or("Bearer");
    if !kind.eq_ignore_ascii_case("bearer") {
        return none("with a token that is not a bearer token");
    }
    let Ok(token) = BearerToken::new(token) else {
        return none("with a token that is not a valid header value");
    };
    let life = match answer.get("expires_in") {
        None | Some(Value::Null) => DEFAULT_LIFE,
        Some(value) => match seconds(value) {
            Some(life) if !life.is_zero() => life.min(MAX_LIFE),
            _ => return none("with a token that has expired, or whose expiry can't be read"),
        },
    };
    Ok(IssuedToken { token, life })
}

/// Number of seconds, which some servers send as a string.
fn seconds(value: &Value) -> Option<Duration> {
    let seconds = match value {
        Value::String(text) => text.trim().parse().ok()?,
        value => value.as_f64()?,
    };
    Duration::try_from_secs_f64(seconds.min(MAX_LIFE.as_secs_f64())).ok()
}

/// Error code, if it is registered.
fn code_of(answer: &Value) -> &'static str {
    const KNOWN: [&str; 9] = [
        "`invalid_request`",
        "`invalid_client`",
        "`invalid_grant`",
        "`unauthorized_client`",
        "`unsupported_grant_type`",
        "`invalid_scope`",
        "`invalid_target`",
        "`access_denied`",
        "`temporarily_unavailable`",
    ];
    match answer.get("error").and_then(Value::as_str) {
        Some(code) => {
            let known = KNOWN.into_iter().find(|known| known.trim_matches('`') == code);
            known.unwrap_or("an error that is not of RFC 6749")
        }
        None => "no error named",
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    fn settings() -> OAuthSettings {
        let url: TokenUrl = "http://login.test:81/oauth/token?tenant=a".parse().unwrap();
        OAuthSettings {
            server: HttpSettings::new("old".parse().unwrap(), url.address),
            path_and_query: url.path_and_query,
            client_id: "my client".into(),
            client_secret: HiddenText::new("p:ss&w%rd"),
            style: AuthStyle::Basic,
            scopes: vec!["read".into(), "write".into()],
            parameters: vec![("audience".into(), "https://api.test/".into())],
        }
    }

    #[test]
    fn the_client_authenticates_with_the_configured_method() {
        let request = settings().request();
        assert_eq!(request.path_and_query, "/oauth/token?tenant=a");
        let (scheme, pair) = request.headers["authorization"].to_str().unwrap().split_once(' ').unwrap();
        assert_eq!(scheme, "Basic");
        assert_eq!(STANDARD.decode(pair).unwrap(), b"my+client:p%3Ass%26w%25rd");
        let rest = "scope=read+write&audience=https%3A%2F%2Fapi.test%2F";
        assert_eq!(request.body, format!("grant_type=client_credentials&{rest}"));
        let request = OAuthSettings { style: AuthStyle::Post, ..settings() }.request();
        assert!(!request.headers.contains_key("authorization"));
        let client = "client_id=my+client&client_secret=p%3Ass%26w%25rd";
        assert_eq!(request.body, format!("grant_type=client_credentials&{client}&{rest}"));
    }

    #[track_caller]
    fn check(status: u16, body: &str, expected: Result<u64, &str>) {
        let status = StatusCode::from_u16(status).unwrap();
        let response = UpstreamResponse::new(status, HeaderMap::new(), body.to_owned().into());
        match (granted(&response), expected) {
            (Ok(granted), Ok(seconds)) => assert_eq!(granted.life, Duration::from_secs(seconds)),
            (Err(error), Err(words)) => {
                let text = error.to_string();
                assert!(text.contains(words) && !text.contains("s3cr3t"), "{text}");
            }
            (Ok(_), Err(words)) => panic!("expected {words:?}, found a token"),
            (Err(error), Ok(_)) => panic!("{error}"),
        }
    }

    #[test]
    fn a_token_has_the_lifetime_that_its_server_declares() {
        check(200, r#"{"access_token": "s3cr3t", "token_type": "bearer", "expires_in": 3600}"#, Ok(3600));
        check(200, r#"{"access_token": "s3cr3t", "expires_in": "3599"}"#, Ok(3599));
        check(200, r#"{"access_token": "s3cr3t"}"#, Ok(300));
        check(200, r#"{"access_token": "s3cr3t", "expires_in": 1e300}"#, Ok(24 * 3600));
    }

    #[test]
    fn an_invalid_token_is_an_error_that_does_not_quote_it() {
        check(401, r#"{"error": "invalid_client", "error_description": "s3cr3t"}"#, Err("`invalid_client`"));
        check(400, r#"{"error": "s3cr3t"}"#, Err("status 400 Bad Request and an error that is not"));
        check(500, "s3cr3t", Err("no error named"));
        check(200, r#"{"error": "invalid_scope"}"#, Err("`invalid_scope`"));
        check(200, "s3cr3t", Err("not a JSON object"));
        check(200, r#"{"token": "s3cr3t"}"#, Err("without `access_token`"));
        check(200, r#"{"access_token": "s3cr3t", "token_type": "mac"}"#, Err("not a bearer token"));
        check(200, "{\"access_token\": \"s3cr3t\\nX: y\"}", Err("not a valid header value"));
        for life in ["0", "-1", "\"soon\"", "[]"] {
            let body = format!(r#"{{"access_token": "s3cr3t", "expires_in": {life}}}"#);
            check(200, &body, Err("has expired"));
        }
    }

    #[test]
    fn an_address_without_a_host_is_none() {
        for text in
            ["/token", "login.test", "unix:/run/x", "ftp://login.test/", "https://me:s3cr3t@login.test/"]
        {
            text.parse::<TokenUrl>().unwrap_err();
        }
    }
}
