//! Cron patterns and crontabs: what is understood gives slots in order, each behind the instant that was asked about.

#![no_main]

use punctual_clock::Timestamp;
use punctual_task::schedule::{CompiledRule, Cron, DayMode, crontab};

const ZONES: [&str; 5] = ["UTC", "Europe/Rome", "America/New_York", "Africa/Cairo", "Pacific/Apia"];

/// Slots that one run looks at: a rule may search for seconds between two of them.
const SLOTS: usize = 4;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((choice, text)) = bytes.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let zone = ZONES[usize::from(*choice) % ZONES.len()];
    for format in [crontab::Format::User, crontab::Format::System] {
        let _ = crontab::parse(text, format, zone);
    }
    let mode = if choice & 0x80 == 0 { DayMode::default() } else { DayMode::And };
    let Ok(cron) = Cron::parse_with(text, mode) else { return };
    let again = Cron::parse_with(cron.text(), mode);
    assert!(again.is_ok_and(|again| again.text() == cron.text()), "{text:?}");
    // From 1970 into 2106.
    let from = Timestamp::from_secs(i64::from(u32::from_le_bytes([*choice, 11, 200, choice.wrapping_mul(31)])));
    let Ok(rule) = CompiledRule::new(&cron.zone(zone), from) else { return };
    let mut last = from;
    for slot in rule.slots_after(from).take(SLOTS) {
        let Ok(slot) = slot else { break };
        assert!(slot.at > last, "{text:?} in {zone}: {slot:?} does not follow {last:?}");
        assert_eq!(rule.resolve(slot.key), Some(slot.at), "{text:?} in {zone}");
        last = slot.at;
    }
});
