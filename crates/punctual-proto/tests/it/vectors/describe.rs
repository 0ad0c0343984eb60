//! `describe.json`.

use super::File;
use super::contracts::SERVICES;
use punctual_proto::describe::{COMPARED_BYTES_MAX, equal_methods};
use std::collections::BTreeSet;

/// The methods that two peers speak compact are those that the vectors say, and a description that says nothing clear is
/// refused by name: one method too many would be read wrongly, by either side.
#[test]
fn methods_that_are_equal_are_found() {
    let [billing, _] = &SERVICES;
    let mut errors = BTreeSet::new();
    File::read("describe.json").each(|case, name| {
        let body = match (case["text"].as_str(), case["spaces"].as_u64()) {
            (Some(text), None) => text.as_bytes().to_vec(),
            (None, Some(spaces)) => vec![b' '; usize::try_from(spaces).unwrap()],
            _ => serde_json::to_vec(&case["body"]).unwrap(),
        };
        match equal_methods(billing, &body) {
            Ok(ids) => {
                assert!(ids.is_sorted(), "{name}");
                let mut names: Vec<&str> = Vec::new();
                for method in billing.methods {
                    if ids.contains(&method.id) {
                        names.push(method.name);
                    }
                }
                assert_eq!(names.len(), ids.len(), "{name}");
                names.sort_unstable();
                assert_eq!(serde_json::json!(names), case["equal"], "{name}");
            }
            Err(error) => {
                assert_eq!(case["error"], error.name(), "{name}: {error}");
                errors.insert(error.name());
            }
        }
    });
    let all = ["digits", "other_service", "too_long", "twice", "unreadable"];
    assert_eq!(errors.into_iter().collect::<Vec<_>>(), all);
    assert_eq!(COMPARED_BYTES_MAX, 1_048_576);
}
