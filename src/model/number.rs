//! How long the text of a JSON number may be where somebody computes with it.

/// How many digits a number may have, those of its exponent among them.
pub const NUMBER_DIGITS_LIMIT: usize = 400;

/// How large the exponent of a number may be, with either sign.
pub const NUMBER_EXPONENT_LIMIT: u32 = 400;

/// A number that is not read.
///
/// JSON has numbers of any size, and `1e-9998` is a number of seven characters whose value has ten thousand digits. What computes
/// with such a value (a schema, a conversion, a filter) takes a time that grows with the square of those digits. Text that is
/// passed on without being read may have any number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a number may have at most {NUMBER_DIGITS_LIMIT} digits and an exponent from -{NUMBER_EXPONENT_LIMIT} to \
         {NUMBER_EXPONENT_LIMIT}"
)]
pub struct NumberOutOfBounds;

/// Checks the text of a number, as JSON or a program writes it, before somebody computes with it. What is no number is for the
/// parser to refuse.
///
/// # Errors
///
/// [`NumberOutOfBounds`] when it has more than [`NUMBER_DIGITS_LIMIT`] digits, or an exponent beyond [`NUMBER_EXPONENT_LIMIT`].
pub fn check_number(text: &str) -> Result<(), NumberOutOfBounds> {
    /// A shorter text without an exponent needs no second look.
    const SHORT: usize = 32;
    let bytes = text.as_bytes();
    let exponent = text.find(['e', 'E']).map(|position| &text[position + 1..]);
    if bytes.len() <= SHORT && exponent.is_none() {
        return Ok(());
    }
    if bytes.iter().filter(|byte| byte.is_ascii_digit()).count() > NUMBER_DIGITS_LIMIT {
        return Err(NumberOutOfBounds);
    }
    let Some(exponent) = exponent else { return Ok(()) };
    let digits = exponent.trim_start_matches(['+', '-']).trim_start_matches('0');
    let end = digits.find(|character: char| !character.is_ascii_digit()).unwrap_or(digits.len());
    match digits[..end].parse::<u32>() {
        Ok(exponent) if exponent > NUMBER_EXPONENT_LIMIT => Err(NumberOutOfBounds),
        // More digits than fit.
        Err(_) if end > 0 => Err(NumberOutOfBounds),
        Ok(_) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_bounded_in_its_digits_and_its_exponent() {
        let nines = |count: usize| "9".repeat(count);
        for (text, expected) in [
            ("0".to_owned(), Ok(())),
            ("-1.7976931348623157e308".to_owned(), Ok(())),
            ("5e-324".to_owned(), Ok(())),
            ("1e400".to_owned(), Ok(())),
            ("1E+0400".to_owned(), Ok(())),
            ("1e-401".to_owned(), Err(NumberOutOfBounds)),
            ("1e401".to_owned(), Err(NumberOutOfBounds)),
            ("1e99999999999999999999".to_owned(), Err(NumberOutOfBounds)),
            ("1e-9998".to_owned(), Err(NumberOutOfBounds)),
            (nines(400), Ok(())),
            (format!("-{}.{}", nines(200), nines(200)), Ok(())),
            (nines(401), Err(NumberOutOfBounds)),
            (format!("0.{}", "0".repeat(400)), Err(NumberOutOfBounds)),
            (format!("1e{}1", "0".repeat(400)), Err(NumberOutOfBounds)),
            ("1e".to_owned(), Ok(())),
            ("hello".to_owned(), Ok(())),
            (String::new(), Ok(())),
        ] {
            assert_eq!(check_number(&text), expected, "{text}");
        }
    }
}
