//! Cost model of a schema: its subschemas (*parts*), the values that each part applies to, and the cost of
//! its keywords.

use std::collections::{BTreeSet, HashMap, HashSet};

use regex_syntax::hir::{Hir, HirKind};
use serde_json::{Map, Value};

use super::{SchemaDialect, value_at};

/// Cost model of a schema: its parts; the first is the root.
#[derive(Debug)]
pub(super) struct CostModel {
    pub(super) parts: Vec<Subschema>,
    /// Whether a part has an `unevaluated…` keyword, which causes all parts to be evaluated twice.
    pub(super) reads_unevaluated: bool,
    /// Whether the parts are exactly the subschemas that the validator visits, so that it is known when the
    /// validator caches the result of a reference. For older dialects the parts are a superset, and caching
    /// is not assumed.
    pub(super) is_exact: bool,
}

/// Subschema. Fields refer to other parts by their index in the model.
#[derive(Debug, Default)]
pub(super) struct Subschema {
    /// Number of keywords, plus the number of required names.
    pub(super) keywords: u64,
    /// Whether a keyword reads numbers.
    pub(super) reads_number: bool,
    /// Whether arrays and objects are compared as a whole: the items of an array with each other
    /// (`uniqueItems`), or the value with an array or object in `enum` or `const`.
    pub(super) compares: bool,
    /// Parts that apply to the same value (in-place applicators).
    pub(super) in_place: Vec<(ErrorUse, usize)>,
    /// Whether a reference was not resolved: the size of its target, such as a meta-schema, is unknown.
    pub(super) has_unresolved_reference: bool,
    /// Parts of `properties`, by name.
    pub(super) members: HashMap<String, usize>,
    /// Parts of `patternProperties`, each with the cost of its pattern per byte of a name, in sixteenths of a
    /// step.
    pub(super) patterned: Vec<(u64, usize)>,
    /// Parts for members without a part in `members`: `additionalProperties`, `unevaluatedProperties`.
    pub(super) other_members: Vec<usize>,
    /// Part of `propertyNames`.
    pub(super) names: Option<usize>,
    /// Parts of `prefixItems`, in order.
    pub(super) first_items: Vec<usize>,
    /// Parts for the items after `first_items`: `items`, `additionalItems`, `unevaluatedItems`.
    pub(super) items: Vec<usize>,
    /// Part of `contains`.
    pub(super) contains: Option<usize>,
    /// Whether the part has an `unevaluated…` keyword.
    pub(super) reads_unevaluated: bool,
    /// Cost per byte of a string value, in sixteenths of a step.
    pub(super) text: u64,
    /// Whether the part is referenced and refers to itself, directly or indirectly. The validator caches the
    /// results of such references.
    pub(super) is_recursive: bool,
}

/// How the errors of a part are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ErrorUse {
    /// The errors are errors of the whole schema.
    Reported,
    /// The errors are reported if none of several alternatives is valid.
    Alternative,
    /// The errors are discarded.
    Discarded,
    /// The errors are reported. A reference refers to the part; its cost is computed once per value.
    Referenced,
}

impl CostModel {
    pub(super) fn new(document: &Map<String, Value>, dialect: SchemaDialect) -> Self {
        let mut builder = Builder { dialect, ..Builder::default() };
        builder.add_map(document);
        builder.resolve(document);
        let mut parts = builder.parts;
        for index in recursive_parts(&parts) {
            parts[index].is_recursive = true;
        }
        let reads_unevaluated = parts.iter().any(|part| part.reads_unevaluated);
        Self { parts, reads_unevaluated, is_exact: dialect == SchemaDialect::default() }
    }
}

/// Address of a part's JSON value, which identifies the part; the document does not move while the model is
/// built.
type Address = usize;

#[derive(Default)]
struct Builder<'s> {
    dialect: SchemaDialect,
    parts: Vec<Subschema>,
    /// Index in `parts` of the part at an address.
    indexes: HashMap<Address, usize>,
    references: Vec<(usize, &'s str, &'s str)>,
    /// Schemas with an `$id` (in draft-04: `id`), which references may be relative to.
    resources: Vec<&'s Value>,
    anchors: HashMap<&'s str, Vec<usize>>,
    recursive_anchors: Vec<usize>,
}

impl<'s> Builder<'s> {
    fn add(&mut self, schema: &'s Value) -> usize {
        let address = std::ptr::from_ref(schema) as Address;
        if let Some(index) = self.indexes.get(&address) {
            return *index;
        }
        let index = match schema {
            Value::Object(document) => {
                let index = self.add_map(document);
                if self.is_base(document) {
                    self.resources.push(schema);
                }
                index
            }
            _ => {
                self.parts.push(Subschema { keywords: 1, ..Subschema::default() });
                self.parts.len() - 1
            }
        };
        self.indexes.insert(address, index);
        index
    }

