//! Schedule time against models, oracles and tables.
#![expect(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod every_case;
mod generate;
mod model;
mod oracle;
mod properties;
mod text;
