//! Every mistake is reported at once, each at its own span.

use std::fmt::Display;
use syn::Error;

/// The mistakes found so far.
#[derive(Default)]
pub(crate) struct Errors(Option<Error>);

impl Errors {
    /// Adds a mistake at the tokens that made it.
    pub(crate) fn at(&mut self, tokens: impl quote::ToTokens, message: impl Display) {
        self.push(Error::new_spanned(tokens, message));
    }

    /// Adds a mistake.
    pub(crate) fn push(&mut self, error: Error) {
        match &mut self.0 {
            None => self.0 = Some(error),
            Some(first) => first.combine(error),
        }
    }

    /// The value, or the mistake in its place.
    pub(crate) fn take<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.push(error)).ok()
    }

    /// `value` if there was no mistake.
    pub(crate) fn finish<T>(self, value: T) -> Result<T, Error> {
        match self.0 {
            None => Ok(value),
            Some(error) => Err(error),
        }
    }
}
