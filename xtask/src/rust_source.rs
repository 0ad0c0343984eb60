//! A Rust file in three views of equal length: its code, its comments, and the contents of its literals.
//!
//! Each view has spaces where the others have something, and keeps the line ends, so that a position means the same in all.
//! It is a reader of the outermost grammar only (comments, strings, characters, brackets): enough to search for a word
//! where it means something, with no parser to compile.

/// The three views.
#[derive(Debug)]
pub(crate) struct RustSource {
    /// Everything but comments and the contents of literals; their quotes are here.
    pub(crate) code: String,
    /// The comments with their slashes, doc comments included.
    pub(crate) comments: String,
    /// The contents of strings and characters.
    pub(crate) literals: String,
}

#[derive(Clone, Copy, PartialEq)]
enum View {
    Code,
    Comment,
    Literal,
}

impl RustSource {
    /// Takes a file apart. Text that is no Rust gives views that mean little, and no error: the compiler will have its say.
    pub(crate) fn read(text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut views = Vec::with_capacity(bytes.len());
        while views.len() < bytes.len() {
            let rest = bytes.get(views.len()..).unwrap_or_default();
            let before = views.len().checked_sub(1).and_then(|at| bytes.get(at)).copied();
            push_next(&mut views, rest, before);
        }
        let view = |wanted: View| -> String {
            let keep = |(byte, view): (&u8, &View)| if *view == wanted || *byte == b'\n' { *byte } else { b' ' };
            // Views change only at ASCII bytes, so no character is torn apart.
            String::from_utf8_lossy(&bytes.iter().zip(&views).map(keep).collect::<Vec<u8>>()).into_owned()
        };
        Self { code: view(View::Code), comments: view(View::Comment), literals: view(View::Literal) }
    }

    /// The same without the items under `#[cfg(test)]`.
    pub(crate) fn without_tests(&self) -> Self {
        const MARK: &str = "#[cfg(test)]";
        let mut kept =
            Self { code: self.code.clone(), comments: self.comments.clone(), literals: self.literals.clone() };
        let mut from = 0;
        while let Some(found) = self.code.get(from..).and_then(|code| code.find(MARK)) {
            let start = from + found;
            let end = item_end(&self.code, start + MARK.len());
            for view in [&mut kept.code, &mut kept.comments, &mut kept.literals] {
                blank(view, start, end);
            }
            from = end;
        }
        kept
    }

    /// The number of the line that a position lies in, from 1.
    pub(crate) fn line(&self, at: usize) -> usize {
        1 + self.code.bytes().take(at).filter(|byte| *byte == b'\n').count()
    }
}

/// Reads one token, as far as the views tell tokens apart, at the start of `rest`.
fn push_next(views: &mut Vec<View>, rest: &[u8], before: Option<u8>) {
    let mut push = |view: View, count: usize| views.extend(std::iter::repeat_n(view, count));
    let in_word = before.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if rest.starts_with(b"//") {
        push(View::Comment, rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()));
    } else if rest.starts_with(b"/*") {
        push(View::Comment, block_comment_length(rest));
    } else if let Some((head, body, tail)) = raw_string(rest).filter(|_| !in_word) {
        push(View::Code, head);
        push(View::Literal, body);
        push(View::Code, tail);
    } else if rest.starts_with(b"\"") {
        let body = quoted_length(rest, b'"');
        push(View::Code, 1);
        push(View::Literal, body);
        push(View::Code, 1.min(rest.len() - 1 - body));
    } else if let Some(body) = character(rest) {
        push(View::Code, 1);
        push(View::Literal, body);
        push(View::Code, 1);
    } else {
        push(View::Code, 1);
    }
}

