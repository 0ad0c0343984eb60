//! W3C trace context: which trace a call belongs to, as it travels in the metadata `traceparent` and `tracestate`.
//!
//! It follows the recommendation <https://www.w3.org/TR/trace-context/>: what breaks its grammar is not passed on, and a
//! receiver then begins a trace of its own. What comes from a peer is bounded before it is looked at.

mod propagate;
#[cfg(test)]
mod tests;

pub use propagate::Propagate;

use crate::Metadata;
use std::fmt;

/// The metadata entry that names the trace and the caller's span.
pub const TRACEPARENT: &str = "traceparent";

/// The metadata entry with what tracing systems add of their own.
pub const TRACESTATE: &str = "tracestate";

/// The longest `tracestate` that is passed on: what the recommendation asks everybody to carry. Of a longer one the last
/// members are dropped.
pub const TRACESTATE_BYTES_MAX: usize = 512;

/// The most members of a `tracestate`. One with more is dropped as a whole, as the recommendation says.
pub const TRACESTATE_MEMBERS_MAX: usize = 32;

/// The longest `tracestate` that is read at all.
const TRACESTATE_READ_MAX: usize = 4 * 1024;

/// The length of a `traceparent` of version 00.
const TRACEPARENT_BYTES: usize = 55;

/// The flags of version 00 that are known: sampled, and that the trace id is random.
const FLAGS_KNOWN: u8 = 0b11;

/// A place in a trace: the trace, the span that is the parent of what follows, and what tracing systems add.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TraceContext {
    trace_id: [u8; 16],
    parent_id: [u8; 8],
    flags: u8,
    /// Checked, and within its bounds; empty for none.
    state: Box<str>,
}

impl TraceContext {
    /// A place in a trace. `None` where either id is all zeros, which means none.
    #[must_use]
    pub fn new(trace_id: [u8; 16], parent_id: [u8; 8], sampled: bool) -> Option<Self> {
        let valid = trace_id != [0; 16] && parent_id != [0; 8];
        valid.then(|| TraceContext { trace_id, parent_id, flags: u8::from(sampled), state: Box::default() })
    }

    /// From the text of a `traceparent`. `None` where it breaks the grammar.
    ///
    /// A version after 00 is read as 00, as far as that goes; what this version does not know is not passed on.
    #[must_use]
    pub fn parse(traceparent: &[u8]) -> Option<Self> {
        let head = traceparent.get(..TRACEPARENT_BYTES)?;
        let version = hex::<1>(head.get(..2)?)?;
        match (version, traceparent.get(TRACEPARENT_BYTES)) {
            ([0xff], _) | ([0], Some(_)) => return None,
            (_, Some(byte)) if *byte != b'-' => return None,
            _ => {}
        }
        let dashes = [2, 35, 52].iter().all(|at| head.get(*at) == Some(&b'-'));
        let trace_id = hex::<16>(head.get(3..35)?)?;
        let parent_id = hex::<8>(head.get(36..52)?)?;
        let [flags] = hex::<1>(head.get(53..55)?)?;
        let context = TraceContext::new(trace_id, parent_id, false).filter(|_| dashes)?;
        Some(TraceContext { flags: flags & FLAGS_KNOWN, ..context })
    }

    /// The same with this `tracestate`. One that breaks the grammar is left out; of one that is too long the last members
    /// are.
    #[must_use]
    pub fn with_state(mut self, tracestate: &[u8]) -> Self {
        self.state = state(tracestate).unwrap_or_default().into_boxed_str();
        self
    }

    /// What a caller sent. `None` without a `traceparent`, with several, or with one that breaks the grammar.
    #[must_use]
    pub fn from_metadata(metadata: &Metadata) -> Option<Self> {
        if metadata.is_empty() {
            return None;
        }
        let mut parents = metadata.iter().filter(|(name, _)| *name == TRACEPARENT);
        let (_, parent) = parents.next()?;
        let context = TraceContext::parse(parent).filter(|_| parents.next().is_none())?;
        let mut states = metadata.iter().filter(|(name, _)| *name == TRACESTATE).map(|(_, value)| value);
        Some(match (states.next(), states.next()) {
            (Some(only), None) => context.with_state(only),
            (Some(first), Some(second)) => {
                // Several entries are one list. The bound on what is read holds for all of them together.
                let mut joined = [first, b",", second].concat();
                for more in states {
                    if joined.len() > TRACESTATE_READ_MAX {
                        break;
                    }
                    joined.push(b',');
                    joined.extend_from_slice(more);
                }
                context.with_state(&joined)
            }
            (None, _) => context,
        })
    }

