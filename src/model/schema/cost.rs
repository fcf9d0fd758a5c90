//! Cost of validating a value, computed in advance, because the validator cannot be interrupted. One step
//! takes about ten nanoseconds. Computing the cost takes at most a few times the allowed number of steps.

use std::{collections::HashMap, ops::Add};

use serde_json::{Map, Number, Value};

use super::cost_model::{CostModel, ErrorUse, Subschema};
use crate::model::text::{NUMBER_EXPONENT_LIMIT, check_number, pointer_token};

/// Maximum nesting depth of subschemas in one check: the validator recurses for each of them.
// The stack frames of a debug build are several times larger.
pub(super) const DEPTH_LIMIT: u32 = if cfg!(debug_assertions) { 250 } else { 700 };

/// Cost of reporting one error, in steps.
const ERROR_STEPS: u64 = 25;

/// Minimum number of recursive references within a reference for which the validator caches the result of the
/// reference.
const MIN_CACHED_VISITS: u64 = 16;

/// Reason why the cost of checking a value is not bounded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CostError {
    /// The cost exceeds the limit, subschemas are nested too deeply, or a reference forms a cycle.
    OverLimit,
    /// A keyword would compute with a number that is out of bounds; its JSON Pointer in the value.
    Number(String),
}

impl CostError {
    /// Prepends the index or name of an item or member, which is or contains the number, to the pointer.
    fn under(self, name: &str) -> Self {
        match self {
            Self::Number(pointer) => Self::Number(format!("/{}{pointer}", pointer_token(name))),
            Self::OverLimit => Self::OverLimit,
        }
    }
}

/// Cost of a check, in steps, by purpose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CheckCost {
    /// Deciding whether the value is valid.
    pub(super) valid: u64,
    /// Collecting all errors of an invalid value.
    pub(super) errors: u64,
    /// Collecting the first error and its context.
    pub(super) first_error: u64,
    /// Finding the members and items that no subschema has evaluated, for `unevaluatedProperties` and
    /// `unevaluatedItems`.
    unevaluated: u64,
    /// Number of visits of references whose result the validator may cache.
    visits: u64,
}

impl Add for CheckCost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            valid: self.valid.saturating_add(other.valid),
            errors: self.errors.saturating_add(other.errors),
            // The validator collects the first error of only one part.
            first_error: self.first_error.max(other.first_error),
            unevaluated: self.unevaluated.saturating_add(other.unevaluated),
            visits: self.visits.saturating_add(other.visits),
        }
    }
}

/// Computes the cost of a check; an error if it exceeds `limit`.
pub(super) fn cost(cost_model: &CostModel, value: &Value, limit: u64) -> Result<CheckCost, CostError> {
    let mut counter = CostCounter { cost_model, remaining_steps: limit, costs: HashMap::new() };
    let cost = counter.visit(0, value, 0)?;
    if cost.valid <= limit { Ok(cost) } else { Err(CostError::OverLimit) }
}

struct CostCounter<'m> {
    cost_model: &'m CostModel,
    /// Number of steps that this computation may still take.
    remaining_steps: u64,
    /// Costs by part of the schema and address of the value; `None` while the cost is being computed.
    costs: HashMap<(usize, usize), Option<CheckCost>>,
}

impl<'m> CostCounter<'m> {
    /// Subtracts steps of this computation from the limit. They never exceed the cost that is computed, so
    /// they cause no rejection of a check within the limit.
    fn spend(&mut self, steps: u64) -> Result<(), CostError> {
        self.remaining_steps = self.remaining_steps.checked_sub(steps).ok_or(CostError::OverLimit)?;
        Ok(())
    }

