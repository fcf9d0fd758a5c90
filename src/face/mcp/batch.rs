//! Several messages in one: JSON-RPC batches, which revision 2025-03-26 has and no other.

use std::fmt;

use serde::{
    Deserializer,
    de::{Error, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use super::refusal::Refusal;

/// How many messages a batch may have.
const LIMIT: usize = 100;

/// The messages of a batch; `None` for what is none.
///
/// # Errors
///
/// When it is not JSON, has no messages, or too many.
pub(super) fn members(body: &[u8]) -> Option<Result<Vec<&RawValue>, Refusal>> {
    body.trim_ascii_start().starts_with(b"[").then(|| {
        let mut deserializer = serde_json::Deserializer::from_slice(body);
        let members = deserializer.deserialize_seq(Members).and_then(|members| {
            deserializer.end()?;
            Ok(members)
        });
        match members {
            Ok(members) if members.is_empty() => Err(Refusal::NotAMessage("a batch needs a message".into())),
            Ok(members) => Ok(members),
            Err(error) if error.is_data() => {
                Err(Refusal::NotAMessage(format!("a batch has at most {LIMIT} messages").into()))
            }
            Err(error) => Err(Refusal::NotJson(error.to_string())),
        }
    })
}

/// Ends with the first member that is too many.
struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<&'de RawValue>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a batch")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = sequence.next_element()? {
            if members.len() == LIMIT {
                return Err(A::Error::custom("too many"));
            }
            members.push(member);
        }
        Ok(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(body: &str, expected: Result<&[&str], &str>) {
        let found = members(body.as_bytes()).unwrap();
        let found = found.map(|members| members.into_iter().map(RawValue::get).collect::<Vec<_>>());
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(found), Err(expected)) => assert!(found.to_string().contains(expected), "{found}"),
            (found, _) => panic!("{found:?}"),
        }
    }

    #[test]
    fn a_batch_is_taken_apart() {
        assert!(members(b"{}").is_none() && members(b"").is_none() && members(b" 7").is_none());
        check(r#" [ {"a": 1 }, 7 , [] ]"#, Ok(&[r#"{"a": 1 }"#, "7", "[]"]));
        check("[]", Err("needs a message"));
        check("[{}", Err("not JSON"));
        check("[{}] x", Err("not JSON"));
        let many = |count: usize| format!("[{}]", vec!["{}"; count].join(","));
        check(&many(LIMIT), Ok(&vec!["{}"; LIMIT]));
        check(&many(LIMIT + 1), Err("at most 100"));
    }
}