    fn add_map(&mut self, document: &'s Map<String, Value>) -> usize {
        let index = self.parts.len();
        self.parts.push(Subschema::default());
        let mut part = Subschema { keywords: 1, ..Subschema::default() };
        let is_reference = self.dialect.ignores_ref_siblings() && document.contains_key("$ref");
        for (keyword, value) in document {
            // In 2020-12, keywords of other dialects are counted too, because the validator implements some
            // of them.
            let is_ignored = (is_reference && keyword != "$ref")
                || (self.dialect != SchemaDialect::default() && self.dialect.ignores_keyword(keyword));
            if !is_ignored {
                part.keywords += 1;
                self.read_keyword(index, keyword, value, &mut part);
            }
        }
        self.parts[index] = part;
        index
    }

    fn read_keyword(&mut self, index: usize, keyword: &'s str, value: &'s Value, part: &mut Subschema) {
        let list = || value.as_array().into_iter().flatten();
        let members = || value.as_object().into_iter().flatten();
        match keyword {
            "allOf" | "anyOf" | "oneOf" => {
                let error_use = if keyword == "allOf" { ErrorUse::Reported } else { ErrorUse::Alternative };
                part.in_place.extend(list().map(|schema| (error_use, self.add(schema))));
            }
            "not" | "if" => part.in_place.push((ErrorUse::Discarded, self.add(value))),
            "then" | "else" => part.in_place.push((ErrorUse::Reported, self.add(value))),
            "dependentSchemas" | "dependencies" => {
                for (_, schema) in members() {
                    match schema {
                        Value::Array(names) => part.keywords += names.len() as u64,
                        schema => part.in_place.push((ErrorUse::Reported, self.add(schema))),
                    }
                }
            }
            "$ref" | "$dynamicRef" | "$recursiveRef" => {
                self.references.extend(value.as_str().map(|reference| (index, keyword, reference)));
            }
            "$anchor" | "$dynamicAnchor" | "$id" | "id" => {
                // In older drafts, an anchor is an id that begins with `#`.
                let is_id = keyword.ends_with("id");
                let name =
                    value.as_str().and_then(|name| if is_id { name.strip_prefix('#') } else { Some(name) });
                name.into_iter().for_each(|name| self.anchors.entry(name).or_default().push(index));
            }
            "$recursiveAnchor" => self.recursive_anchors.push(index),
            "$defs" | "definitions" => {
                for (_, schema) in members() {
                    self.add(schema);
                }
            }
            "properties" => {
                part.members.extend(members().map(|(name, schema)| (name.clone(), self.add(schema))));
            }
            "patternProperties" => {
                let patterned = members().map(|(pattern, schema)| (pattern_cost(pattern), self.add(schema)));
                part.patterned.extend(patterned);
            }
            "additionalProperties" | "unevaluatedProperties" => {
                part.other_members.push(self.add(value));
                part.reads_unevaluated |= keyword == "unevaluatedProperties";
            }
            "propertyNames" => part.names = Some(self.add(value)),
            "prefixItems" => part.first_items = list().map(|item| self.add(item)).collect(),
            "items" if value.is_array() => part.first_items = list().map(|item| self.add(item)).collect(),
            "items" | "additionalItems" | "unevaluatedItems" => {
                part.items.push(self.add(value));
                part.reads_unevaluated |= keyword == "unevaluatedItems";
            }
            "contains" => part.contains = Some(self.add(value)),
            "required" => part.keywords += list().count() as u64,
            "dependentRequired" => {
                let names = members().filter_map(|(_, names)| names.as_array());
                part.keywords += names.map(|names| names.len() as u64).sum::<u64>();
            }
            "enum" | "const" => {
                part.reads_number = true;
                let is_container = |value: &Value| value.is_array() || value.is_object();
                part.compares |=
                    if keyword == "const" { is_container(value) } else { list().any(is_container) };
                // To compare the string, the validator serializes it.
                part.text += 4;
            }
            "uniqueItems" => part.compares |= value == &Value::Bool(true),
            "type" | "multipleOf" | "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => {
                part.reads_number = true;
            }
            "minLength" | "maxLength" => part.text += 2,
            "pattern" => part.text += value.as_str().map_or(0, pattern_cost),
            "format" | "contentEncoding" | "contentMediaType" => part.text += 16,
            _ => {}
        }
    }

    /// Whether references are resolved relative to this schema.
    fn is_base(&self, document: &Map<String, Value>) -> bool {
        document.contains_key("$id")
            || (self.dialect.has_keyword("id") && document.get("id").is_some_and(Value::is_string))
    }

    /// Resolves all references. If a reference is ambiguous, all parts that it may refer to are counted.
    fn resolve(&mut self, root: &'s Map<String, Value>) {
        // A referenced part may contain further references.
        let mut resolved_count = 0;
        while resolved_count < self.references.len() {
            let (source, keyword, reference) = self.references[resolved_count];
            resolved_count += 1;
            let targets = self.resolve_reference(root, keyword, reference);
            let part = &mut self.parts[source];
            part.has_unresolved_reference |= targets.is_empty();
            part.in_place.extend(targets.into_iter().map(|target| (ErrorUse::Referenced, target)));
        }
    }

    /// Returns the indexes of the parts that a reference may refer to.
    fn resolve_reference(
        &mut self,
        root: &'s Map<String, Value>,
        keyword: &str,
        reference: &'s str,
    ) -> Vec<usize> {
        if keyword == "$recursiveRef" {
            return std::iter::once(0).chain(self.recursive_anchors.iter().copied()).collect();
        }
        let (base, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        if !fragment.is_empty() && !fragment.starts_with('/') {
            return self.anchors.get(fragment).cloned().unwrap_or_default();
        }
        let pointer = percent_encoding::percent_decode_str(fragment).decode_utf8_lossy().into_owned();
        let mut targets = Vec::new();
        if base.is_empty() || self.is_base(root) {
            if pointer.is_empty() {
                targets.push(0);
            } else if let Some(schema) = value_at(root, &pointer) {
                targets.push(self.add(schema));
            }
        }
        for resource in self.resources.clone() {
            if let Some(schema) = resource.pointer(&pointer) {
                targets.push(self.add(schema));
            }
        }
        targets
    }
}

