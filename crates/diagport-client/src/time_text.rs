//! Text forms of durations: the collector's `dd:hh:mm:ss`, and `5s`.

use std::time::Duration;

use thiserror::Error;

/// A duration that was not taken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DurationTextError {
    /// It was not understood.
    #[error(
        "`{text}` is not a duration; write dd:hh:mm:ss, hh:mm:ss, or a number with ms, s, m, h or d (5 means 5s)"
    )]
    NotADuration {
        /// What was given.
        text: String,
    },
    /// More than about 100 years.
    #[error("`{text}` is more than 100 years")]
    TooLong {
        /// What was given.
        text: String,
    },
}

/// Reads `dd:hh:mm:ss`, `hh:mm:ss` (each with an optional fraction of a second and `dd.` for `dd:`), a number with a unit
/// (`500ms`, `5s`, `2m`, `1h`, `1d`) or a bare number of seconds.
///
/// # Errors
/// Anything else, parts out of range (hours ≥ 24 behind days, minutes or seconds ≥ 60), and more than about 100 years.
// spec: CLI-DURATION-1
pub fn parse_duration(text: &str) -> Result<Duration, DurationTextError> {
    let trimmed = text.trim();
    let seconds = if trimmed.contains(':') { colon_form(trimmed) } else { unit_form(trimmed) };
    let seconds = seconds.ok_or_else(|| DurationTextError::NotADuration { text: text.to_owned() })?;
    match Duration::try_from_secs_f64(seconds) {
        // Nothing is what 0 says, not what is too short for the clock.
        Ok(Duration::ZERO) if seconds > 0.0 => Ok(Duration::from_nanos(1)),
        Ok(duration) if seconds <= LONGEST_SECONDS => Ok(duration),
        _ => Err(DurationTextError::TooLong { text: text.to_owned() }),
    }
}

/// Far beyond any recording and far within what timers can add to a clock.
const LONGEST_SECONDS: f64 = 100.0 * 366.0 * 86_400.0;

fn unit_form(text: &str) -> Option<f64> {
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let factor = match &text[unit_at..] {
        "ms" => 0.001,
        "" | "s" | "sec" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return None,
    };
    Some(decimal(text[..unit_at].trim_end())? * factor)
}

fn colon_form(text: &str) -> Option<f64> {
    let parts: Vec<&str> = text.split(':').collect();
    let (days, hours, rest) = match *parts.as_slice() {
        [hours, minutes, seconds] => match hours.split_once('.') {
            Some((days, hours)) => (Some(days), hours, [minutes, seconds]),
            None => (None, hours, [minutes, seconds]),
        },
        [days, hours, minutes, seconds] => (Some(days), hours, [minutes, seconds]),
        _ => return None,
    };
    let days = days.map_or(Some(0.0), whole)?;
    let (hours, minutes, seconds) = (whole(hours)?, whole(rest[0])?, decimal(rest[1])?);
    let in_range = hours < 24.0 && minutes < 60.0 && seconds < 60.0;
    in_range.then_some(((days * 24.0 + hours) * 60.0 + minutes) * 60.0 + seconds)
}

fn whole(text: &str) -> Option<f64> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

fn decimal(text: &str) -> Option<f64> {
    let plain = text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    plain.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec-test: CLI-DURATION-1
    #[test]
    fn durations_are_read() {
        let cases = [
            ("00:00:00:02", 2_000),
            ("00:00:05", 5_000),
            ("01:02:03:04", 93_784_000),
            ("1.00:00:05", 86_405_000),
            ("00:00:02.5", 2_500),
            ("5s", 5_000),
            ("0.5s", 500),
            ("500ms", 500),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("1d", 86_400_000),
            ("5", 5_000),
            ("0", 0),
        ];
        for (text, expected_ms) in cases {
            assert_eq!(parse_duration(text).unwrap(), Duration::from_millis(expected_ms), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "bad",
            "5x",
            "-5",
            "-5s",
            "1:2",
            "00:00:60",
            "00:60:00",
            "24:00:00",
            "1:2:3:4:5",
            "::",
            "1::2",
            "inf",
            "NaN",
            "1e99",
            "٣s",
            "+5s",
            "5 5",
        ] {
            let error = parse_duration(text).unwrap_err();
            assert!(matches!(error, DurationTextError::NotADuration { .. }), "{text}: {error}");
        }
    }

    #[test]
    fn the_ends_of_the_range() {
        assert_eq!(parse_duration("0.0000000001"), Ok(Duration::from_nanos(1)));
        assert_eq!(parse_duration("36600d"), Ok(Duration::from_secs(36_600 * 86_400)));
        for text in ["36601d", "9999999999999d", "99999:00:00:00"] {
            let error = parse_duration(text).unwrap_err();
            assert!(matches!(error, DurationTextError::TooLong { .. }), "{text}: {error}");
        }
        let digits = "9".repeat(400);
        assert!(parse_duration(&digits).is_err());
    }
}
