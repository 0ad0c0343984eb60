//! The document against its copy, the contract and itself.

use super::*;
use crate::http::rest::ADMIN;
use std::collections::BTreeSet;

const COPY: &str = include_str!("../../../../../docs/openapi.json");

/// The copy in the repository is what the daemon answers: who builds on it sees each change in review.
#[test]
fn the_copy_is_up_to_date() {
    let copy: Value = serde_json::from_str(COPY).unwrap();
    assert!(
        copy == document(),
        "docs/openapi.json is old: write it anew from a running daemon, `curl -s HOST/api/v1/openapi.json | python3 -m json.tool`"
    );
}

/// Every method of the contract has its one route: nothing that the command line can do is missing here.
#[test]
fn every_method_has_a_route() {
    let document = document();
    let mut found = Vec::new();
    for path in document["paths"].as_object().unwrap().values() {
        for operation in path.as_object().unwrap().values() {
            if operation["tags"] == json!(["admin"]) {
                found.push(operation["operationId"].as_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    let mut methods: Vec<String> = ADMIN.methods.iter().map(|method| method.name.clone()).collect();
    methods.sort();
    assert_eq!(found, methods);
}

/// Every argument of every method comes from somewhere, and nothing else is asked for.
#[test]
fn every_argument_has_a_source() {
    for route in routes() {
        let Action::Admin(call) = route.action else { continue };
        let method = method(call).unwrap();
        let named: BTreeSet<&str> = call
            .from
            .iter()
            .map(|from| match from {
                Source::Path(name)
                | Source::Query(name)
                | Source::QueryFields(name)
                | Source::Body(name)
                | Source::Field(name)
                | Source::FieldOr(name) => *name,
            })
            .collect();
        let args: BTreeSet<&str> =
            crate::http::rest::fields(&method.args).iter().map(|field| field.name.as_str()).collect();
        assert_eq!(named, args, "{}", method.full_name);
        for from in call.from {
            if let Source::Path(name) = from {
                assert!(route.path.contains(&format!("{{{name}}}")), "{}", route.path);
            }
        }
    }
}

/// References lead somewhere.
#[test]
fn references_are_there() {
    fn walk(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => fields.iter().for_each(|(name, value)| match value.as_str() {
                Some(text) if name == "$ref" => {
                    found.insert(text.rsplit('/').next().unwrap().to_owned());
                }
                _ => walk(value, found),
            }),
            Value::Array(values) => values.iter().for_each(|value| walk(value, found)),
            _ => {}
        }
    }
    let document = document();
    let mut found = BTreeSet::new();
    walk(&document, &mut found);
    let known: BTreeSet<String> = document["components"]["schemas"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(found, known);
}
