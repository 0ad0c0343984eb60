//! What must never be on the wire.

use super::StreamWorld;
use crate::frame::{CallId, DataHead, EndHead, FrameHeader, HEADER_BYTES, Kind, Outcome, RequestHead, ResponseHead};
use bytes::Buf;

impl StreamWorld {
    /// What must never be on the wire: a cancel or a stream's frame before its request or behind its terminal, a second
    /// request, terminal or end, an item behind the end of its stream, an item before the request was whole.
    pub(super) fn judge(&mut self, side: usize) {
        let (bytes, rules, seen) = &mut self.judges[side];
        while let Some(head) = bytes.first_chunk::<HEADER_BYTES>() {
            let header = FrameHeader::decode(head, rules).expect("a frame that keeps the rules");
            let len = header.len as usize;
            let Some(payload) = bytes.get(HEADER_BYTES..HEADER_BYTES + len) else { return };
            if header.call != CallId::NONE {
                let seen = seen.entry(header.call.as_u64()).or_default();
                let stream = header.stream;
                match header.kind {
                    Kind::Request => {
                        let head = RequestHead::decode(&header, payload, rules).unwrap();
                        assert!(!seen.begun, "a second request");
                        seen.begun = true;
                        seen.pieces_left = head.total.map_or(0, |total| total as usize - head.body.len());
                    }
                    Kind::Response => {
                        let head = ResponseHead::decode(&header, payload, rules).unwrap();
                        assert!(!seen.begun && !seen.over, "a second response");
                        seen.begun = true;
                        seen.over = !head.streamed;
                    }
                    Kind::Cancel => {
                        assert!(seen.begun && !seen.over, "a cancel without its request, or twice");
                        (seen.over, seen.pieces_left) = (true, 0);
                    }
                    Kind::Data => {
                        assert!(seen.begun && !seen.over && seen.pieces_left == 0, "an item out of place: {header:?}");
                        assert!(!seen.ended.contains(&stream), "an item behind its end");
                        let head = DataHead::decode(&header, payload, rules).unwrap();
                        seen.pieces_left = head.total.map_or(0, |total| total as usize - head.body.len());
                    }
                    Kind::Fragment => {
                        assert!(seen.begun, "a piece of nothing");
                        seen.pieces_left -= len;
                        assert_eq!(header.has_more(), seen.pieces_left > 0);
                    }
                    Kind::End => {
                        assert!(seen.begun && !seen.over && !seen.ended.contains(&stream), "an end out of place");
                        let clean = EndHead::decode(&header, payload, rules).unwrap().outcome == Outcome::Ok;
                        assert!(!clean || seen.pieces_left == 0, "a clean end within an item");
                        seen.ended.push(stream);
                        seen.over |= stream == 0;
                    }
                    // Credit may cross anything.
                    Kind::Credit => {}
                    other => panic!("{other}"),
                }
            }
            bytes.advance(HEADER_BYTES + len);
        }
    }
}
