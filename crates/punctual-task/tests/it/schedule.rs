//! Schedule time against models, oracles and tables.

mod every_case;
mod generate;
mod model;
mod oracle;
mod properties;
mod text;
