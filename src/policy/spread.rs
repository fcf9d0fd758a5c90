//! Waits that are not the same for everybody.

use std::time::Duration;

/// A wait of about this length, up to a tenth shorter or longer: those who began together do not stay together.
pub fn spread(wait: Duration) -> Duration {
    wait.mul_f64(0.9 + fastrand::f64() / 5.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_about_as_long_as_it_was_and_seldom_the_same() {
        let waits: Vec<Duration> = (0..100).map(|_| spread(Duration::from_secs(10))).collect();
        assert!(waits.iter().all(|wait| (9.0..=11.0).contains(&wait.as_secs_f64())), "{waits:?}");
        assert!(waits.iter().any(|wait| *wait != waits[0]));
    }
}
