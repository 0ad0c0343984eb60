//! The client's half, step by step.
