//! P13: every input is answered.

use super::*;

#[test]
fn p13_every_input_is_answered() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bits = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..20_000 {
        let expiry = [OBSERVED, BOUNDED, Expiry::Store][round % 3];
        let mut settings = Settings::new(Ttl::For(Span::from_millis(10 + bits() % 5_000)), expiry);
        if settings.ttl == Ttl::For(Span::from_millis(10)) || bits() % 9 == 0 {
            settings.ttl = Ttl::Forever;
        }
        let Ok(config) = tenure_core::config::Config::new(settings) else { continue };
        let mut lease = tenure_core::lease::Lease::new(config);
        let mut last = None;
        for _ in 0..40 {
            let wild =
                |bits: u64| if bits & 7 == 0 { u64::MAX - bits % 3 } else { bits % 100_000_000 };
            let now = Now {
                mono: Instant::from_micros(wild(bits())),
                wall: (bits() % 5 > 0).then(|| Wall::from_micros(wild(bits()))),
                entropy: u128::from(bits() % 4),
            };
            let record = Record {
                holder: [Holder::Nobody, Holder::Us, Holder::OfferedToUs, Holder::Other]
                    [bits() as usize % 4],
                version: Version::from_bits(u128::from(bits() % 4)),
                identity: Identity(u128::from(bits() % 3)),
                fence: (bits() % 2 == 0).then_some(Fence(u64::MAX)),
                term: match bits() % 6 {
                    0 => Term::Over,
                    1 => Term::Observed { ttl: Span::from_micros(wild(bits())) },
                    2 => Term::Bounded {
                        ttl: Span::from_micros(wild(bits())),
                        expires_at: Wall::from_micros(wild(bits())),
                        max_clock_skew: Span::from_micros(wild(bits())),
                    },
                    3 => Term::WallOnly { expires_at: Wall::from_micros(wild(bits())) },
                    4 => Term::Resting { rest: Span::from_micros(wild(bits())), not_before: None },
                    _ => Term::Remaining {
                        left: (bits() % 3 > 0).then(|| Span::from_micros(wild(bits()))),
                    },
                },
            };
            let outcome = match bits() % 8 {
                0 => Outcome::Applied { fence: Some(Fence(bits())) },
                1 => Outcome::Refused { current: None },
                2 | 3 => Outcome::Refused { current: Some(record) },
                4 => Outcome::Found { record },
                5 => Outcome::Unknown,
                6 => Outcome::Unavailable,
                _ => Outcome::Denied,
            };
            let input = match bits() % 14 {
                0 => Input::Acquire { wait: Wait::Forever },
                1 => Input::Acquire { wait: Wait::For(Span::from_micros(wild(bits()))) },
                2 => Input::Acquire { wait: Wait::No },
                3 => Input::Release,
                4 => Input::Cancel,
                5 => Input::HandOver,
                6 => Input::Break { seen: record.identity },
                7 => Input::Renew {
                    terms: config.terms(Ttl::For(Span::from_micros(wild(bits())))).ok(),
                },
                8 => Input::Wake,
                9 => Input::Tick,
                _ => match last {
                    Some(id) => Input::Completed { id, outcome },
                    None => Input::Tick,
                },
            };
            let output = lease.handle(now, input);
            last = output.call.map(|call| call.id).or(last);
            assert!(output.wake_at.is_none_or(|at| at >= now.mono));
            let _ = lease.grant(now);
            let _ = lease.observation(now);
        }
    }
}
