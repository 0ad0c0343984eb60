//! The indices by themselves: what is possible, what is not, who is woken when.

use super::*;
use proptest::prelude::*;

const CAPACITY: u64 = 8;

fn ring() -> (Words, Writer, Reader) {
    (Words::default(), Writer::new(CAPACITY), Reader::new(CAPACITY))
}

/// Guards the bounds: an empty ring has nothing to read, a full one no room.
#[test]
fn empty_and_full() {
    let (words, mut writer, mut reader) = ring();
    assert_eq!((writer.room(&words, 1), reader.available(&words, 1)), (Ok(CAPACITY), Ok(0)));
    writer.publish(&words, CAPACITY);
    assert_eq!((writer.room(&words, 1), reader.available(&words, 1)), (Ok(0), Ok(CAPACITY)));
    reader.release(&words, 1);
    assert_eq!((writer.room(&words, 1), reader.available(&words, 1)), (Ok(1), Ok(CAPACITY - 1)));
}

/// Guards that a step back, a step beyond what there can be, and nonsense end the ring with what was said.
#[test]
fn impossible_steps_are_told() {
    for said in [u64::MAX, CAPACITY + 4, 2, 1 << 63] {
        let (words, mut writer, mut reader) = ring();
        writer.publish(&words, 3);
        assert_eq!(reader.available(&words, 1), Ok(3));
        words.written.0.store(said, Ordering::Relaxed);
        let broken = reader.available(&words, 4).unwrap_err();
        assert_eq!(broken, Broken { index: "written", seen: 3, said, most: CAPACITY }, "{said}");
        assert!(broken.to_string().contains(&format!("from 3 to {said}")), "{broken}");
    }
    for said in [u64::MAX, 4, 1] {
        let (words, mut writer, mut reader) = ring();
        writer.publish(&words, 3);
        reader.available(&words, 1).unwrap();
        reader.release(&words, 2);
        assert_eq!(writer.room(&words, CAPACITY), Ok(CAPACITY - 1));
        words.read.0.store(said, Ordering::Relaxed);
        let broken = writer.room(&words, CAPACITY).unwrap_err();
        assert_eq!(broken, Broken { index: "read", seen: 2, said, most: 3 }, "{said}");
    }
}

/// Guards that indices may pass the end of their numbers.
#[test]
fn indices_wrap() {
    let words = Words::default();
    let start = u64::MAX - 2;
    words.written.0.store(start, Ordering::Relaxed);
    words.read.0.store(start, Ordering::Relaxed);
    let mut writer = Writer { at: start, ..Writer::new(CAPACITY) };
    let mut reader = Reader { at: start, ..Reader::new(CAPACITY) };
    for _ in 0..4 {
        writer.publish(&words, 5);
        assert_eq!(reader.available(&words, 1), Ok(5));
        reader.release(&words, 5);
        assert_eq!(writer.room(&words, CAPACITY), Ok(CAPACITY));
    }
}

/// Guards that a reader is rung for once for each sleep, and never while it is awake.
#[test]
fn a_reader_is_woken_once() {
    let (words, mut writer, mut reader) = ring();
    assert!(!writer.publish(&words, 1), "it never slept");
    assert_eq!(reader.sleep(&words), Ok(false), "there is something");
    assert!(!writer.publish(&words, 1), "it did not sleep");
    assert_eq!(reader.available(&words, 2), Ok(2));
    reader.release(&words, 2);
    assert_eq!(reader.sleep(&words), Ok(true));
    assert!(writer.publish(&words, 1));
    assert!(!writer.publish(&words, 1), "it was woken");
    assert_eq!(reader.available(&words, 2), Ok(2));
    reader.release(&words, 2);
    assert_eq!(reader.sleep(&words), Ok(true));
    reader.rouse(&words);
    assert!(!writer.publish(&words, 1), "something else woke it");
}

/// Guards that a writer is rung for when a quarter of its ring is free, and not before.
#[test]
fn a_writer_is_woken_for_a_quarter() {
    let (words, mut writer, mut reader) = ring();
    writer.publish(&words, CAPACITY);
    assert_eq!(writer.sleep(&words), Ok(true));
    assert_eq!(reader.available(&words, 1), Ok(CAPACITY));
    assert!(!reader.release(&words, 1));
    assert!(reader.release(&words, 1));
    assert!(!reader.release(&words, 1), "it was woken");
    assert_eq!(writer.sleep(&words), Ok(false), "there is room");
}

proptest! {
    /// Guards the arithmetic against a model that counts: whatever the steps of the two sides, what is there and what room is left
    /// are the model's, whoever is asleep is rung for exactly when the model says so.
    #[test]
    fn steps_agree_with_a_model(steps in prop::collection::vec((any::<bool>(), 1..=CAPACITY, any::<bool>()), 0..200)) {
        let (words, mut writer, mut reader) = ring();
        let (mut held, mut reader_sleeps, mut writer_sleeps) = (0, false, false);
        for (writes, wanted, sleeps) in steps {
            if writes {
                prop_assert_eq!(writer.room(&words, CAPACITY), Ok(CAPACITY - held));
                let bytes = wanted.min(CAPACITY - held);
                if bytes > 0 {
                    held += bytes;
                    prop_assert_eq!(writer.publish(&words, bytes), reader_sleeps);
                    reader_sleeps = false;
                } else if sleeps {
                    prop_assert_eq!(writer.sleep(&words), Ok(true));
                    writer_sleeps = true;
                }
            } else {
                prop_assert_eq!(reader.available(&words, CAPACITY), Ok(held));
                let bytes = wanted.min(held);
                if bytes > 0 {
                    held -= bytes;
                    let rings = writer_sleeps && CAPACITY - held >= CAPACITY / WAKE_PARTS;
                    prop_assert_eq!(reader.release(&words, bytes), rings);
                    writer_sleeps &= !rings;
                } else if sleeps {
                    prop_assert_eq!(reader.sleep(&words), Ok(true));
                    reader_sleeps = true;
                }
            }
        }
    }

    /// Guards that no words of a peer make either side see more than its ring holds.
    #[test]
    fn random_words_stay_within_the_ring(said in prop::collection::vec(any::<u64>(), 1..20), small in any::<bool>()) {
        let (words, mut writer, mut reader) = ring();
        for said in said {
            let said = if small { said % (3 * CAPACITY) } else { said };
            words.written.0.store(said, Ordering::Relaxed);
            words.read.0.store(said, Ordering::Relaxed);
            match reader.available(&words, CAPACITY) {
                Ok(there) => prop_assert!(there <= CAPACITY),
                Err(_) => prop_assert!(said.wrapping_sub(reader.at) > CAPACITY || said.wrapping_sub(reader.at) < reader.unread),
            }
            if let Ok(room) = writer.room(&words, CAPACITY) {
                prop_assert!(room <= CAPACITY);
            }
        }
    }
}
