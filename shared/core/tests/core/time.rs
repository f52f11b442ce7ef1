//! Points in time as texts: each day of the calendar, each part of a day.

use core::time::Duration;

use stepwell_core::Timestamp;

const DAY: u64 = 86_400_000;

/// Counts the days as a person does with a calendar, over a whole cycle of leap years.
#[test]
fn every_day_of_four_centuries_has_its_date() {
    let (mut year, mut month, mut day) = (1970, 1, 1);
    let mut at = Timestamp(0);
    while year < 2375 {
        assert_eq!(at.to_string(), format!("{year}-{month:02}-{day:02}T00:00:00.000Z"));
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let days = match month {
            2 if leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        day += 1;
        if day > days {
            (month, day) = (month + 1, 1);
        }
        if month > 12 {
            (year, month) = (year + 1, 1);
        }
        at = at.plus(Duration::from_millis(DAY));
    }
}

#[test]
fn a_time_of_day_is_hours_minutes_seconds_and_milliseconds() {
    for (ms, text) in [
        (1, "00:00:00.001"),
        (59_999, "00:00:59.999"),
        (60_000, "00:01:00.000"),
        (3_599_999, "00:59:59.999"),
        (3_600_000, "01:00:00.000"),
        (45_296_789, "12:34:56.789"),
        (DAY - 1, "23:59:59.999"),
    ] {
        assert_eq!(Timestamp(ms).to_string(), format!("1970-01-01T{text}Z"));
        assert_eq!(Timestamp(20_000 * DAY + ms).to_string(), format!("2024-10-04T{text}Z"));
    }
    assert_eq!(Timestamp(253_402_300_799_999).to_string(), "9999-12-31T23:59:59.999Z");
}
