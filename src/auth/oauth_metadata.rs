//! Protected resource metadata (RFC 9728) and `WWW-Authenticate` challenges (RFC 6750).

use std::collections::HashSet;

use http::{HeaderValue, StatusCode, Uri};
use serde_json::{Value, json};

use settings_derive::Section;

use super::{Access, AuthError, JwtSettings};
use crate::route::Scopes;
use crate::settings::{Checked, Code, Cursor, Invalid, OneOrMore, OpenSection, Setting, text_of};
use crate::upstream::Client;
use crate::upstream::http::Address;

/// Path of the metadata (RFC 9728, section 3); the path of the resource follows it.
pub const METADATA_PATH: &str = "/.well-known/oauth-protected-resource";

/// The section `auth` of `server`: accepted tokens, and the authorization servers that issue them.
#[derive(Debug, Clone, PartialEq, Section)]
#[section(name = "`auth` of `server`", id = "server_auth", process, variables, masked, check = Self::complete)]
pub struct ResourceServer {
    /// Public URL of this server, and the default audience of tokens: `https://tools.example.com/mcp`. MCP
    /// clients find the authorization servers through it.
    #[key(live)]
    pub resource: Option<ResourceUrl>,
    /// Accepted JWT access tokens, by issuer.
    #[key(live)]
    pub jwt: OneOrMore<JwtSettings>,
    /// Authorization servers that the metadata for clients lists.
    #[key(
        shown = "the issuers of `jwt`",
        requires = "resource",
        help = "write `resource`, the public URL of this server, or remove `authorization_servers`",
        live
    )]
    pub authorization_servers: Option<Vec<String>>,
}

impl ResourceServer {
    /// Uses `resource` as the audience of each entry of `jwt` without `audience`. Checks that each entry then
    /// has an audience, and that no issuer occurs twice.
    fn complete(mut self, section: &OpenSection<'_>) -> Checked<Self> {
        let nodes = section.entry("jwt").map_or(&[][..], |entry| entry.value.one_or_more());
        if nodes.is_empty() {
            let help = "write `jwt: { issuer: https://login.example.com, jwks: \
                        https://login.example.com/jwks.json }`";
            return Err(section.missing("`auth` accepts no tokens".to_owned(), help));
        }
        let (mut issuers, mut result) = (HashSet::new(), Ok(()));
        for (jwt, node) in self.jwt.0.iter_mut().zip(nodes) {
            if !issuers.insert(jwt.issuer.clone()) {
                let help = "combine the audiences of this issuer in one entry";
                let coded_span = Code::DuplicateValue.at_span(node.span);
                result = Err(section.reject_at(coded_span, "duplicate issuer", help));
            }
            if node.get("audience").is_none() {
                jwt.audiences.0.extend(self.resource.iter().map(|url| url.as_str().to_owned()));
            }
            // Not reported if `resource`, which would have been the audience, is invalid itself.
            let lacks_audience = jwt.audiences.0.is_empty() && section.check_valid(&["resource"]).is_ok();
            if lacks_audience || jwt.audiences.0.iter().any(String::is_empty) {
                let help = "write `audience`, or `resource` beside `jwt`: tokens for other servers must not be accepted";
                let coded_span = Code::MissingKey.at_span(node.span);
                result = Err(section.reject_at(coded_span, "`jwt` has no audience", help));
            }
        }
        result.map(|()| self)
    }
}

impl Setting for ResourceUrl {
    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let url = Self::from_text(text_of(value)?).or_else(|invalid| value.reject(invalid))?;
        if url.is_cleartext() {
            let message = "`resource` has no TLS: clients send tokens unencrypted";
            value.warn(Code::CredentialsWithoutTls, message.to_owned(), "write an `https://` address");
        }
        Ok(url)
    }
}

/// The URL of a resource that tokens are issued for (RFC 8707, section 2): `https://host/mcp`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceUrl {
    configured: String,
    origin: String,
    path: String,
}

impl ResourceUrl {
    /// Parses an `http://` or `https://` URL without user name, query and fragment.
    pub(super) fn from_text(text: &str) -> Result<Self, Invalid> {
        let invalid = || {
            let message = "expected an `http://` or `https://` address without query and fragment";
            Invalid::without_value(message, "write `https://tools.example.com/mcp`")
        };
        let uri: Uri = text.parse().map_err(|_| invalid())?;
        let (scheme, authority) = uri.scheme_str().zip(uri.authority()).ok_or_else(invalid)?;
        let is_plain = matches!(scheme, "http" | "https")
            && uri.query().is_none()
            && !text.contains(['#', '"', '\\'])
            && !authority.as_str().contains('@');
        let path = uri.path().trim_end_matches('/').to_owned();
        let url = Self { configured: text.to_owned(), origin: format!("{scheme}://{authority}"), path };
        is_plain.then_some(url).ok_or_else(invalid)
    }

