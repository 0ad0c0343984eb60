//! A type that contains itself would let a peer nest without end, so its schema is a cycle.

#[punctual::message]
struct Tree {
    children: Vec<Tree>,
}

fn main() {}
