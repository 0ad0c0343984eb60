//! A reference model of schedule time: it looks at every minute of a window and asks whether the rule holds.
//!
//! Written from the rules' description and on the time library's own answers, not from the code under test: no masks,
//! no stretches, no search. Slow, and easy to believe.

use jiff::civil::{Date, DateTime, Weekday};
use jiff::tz::{Offset, TimeZone};
use jiff::{Span, Timestamp as Stamp, ToSpan};
use punctual_task::schedule::{Fold, Gap};

/// A slot as the model sees it: instant in microseconds, key, whether it is the mark of a skipped gap.
pub(crate) type Seen = (i64, i64, bool);

/// An item of a day-of-month field.
#[derive(Debug, Clone)]
pub(crate) enum DateItem {
    Days(Vec<i8>),
    BeforeLast(i8),
    Nearest(i8),
    LastWorkday,
}

/// An item of a day-of-week field; Sunday is 0.
#[derive(Debug, Clone)]
pub(crate) enum WeekdayItem {
    Days(Vec<i8>),
    Last(i8),
    Nth(i8, i8),
}

/// What a cron expression means, as its generator knows it.
#[derive(Debug, Clone)]
pub(crate) struct CronModel {
    pub(crate) seconds: Vec<i8>,
    pub(crate) minutes: Vec<i8>,
    pub(crate) hours: Vec<i8>,
    pub(crate) dates: Vec<DateItem>,
    pub(crate) months: Vec<i8>,
    pub(crate) weekdays: Vec<WeekdayItem>,
    /// One of the two day fields is enough.
    pub(crate) either: bool,
    pub(crate) elapsed: bool,
}

/// What a calendar rule means.
#[derive(Debug, Clone)]
pub(crate) struct CalendarModel {
    pub(crate) every: i64,
    pub(crate) unit: UnitModel,
    pub(crate) anchor: Date,
    pub(crate) not_before: Option<Date>,
    /// Seconds of the day.
    pub(crate) times: Vec<i64>,
}

