//! The 16-byte calendar time of the Trace object (a Windows SYSTEMTIME).

use std::fmt;

/// A UTC calendar time with millisecond precision, exactly as the Trace object stores it.
///
/// A reader keeps odd values (month 13, millisecond 1000) as they stand; [`UtcTime::is_valid`] tells.
// spec: NT4-TRACE-1
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct UtcTime {
    /// Full year, for example 2026.
    pub year: u16,
    /// 1 to 12.
    pub month: u16,
    /// 0 (Sunday) to 6.
    pub day_of_week: u16,
    /// Day of the month, 1 to 31.
    pub day: u16,
    /// 0 to 23.
    pub hour: u16,
    /// 0 to 59.
    pub minute: u16,
    /// 0 to 59.
    pub second: u16,
    /// 0 to 999.
    pub millisecond: u16,
}

const MILLIS_PER_DAY: i64 = 86_400_000;
/// 9999-12-31T23:59:59.999Z, the last instant the readers' calendar type can hold.
const LAST_UNIX_MILLIS: i64 = 253_402_300_799_999;

impl UtcTime {
    /// The calendar time of a Unix time in milliseconds. Times outside 1970 to 9999 are moved to the nearest end.
    pub fn from_unix_millis(unix_millis: i64) -> Self {
        let millis = unix_millis.clamp(0, LAST_UNIX_MILLIS);
        let (days, in_day) = (millis / MILLIS_PER_DAY, millis % MILLIS_PER_DAY);
        let (year, month, day) = civil_from_days(days);
        let narrow = |value: i64| value as u16; // clamped to year 9999, so every field is small
        Self {
            year: narrow(year),
            month: narrow(month),
            day_of_week: narrow((days + 4) % 7), // 1 January 1970 was a Thursday
            day: narrow(day),
            hour: narrow(in_day / 3_600_000),
            minute: narrow(in_day / 60_000 % 60),
            second: narrow(in_day / 1_000 % 60),
            millisecond: narrow(in_day % 1_000),
        }
    }

    /// Milliseconds since 1970. Total: an odd field value simply adds up (millisecond 1000 is one second more).
    pub fn to_unix_millis(&self) -> i64 {
        let days = days_from_civil(i64::from(self.year), i64::from(self.month), i64::from(self.day));
        let seconds = i64::from(self.hour) * 3_600 + i64::from(self.minute) * 60 + i64::from(self.second);
        days * MILLIS_PER_DAY + seconds * 1_000 + i64::from(self.millisecond)
    }

    /// True when every field is in its range and the date exists (the day of the week is not checked against it).
    pub fn is_valid(&self) -> bool {
        let days_in_month = match self.month {
            2 if self.year.is_multiple_of(4)
                && (!self.year.is_multiple_of(100) || self.year.is_multiple_of(400)) =>
            {
                29
            }
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            1..=12 => 31,
            _ => 0,
        };
        (1..=9999).contains(&self.year)
            && (1..=days_in_month).contains(&self.day)
            && self.day_of_week <= 6
            && self.hour <= 23
            && self.minute <= 59
            && self.second <= 59
            && self.millisecond <= 999
    }

    pub(crate) fn to_bytes(self) -> [u8; 16] {
        let words = [
            self.year,
            self.month,
            self.day_of_week,
            self.day,
            self.hour,
            self.minute,
            self.second,
            self.millisecond,
        ];
        let mut bytes = [0; 16];
        for (pair, word) in bytes.chunks_exact_mut(2).zip(words) {
            pair.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    pub(crate) fn from_bytes(bytes: [u8; 16]) -> Self {
        let word = |index: usize| u16::from_le_bytes([bytes[2 * index], bytes[2 * index + 1]]);
        Self {
            year: word(0),
            month: word(1),
            day_of_week: word(2),
            day: word(3),
            hour: word(4),
            minute: word(5),
            second: word(6),
            millisecond: word(7),
        }
    }
}

impl fmt::Display for UtcTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
            self.year, self.month, self.day, self.hour, self.minute, self.second, self.millisecond
        )
    }
}

/// Proleptic Gregorian date of a day number counted from 1970-01-01 (days from 0 on). Years start in March inside, so that the
/// leap day is the last day of its year.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let shifted_year = if month <= 2 { year - 1 } else { year };
    let era = shifted_year.div_euclid(400);
    let year_of_era = shifted_year.rem_euclid(400);
    let shifted_month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_instants_convert_both_ways() {
        // The three dates stand in public sample files; the weekday is the file's own.
        for (millis, text, day_of_week) in [
            (0, "1970-01-01T00:00:00.000Z", 4),
            (1_520_617_689_998, "2018-03-09T17:48:09.998Z", 5),
            (1_623_232_105_902, "2021-06-09T09:48:25.902Z", 3),
            (1_709_164_800_000, "2024-02-29T00:00:00.000Z", 4),
            (LAST_UNIX_MILLIS, "9999-12-31T23:59:59.999Z", 5),
        ] {
            let time = UtcTime::from_unix_millis(millis);
            assert_eq!((time.to_string().as_str(), time.day_of_week), (text, day_of_week));
            assert_eq!(time.to_unix_millis(), millis);
            assert!(time.is_valid(), "{time}");
            assert_eq!(UtcTime::from_bytes(time.to_bytes()), time);
        }
    }

    #[test]
    fn odd_fields_are_kept_and_told() {
        let good = UtcTime::from_unix_millis(1_709_164_800_000);
        for odd in [
            UtcTime { millisecond: 1000, ..good },
            UtcTime { month: 13, ..good },
            UtcTime { day: 30, ..good },
            UtcTime { day: 0, ..good },
            UtcTime { day_of_week: 7, ..good },
        ] {
            assert!(!odd.is_valid(), "{odd}");
        }
        assert_eq!(UtcTime { millisecond: 1000, ..good }.to_unix_millis(), 1_709_164_801_000);
    }
}