    fn visit(&mut self, index: usize, value: &Value, depth: u32) -> Result<CheckCost, CostError> {
        if depth >= DEPTH_LIMIT {
            return Err(CostError::OverLimit);
        }
        let depth = depth + 1;
        let cost_model = self.cost_model;
        let part = &cost_model.parts[index];
        let own_steps = self.keyword_cost(part, value)?;
        self.spend(own_steps)?;
        let errors = own_steps.saturating_mul(2).saturating_add(ERROR_STEPS);
        let mut cost = CheckCost { valid: own_steps, errors, first_error: errors, ..CheckCost::default() };
        let mut alternative_errors: u64 = 0;
        for (error_use, target) in &part.in_place {
            let is_reference = *error_use == ErrorUse::Referenced;
            let visit = if is_reference { Self::follow } else { Self::visit };
            let target_cost = visit(self, *target, value, depth)?;
            let in_place_cost = cost_of_applicator(*error_use, target_cost, cost_model.reads_unevaluated);
            if *error_use == ErrorUse::Alternative {
                alternative_errors = alternative_errors.saturating_add(in_place_cost.errors);
            }
            cost = cost + in_place_cost;
        }
        cost.first_error = cost.first_error.max(alternative_errors);
        if part.has_unresolved_reference {
            let unknown_cost = serialization_cost(value, &mut self.remaining_steps)?.saturating_mul(1000);
            cost = cost + CheckCost { valid: unknown_cost, errors: unknown_cost, ..CheckCost::default() };
        }
        match value {
            Value::Array(items) => cost = cost + self.items_cost(part, items, depth)?,
            Value::Object(members) => cost = cost + self.members_cost(part, members, depth)?,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        if part.reads_unevaluated {
            cost.valid = cost.valid.saturating_add(cost.unevaluated);
            cost.errors = cost.errors.saturating_add(cost.unevaluated);
        }
        Ok(cost)
    }

    /// Cost of the keywords of a part itself, without its subschemas.
    fn keyword_cost(&mut self, part: &Subschema, value: &Value) -> Result<u64, CostError> {
        let mut steps = part.keywords;
        match value {
            Value::Number(number) if part.reads_number => steps += number_cost(number)?,
            Value::String(text) => steps += (text.len() as u64).saturating_mul(part.text) / 16,
            Value::Array(_) | Value::Object(_) if part.compares => {
                steps += serialization_cost(value, &mut self.remaining_steps)?;
            }
            _ => {}
        }
        Ok(steps)
    }

    /// Cost of a referenced part; it is cached for each value.
    fn follow(&mut self, target: usize, value: &Value, depth: u32) -> Result<CheckCost, CostError> {
        const REFERENCE_STEPS: u64 = 4;
        self.spend(REFERENCE_STEPS)?;
        let is_recursive = self.cost_model.parts[target].is_recursive;
        let visits = u64::from(is_recursive);
        let reference_cost =
            CheckCost { valid: REFERENCE_STEPS, errors: REFERENCE_STEPS, visits, ..CheckCost::default() };
        let key = (target, std::ptr::from_ref(value) as usize);
        match self.costs.get(&key) {
            // The reference leads back to itself for the same value, so the recursion depth of the validator
            // is unknown.
            Some(None) => Err(CostError::OverLimit),
            Some(Some(cached)) => {
                let is_cached_by_validator = is_recursive
                    && self.cost_model.is_exact
                    && cached.visits >= MIN_CACHED_VISITS
                    && matches!(value, Value::Array(_) | Value::Object(_));
                let cached = if is_cached_by_validator {
                    CheckCost { valid: 0, visits: 0, ..*cached }
                } else {
                    *cached
                };
                Ok(reference_cost + cached)
            }
            None => {
                self.costs.insert(key, None);
                let cost = self.visit(target, value, depth)?;
                self.costs.insert(key, Some(cost));
                Ok(reference_cost + cost)
            }
        }
    }

    fn items_cost(
        &mut self,
        part: &'m Subschema,
        items: &[Value],
        depth: u32,
    ) -> Result<CheckCost, CostError> {
        let mut cost = CheckCost::default();
        // Each visited item spends a step, so items that no part applies to must not be visited.
        let applies_to_all = !part.items.is_empty() || part.contains.is_some();
        let visited_count = if applies_to_all { items.len() } else { part.first_items.len() };
        for (index, item) in items.iter().take(visited_count).enumerate() {
            let at_index = |error: CostError| error.under(&index.to_string());
            let prefix_part = part.first_items.get(index).into_iter();
            for part_index in prefix_part.chain(&part.items) {
                cost = cost + child_cost(self.visit(*part_index, item, depth).map_err(at_index)?);
            }
            if let Some(contains) = part.contains {
                cost = cost + validity_cost(self.visit(contains, item, depth).map_err(at_index)?);
            }
        }
        if self.cost_model.reads_unevaluated {
            cost.unevaluated = items.len() as u64;
        }
        Ok(cost)
    }

    fn members_cost(
        &mut self,
        part: &'m Subschema,
        members: &Map<String, Value>,
        depth: u32,
    ) -> Result<CheckCost, CostError> {
        let mut cost = CheckCost::default();
        let has_applicable_part = !part.members.is_empty()
            || !part.patterned.is_empty()
            || !part.other_members.is_empty()
            || part.names.is_some();
        if !has_applicable_part {
            return Ok(CheckCost { unevaluated: members.len() as u64, ..cost });
        }
        self.spend(members.len() as u64)?;
        cost.valid = members.len() as u64;
        for (name, member) in members {
            let property = part.members.get(name);
            // Which patterns match the name is not computed; all of them are assumed to match.
            for (pattern, _) in &part.patterned {
                cost.valid = cost.valid.saturating_add(pattern.saturating_mul(name.len() as u64) / 16);
            }
            let patterned = part.patterned.iter().map(|(_, part_index)| part_index);
            let others = part.other_members.iter().filter(|_| property.is_none());
            for part_index in property.into_iter().chain(patterned).chain(others) {
                let member_cost = self.visit(*part_index, member, depth).map_err(|error| error.under(name));
                cost = cost + child_cost(member_cost?);
            }
            if let Some(name_part) = part.names {
                // Costs are cached by address; the name is a temporary value, so the cached costs must not
                // apply to it.
                let costs = std::mem::take(&mut self.costs);
                let name_cost = self.visit(name_part, &Value::from(name.as_str()), depth);
                self.costs = costs;
                cost = cost + child_cost(name_cost?);
            }
        }
        cost.unevaluated = members.len() as u64;
        Ok(cost)
    }
}

/// Cost of a number: a number that is not a plain decimal is converted to a fraction.
fn number_cost(number: &Number) -> Result<u64, CostError> {
    const PLAIN_DIGITS: usize = 18;
    let text = number.as_str();
    check_number(text).map_err(|_| CostError::Number(String::new()))?;
    let exponent = text.split_once(['e', 'E']).map(|(_, digits)| digits.trim_start_matches(['+', '-']));
    let shift =
        exponent.map_or(0, |digits| digits.parse().unwrap_or_else(|_| u64::from(NUMBER_EXPONENT_LIMIT)));
    let digits = text.len() as u64 + shift;
    Ok(if exponent.is_none() && text.len() <= PLAIN_DIGITS { 2 } else { 8 + digits * digits / 8 })
}

/// Cost of serializing a value. Computing the cost takes one step for each value in it.
fn serialization_cost(value: &Value, remaining_steps: &mut u64) -> Result<u64, CostError> {
    *remaining_steps = remaining_steps.checked_sub(1).ok_or(CostError::OverLimit)?;
    Ok(match value {
        Value::Null | Value::Bool(_) => 16,
        Value::Number(number) => {
            number_cost(number)?;
            32 + number.as_str().len() as u64 / 4
        }
        Value::String(text) => 24 + text.len() as u64 / 8,
        Value::Array(items) => items.iter().enumerate().try_fold(16, |size, (index, item)| {
            let item_cost = serialization_cost(item, remaining_steps);
            Ok(size + item_cost.map_err(|error| error.under(&index.to_string()))?)
        })?,
        Value::Object(members) => members.iter().try_fold(16, |size, (name, member)| {
            let member_cost =
                serialization_cost(member, remaining_steps).map_err(|error| error.under(name))?;
            Ok(size + 32 + name.len() as u64 / 8 + member_cost)
        })?,
    })
}

/// JSON Pointer of the first number in a document that is out of bounds.
pub(super) fn number_out_of_bounds(document: &Value) -> Option<String> {
    match serialization_cost(document, &mut { u64::MAX }) {
        Err(CostError::Number(pointer)) => Some(pointer),
        Ok(_) | Err(CostError::OverLimit) => None,
    }
}

/// Cost of a part that applies to the same value (in-place applicator).
fn cost_of_applicator(error_use: ErrorUse, cost: CheckCost, reads_unevaluated: bool) -> CheckCost {
    let unevaluated =
        if reads_unevaluated { cost.valid.saturating_add(cost.unevaluated) } else { cost.unevaluated };
    let cost = CheckCost { unevaluated, ..cost };
    match error_use {
        ErrorUse::Reported | ErrorUse::Referenced => cost,
        // The validator first decides whether one alternative is valid, and then collects all errors of each.
        ErrorUse::Alternative => {
            CheckCost { errors: cost.errors.saturating_add(cost.valid), first_error: 0, ..cost }
        }
        ErrorUse::Discarded => validity_cost(cost),
    }
}

fn validity_cost(cost: CheckCost) -> CheckCost {
    CheckCost { errors: cost.valid, first_error: 0, ..cost }
}

/// Cost of a part that applies to a nested value.
fn child_cost(cost: CheckCost) -> CheckCost {
    CheckCost { unevaluated: 0, ..cost }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    };

