//! What a certificate says that a client has shown, after it was checked.

use std::time::SystemTime;

use jiff::{civil::DateTime, tz::TimeZone};
use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

use super::pem::MadeOf;

/// Whom a certificate is for, in its own words. Roots that are trusted vouch for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The whole of it.
    pub der: Vec<u8>,
    /// The common name of its subject; `None` where there is none, or several.
    pub common_name: Option<String>,
    /// Host names among its alternative names, in lower case.
    pub dns_names: Vec<String>,
    /// URIs among them.
    pub uris: Vec<String>,
    /// When it ends; `None` for what no certificate can say.
    pub until: Option<SystemTime>,
    /// Who vouches for it.
    pub vouching: Vouching,
}

/// Who vouches for a certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Vouching {
    /// Those between it and the roots, as they were shown.
    pub(super) others: Vec<CertificateDer<'static>>,
    /// What the roots are made of that it was held against.
    pub(super) roots: Option<MadeOf>,
}

/// The OID of a common name (2.5.4.3), in DER.
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OID: u8 = 0x06;
/// Before the serial number of a certificate.
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// UTF8String, PrintableString, IA5String.
const TEXTS: [u8; 3] = [0x0c, 0x13, 0x16];

impl ClientCertificate {
    /// Reads a certificate; `None` for what is none.
    pub(super) fn read(der: &[u8]) -> Option<Self> {
        let written = der.into();
        let certificate = EndEntityCert::try_from(&written).ok()?;
        Some(Self {
            der: der.to_vec(),
            common_name: common_name(certificate.subject()),
            dns_names: certificate.valid_dns_names().map(str::to_ascii_lowercase).collect(),
            uris: certificate.valid_uri_names().map(str::to_owned).collect(),
            until: until(der),
            vouching: Vouching::default(),
        })
    }
}

/// The one common name in the members of a subject (RFC 5280, section 4.1.2.4).
fn common_name(subject: &[u8]) -> Option<String> {
    let mut found = None;
    // With the tag of the whole or without.
    let mut names = match element(subject) {
        Some((SEQUENCE, inside, [])) => inside,
        _ => subject,
    };
    while !names.is_empty() {
        let (tag, mut set, rest) = element(names)?;
        names = rest;
        while tag == SET && !set.is_empty() {
            let (_, pair, rest) = element(set)?;
            set = rest;
            let (kind, oid, value) = element(pair)?;
            if kind != OID || oid != COMMON_NAME {
                continue;
            }
            let (tag, text, _) = element(value)?;
            let text = std::str::from_utf8(text).ok().filter(|_| TEXTS.contains(&tag))?;
            if found.replace(text.to_owned()).is_some() {
                return None;
            }
        }
    }
    found
}

/// `notAfter` of a certificate (RFC 5280, sections 4.1 and 4.1.2.5).
pub(super) fn until(der: &[u8]) -> Option<SystemTime> {
    let (SEQUENCE, certificate, _) = element(der)? else { return None };
    let (SEQUENCE, mut fields, _) = element(certificate)? else { return None };
    if let Some((VERSION, _, rest)) = element(fields) {
        fields = rest;
    }
    // Serial number, signature, issuer.
    for _ in 0..3 {
        (_, _, fields) = element(fields)?;
    }
    let (SEQUENCE, validity, _) = element(fields)? else { return None };
    let (_, _, rest) = element(validity)?;
    let (tag, text, _) = element(rest)?;
    let text = std::str::from_utf8(text).ok()?;
    let text = match tag {
        // Two digits of the year, of which 50 and more are of the last century.
        UTC_TIME if text.get(..2)? < "50" => format!("20{text}"),
        UTC_TIME => format!("19{text}"),
        GENERALIZED_TIME => text.to_owned(),
        _ => return None,
    };
    let time = DateTime::strptime("%Y%m%d%H%M%SZ", text).ok()?;
    Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp().into())
}

/// The first element of DER: its tag, what is inside, and what follows.
fn element(input: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = input.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        0x81 => rest.split_first().map(|(length, rest)| (usize::from(*length), rest))?,
        0x82 => {
            let (length, rest) = rest.split_first_chunk::<2>()?;
            (usize::from(u16::from_be_bytes(*length)), rest)
        }
        _ => return None,
    };
    let (inside, rest) = rest.split_at_checked(length)?;
    Some((*tag, inside, rest))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    fn certificate(common_names: &[&str]) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["Client.Test".to_owned()]).unwrap();
        params.subject_alt_names.push(SanType::URI("spiffe://test/client".try_into().unwrap()));
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "Example");
        for name in common_names {
            params.distinguished_name.push(DnType::CommonName, *name);
        }
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn a_certificate_is_read() {
        let read = ClientCertificate::read(&certificate(&["backup \u{fc}"])).unwrap();
        assert_eq!(read.common_name.as_deref(), Some("backup \u{fc}"));
        assert_eq!(read.dns_names, ["client.test"]);
        assert_eq!(read.uris, ["spiffe://test/client"]);
        assert!(read.until.is_some());
        assert_eq!(ClientCertificate::read(&certificate(&[])).unwrap().common_name, None);
        assert!(ClientCertificate::read(b"no certificate").is_none());
    }

    #[test]
    fn a_certificate_says_when_it_ends() {
        // Written in two ways: years from 2050 on need four digits.
        for (year, seconds) in [(2031, 1_938_211_200), (2050, 2_537_827_200)] {
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.not_after = rcgen::date_time_ymd(year, 6, 3);
            let der = params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec();
            let found = ClientCertificate::read(&der).unwrap().until.unwrap();
            assert_eq!(found.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs(), seconds);
            for end in 0..der.len() {
                until(&der[..end]);
            }
        }
    }

    #[test]
    fn what_is_cut_off_or_twice_names_nobody() {
        let name = |text: &str| {
            let value = [&[0x0c, text.len() as u8], text.as_bytes()].concat();
            let pair = [&[OID, 3][..], &COMMON_NAME, &value].concat();
            let pair = [&[SEQUENCE, pair.len() as u8], &pair[..]].concat();
            [&[SET, pair.len() as u8], &pair[..]].concat()
        };
        assert_eq!(common_name(&name("a")).as_deref(), Some("a"));
        assert_eq!(common_name(&[name("a"), name("b")].concat()), None);
        let whole = name("backup");
        for end in 1..whole.len() {
            assert_eq!(common_name(&whole[..end]), None, "{end}");
        }
        assert_eq!(common_name(&[SET, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
        assert_eq!(common_name(&[SET, 0x82, 0xff]), None);
    }
}
