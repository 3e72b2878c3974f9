//! Numbers and canonical bytes against Python's, and against themselves.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::Dialect::{Ascii, Unicode};
use super::Value;
use super::canonical::python_float;
use crate::core::tests::{json, vectors};

/// The rows of the only vector of a kind, as texts.
fn rows(kind: &str) -> Vec<[String; 3]> {
    let table = json(&vectors(kind, 1)[0].path);
    let rows = table["rows"].as_array().unwrap();
    rows.iter().map(|row| [0, 1, 2].map(|cell| row[cell].as_str().unwrap().to_owned())).collect()
}

fn bits(hex: &str) -> u64 {
    u64::from_str_radix(hex, 16).unwrap()
}

fn float(text: &str) -> f64 {
    match Value::parse(text.as_bytes()) {
        Ok(Value::Float(number)) => number,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn doubles_are_spelled_as_python_spells_them() {
    let rows = rows("float-table");
    assert_eq!(rows.len(), 1002);
    for [hex, python, _] in rows {
        assert_eq!(python_float(f64::from_bits(bits(&hex))), python);
        assert_eq!(float(&python).to_bits(), bits(&hex), "{python}");
    }
}

#[test]
fn literals_are_rounded_to_the_nearest_double() {
    let rows = rows("float-parse-table");
    assert_eq!(rows.len(), 500);
    for [literal, hex, python] in rows {
        let number = float(&literal);
        assert_eq!(number.to_bits(), bits(&hex), "{literal}");
        assert_eq!(python_float(number), python, "{literal}");
    }
}

fn finite() -> impl Strategy<Value = f64> {
    any::<u64>().prop_map(f64::from_bits).prop_filter("JSON has finite numbers only", |number| number.is_finite())
}

fn text() -> impl Strategy<Value = String> {
    vec(any::<char>(), 0..8).prop_map(|chars| chars.into_iter().collect())
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i128>().prop_map(|number| Value::Integer(number.to_string().into())),
        finite().prop_map(Value::Float),
        text().prop_map(Value::String),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::Array),
            btree_map(text(), inner, 0..6).prop_map(Value::Object),
        ]
    })
}

proptest! {
    #[test]
    fn a_spelled_double_reads_back_bit_for_bit(number in finite()) {
        prop_assert_eq!(float(&python_float(number)).to_bits(), number.to_bits());
    }

    #[test]
    fn canonical_bytes_read_back_and_stay(value in value()) {
        for dialect in [Ascii, Unicode] {
            let bytes = value.canonical(dialect);
            let again = Value::parse(&bytes).unwrap();
            prop_assert_eq!(&again, &value);
            prop_assert_eq!(again.canonical(dialect), bytes);
        }
    }
}
