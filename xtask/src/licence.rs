//! SPDX licence expressions, as far as packages use them: identifiers, `OR`, `AND`, `WITH`, parentheses, and the slash that
//! old packages write for `OR`.

/// The longest expression that is read. Those of real packages stay below 200 bytes; the bound keeps the recursion shallow.
const EXPRESSION_BYTES_MAX: usize = 1024;

/// Whether an expression can be fulfilled with allowed licences alone. `allowed` is asked with an identifier, or with
/// `Identifier WITH Exception` as one.
///
/// # Errors
/// What in the expression was not understood.
pub(crate) fn is_fulfilled(expression: &str, allowed: &dyn Fn(&str) -> bool) -> Result<bool, String> {
    if expression.len() > EXPRESSION_BYTES_MAX {
        return Err(format!("an expression of {} bytes is over the limit of {EXPRESSION_BYTES_MAX}", expression.len()));
    }
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut reader = Reader { words: spaced.split_whitespace().collect(), at: 0, allowed };
    let fulfilled = reader.any()?;
    match reader.peek() {
        None => Ok(fulfilled),
        Some(word) => Err(format!("\"{word}\" was not expected")),
    }
}

struct Reader<'a> {
    words: Vec<&'a str>,
    at: usize,
    allowed: &'a dyn Fn(&str) -> bool,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).copied()
    }

    fn take(&mut self, word: &str) -> bool {
        let there = self.peek() == Some(word);
        self.at += usize::from(there);
        there
    }

    /// `AND` binds more tightly than `OR`.
    fn any(&mut self) -> Result<bool, String> {
        let mut fulfilled = self.all()?;
        while self.take("OR") {
            // Both sides are always read: an error behind an allowed licence is an error.
            fulfilled |= self.all()?;
        }
        Ok(fulfilled)
    }

    fn all(&mut self) -> Result<bool, String> {
        let mut fulfilled = self.one()?;
        while self.take("AND") {
            fulfilled &= self.one()?;
        }
        Ok(fulfilled)
    }

    fn one(&mut self) -> Result<bool, String> {
        if self.take("(") {
            let fulfilled = self.any()?;
            return if self.take(")") { Ok(fulfilled) } else { Err("a parenthesis is not closed".to_owned()) };
        }
        let name = self.name()?;
        if self.take("WITH") {
            let exception = self.name()?;
            return Ok((self.allowed)(&format!("{name} WITH {exception}")));
        }
        Ok((self.allowed)(name))
    }

    fn name(&mut self) -> Result<&'a str, String> {
        match self.peek() {
            Some("OR" | "AND" | "WITH" | ")") | None => Err("a licence is missing".to_owned()),
            Some(name) => {
                self.at += 1;
                Ok(name)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_fulfilled;

    fn check(expression: &str, expected: Result<bool, &str>) {
        let allowed = |name: &str| ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"].contains(&name);
        assert_eq!(is_fulfilled(expression, &allowed), expected.map_err(str::to_owned), "{expression}");
    }

    /// Guards the meaning of the operators, in the forms that packages really use.
    #[test]
    fn expressions_are_evaluated() {
        check("MIT", Ok(true));
        check("GPL-3.0-only", Ok(false));
        check("MIT OR GPL-3.0-only", Ok(true));
        check("MIT AND GPL-3.0-only", Ok(false));
        check("GPL-3.0-only OR MIT AND MPL-2.0", Ok(false));
        check("(GPL-3.0-only OR MIT) AND Apache-2.0", Ok(true));
        check("Apache-2.0/GPL-2.0", Ok(true));
        check("Apache-2.0 WITH LLVM-exception", Ok(true));
        check("MIT WITH Classpath-exception-2.0", Ok(false));
    }

    /// Guards that what is not understood is refused, not taken for allowed.
    #[test]
    fn nonsense_is_refused() {
        check("", Err("a licence is missing"));
        check("MIT OR", Err("a licence is missing"));
        check("MIT MIT", Err("\"MIT\" was not expected"));
        check("(MIT", Err("a parenthesis is not closed"));
        check("MIT)", Err("\")\" was not expected"));
        assert!(is_fulfilled(&"(".repeat(5_000), &|_| true).expect_err("too long").contains("limit"));
    }
}
