//! What a map's key cannot be is told where the type is declared.

use std::collections::BTreeMap;

#[punctual::message]
struct Grid {
    cells: BTreeMap<(u8, u8), String>,
}

fn main() {}
