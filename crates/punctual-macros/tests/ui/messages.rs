use punctual::message;

#[message]
struct Borrowed<'a> {
    text: &'a str,
}

#[message]
union Either {
    left: u8,
    right: u8,
}

#[message]
#[derive(Debug, serde::Serialize)]
struct Twice;

#[message]
#[serde(untagged)]
enum Untagged {
    One(u8),
}

#[message]
struct Fields {
    #[serde(skip_serializing_if = "Option::is_none")]
    maybe: Option<u8>,
    #[serde(with = "elsewhere")]
    with: u8,
    #[serde(rename(serialize = "a", deserialize = "b"))]
    renamed: u8,
}

#[message]
fn not_a_type() {}

fn main() {}