    /// The entries of metadata that carry it.
    #[must_use]
    pub fn to_metadata(&self) -> Metadata {
        let mut metadata = Metadata::new();
        // Both are short enough for any metadata, and so are their names.
        let _ = metadata.append(TRACEPARENT, self.traceparent());
        if !self.tracestate().is_empty() {
            let _ = metadata.append(TRACESTATE, self.tracestate());
        }
        metadata
    }

    /// Which trace.
    #[must_use]
    pub fn trace_id(&self) -> [u8; 16] {
        self.trace_id
    }

    /// Which span in it is the parent of what follows.
    #[must_use]
    pub fn parent_id(&self) -> [u8; 8] {
        self.parent_id
    }

    /// Whether the caller may have recorded it.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        self.flags & 1 == 1
    }

    /// The text of its `traceparent`, version 00.
    #[must_use]
    pub fn traceparent(&self) -> String {
        format!("00-{}-{}-{:02x}", Hex(&self.trace_id), Hex(&self.parent_id), self.flags)
    }

    /// The text of its `tracestate`; empty for none.
    #[must_use]
    pub fn tracestate(&self) -> &str {
        &self.state
    }
}

impl fmt::Debug for TraceContext {
    /// Without the state, where systems may put what is nobody else's business.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TraceContext").field(&format_args!("{}", self.traceparent())).finish()
    }
}

/// Bytes as lower-case hexadecimal digits.
struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// `N` bytes from lower-case hexadecimal digits, which are the only ones that the recommendation allows.
fn hex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let digit = |byte: &u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    let (pairs, rest) = digits.as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(high)? << 4 | digit(low)?;
    }
    Some(bytes)
}

/// The list as it is passed on: checked, without empty members, within the bounds. `None` where it breaks the grammar.
fn state(list: &[u8]) -> Option<String> {
    let list = std::str::from_utf8(list).ok().filter(|list| list.len() <= TRACESTATE_READ_MAX)?;
    let mut out = String::new();
    let mut keys: Vec<&str> = Vec::new();
    let mut is_full = false;
    for member in list.split(',').map(|member| member.trim_matches([' ', '\t'])).filter(|member| !member.is_empty()) {
        let (key, value) = member.split_once('=')?;
        if !is_key(key) || !is_value(value) || keys.contains(&key) || keys.len() == TRACESTATE_MEMBERS_MAX {
            return None;
        }
        keys.push(key);
        let comma = usize::from(!out.is_empty());
        is_full |= out.len() + comma + member.len() > TRACESTATE_BYTES_MAX;
        // What follows is still checked: a list is good or bad as a whole.
        if !is_full {
            if comma == 1 {
                out.push(',');
            }
            out.push_str(member);
        }
    }
    Some(out)
}

/// `vendor` or `tenant@vendor`.
fn is_key(key: &str) -> bool {
    let plain = |part: &str, length_max: usize, may_begin_with_digit: bool| {
        let begins = part
            .bytes()
            .next()
            .is_some_and(|byte| byte.is_ascii_lowercase() || (may_begin_with_digit && byte.is_ascii_digit()));
        let goes_on = part.bytes().all(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-' | b'*' | b'/')
        });
        begins && goes_on && part.len() <= length_max
    };
    match key.split_once('@') {
        Some((tenant, vendor)) => plain(tenant, 241, true) && plain(vendor, 14, false),
        None => plain(key, 256, false),
    }
}

/// Printable ASCII without commas and equals signs, which does not end with a space.
fn is_value(value: &str) -> bool {
    let printable = value.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b',' && byte != b'=');
    printable && !value.is_empty() && value.len() <= 256 && !value.ends_with(' ')
}
