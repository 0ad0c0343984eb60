//! The durable engine of Punctual on tokio: materialise, claim, run, finish, renew, rescue.