/// Cost of searching for a pattern, per byte of text, in sixteenths of a step. In the worst case, a
/// linear-time engine tracks every position of the pattern.
fn pattern_cost(pattern: &str) -> u64 {
    let Ok(hir) = regex_syntax::parse(pattern) else { return 16 };
    16 + count_positions(&hir) / 4
}

fn count_positions(hir: &Hir) -> u64 {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 0,
        HirKind::Literal(literal) => literal.0.len() as u64,
        HirKind::Class(_) => 1,
        HirKind::Repetition(repeated) => {
            let times = u64::from(repeated.max.unwrap_or(repeated.min).max(1));
            count_positions(&repeated.sub).saturating_mul(times)
        }
        HirKind::Capture(capture) => count_positions(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().fold(0, |sum, part| sum.saturating_add(count_positions(part)))
        }
    }
}

impl CostModel {
    /// Estimates the maximum number of steps that a check takes for one value: the sum over the parts that
    /// apply to the value. A part is counted once for each reference to it.
    ///
    /// Returns `u64::MAX` if references form a cycle for the same value, or if the sum exceeds 50,000 steps,
    /// which no ordinary schema does.
    pub(super) fn steps_per_value(&self) -> u64 {
        let mut steps_by_part = vec![None; self.parts.len()];
        (0..self.parts.len()).map(|index| self.steps_of(index, &mut steps_by_part, 0)).max().unwrap_or(0)
    }

    fn steps_of(&self, index: usize, steps_by_part: &mut [Option<u64>], depth: u32) -> u64 {
        const MAX_COUNTED: u64 = 50_000;
        if let Some(steps) = steps_by_part[index] {
            return steps;
        }
        // A reference cycle finds this value. The value also remains for parts beyond the depth limit,
        // because a check never reaches them.
        steps_by_part[index] = Some(u64::MAX);
        if depth < super::cost::DEPTH_LIMIT {
            let part = &self.parts[index];
            let steps =
                part.in_place.iter().map(|(_, target)| self.steps_of(*target, steps_by_part, depth + 1));
            let steps = steps.fold(part.keywords, u64::saturating_add);
            steps_by_part[index] = Some(if steps > MAX_COUNTED { u64::MAX } else { steps });
        }
        steps_by_part[index].unwrap_or(u64::MAX)
    }
}

impl Subschema {
    /// Returns all parts that this part leads to.
    fn next_parts(&self) -> impl Iterator<Item = usize> {
        let members = self.members.values().chain(self.patterned.iter().map(|(_, part)| part));
        let in_place = self.in_place.iter().map(|(_, part)| part);
        let others = self.other_members.iter().chain(&self.names).chain(&self.first_items).chain(&self.items);
        members.chain(in_place).chain(others).chain(&self.contains).copied()
    }
}

/// Returns the referenced parts that lead back to themselves.
///
/// The search visits a limited number of parts, because a schema may have long chains of references. In a
/// larger schema, parts count as not recursive, so that their cost is counted at each visit.
fn recursive_parts(parts: &[Subschema]) -> BTreeSet<usize> {
    const VISIT_LIMIT: usize = 100_000;
    let references = parts.iter().flat_map(|part| &part.in_place);
    let targets =
        references.filter(|(error_use, _)| *error_use == ErrorUse::Referenced).map(|(_, target)| *target);
    let mut recursive: BTreeSet<usize> = targets.collect();
    let mut visits = 0..VISIT_LIMIT;
    recursive.retain(|target| {
        let (mut reached, mut pending) = (HashSet::new(), vec![*target]);
        while let Some(part) = pending.pop().filter(|_| visits.next().is_some()) {
            pending.extend(parts[part].next_parts().filter(|next| reached.insert(*next)));
        }
        reached.contains(target)
    });
    recursive
}
