//! Client credentials grant of OAuth 2.0: a token for a client id and secret (RFC 6749, section 4.4).

use std::{sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use form_urlencoded::byte_serialize;
use http::{HeaderMap, HeaderValue, Method, Uri, header, uri::PathAndQuery};
use serde_json::Value;
use settings_derive::{EnumSetting, Section};

use super::token_cache::{IssuedToken, MAX_BACKOFF, TokenCache};
use super::{
    Address, BearerToken, CredentialError, HiddenText, HttpSettings, HttpUpstream, UpstreamCall,
    secret_header,
};
use crate::model::UpstreamResponse;
use crate::route::{HttpRequest, PathBase, UpstreamName};
use crate::settings::{Checked, Code, Entry, FromText, Invalid, Named, OpenSection, Scalar};
use crate::tls::ClientTls;
use crate::upstream::Deadline;

/// Maximum length of a token response, in bytes.
const RESPONSE_LIMIT_BYTES: usize = 64 << 10;
/// Lifetime of a token if the token server does not send `expires_in`.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(300);
/// Maximum lifetime of a token; a longer lifetime is reduced to this.
const MAX_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// Token server of an upstream, and the parameters of its tokens.
#[derive(Debug, Clone, PartialEq, Section)]
#[section(id = "oauth", variables, check = Self::complete, check_keys = Self::check_keys)]
pub struct OAuthSettings {
    /// Token endpoint: `https://login.example.com/oauth/token`.
    #[key(example = "token_url: https://login.example.com/oauth/token")]
    token_url: EndpointUrl,
    /// Client id.
    #[key(file, example = "client_id: NAME")]
    client_id: Scalar,
    /// Client secret: `${NAME}` or `file:/path`.
    #[key(secret, example = "`client_secret: ${NAME}` or `client_secret: file:/run/secrets/NAME`")]
    client_secret: HiddenText,
    /// Requested scopes.
    #[key(shown = "those of the token server")]
    scopes: Vec<String>,
    /// Audience of the token, if the server requires it.
    audience: Option<String>,
    /// Further parameters of the token request, such as `resource`.
    parameters: Named<Scalar>,
    /// Client authentication at the token endpoint: by `Authorization`, or in the body.
    #[key(default = ClientAuthMethod::ClientSecretBasic)]
    client_auth_method: ClientAuthMethod,
    /// TLS settings for the token server: trusted CAs and the client certificate.
    tls: Option<ClientTls>,
}

/// Client authentication method (RFC 6749, section 2.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumSetting)]
pub(super) enum ClientAuthMethod {
    /// By HTTP Basic authentication, which every server must support.
    ClientSecretBasic,
    /// In the body, as `client_id` and `client_secret`.
    ClientSecretPost,
}

/// URL of a token endpoint, or of a JWKS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointUrl {
    /// Address of the server, without a base path.
    pub address: Address,
    /// Path and query of requests.
    pub path_and_query: PathAndQuery,
}

impl FromText for EndpointUrl {
    fn from_text(text: &str) -> Result<Self, Invalid> {
        let parse = || {
            let uri: Uri = text.trim().parse().ok()?;
            let address = format!("{}://{}", uri.scheme_str()?, uri.authority()?).parse().ok()?;
            let path_and_query = uri.path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/"));
            Some(Self { address, path_and_query })
        };
        parse().ok_or_else(|| {
            let message = "`token_url` is not a valid URL for token requests";
            let help = "write `https://HOST/PATH`, without user and password";
            Invalid::without_value(message, help).with_code(Code::InvalidAddress)
        })
    }
}

impl OAuthSettings {
    /// Rejects parameters that other keys of the section set.
    fn check_keys(section: &OpenSection<'_>) -> Checked<()> {
        const RESERVED: [&str; 5] = ["grant_type", "client_id", "client_secret", "scope", "audience"];
        let parameters = section.entry("parameters").and_then(|entry| entry.value.as_map());
        let reserved =
            parameters.unwrap_or_default().iter().filter(|entry| RESERVED.contains(&&*entry.key.text));
        let mut checked = Ok(());
        for Entry { key, .. } in reserved {
            let message = format!("the parameter `{}` is reserved: another key sets it", key.text);
            let code = Code::ReservedName.at_span(key.span);
            checked = Err(section.reject_at(code, &message, "use that key, or remove it"));
        }
        checked
    }

