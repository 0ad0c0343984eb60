//! Arguments that several commands take in the same way.

use crate::exit::Failure;
use std::io::Read;

/// The most bytes read from a file or from standard input: as much as one message may carry.
const INPUT_BYTES_MAX: usize = 4 << 20;

/// A text given in place, by `@FILE`, or by `-` from standard input.
///
/// # Errors
/// Where the file cannot be read, is too large or is no UTF-8.
pub(crate) fn text_argument(argument: &str) -> Result<String, Failure> {
    match argument.strip_prefix('@') {
        Some(path) => file_argument(path),
        None if argument == "-" => file_argument("-"),
        None => Ok(argument.to_owned()),
    }
}

/// The text of a file, or of standard input for `-`.
///
/// # Errors
/// Where the file cannot be read, is too large or is no UTF-8.
pub(crate) fn file_argument(path: &str) -> Result<String, Failure> {
    let name = if path == "-" { "standard input" } else { path };
    let cannot = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            Failure::new(crate::exit::Exit::NotFound, "not_found", format!("there is no file {name}; check the path"))
        }
        _ => Failure::usage(format!("cannot read {name}: {error}; check the path and its permissions")),
    };
    let limit = INPUT_BYTES_MAX as u64 + 1;
    let mut bytes = Vec::new();
    if path == "-" {
        std::io::stdin().lock().take(limit).read_to_end(&mut bytes).map_err(cannot)?;
    } else {
        std::fs::File::open(path).map_err(cannot)?.take(limit).read_to_end(&mut bytes).map_err(cannot)?;
    }
    if bytes.len() > INPUT_BYTES_MAX {
        return Err(Failure::usage(format!(
            "{name} has more than {INPUT_BYTES_MAX} bytes, the most that is read; split it"
        )));
    }
    String::from_utf8(bytes).map_err(|_| Failure::usage(format!("{name} is not UTF-8 text; convert it first")))
}

/// Arguments of a method as JSON text.
///
/// # Errors
/// Where they cannot be read or are no JSON object.
pub(crate) fn json_argument(argument: &str) -> Result<String, Failure> {
    let text = text_argument(argument)?;
    match serde_json::from_str::<serde_json::Value>(&text) {
        Ok(serde_json::Value::Object(_)) => Ok(text),
        Ok(_) => Err(Failure::usage(
            "the arguments are not a JSON object: name them, such as {\"order\": 42}, or write {} where there are none",
        )),
        Err(error) => Err(Failure::usage(format!(
            "the arguments are not JSON ({error}): write an object such as {{\"order\": 42}}, in single quotes for the shell"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Arguments are an object by names; anything else is refused before it is sent, with what to write.
    #[test]
    fn arguments_are_objects() {
        assert_eq!(json_argument("{\"a\": 1}").unwrap(), "{\"a\": 1}");
        for bad in ["", "[1]", "1", "{a:1}", "{\"a\":1} x"] {
            let failure = json_argument(bad).unwrap_err();
            assert!(failure.line().contains("such as {"), "{bad}: {}", failure.line());
        }
    }

    /// A file that is not there is another exit than one that is no text.
    #[test]
    fn files_are_read_or_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("args.json");
        std::fs::write(&path, b"{}").unwrap();
        assert_eq!(text_argument(&format!("@{}", path.display())).unwrap(), "{}");
        let missing = text_argument(&format!("@{}", folder.path().join("no").display())).unwrap_err();
        assert_eq!(missing.exit(), crate::exit::Exit::NotFound);
        std::fs::write(&path, b"\xff").unwrap();
        assert!(text_argument(&format!("@{}", path.display())).unwrap_err().line().contains("UTF-8"));
    }
}
