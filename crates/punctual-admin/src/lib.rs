//! The admin contract of Punctual: what an operator can see and do, as a service.
