//! How SQL stores write what they have in common: numbers for enums, and rows that hold many tasks.
//!
//! The stores' tables differ, since each database has other strengths; what stands in them means the same.

mod claim_rows;
mod codes;
mod floors;
mod holding;
mod packed;

pub use claim_rows::ClaimRows;
pub use codes::Code;
pub use floors::{FloorGroup, FloorLook, FloorPlace, Floors};
pub use holding::{HeldRow, Holding};
pub use packed::{END_BYTES, End, FLAG_KEY, HELD_BYTES, Held, pack_ends, pack_held, unpack_ends, unpack_held};

use std::fmt;

/// A row holds what no store writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage(String);

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Damage {}
