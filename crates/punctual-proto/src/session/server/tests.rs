//! The server's half, step by step.