    fn complete(mut self, section: &OpenSection<'_>) -> Checked<Self> {
        let is_tls = self.token_url.address.is_tls();
        self.tls = ClientTls::for_address(self.tls.take(), is_tls, "https://", section)?;
        if let Some(entry) = section.entry("token_url")
            && !is_tls
            && !self.token_url.address.is_local()
        {
            let message = "`token_url` has no TLS: the client secret and the token are sent unencrypted";
            section.value.context.report.warning(
                Code::CredentialsWithoutTls.at_span(entry.value.span),
                message,
                "write an `https://` address (RFC 6749, section 3.2)",
            );
        }
        Ok(self)
    }

    fn request(&self) -> HttpRequest {
        let mut fields = vec![("grant_type", "client_credentials".to_owned())];
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let (Scalar(id), secret) = (self.client_id.clone(), &*self.client_secret.0.0);
        match self.client_auth_method {
            ClientAuthMethod::ClientSecretBasic => {
                // Id and secret are form-encoded first (RFC 6749, section 2.3.1).
                let form_encode = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
                let pair = STANDARD.encode(format!("{}:{}", form_encode(&id), form_encode(secret)));
                headers.insert(header::AUTHORIZATION, secret_header(&format!("Basic {pair}")));
            }
            ClientAuthMethod::ClientSecretPost => {
                fields.push(("client_id", id));
                fields.push(("client_secret", secret.to_owned()));
            }
        }
        if !self.scopes.is_empty() {
            fields.push(("scope", self.scopes.join(" ")));
        }
        fields.extend(self.audience.clone().map(|audience| ("audience", audience)));
        let parameters = self.parameters.0.iter();
        fields.extend(parameters.map(|(name, Scalar(value))| (name.as_str(), value.clone())));
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let request = HttpRequest::get(PathBase::Origin, self.token_url.path_and_query.clone());
        HttpRequest { method: Method::POST, headers, body: Bytes::from(body), ..request }
    }
}

/// Creates the token cache for these settings.
pub(super) fn token_cache(settings: &OAuthSettings, upstream: &UpstreamName) -> Arc<TokenCache> {
    let settings = Arc::new(settings.clone());
    let server = HttpSettings::new(upstream.clone(), settings.token_url.address.clone());
    let server = HttpUpstream::new(HttpSettings { tls: settings.tls.clone(), ..server });
    TokenCache::new(upstream, MAX_BACKOFF, move || {
        // The cache enforces a shorter timeout.
        let deadline = Deadline::after(DEFAULT_LIFETIME);
        let upstream_call =
            UpstreamCall::new(settings.request().into(), RESPONSE_LIMIT_BYTES, deadline, false);
        let server = server.clone();
        Box::pin(async move {
            let response = server.send(&upstream_call).await.map_err(CredentialError::Unreached)?;
            parse_token_response(&response)
        })
    })
}

/// Parses the token response. Errors quote only registered error codes, because the response may contain the
/// token or the client secret.
fn parse_token_response(response: &UpstreamResponse) -> Result<IssuedToken, CredentialError> {
    let body: Value = serde_json::from_slice(&response.body).unwrap_or_default();
    // Some old token servers report errors with status 200.
    if !response.status.is_success() || !body["error"].is_null() {
        return Err(CredentialError::Rejected(response.status, error_code(&body)));
    }
    let is_bearer = body["token_type"].as_str().is_none_or(|kind| kind.eq_ignore_ascii_case("bearer"));
    let token = body["access_token"].as_str().filter(|_| is_bearer).and_then(BearerToken::new);
    let token = token.ok_or(CredentialError::NoToken("without a valid bearer token in `access_token`"))?;
    let lifetime = match &body["expires_in"] {
        Value::Null => Some(DEFAULT_LIFETIME),
        value => seconds(value).filter(|lifetime| !lifetime.is_zero()),
    };
    let expired = CredentialError::NoToken("with a token that has expired, or whose expiry can't be read");
    Ok(IssuedToken { token, lifetime: lifetime.ok_or(expired)?.min(MAX_LIFETIME) })
}

/// Parses a number of seconds, which some servers send as a string.
fn seconds(value: &Value) -> Option<Duration> {
    let seconds = match value {
        Value::String(text) => text.trim().parse().ok()?,
        value => value.as_f64()?,
    };
    Duration::try_from_secs_f64(seconds.min(MAX_LIFETIME.as_secs_f64())).ok()
}