#[derive(Debug, Clone)]
pub(crate) enum UnitModel {
    Days,
    Weeks(Vec<Weekday>),
    Months(Vec<i8>, OverflowModel),
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum OverflowModel {
    Skip,
    LastDay,
    RollOver,
}

#[derive(Debug, Clone)]
pub(crate) enum KindModel {
    Cron(CronModel),
    Calendar(CalendarModel),
    /// Anchor and step in microseconds.
    Interval(i64, i64),
}

/// A rule with everything that decides about its slots.
#[derive(Debug, Clone)]
pub(crate) struct RuleModel {
    pub(crate) kind: KindModel,
    pub(crate) zone: TimeZone,
    pub(crate) gap: Gap,
    pub(crate) fold: Fold,
    pub(crate) start: Option<i64>,
    pub(crate) until: Option<i64>,
    pub(crate) without_weekdays: Vec<Weekday>,
    /// Civil windows.
    pub(crate) without_civil: Vec<(DateTime, DateTime)>,
    /// Windows in microseconds UTC.
    pub(crate) without_utc: Vec<(i64, i64)>,
}

fn micros(stamp: Stamp) -> i64 {
    stamp.as_microsecond()
}

/// A wall time read as if it were UTC, in microseconds.
fn civil_micros(civil: DateTime) -> i64 {
    micros(Offset::UTC.to_timestamp(civil).unwrap())
}

fn month_index(date: Date) -> i64 {
    i64::from(date.year()) * 12 + i64::from(date.month())
}

fn sunday_zero(date: Date) -> i8 {
    date.weekday().to_sunday_zero_offset()
}

impl CronModel {
    fn date(&self, date: Date) -> bool {
        let last = date.days_in_month();
        let workdays =
            || (1..=last).filter(|day| (1..=5).contains(&sunday_zero(date.with().day(*day).build().unwrap())));
        let by_date = self.dates.iter().any(|item| match item {
            DateItem::Days(days) => days.contains(&date.day()),
            DateItem::BeforeLast(before) => date.day() == last - before,
            DateItem::Nearest(day) => *day <= last && workdays().min_by_key(|d| (d - day).abs()) == Some(date.day()),
            DateItem::LastWorkday => workdays().max() == Some(date.day()),
        });
        let weekday = sunday_zero(date);
        let by_weekday = self.weekdays.iter().any(|item| match item {
            WeekdayItem::Days(days) => days.contains(&weekday),
            WeekdayItem::Last(day) => *day == weekday && date.day() + 7 > last,
            WeekdayItem::Nth(day, nth) => *day == weekday && (date.day() - 1) / 7 + 1 == *nth,
        });
        self.months.contains(&date.month()) && if self.either { by_date || by_weekday } else { by_date && by_weekday }
    }
}

impl CalendarModel {
    fn date(&self, date: Date) -> bool {
        if self.not_before.is_some_and(|first| date < first) {
            return false;
        }
        let days = |from: Date, to: Date| i64::from((to - from).get_days());
        match &self.unit {
            UnitModel::Days => days(self.anchor, date) % self.every == 0,
            UnitModel::Weeks(on) => {
                let monday = |date: Date| date - i64::from(date.weekday().to_monday_zero_offset()).days();
                on.contains(&date.weekday()) && days(monday(self.anchor), monday(date)) / 7 % self.every == 0
            }
            UnitModel::Months(on, overflow) => {
                let here = date.first_of_month();
                [here, here - 1.month()].into_iter().any(|month| {
                    (month_index(month) - month_index(self.anchor)) % self.every == 0
                        && on.iter().any(|day| {
                            let last = month.days_in_month();
                            let meant = match overflow {
                                _ if *day <= last => Some(month + Span::new().days(day - 1)),
                                OverflowModel::Skip => None,
                                OverflowModel::LastDay => Some(month.last_of_month()),
                                // Counting on from the first of the month lands in the next one.
                                OverflowModel::RollOver => Some(month + Span::new().days(day - 1)),
                            };
                            meant == Some(date)
                        })
                })
            }
        }
    }
}

impl RuleModel {
    /// All slots in `from..to` (microseconds), in order, but at most about `enough`.
    pub(crate) fn slots(&self, from: i64, to: i64, enough: usize) -> Vec<Seen> {
        let from = self.start.map_or(from, |start| start.max(from));
        let to = self.until.map_or(to, |until| until.min(to));
        let mut slots = match &self.kind {
            KindModel::Interval(anchor, step) => self.interval(*anchor, *step, from, to),
            KindModel::Cron(cron) if cron.elapsed => self.elapsed(cron, from, to, enough),
            KindModel::Cron(cron) => {
                let mut times = Vec::new();
                for hour in &cron.hours {
                    for minute in &cron.minutes {
                        for second in &cron.seconds {
                            times.push(i64::from(*hour) * 3600 + i64::from(*minute) * 60 + i64::from(*second));
                        }
                    }
                }
                self.nominal(|date| cron.date(date), &times, from, to)
            }
            KindModel::Calendar(calendar) => self.nominal(|date| calendar.date(date), &calendar.times, from, to),
        };
        slots.retain(|(at, ..)| (from..to).contains(at));
        slots.sort_unstable();
        // What lands on one instant is one slot, known by its earliest wall time.
        slots.dedup_by_key(|(at, ..)| *at);
        slots
    }

    fn leaves_out(&self, civil: DateTime) -> bool {
        self.without_weekdays.contains(&civil.weekday())
            || self.without_civil.iter().any(|(from, to)| *from <= civil && civil < *to)
    }

    fn leaves_out_instant(&self, at: i64) -> bool {
        self.without_utc.iter().any(|(from, to)| *from <= at && at < *to)
    }

    fn civil(&self, at: i64) -> DateTime {
        self.zone.to_datetime(Stamp::from_microsecond(at).unwrap())
    }

    fn interval(&self, anchor: i64, step: i64, from: i64, to: i64) -> Vec<Seen> {
        let first = self.start.unwrap_or(anchor);
        let mut at = anchor + (from - anchor) / step * step - 2 * step;
        let mut slots = Vec::new();
        while at < to {
            if at >= from && at >= first && !self.leaves_out_instant(at) && !self.leaves_out(self.civil(at)) {
                slots.push((at, 2 * at, false));
            }
            at += step;
        }
        slots
    }

