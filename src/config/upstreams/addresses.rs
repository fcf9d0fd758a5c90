//! Addresses of an upstream, outlier detection and health checks.

use std::time::Duration;

use crate::{
    config::{
        code::Code,
        node::{Kind, Node},
        report::Report,
        secret::{self, Environment},
        section::{self, Section},
    },
    settings::value::OrOff,
    upstream::http::{
        ADDRESS_LIMIT, Address, AddressError, HealthCheckSettings, HttpSettings, OutlierDetectionSettings,
    },
};

/// The addresses of one upstream, at least one.
pub(super) struct Addresses {
    pub(super) first: Address,
    pub(super) others: Vec<Address>,
}

/// Reads `url`, or what is called otherwise. `None` when something is wrong with it; that has been reported
/// then.
pub(super) fn read(
    report: &Report<'_>,
    environment: &Environment,
    node: &Node,
    name: &str,
) -> Option<Addresses> {
    let Kind::List(items) = &node.kind else {
        let text = section::text_of(report, node, name)?;
        return Some(Addresses { first: address(report, environment, node, text)?, others: Vec::new() });
    };
    if items.is_empty() {
        report.error(Code::EmptyValue.at(node.span), "`url` is an empty list", "write at least one address");
        return None;
    }
    if items.len() > ADDRESS_LIMIT {
        let message = format!("an upstream has at most {ADDRESS_LIMIT} addresses, found {}", items.len());
        report.error(
            Code::TooMany.at(node.span),
            message,
            "give the service a name with all of them, or put a balancer before it",
        );
        return None;
    }
    let mut found: Vec<Address> = Vec::new();
    let mut good = true;
    for item in items {
        let text = section::text_of(report, item, "an address");
        let Some(address) = text.and_then(|text| address(report, environment, item, text)) else {
            good = false;
            continue;
        };
        if found.contains(&address) {
            report.error(
                Code::DuplicateValue.at(item.span),
                "this address is here twice",
                "keep one of them",
            );
            good = false;
        } else if found.first().is_some_and(|first| first.is_tls() != address.is_tls()) {
            let help = "make them two upstreams, or write `https://` for all";
            report.error(
                Code::MixedSchemes.at(item.span),
                "some addresses are `https://` and some are not",
                help,
            );
            good = false;
        }
        found.push(address);
    }
    let mut found = good.then_some(found)?.into_iter();
    Some(Addresses { first: found.next()?, others: found.collect() })
}

/// Reads `outlier_detection`, `health_check` and `dns_refresh_interval` into settings with the addresses in
/// them.
pub(super) fn care(section: &Section<'_, '_>, addresses: &Addresses) -> Care {
    let has_names = addresses.all().any(|address| address.name().is_some());
    let warn = |name: &'static str, why: &str, help: &str| {
        if let Some(entry) = section.entry(name) {
            section.report.warning(
                Code::SingleAddress.at(entry.key.span),
                format!("`{name}` has no effect: {why}"),
                help,
            );
        }
    };
    if !has_names {
        warn("dns_refresh_interval", "no address has a name that is looked up", "leave it out");
        if addresses.others.is_empty() {
            warn(
                "outlier_detection",
                "there is one address only",
                "write `url: [ADDRESS, ADDRESS]`, or leave it out",
            );
        }
    }
    Care {
        outlier_detection: match section.read::<OrOff<OutlierDetectionSettings>>("outlier_detection") {
            None => OutlierDetectionSettings::default(),
            Some(OrOff::Off) => {
                OutlierDetectionSettings { consecutive_failures: None, ..OutlierDetectionSettings::default() }
            }
            Some(OrOff::On(settings)) => settings,
        },
        health_check: section.read("health_check"),
        dns_refresh_interval: section
            .duration("dns_refresh_interval")
            .unwrap_or(HttpSettings::DNS_REFRESH_INTERVAL_DEFAULT),
    }
}

/// How addresses are looked after.
pub(super) struct Care {
    pub(super) outlier_detection: OutlierDetectionSettings,
    pub(super) health_check: Option<HealthCheckSettings>,
    pub(super) dns_refresh_interval: Duration,
}

impl Addresses {
    fn all(&self) -> impl Iterator<Item = &Address> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

/// One address. `None` when it is none; that has been reported then.
pub(super) fn address(
    report: &Report<'_>,
    environment: &Environment,
    node: &Node,
    text: &str,
) -> Option<Address> {
    let expanded = secret::expand(report, environment, node.span, text)?;
    let text = expanded.text.trim();
    let error = match text.parse::<Address>() {
        // Some put the key of a service into its path.
        Ok(address) if expanded.foreign => return Some(address.with_hidden_base()),
        Ok(address) => return Some(address),
        Err(error) => error,
    };
    let subject = if expanded.foreign { "with its variables put in, the URL" } else { "the URL" };
    let (message, help) = match error {
        AddressError::Scheme => {
            ("is not `http://`, `https://` or `unix:`".to_owned(), "write `http://HOST:PORT`".to_owned())
        }
        AddressError::Socket => (
            "names no socket".to_owned(),
            "write it from the root on: `unix:/run/app.sock`, or `unix:/run/app.sock:/base`".to_owned(),
        ),
        AddressError::Credentials => (
            "has a user or password in it".to_owned(),
            "leave them out, and write `headers: { Authorization: \"Basic ${NAME}\" }`".to_owned(),
        ),
        AddressError::Query => (
            "has a query or a fragment in it".to_owned(),
            "leave it out; queries belong to routes".to_owned(),
        ),
        AddressError::NotAUrl => {
            let guess = text.split(['/', '?']).next().unwrap_or_default();
            let help = match guess.parse::<http::uri::Authority>() {
                Ok(_) if !expanded.foreign && !text.contains("://") => format!("write `http://{text}`"),
                _ => "write `http://HOST:PORT`, with a port from 1 to 65535".to_owned(),
            };
            ("is not a URL that can be reached".to_owned(), help)
        }
    };
    report.error(Code::InvalidAddress.at(node.span), format!("{subject} {message}"), help);
    None
}
