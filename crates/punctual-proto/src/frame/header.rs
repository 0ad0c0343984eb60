//! The fixed 16-byte header, and every rule that can be judged from it alone.

use crate::frame::{CallId, Direction, FrameRules, HEADER_BYTES, Kind, Outcome, PAYLOAD_BYTES_MAX, Phase, Violation};
use crate::frame::{describe, fragment, health, request, response, stream};

/// A frame's header: `len u32 · kind u8 · flags u8 · stream u16 · call u64`, little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// Payload bytes behind the header.
    pub len: u32,
    /// What the frame is.
    pub kind: Kind,
    /// The flag bits of that kind.
    pub flags: u8,
    /// The stream, 0 unless the kind is one of a stream.
    pub stream: u16,
    /// The call, [`CallId::NONE`] where the frame is about none.
    pub call: CallId,
}

impl FrameHeader {
    /// A header without flags and stream.
    #[must_use]
    pub const fn new(kind: Kind, call: CallId, len: u32) -> Self {
        FrameHeader { len, kind, flags: 0, stream: 0, call }
    }

    /// The bytes.
    #[inline]
    #[must_use]
    pub const fn encode(&self) -> [u8; HEADER_BYTES] {
        // The header as one number: two stores instead of one for each field.
        let front = self.len as u64 | (self.kind as u64) << 32 | (self.flags as u64) << 40 | (self.stream as u64) << 48;
        (front as u128 | (self.call.as_u64() as u128) << 64).to_le_bytes()
    }

    /// Reads a header and judges everything that can be judged before its payload: the kind, its direction and phase, its
    /// flags, the length against this state's cap and the kind's own fields, the stream and the call id. Only then may
    /// the caller wait for, or make room for, payload bytes.
    ///
    /// # Errors
    /// The first rule that was broken.
    #[inline]
    pub fn decode(bytes: &[u8; HEADER_BYTES], rules: &FrameRules) -> Result<FrameHeader, Violation> {
        let whole = u128::from_le_bytes(*bytes);
        let (front, call) = (whole as u64, (whole >> 64) as u64);
        let kind = (front >> 32) as u8;
        let kind = Kind::from_byte(kind).ok_or(Violation::UnknownKind { kind })?;
        let header = FrameHeader {
            len: front as u32,
            kind,
            flags: (front >> 40) as u8,
            stream: (front >> 48) as u16,
            call: CallId::from_u64(call),
        };
        if header.is_plain_call(rules) {
            return Ok(header);
        }
        header.check(rules)?;
        Ok(header)
    }

    /// Whether this is a whole request or response in which no rule is broken: nearly every frame of a busy connection,
    /// told in a few instructions. It says yes only where [`Self::check`] does.
    #[inline]
    fn is_plain_call(&self, rules: &FrameRules) -> bool {
        let (fixed, known) = match (self.kind, rules.from) {
            (Kind::Request, Direction::FromClient) => (request::fixed_bytes(self.flags), request::PLAIN_FLAGS),
            (Kind::Response, Direction::FromServer) => (0, response::PLAIN_FLAGS),
            _ => return false,
        };
        let in_table = self.call.is_pending() && self.call.slot() < rules.pending_calls_max;
        self.flags & !known == 0
            && (fixed..=PAYLOAD_BYTES_MAX).contains(&self.len)
            && self.stream == 0
            && in_table
            && rules.phase == Phase::Open
    }

    pub(super) fn check(&self, rules: &FrameRules) -> Result<(), Violation> {
        self.check_kind(rules)?;
        self.check_flags(rules)?;
        self.check_len(rules)?;
        self.check_stream(rules)?;
        self.check_call(rules)
    }

    /// Which ids a side may name: the client's streams are its call's arguments, the server's the one that it returns.
    fn check_stream(&self, rules: &FrameRules) -> Result<(), Violation> {
        let arguments = match (self.kind, rules.from) {
            (Kind::Data | Kind::End, from) => from == Direction::FromClient,
            (Kind::Credit, from) => from == Direction::FromServer && self.call != CallId::NONE,
            _ => false,
        };
        let rule = match (self.kind.is_stream(), arguments, self.stream) {
            (false, _, 1..) => "only stream frames have one, others send 0",
            (true, false, 1..) => "the returned stream and the connection as a whole are 0",
            (true, true, 0) => "the streams of a call's arguments begin with 1",
            _ => return Ok(()),
        };
        Err(Violation::StreamId { kind: self.kind, stream: self.stream, rule })
    }

    fn check_kind(&self, rules: &FrameRules) -> Result<(), Violation> {
        let refuse = |expected| Err(Violation::UnexpectedKind { kind: self.kind, from: rules.from, expected });
        if rules.phase == Phase::Handshake {
            return match self.kind {
                Kind::Handshake => Ok(()),
                _ => refuse("a HANDSHAKE frame first"),
            };
        }
        match (self.kind, rules.from) {
            (Kind::Handshake, _) => refuse("no second HANDSHAKE frame"),
            (Kind::Request, Direction::FromServer) => refuse("requests from the client only"),
            (Kind::Cancel, Direction::FromServer) => refuse("cancels from the client only"),
            (Kind::Response, Direction::FromClient) => refuse("responses from the server only"),
            (kind, _) if kind.is_stream() && !rules.streams => {
                refuse("no stream frames, since the streams capability was not agreed")
            }
            _ => Ok(()),
        }
    }