    /// The URL exactly as it is configured: the audience of a token must be equal to it.
    pub fn as_str(&self) -> &str {
        &self.configured
    }

    /// Whether clients reach this server over the network without TLS.
    pub fn is_cleartext(&self) -> bool {
        let is_local = self.origin.parse().is_ok_and(|address: Address| address.is_local());
        self.origin.starts_with("http://") && !is_local
    }

    fn metadata_url(&self) -> String {
        format!("{}{METADATA_PATH}{}", self.origin, self.path)
    }
}

impl AuthError {
    /// The HTTP status of the response, and the error code (RFC 6750, section 3.1). A client that sent no
    /// credential gets no error code.
    pub fn status_and_code(&self) -> (StatusCode, Option<&'static str>) {
        match self {
            Self::Missing => (StatusCode::UNAUTHORIZED, None),
            Self::Invalid(_) => (StatusCode::UNAUTHORIZED, Some("invalid_token")),
            Self::Malformed(_) => (StatusCode::BAD_REQUEST, Some("invalid_request")),
            Self::KeysUnavailable => (StatusCode::SERVICE_UNAVAILABLE, None),
        }
    }
}

impl Access {
    /// The `WWW-Authenticate` challenge for a client that is not authenticated.
    pub fn challenge(&self, error: &AuthError) -> HeaderValue {
        let code_and_description = error.status_and_code().1.map(|code| (code, error.to_string()));
        self.challenge_with(&self.settings.scopes, code_and_description)
    }

    /// The `WWW-Authenticate` challenge for a client that lacks some of the `needed` scopes;
    /// `route_scopes` has every scope that a route or prompt needs.
    ///
    /// The challenge also lists the scopes of the token. A client that requested a token with only the
    /// missing scopes would lose the scopes that it has (MCP 2025-11-25, Authorization, "Runtime Insufficient
    /// Scope Errors").
    pub fn challenge_for(
        &self,
        needed: &Scopes,
        client: Option<&Client>,
        route_scopes: &Scopes,
    ) -> HeaderValue {
        let scopes = match (client, self.resource()) {
            (Some(client), Some(_)) => {
                let all = route_scopes.union(&self.settings.scopes);
                // Scopes that the configuration grants are omitted, because authorization servers do not
                // know them.
                let configured = self.settings.clients.iter().find(|settings| *settings.client() == *client);
                let configured = configured.map(|settings| settings.scopes.clone()).unwrap_or_default();
                needed.union(&client.scopes.difference(&configured).intersection(&all))
            }
            (_, _) => needed.clone(),
        };
        self.challenge_with(&scopes, Some(("insufficient_scope", "the client lacks a required scope".into())))
    }

    fn resource(&self) -> Option<&ResourceUrl> {
        self.settings.server.as_ref()?.resource.as_ref()
    }

    fn challenge_with(&self, scopes: &Scopes, code_and_description: Option<(&str, String)>) -> HeaderValue {
        let (code, description) = code_and_description.unzip();
        let description = description.map(|description| quoted_string_text(&description));
        let scopes = (!scopes.is_empty()).then(|| scopes.to_string());
        let metadata = self.resource().map(ResourceUrl::metadata_url);
        let members = [
            ("error", code.map(str::to_owned)),
            ("error_description", description),
            ("scope", scopes),
            ("resource_metadata", metadata),
        ];
        let member = |(name, value): (&str, Option<String>)| Some(format!("{name}=\"{}\"", value?));
        let members: Vec<String> = members.into_iter().filter_map(member).collect();
        let challenge = format!("Bearer {}", members.join(", "));
        HeaderValue::from_str(challenge.trim_end()).unwrap_or(HeaderValue::from_static("Bearer"))
    }

    /// The protected resource metadata, if `path` is one of its paths; `needed` has every scope that a route
    /// or prompt needs.
    pub fn metadata_at(&self, path: &str, needed: &Scopes) -> Option<Value> {
        let server = self.settings.server.as_ref()?;
        let resource = server.resource.as_ref()?;
        let suffix = path.strip_prefix(METADATA_PATH)?.trim_end_matches('/');
        if !suffix.is_empty() && suffix != resource.path && suffix != "/mcp" {
            return None;
        }
        let all = needed.union(&self.settings.scopes);
        let issuers = || server.jwt.0.iter().map(|jwt| jwt.issuer.clone()).collect();
        let mut metadata = json!({
            "resource": resource.as_str(),
            "authorization_servers": server.authorization_servers.clone().unwrap_or_else(issuers),
            "bearer_methods_supported": ["header"],
        });
        if !all.is_empty() {
            metadata["scopes_supported"] = all.iter().collect();
        }
        Some(metadata)
    }
}

