//! What the compiler says: about contracts that cannot be, at the place that is wrong, and nothing about those that can.

mod every_shape;

/// Every refusal stands at its span and leaves the trait in place, and what only types can tell (a missing schema, a
/// recursive type, a false bound) is told in the words of a contract. The texts are those of the workspace's toolchain.
#[test]
fn refusals() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