    fn check_flags(&self, rules: &FrameRules) -> Result<(), Violation> {
        let compressed = if rules.compression { request::FLAG_COMPRESSED } else { 0 };
        let known = match (self.kind, rules.from) {
            (Kind::Request, _) if rules.streams => request::FLAGS | request::FLAG_STREAMS | compressed,
            (Kind::Request, _) => request::FLAGS | compressed,
            (Kind::Response, _) if rules.streams => response::FLAGS | response::FLAG_STREAM | compressed,
            (Kind::Response, _) => response::FLAGS | compressed,
            (Kind::Data, _) if rules.compression => stream::DATA_FLAGS | stream::FLAG_COMPRESSED,
            (Kind::Data, _) => stream::DATA_FLAGS,
            (Kind::End, _) => stream::END_FLAGS,
            (Kind::Fragment, _) => fragment::FRAGMENT_FLAG_MORE,
            (Kind::Handshake, Direction::FromServer) => crate::handshake::FLAG_REFUSED,
            (Kind::Describe, Direction::FromServer) => describe::FLAGS,
            (Kind::Health, Direction::FromServer) => health::FLAG_REPLY,
            _ => 0,
        };
        if self.flags & !known != 0 {
            return Err(Violation::UnknownFlags { kind: self.kind, flags: self.flags, known });
        }
        let rule = match (self.kind, rules.from) {
            (Kind::Response, _) => response::check_flags(self.flags),
            (Kind::End, _) => stream::check_end_flags(self.flags),
            (Kind::Describe, Direction::FromServer) => describe::check_flags(self.flags),
            (Kind::Health, Direction::FromServer) if self.flags != health::FLAG_REPLY => {
                Some("a server sends HEALTH only as a reply")
            }
            _ => None,
        };
        match rule {
            Some(rule) => Err(Violation::FlagCombination { kind: self.kind, flags: self.flags, rule }),
            None => Ok(()),
        }
    }

    fn check_len(&self, rules: &FrameRules) -> Result<(), Violation> {
        let FrameHeader { kind, len, .. } = *self;
        let (min, own_max) = match kind {
            Kind::Handshake if self.flags & crate::handshake::FLAG_REFUSED != 0 => {
                (crate::status::WIRE_BYTES_MIN, u32::MAX)
            }
            Kind::Handshake => (crate::handshake::PAYLOAD_BYTES_MIN, u32::MAX),
            Kind::Ping | Kind::Pong => (8, 8),
            Kind::Request => (request::fixed_bytes(self.flags), u32::MAX),
            Kind::Response => (response::fixed_bytes(self.flags), u32::MAX),
            Kind::Cancel if rules.cancel_reason => (1, 1),
            Kind::Cancel => (0, 0),
            Kind::Data => (stream::data_fixed_bytes(self.flags), u32::MAX),
            Kind::End => (stream::end_fixed_bytes(self.flags), u32::MAX),
            Kind::Credit => (4, 4),
            Kind::GoAway => (9, 9 + crate::frame::go_away::TEXT_BYTES_MAX),
            Kind::Describe => match rules.from {
                Direction::FromClient => (0, crate::handshake::SERVICE_NAME_BYTES_MAX),
                Direction::FromServer => (describe::fixed_bytes(self.flags), u32::MAX),
            },
            Kind::Health => match rules.from {
                Direction::FromClient => (0, crate::handshake::SERVICE_NAME_BYTES_MAX),
                Direction::FromServer => (1, 1),
            },
            // An empty piece would be progress for nobody and could be sent for ever.
            Kind::Fragment => (1, u32::MAX),
        };
        let max = own_max.min(rules.payload_bytes_max());
        if len > max {
            return Err(Violation::PayloadTooLong { kind, len, max });
        }
        if len < min {
            return Err(Violation::PayloadTooShort { kind, len, min });
        }
        Ok(())
    }

    fn check_call(&self, rules: &FrameRules) -> Result<(), Violation> {
        let FrameHeader { kind, call, .. } = *self;
        let refuse = |rule| Err(Violation::CallId { kind, call, rule });
        let oneway = kind == Kind::Request && self.flags & request::FLAG_ONEWAY != 0;
        match kind {
            Kind::Handshake | Kind::Ping | Kind::Pong | Kind::GoAway => {
                return if call == CallId::NONE { Ok(()) } else { refuse("it is about no call and sends 0") };
            }
            Kind::Data | Kind::End if !call.is_pending() || call == CallId::NONE => {
                return refuse("a stream belongs to a call with a top bit of 0");
            }
            Kind::Describe | Kind::Health if call.is_pending() => return refuse("its top bit must be 1"),
            Kind::Request | Kind::Response if oneway == call.is_pending() => {
                return refuse(if oneway {
                    "the top bit of a one-way call must be 1"
                } else {
                    "the top bit of a call with a reply must be 0"
                });
            }
            _ => {}
        }
        // Credit for the connection as a whole carries id 0, whose slot is below every limit.
        if call.is_pending() && call.slot() >= rules.pending_calls_max {
            return refuse("its slot is not below the agreed pending-call limit");
        }
        Ok(())
    }

    /// Whether further pieces of this message follow in fragments.
    #[must_use]
    pub const fn has_more(&self) -> bool {
        match self.kind {
            Kind::Request | Kind::Response | Kind::Data | Kind::Fragment => {
                self.flags & fragment::FRAGMENT_FLAG_MORE != 0
            }
            Kind::Describe => self.flags & describe::FLAG_MORE != 0,
            _ => false,
        }
    }

    /// The outcome bits of a response header.
    #[must_use]
    pub const fn outcome(&self) -> Option<Outcome> {
        match self.kind {
            Kind::Response => Outcome::from_bits(self.flags),
            _ => None,
        }
    }
}