/// Removes backticks, and replaces characters that are not allowed in a quoted string (RFC 6750, section 3).
fn quoted_string_text(text: &str) -> String {
    let fits = |character: char| matches!(character, ' '..='~') && !matches!(character, '"' | '\\');
    text.replace('`', "").chars().map(|character| if fits(character) { character } else { '?' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        auth::{AccessSettings, ClientSettings},
        settings::value::OneOrMore,
    };

    fn scopes(text: &str) -> Scopes {
        Scopes::from_client(text.split_whitespace())
    }

    fn access(resource: Option<&str>) -> Access {
        let server = ResourceServer {
            resource: resource.map(|url| ResourceUrl::from_text(url).unwrap()),
            jwt: OneOrMore(Vec::new()),
            authorization_servers: Some(vec!["https://login.test".into()]),
        };
        let scopes = Scopes::from_client(["use"]);
        Access::new(AccessSettings { server: Some(server), scopes, ..AccessSettings::default() }, None)
    }

    #[test]
    fn a_challenge_names_the_missing_scope_and_the_metadata() {
        let nothing = Access::new(AccessSettings::default(), None);
        assert_eq!(nothing.challenge(&AuthError::Missing), "Bearer");
        let access = access(Some("https://tools.test/mcp"));
        let metadata = "resource_metadata=\"https://tools.test/.well-known/oauth-protected-resource/mcp\"";
        assert_eq!(access.challenge(&AuthError::Missing), format!("Bearer scope=\"use\", {metadata}"));
        let invalid = access.challenge(&AuthError::Invalid("the key `x` has \"expired\""));
        let error = "error=\"invalid_token\", error_description=\"the key x has ?expired?\"";
        assert_eq!(invalid, format!("Bearer {error}, scope=\"use\", {metadata}"));
        let needed = access.challenge_for(&scopes("b a"), None, &Scopes::default());
        assert!(needed.to_str().unwrap().starts_with("Bearer error=\"insufficient_scope\""));
        assert!(needed.to_str().unwrap().contains("scope=\"a b\""));
    }

    #[test]
    fn a_challenge_repeats_the_scopes_of_the_token() {
        let mut access = access(Some("https://tools.test/mcp"));
        let robot = ClientSettings {
            name: "robot".to_owned(),
            scopes: scopes("by_file"),
            api_key_hashes: OneOrMore(Vec::new()),
            certificates: Vec::new(),
            jwt_subjects: vec!["svc".to_owned()],
        };
        let robot_client = Client::new(&robot.client().id, "robot", scopes("by_file read openid"));
        access.settings.clients = vec![robot];
        let route_scopes = &scopes("read write by_file");
        let challenge_scopes = |access: &Access, client: Option<&Client>| {
            let challenge = access.challenge_for(&scopes("write"), client, route_scopes);
            let (_, rest) = challenge.to_str().unwrap().split_once("scope=\"").unwrap();
            rest.split('"').next().unwrap().to_owned()
        };
        let other = Client::new("token x", "x", scopes("read use offline_access by_file"));
        assert_eq!(challenge_scopes(&access, Some(&other)), "by_file read use write");
        assert_eq!(
            challenge_scopes(&access, Some(&robot_client)),
            "read write",
            "nobody gives it what the file does"
        );
        assert_eq!(challenge_scopes(&access, None), "write");
        access.settings.server = None;
        assert_eq!(challenge_scopes(&access, Some(&other)), "write", "there is nowhere to ask for more");
    }

    #[test]
    fn metadata_is_where_clients_look_for_it() {
        let metadata_at =
            |access: &Access, path: &str| access.metadata_at(path, &Scopes::from_client(["more"]));
        let with_path = access(Some("https://tools.test/team/mcp"));
        for path in ["", "/", "/mcp", "/team/mcp", "/team/mcp/"] {
            let metadata = metadata_at(&with_path, &format!("{METADATA_PATH}{path}")).unwrap();
            assert_eq!(metadata["resource"], "https://tools.test/team/mcp");
            assert_eq!(metadata["authorization_servers"], json!(["https://login.test"]));
            assert_eq!(metadata["scopes_supported"], json!(["more", "use"]));
        }
        assert!(metadata_at(&with_path, &format!("{METADATA_PATH}/team")).is_none());
        assert!(metadata_at(&access(None), METADATA_PATH).is_none());
    }

    #[test]
    fn a_resource_is_a_url_without_query_and_fragment() {
        for wrong in [
            "",
            "tools.test",
            "/mcp",
            "ftp://tools.test",
            "https://tools.test/?a",
            "https://tools.test/#a",
            "https://me@tools.test",
        ] {
            assert!(ResourceUrl::from_text(wrong).is_err(), "{wrong}");
        }
        assert!(ResourceUrl::from_text("http://tools.test/mcp").unwrap().is_cleartext());
        assert!(ResourceUrl::from_text("http://localhost.test/mcp").unwrap().is_cleartext());
        assert!(!ResourceUrl::from_text("http://localhost:8080/mcp").unwrap().is_cleartext());
    }
}
