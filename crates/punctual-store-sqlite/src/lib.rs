//! The embedded store of Punctual: SQLite with group commit.
