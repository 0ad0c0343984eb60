//! The two sides of what a method returns, where a macro sees only a name.

/// A `Result`, also behind an alias.
#[diagnostic::on_unimplemented(
    message = "a method of a contract returns a `Result`, not `{Self}`",
    label = "not a `Result`",
    note = "every call can fail: return `Result<T, E>`, with `Status` as `E` where there is no error of your own"
)]
pub trait Reply {
    /// What success gives.
    type Ok;
    /// What failure gives.
    type Err;
}

impl<T, E> Reply for Result<T, E> {
    type Ok = T;
    type Err = E;
}
