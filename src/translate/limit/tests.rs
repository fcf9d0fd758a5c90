//! Tests of omitted rows and lines, their note, and the length of the rest.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn structured(value: &Value) -> Structured {
    Structured::new(JsonText::from_value(value))
}

#[track_caller]
fn check(limit: &Limit, value: Value, expected: Result<(&str, Option<&str>), &str>) {
    let found = limit.truncate_structured(
        structured(&value),
        None,
        &json!({"start": 10, "page": "3", "per": 20}),
        false,
    );
    match (found, expected) {
        (Ok((found, omitted)), Ok((json, note))) => {
            assert_eq!(found.json.as_str(), json);
            assert_eq!(omitted.map(|omitted| omitted.to_string()).as_deref(), note);
        }
        (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
        (found, _) => panic!("found {found:?}, expected {expected:?}"),
    }
}

fn rows(rows: usize) -> Limit {
    Limit { rows: Some(rows), ..Limit::default() }
}

fn characters(characters: usize) -> Limit {
    Limit { characters: Some(characters), ..Limit::default() }
}

#[test]
fn whole_rows_are_omitted_at_the_end() {
    check(&rows(2), json!([1, 2, 3]), Ok(("[1,2]", Some("2 of 3 rows are shown."))));
    check(&rows(3), json!([1, 2, 3]), Ok(("[1,2,3]", None)));
    check(
        &rows(1),
        json!({"n": 2, "data": {"hosts": ["a", "b"]}}),
        Ok((r#"{"n":2,"data":{"hosts":["a"]}}"#, Some("1 of 2 rows are shown."))),
    );
    check(&rows(1), json!("one\ntwo\n"), Ok((r#""one\n""#, Some("1 of 2 lines are shown."))));
    check(&rows(1), json!({"n": 2}), Ok((r#"{"n":2}"#, None)));
    // `{"result":["ab"]}` has 17 characters.
    check(&characters(17), json!(["ab", "cd"]), Ok((r#"["ab"]"#, Some("1 of 2 rows are shown."))));
    check(&characters(16), json!(["ab", "cd"]), Err("first row alone"));
    check(&characters(16), json!({"text": "long enough"}), Err("it has 22 characters, the limit is 16"));
}

#[test]
fn the_list_may_be_named() {
    let with_path =
        |path: &str| Limit { rows: Some(1), path: Some(path.parse().unwrap()), ..Limit::default() };
    let value = json!({"a": [1, 2], "my rows": [1, 2, 3], "log": "x\ny\n"});
    check(
        &with_path(".a"),
        value.clone(),
        Ok((r#"{"a":[1],"my rows":[1,2,3],"log":"x\ny\n"}"#, Some("1 of 2 rows are shown."))),
    );
    check(
        &with_path(r#"."my rows""#),
        value.clone(),
        Ok((r#"{"a":[1,2],"my rows":[1],"log":"x\ny\n"}"#, Some("1 of 3 rows are shown."))),
    );
    check(
        &with_path(".log"),
        value.clone(),
        Ok((r#"{"a":[1,2],"my rows":[1,2,3],"log":"x\n"}"#, Some("1 of 2 lines are shown."))),
    );
    check(&with_path(".nope"), value, Ok((r#"{"a":[1,2],"my rows":[1,2,3],"log":"x\ny\n"}"#, None)));
    check(&with_path(".result"), json!([1, 2]), Ok(("[1]", Some("1 of 2 rows are shown."))));
    check(&with_path("."), json!([1, 2]), Ok(("[1]", Some("1 of 2 rows are shown."))));
    for text in ["a", "..a", ".a[0]", ".a.", ".\"a", ".a b"] {
        assert!(text.parse::<ListPath>().is_err(), "{text}");
    }
}

#[test]
fn the_note_names_the_arguments_for_the_rest() {
    let offset = PagingArguments { offset: Some("start".into()), ..PagingArguments::default() };
    check(
        &Limit { more: Some(offset), ..rows(2) },
        json!([1, 2, 3]),
        Ok(("[1,2]", Some("2 of 3 rows are shown. For the next part, call again with `start`: 12."))),
    );
    let offset = PagingArguments { offset: Some("start".into()), ..PagingArguments::default() };
    check(
        &Limit { more: Some(offset), text_arguments: vec!["start".into()], ..rows(2) },
        json!([1, 2, 3]),
        Ok(("[1,2]", Some("2 of 3 rows are shown. For the next part, call again with `start`: \"12\"."))),
    );
    // Two pages of 20 and these 10 rows are 50, so the next is page 6 of 10 rows each.
    let page =
        PagingArguments { page: Some("page".into()), size: Some("per".into()), ..PagingArguments::default() };
    let (_, omitted) = Limit { more: Some(page), ..rows(10) }
        .truncate_structured(structured(&(0..20).collect()), None, &json!({"page": "3", "per": 20}), false)
        .unwrap();
    assert_eq!(
        omitted.unwrap().meta(),
        json!({
            "unit": "rows", "shown": 10, "omitted": 10, "total": 20, "next": {"page": "6", "per": 10}
        })
    );
}

fn block(text: &str, kind: TextKind) -> RenderedBlock {
    RenderedBlock { content: Content::text(text), text: kind }
}

#[test]
fn whole_lines_of_text_are_omitted() {
    let texts = |limit: &Limit, blocks: Vec<RenderedBlock>| {
        limit.truncate_texts(blocks).map(|(content, omitted)| {
            let texts: Vec<_> = content.iter().map(|c| c.block.text(None).unwrap().into_owned()).collect();
            (texts, omitted.map(|omitted| omitted.to_string()))
        })
    };
    let rendered = || vec![block("one\ntwo\nthree", TextKind::Rendered), block("four", TextKind::Rendered)];
    assert_eq!(
        texts(&characters(8), rendered()).unwrap(),
        (vec!["one\ntwo".to_owned()], Some("2 of 4 lines are shown.".to_owned()))
    );
    assert_eq!(texts(&characters(20), rendered()).unwrap().1, None);
    assert!(texts(&characters(2), rendered()).unwrap_err().contains("first line alone"));
    let verbatim = vec![block("1\n2\n3\n", TextKind::Verbatim), block("{}", TextKind::Json)];
    assert_eq!(texts(&rows(2), verbatim).unwrap().0, ["1\n2", "{}"]);
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "\\PC{0,12}|(a\n){0,5}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::hash_map("[a-c]", inner, 0..4).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

proptest! {
    /// Any value is within the limit afterwards, or the client gets an error with the reason.
    #[test]
    fn a_limited_value_is_within_its_limit(
        value in any_value(),
        max_characters in 12_usize..80,
        rows in prop::option::of(0_usize..5),
        pretty: bool,
    ) {
        let limit = Limit { rows, characters: Some(max_characters), ..Limit::default() };
        match limit.truncate_structured(structured(&value), None, &Value::Null, pretty) {
            Err(error) => prop_assert!(error.contains("too long")),
            Ok((limited, omitted)) => {
                let sent = limited.value(ObjectsOnly);
                let text = match pretty {
                    true => serde_json::to_string_pretty(&sent).unwrap(),
                    false => sent.to_string(),
                };
                prop_assert!(text.chars().count() <= max_characters, "{text}");
                if let (Some(omitted), None, Value::Array(items)) = (&omitted, rows, &value) {
                    let next = structured(&items[..=omitted.shown].into());
                    let longer = limit.truncate_structured(next, None, &Value::Null, pretty);
                    prop_assert!(!matches!(longer, Ok((_, None))), "one more would fit");
                }
                match omitted {
                    None => prop_assert_eq!(limited.json.parse(), value),
                    Some(omitted) => {
                        prop_assert!(omitted.shown < omitted.total);
                        prop_assert!(rows.is_none_or(|rows| omitted.shown <= rows));
                    }
                }
            }
        }
    }

    /// The computed length is that of the output, so that a long value is not serialized repeatedly.
    #[test]
    fn the_rows_that_fit_are_counted(
        items in prop::collection::vec(any_value(), 0..6), room in 0_usize..90,
    ) {
        let length = |count: usize| Value::Array(items[..count].to_vec()).to_string().chars().count();
        let fits = |count: &usize| length(*count) - length(0) <= room;
        let max_rows = (0..=items.len()).take_while(fits).last();
        let rows = ListRows { items: items.clone(), is_text: false };
        prop_assert_eq!(Some(rows.fitting(room)), max_rows);
    }

    #[test]
    fn the_lines_that_fit_are_counted(lines in prop::collection::vec("[a\"é\n]{0,5}\n", 0..6), room in 0_usize..40) {
        let fits =
            |count: &usize| Value::String(lines[..*count].concat()).to_string().chars().count() - 2 <= room;
        let max_lines = (0..=lines.len()).take_while(fits).last();
        let rows = ListRows { items: lines.iter().map(|line| line.as_str().into()).collect(), is_text: true };
        prop_assert_eq!(Some(rows.fitting(room)), max_lines);
    }
}
