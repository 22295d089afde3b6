//! Durations as kubectl writes them.

use framework_api::Time;
use jiff::Timestamp;

/// How long ago `since` was, such as `5m3s`.
pub fn age(since: Time, now: Timestamp) -> String {
    seconds(Time::floor(now).since(since).as_secs())
}

/// A number of seconds in two units at most: the larger it is, the coarser.
pub fn seconds(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let two = |large: i64, unit: char, small: i64, smaller: char| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit}{small}{smaller}"),
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => two(minutes, 'm', seconds % 60, 's'),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, 'h', minutes % 60, 'm'),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, 'd', hours % 24, 'h'),
        _ => format!("{days}d"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_duration_is_as_coarse_as_kubectl_writes_it() {
        let written = [-5, 119, 120, 303, 600, 10_799, 10_860, 28_800, 176_400, 800_000].map(super::seconds);
        let expected = ["0s", "119s", "2m", "5m3s", "10m", "179m", "3h1m", "8h", "2d1h", "9d"];
        assert_eq!(written, expected);
    }
}
