//! The attributes of Punctual: service and message.