    use jsonschema::{Keyword, ValidationError};
    use proptest::prelude::*;
    use serde_json::json;

    use super::{super::*, *};

    /// Keyword that counts how often the validator evaluates it.
    struct CountedKeyword(Arc<AtomicU64>);

    impl<'i> Keyword<'i> for CountedKeyword {
        fn validate(&self, value: &'i Value) -> Result<(), ValidationError<'i>> {
            self.is_valid(value);
            Ok(())
        }

        fn is_valid(&self, _: &'i Value) -> bool {
            self.0.fetch_add(1, Ordering::Relaxed);
            true
        }
    }

    /// Numbers of evaluations by the validator, to decide whether a value is valid and to collect all errors.
    fn evaluations(schema: &Value, value: &Value) -> (u64, u64) {
        let count = Arc::new(AtomicU64::new(0));
        let counts = Arc::clone(&count);
        let options = jsonschema::options()
            .with_keyword("x-counted", move |_, _, _| Ok(Box::new(CountedKeyword(Arc::clone(&counts)))));
        let dialect = dialect_of(schema);
        let validator = exact::with_exact_keywords(options, dialect).offline().build(schema).unwrap();
        let _ = validator.is_valid(value);
        let valid = count.swap(0, Ordering::Relaxed);
        validator.iter_errors(value).count();
        (valid, count.load(Ordering::Relaxed))
    }