    fn elapsed(&self, cron: &CronModel, from: i64, to: i64, enough: usize) -> Vec<Seen> {
        const MINUTE: i64 = 60_000_000;
        let mut slots = Vec::new();
        let mut minute = from.div_euclid(MINUTE) * MINUTE;
        let mut today: Option<(Date, bool)> = None;
        // A minute's worth more than enough: the first minute may begin before the window.
        while minute < to && slots.len() < enough + 60 {
            let civil = self.civil(minute);
            let due = match today {
                Some((date, due)) if date == civil.date() => due,
                _ => cron.date(civil.date()),
            };
            today = Some((civil.date(), due));
            if due && cron.hours.contains(&civil.hour()) && cron.minutes.contains(&civil.minute()) {
                for second in &cron.seconds {
                    let at = minute + i64::from(*second) * 1_000_000;
                    let civil = civil.with().second(*second).build().unwrap();
                    if !self.leaves_out_instant(at) && !self.leaves_out(civil) {
                        slots.push((at, 2 * at, false));
                    }
                }
            }
            minute += MINUTE;
        }
        slots
    }

    fn nominal(&self, due: impl Fn(Date) -> bool, times: &[i64], from: i64, to: i64) -> Vec<Seen> {
        // A day more on either side than the widest jump of a clock.
        let mut date = self.civil(from).date() - 2.days();
        let end = self.civil(to).date() + 2.days();
        let mut slots = Vec::new();
        while date <= end {
            if due(date) {
                for time in times {
                    let civil = date.to_datetime(jiff::civil::Time::midnight()) + time.seconds();
                    if !self.leaves_out(civil) {
                        self.place(civil, &mut slots);
                    }
                }
            }
            date = date.tomorrow().unwrap();
        }
        slots
    }

    /// The slots of one wall time.
    fn place(&self, civil: DateTime, slots: &mut Vec<Seen>) {
        let local = civil_micros(civil);
        let key = 2 * local;
        let mut push = |instant: i64, slot: Seen| {
            if !self.leaves_out_instant(instant) {
                slots.push(slot);
            }
        };
        match (self.showing(local).as_slice(), self.fold) {
            ([], _) => {
                let (end, offset_before) = self.change_over(local);
                let shifted = local - offset_before;
                match self.gap {
                    Gap::End => push(end, (end, key, false)),
                    Gap::Shift => push(shifted, (shifted, key, false)),
                    Gap::Skip => push(end, (end - 1, key, true)),
                }
            }
            ([at], _) | ([at, _], Fold::First) | ([_, at], Fold::Second) => push(*at, (*at, key, false)),
            ([first, second], Fold::Both) => {
                push(*first, (*first, key, false));
                push(*second, (*second, key + 1, false));
            }
            (many, _) => panic!("{civil} is shown {} times", many.len()),
        }
    }

    /// The offset from UTC at an instant, the one thing about zones that is taken from the time library: its own
    /// answers about gaps and folds invent one in some zones' last year before their rules become regular.
    fn offset(&self, at: i64) -> i64 {
        i64::from(self.zone.to_offset(Stamp::from_microsecond(at).unwrap()).seconds()) * 1_000_000
    }

    /// The instants whose wall time is `local`: tried with every offset that is in force within a day of it.
    fn showing(&self, local: i64) -> Vec<i64> {
        let mut offsets: Vec<i64> = (-26..=26).map(|hours| self.offset(local + hours * 3_600_000_000)).collect();
        offsets.sort_unstable();
        offsets.dedup();
        let mut instants: Vec<i64> = offsets.iter().map(|offset| local - offset).collect();
        instants.retain(|at| at + self.offset(*at) == local);
        instants.sort_unstable();
        instants
    }

    /// The instant at which the wall clock jumps over `local`, and the offset before it.
    fn change_over(&self, local: i64) -> (i64, i64) {
        let mut at = local - 26 * 3_600_000_000;
        for step in [3_600_000_000, 60_000_000, 1_000_000] {
            // From here on the clock is past `local`, and was not a step before.
            while at + step + self.offset(at + step) <= local {
                at += step;
            }
        }
        (at + 1_000_000, self.offset(at))
    }
}
