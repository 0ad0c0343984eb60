//! The length of a list of nothings costs a peer nothing to lie about.

#[punctual::message]
struct Nothing;

#[punctual::message]
struct Many {
    nothings: Vec<Nothing>,
}

fn main() {}
