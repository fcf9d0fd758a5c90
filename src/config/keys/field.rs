//! What there is to say of a field with a type.

use super::*;

/// Not a constant, since a field may have fields.
pub(super) static TYPE: Takes = Either(&[FieldType, Section(|| &FIELD)]);
pub(in crate::config) const FIELDS: Takes = Map(&TYPE);

/// Types of fields; with `[]` it is a list, with `?` the field may be missing.
pub(in crate::config) const FIELD_TYPES: &[&str] =
    &["string", "number", "integer", "boolean", "date-time", "date", "duration", "size", "object", "any"];

pub(in crate::config) static FIELD: Keys = Keys::new(
    "a field",
    "field",
    &[
        key("type", FieldType, "The type of the field; not needed beside `values`."),
        key("from", Text, "Where it is in what was found: a name, or a path. Default: the field's own name."),
        key("optional", Flag, "Whether it may be missing from a reply. Default `false`."),
        key("default", Anything, "Its value when it is missing; `null` is one of any type."),
        key("title", Text, "A name for people."),
        key("description", Text, "What it means, for models and people."),
        key("null_values", OneOrMore(&Scalar), "Words that mean null."),
        key("true_values", OneOrMore(&Scalar), "`boolean`: the words that mean true. Default `[true]`."),
        key("false_values", OneOrMore(&Scalar), "`boolean`: the words that mean false. Default `[false]`."),
        key(
            "values",
            Either(&[Map(&Either(&[Scalar, Nothing])), List(&Scalar)]),
            "The words there may be, and the value of each; `\"*\"` is every other.",
        ),
        key("ignore_case", Flag, "`values`: whether `OK` and `ok` are the same. Default `false`."),
        key("prefix", OneOrMore(&Text), "`number`, `integer`: what may stand before it, such as `$`."),
        key("suffix", OneOrMore(&Text), "`number`, `integer`: what may stand behind it, such as `%`."),
        key(
            "decimal_separator",
            Word(&[".", ","]),
            "`number`, `integer`, `size`: what stands before a fraction. Default `.`.",
        ),
        key(
            "thousands_separator",
            Word(&[",", ".", " ", "'", "_"]),
            "`number`, `integer`: what may stand between thousands.",
        ),
        key(
            "format",
            OneOrMore(&Text),
            "`date-time`, `date`: as `strftime` has it, or `unix`, `unix-ms`, `iso` (the default); or several, the first that \
             reads it counts.",
        ),
        key(
            "timezone",
            Text,
            "`date-time`, `date`: where times without an offset are, as in `Europe/Oslo` or `+01:00`.",
        ),
        key(
            "input_unit",
            Text,
            "`duration`, `size`: what a bare number counts, such as `ms` or `KiB`. Default `s`, `B`.",
        ),
        key("output_unit", Word(&["s", "ms"]), "`duration`: what the result counts. Default `s`."),
        key("clock_format", Word(&["h:mm", "m:ss"]), "`duration`: what `4:05` means."),
        key(
            "kilo_base",
            Count(1000, 1024),
            "`size`: what `K` and `kB` are, 1000 or 1024. Default 1024 for `K` and 1000 for `kB`.",
        ),
        // A constant that led back here would have no end.
        key("fields", Map(&TYPE), "`object`: its own fields."),
    ],
);
