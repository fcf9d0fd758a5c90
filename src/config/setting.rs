//! One setting of the process as text: its kind, its range, and what it must be beyond that.

use std::net::SocketAddr;

use config::{Value, ValueKind};

use super::{
    keys::{ADMIN, Key, Takes},
    process::OFF,
    section, suggest,
    units::UnitError,
};
use crate::{
    crypto::Secret,
    inbound::{mcp::PeerAddress, parse_network},
};

/// A value that comes as text, from a variable or a flag.
pub(super) fn parse(key: &Key, text: &str) -> Result<ValueKind, UnitError> {
    let text = text.trim();
    let wrong = |expected: String, help: String| UnitError {
        message: format!("expected {expected}, found `{text}`"),
        help,
    };
    let value = match key.takes {
        Takes::Flag => match text {
            "true" => true.into(),
            "false" => false.into(),
            _ => return Err(wrong("`true` or `false`".into(), "write one of the two".into())),
        },
        Takes::Word(words) => match words.iter().find(|word| **word == text) {
            Some(word) => (*word).into(),
            None => {
                let words = suggest::listed(words.iter().copied());
                return Err(wrong(format!("one of {words}"), "write one of them".into()));
            }
        },
        Takes::Duration(least, most) => integer(section::read_duration(text, least, most)?.as_millis()),
        Takes::Size(least, most) => integer(section::read_size(text, least, most)?.into()),
        Takes::Count(least, most) => {
            match text.parse::<u64>().ok().filter(|count| (least..=most).contains(count)) {
                Some(count) => integer(count.into()),
                None => {
                    return Err(wrong(format!("a whole number from {least} to {most}"), "write one".into()));
                }
            }
        }
        Takes::List(_) => {
            let items: Vec<&str> = text.split(',').map(str::trim).filter(|item| !item.is_empty()).collect();
            for item in &items {
                check_item(key, item)?;
            }
            ValueKind::Array(items.into_iter().map(Value::from).collect())
        }
        _ => text.into(),
    };
    check(key, &value).map(|()| value)
}

/// A number as a layer holds it.
pub(super) fn integer(number: u128) -> ValueKind {
    // Ranges of keys end far below.
    ValueKind::I64(i64::try_from(number).unwrap_or(i64::MAX))
}

/// What a key asks of its value beyond its kind.
pub(super) fn check(key: &Key, value: &ValueKind) -> Result<(), UnitError> {
    match (key.name, value) {
        ("listen", ValueKind::String(text)) if text == OFF && ADMIN.has(key) => Ok(()),
        ("listen", ValueKind::String(text)) => parse_listen(text).map(|_| ()),
        ("name", ValueKind::String(text)) if text.trim().is_empty() => Err(UnitError {
            message: "`name` is empty".into(),
            help: "write what clients shall call this server, or leave it out".into(),
        }),
        ("peer", ValueKind::String(text)) if PeerAddress::parse(text).is_none() => Err(UnitError {
            message: "`peer` is not an HTTP address".to_owned(),
            help: "write `http://HOST:PORT`, or the same with `https://`, as other replicas reach this one"
                .into(),
        }),
        ("secret" | "token", ValueKind::String(text)) if Secret::new(text.trim().as_bytes()).is_none() => {
            Err(UnitError {
                message: format!("`{}` is shorter than {} bytes", key.name, Secret::LEAST_BYTES),
                help:
                    "make one with `openssl rand -base64 32`, and name it as `${VARIABLE}` or `${file:PATH}`"
                        .into(),
            })
        }
        _ => Ok(()),
    }
}

/// What a key asks of an item of its list.
pub(super) fn check_item(key: &Key, text: &str) -> Result<(), UnitError> {
    let wrong = |expected: &str, help: &str| {
        // A password may stand before an `@`.
        let found = if text.contains('@') { "a value with an `@`".to_owned() } else { format!("`{text}`") };
        Err(UnitError { message: format!("expected {expected}, found {found}"), help: help.to_owned() })
    };
    if key.name == "trusted_proxies" {
        let help = match text {
            "*" => "write `0.0.0.0/0` and `::/0` if whoever connects is a proxy of yours",
            _ => "write the address that the proxy connects from",
        };
        let expected = "an address such as `10.0.0.7`, or a network such as `10.0.0.0/8`";
        return if parse_network(text).is_some() { Ok(()) } else { wrong(expected, help) };
    }
    if text == "*" {
        return Ok(());
    }
    let authority =
        |text: &str| text.parse::<http::uri::Authority>().is_ok_and(|found| !found.as_str().contains('@'));
    match key.name {
        "allowed_hosts" if text.contains("://") => {
            wrong("a host", "leave out what stands before `//`, and the path")
        }
        "allowed_hosts" if !authority(text) => {
            wrong("a host such as `tools.example.com` or `[::1]:8080`", "or `*` for all")
        }
        "allowed_origins" => match text.split_once("://") {
            _ if text == "null" => Ok(()),
            Some((scheme, host)) if !scheme.is_empty() && authority(host) => Ok(()),
            _ => wrong(
                "an origin such as `https://app.example.com`",
                "write scheme and host, without a path; `*` for all",
            ),
        },
        _ => Ok(()),
    }
}

/// An address and a port; `localhost` is one, too.
pub(super) fn parse_listen(text: &str) -> Result<SocketAddr, UnitError> {
    let numbers = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    numbers.parse().map_err(|_| {
        let port = text.trim_start_matches(':').parse::<u16>().ok();
        UnitError {
            message: format!("expected an address and a port, found `{text}`"),
            help: match port {
                Some(port) => {
                    format!("write `127.0.0.1:{port}`, or `0.0.0.0:{port}` to be reached from other machines")
                }
                None => {
                    "write `127.0.0.1:8080`, or `0.0.0.0:8080` to be reached from other machines".to_owned()
                }
            },
        }
    })
}