/// Block comments nest.
fn block_comment_length(rest: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(left) = rest.get(at..).filter(|left| !left.is_empty()) {
        if left.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if left.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// The lengths of a raw string's head (`r#"`, `br"`), body and tail (`"#`).
fn raw_string(rest: &[u8]) -> Option<(usize, usize, usize)> {
    let prefix = [&b"r"[..], b"br", b"cr"].into_iter().find(|prefix| rest.starts_with(prefix))?.len();
    let hashes = rest.iter().skip(prefix).take_while(|byte| **byte == b'#').count();
    let head = prefix + hashes + 1;
    let body = rest.get(head - 1..)?.strip_prefix(b"\"")?;
    let ends = |at: &usize| {
        let tail = body.get(*at..).unwrap_or_default();
        tail.first() == Some(&b'"') && tail.iter().skip(1).take_while(|byte| **byte == b'#').count() >= hashes
    };
    Some(match (0..body.len()).find(ends) {
        Some(length) => (head, length, 1 + hashes),
        None => (head, body.len(), 0),
    })
}

/// The length of what stands between the quotes, escapes counted as two.
fn quoted_length(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while let Some(byte) = rest.get(at) {
        match *byte {
            b'\\' => at += 2,
            byte if byte == quote => break,
            _ => at += 1,
        }
    }
    at.min(rest.len()) - 1
}

/// The length of a character literal's content; `None` for a lifetime, which has no closing quote where one would be.
fn character(rest: &[u8]) -> Option<usize> {
    let after = rest.strip_prefix(b"'")?;
    if after.first() == Some(&b'\\') {
        let length = quoted_length(rest, b'\'');
        return (rest.get(length + 1) == Some(&b'\'')).then_some(length);
    }
    // One character of up to four bytes.
    let length = (1..=4).find(|length| after.get(*length) == Some(&b'\''))?;
    let character = std::str::from_utf8(after.get(..length)?).ok()?;
    (character.chars().count() == 1).then_some(length)
}

/// Where the item ends whose attributes end at `from`: behind its block, or behind its semicolon.
fn item_end(code: &str, from: usize) -> usize {
    let mut depth = 0_usize;
    let mut block = false;
    for (at, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'{' => {
                block |= depth == 0;
                depth += 1;
            }
            b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 && block && byte == b'}' {
                    return at + 1;
                }
            }
            b';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

fn blank(view: &mut String, start: usize, end: usize) {
    let blanked = |(at, character): (usize, char)| match character {
        '\n' => "\n".to_owned(),
        _ if (start..end).contains(&at) => " ".repeat(character.len_utf8()),
        other => other.to_string(),
    };
    *view = view.char_indices().map(blanked).collect();
}

/// The end of the bracketed span that opens at `open` in the code view: behind its closing bracket.
pub(crate) fn span_end(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    code.len()
}

/// The places of `word` in `text` where no letter, digit or underscore touches it.
pub(crate) fn word_places<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_word = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    text.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let bytes = text.as_bytes();
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        let after = bytes.get(at + word.len()).filter(|_| is_word(word.as_bytes().last()));
        !is_word(before) && !is_word(after)
    })
}

#[cfg(test)]
mod tests {
    use super::{RustSource, span_end, word_places};

    fn check(text: &str, code: &str, comments: &str, literals: &str) {
        let source = RustSource::read(text);
        let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(squeeze(&source.code), code, "code of {text}");
        assert_eq!(squeeze(&source.comments), comments, "comments of {text}");
        assert_eq!(squeeze(&source.literals), literals, "literals of {text}");
        for view in [&source.code, &source.comments, &source.literals] {
            assert_eq!(view.len(), text.len(), "length of a view of {text}");
        }
    }

    /// Guards that a word is seen as what it is: code, comment or literal. Mistaking one makes the checks blind or shrill.
    #[test]
    fn the_views_are_told_apart() {
        check("a(); // b \"c\"\nd();", "a(); d();", "// b \"c\"", "");
        check("a /* b /* c */ d */ e", "a e", "/* b /* c */ d */", "");
        check(r#"a("b // c \" d", e)"#, r#"a(" ", e)"#, "", r#"b // c \" d"#);
        check(r###"a(r#"b " c"#, d)"###, r###"a(r#" "#, d)"###, "", r#"b " c"#);
        check(r###"a(br#"b"#, c"d")"###, r###"a(br#" "#, c" ")"###, "", "b d");
        check("f('\"', '\\'', 'é', '\\u{1F}') g::<'a>()", "f(' ', ' ', ' ', ' ') g::<'a>()", "", "\" \\' é \\u{1F}");
        check("fn f<'a>(x: &'a str, c: char) {}", "fn f<'a>(x: &'a str, c: char) {}", "", "");
        check("\"never closed", "\"", "", "never closed");
        check("//! Größe\nlet ö = \"ß\";", "let ö = \" \";", "//! Größe", "ß");
        check("var\"x\"", "var\" \"", "", "x");
    }

    /// Guards that what only tests compile is left out, and nothing else.
    #[test]
    fn test_items_are_left_out() {
        let source = RustSource::read(
            "fn a() {}\n#[cfg(test)]\nmod tests { fn b() { c(\"}\"); } }\nfn d() {}\n#[cfg(test)]\nmod tests;\nfn e() {}\n\
             #[cfg(test)]\nfn f(x: [u8; 4]) -> u8 { 1 }\nfn g() {}",
        );
        let code = source.without_tests().code;
        let left: Vec<&str> = ["a", "b", "c", "d", "e", "f", "g", "tests"]
            .into_iter()
            .filter(|name| word_places(&code, name).next().is_some())
            .collect();
        assert_eq!(left, ["a", "d", "e", "g"]);
        assert_eq!(code.len(), source.code.len());
    }

    /// Guards the two small searches that the checks are made of.
    #[test]
    fn words_and_spans_are_found() {
        assert_eq!(word_places("todo! my_todo! todo!()", "todo!").collect::<Vec<_>>(), [0, 15]);
        assert_eq!(word_places("std tokio_std std::x", "std").collect::<Vec<_>>(), [0, 14]);
        assert_eq!(span_end("f(a, [b], {c}) d", 1), 14);
        assert_eq!(span_end("f(a", 1), 3);
    }
}
