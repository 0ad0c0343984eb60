//! What answers.

/// The daemon, or the process that hosts the contract on a database file.
#[punctual::message]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerInfo {
    /// The version of the program.
    pub version: String,
    /// The store's kind: `sqlite`, `memory`.
    pub store: String,
    /// Where it is, without secrets.
    pub location: String,
    /// The database's engine and version.
    pub store_version: String,
    /// The version of the tables.
    pub schema_version: u32,
    /// The version of the time zone rules.
    pub tzdb: String,
    /// The methods whose tasks this process runs; none if it only shows them.
    pub runs: Vec<String>,
}
