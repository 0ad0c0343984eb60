//! What is kept of an output while it comes: its beginning and its end, whatever its length.

use punctual_admin::Captured;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::task::JoinHandle;

/// The first so many bytes are kept ...
const HEAD_BYTES_MAX: usize = 16 << 10;
/// ... and the last.
const TAIL_BYTES_MAX: usize = 16 << 10;

/// Beginning and end.
#[derive(Debug, Default)]
struct Kept {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    bytes: u64,
}

impl Kept {
    fn add(&mut self, bytes: &[u8]) {
        self.bytes = self.bytes.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        let room = HEAD_BYTES_MAX.saturating_sub(self.head.len()).min(bytes.len());
        let (head, rest) = bytes.split_at(room);
        self.head.extend_from_slice(head);
        self.tail.extend(rest);
        let over = self.tail.len().saturating_sub(TAIL_BYTES_MAX);
        self.tail.drain(..over);
    }

    fn captured(&self) -> Captured {
        let kept = u64::try_from(self.head.len() + self.tail.len()).unwrap_or(u64::MAX);
        let left_out = self.bytes.saturating_sub(kept);
        let mut bytes = self.head.clone();
        if left_out > 0 {
            bytes.extend_from_slice(format!("\n[... {left_out} bytes left out ...]\n").as_bytes());
        }
        bytes.extend(&self.tail);
        Captured { text: String::from_utf8_lossy(&bytes).into_owned(), bytes: self.bytes, cut: left_out > 0 }
    }
}

/// An output that is being read.
#[derive(Debug, Default)]
pub(super) struct Capture {
    kept: Arc<Mutex<Kept>>,
    reader: Option<JoinHandle<()>>,
}

impl Capture {
    /// Reads `output` from now on.
    pub(super) fn of(mut output: impl AsyncRead + Send + Unpin + 'static) -> Self {
        let kept = Arc::new(Mutex::new(Kept::default()));
        let ours = Arc::clone(&kept);
        let reader = tokio::spawn(async move {
            let mut buffer = vec![0; 8 << 10];
            while let Ok(count @ 1..) = output.read(&mut buffer).await {
                let bytes = buffer.get(..count).unwrap_or_default();
                ours.lock().unwrap_or_else(PoisonError::into_inner).add(bytes);
            }
        });
        Capture { kept, reader: Some(reader) }
    }

    /// What came until the end, or until `wait` has passed.
    pub(super) async fn finish(mut self, wait: Duration) -> Captured {
        if let Some(reader) = &mut self.reader {
            let _ = tokio::time::timeout(wait, reader).await;
        }
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).captured()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        if let Some(reader) = &self.reader {
            reader.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However much comes and in whatever pieces, the first and the last are kept, and what is between is counted.
    #[test]
    fn both_ends_are_kept() {
        let whole: Vec<u8> = (0..100_000_u32).map(|at| b'a' + u8::try_from(at % 26).unwrap()).collect();
        for piece in [1, 7, 4_096, 100_000] {
            let mut kept = Kept::default();
            for bytes in whole.chunks(piece) {
                kept.add(bytes);
                assert!(kept.head.len() <= HEAD_BYTES_MAX && kept.tail.len() <= TAIL_BYTES_MAX);
            }
            let captured = kept.captured();
            let left_out = whole.len() - HEAD_BYTES_MAX - TAIL_BYTES_MAX;
            let marked = format!("\n[... {left_out} bytes left out ...]\n");
            assert!(captured.cut && captured.bytes == 100_000);
            let (head, tail) = captured.text.split_once(&marked).unwrap();
            assert_eq!(head.as_bytes(), &whole[..HEAD_BYTES_MAX]);
            assert_eq!(tail.as_bytes(), &whole[whole.len() - TAIL_BYTES_MAX..]);
        }
    }

    /// An output within the bound is kept whole, and bytes that are no text do not spoil it.
    #[test]
    fn short_outputs_are_whole() {
        let mut kept = Kept::default();
        kept.add(b"a\xffb");
        let captured = kept.captured();
        assert_eq!((captured.text.as_str(), captured.bytes, captured.cut), ("a\u{fffd}b", 3, false));
        assert_eq!(Kept::default().captured(), Captured::default());
    }
}