/// The error code of the response, if the code is registered.
fn error_code(body: &Value) -> &'static str {
    const REGISTERED_CODES: &str = "`invalid_request` `invalid_client` `invalid_grant` `unauthorized_client` \
                         `unsupported_grant_type` `invalid_scope` `invalid_target` `access_denied` \
                         `temporarily_unavailable`";
    let Some(code) = body.get("error").and_then(Value::as_str) else { return "no error code" };
    let registered = REGISTERED_CODES.split(' ').find(|registered| registered.trim_matches('`') == code);
    registered.unwrap_or("an unregistered error code")
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    fn settings() -> OAuthSettings {
        OAuthSettings {
            token_url: EndpointUrl::from_text("http://login.test:81/oauth/token?tenant=a").unwrap(),
            client_id: Scalar("my client".into()),
            client_secret: HiddenText(crate::settings::secret::Hidden("p:ss&w%rd".into())),
            scopes: vec!["read".into(), "write".into()],
            audience: Some("https://api.test/".into()),
            parameters: Named(Vec::new()),
            client_auth_method: ClientAuthMethod::ClientSecretBasic,
            tls: None,
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
        let request =
            OAuthSettings { client_auth_method: ClientAuthMethod::ClientSecretPost, ..settings() }.request();
        assert!(!request.headers.contains_key("authorization"));
        let client = "client_id=my+client&client_secret=p%3Ass%26w%25rd";
        assert_eq!(request.body, format!("grant_type=client_credentials&{client}&{rest}"));
    }

    #[track_caller]
    fn check(status: u16, body: &str, expected: Result<u64, &str>) {
        let status = StatusCode::from_u16(status).unwrap();
        let response = UpstreamResponse::new(status, HeaderMap::new(), body.to_owned().into());
        match (parse_token_response(&response), expected) {
            (Ok(issued), Ok(seconds)) => assert_eq!(issued.lifetime, Duration::from_secs(seconds)),
            (Err(error), Err(part)) => {
                let message = error.to_string();
                assert!(message.contains(part) && !message.contains("s3cr3t"), "{message}");
            }
            (Ok(_), Err(part)) => panic!("expected {part:?}, found a token"),
            (Err(error), Ok(_)) => panic!("{error}"),
        }
    }

    #[test]
    fn a_token_has_the_lifetime_that_its_server_declares() {
        check(200, r#"{"access_token": "s3cr3t", "token_type": "bearer", "expires_in": 3600}"#, Ok(3600));
        check(200, r#"{"access_token": "s3cr3t", "expires_in": "3599"}"#, Ok(3599));
        check(200, r#"{"access_token": "s3cr3t"}"#, Ok(300));
        check(200, r#"{"access_token": "s3cr3t", "error": null}"#, Ok(300));
        check(200, r#"{"access_token": "s3cr3t", "expires_in": 1e300}"#, Ok(24 * 3600));
    }

    #[test]
    fn an_invalid_token_is_an_error_that_does_not_quote_it() {
        check(401, r#"{"error": "invalid_client", "error_description": "s3cr3t"}"#, Err("`invalid_client`"));
        check(400, r#"{"error": "s3cr3t"}"#, Err("status 400 Bad Request and an unregistered"));
        check(500, "s3cr3t", Err("no error code"));
        check(200, r#"{"error": "invalid_scope"}"#, Err("`invalid_scope`"));
        check(200, "s3cr3t", Err("without a valid bearer token"));
        check(200, r#"{"token": "s3cr3t"}"#, Err("without a valid bearer token"));
        check(200, r#"{"access_token": "s3cr3t", "token_type": "mac"}"#, Err("without a valid bearer token"));
        check(200, "{\"access_token\": \"s3cr3t\\nX: y\"}", Err("without a valid bearer token"));
        for lifetime in ["0", "-1", "\"soon\"", "[]"] {
            let body = format!(r#"{{"access_token": "s3cr3t", "expires_in": {lifetime}}}"#);
            check(200, &body, Err("has expired"));
        }
    }

    #[test]
    fn a_url_without_a_host_is_rejected() {
        for text in
            ["/token", "login.test", "unix:/run/x", "ftp://login.test/", "https://me:s3cr3t@login.test/"]
        {
            EndpointUrl::from_text(text).unwrap_err();
        }
    }
}
