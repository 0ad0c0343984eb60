//! The RPC runtime of Punctual on tokio.
