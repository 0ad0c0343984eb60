//! Names of generated items.

/// `quote_all` and `quoteAll` as `QuoteAll`.
pub(crate) fn pascal(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut upper = true;
    for letter in name.chars() {
        if letter == '_' {
            upper = true;
        } else if upper {
            out.extend(letter.to_uppercase());
            upper = false;
        } else {
            out.push(letter);
        }
    }
    out
}

/// `HttpAdmin` and `HTTPAdmin` as `http_admin`.
pub(crate) fn snake(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut out = String::with_capacity(name.len() + 4);
    for (at, letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| letters.get(at)).copied();
        let after = letters.get(at + 1).copied();
        let begins_word = letter.is_uppercase()
            && before.is_some_and(|before| {
                before != '_' && (!before.is_uppercase() || after.is_some_and(|after| after.is_lowercase()))
            });
        if begins_word {
            out.push('_');
        }
        out.extend(letter.to_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{pascal, snake};

    /// The generated names are part of what users write, so they never change.
    #[test]
    fn names_of_generated_items() {
        for (from, to) in [("quote", "Quote"), ("quote_all", "QuoteAll"), ("_x", "X"), ("v2_list", "V2List")] {
            assert_eq!(pascal(from), to);
        }
        for (from, to) in [("Billing", "billing"), ("HttpAdmin", "http_admin"), ("HTTPAdmin", "http_admin"), ("A", "a")]
        {
            assert_eq!(snake(from), to);
        }
    }
}
