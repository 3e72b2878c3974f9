//! Times as people say them.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// How long ago an RFC 3339 time was; the time as it is written when that is no help.
pub(super) fn ago(time: &str, now: OffsetDateTime) -> String {
    match OffsetDateTime::parse(time, &Rfc3339) {
        Ok(then) => seconds_ago((now - then).whole_seconds()).unwrap_or_else(|| time.chars().take(10).collect()),
        Err(_) => super::report::plain(time),
    }
}

/// By the clock of this machine; the server's may differ a little.
pub(super) fn now() -> OffsetDateTime {
    #[expect(clippy::disallowed_methods, reason = "the program is not the registry: it tells a person how long ago")]
    OffsetDateTime::now_utc()
}

fn seconds_ago(seconds: i64) -> Option<String> {
    let (count, unit) = match seconds {
        _ if seconds < 10 => return Some("just now".to_owned()),
        _ if seconds < MINUTE => (seconds, "second"),
        _ if seconds < HOUR => (seconds / MINUTE, "minute"),
        _ if seconds < DAY => (seconds / HOUR, "hour"),
        _ if seconds < 30 * DAY => (seconds / DAY, "day"),
        _ => return None,
    };
    Some(format!("{count} {unit}{} ago", if count == 1 { "" } else { "s" }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_as_people_say_them() {
        let now = OffsetDateTime::parse("2026-06-11T12:00:00Z", &Rfc3339).unwrap();
        for (time, said) in [
            ("2026-06-11T12:03:00Z", "just now"),
            ("2026-06-11T11:59:48.5Z", "11 seconds ago"),
            ("2026-06-11T11:58:59Z", "1 minute ago"),
            ("2026-06-11T13:00:00+03:00", "2 hours ago"),
            ("2026-06-09T12:00:00Z", "2 days ago"),
            ("2025-12-24T18:00:00Z", "2025-12-24"),
            ("yesterday\u{1b}[2J", "yesterday\u{fffd}[2J"),
        ] {
            assert_eq!(ago(time, now), said);
        }
    }
}