    fn dialect_of(schema: &Value) -> SchemaDialect {
        SchemaDialect::from_document(schema).unwrap()
    }

    fn cost_model_of(schema: &Value) -> CostModel {
        CostModel::new(schema.as_object().unwrap(), dialect_of(schema))
    }

    fn with_counter(mut schema: Value) -> Value {
        schema.as_object_mut().unwrap().shift_insert(0, "x-counted".into(), true.into());
        schema
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let plain = prop_oneof![Just(json!(1)), Just(json!("a")), Just(json!([])), Just(json!({}))];
        plain.prop_recursive(6, 24, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::vec(("[ab]", inner), 0..3)
                    .prop_map(|members| Value::from(Map::from_iter(members))),
            ]
        })
    }

    fn any_dialect() -> impl Strategy<Value = &'static str> {
        prop::sample::select(vec![
            "http://json-schema.org/draft-04/schema#",
            "http://json-schema.org/draft-07/schema#",
            "https://json-schema.org/draft/2019-09/schema",
            "https://json-schema.org/draft/2020-12/schema",
            "https://json-schema.org/draft/2020-12/schema",
        ])
    }

    fn any_schema() -> impl Strategy<Value = Value> {
        let reference = || prop::sample::select(vec!["#", "#/$defs/x", "#/$defs/y", "#/$defs/z"]);
        let plain = prop_oneof![
            prop::sample::select(vec!["integer", "string", "array", "object"])
                .prop_map(|kind| json!({ "type": kind })),
            reference().prop_map(|reference| json!({ "$ref": reference })),
            reference().prop_map(|reference| json!({ "$ref": reference })),
        ];
        plain.prop_recursive(3, 10, 3, |inner| {
            let several = || prop::collection::vec(inner.clone().prop_map(with_counter), 1..3);
            let one = || inner.clone().prop_map(with_counter);
            prop_oneof![
                several().prop_map(|schemas| json!({ "anyOf": schemas })),
                several().prop_map(|schemas| json!({ "allOf": schemas })),
                several().prop_map(|schemas| json!({ "oneOf": schemas })),
                one().prop_map(|schema| json!({ "not": schema })),
                one().prop_map(|schema| json!({ "items": schema })),
                one().prop_map(|schema| json!({ "contains": schema })),
                one().prop_map(|schema| json!({ "additionalProperties": schema })),
                (one(), one()).prop_map(
                    |(named, others)| json!({ "properties": { "a": named }, "unevaluatedProperties": others })
                ),
                (one(), one()).prop_map(|(all, left)| json!({ "allOf": [all], "unevaluatedItems": left })),
                (one(), one(), one())
                    .prop_map(|(test, then, other)| json!({ "if": test, "then": then, "else": other })),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1500))]

        /// The validator's cache is part of the cost; otherwise it would evaluate more than predicted.
        #[test]
        fn a_check_does_no_more_than_was_expected(
            root in any_schema(), x in any_schema(), y in any_schema(), z in any_schema(), value in any_value(),
            dialect in any_dialect(),
        ) {
            let mut schema = with_counter(root);
            schema["$schema"] = dialect.into();
            schema["$defs"] = json!({ "x": with_counter(x), "y": with_counter(y), "z": with_counter(z) });
            let cost_model = cost_model_of(&schema);
            let expected = match cost(&cost_model, &value, 200_000) {
                Ok(cost) if cost.errors < 200_000 => cost,
                _ => return Ok(()),
            };
            let (valid, errors) = evaluations(&schema, &value);
            prop_assert!(valid <= expected.valid, "{valid} {expected:?} {schema} {value}");
            prop_assert!(errors <= expected.valid + expected.errors, "{errors} {expected:?} {schema} {value}");
        }
    }

    fn schema(document: Value) -> Schema {
        Schema::compile(document.as_object().unwrap()).unwrap()
    }

    #[track_caller]
    fn check_violations(schema: &Schema, value: &Value, expected: &str) {
        let violations = schema.violations(value, 3);
        let messages: Vec<_> =
            violations.iter().map(|violation| format!("{}: {}", violation.path, violation.message)).collect();
        assert_eq!(messages.join(" | "), expected);
    }

    #[test]
    fn a_part_between_two_cycles_is_not_recursive() {
        let cost_model = cost_model_of(&json!({
            "$ref": "#/$defs/first",
            "$defs": {
                "first": { "items": { "$ref": "#/$defs/first" }, "contains": { "$ref": "#/$defs/between" } },
                "between": { "items": { "$ref": "#/$defs/last" } },
                "last": { "items": { "$ref": "#/$defs/last" } },
            },
        }));
        let recursive = cost_model.parts.iter().filter(|part| part.is_recursive).count();
        assert_eq!(recursive, 2, "`first` and `last`");
    }

    #[test]
    fn numbers_of_thousands_of_digits_are_not_read() {
        let numbers = format!(r#"{{"n": [{}1e-9998]}}"#, "1e-9998,".repeat(2_000));
        let numbers: Value = serde_json::from_str(&numbers).unwrap();
        let message = "n[0]: must have at most 400 digits and an exponent from -400 to 400";
        for items in [
            json!({ "type": "integer" }),
            json!({ "type": "number" }),
            json!({ "multipleOf": 0.01 }),
            json!({ "enum": [0.5, 1.25] }),
            json!({ "const": [0.5] }),
            json!({ "exclusiveMinimum": 0 }),
        ] {
            let reads_numbers = schema(json!({ "properties": { "n": { "items": items } } }));
            check_violations(&reads_numbers, &numbers, message);
        }
        check_violations(
            &schema(json!({ "properties": { "n": { "uniqueItems": true } } })),
            &numbers,
            message,
        );
        let later = json!({ "m": numbers["n"], "n": { "a/b": numbers["n"][0] } });
        let at_member =
            schema(json!({ "properties": { "n": { "additionalProperties": { "maximum": 1 } } } }));
        check_violations(&at_member, &later, &message.replace("n[0]", "n.a/b"));
        check_violations(&schema(json!({ "const": {} })), &later, &message.replace("n[0]", "m[0]"));
        // No keyword reads them.
        check_violations(&schema(json!({ "properties": { "n": { "minItems": 1 }, "m": {} } })), &numbers, "");
        check_violations(&schema(json!({ "contains": {} })), &numbers["n"], "");
        check_violations(&schema(json!({ "contains": {} })), &numbers["n"][0], "");
        let error = Schema::compile(
            json!({ "properties": { "a": { "maximum": numbers["n"][0] } } }).as_object().unwrap(),
        );
        assert_eq!(error.unwrap_err().pointer, "/properties/a/maximum");
    }

    #[test]
    fn numbers_within_the_bounds_are_weighed() {
        let cost_model = cost_model_of(&json!({ "items": { "type": "integer" } }));
        let steps = |number: &str| {
            let numbers =
                serde_json::from_str(&format!("[{}{number}]", format!("{number},").repeat(99))).unwrap();
            cost(&cost_model, &numbers, 100_000_000).unwrap().valid
        };
        assert!(steps("12.5") < 1_000);
        assert!(steps("1e-400") > 1_000_000, "a fraction of 400 digits, a hundred times");
    }

    #[test]
    fn items_that_round_to_one_double_are_distinct() {
        let unique = schema(json!({ "uniqueItems": true }));
        let numbers: Vec<String> = (0..5_000).map(|number| format!("1.{number:020}")).collect();
        let list = |numbers: &[String]| serde_json::from_str(&format!("[{}]", numbers.join(","))).unwrap();
        check_violations(&unique, &list(&numbers), "");
        let with_duplicate = [&numbers[..], &["1.0".to_owned()]].concat();
        check_violations(
            &unique,
            &list(&with_duplicate),
            ": must not contain duplicate items; found two equal items",
        );
        let cost_model = cost_model_of(&json!({ "uniqueItems": true }));
        assert!(
            cost(&cost_model, &list(&numbers), CHECK_STEP_LIMIT).unwrap().valid < 5_000 * 60,
            "not by pairs"
        );
    }

    #[test]
    fn errors_that_double_with_every_level_are_not_collected() {
        let document = json!({ "anyOf": [
            { "type": "integer" },
            { "items": { "$ref": "#" }, "type": "array" },
            { "type": "array", "items": { "$ref": "#" } },
        ] });
        let nested = |depth: usize| (0..depth).fold(json!("x"), |inner, _| json!([inner]));
        let cost_model = cost_model_of(&document);
        let deep_cost = cost(&cost_model, &nested(40), CHECK_STEP_LIMIT).unwrap();
        assert!(deep_cost.valid < 10_000 && deep_cost.errors > 1 << 40, "{deep_cost:?}");
        let schema = schema(document);
        check_violations(
            &schema,
            &nested(2),
            ": must be an integer, or its `[0]` must be an integer, or its `[0]` must be an integer, or must be an array; found an array",
        );
        check_violations(
            &schema,
            &nested(40),
            ": must match the schema; found a value too large to locate the violation",
        );
        assert_eq!(schema.costly_value_count(), None, "whether it is valid is found out quickly");
    }

    #[test]
    fn references_with_exponential_expansion_are_rejected() {
        let mut parts: Map<String, Value> = (0..40)
            .map(|level| {
                let next = json!({ "$ref": format!("#/$defs/a{}", level + 1) });
                (format!("a{level}"), json!({ "allOf": [next, next] }))
            })
            .collect();
        parts.insert("a40".into(), json!({ "pattern": "a" }));
        let schema = schema(json!({ "items": { "$ref": "#/$defs/a0" }, "$defs": parts }));
        check_violations(&schema, &json!([]), "");
        check_violations(&schema, &json!([1]), &format!(": {TOO_COSTLY}"));
        assert_eq!(schema.check(&json!([1]), 1, 1_000).unwrap_err(), TooCostly);
        assert_eq!(schema.costly_value_count(), Some(1));
        let circle = json!({ "anyOf": [{ "type": "string" }, { "$ref": "#/$defs/a" }], "$defs": { "a": { "allOf": [{ "$ref": "#" }] } } });
        let circle = self::schema(circle);
        check_violations(&circle, &json!(1), &format!(": {TOO_COSTLY}"));
        assert_eq!(circle.costly_value_count(), Some(1), "a reference cycle for the same value has no bound");
    }

    #[test]
    fn recursive_schemas_are_checked_to_the_depth_of_any_value() {
        // Four parts evaluate each level; a release build reaches all 127.
        let deep = (0..DEPTH_LIMIT / 4 - 1).take(127).fold(json!(1), |inner, _| json!([inner]));
        let list = json!({ "anyOf": [{ "type": "integer" }, { "$ref": "#/$defs/list" }],
            "$defs": { "list": { "type": "array", "items": { "$ref": "#" } } } });
        check_violations(&schema(list), &deep, "");
        let mut chain: Map<String, Value> = (0..2_000)
            .map(|level| (format!("a{level}"), json!({ "$ref": format!("#/$defs/a{}", level + 1) })))
            .collect();
        chain.insert("a2000".into(), json!({ "type": "integer" }));
        check_violations(
            &schema(json!({ "$ref": "#/$defs/a0", "$defs": chain })),
            &json!(1),
            &format!(": {TOO_COSTLY}"),
        );
    }

    #[test]
    fn items_are_not_visited_by_parts_that_do_not_apply_to_them() {
        // Visiting all items for each part would take minutes.
        let forms = vec![json!({ "type": "string", "prefixItems": [true] }); 10_000];
        let (cost_model, list) = (cost_model_of(&json!({ "anyOf": forms })), json!(vec![0; 1_000_000]));
        assert!(cost(&cost_model, &list, CHECK_STEP_LIMIT).unwrap().valid < 100_000);
    }

    #[test]
    fn a_pattern_with_more_positions_costs_more() {
        let steps = |pattern: &str| {
            let cost_model = cost_model_of(&json!({ "pattern": pattern }));
            cost(&cost_model, &"a".repeat(16_000).into(), u64::MAX).unwrap().valid
        };
        assert!(steps("^a+$") < 20_000);
        assert!(steps("(a|b)(a|b){400}c") > 100_000);
    }

    #[test]
    fn a_schema_with_many_alternatives_has_a_value_count_limit() {
        let wide = |forms: usize| {
            let forms: Vec<_> =
                (0..forms).map(|form| json!({ "type": "object", "required": [form.to_string()] })).collect();
            schema(json!({ "items": { "anyOf": forms } })).costly_value_count()
        };
        assert_eq!(wide(20), None);
        assert!(wide(400).is_some_and(|values| (10_000..100_000).contains(&values)));
    }
}
