//! `admin`: the port of the admin API.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::server::hosts_of;
use crate::crypto::SecretKey;
use crate::inbound::filter::read_hosts;
use crate::settings::{Checked, Code, Cursor, OpenSection, Origin, Section, Setting};

/// Settings of the admin API: its address, and its access control.
#[derive(Debug, Clone, PartialEq, Eq, Section)]
#[section(id = "admin", process, variables, default, check = Self::complete)]
pub struct AdminSettings {
    /// Address and port of the admin API, or `off`. If it is not set and the default port is in use, there is
    /// no admin API.
    #[key(with = read_listen, default = Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9901)), restart)]
    pub listen: Option<SocketAddr>,
    /// Whether the address is configured explicitly: the process then fails to start if it is in use.
    #[key(skip)]
    pub is_named: bool,
    /// Accepted values of `Host`; `*` accepts all.
    #[key(
        with = read_hosts,
        shown = "loopback names and the listen address, or all if that is every address",
        restart
    )]
    pub allowed_hosts: Vec<String>,
    /// Upstreams that must be reachable for readiness, by name; `*` for all.
    #[key(shown = "none", restart)]
    pub readiness_upstreams: Vec<String>,
    /// Bearer token for the admin API, at least 16 bytes; probes need none.
    #[key(shown = "no authentication", secret, restart)]
    pub token: Option<SecretKey>,
}

fn read_listen(value: &Cursor<'_>) -> Checked<Option<SocketAddr>> {
    match value.node.as_text() {
        Some("off") => Ok(None),
        _ => SocketAddr::read(value).map(Some),
    }
}

impl AdminSettings {
    /// Sets the default of `allowed_hosts`, and warns if other machines can reach the API without a token.
    fn complete(mut self, section: &OpenSection<'_>) -> Checked<Self> {
        self.is_named = section.entry("listen").is_some();
        if section.entry("allowed_hosts").is_none() {
            self.allowed_hosts = match self.listen {
                // A metrics scraper may use any host name.
                Some(listen) if listen.ip().is_unspecified() => vec!["*".to_owned()],
                Some(listen) => hosts_of(listen),
                None => Vec::new(),
            };
        }
        let is_open = self.listen.is_some_and(|listen| !listen.ip().to_canonical().is_loopback());
        if let Some(entry) = section.entry("listen").filter(|_| is_open && self.token.is_none()) {
            let report = section.value.context.report;
            let help = match report.files().origin(entry.value.span) {
                Origin::File | Origin::BuiltIn => {
                    "write `token: ${ADMIN_TOKEN}` beside it (`openssl rand -base64 32` makes one), or listen on \
                     `127.0.0.1`"
                }
                Origin::Variable | Origin::Flag => {
                    "set `GLOSSATOR__ADMIN__TOKEN`, or write `admin: { token: \"${ADMIN_TOKEN}\" }`; `openssl rand \
                     -base64 32` makes one"
                }
            };
            let message = "other machines can reach the admin API, which requires no token";
            report.warning(Code::OpenAdminPort.at_span(entry.value.span), message, help);
        }
        Ok(self)
    }
}
